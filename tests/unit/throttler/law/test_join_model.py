"""What the join flow tells of stretches of time: both ends belong to them; before the first point nothing is known."""

from math import inf

import pytest

from throttler.joins.joins import Joins
from throttler.law.join_model import (
    Baseline,
    FlowPoint,
    JoinFlow,
    JoinTime,
    Load,
    with_counts,
    with_duration,
    with_idle_cpu,
    with_idle_delay,
    with_join_cpu,
)
from throttler.law.settings import LawSettings
from throttler.signals.reading import Reading


def point(at_s: float, joining: int, *, joined: int = 0, arrived: int = 0, lost: int = 0) -> FlowPoint:
    return FlowPoint(at_s, joining, joined, ordered=arrived, arrived=arrived, lost=lost)


FLOW = JoinFlow(points=(point(10.0, 6), point(20.0, 2), point(30.0, 8), point(40.0, 4)))
"""Joins in flight: 6, 2, 8, 4."""


@pytest.mark.parametrize(
    ("from_s", "to_s", "mean", "peak"),
    [
        (20.0, 30.0, 5.0, 8),
        (20.1, 30.0, 8.0, 8),
        (20.0, 29.9, 2.0, 2),
        (21.0, 29.0, None, 0),
        (0.0, 9.9, None, 0),
        (-inf, inf, 5.0, 8),
        (40.1, inf, None, 0),
    ],
)
def test_both_ends_belong_to_a_stretch(from_s: float, to_s: float, mean: float | None, peak: int) -> None:
    assert (FLOW.mean_joining(from_s, to_s), FLOW.peak_joining(from_s, to_s)) == (mean, peak)


@pytest.mark.parametrize(
    ("from_s", "to_s", "least"),
    [
        (9.9, 40.0, None),
        (10.0, 19.9, 6),
        (10.0, 20.0, 2),
        (25.0, 40.0, 2),
        (25.0, 29.0, 2),
        (30.0, 39.0, 8),
        (30.0, 40.0, 4),
    ],
)
def test_the_fewest_are_those_of_a_stretch_and_of_the_moment_it_begins(
    from_s: float, to_s: float, least: int | None
) -> None:
    assert FLOW.least_joining(from_s, to_s) == least


def test_held_since_then_are_those_that_had_come_and_are_not_let_in() -> None:
    points = (
        point(10.0, 0, arrived=5),
        point(20.0, 1, arrived=9, lost=1),
        point(30.0, 2, joined=1, arrived=20, lost=2),
    )
    flow = JoinFlow(points=points)
    assert [flow.held_since(at_s) for at_s in (9.9, 10.0, 19.9, 20.0, 30.0, 99.0)] == [0, 2, 2, 5, 15, 15]
    assert JoinFlow(points=(point(0.0, 0, arrived=1), point(9.0, 3, arrived=3))).held_since(0.0) == 0
    assert JoinFlow().held_since(0.0) == 0


def test_a_rate_is_told_of_a_span_that_is_known_as_a_whole() -> None:
    flow = JoinFlow(points=(point(0.0, 1), point(10.0, 1, joined=4), point(30.0, 1, joined=9)))
    assert [flow.busy_rate_per_s(span_s) for span_s in (20.0, 25.0, 30.0, 30.1)] == [0.25, 0.3, 0.3, None]
    assert JoinFlow().busy_rate_per_s(1.0) is None


def test_a_quarter_of_an_hour_is_remembered_and_nothing_from_a_clock_that_went_back() -> None:
    flow = with_counts(FLOW, Joins(joining=3), 915.0)
    assert [each.at_s for each in flow.points] == [20.0, 30.0, 40.0, 915.0]
    assert [each.at_s for each in with_counts(FLOW, Joins(), 910.0).points] == [10.0, 20.0, 30.0, 40.0, 910.0]
    assert [each.at_s for each in with_counts(FLOW, Joins(), 25.0).points] == [10.0, 20.0, 25.0]


def test_looks_within_two_seconds_are_merged() -> None:
    flow = JoinFlow()
    for at_s in (10.0, 11.0, 11.9, 12.0, 13.0):
        flow = with_counts(flow, Joins(joining=1), at_s)
    assert [each.at_s for each in flow.points] == [10.0, 11.9, 13.0]


def test_newly_ordered_are_those_since_the_look_before() -> None:
    flow = with_counts(JoinFlow(), Joins(booting=5), 0.0)
    assert flow.newly_ordered == 0, "who ordered what was there is not known"
    flow = with_counts(flow, Joins(booting=5, held=1, joining=2, joined=3, lost=4), 10.0)
    assert flow.newly_ordered == 10
    assert with_counts(flow, Joins(), 20.0).newly_ordered == 0


