"""The figures of requests and servers are those of the study, and others ask for their share."""

import math
from itertools import pairwise
from pathlib import Path
from statistics import NormalDist, mean

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.throttler.simulator.small_plants import plant
from throttler.simulator.requests_and_machines import (
    HEARTBEATS_PER_S,
    JOIN,
    LIST,
    LIST_SHARE,
    SERVER,
    SMALL,
    SWING_S,
    THINK_SPREAD,
    VISITOR_COST,
    Streams,
    background_levels,
    level_at,
    seat_rate,
    spare,
    work_left,
)
from throttler.simulator.scenario_and_faults import ListBurst, Scenario, burst_rate
from throttler.simulator.simulated_scrape import CLOCK_START_S

PAGE = (Path(__file__).parents[4] / "docs/simulator.md").read_text(encoding="utf-8")
USUAL = Scenario(name="usual", demands=(), servers=1, capacity=1.0)
TIMEOUTS_S = [lane.timeout_s for lane in JOIN.lanes]


@pytest.mark.parametrize(
    "words",
    [
        f"{len(list(JOIN.steps))} requests in {len(JOIN.lanes)} lanes",
        f"11 lists of {LIST.work_s:.2f} s on two seats, longer by `1 + N/5000`",
        f"the rest {1000 * SMALL.work_s:.0f} ms on one",
        f"{JOIN.cost_at(0):.1f} seat-seconds in an empty cluster",
        f"{JOIN.alone_s:.0f} s on idle servers",
        f"{HEARTBEATS_PER_S} heartbeats/s",
        f"{SERVER.queue_per_capacity:.0f} P requests, at most {SERVER.max_wait_s:.0f} s, else 429",
        f"{SERVER.retry_after_min_s:.0f} s, doubling once per its own length",
        f"while rejections go on, to {SERVER.retry_after_max_s:.0f} s",
        f"`1 + {SERVER.queue_kappa} q^3`",
        f"{min(TIMEOUTS_S):.0f} to {max(TIMEOUTS_S):.0f} s by lane",
        f"their share of the capacity swings ({SWING_S:.0f} s)",
        f"every {USUAL.scrape_s:.0f} s per server, {USUAL.scrape_delay_s:.0f} s late",
        f"{100 * USUAL.scrape_missing:.0f} % missing, {100 * USUAL.scrape_noise:.0f} % noise on every figure",
        f"A policy is asked every {USUAL.step_s:.0f} s, from {USUAL.lead_s:.0f} s before the first demand on",
        f"Its clock reads {CLOCK_START_S:,.0f} at the",
    ],
)
def test_the_simulators_page_says_its_figures(words: str) -> None:
    assert words in PAGE


def test_the_figures_that_the_page_says_in_words() -> None:
    """Nine of ten small and one a list, half to one and a half of a mean."""
    assert (LIST_SHARE, THINK_SPREAD) == (0.1, 0.5)
    assert math.isclose(VISITOR_COST, 0.9 * 0.010 + 0.1 * 2 * 0.150)


def test_reflectors_list_five_kinds_in_the_first_six_seconds() -> None:
    (reflectors,) = (lane for lane in JOIN.lanes if lane.name == "reflectors")
    lists = reflectors.steps[:5]
    assert {step.kind for step in lists} == {LIST}
    assert 5.0 < sum(step.think_s + step.kind.work_s for step in lists) < 6.0


def test_a_join_is_the_train_of_the_study() -> None:
    steps = list(JOIN.steps)
    assert (len(JOIN.lanes), len(steps), sum(step.kind is LIST for step in steps)) == (8, 135, 11)
    begun_s = [lane.steps[0].think_s for lane in JOIN.lanes if lane.name.startswith("agent")]
    assert [later - sooner for sooner, later in pairwise(begun_s)] == [3.0] * 5, "pods start 3 s apart"
    assert LIST.cost_at(0) == pytest.approx(0.3)
    assert LIST.cost_at(5000) == pytest.approx(0.6)
    assert SMALL.cost_at(5000) == 0.010
    assert 60.0 <= JOIN.alone_s <= 90.0
    assert JOIN.cost_at(0) == pytest.approx(11 * 0.3 + 124 * 0.010)


def test_a_full_queue_drags_and_a_short_one_does_not() -> None:
    assert SERVER.drag(0.0) == 1.0
    assert SERVER.drag(0.1) < 1.01
    assert SERVER.drag(1.0) == 2.5


def test_spare_is_what_others_leave() -> None:
    assert spare(plant(background=0.25), 0.25, 0, 0.0) == pytest.approx(12.0)
    assert spare(plant(background=0.25), 0.25, 1000, 0.0) == pytest.approx(12.0 - 1.5)
    assert spare(plant(seats_per_capacity=0.5), 0.25, 0, 0.0) == pytest.approx(4.0)
    bursting = plant(faults=(ListBurst(at_s=0, for_s=60, per_s=10),))
    assert spare(bursting, 0.25, 0, 0.0) == pytest.approx(12.0 - 3.0)
    assert burst_rate(bursting, 57.5) == 5.0
    flooded = plant(faults=(ListBurst(at_s=0, for_s=60, per_s=100),))
    assert spare(flooded, 0.25, 0, 0.0) == 0.0, "never less than nothing"


