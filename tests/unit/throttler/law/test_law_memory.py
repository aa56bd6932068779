"""What the law says to a throttle's status, and what it finds there again."""

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from throttler.api.throttle import MAX_JOINS, LearnedStatus
from throttler.law.law_memory import Learned, learned_of_status, learned_status_of

WALL = datetime(2026, 11, 21, 7, 0, tzinfo=UTC)
LEARNED = Learned(
    window=48.0,
    is_proven=True,
    baseline_s=0.0085,
    join_s=61.5,
    boot_s=120.0,
    boot_spread_s=13.2,
    load_per_join=0.0123,
    age_s=3600.0,
)
NOTHING = LearnedStatus()


def test_memory_comes_back_as_it_went() -> None:
    status = learned_status_of(LEARNED, NOTHING, WALL)
    assert status == LearnedStatus(48, True, 8500, 61_500, 120_000, 13_200, 12_300, "2026-11-21T06:00:00Z")
    assert learned_of_status(status, WALL) == LEARNED


@pytest.mark.parametrize(("figure", "stored"), [(0.0, 0), (-1.0, 0), (math.nan, 0), (math.inf, 0), (1e-9, 1)])
def test_a_figure_of_nothing_is_not_stored_and_a_tiny_one_is(figure: float, stored: int) -> None:
    """A scale-up after a restart would else begin with a window that nobody learned."""
    status = learned_status_of(Learned(window=figure, join_s=figure), NOTHING, WALL)
    assert (status.window, status.join_milliseconds) == (stored, stored)


def test_memory_ages_on_the_status() -> None:
    status = learned_status_of(LEARNED, NOTHING, WALL)
    assert learned_of_status(status, WALL + timedelta(hours=2)).age_s == 3 * 3600


def test_nothing_learned_is_nothing_stored_and_back() -> None:
    assert learned_status_of(Learned(), LearnedStatus(window=40), WALL) == NOTHING
    assert learned_of_status(NOTHING, WALL) == Learned()


def test_figures_that_say_the_same_are_not_written_again() -> None:
    stored = learned_status_of(LEARNED, NOTHING, WALL)
    soon = WALL + timedelta(seconds=300)
    again = Learned(
        window=49.0,
        is_proven=True,
        baseline_s=0.0086,
        join_s=60.0,
        boot_s=121.0,
        boot_spread_s=13.0,
        load_per_join=0.0125,
        age_s=3600.0,
    )
    assert learned_status_of(again, stored, soon) is stored


@pytest.mark.parametrize("changed", [Learned(window=60.0, age_s=3600.0), Learned(window=48.0, age_s=0.0)])
def test_news_are_written_with_their_time(changed: Learned) -> None:
    stored = LearnedStatus(window=48, learned_at="2026-11-21T06:00:00Z")
    assert learned_status_of(changed, stored, WALL) != stored


@pytest.mark.parametrize(
    ("window", "minutes", "is_news"), [(95, 0, False), (94, 0, True), (100, 10, False), (100, 11, True)]
)
def test_news_are_a_twentieth_or_ten_minutes(window: int, minutes: int, *, is_news: bool) -> None:
    stored = LearnedStatus(window=100, learned_at="2026-11-21T06:00:00Z")
    learned = Learned(window=float(window), age_s=3600.0 - 60.0 * minutes)
    assert (learned_status_of(learned, stored, WALL) is not stored) is is_news


@pytest.mark.parametrize("text", ["2026-11-21T06:00:00", "2026-11-21T08:00:00+02:00", "2026-11-21T06:00:00Z"])
def test_a_time_is_read_in_its_zone_and_without_one_as_utc(text: str) -> None:
    assert learned_of_status(LearnedStatus(window=40, learned_at=text), WALL) == Learned(window=40.0, age_s=3600.0)
    assert learned_status_of(Learned(window=40.0), NOTHING, WALL).learned_at == "2026-11-21T07:00:00Z"


def test_wall_clock_that_stepped_back_does_not_make_memory_younger_than_new() -> None:
    status = learned_status_of(LEARNED, NOTHING, WALL)
    assert learned_of_status(status, WALL - timedelta(days=365)).age_s == 0


@pytest.mark.parametrize("text", ["", "yesterday", "2026-13-01T00:00:00Z", "null", "\x00"])
def test_memory_without_a_readable_time_is_no_memory(text: str) -> None:
    assert learned_of_status(LearnedStatus(window=40, learned_at=text), WALL) == Learned()


@pytest.mark.parametrize(
    "status",
    [
        LearnedStatus(window=-4, learned_at="2026-11-21T06:00:00Z"),
        LearnedStatus(window=10**9, learned_at="2026-11-21T06:00:00Z"),
        LearnedStatus(window=10**400, learned_at="2026-11-21T06:00:00Z"),
        LearnedStatus(baseline_microseconds=60_000_001, learned_at="2026-11-21T06:00:00Z"),
        LearnedStatus(load_per_join_millionths=1_000_001, learned_at="2026-11-21T06:00:00Z"),
    ],
)
def test_figures_out_of_range_were_never_learned(status: LearnedStatus) -> None:
    assert learned_of_status(status, WALL) == Learned(age_s=3600.0)


def test_a_figure_beyond_what_is_believed_comes_back_as_the_most_that_is() -> None:
    learned = Learned(window=1e9, join_s=1e9, load_per_join=7.0, baseline_s=1e9, age_s=1e12)
    status = learned_status_of(learned, NOTHING, WALL)
    back = learned_of_status(status, WALL)
    assert (back.window, back.join_s, back.load_per_join, back.baseline_s) == (MAX_JOINS, 86_400.0, 1.0, 60.0)
    assert status.learned_at == "2016-11-23T07:00:00Z", "ten years ago"


ANY = st.none() | st.floats()


@given(ANY, ANY, ANY, ANY, ANY, ANY, st.floats())
def test_whatever_was_learned_fits_the_api_and_comes_back_in_range(
    window: float | None,
    baseline: float | None,
    join: float | None,
    boot: float | None,
    spread: float | None,
    load: float | None,
    age: float,
) -> None:
    learned = Learned(
        window=window,
        baseline_s=baseline,
        join_s=join,
        boot_s=boot,
        boot_spread_s=spread,
        load_per_join=load,
        age_s=age,
    )
    status = learned_status_of(learned, NOTHING, WALL)
    figures = (status.window, status.baseline_microseconds, status.join_milliseconds, status.boot_milliseconds)
    assert all(
        0 <= each < 2**31 for each in (*figures, status.boot_spread_milliseconds, status.load_per_join_millionths)
    )
    back = learned_of_status(status, WALL)
    assert back.window is None or 1 <= back.window <= 100_000
    assert back.load_per_join is None or 0 < back.load_per_join <= 1


def test_that_a_knee_was_met_is_news() -> None:
    stored = learned_status_of(replace(LEARNED, is_proven=False), NOTHING, WALL)
    assert learned_status_of(LEARNED, stored, WALL).window_proven
    assert not learned_status_of(replace(LEARNED, is_proven=False), stored, WALL).window_proven
