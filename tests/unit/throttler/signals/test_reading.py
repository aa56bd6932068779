"""Two samples to a Reading, or to the reason why not."""

import math
from dataclasses import fields

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.recorded_metrics import recorded, sample_of, small_body
from throttler.signals.reading import Flaw, Reading, reading_between
from throttler.signals.sample import Sample, Totals

START = 1_700_000_000.0


def sample(at_s: float, requests: float, **figures: object) -> Sample:
    known: dict[str, object] = {"failures": 0.0, "pulse": requests, "started_at": START, **figures}
    return Sample(asked_s=at_s, taken_s=at_s, requests=requests, **known)  # type: ignore[arg-type]


def test_a_window_is_what_was_counted_between() -> None:
    reading = reading_between("a", sample(10.0, 100), sample(15.0, 150, failures=5.0))
    assert reading == Reading(server="a", ended_s=15.0, span_s=5.0, requests=50.0, errors=5.0)


def test_the_span_is_between_the_moments_of_sampling_and_the_age_from_asking() -> None:
    after = Sample(asked_s=15.0, taken_s=17.0, requests=150.0, failures=0.0, pulse=150.0, started_at=START)
    reading = reading_between("a", sample(10.0, 100), after)
    assert isinstance(reading, Reading)
    assert (reading.ended_s, reading.span_s) == (15.0, 7.0)


def test_a_restart_is_no_window() -> None:
    before, after = sample_of(recorded("herd-2"), 0.0), sample_of(recorded("restarted"), 5.0)
    assert reading_between("a", before, after) is Flaw.RESTARTED


def test_a_counter_that_fell_is_no_window() -> None:
    assert reading_between("a", sample(10.0, 100), sample(15.0, 99)) is Flaw.WENT_BACK
    before, after = sample(10.0, 100, service=Totals(5.0, 10.0)), sample(15.0, 120, service=Totals(4.0, 11.0))
    assert reading_between("a", before, after) is Flaw.WENT_BACK


def test_a_body_that_comes_again_is_frozen() -> None:
    body = recorded("herd-2")
    assert reading_between("a", sample_of(body, 0.0), sample_of(body, 5.0)) is Flaw.FROZEN


def test_an_idle_server_is_not_frozen_because_our_own_scrape_counts() -> None:
    reading = reading_between("a", sample_of(recorded("healthy-1"), 0.0), sample_of(recorded("healthy-2"), 5.0))
    assert isinstance(reading, Reading)
    assert reading.requests == 2


def test_a_process_from_the_future_is_no_process() -> None:
    after = sample(15.0, 150, wall_s=START - 1000)
    assert reading_between("a", sample(10.0, 100), after) is Flaw.FROM_THE_FUTURE


def test_too_short_and_too_long_spans_are_no_windows() -> None:
    assert reading_between("a", sample(10.0, 100), sample(10.1, 150)) is Flaw.TOO_SHORT
    assert reading_between("a", sample(10.0, 100), sample(400.0, 150)) is Flaw.TOO_LONG


@pytest.mark.parametrize(
    "after",
    [
        sample(15.0, 1e12),
        sample(15.0, 150, latency=Totals(1e9, 10.0)),
        sample(15.0, 150, cpu_s=1e6, cpus=1.0),
        sample(15.0, 150, waits={"system": Totals(1e9, 1.0)}),
    ],
)
def test_what_cannot_be_true_is_no_window(after: Sample) -> None:
    assert reading_between("a", sample(10.0, 100, cpu_s=0.0, cpus=1.0), after) is Flaw.IMPLAUSIBLE


def test_the_worst_level_counts() -> None:
    before = sample(10.0, 100, waits={"system": Totals(0.0, 0.0), "node-high": Totals(1.0, 100.0)})
    after = sample(15.0, 150, waits={"system": Totals(5.0, 10.0), "node-high": Totals(1.1, 200.0)})
    reading = reading_between("a", before, after)
    assert isinstance(reading, Reading)
    assert reading.queue_wait_s == 0.5


def test_a_series_that_appears_in_the_window_started_at_zero() -> None:
    reading = reading_between("a", sample(10.0, 100), sample(15.0, 150, latency=Totals(2.0, 4.0)))
    assert isinstance(reading, Reading)
    assert reading.latency_s == 0.5


def test_no_request_of_a_join_is_no_latency_rather_than_zero() -> None:
    same = Totals(2.0, 4.0)
    reading = reading_between("a", sample(10.0, 100, latency=same), sample(15.0, 150, latency=same))
    assert isinstance(reading, Reading)
    assert reading.latency_s is None


COUNTS = st.floats(min_value=0, max_value=2.0**53)
TOTALS = st.none() | st.builds(Totals, COUNTS, COUNTS)
SAMPLES = st.builds(
    Sample,
    asked_s=st.floats(0, 1e5),
    taken_s=st.floats(0, 1e5),
    wall_s=st.none() | st.floats(0, 4e9),
    started_at=st.none() | st.sampled_from([START, START + 10]) | COUNTS,
    requests=COUNTS,
    failures=COUNTS,
    refusals=COUNTS,
    others_errors=COUNTS,
    webhook_failures=COUNTS,
    latency=TOTALS,
    service=TOTALS,
    waits=st.dictionaries(st.sampled_from(["system", "node-high"]), st.builds(Totals, COUNTS, COUNTS)),
    seats_share=st.none() | COUNTS,
    cpu_s=st.none() | COUNTS,
    cpus=st.none() | COUNTS,
    pulse=COUNTS,
)


def is_sound(reading: Reading) -> bool:
    numbers = [getattr(reading, field.name) for field in fields(reading)]
    return all(math.isfinite(number) and number >= 0 for number in numbers if isinstance(number, float))


@given(SAMPLES, SAMPLES)
def test_every_figure_of_every_window_is_finite_and_not_negative(before: Sample, after: Sample) -> None:
    reading = reading_between("a", before, after)
    if isinstance(reading, Reading):
        assert is_sound(reading)
        assert reading.errors <= reading.requests


@given(st.integers(0, 10**6), st.integers(1, 10**6), st.floats(0.6, 200))
def test_requests_are_counted_exactly(first: int, more: int, span_s: float) -> None:
    assume(more <= 1e6 * span_s)
    reading = reading_between("a", sample(10.0, first), sample(10.0 + span_s, first + more))
    assert isinstance(reading, Reading)
    assert reading.requests == more
    assert reading.span_s == pytest.approx(span_s)


@given(st.sampled_from(["NaN", "+Inf", "1e308", "-0", "-5"]))
def test_a_poisoned_body_never_becomes_a_sample(number: str) -> None:
    with pytest.raises(ValueError, match="apiserver_request_total"):
        sample_of(small_body(extra=f'apiserver_request_total{{code="429"}} {number}'))


def test_what_a_webhook_failed_since_is_no_error_of_the_server() -> None:
    before = sample(10.0, 100, failures=8.0, webhook_failures=6.0, refusals=1.0)
    after = sample(15.0, 200, failures=28.0, webhook_failures=16.0, refusals=4.0)
    reading = reading_between("a", before, after)
    assert isinstance(reading, Reading)
    assert reading.errors == 20 - 10 + 3
    assert reading.others_errors == 0
