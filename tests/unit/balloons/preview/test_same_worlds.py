"""One engine: whoever asks a question gets the same answer, more nodes never take less time, and every run ends."""

from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from balloons.preview.forecast import MOST_ADDED, NONE, THROTTLE, forecast, policy_maker
from balloons.preview.from_cluster import plan_inputs
from balloons.preview.inputs import PlanInputs, Stated, assumed_inputs, with_stated
from balloons.preview.plan_json import plan_json
from balloons.preview.possible_worlds import LIMIT_S, WORLDS, median_world
from balloons.preview.scale_up_plan import Asked, PlanError, ScaleUpPlan, make_plan
from balloons.preview.scale_up_run import flow
from balloons.preview.simulate import Sweep, simulate
from balloons.reading.read_cluster import read_archive

pytestmark = pytest.mark.whole

AT = datetime(2026, 11, 22, tzinfo=UTC)
ASSUMED = assumed_inputs()
EXAMPLE = Path(__file__).resolve().parents[4] / "docs" / "example" / "cluster.tar.gz"


def given_that(**stated: float) -> PlanInputs:
    return with_stated(ASSUMED, Stated(**stated))


@pytest.mark.parametrize("nodes", [120, 500])
def test_rows_of_a_plan_are_those_of_a_simulation(nodes: int) -> None:
    plan = make_plan(ASSUMED, Asked(add=nodes), AT)
    cells = simulate(ASSUMED, "", nodes, [NONE, THROTTLE])
    assert [replace(side, moments=()) for side in plan.sides] == [cell.side for cell in cells]
    assert plan.limit == cells[0].limit
    assert plan.forecast == cells[0].forecast


@pytest.mark.parametrize("nodes", [200, 600])
def test_both_courses_of_a_plan_are_of_one_world(nodes: int) -> None:
    """Before the first machine has booted servers are as busy with pacing as without."""
    unpaced, paced = make_plan(given_that(boot=120), Asked(add=nodes), AT).sides
    early = [[each.utilisation for each in side.moments if 1.0 < each.at_s < 40.0] for side in (unpaced, paced)]
    assert len(early[0]) > 10
    assert early[0] == pytest.approx(early[1], abs=0.02)


@cache
def plan_of_the_example(nodes: int) -> ScaleUpPlan:
    return make_plan(plan_inputs(read_archive(str(EXAMPLE))), Asked(add=nodes, pool="gpu"), AT)


@pytest.mark.parametrize("nodes", [436, 836, 1436])
def test_the_courses_that_are_shown_are_like_the_figures_beside_them(nodes: int) -> None:
    for side in plan_of_the_example(nodes).sides:
        last = next(moment.at_s for moment in side.moments if moment.ready == nodes)
        assert last == pytest.approx(side.eta_s, rel=0.05)
        assert max(moment.slower_by for moment in side.moments) == pytest.approx(side.slower_by, rel=0.5)
        assert max(moment.utilisation for moment in side.moments) == pytest.approx(side.peak_utilisation, abs=0.12)


@pytest.mark.parametrize("nodes", [436, 836])
def test_all_that_a_report_draws_is_of_one_possible_world(nodes: int) -> None:
    plan = plan_of_the_example(nodes)
    body = plan_json(plan)
    own = next(side for side in body["pacing"]["sides"] if side["policy"] == plan.policy)
    stages = {each["atSeconds"]: (each["ready"], each["utilisation"]) for each in body["timeline"]}
    course = {each["atSeconds"]: (each["ready"], each["utilisation"]) for each in own["timeline"]}
    both = stages.keys() & course.keys()
    assert len(both) > 30
    assert {at_s: stages[at_s] for at_s in both} == {at_s: course[at_s] for at_s in both}
    assert body["waves"][-1]["untilSeconds"] == body["timeline"][-1]["atSeconds"]


