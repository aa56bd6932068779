"""Plans: what they promise, what they say for machines, and that the schema that we publish holds."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from math import exp, inf, nan
from pathlib import Path

import pytest

from balloons.preview.fitting import Fitting, GangFit, Unplaceable
from balloons.preview.forecast import Limit
from balloons.preview.inputs import (
    Ceiling,
    NodeShape,
    PlanInputs,
    PoolFacts,
    Stated,
    StatedError,
    assumed_inputs,
    check,
    with_stated,
)
from balloons.preview.plan_json import MOST_MOMENTS, plan_json, thinned
from balloons.preview.scale_up_plan import Asked, Cost, PlanError, Relief, ScaleUpPlan, cost_of, make_plan

AT = datetime(2026, 11, 21, 12, 0, 30, tzinfo=UTC)
SCHEMA = json.loads((Path(__file__).parents[4] / "docs/schemas/plan.json").read_text())
SURE = Stated(boot=60, join=30, servers=3, server_cores=64, daemonsets=4)


def inputs(stated: Stated = SURE, **pool_changes: object) -> PlanInputs:
    found = with_stated(assumed_inputs(nodes=10), stated)
    pools = tuple(replace(pool, **pool_changes) for pool in found.pools)  # type: ignore[arg-type]
    return replace(found, pools=pools)


def plan(given: PlanInputs | None = None, add: int = 40, **asked: object) -> ScaleUpPlan:
    return make_plan(given or inputs(), Asked(add=add, **asked), AT)  # type: ignore[arg-type]


PLANS: dict[str, Callable[[], ScaleUpPlan]] = {
    "usual": plan,
    "nothing can come": lambda: plan(inputs(ceilings=(Ceiling(name="NodePool/x", nodes=0),))),
    "some can come": lambda: plan(inputs(ceilings=(Ceiling(name="NodePool/x", nodes=15), Ceiling(name="y", nodes=99)))),
    "pods": lambda: make_plan(
        inputs(),
        Asked(add=3),
        AT,
        fitting=Fitting(
            pods=9,
            on_there=2,
            on_new=6,
            new_nodes={"": 3},
            gangs=(GangFit(name="a/b", pods=4, pods_on_new=0, is_placeable=True),),
            unplaceable=(Unplaceable(pods=1, requests={"cpu": 1500}, reason="too large"),),
        ),
    ),
}


@cache
def made(name: str) -> ScaleUpPlan:
    return PLANS[name]()


@pytest.mark.whole
@pytest.mark.parametrize("name", PLANS)
def test_json_keeps_the_published_schema(name: str) -> None:
    import jsonschema  # a second, and only here

    body = json.loads(json.dumps(plan_json(made(name))))
    jsonschema.Draft202012Validator(SCHEMA).validate(body)


@pytest.mark.whole
def test_schema_refuses_what_is_no_plan() -> None:
    import jsonschema  # a second, and only here

    body = plan_json(made("usual"))
    for name in ("eta", "waves", "inputs"):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.Draft202012Validator(SCHEMA).validate({**body, name: "soon"})


@pytest.mark.whole
def test_equal_inputs_make_equal_plans() -> None:
    assert plan_json(plan()) == plan_json(plan())


@pytest.mark.whole
def test_keeps_its_promises_where_all_nodes_come_in_time() -> None:
    assert plan(within_s=600.0).broken == ()
    assert plan(within_s=60.0).broken == ("it takes longer than 1m in most cases (2m04s; nine in ten: 1m46s to 2m31s)",)


@pytest.mark.whole
def test_names_the_lowest_ceiling_and_what_is_missing() -> None:
    found = made("some can come")
    assert (found.coming, found.limit) == (15, Limit.CEILING)
    assert found.broken == ("25 of 40 nodes cannot come: NodePool/x leaves room for 15",)
    assert made("nothing can come").broken == ("none of 40 nodes can come: NodePool/x leaves no room",)
    last = found.waves[-1]
    assert (last.nodes, last.until_s, last.name) == (25, None, "NodePool/x")


@pytest.mark.whole
def test_says_that_machines_are_lost() -> None:
    found = plan(inputs(replace(SURE, boot=200, boot_spread=0.3, kill_timer=150)))
    assert any("would destroy" in each for each in found.broken)


@pytest.mark.whole
def test_says_what_lifting_the_limit_would_do() -> None:
    slow = plan(inputs(replace(SURE, controller_qps=1)))
    assert slow.limit is Limit.CONTROLLER_MANAGER
    assert slow.relief is not None
    # 160 pods at one per second are gone; booting (the slowest of 40 machines by 2.2 deviations) and joining stay.
    assert slow.relief.without_it_s == pytest.approx(60 * exp(2.2 * 0.15) + 30 + 10, rel=0.1)
    assert (slow.relief.with_it_s or 0) > (slow.relief.without_it_s or 0) + 100
    assert plan(inputs(replace(SURE, join=600))).relief is None


def test_unknown_pool_is_refused_with_those_that_are_there() -> None:
    with pytest.raises(PlanError, match="pool 'gpu' is not there; there are: cpu"):
        plan(inputs(name="cpu"), pool="gpu")


@pytest.mark.whole
def test_costs_follow_the_price() -> None:
    shape = NodeShape(instance_type="big", room={}, price_per_hour=10.0)
    given = inputs(shape=shape, warm=3)
    own = make_plan(given, Asked(add=40), AT)
    other = make_plan(given, Asked(add=40), AT, prices={"big": 20.0})
    assert own.cost.warm_per_hour == 30.0
    assert own.forecast is not None
    assert own.cost.waiting == pytest.approx(10.0 * own.forecast.node_seconds / 3600)
    assert other.cost.waiting == pytest.approx(2 * (own.cost.waiting or 0))
    assert plan().cost.unpriced == "new nodes"


def test_timeline_is_bounded() -> None:
    found = thinned(list(range(1000)))
    assert len(found) == MOST_MOMENTS
    assert (found[0], found[-1]) == (0, 999)
    assert found == sorted(set(found))


@pytest.mark.parametrize(("name", "value"), [("servers", 0), ("background", 1), ("boot", nan), ("boot", inf)])
def test_figures_out_of_bounds_are_named(name: str, value: float) -> None:
    with pytest.raises(StatedError, match=f"{name} .*: accepted: "):
        check(Stated(**{name: value}))


def test_what_is_stated_stands_before_what_was_known() -> None:
    found = with_stated(assumed_inputs(), Stated(boot=45, daemonsets=20, max_nodes=70, nodes=50))
    assert (found.pools[0].boot_s.value, found.pools[0].boot_s.detail) == (45, "--boot")
    assert found.servers.join_cpu_s.value > assumed_inputs().servers.join_cpu_s.value
    assert found.pools[0].ceilings == (Ceiling(name="--max-nodes", nodes=20),)


def a_pool(price: float | None = 10.0, *, name: str = "gpu", warm: int = 3, instance_type: str = "big") -> PoolFacts:
    shape = NodeShape(instance_type=instance_type, room={}, price_per_hour=price)
    return replace(assumed_inputs().pools[0], name=name, warm=warm, shape=shape)


@pytest.mark.parametrize(
    ("pool", "prices", "cost"),
    [
        (a_pool(), {}, Cost(price_per_hour=10.0, waiting=5.0, warm_per_hour=30.0)),
        (a_pool(warm=0), {}, Cost(price_per_hour=10.0, waiting=5.0, warm_per_hour=0.0)),
        (a_pool(), {"big": 4.0, "*": 9.0}, Cost(price_per_hour=4.0, waiting=2.0, warm_per_hour=12.0)),
        (a_pool(), {"*": 4.0}, Cost(price_per_hour=10.0, waiting=5.0, warm_per_hour=30.0)),
        (a_pool(None), {"*": 4.0}, Cost(price_per_hour=4.0, waiting=2.0, warm_per_hour=12.0)),
        (a_pool(None), {"small": 4.0}, Cost(unpriced="big")),
        (a_pool(None, instance_type=""), {}, Cost(unpriced="gpu")),
        (replace(a_pool(), shape=None, name=""), {}, Cost(unpriced="new nodes")),
    ],
)
def test_a_price_is_of_the_machine_or_of_any(pool: PoolFacts, prices: dict[str, float], cost: Cost) -> None:
    """Machines that are paid for and not usable, half an hour in all."""
    assert cost_of(pool, 1800.0, prices) == cost


@pytest.mark.parametrize(
    ("with_s", "without_s", "share"),
    [(100.0, 25.0, 0.25), (None, 25.0, None), (0.0, 25.0, None), (100.0, None, None)],
)
def test_what_is_left_of_the_time_without_a_limit(
    with_s: float | None, without_s: float | None, share: float | None
) -> None:
    assert Relief(with_s, without_s).share == share
