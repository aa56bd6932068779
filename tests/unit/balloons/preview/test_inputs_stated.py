"""What is stated: bounds as users are told them, and what stands before what was known."""

from dataclasses import fields, replace
from typing import Any

import pytest

from balloons.preview.inputs import (
    Ceiling,
    Known,
    PlanInputs,
    Source,
    Stated,
    StatedError,
    assumed_inputs,
    check,
    join_cpu_s,
    with_stated,
)

DAY_S, HOUR_S = 86_400.0, 3_600.0
TOLD: dict[str, tuple[float, float, str]] = {
    "nodes": (0, 1e6, "a whole number from 0 to 1,000,000"),
    "boot": (0.1, DAY_S, "0.1s to 24h00m"),
    "boot_spread": (0, 0.3, "a number from 0 to 0.3"),
    "join": (0.1, HOUR_S, "0.1s to 1h00m"),
    "reaction": (0, HOUR_S, "0s to 1h00m"),
    "servers": (1, 100, "a whole number from 1 to 100"),
    "server_cores": (0.1, 1000, "a number from 0.1 to 1,000"),
    "background": (0, 0.9, "a number from 0 to 0.9"),
    "join_cost": (0.001, 100, "a number from 0.001 to 100"),
    "daemonsets": (0, 200, "a number from 0 to 200"),
    "controller_qps": (0.1, 1e5, "a number from 0.1 to 100,000"),
    "scheduler_qps": (0.1, 1e5, "a number from 0.1 to 100,000"),
    "launch_rate": (0.001, 1e5, "a number from 0.001 to 100,000"),
    "launch_burst": (0, 1e5, "a whole number from 0 to 100,000"),
    "kill_timer": (1, DAY_S, "1s to 24h00m"),
    "max_nodes": (0, 1e6, "a whole number from 0 to 1,000,000"),
}
"""Both ends, and how a refusal tells them."""


def stated(name: str, value: float) -> Stated:
    given: dict[str, Any] = {name: value}
    return Stated(**given)


def test_every_figure_has_bounds() -> None:
    assert TOLD.keys() == {each.name for each in fields(Stated)}
    assert check(Stated()) == Stated()


@pytest.mark.parametrize("name", TOLD)
def test_both_ends_are_accepted_and_nothing_beyond(name: str) -> None:
    low, high, told = TOLD[name]
    for value in (low, high):
        assert check(stated(name, value)) == stated(name, value)
    for value in (low - 1e-3, high * 1.001, float("nan")):
        with pytest.raises(StatedError) as error:
            check(stated(name, value))
        assert str(error.value).startswith(name.replace("_", "-"))
        assert str(error.value).endswith(f": accepted: {told}")


@pytest.mark.parametrize("name", ["nodes", "servers", "launch_burst", "max_nodes"])
def test_of_what_has_no_half_a_whole_number_is_accepted(name: str) -> None:
    """`--servers 2.5` was shown as that, and reckoned with as two."""
    with pytest.raises(StatedError, match=f"^{name.replace('_', '-')} 2.5: accepted: a whole number from"):
        check(stated(name, 2.5))
    assert check(stated(name, 3.0)) == stated(name, 3.0)
    assert check(Stated(daemonsets=6.5)) == Stated(daemonsets=6.5), "a mean of all nodes may be in between"


def known(value: float, source: Source = Source.LEARNED) -> Known:
    return replace(Known.learned(value, "here"), source=source)


def inputs(**servers: Known) -> PlanInputs:
    found = assumed_inputs(nodes=20)
    return replace(found, servers=replace(found.servers, **servers))


