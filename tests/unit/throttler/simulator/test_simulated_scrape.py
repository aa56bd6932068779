"""What a scraper sees of the plant, and what it does not."""

from dataclasses import replace

import numpy as np
import pytest

from tests.unit.throttler.simulator.small_plants import plant
from throttler.simulator.scenario_and_faults import Blindness, ErrorsOfOthers, SlowWebhook
from throttler.simulator.simulated_scrape import CLOCK_START_S, Counters, Observer


def observer(**changes: object) -> Observer:
    clear = {"scrape_missing": 0.0, "scrape_noise": 0.0, "servers": 1}
    return Observer(plant(**(clear | changes)), np.random.default_rng(1))


def counted(seconds: float, *, started_s: float = 0.0, errors: float = 0.0) -> Counters:
    return Counters(
        started_s=started_s,
        requests=10 * seconds,
        errors=errors,
        latency_sum_s=0.2 * seconds,
        latency_count=10 * seconds,
        wait_sum_s=0.1 * seconds,
        wait_count=10 * seconds,
        busy_s=0.6 * seconds,
        seats_share=0.5,
    )


def test_a_window_is_the_difference_of_two_scrapes() -> None:
    seen = observer()
    seen.scrape([counted(10, errors=3)], 10.0)
    assert seen.signals(15.0).readings == ()
    seen.scrape([counted(20, errors=7)], 20.0)
    (reading,) = seen.signals(25.0).readings
    assert (reading.requests, reading.errors, reading.span_s) == (100, 4, 10)
    assert reading.ended_s == 20.0 + CLOCK_START_S
    assert reading.latency_s == pytest.approx(0.02)
    assert reading.queue_wait_s == pytest.approx(0.01)
    assert reading.cpu_share == pytest.approx(0.6)
    assert reading.service_s == pytest.approx(0.01)
    assert reading.seats_share == 0.5


def test_what_others_are_answered_is_counted_and_is_no_load() -> None:
    faults = (
        ErrorsOfOthers(at_s=15.0, for_s=100.0, per_s=1000.0),
        ErrorsOfOthers(at_s=10.0, for_s=100.0, per_s=1000.0, looks_like_joins=False),
        ErrorsOfOthers(at_s=10.0, for_s=100.0, per_s=1000.0, server=1),
        SlowWebhook(at_s=15.0, for_s=100.0, seconds=3.0),
    )
    seen = observer(faults=faults)
    for now_s in (10.0, 20.0):
        seen.scrape([counted(now_s)], now_s)
    (reading,) = seen.signals(25.0).readings
    assert reading.errors == pytest.approx(5000, rel=0.1)
    assert reading.others_errors == pytest.approx(10_000, rel=0.1)
    assert reading.requests == 100 + reading.errors + reading.others_errors
    assert (reading.latency_s, reading.service_s) == (pytest.approx(1.52), pytest.approx(0.01))
    assert reading.cpu_share == pytest.approx(0.6)


def test_servers_that_are_never_seen_are_silent_from_the_beginning() -> None:
    (silent,) = observer(never_seen=1).signals(25.0).silent
    assert (silent.was_seen, silent.since_s) == (False, CLOCK_START_S - plant().lead_s)


def test_a_reading_comes_late() -> None:
    seen = observer(scrape_delay_s=3.0)
    seen.scrape([counted(10)], 10.0)
    seen.scrape([counted(20)], 20.0)
    assert seen.signals(22.9).readings == ()
    assert len(seen.signals(23.0).readings) == 1


@pytest.mark.parametrize("faults", [(), (SlowWebhook(seconds=3.0),)], ids=["calm", "a webhook of others is slow"])
def test_an_idle_window_has_no_latency(faults: tuple[SlowWebhook, ...]) -> None:
    seen = observer(faults=faults)
    for now_s in (10.0, 20.0):
        seen.scrape([counted(5)], now_s)
    (reading,) = seen.signals(30.0).readings
    assert (reading.requests, reading.latency_s, reading.queue_wait_s) == (0, None, None)


def test_one_answer_in_a_window_is_its_latency() -> None:
    seen = observer()
    for now_s in (10.0, 20.0):
        seen.scrape([counted(now_s / 100.0)], now_s)
    (reading,) = seen.signals(25.0).readings
    assert (reading.requests, reading.latency_s) == (1.0, pytest.approx(0.02))


def test_while_blind_the_newest_reading_grows_old() -> None:
    seen = observer(faults=(Blindness(at_s=25, for_s=100),))
    for now_s in range(10, 150, 10):
        seen.scrape([counted(now_s)], float(now_s))
        seen.signals(float(now_s) + 5.0)
        if now_s == 120:
            assert seen.signals(now_s).readings[0].ended_s == 20.0 + CLOCK_START_S
    (reading,) = seen.signals(150.0).readings
    assert (reading.ended_s, reading.span_s) == (140.0 + CLOCK_START_S, 10.0)


