"""Two samples to a Reading, or to the reason why not."""

import math
from dataclasses import fields, replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.recorded_metrics import recorded, sample_of, small_body
from throttler.signals.reading import Alarm, Flaw, Reading, is_from_the_future, reading_between
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


CUMULATED = ("requests", "failures", "refusals", "others_errors", "webhook_failures", "pulse")
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


@st.composite
def later(draw: st.DrawFn, before: Sample) -> Sample:
    """The same process some seconds later, its counters grown as a real server's may."""

    def grown(count: float) -> float:
        return count + draw(st.integers(0, 500))

    def longer(totals: Totals | None) -> Totals | None:
        return None if totals is None else Totals(totals.sum_s + draw(st.floats(0, 500)), grown(totals.count))

    return replace(
        before,
        taken_s=before.taken_s + draw(st.floats(0.5, 300)),
        requests=grown(before.requests),
        failures=grown(before.failures),
        refusals=grown(before.refusals),
        others_errors=grown(before.others_errors),
        webhook_failures=grown(before.webhook_failures),
        latency=longer(before.latency),
        service=longer(before.service),
        pulse=grown(before.pulse) + 1,
    )


YOUNG = SAMPLES.map(
    lambda sample: replace(
        sample,
        **{name: float(int(getattr(sample, name)) % 1_000_000) for name in CUMULATED},
        latency=None,
        service=Totals(0.0, 0.0),
        wall_s=None,
        waits={},
        cpu_s=None,
    )
)
"""Counters small enough that what is added to them shows, each from 0 on."""


def is_sound(reading: Reading) -> bool:
    numbers = [getattr(reading, field.name) for field in fields(reading)]
    return all(math.isfinite(number) and number >= 0 for number in numbers if isinstance(number, float))


@given(st.tuples(SAMPLES, SAMPLES) | YOUNG.flatmap(lambda before: st.tuples(st.just(before), later(before))))
def test_every_figure_of_every_window_is_finite_and_not_negative(pair: tuple[Sample, Sample]) -> None:
    before, after = pair
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


@pytest.mark.parametrize(
    ("span_s", "flaw"), [(0.4, Flaw.TOO_SHORT), (0.5, None), (300.0, None), (300.1, Flaw.TOO_LONG)]
)
def test_a_window_is_between_half_a_second_and_five_minutes_long(span_s: float, flaw: Flaw | None) -> None:
    found = reading_between("a", sample(0.0, 100), sample(span_s, 150))
    assert (found if isinstance(found, Flaw) else None) is flaw


@pytest.mark.parametrize(
    ("started_at", "wall_s", "is_so"),
    [
        (START + 120.0, START, False),
        (START + 120.5, START, True),
        (START, START + 9000.0, False),
        (None, START, False),
        (START + 9000.0, None, False),
    ],
)
def test_a_process_may_seem_to_start_two_minutes_from_now(
    started_at: float | None, wall_s: float | None, *, is_so: bool
) -> None:
    assert is_from_the_future(sample(5.0, 1, started_at=started_at, wall_s=wall_s)) is is_so


FULL: dict[str, object] = {
    "pulse": 500.0,
    "cpu_s": 9.0,
    "cpus": 2.0,
    "failures": 9.0,
    "refusals": 9.0,
    "others_errors": 9.0,
    "webhook_failures": 9.0,
    "latency": Totals(9.0, 90.0),
    "service": Totals(9.0, 90.0),
}


@pytest.mark.parametrize(
    "fallen",
    [
        {"pulse": 499.0},
        {"cpu_s": 8.9},
        {"cpu_s": None},
        {"failures": 8.0},
        {"refusals": 8.0},
        {"others_errors": 8.0},
        {"webhook_failures": 8.0},
        {"latency": Totals(8.9, 91.0)},
        {"latency": Totals(9.1, 89.0)},
        {"latency": None},
        {"service": Totals(8.9, 91.0)},
        {"service": Totals(9.1, 89.0)},
    ],
)
def test_no_counter_of_a_process_may_fall(fallen: dict[str, object]) -> None:
    before = sample(10.0, 100, **FULL)
    assert reading_between("a", before, sample(15.0, 150, **{**FULL, "pulse": 600.0, **fallen})) is Flaw.WENT_BACK
    assert isinstance(reading_between("a", before, sample(15.0, 150, **{**FULL, "pulse": 600.0})), Reading)


