"""A plan for machines, figure by figure, and how a course is thinned out."""

from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from balloons.preview.calibrate import Birth
from balloons.preview.forecast import Band, Limit, Wave
from balloons.preview.inputs import Ceiling, Known, ThrottleFacts, assumed_inputs
from balloons.preview.plan_json import (
    ComparedStep,
    Comparison,
    Saved,
    compared,
    comparison_json,
    plan_json,
    saved_plan,
    seconds,
    side_json,
    thinned,
)
from balloons.preview.scale_up_plan import Asked, Cost, ScaleUpPlan, Side, SideMoment
from balloons.preview.workload_pods_and_fitting import Fitting, GangFit, Unplaceable
from tests.unit.balloons.preview.made_runs import forecast_of, moment, run
from throttler.law.settings import LawSettings

AT = datetime(2026, 11, 21, 12, 0, 30, tzinfo=UTC)
INPUTS = assumed_inputs(nodes=10)
POOL = replace(INPUTS.pools[0], name="gpu", nodes=8, warm=2, ceilings=(Ceiling(name="NodePool/gpu", nodes=90),))
SIDE = Side(
    policy="none",
    eta_s=100.04,
    peak_requests_per_s=12.34,
    peak_utilisation=0.12345,
    error_share=0.000123456,
    slower_by=1.234,
    hurt_s=5.67,
    hurt_share=0.1111,
    slower_by_high=9.876,
    is_stuck=True,
)
SIDE_TOLD = {
    "policy": "none",
    "etaSeconds": 100.0,
    "peakRequestsPerSecond": 12.3,
    "peakUtilisation": 0.123,
    "refusedShare": 0.00012,
    "slowerBy": 1.23,
    "hurtSeconds": 5.7,
    "hurtShare": 0.111,
    "slowerByHigh": 9.88,
    "isStuck": True,
}


def plan(**changes: Any) -> ScaleUpPlan:
    """Five more nodes, in 100 s or so."""
    usual = ScaleUpPlan(
        at=AT,
        asked=Asked(add=5, within_s=600.06, in_words="--add 5"),
        inputs=INPUTS,
        pool=POOL,
        coming=5,
        ceiling=None,
        policy="none",
        forecast=forecast_of(
            run(), eta_s=Band(100.04, 90.0, None), first_s=Band(50.0, 40.06, 60.0), lost=Band(0.5, 0.0, 2.0),
            node_seconds=499.6,
        ),
        moments=(
            moment(-5.0), moment(0.0, waiting=5),
            moment(10.0, booting=1, held=2, joining=3, ready=4, utilisation=0.12345),
        ),
        waves=(Wave(0.0, 60.04, 1, 1, Limit.BOOT), Wave(60.04, None, 4, 5, Limit.CEILING, "NodePool/gpu")),
        limit=Limit.BOOT,
        without_limit_s=40.06,
        sides=(replace(SIDE, moments=(SideMoment(10.04, 3, 0.12345, 1.234),)),),
        cost=Cost(price_per_hour=3.5, waiting=1.234, warm_per_hour=7.005),
    )  # fmt: skip
    return replace(usual, **changes)


def test_a_plan_tells_what_was_asked_and_what_comes() -> None:
    told = plan_json(plan(), "1.2.3")
    assert (told["apiVersion"], told["kind"]) == ("balloons.kube-balloons.github.io/v1", "Plan")
    assert (told["createdAt"], told["madeBy"]) == ("2026-11-21T12:00:30Z", "1.2.3")
    assert told["request"] == {
        "pool": "gpu",
        "addNodes": 5,
        "toNodes": 13,
        "withinSeconds": 600.1,
        "inWords": "--add 5",
    }
    assert told["cluster"] == {
        "autoscaler": "no cluster looked at",
        "nodes": 10,
        "poolNodes": 8,
        "warmNodes": 2,
        "throttle": None,
    }
    assert (told["nodesComing"], told["ceilings"]) == (5, [{"name": "NodePool/gpu", "nodes": 90, "detail": ""}])
    assert told["broken"] == ["one in twenty takes longer than 10m (1m40s; nine in ten: 1m30s to no end)"]
    throttle = ThrottleFacts(name="all", settings=LawSettings())
    assert plan_json(plan(inputs=replace(INPUTS, throttle=throttle)))["cluster"]["throttle"] == "all"
    assert plan_json(plan())["madeBy"] == ""


