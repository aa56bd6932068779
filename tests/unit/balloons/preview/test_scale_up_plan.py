"""Plans: what they promise, what they say for machines, and that the schema that we publish holds."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from math import exp, inf, nan
from pathlib import Path
from typing import Any

import pytest

from balloons.preview.forecast import Band, Forecast, Limit, Maker, policy_maker
from balloons.preview.inputs import (
    Ceiling,
    NodeShape,
    PlanInputs,
    PoolFacts,
    ResourceLimit,
    Stated,
    StatedError,
    ThrottleFacts,
    assumed_inputs,
    check,
    with_stated,
)
from balloons.preview.plan_json import plan_json, thinned
from balloons.preview.possible_worlds import median_world
from balloons.preview.scale_up_plan import (
    Asked,
    Cost,
    PlanError,
    ScaleUpPlan,
    Side,
    check_size,
    cost_of,
    make_plan,
    side,
    without_limit_s,
)
from balloons.preview.scale_up_run import flow
from balloons.preview.workload_pods_and_fitting import Fitting, GangFit, Unplaceable
from tests.published_schema import problems
from tests.unit.balloons.preview.made_runs import forecast_of, moment, run
from tests.unit.balloons.preview.small_worlds import ROOMY
from throttler.law.settings import LawSettings
from throttler.simulator.pacing_policies import LawPolicy

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
    body = json.loads(json.dumps(plan_json(made(name))))
    assert problems(body, SCHEMA) == []


@pytest.mark.whole
def test_schema_refuses_what_is_no_plan() -> None:
    body = plan_json(made("usual"))
    for name in ("eta", "waves", "inputs"):
        assert problems({**body, name: "soon"}, SCHEMA)


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
    assert slow.forecast is not None
    # 160 pods at one per second are gone; booting (the slowest of 40 machines by 2.2 deviations) and joining stay.
    assert slow.without_limit_s == pytest.approx(60 * exp(2.2 * 0.15) + 30 + 10, rel=0.1)
    assert (slow.forecast.eta_s.median or 0) > (slow.without_limit_s or 0) + 100
    assert plan(inputs(replace(SURE, join=600))).without_limit_s is None


def test_unknown_pool_is_refused_with_those_that_are_there() -> None:
    with pytest.raises(PlanError, match="pool 'gpu' is not there; there are: cpu"):
        plan(inputs(name="cpu"), pool="gpu")


@pytest.mark.usefixtures("forecasts")
def test_where_nothing_can_come_the_ceiling_binds_from_the_demand_on() -> None:
    (wave,) = made("nothing can come").waves
    assert (wave.from_s, wave.until_s, wave.limit) == (0.0, None, Limit.CEILING)


@pytest.mark.whole
def test_a_plan_that_a_ceiling_stops_tells_how_to_lift_it() -> None:
    limit = ResourceLimit(resource="nodes", most=6.0, used=4.0, per_node=1.0)
    ceiling = Ceiling(name="NodePool/gpu", nodes=2, limits=(limit,))
    assert plan(inputs(ceilings=(ceiling,)), add=3).fix.startswith("kubectl patch nodepool gpu ")
    assert plan(inputs(ceilings=(ceiling,)), add=2).fix == ""


@pytest.mark.usefixtures("forecasts")
def test_more_nodes_than_any_cluster_has_are_refused_whatever_a_ceiling_leaves_of_them() -> None:
    with pytest.raises(PlanError, match="150,001 nodes more are too many"):
        plan(inputs(ceilings=(Ceiling(name="a", nodes=1),)), add=150_001)


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
    assert len(found) == 240
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
    assert found.pools[0].ceilings == (Ceiling(name="--max-nodes", nodes=20, detail="nodes 70, now 50"),)


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


def planned(
    forecast: Forecast | None = None, *, add: int = 40, within_s: float | None = None, **more: Any
) -> ScaleUpPlan:
    """A plan of runs that were made by hand."""
    given = inputs()
    usual = ScaleUpPlan(
        at=AT,
        asked=Asked(add=add, within_s=within_s),
        inputs=given,
        pool=given.pools[0],
        coming=add,
        ceiling=None,
        policy="none",
        forecast=forecast,
        moments=(),
        waves=(),
        limit=None,
        without_limit_s=None,
        sides=(),
        cost=Cost(),
    )
    return replace(usual, **more)


SOON = forecast_of(run(), eta_s=Band(100.0, 90.0, 120.0))


@pytest.mark.parametrize(
    ("within_s", "broken"),
    [
        (None, ()),
        (120.0, ()),
        (119.0, ("one in twenty takes longer than 1m59s (1m40s; nine in ten: 1m30s to 2m)",)),
        (100.0, ("one in twenty takes longer than 1m40s (1m40s; nine in ten: 1m30s to 2m)",)),
        (99.0, ("it takes longer than 1m39s in most cases (1m40s; nine in ten: 1m30s to 2m)",)),
    ],
)
def test_a_promise_is_kept_where_nineteen_in_twenty_are_in_time(
    within_s: float | None, broken: tuple[str, ...]
) -> None:
    assert planned(SOON, within_s=within_s).broken == broken


def test_an_end_that_is_not_sure_breaks_a_promise_and_one_that_there_is_not_breaks_any() -> None:
    open_end = replace(SOON, eta_s=Band(100.0, 90.0, None))
    assert planned(open_end, within_s=1e6).broken == (
        "one in twenty takes longer than 11d13h (1m40s; nine in ten: 1m30s to no end)",
    )
    never = replace(SOON, eta_s=Band(None, 90.0, None))
    assert planned(never).broken == ("it does not end within 12 hours",)
    stuck = replace(never, run=replace(never.run, is_stuck=True))
    assert planned(stuck).broken == (
        "it never ends: the autoscaler destroys machines before they have booted, and orders them anew",
    )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"error_share": 0.01}, None),
        ({"error_share": 0.02}, "refuse 2.0 % of all requests"),
        ({"lost": Band(0.9, 0.0, 9.0)}, None),
        ({"lost": Band(1.0, 0.0, 9.0)}, "destroy 1 machine that has not registered after 15m"),
        ({"lost": Band(2.0, 0.0, 9.0)}, "destroy 2 machines that have not registered after 15m"),
        ({"lost": Band(None, 0.0, None)}, None),
    ],
)
def test_a_load_that_servers_do_not_bear_and_machines_that_are_lost_break_it(
    changes: dict[str, Any], words: str | None
) -> None:
    broken = planned(replace(SOON, **changes)).broken
    assert [words in each for each in broken if words] == ([True] if words else [])
    assert len(broken) == (words is not None)


def test_nodes_that_cannot_come_and_pods_that_fit_nowhere_are_counted() -> None:
    ceiling = Ceiling(name="NodePool/x", nodes=15)
    assert planned(coming=15, ceiling=ceiling).broken == ("25 of 40 nodes cannot come: NodePool/x leaves room for 15",)
    ceiling = replace(ceiling, nodes=0)
    assert planned(add=1, coming=0, ceiling=ceiling).broken == ("none of 1 node can come: NodePool/x leaves no room",)
    ceiling = replace(ceiling, detail="not Ready", is_closed=True)
    assert planned(add=1, coming=0, ceiling=ceiling).broken == ("none of 1 node can come: NodePool/x is not Ready",)
    nowhere = [Unplaceable(pods=pods, requests={}, reason="too large") for pods in (1, 3)]
    for number, words in ((1, "1 pod fits no node"), (2, "4 pods fit no node")):
        fitting = Fitting(pods=9, on_there=0, on_new=0, new_nodes={}, unplaceable=tuple(nowhere[:number]))
        assert planned(fitting=fitting).broken == (f"{words} that is there or could come",)
    assert planned(fitting=Fitting(pods=9, on_there=9, on_new=0, new_nodes={})).broken == ()


def test_a_side_is_its_forecast_in_short() -> None:
    found = forecast_of(
        run(is_stuck=True),
        peak_requests_per_s=2.0,
        peak_utilisation=0.3,
        error_share=0.04,
        slower_by=5.0,
        hurt_s=6.0,
        hurt_share=0.7,
        slower_by_high=8.0,
    )
    assert side("none", found) == Side(
        policy="none",
        eta_s=100.0,
        peak_requests_per_s=2.0,
        peak_utilisation=0.3,
        error_share=0.04,
        slower_by=5.0,
        hurt_s=6.0,
        hurt_share=0.7,
        slower_by_high=8.0,
        is_stuck=True,
    )
    assert side("none", found).is_collapse


@pytest.fixture
def forecasts(monkeypatch: pytest.MonkeyPatch) -> dict[str, Forecast]:
    """What is foretold for each policy, of two worlds; to be changed by tests."""
    course = (moment(-5.0, utilisation=0.9), moment(0.0, waiting=3), moment(50.0, joining=3), moment(100.0, ready=3))
    slow = run(*course, moment(300.0, ready=3), done_s=300.0)
    found = {"none": forecast_of(run(*course), slow), "throttle": forecast_of(run(*course, done_s=104.0), slow)}

    def foretold(_: PlanInputs, __: PoolFacts, nodes: int, make: Maker) -> Forecast:
        policy = "throttle" if isinstance(make(ROOMY), LawPolicy) else "none"
        return replace(found[policy], nodes=nodes)

    monkeypatch.setattr("balloons.preview.scale_up_plan.forecast", foretold)
    return found


@pytest.mark.parametrize(
    ("ceilings", "coming", "name"),
    [
        ((), 3, None),
        ((("a", 9), ("b", 3)), 3, None),
        ((("a", 9), ("b", 2), ("c", 4)), 2, "b"),
        ((("a", 0),), 0, "a"),
        ((("a", -4),), 0, "a"),
    ],
)
@pytest.mark.usefixtures("forecasts")
def test_the_lowest_ceiling_stops_what_is_beyond_it(
    ceilings: tuple[tuple[str, int], ...], coming: int, name: str | None
) -> None:
    found = plan(inputs(ceilings=tuple(Ceiling(name=each, nodes=nodes) for each, nodes in ceilings)), add=3)
    assert (found.coming, found.ceiling.name if found.ceiling else None) == (coming, name)
    assert [side.policy for side in found.sides] == (["none", "throttle"] if coming else [])
    assert (found.forecast.nodes if found.forecast else 0) == coming
    if name is not None:
        last = found.waves[-1]
        assert (last.nodes, last.ready, last.until_s, last.name) == (3 - coming, coming, None, name)
        assert last.from_s == (100.0 if coming else 0.0)
        assert (found.limit, found.without_limit_s) == (Limit.CEILING, None)


@pytest.mark.parametrize(("new", "pool", "coming"), [({"a": 1, "b": 3}, "b", 4), ({"a": 3, "b": 1}, "a", 2)])
@pytest.mark.usefixtures("forecasts")
def test_a_ceiling_stops_nodes_of_its_own_pool(new: dict[str, int], pool: str, coming: int) -> None:
    (only,) = inputs().pools
    pools = (replace(only, name="a", ceilings=(Ceiling(name="a", nodes=1),)), replace(only, name="b"))
    fitting = Fitting(pods=4, on_there=0, on_new=4, new_nodes=new)
    found = make_plan(replace(inputs(), pools=pools), Asked(add=4, pool=pool), AT, fitting=fitting)
    assert (found.coming, found.ceiling is None) == (coming, coming == 4)


@pytest.mark.parametrize(
    ("kind", "also", "needed"), [("NodePool", (), '"nodes":"8"'), ("CapacityQuota", ("a",), '"nodes":9')]
)
@pytest.mark.usefixtures("forecasts")
def test_a_ceiling_is_lifted_for_the_nodes_that_it_bounds(kind: str, also: tuple[str, ...], needed: str) -> None:
    (only,) = inputs().pools
    limit = ResourceLimit(resource="nodes", most=5, used=5, per_node=1)
    full = Ceiling(name=f"{kind}/b", nodes=0, limits=(limit,))
    pools = tuple(replace(only, name=name, ceilings=(full,) if name in ("b", *also) else ()) for name in "ab")
    fitting = Fitting(pods=4, on_there=0, on_new=4, new_nodes={"a": 1, "b": 3})
    found = make_plan(replace(inputs(), pools=pools), Asked(add=4, pool="b"), AT, fitting=fitting)
    assert needed in found.fix


@pytest.mark.usefixtures("forecasts")
def test_the_course_of_each_side_begins_with_the_demand() -> None:
    found = plan(add=3)
    for shown in found.sides:
        assert [(moment.at_s, moment.ready, moment.utilisation, moment.slower_by) for moment in shown.moments] == [
            (0.0, 0, 0.1, 1.0),
            (50.0, 0, 0.1, 1.0),
            (100.0, 3, 0.1, 1.0),
        ]
    assert [wave.nodes for wave in found.waves] == [0, 3]
    assert found.moments[0].at_s == -5.0


def test_waves_and_courses_are_those_of_one_world(forecasts: dict[str, Forecast]) -> None:
    """The one that ends as most do; the other takes three times as long."""
    assert [len(side.moments) for side in plan(add=3).sides] == [3, 3]
    for policy, usual in forecasts.items():
        forecasts[policy] = replace(usual, runs=tuple(reversed(usual.runs)))
    found = plan(add=3)
    assert [len(side.moments) for side in found.sides] == [3, 3], "wherever it stands"


@pytest.mark.usefixtures("forecasts")
def test_where_a_throttle_is_there_its_pace_is_the_plans_own() -> None:
    throttle = ThrottleFacts(name="all", settings=LawSettings())
    found = make_plan(replace(inputs(), throttle=throttle), Asked(add=2), AT)
    assert (found.policy, [side.policy for side in found.sides]) == ("throttle", ["throttle", "none"])
    assert (found.forecast.runs[0].done_s if found.forecast else None) == 104.0


@pytest.mark.parametrize(
    ("stated", "policy", "limit"),
    [
        ({"boot": 300}, "none", Limit.BOOT),
        ({"servers": 1, "server_cores": 1, "join_cost": 20}, "none", Limit.API_SERVERS),
        ({"controller_qps": 1}, "none", Limit.CONTROLLER_MANAGER),
        ({"scheduler_qps": 1}, "none", Limit.SCHEDULER),
        ({"launch_rate": 0.1}, "none", Limit.LAUNCH_RATE),
        ({}, "window=1", Limit.OWN_WINDOW),
    ],
)
def test_without_its_limit_a_scale_up_ends_much_sooner(stated: dict[str, float], policy: str, limit: Limit) -> None:
    given = inputs(replace(SURE, **stated))  # type: ignore[arg-type]
    make, pool = policy_maker(policy, None), given.pools[0]
    world = median_world(given, pool, 20)
    with_s = flow(world, make(world.scenario)).done_s
    assert with_s is not None
    assert 0.0 < (without_limit_s(given, pool, 20, make, limit) or 0.0) < 0.7 * with_s


@pytest.mark.parametrize("limit", [Limit.REACTION, Limit.JOIN, Limit.CEILING])
def test_what_nobody_can_lift_has_no_end_without_it(limit: Limit) -> None:
    given = inputs()
    assert without_limit_s(given, given.pools[0], 20, policy_maker("none", None), limit) is None


def test_as_many_nodes_are_run_through_as_any_cluster_has() -> None:
    check_size(150_000)
    with pytest.raises(PlanError, match="150,001 nodes more are too many"):
        check_size(150_001)
