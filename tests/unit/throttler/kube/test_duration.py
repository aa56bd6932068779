"""Durations in Go's notation."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from throttler.kube.quantities_and_durations import LONGEST_DURATION_S, DurationError, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("8h", 28_800), ("1h30m", 5400), ("45m", 2700), ("90s", 90), ("0.5h", 1800), ("1.5m", 90), ("0.1h", 360),
        ("30m1h", 5400), ("1h1h", 7200), ("744h", LONGEST_DURATION_S), ("2678400s", LONGEST_DURATION_S),
        ("0.001s", 0.001), ("0h1s", 1),
    ],
)  # fmt: skip
def test_reads(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text",
    [
        "", "8", "h", "8 h", " 8h", "8h ", "8h\n", "-8h", "+8h", "1d", "1w", "8H", "8hours", "1_0h", "1e3s", "NaNh",
        "infh", "８h", "٨h", ".5h", "5.h", "1h30", "100ms", "0", "0h", "0h0m0s", "745h", "744h0.001s", "2678401s",
        "9999h", "1h,30m", "9999999s9999999s",
    ],
)  # fmt: skip
def test_refuses_with_the_text_and_what_is_accepted(text: str) -> None:
    with pytest.raises(DurationError) as refusal:
        parse_duration(text)
    assert str(refusal.value) == (
        f'duration "{text}" is not accepted; accepted: above 0 and at most 744h (31 days), such as 45m, 8h or 1h30m'
    )


@given(st.integers(0, 743), st.integers(0, 59), st.integers(0, 59))
def test_hours_minutes_and_seconds_add_up(hours: int, minutes: int, seconds: int) -> None:
    assume(hours or minutes or seconds)
    assert parse_duration(f"{hours}h{minutes}m{seconds}s") == hours * 3600 + minutes * 60 + seconds


PARTS = st.from_regex(r"\A([0-9]{0,4}\.?[0-9]{0,2}(ms|h|m|s)){1,3}\Z")


@given(st.text(alphabet="0123456789.hms-+ _e", max_size=32) | st.text(max_size=32) | PARTS)
def test_any_text_is_within_bounds_or_refused(text: str) -> None:
    try:
        seconds = parse_duration(text)
    except DurationError:
        return
    assert 0 < seconds <= LONGEST_DURATION_S