def test_a_family_may_appear_on_the_way() -> None:
    bare = sample(10.0, 100, latency=None, service=None, cpu_s=None)
    assert isinstance(reading_between("a", bare, sample(15.0, 150, **{**FULL, "pulse": 150.0})), Reading)
    first = {"cpu_s": 0.1, "latency": Totals(0.1, 0.9), "service": Totals(0.1, 0.9)}
    assert isinstance(reading_between("a", bare, sample(15.0, 150, **{**FULL, "pulse": 150.0, **first})), Reading)


@pytest.mark.parametrize(
    ("before", "after", "errors"),
    [
        ({}, {"failures": 70.0}, (50, 0)),
        ({}, {"failures": 20.0, "refusals": 40.0}, (50, 0)),
        ({}, {"others_errors": 70.0}, (0, 50)),
        ({}, {"failures": 4.0, "webhook_failures": 9.0, "refusals": 3.0}, (3, 0)),
        ({"others_errors": 5.0}, {"others_errors": 12.0}, (0, 7)),
        ({"refusals": 5.0, "failures": 1.0}, {"refusals": 7.0, "failures": 4.0}, (5, 0)),
    ],
)
def test_errors_are_those_of_the_window_and_no_more_than_its_requests(
    before: dict[str, float], after: dict[str, float], errors: tuple[int, int]
) -> None:
    found = reading_between("a", sample(10.0, 100, **before), sample(15.0, 150, **after))
    assert isinstance(found, Reading)
    assert (found.errors, found.others_errors) == errors


@pytest.mark.parametrize(
    ("before", "after", "share"),
    [
        ({"cpu_s": 1.0}, {"cpu_s": 3.5, "cpus": 2.0}, 0.25),
        ({"cpu_s": 1.0}, {"cpu_s": 3.5, "cpus": 0.0}, None),
        ({"cpu_s": 1.0}, {"cpu_s": 3.5, "cpus": None}, None),
        ({"cpu_s": None}, {"cpu_s": 3.5, "cpus": 2.0}, None),
        ({"cpu_s": None}, {"cpu_s": None, "cpus": 2.0}, None),
    ],
)
def test_the_cpu_share_is_of_what_the_runtime_may_use_in_the_window(
    before: dict[str, float | None], after: dict[str, float | None], share: float | None
) -> None:
    found = reading_between("a", sample(10.0, 100, **before), sample(15.0, 150, **after))
    assert isinstance(found, Reading)
    assert found.cpu_share == share


@pytest.mark.parametrize(
    ("after", "is_plausible"),
    [
        ({"requests": 5_000_100.0}, True),
        ({"requests": 5_000_101.0}, False),
        ({"latency": Totals(36_000.0, 10.0)}, True),
        ({"latency": Totals(36_001.0, 10.0)}, False),
        ({"service": Totals(36_000.0, 10.0)}, True),
        ({"service": Totals(36_001.0, 10.0)}, False),
        ({"waits": {"system": Totals(36_000.0, 10.0)}}, True),
        ({"waits": {"system": Totals(36_001.0, 10.0)}}, False),
        ({"waits": {"node-high": Totals(0.5, 20.0)}}, False),
        ({"cpu_s": 20.0, "cpus": 1.0}, True),
        ({"cpu_s": 20.1, "cpus": 1.0}, False),
    ],
)
def test_a_figure_at_its_bound_may_be_true_and_beyond_it_not(after: dict[str, object], *, is_plausible: bool) -> None:
    """A sum of waits that has fallen makes a mean below nothing."""
    before = sample(0.0, 100, cpu_s=0.0, waits={"node-high": Totals(1.0, 10.0)})
    found = reading_between("a", before, sample(5.0, **{"requests": 150.0, **after}))
    assert (found is not Flaw.IMPLAUSIBLE) is is_plausible


def test_of_a_level_in_which_nothing_ended_nothing_is_known() -> None:
    same = {"system": Totals(1.0, 10.0)}
    found = reading_between("a", sample(10.0, 100, waits=same), sample(15.0, 150, waits=same))
    assert isinstance(found, Reading)
    assert found.queue_wait_s is None


def test_after_some_flaws_the_newer_sample_is_a_new_beginning() -> None:
    assert {flaw for flaw in Flaw if flaw.is_reset} == {
        Flaw.RESTARTED, Flaw.WENT_BACK, Flaw.TOO_LONG, Flaw.IMPLAUSIBLE,
    }  # fmt: skip


@pytest.mark.parametrize(("value", "is_on"), [(0.89, False), (0.9, True), (1.0, True)])
def test_an_alarm_is_on_from_its_threshold(value: float, *, is_on: bool) -> None:
    assert Alarm(name="a", value=value, threshold=0.9).is_on is is_on
