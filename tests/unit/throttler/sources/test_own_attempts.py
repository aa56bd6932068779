"""What our own requests meet, as a reading."""

import pytest

from throttler.kube.caller import Attempt
from throttler.signals.reading import Reading
from throttler.sources.own_attempts import OwnAttempts


def reading_of(*attempts: tuple[str, str, str, float]) -> Reading:
    own = OwnAttempts(5.0)
    own.reading(100.0)
    for verb, resource, code, seconds in attempts:
        own.observe(Attempt(verb, resource, code, seconds, 0))
    reading = own.reading(105.0)
    assert reading is not None
    return reading


def test_there_is_nothing_before_the_first_window_is_complete() -> None:
    own = OwnAttempts(5.0)
    assert own.reading(100.0) is None
    assert own.reading(104.9) is None
    assert own.reading(105.0) is not None


def test_latency_is_the_mean_over_single_objects() -> None:
    reading = reading_of(("get", "nodes", "200", 0.1), ("patch", "nodes", "200", 0.3), ("list", "pods", "200", 9.0))
    assert reading.server == "own requests"
    assert (reading.requests, reading.errors, reading.span_s, reading.ended_s) == (3, 0, 5.0, 105.0)
    assert reading.latency_s == pytest.approx(0.2)


@pytest.mark.parametrize("code", ["429", "500", "503", "504", "timeout", "error"])
def test_refusals_failures_and_silence_are_errors(code: str) -> None:
    assert reading_of(("get", "nodes", code, 1.0), ("get", "nodes", "404", 0.1)).errors == 1


def test_what_we_gave_up_ourselves_and_disruption_budgets_are_no_errors() -> None:
    reading = reading_of(("get", "nodes", "cancelled", 1.0), ("create", "pods/eviction", "429", 0.1))
    assert (reading.requests, reading.errors) == (1, 0)


def test_a_quiet_window_is_no_latency_rather_than_zero() -> None:
    reading = reading_of()
    assert (reading.requests, reading.latency_s) == (0, None)


def test_the_newest_complete_window_stays_until_the_next_is_complete() -> None:
    own = OwnAttempts(5.0)
    own.reading(100.0)
    own.observe(Attempt("get", "nodes", "429", 0.1, 0))
    first = own.reading(105.0)
    own.observe(Attempt("get", "nodes", "200", 0.1, 0))
    assert own.reading(109.0) is first
    later = own.reading(110.0)
    assert later is not None
    assert (later.errors, later.requests) == (0, 1)