def test_the_newest_orders_are_those_that_boot() -> None:
    flow = JoinFlow()
    for at_s, joins in ((0.0, Joins(booting=3)), (10.0, Joins(booting=7)), (20.0, Joins(booting=6, joining=4))):
        flow = with_counts(flow, joins, at_s)
    assert flow.booting() == ((20.0, 3), (10.0, 3))
    assert flow.arrived() == ((20.0, 4),)
    assert flow.arrived(3) == ((20.0, 3),)
    assert flow.arrived(since_s=20.1) == ()
    assert (JoinFlow().booting(), JoinFlow().arrived()) == ((), ())
    later = with_counts(flow, Joins(joining=10), 30.0)
    assert (later.booting(), later.arrived()) == ((), ((30.0, 6), (20.0, 4)))
    assert later.arrived(since_s=30.0) == ((30.0, 6),)


def test_what_joined_when_the_count_began_came_then() -> None:
    flow = with_counts(with_counts(JoinFlow(), Joins(joining=4, booting=2), 0.0), Joins(joining=4, booting=2), 10.0)
    assert flow.arrived() == ((0.0, 4),)
    assert flow.booting() == ((0.0, 2),)
    assert (flow.arrived(since_s=0.0), flow.arrived(since_s=0.1)) == (((0.0, 4),), ())


def test_a_join_that_took_no_time_tells_nothing() -> None:
    known = JoinTime(now_s=60.0, least_s=50.0)
    assert with_duration(known, None, 10.0) is known
    assert with_duration(known, 0.0, 10.0) is known
    assert with_duration(JoinTime(), 0.5, 10.0) == JoinTime(now_s=0.5, least_s=0.5)
    assert with_duration(JoinTime(), 60.0, 3600.0) == JoinTime(now_s=60.0, least_s=60.0)
    assert with_duration(known, 150.0, 3600.0) == JoinTime(now_s=150.0, least_s=100.0)
    assert [each.or_guess(80.0) for each in (known, JoinTime(least_s=50.0), JoinTime())] == [60.0, 50.0, 80.0]


def test_a_rate_while_anything_joins_leaves_gaps_out() -> None:
    points = (
        point(0.0, 4),
        point(10.0, 0, joined=4),
        point(20.0, 0, joined=4),
        point(30.0, 2, joined=4),
        point(40.0, 0, joined=6),
    )
    flow = JoinFlow(points=points)
    assert flow.busy_rate_per_s(40.0) == pytest.approx(6 / 20)
    assert flow.busy_rate_per_s(50.0) is None
    assert JoinFlow(points=points[1:3]).busy_rate_per_s(10.0) == 0.0
    assert JoinFlow(points=(point(0.0, 0), point(10.0, 0, joined=1))).busy_rate_per_s(10.0) == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("from_s", "to_s", "came"),
    [
        (0.0, 9.9, 0),
        (0.0, 20.0, 4),
        (10.0, 20.0, 4),
        (20.0, 30.0, 5),
        (10.0, 99.0, 9),
        (20.0, 20.0, 0),
        (30.0, 99.0, 0),
    ],
)
def test_what_came_between_two_times_was_not_there_when_the_count_began(from_s: float, to_s: float, came: int) -> None:
    """Three were there, and of those that came later one was given up."""
    points = (point(10.0, 3, arrived=3), point(20.0, 7, arrived=7), point(30.0, 12, arrived=13, lost=1))
    assert JoinFlow(points=points).came_between(from_s, to_s) == came


def test_an_idle_delay_is_forgotten_after_three_minutes_and_the_128_newest_are_kept() -> None:
    baseline = Baseline(samples=tuple((float(at_s), 0.1) for at_s in range(200)))

    def kept(now_s: float) -> list[float]:
        return [at_s for at_s, _ in with_idle_delay(baseline, 0.1, now_s, LawSettings()).samples]

    assert kept(199.0) == [*range(73, 200), 199.0]
    assert kept(377.0) == [197.0, 198.0, 199.0, 377.0]
    assert kept(5.0) == [*range(6), 5.0], "not from later"


@pytest.mark.parametrize(
    ("figures", "costs"),
    [
        ({}, (0.01,)),
        ({"requests": 199.0}, ()),
        ({"cpu_share": 1.5}, (0.05,)),
        ({"cpu_share": 0.0}, ()),
        ({"cpu_share": None}, ()),
        ({"span_s": 0.0}, ()),
    ],
)
def test_twenty_requests_a_second_of_an_idle_server_tell_what_one_costs(
    figures: dict[str, float | None], costs: tuple[float, ...]
) -> None:
    usual = {"span_s": 10.0, "requests": 200.0, "cpu_share": 0.2, **figures}
    reading = Reading(server="a", ended_s=10.0, errors=0.0, **usual)  # type: ignore[arg-type]
    assert with_idle_cpu(Load(), 0.2, (reading,)).per_request == costs


def test_what_one_join_takes_is_learned_from_one_join_on() -> None:
    idle = Load(idle=(0.2,))
    for cpu, joining in ((None, 20.0), (0.4, 0.9)):
        assert with_join_cpu(idle, cpu, joining, 1.0) == idle
    assert with_join_cpu(Load(), 0.4, 20.0, 1.0) == Load(), "what the server does without joins is not known"
    assert with_join_cpu(idle, 0.21, 1.0, 1.0).per_join == pytest.approx(0.01)
    assert (Load().per_join, Load().idle_mean, Load().idle_swing) == (None, 0.0, 0.0)