def test_a_server_that_is_down_is_silent_and_not_missing() -> None:
    seen = observer(servers=2)
    for now_s in (10.0, 20.0):
        seen.scrape([counted(now_s), counted(now_s)], now_s)
    for now_s in (30.0, 40.0):
        seen.scrape([counted(now_s), None], now_s)
        signals = seen.signals(now_s + 5.0)
        assert [reading.server for reading in signals.readings] == ["server-0"]
        (silent,) = signals.silent
        assert (silent.server, silent.since_s) == ("server-1", 30.0 + CLOCK_START_S)


def test_a_restarted_server_is_counted_anew() -> None:
    seen = observer()
    for counters, now_s in ((counted(10), 10.0), (counted(20), 20.0), (None, 30.0)):
        seen.scrape([counters], now_s)
    seen.scrape([counted(5, started_s=35)], 40.0)
    assert len(seen.signals(45.0).silent) == 1
    seen.scrape([counted(15, started_s=35)], 50.0)
    signals = seen.signals(55.0)
    assert signals.silent == ()
    assert signals.readings[0].requests == 100


def test_a_restart_between_two_scrapes_makes_no_window() -> None:
    seen = observer()
    for counters, now_s in ((counted(10), 10.0), (counted(20), 20.0), (counted(25, started_s=22), 30.0)):
        seen.scrape([counters], now_s)
    assert [reading.ended_s for reading in seen.signals(35.0).readings] == [20.0 + CLOCK_START_S]


def test_a_server_that_did_not_answer_once_is_counted_anew() -> None:
    seen = observer()
    for counters, now_s in ((counted(10), 10.0), (counted(20), 20.0), (None, 30.0), (counted(40), 40.0)):
        seen.scrape([counters], now_s)
    assert seen.signals(45.0).readings == ()
    seen.scrape([counted(50)], 50.0)
    (reading,) = seen.signals(55.0).readings
    assert (reading.requests, reading.span_s) == (100, 10.0)


def test_missing_scrapes_make_windows_longer() -> None:
    seen = observer(scrape_missing=0.3)
    spans = set()
    for now_s in range(10, 3000, 10):
        seen.scrape([counted(now_s)], float(now_s))
        spans |= {reading.span_s for reading in seen.signals(now_s + 5.0).readings}
    assert spans == {10.0, 20.0, 30.0}


def test_each_figure_has_a_noise_of_its_own() -> None:
    seen = observer(scrape_noise=0.1)
    for now_s in (10.0, 20.0):
        seen.scrape([counted(now_s, errors=now_s)], now_s)
    (reading,) = seen.signals(25.0).readings
    truth = {
        "requests": 100.0,
        "errors": 10.0,
        "latency_s": 0.02,
        "service_s": 0.01,
        "queue_wait_s": 0.01,
        "seats_share": 0.5,
        "cpu_share": 0.6,
    }
    factors = {round(getattr(reading, name) / true, 9) for name, true in truth.items()}
    assert len(factors) == 7


def test_noise_scatters_every_figure_around_the_truth() -> None:
    seen = observer(scrape_noise=0.1)
    latencies = []
    for now_s in range(10, 10_000, 10):
        seen.scrape([counted(now_s)], float(now_s))
        latencies += [reading.latency_s for reading in seen.signals(now_s + 5.0).readings]
    assert np.mean(latencies) == pytest.approx(0.02, rel=0.02)
    assert np.std(latencies) == pytest.approx(0.002, rel=0.1)


def test_no_figure_is_negative_and_no_share_more_than_all_however_noisy_the_scrapes() -> None:
    seen = observer(scrape_noise=2.0)
    for now_s in range(10, 1000, 10):
        seen.scrape([counted(now_s, errors=9.0 * now_s)], float(now_s))
        for reading in seen.signals(now_s + 5.0).readings:
            assert 0.0 <= reading.errors <= reading.requests
            assert reading.latency_s is not None
            assert reading.service_s is not None
            assert reading.queue_wait_s is not None
            assert min(reading.latency_s, reading.service_s, reading.queue_wait_s) >= 0.0
            assert reading.seats_share is not None
            assert reading.cpu_share is not None
            assert 0.0 <= reading.seats_share <= 1.0
            assert 0.0 <= reading.cpu_share <= 1.0


def test_those_that_left_the_queue_and_were_not_answered_yet_make_no_service_negative() -> None:
    seen = observer()
    for now_s in (10.0, 20.0):
        seen.scrape([replace(counted(now_s), wait_sum_s=0.5 * now_s)], now_s)
    (reading,) = seen.signals(25.0).readings
    assert reading.service_s == 0.0


def test_a_server_that_goes_down_again_is_silent_since_then() -> None:
    seen = observer()
    for counters, now_s in ((None, 10.0), (counted(5, started_s=15), 20.0), (None, 30.0), (None, 40.0)):
        seen.scrape([counters], now_s)
    assert [silent.since_s for silent in seen.signals(45.0).silent] == [30.0 + CLOCK_START_S]