def test_figures_of_load_are_those_of_most_worlds() -> None:
    """Not of the one whose end is the median's: another policy's is another world, with other usual load."""
    sizes = (300, 500, 700)
    loads = [[cell.side.peak_utilisation for cell in simulate(ASSUMED, "", size, [NONE, THROTTLE])] for size in sizes]
    assert all(paced <= unpaced + 0.03 for unpaced, paced in loads), loads
    assert all(before[0] <= after[0] + 0.03 for before, after in pairwise(loads)), loads


def test_a_sweep_answers_as_single_questions_do() -> None:
    swept = simulate(ASSUMED, "", 40, [NONE], Sweep("servers", (1.0, 3.0)))
    asked = [simulate(given_that(servers=count), "", 40, [NONE])[0] for count in (1, 3)]
    assert [cell.side for cell in swept] == [cell.side for cell in asked]


@settings(max_examples=6)
@given(
    sizes=st.lists(st.integers(1, 1000), min_size=2, max_size=2, unique=True).map(sorted),
    policy=st.sampled_from([NONE, THROTTLE, "window=40"]),
    stated=st.fixed_dictionaries({"boot": st.floats(10, 300), "servers": st.integers(1, 4)}),
)
def test_more_nodes_never_take_less_time_in_the_same_worlds(
    sizes: list[int], policy: str, stated: dict[str, float]
) -> None:
    inputs = given_that(**stated)
    make = policy_maker(policy, None)
    ends = [forecast(inputs, inputs.pools[0], size, make).eta_s.median for size in sizes]
    # Steps of up to two seconds, and a law that sees another queue, may move the end by a little.
    assert all(after is None or (before or 0.0) <= 1.05 * after + 10.0 for before, after in pairwise(ends)), ends


@pytest.mark.parametrize("policy", [NONE, THROTTLE])
@pytest.mark.parametrize("stated", [{"boot": 1800}, {"kill_timer": 30}], ids=["slow boots", "early kills"])
def test_machines_that_are_all_destroyed_are_not_ordered_for_ever(policy: str, stated: dict[str, float]) -> None:
    inputs = given_that(**stated)
    world = median_world(inputs, inputs.pools[0], 300)
    found = flow(world, policy_maker(policy, None)(world.scenario))
    assert (found.done_s, found.is_stuck) == (None, True)
    assert found.moments[-1].at_s < LIMIT_S / 2


def test_machines_that_are_often_destroyed_arrive_in_the_end() -> None:
    """Half of them boot in time: each order halves what is missing."""
    inputs = given_that(boot=900)
    world = median_world(inputs, inputs.pools[0], 100)
    found = flow(world, policy_maker(NONE, None)(world.scenario))
    assert found.done_s is not None
    assert found.lost > 50


def test_what_is_late_and_what_never_ends_are_told_apart() -> None:
    stuck = make_plan(given_that(boot=1800), Asked(add=5), AT)
    assert (stuck.sides[0].eta_s, stuck.sides[0].is_stuck) == (None, True)
    assert any("never ends" in each for each in stuck.broken)
    slow = given_that(controller_qps=0.1)
    # The pods of so many nodes at one in 10 s need hours, and half an hour is given.
    world = median_world(slow, slow.pools[0], 300)
    world = replace(world, scenario=replace(world.scenario, limit_s=1800.0))
    late = flow(world, policy_maker(NONE, None)(world.scenario))
    assert (late.done_s, late.is_stuck) == (None, False)


@pytest.mark.parametrize("nodes", [MOST_ADDED + 1, 1_000_000])
def test_more_nodes_than_can_be_run_through_are_refused_with_what_is_accepted(nodes: int) -> None:
    with pytest.raises(PlanError, match="accepted: 1 to 150,000"):
        make_plan(ASSUMED, Asked(add=nodes), AT)
    with pytest.raises(PlanError, match="accepted: 1 to 150,000"):
        simulate(ASSUMED, "", nodes, [NONE])


def test_large_scale_ups_meet_fewer_worlds_and_never_another_number_by_policy() -> None:
    assert [count for _, count in WORLDS] == sorted((count for _, count in WORLDS), reverse=True)
    assert all(count % 2 for _, count in WORLDS), "the median is a run's own end"
