"""What a throttle's spec says to the law, and what the law says to its status."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.contract.jointhrottle_table import accepted
from throttler.api.throttle import JoinThrottle, LearnedStatus, Preset, ThrottleSpec, Window
from throttler.api.throttle_rules import decode_throttle
from throttler.law.law_memory import Learned
from throttler.law.settings import LawSettings
from throttler.service.law_from_spec import PRESETS, law_settings, learned_of_status, learned_status_of

TAINT = "startup-taint.cluster-autoscaler.kubernetes.io/paced"
SIZES = st.none() | st.integers(1, 100_000)


def spec(**given: Any) -> ThrottleSpec:
    return msgspec.convert(given, ThrottleSpec)


@pytest.mark.parametrize("case", accepted(), ids=lambda case: case.name)
def test_every_accepted_throttle_has_settings(case: Any) -> None:
    throttle = decode_throttle(case.manifest)
    assert isinstance(throttle, JoinThrottle)
    assert law_settings(throttle.spec).max_wait_s == throttle.spec.max_wait_s


@pytest.mark.parametrize("preset", list(Preset))
def test_presets_are_valid_bounds(preset: Preset) -> None:
    bounds = PRESETS[preset]
    LawSettings(window_initial=bounds.initial, window_min=bounds.min, window_max=bounds.max)


def test_presets_bound_the_window() -> None:
    assert [law_settings(spec(preset=preset.value)).window_max for preset in Preset] == [5000, 2000, 700, 50]


def test_highest_window_alone_lowers_where_a_scale_up_begins() -> None:
    found = law_settings(spec(window={"max": 10}))
    assert (found.window_min, found.window_initial, found.window_max) == (2, 10, 10)


def test_lowest_window_above_the_preset_raises_the_others() -> None:
    found = law_settings(spec(preset="k3s", window={"min": 60}))
    assert (found.window_min, found.window_initial, found.window_max) == (60, 60, 60)


@given(SIZES, SIZES, SIZES, st.sampled_from(Preset))
def test_given_bounds_hold_in_order_whatever_the_preset(
    low: int | None, start: int | None, high: int | None, preset: Preset
) -> None:
    asked = sorted(each for each in (low, start, high) if each is not None)
    ordered = [None if each is None else asked.pop(0) for each in (low, start, high)]
    window = Window(initial=ordered[1], min=ordered[0], max=ordered[2])
    found = law_settings(ThrottleSpec(window=window, preset=preset))
    assert found.window_min <= found.window_initial <= found.window_max
    assert ordered[0] in (None, found.window_min)
    assert ordered[1] in (None, found.window_initial)
    assert ordered[2] in (None, found.window_max)


def test_no_lever_holds_a_machine_before_it_registers() -> None:
    assert law_settings(spec(levers={"startupTaint": {"key": TAINT}})).registers_freely


def test_rest_is_what_the_user_says() -> None:
    found = law_settings(
        spec(
            maxInFlight=70,
            maxWait="90s",
            killTimer="5m",
            reserved={"nodes": 4},
            pace={"maxPerMinute": 30, "safePerMinute": 3},
            levers={"startupTaint": {"key": TAINT}},
        )
    )
    assert (found.max_in_flight, found.max_wait_s, found.kill_timer_s, found.reserved_nodes) == (70, 90, 300, 4)
    assert (found.max_per_min, found.safe_per_min, found.has_gate) == (30, 3, True)
    assert law_settings(spec()).has_gate is False


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
    ],
)
def test_figures_out_of_range_were_never_learned(status: LearnedStatus) -> None:
    assert learned_of_status(status, WALL).window is None


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