def test_the_background_swings_around_its_mean() -> None:
    levels = background_levels(plant(background=0.3, background_swing=0.2, limit_s=200_000.0), np.random.default_rng(1))
    assert levels.mean() == pytest.approx(0.3, rel=0.02)
    assert levels.std() == pytest.approx(0.06, rel=0.05)
    assert np.corrcoef(levels[:-12], levels[12:])[0, 1] == pytest.approx(np.exp(-1), abs=0.06)


def test_streams_are_equal_per_seed_and_apart_from_each_other() -> None:
    first, again = Streams.of(5), Streams.of(5)
    assert first.boots.random(3).tolist() == again.boots.random(3).tolist()
    assert first.scrapes.random() != first.background.random()


def test_a_level_holds_for_five_seconds_and_the_last_for_ever() -> None:
    scenario = plant(lead_s=20.0, limit_s=10.0)
    levels = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6])
    found = [level_at(levels, scenario, at_s) for at_s in (-20.0, -15.1, -15.0, 0.0, 4.9, 5.0, 99.0)]
    assert found == [0.1, 0.1, 0.2, 0.5, 0.5, 0.6, 0.6]
    assert len(background_levels(scenario, np.random.default_rng(1))) == 8


def test_the_background_leaves_something_and_never_ends() -> None:
    wild = plant(background=0.5, background_swing=9.0, limit_s=20_000.0)
    levels = background_levels(wild, np.random.default_rng(1))
    assert (levels.min(), levels.max()) == (pytest.approx(0.05), 0.95)


def test_requests_of_a_heavy_join_take_longer_and_only_lists_grow_with_nodes() -> None:
    assert (SMALL.work_at(0, 2.0), LIST.work_at(2500, 2.0)) == (0.020, pytest.approx(0.45))
    assert JOIN.cost_at(5000, 2.0) == pytest.approx(2 * (11 * 0.6 + 124 * 0.010))


@given(st.floats(0.0, 100.0), st.floats(0.5, 50.0))
def test_seats_never_do_more_than_they_are_or_the_server_can(seats: float, capacity: float) -> None:
    assert 0.0 < seat_rate(seats, capacity) <= max(1e-9, min(seats, capacity)) * (1 + 1e-9)


@given(st.floats(0.0, 1e4), st.floats(0.005, 1.0), st.floats(0.5, 50.0))
def test_no_step_does_more_than_the_capacity_allows(work: float, residue_s: float, capacity: float) -> None:
    left = work_left(work, residue_s, 4 * capacity, capacity, 0.25)
    assert work - capacity * 0.25 - 1e-6 <= left <= work + 1e-9


def test_seats_that_are_far_from_the_capacity_do_what_they_can() -> None:
    assert seat_rate(100.0, 10.0) == 10.0
    assert seat_rate(10.0, 100.0) == 10.0
    assert seat_rate(0.0, 10.0) == 1e-9
    assert seat_rate(24.0, 24.0) == pytest.approx(24.0 - (36.0 / (2 * math.pi)) ** 0.5)


@pytest.mark.parametrize(("seats", "capacity"), [(20.0, 24.0), (30.0, 24.0), (3.0, 4.0), (60.0, 50.0), (0.5, 1.0)])
def test_seats_that_scatter_do_on_average_what_as_many_or_the_server_can(seats: float, capacity: float) -> None:
    """As a normal distribution with one and a half times the mean as its variance."""
    scattered = NormalDist(seats, math.sqrt(1.5 * seats))
    done = mean(min(scattered.inv_cdf((number + 0.5) / 10_000), capacity) for number in range(10_000))
    assert seat_rate(seats, capacity) == pytest.approx(done, rel=1e-3)


def test_beyond_four_deviations_from_the_capacity_seats_do_not_scatter() -> None:
    assert seat_rate(150.0, 89.0) == 89.0
    assert seat_rate(150.0, 211.0) == 150.0
    assert seat_rate(150.0, 91.0) < 91.0
    assert seat_rate(150.0, 209.0) < 150.0


def test_work_is_left_when_it_is_more_than_a_step_and_its_own_length_allow() -> None:
    assert work_left(30.0, 0.05, 64, 4.0, 0.25) == 29.0
    assert work_left(30.0, 0.05, 2, 100.0, 0.25) == 29.5, "two seats of a hundred that the server could bear"
    assert work_left(1.0, 0.25, 64, 100.0, 0.25) == pytest.approx(0.5), "at no load each step takes its share"


@pytest.mark.parametrize(("work", "capacity"), [(0.3, 4.0), (1.2, 4.0), (2.5, 4.0), (2.5, 8.0)])
def test_what_executes_on_average_is_what_a_step_gets_done(work: float, capacity: float) -> None:
    left = work_left(work, 0.05, 64, capacity, 0.25)
    assert work - left == pytest.approx(0.25 * seat_rate(left / 0.05, capacity), rel=1e-3)
    assert left < 64 * 0.05
