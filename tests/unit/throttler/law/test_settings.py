"""What a throttle's spec says to the law."""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.contract.jointhrottle_table import accepted
from throttler.api.throttle import JoinThrottle, Preset, ThrottleSpec, Window
from throttler.api.throttle_rules import decode_throttle
from throttler.law.settings import PRESETS, LawSettings, law_settings

PAGE = (Path(__file__).parents[4] / "docs" / "jointhrottle.md").read_text(encoding="utf-8")
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


def test_presets_bound_the_window_as_their_table_says() -> None:
    table = re.findall(r"^\| `(\w+)` \| (\d+) \| (\d+) \| (\d+) \|$", PAGE, re.MULTILINE)
    found = [(preset.value, law_settings(spec(preset=preset.value))) for preset in Preset]
    assert [(name, *map(int, bounds)) for name, *bounds in table] == [
        (name, given.window_initial, given.window_min, given.window_max) for name, given in found
    ]


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


def test_where_the_user_says_how_a_cold_start_begins_idle_cpu_adds_nothing() -> None:
    assert law_settings(spec(window={"initial": 10})).guess_trust == 0.0
    assert law_settings(spec(window={"max": 10})).guess_trust == LawSettings().guess_trust > 0.0


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
