"""Slow boots and no gate: what was ordered comes two minutes later and joins at once, whatever delay says by then."""

from dataclasses import replace

import pytest

from lab.simulator.by_cohort import simulate
from lab.simulator.study_scenarios import TWELVE
from tests.unit.throttler.law.looks import Loop
from throttler.joins.joins import Joins
from throttler.law.join_model import FlowPoint, JoinFlow, Load, committed_at, window_at
from throttler.law.law_memory import LawMemory, Learned
from throttler.law.settings import LawSettings
from throttler.simulator.pacing_policies import AtOnce, LawPolicy
from throttler.simulator.scenario_and_faults import ScaleUp, Scenario

SMALL = replace(next(each for each in TWELVE if each.name == "A small"), has_gate=False, limit_s=3600.0)
TAUGHT = Learned(
    window=95.0, is_proven=True, baseline_s=0.027, join_s=80.0, boot_s=130.0, load_per_join=0.0097, age_s=200.0
)
"""What cold runs leave behind there; 95 is more than the two servers bear for long."""
CLEAN_SHARE = 1e-4


@pytest.mark.whole
def test_a_remembered_window_does_not_end_in_errors() -> None:
    found = simulate(SMALL, LawPolicy(SMALL, TAUGHT), seed=3)
    assert found.error_share < CLEAN_SHARE
    assert found.done_s is not None
    assert found.done_s < 900.0


ROOM = Scenario(
    name="room",
    demands=(ScaleUp(at_s=0.0, nodes=436),),
    servers=3,
    capacity=60.0,
    has_gate=False,
    nodes_before=64,
    limit_s=3600.0,
)
"""Servers that bear all of it at once."""


@pytest.mark.whole
def test_a_remembered_cost_of_joins_takes_no_longer_than_no_pacing_where_there_is_room() -> None:
    unpaced = simulate(ROOM, AtOnce(), seed=1)
    teacher = LawPolicy(ROOM)
    cold = simulate(ROOM, teacher, seed=2)
    warm = simulate(ROOM, LawPolicy(ROOM, teacher.learned), seed=1)
    assert unpaced.done_s is not None
    assert cold.done_s is not None
    assert warm.done_s is not None
    assert unpaced.error_share == cold.error_share == warm.error_share == 0.0
    assert cold.done_s <= 1.1 * unpaced.done_s
    assert warm.done_s <= 1.02 * unpaced.done_s


@pytest.mark.parametrize(("spread_s", "at_once"), [(0.0, 183), (60.0, 918)])
def test_boots_that_spread_are_ordered_at_once_as_far_as_they_come_apart(spread_s: float, at_once: int) -> None:
    """A wide spread paces their arrival, so waiting to order them paces it twice. Here 12.2 a second for 15 or 75 s."""
    loop = Loop(
        settings=LawSettings(has_gate=False),
        memory=LawMemory.start(Learned(window=1000, join_s=80, boot_s=200, is_proven=True)),
    )
    loop.calm(Joins(boot_s=200.0, boot_spread_s=spread_s), times=10)
    first = loop.calm(Joins(waiting=2000, boot_s=200.0, boot_spread_s=spread_s))
    assert first.allowance == at_once


@pytest.mark.parametrize(("idle", "window"), [(0.2, 94.1), (0.5, 58.8), (0.95, 24.0)])
def test_a_remembered_window_is_no_larger_than_what_joins_leave_of_the_cpu(idle: float, window: float) -> None:
    """It was learned when others used less of the servers. The initial window is tried all the same."""
    taught = Learned(window=400, is_proven=True, join_s=80, boot_s=130, load_per_join=0.01)
    loop = Loop(settings=LawSettings(has_gate=False), memory=LawMemory.start(taught))
    loop.calm(Joins(boot_s=130.0), times=10, cpu_share=idle)
    first = loop.calm(Joins(waiting=2000, boot_s=130.0), cpu_share=idle)
    assert first.window == pytest.approx(window, abs=0.1)


def flow(busy_s: int) -> JoinFlow:
    return JoinFlow(
        points=tuple(
            FlowPoint(float(at_s), int(at_s > 0), 0, ordered=1, arrived=1, lost=0) for at_s in range(busy_s + 2)
        )
    )


def test_a_flow_is_busy_since_something_joins_at_every_look() -> None:
    assert flow(30).busy_s == 30.0
    assert JoinFlow().busy_s == 0.0
    idle = FlowPoint(40.0, 0, 1, ordered=1, arrived=1, lost=0)
    assert JoinFlow(points=(*flow(30).points, idle)).busy_s == 0.0


def test_joins_that_were_seen_in_a_lull_may_take_more_than_they_seem() -> None:
    calm = Load(idle=(0.2,) * 10, remembered=0.01)
    swinging = Load(idle=(0.1, 0.3) * 5, remembered=0.01)
    assert committed_at(calm, 1.0, 2.5, joining=50) == pytest.approx(80.0)
    assert committed_at(swinging, 1.0, 0.0, joining=10) == pytest.approx(40.0)
    assert committed_at(swinging, 1.0, 0.0, joining=0) == window_at(swinging, 1.0)


def test_a_pace_is_not_proven_while_the_first_joins_are_still_under_way() -> None:
    """A rate that spans the beginning, when none can have ended, would stop the orders for a boot time."""
    loop = Loop(
        settings=LawSettings(has_gate=False),
        memory=LawMemory.start(Learned(window=200, join_s=80, boot_s=120, is_proven=True)),
    )
    loop.calm(Joins(boot_s=120.0), times=10)
    loop.calm(Joins(waiting=500, booting=230, boot_s=120.0), times=4)
    loop.calm(Joins(waiting=500, booting=150, joining=80, boot_s=120.0), times=13)
    verdict = loop.calm(Joins(waiting=500, booting=150, joining=79, joined=1, boot_s=120.0, join_s=70.0), times=2)
    assert verdict.allowance > 20
