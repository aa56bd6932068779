"""From what is known and assumed to the worlds that may be: the middle one by hand, and how many there are."""

from dataclasses import replace
from typing import Any

import pytest

from balloons.preview.inputs import PlanInputs, Stated, ThrottleFacts, assumed_inputs, with_stated
from balloons.preview.possible_worlds import World, median_world, worlds
from throttler.law.settings import LawSettings
from throttler.simulator.requests_and_machines import JOIN

THROTTLE = ThrottleFacts(name="all", settings=LawSettings())


def inputs(**stated: float) -> PlanInputs:
    return with_stated(assumed_inputs(nodes=20), Stated(**stated))


def middle(nodes: int = 100, *, throttle: ThrottleFacts | None = None, **stated: float) -> World:
    given = replace(inputs(**stated), throttle=throttle)
    return median_world(given, given.pools[0], nodes)


def test_the_middle_world_has_every_figure_as_it_is_thought_to_be() -> None:
    found = middle(boot=90, join=40, servers=3, server_cores=8, join_cost=2, background=0.3, reaction=7, kill_timer=600)
    scenario = found.scenario
    assert [(demand.at_s, demand.nodes) for demand in scenario.demands] == [(pytest.approx(7), 100)]
    assert (scenario.servers, scenario.nodes_before, scenario.kill_timer_s) == (3, 20, 600)
    assert (scenario.boot_s, found.join_s) == (pytest.approx(90), pytest.approx(40))
    assert scenario.capacity / JOIN.cost_at(0) == pytest.approx(8 / 2), "a join is as large a part of a server"
    assert (scenario.background, scenario.limit_s, scenario.lead_s) == (pytest.approx(0.3), 12 * 3600, 60)
    assert scenario.boot_is_skewed


def test_no_background_leaves_nothing_and_no_boots_scatter_without_bound() -> None:
    given = inputs(background=0.9, boot_spread=0.3)
    for world in worlds(given, given.pools[0], 100):
        assert world.scenario.background <= 0.9
        assert world.scenario.boot_jitter <= 0.3


@pytest.mark.parametrize(
    ("boot_s", "nodes", "step_s", "ask_s", "poke_s"),
    [
        (30.0, 150, 0.25, 2.0, 1.0),
        (30.0, 151, 0.5, 2.0, 1.0),
        (30.1, 150, 0.5, 2.0, 1.0),
        (120.0, 500, 0.5, 2.0, 1.0),
        (120.0, 501, 1.0, 2.0, 2.0),
        (120.1, 500, 1.0, 2.0, 2.0),
        (480.0, 2000, 1.0, 2.0, 2.0),
        (480.0, 2001, 2.0, 5.0, 4.0),
        (480.1, 2000, 2.0, 5.0, 4.0),
    ],
)
def test_long_boots_and_many_nodes_are_run_in_longer_steps(
    boot_s: float, nodes: int, step_s: float, ask_s: float, poke_s: float
) -> None:
    world = middle(nodes, boot=boot_s)
    assert (world.step_s, world.scenario.step_s, world.poke_s) == (step_s, ask_s, poke_s)


@pytest.mark.parametrize(("nodes", "count"), [(1, 9), (2000, 9), (2001, 5), (20_000, 5), (20_001, 3), (150_000, 3)])
def test_small_scale_ups_are_run_in_more_worlds(nodes: int, count: int) -> None:
    given = inputs()
    found = worlds(given, given.pools[0], nodes)
    assert [world.seed for world in found] == list(range(count))
    assert found == worlds(given, given.pools[0], nodes)
    assert len({world.scenario.boot_s for world in found}) == count


@pytest.mark.parametrize(
    ("rates", "pods_per_s", "burst", "is_scheduler_slower"),
    [
        ({"controller_qps": 20, "scheduler_qps": 50}, 20, 30, False),
        ({"controller_qps": 50, "scheduler_qps": 50}, 50, 75, False),
        ({"controller_qps": 51, "scheduler_qps": 50}, 50, 100, True),
    ],
)
def test_the_slower_of_controller_manager_and_scheduler_makes_the_pace_of_pods(
    rates: dict[str, Any], pods_per_s: float, burst: float, *, is_scheduler_slower: bool
) -> None:
    world = middle(**rates)
    assert (world.pods_per_s, world.burst, world.is_scheduler_slower) == (pods_per_s, burst, is_scheduler_slower)
    assert (world.status_writes == 0.0) is is_scheduler_slower


@pytest.mark.parametrize(
    ("throttle", "has_gate"),
    [
        (None, False),
        (ThrottleFacts(name="all", settings=LawSettings(has_gate=True)), True),
        (ThrottleFacts(name="all", settings=LawSettings(has_gate=False)), False),
    ],
)
def test_only_a_throttle_with_a_gate_holds_machines(throttle: ThrottleFacts | None, *, has_gate: bool) -> None:
    assert middle(throttle=throttle).scenario.has_gate is has_gate


@pytest.mark.parametrize(
    ("throttle", "scrape_s"), [(None, 5.0), (THROTTLE, 5.0), (replace(THROTTLE, scrape_s=10.0), 10.0)]
)
def test_servers_are_read_as_often_as_the_throttle_reads_them(throttle: ThrottleFacts | None, scrape_s: float) -> None:
    """A wave of joins counts as felt for two readings or for one look of the autoscaler, whichever is longer."""
    assert middle(throttle=throttle).scenario.scrape_s == scrape_s


@pytest.mark.parametrize(
    ("counted_s", "notice_s"),
    [(None, 0.0), (30.0, 0.0), (41.0, 0.0), (48.0, 7.0)],
)
def test_what_the_throttle_counts_joins_for_longer_is_noticed_later(counted_s: float | None, notice_s: float) -> None:
    assert middle(join=40, throttle=replace(THROTTLE, join_s=counted_s)).notice_s == pytest.approx(notice_s)


def test_every_world_meets_the_scrapes_at_another_moment() -> None:
    given = inputs()
    assert sorted(each.rhythm for each in worlds(given, given.pools[0], 100)) == pytest.approx(
        [(number + 0.5) / 9 for number in range(9)]
    )


@pytest.mark.parametrize(
    ("throttle", "is_karpenter", "is_raised_rarely", "is_taken_up_late"),
    [
        (None, True, True, True),
        (THROTTLE, True, True, True),
        (THROTTLE, False, True, False),
        (replace(THROTTLE, has_ceiling=False), True, False, False),
    ],
)
def test_ceilings_are_raised_rarely_and_karpenter_has_to_take_them_up(
    throttle: ThrottleFacts | None, *, is_karpenter: bool, is_raised_rarely: bool, is_taken_up_late: bool
) -> None:
    given = replace(inputs(boot=20), throttle=throttle)
    given = replace(given, controllers=replace(given.controllers, is_look_prompted=is_karpenter))
    found = median_world(given, given.pools[0], 50)
    assert (found.raise_every_s > 0.0, found.taken_up_s > 0.0) == (is_raised_rarely, is_taken_up_late)
    assert median_world(given, given.pools[0], 3000).taken_up_s == 0, "steps are longer than that takes"


def test_machines_are_started_as_fast_as_the_cloud_does_or_at_once() -> None:
    assert (middle().launches_per_s, middle().launch_burst) == (None, 0)
    bound = middle(launch_rate=2, launch_burst=7)
    assert (bound.launches_per_s, bound.launch_burst) == (2, 7)