@pytest.mark.parametrize(
    ("count", "cores", "changes", "cost"),
    [
        (Source.ASSUMED, Source.ASSUMED, {"servers": 4}, 2.0),
        (Source.ASSUMED, Source.ASSUMED, {"server_cores": 12}, 3.0),
        (Source.ASSUMED, Source.ASSUMED, {"servers": 4, "server_cores": 12}, 6.0),
        (Source.LEARNED, Source.ASSUMED, {"servers": 4, "server_cores": 12}, 3.0),
        (Source.LEARNED, Source.LEARNED, {"servers": 4, "server_cores": 12}, 1.0),
        (Source.ASSUMED, Source.ASSUMED, {"join_cost": 0.5}, 0.5),
    ],
)
def test_a_learned_cost_was_a_share_of_servers_whose_size_was_a_guess(
    count: Source, cores: Source, changes: dict[str, float], cost: float
) -> None:
    """One core-second a join, learned on what was taken for two servers of four cores."""
    given = inputs(count=known(2, count), cores=known(4, cores), join_cpu_s=known(1.0))
    assert with_stated(given, Stated(**changes)).servers.join_cpu_s.value == pytest.approx(cost)


def test_daemon_sets_change_what_a_join_costs_unless_that_is_known() -> None:
    assert with_stated(inputs(), Stated(daemonsets=20)).servers.join_cpu_s == join_cpu_s(20)
    assert with_stated(inputs(join_cpu_s=known(1.0)), Stated(daemonsets=20)).servers.join_cpu_s == known(1.0)
    assert with_stated(inputs(), Stated()).servers == inputs().servers


def test_nodes_are_those_of_an_only_pool_and_bound_what_may_come() -> None:
    (pool,) = with_stated(inputs(), Stated(nodes=50, max_nodes=70)).pools
    assert (pool.nodes, pool.ceilings[-1].nodes) == (50, 20)
    (pool,) = with_stated(inputs(), Stated(max_nodes=15)).pools
    assert (pool.nodes, pool.ceilings[-1].nodes, pool.ceilings[-1].name) == (20, 0, "--max-nodes")
    (pool,) = with_stated(replace(inputs(), nodes=30), Stated(max_nodes=35)).pools
    assert (pool.nodes, pool.ceilings[-1].nodes) == (20, 5), "ten nodes are of no pool"
    two = replace(inputs(), nodes=23, pools=(*inputs().pools, replace(inputs().pools[0], name="b", nodes=3)))
    assert [pool.nodes for pool in with_stated(two, Stated(nodes=50)).pools] == [20, 3]


def test_most_nodes_are_those_of_the_cluster_whichever_pool_grows() -> None:
    """Of two pools with 20 and 3 nodes either has room for what the cluster has, and not for what it has not itself."""
    two = replace(inputs(), nodes=23, pools=(*inputs().pools, replace(inputs().pools[0], name="b", nodes=3)))
    found = [pool.ceilings[-1] for pool in with_stated(two, Stated(max_nodes=30)).pools]
    assert found == [Ceiling(name="--max-nodes", nodes=7, detail="nodes 30, now 23")] * 2
    found = [pool.ceilings[-1] for pool in with_stated(two, Stated(max_nodes=70, nodes=50)).pools]
    assert found == [Ceiling(name="--max-nodes", nodes=20, detail="nodes 70, now 50")] * 2


def test_a_raised_rate_is_raised_with_its_burst() -> None:
    controllers = with_stated(inputs(), Stated(controller_qps=100)).controllers
    assert (controllers.pods_per_s.value, controllers.burst.value) == (100, 150)
    assert with_stated(inputs(), Stated()).controllers.burst.value == 30
    launches = with_stated(inputs(), Stated(launch_rate=2.5, launch_burst=7)).controllers
    assert launches.launches_per_s is not None
    assert (launches.launches_per_s.value, launches.launch_burst) == (2.5, 7)
    assert with_stated(inputs(), Stated()).controllers.launches_per_s is None


def test_a_pool_is_found_by_its_name_and_without_one_the_largest_is_meant() -> None:
    (only,) = inputs().pools
    pools = [replace(only, name=name, nodes=nodes) for name, nodes in (("a", 5), ("b", 9), ("c", 9))]
    given = replace(inputs(), pools=tuple(pools))
    assert [given.pool(name) for name in ("a", "c", "d", "")] == [pools[0], pools[2], None, pools[2]]
    assert replace(given, pools=()).pool("") is None
