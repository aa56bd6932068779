"""What is remembered of one server, and how single windows become what two of them agree on."""

from dataclasses import replace

import pytest

from throttler.law.server_health import Health, ServerTrace, delay_of, examine, traced
from throttler.signals.reading import Reading, Signals, SilentServer
from throttler.signals.servers import OWN_REQUESTS

READING = Reading(server="a", ended_s=100.0, span_s=10.0, requests=100.0, errors=0.0, latency_s=0.04, cpu_share=0.5)
KNOWN = ServerTrace(server="a", ended_s=90.0, delay_s=0.1, before_s=0.3, cpu=(0.2, 0.4), wait_s=0.3)


def followed(trace: ServerTrace = KNOWN, **figures: object) -> ServerTrace:
    (after,) = traced([trace], [replace(READING, **figures)])  # type: ignore[arg-type]
    return after


@pytest.mark.parametrize(
    ("delay_s", "before_s", "low_s", "high_s"),
    [(0.1, 0.3, 0.1, 0.3), (0.3, 0.1, 0.1, 0.3), (0.1, None, None, 0.1), (None, 0.3, None, None)],
)
def test_a_cut_asks_for_two_samples_and_growth_for_none_that_is_high(
    delay_s: float | None, before_s: float | None, low_s: float | None, high_s: float | None
) -> None:
    trace = ServerTrace(server="a", ended_s=0.0, delay_s=delay_s, before_s=before_s)
    assert (trace.low_s, trace.high_s) == (low_s, high_s)


@pytest.mark.parametrize(
    ("figures", "delay_s"),
    [
        ({"latency_s": 0.5, "service_s": 0.1, "queue_wait_s": 0.2}, 0.3),
        ({"latency_s": 0.2, "service_s": 0.1, "queue_wait_s": 0.2}, 0.2),
        ({"latency_s": 0.5, "service_s": 0.1}, 0.1),
        ({"latency_s": 0.1, "queue_wait_s": 0.4}, 0.4),
        ({"latency_s": None, "queue_wait_s": 0.4}, 0.4),
        ({"latency_s": None}, None),
        ({"latency_s": 4000.0}, 3600.0),
    ],
)
def test_a_delay_is_without_webhooks_and_no_shorter_than_the_wait(
    figures: dict[str, float | None], delay_s: float | None
) -> None:
    found = delay_of(replace(READING, **figures))  # type: ignore[arg-type]
    assert found == (None if delay_s is None else pytest.approx(delay_s))


def test_a_new_window_pushes_the_former_back() -> None:
    after = followed()
    assert (after.ended_s, after.delay_s, after.before_s, after.wait_s) == (100.0, 0.04, 0.1, 0.0)
    assert after.cpu == (0.2, 0.4, 0.5)
    assert followed(after, ended_s=110.0, cpu_share=1.2, queue_wait_s=0.1).cpu == (0.4, 0.5, 1.0)
    assert followed(cpu_share=None).cpu == (0.2, 0.4)
    assert after.utilisation == pytest.approx(1.1 / 3)


def test_a_window_is_judged_once() -> None:
    assert followed(ended_s=90.0) is KNOWN
    assert followed(ended_s=89.0) is KNOWN


@pytest.mark.parametrize(("ended_s", "is_company"), [(150.0, True), (150.1, False)])
def test_a_window_of_more_than_a_minute_ago_is_no_second_sample(ended_s: float, *, is_company: bool) -> None:
    after = followed(ended_s=ended_s)
    assert after.before_s == (0.1 if is_company else None)
    assert after.cpu == ((0.2, 0.4, 0.5) if is_company else (0.5,))


@pytest.mark.parametrize(
    ("wait_s", "share", "full_cpu"),
    [
        (0.25, 0.4, 0.4),  # twice in a row requests wait: it is full with what it uses now or used then
        (0.25, 0.5, 0.5),
        (0.24, 0.4, 1.0),
        (None, 0.4, 1.0),
        (0.25, 0.76, 1.0),
        (0.25, 0.1, 0.4),
    ],
)
def test_a_server_is_full_with_less_cpu_where_requests_wait_twice_in_a_row(
    wait_s: float | None, share: float, full_cpu: float
) -> None:
    assert followed(queue_wait_s=wait_s, cpu_share=share).full_cpu == full_cpu


def test_waits_of_a_server_whose_cpu_was_not_known_before_do_not_make_it_full() -> None:
    assert followed(replace(KNOWN, cpu=()), queue_wait_s=0.3, cpu_share=0.4).full_cpu == 1.0