def test_a_plan_tells_when_and_what_holds_it_back() -> None:
    told = plan_json(plan())
    assert told["eta"] == {
        "medianSeconds": 100.0,
        "lowSeconds": 90.0,
        "highSeconds": None,
        "at": "2026-11-21T12:02:10Z",
    }
    assert told["firstNode"] == {"medianSeconds": 50.0, "lowSeconds": 40.1, "highSeconds": 60.0}
    assert told["limit"] == {
        "name": "boot time",
        "because": "BootTime",
        "meaning": "the machines are ordered and still booting",
        "etaWithoutSeconds": 40.1,
        "fix": "",
    }
    assert [(wave["fromSeconds"], wave["untilSeconds"]) for wave in told["waves"]] == [(0.0, 60.0), (60.0, None)]
    assert [(wave["nodes"], wave["ready"], wave["object"]) for wave in told["waves"]] == [
        (1, 1, ""),
        (4, 5, "NodePool/gpu"),
    ]
    assert [(wave["limit"], wave["because"]) for wave in told["waves"]] == [
        ("boot time", "BootTime"),
        ("ceiling", "NodeCeiling"),
    ]
    assert plan_json(plan(without_limit_s=None))["limit"]["etaWithoutSeconds"] is None
    assert plan_json(plan(limit=None))["limit"] is None
    endless = plan_json(plan(forecast=forecast_of(run(), eta_s=Band(None, 90.0, None))))
    assert endless["eta"] == {"medianSeconds": None, "lowSeconds": 90.0, "highSeconds": None, "at": None}


def test_a_plan_tells_the_course_from_the_demand_on() -> None:
    told = plan_json(plan())
    assert told["timeline"] == [
        {"atSeconds": 0.0, "waiting": 5, "booting": 0, "held": 0, "joining": 0, "ready": 0, "utilisation": 0.1},
        {"atSeconds": 10.0, "waiting": 0, "booting": 1, "held": 2, "joining": 3, "ready": 4, "utilisation": 0.123},
    ]
    course = [{"atSeconds": 10.0, "ready": 3, "utilisation": 0.123, "slowerBy": 1.23}]
    assert told["pacing"] == {"policy": "none", "sides": [{**SIDE_TOLD, "timeline": course}]}


def test_a_plan_tells_what_it_costs_and_what_is_lost() -> None:
    told = plan_json(plan())
    assert told["cost"] == {
        "pricePerNodeHour": 3.5,
        "waiting": 1.23,
        "warmPerHour": 7.0,
        "nodeSecondsNotUsable": 500,
        "noPriceFor": None,
    }
    assert told["killTimer"] == {"seconds": 900.0, "lost": 0.5, "lostHigh": 2.0}
    bare = plan_json(plan(cost=Cost(unpriced="p5")))["cost"]
    assert bare == {
        "pricePerNodeHour": None,
        "waiting": None,
        "warmPerHour": None,
        "nodeSecondsNotUsable": 500,
        "noPriceFor": "p5",
    }


def test_a_plan_of_nodes_that_cannot_come_has_no_end_and_loses_nothing() -> None:
    told = plan_json(plan(coming=0, forecast=None))
    assert (told["eta"], told["firstNode"], told["cost"]["nodeSecondsNotUsable"]) == (None, None, 0)
    assert told["killTimer"] == {"seconds": 900.0, "lost": 0.0, "lostHigh": 0.0}


def test_a_plan_tells_where_pods_go() -> None:
    fitting = Fitting(
        pods=9,
        on_there=2,
        on_new=6,
        new_nodes={"gpu": 3},
        gangs=(
            GangFit(name="a/b", pods=4, pods_on_new=0, is_placeable=True),
            GangFit(name="c", pods=2, pods_on_new=1, is_placeable=True),
        ),
        unplaceable=(Unplaceable(pods=1, requests={"cpu": 1500}, reason="too large"),),
        unjudged=7,
    )
    told = plan_json(plan(fitting=fitting))["pods"]
    assert told["gangs"] == [
        {"name": "a/b", "pods": 4, "fitsNow": True, "isPlaceable": True, "podsOnNewNodes": 0},
        {"name": "c", "pods": 2, "fitsNow": False, "isPlaceable": True, "podsOnNewNodes": 1},
    ]
    assert told["unplaceable"] == [{"pods": 1, "requests": {"cpu": "1500m"}, "reason": "too large"}]
    assert (told["pods"], told["onNodesThere"], told["onNewNodes"], told["newNodes"], told["unjudged"]) == (
        9, 2, 6, {"gpu": 3}, 7,
    )  # fmt: skip
    assert plan_json(plan())["pods"] is None


def test_a_plan_tells_every_figure_that_went_in_and_where_it_comes_from() -> None:
    told = {figure["name"]: figure for figure in plan_json(plan())["inputs"]}
    assert told["boot"] == {
        "name": "boot",
        "value": 120.0,
        "unit": "seconds",
        "source": "assumed",
        "detail": "clouds take 30 s to 12 min",
        "spread": 0.35,
    }
    assert "launchRate" not in told
    rate = Known.learned(1.23456, "9 nodes", 0.12345)
    quick = replace(INPUTS, controllers=replace(INPUTS.controllers, launches_per_s=rate))
    assert plan_json(plan(inputs=quick))["inputs"][-1] == {
        "name": "launchRate",
        "value": 1.2346,
        "unit": "perSecond",
        "source": "learned",
        "detail": "9 nodes",
        "spread": 0.123,
    }