@pytest.mark.parametrize(("before", "share", "full_cpu"), [(0.19, 0.19, 1.0), (0.2, 0.2, 0.2), (0.75, 0.3, 0.75)])
def test_what_fills_a_server_is_between_a_fifth_and_three_quarters(
    before: float, share: float, full_cpu: float
) -> None:
    assert followed(replace(KNOWN, cpu=(before,)), queue_wait_s=0.3, cpu_share=share).full_cpu == full_cpu


@pytest.mark.parametrize(
    ("wait_s", "share", "full_cpu"), [(0.04, 0.38, 1.0), (0.04, 0.37, 0.4), (0.05, 0.38, 0.4), (0.3, 0.45, 0.45)]
)
def test_a_server_that_bears_as_much_without_a_queue_is_not_full_with_it(
    wait_s: float, share: float, full_cpu: float
) -> None:
    assert followed(replace(KNOWN, full_cpu=0.4), queue_wait_s=wait_s, cpu_share=share).full_cpu == full_cpu
    slack = replace(KNOWN, full_cpu=0.5, cpu=(0.3,))
    assert followed(slack, queue_wait_s=0.3, cpu_share=0.3).full_cpu == 0.5, "what it once did it can do"


def health(*traces: ServerTrace, readings: tuple[Reading, ...] = ()) -> Health:
    return Health(
        fresh=readings,
        new=(),
        own=(),
        new_own=(),
        traces=traces,
        silent=None,
        never_seen=(),
        servers=len(traces),
        alarm=None,
    )


def test_the_busiest_server_is_so_by_what_it_gets() -> None:
    large = ServerTrace(server="large", ended_s=0.0, cpu=(0.6, 0.7))
    small = ServerTrace(server="small", ended_s=0.0, cpu=(0.4, 0.3), full_cpu=0.5)
    found = health(large, small, ServerTrace(server="mute", ended_s=0.0))
    assert (found.utilisation, found.full_cpu) == (pytest.approx(0.35), 0.5)
    assert found.crest_share == 0.8
    assert (health().utilisation, health().full_cpu, health().crest_share, health().worst_server) == (
        None,
        1.0,
        0.0,
        "",
    )


def test_the_newest_and_longest_windows_are_those_of_any_server() -> None:
    other = replace(READING, server="b", ended_s=90.0, span_s=20.0, seats_share=0.3)
    found = health(readings=(READING, other))
    assert (found.longest_span_s, found.read_until_s, found.seats) == (20.0, 100.0, 0.3)
    assert (health().longest_span_s, health().read_until_s, health().seats) == (None, None, 0.0)


@pytest.mark.parametrize(("since_s", "is_given_up"), [(700.0, True), (700.1, False)])
def test_a_server_that_never_answered_stops_growth_for_five_minutes(since_s: float, *, is_given_up: bool) -> None:
    never = SilentServer(server="b", problem="", since_s=since_s, was_seen=False)
    found = examine(Signals(readings=(replace(READING, ended_s=999.0),), silent=(never,)), (), 1000.0)
    assert (found.never_seen, found.silent) == (((never,), None) if is_given_up else ((), never))
    assert found.servers == 2


def test_of_silent_servers_the_one_that_has_been_so_longest_is_named() -> None:
    silent = tuple(SilentServer(server=name, problem="", since_s=at_s) for name, at_s in (("b", 9.0), ("c", 5.0)))
    found = examine(Signals(readings=(replace(READING, ended_s=999.0),), silent=silent), (), 1000.0)
    assert found.silent is silent[1]


def test_the_worst_server_is_the_one_that_two_windows_agree_on() -> None:
    slow = ServerTrace(server="slow", ended_s=0.0, delay_s=0.3, before_s=0.3)
    once = ServerTrace(server="once", ended_s=0.0, delay_s=0.9, before_s=0.1)
    new = ServerTrace(server="new", ended_s=0.0, delay_s=0.5)
    assert health(slow, once, new).worst_server == "slow"
    assert health(new).worst_server == "new", "with one window each, the slowest"


def test_where_no_server_is_read_our_own_requests_tell() -> None:
    own = replace(READING, server=OWN_REQUESTS, requests=1.0, ended_s=999.0)
    alone = examine(Signals(readings=(own,)), (), 1000.0)
    assert (alone.fresh, alone.own, alone.servers) == ((own,), (own,), 1)
    server = replace(READING, ended_s=999.0)
    both = examine(Signals(readings=(own, server)), (), 1000.0)
    assert (both.fresh, both.own, both.servers) == ((server,), (own,), 1)