def test_a_side_without_an_end_has_none() -> None:
    assert side_json(SIDE) == SIDE_TOLD
    assert side_json(replace(SIDE, eta_s=None))["etaSeconds"] is None
    assert (seconds(None), seconds(0.04), seconds(0.06)) == (None, 0.0, 0.1)


@given(st.integers(0, 1000), st.integers(2, 300))
def test_a_course_is_thinned_out_evenly_from_its_first_moment_to_its_last(count: int, most: int) -> None:
    whole = list(range(count))
    kept = thinned(whole, most)
    assert len(kept) == min(count, most)
    assert kept[:1] + kept[-1:] == whole[:1] + whole[-1:]
    gaps = {after - before for before, after in pairwise(kept)}
    assert not gaps or max(gaps) - min(gaps) <= 1


def test_as_many_moments_as_are_kept_are_all_kept() -> None:
    exact = list(range(240))
    assert thinned(exact) == exact
    assert len(thinned([*exact, 999])) == 240


SAVED: dict[str, Any] = {
    "kind": "Plan",
    "createdAt": "2026-11-21T12:00:30Z",
    "request": {"pool": "gpu"},
    "nodesComing": 10,
    "eta": {"medianSeconds": 100, "lowSeconds": 90.0, "highSeconds": True},
    "firstNode": {"medianSeconds": 9.5},
    "timeline": [{"atSeconds": 10.0 * ready, "ready": ready} for ready in range(10)],
    "inputs": [{"name": "join", "value": 7.0}, {"name": "reaction", "value": "?"}, {"name": "reaction", "value": 5.0}],
}


def test_a_saved_plan_is_read_as_far_as_its_figures_are_numbers() -> None:
    found = saved_plan(SAVED)
    assert (found.at, found.pool, found.nodes, found.reaction_s) == (AT, "gpu", 10, 5.0)
    assert (found.eta_s, found.low_s, found.high_s) == (100.0, 90.0, None)
    assert saved_plan({**SAVED, "inputs": []}).reaction_s == 0.0


def test_nodes_are_counted_in_each_pool_that_pods_were_to_get_nodes_of() -> None:
    since_s = AT.timestamp()
    births = [Birth(name=pool, pool=pool, created_s=since_s + 9.0) for pool in ("a", "gpu", "other")]
    of_two = {**SAVED, "pods": {"newNodes": {"a": 4, "gpu": 6}}}
    assert [compared(saved_plan(body), births).came for body in (SAVED, of_two)] == [1, 2]


@pytest.mark.parametrize("odd", [float("inf"), float("-inf"), float("nan"), 10**400, True, "9"])
def test_what_is_no_number_of_seconds_is_not_read_of_a_saved_plan(odd: Any) -> None:
    body = {**SAVED, "eta": {"medianSeconds": odd, "lowSeconds": odd}, "firstNode": {"medianSeconds": odd}}
    found = saved_plan(body)
    assert (found.eta_s, found.low_s) == (None, None)


def steps(**changes: Any) -> list[tuple[int, float | None]]:
    """(ready nodes, when they were to be there) of each step."""
    found: Saved = replace(saved_plan(SAVED), **changes)
    return [(step.ready, step.predicted_s) for step in compared(found, ()).steps]


def test_a_plan_is_compared_where_a_tenth_a_quarter_and_so_on_are_ready() -> None:
    """The course knows nine of the ten; the end is the plan's own."""
    assert steps() == [(1, 10.0), (2, 20.0), (5, 50.0), (8, 80.0), (9, 90.0), (10, 100.0)]
    assert steps(eta_s=None)[-1] == (10, None)
    assert steps(nodes=2) == [(1, 10.0), (1, 10.0), (1, 10.0), (2, 100.0), (2, 100.0), (2, 100.0)]


def test_a_comparison_is_told_to_a_tenth_of_a_second() -> None:
    late, open_ = (
        ComparedStep(ready=5, predicted_s=90.0, real_s=75.26),
        ComparedStep(ready=10, predicted_s=9.0, real_s=None),
    )
    comparison = Comparison(saved=saved_plan(SAVED), came=7, ready=6, since_s=6.04, steps=(late, open_))
    body = comparison_json(comparison, AT)
    assert (body["createdAt"], body["plannedAt"], body["startedAfterSeconds"]) == (
        "2026-11-21T12:00:30Z",
        "2026-11-21T12:00:30Z",
        6.0,
    )
    assert (body["nodesPlanned"], body["nodesCame"], body["nodesReady"], body["isInBand"]) == (10, 7, 6, None)
    assert body["steps"] == [
        {"ready": 5, "predictedSeconds": 90.0, "realSeconds": 75.3, "offBy": -0.1638},
        {"ready": 10, "predictedSeconds": 9.0, "realSeconds": None, "offBy": None},
    ]
