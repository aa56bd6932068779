"""The worst server governs, wherever it stands in the list and whatever it does not tell."""

from dataclasses import replace
from math import sqrt

import pytest

from tests.unit.throttler.law.looks import CALM_S, EQUILIBRIUM, NOW_S, SETTINGS, STEP_S, Loop, begun, reading
from throttler.joins.joins import Joins
from throttler.law.govern import observed
from throttler.law.join_model import JoinFlow, JoinTime, Load, with_counts
from throttler.law.law_memory import LawMemory
from throttler.law.server_health import Health, ServerTrace, delay_of, error_share, examine, is_usable, traced
from throttler.law.verdict import Phase, ThrottleReason, Verdict
from throttler.signals.reading import Reading, Signals, SilentServer

HOT_S = 3.0 * EQUILIBRIUM * CALM_S
ORDERS = pytest.mark.parametrize("bad", [0, 1], ids=["the bad one first", "the bad one second"])
NAMES = ("a", "b")


def pair(now_s: float, bad: int, *, calm_cpu: float = 0.1, **figures: object) -> tuple[Reading, ...]:
    """A calm server and a bad one, which is at this place."""
    calm = {"cpu_share": calm_cpu, "seats_share": 0.1}
    return tuple(reading(now_s, server=name, **(figures if place == bad else calm)) for place, name in enumerate(NAMES))


def health_of(bad: int, *windows: dict[str, object], calm_cpu: float = 0.1) -> Health:
    """After so many windows of both."""
    traces, now_s = (), 100.0
    for figures in windows:
        now_s += STEP_S
        health = examine(Signals(readings=pair(now_s, bad, calm_cpu=calm_cpu, **figures)), traces, now_s)
        traces = health.traces
    return health


@ORDERS
def test_delays_are_those_of_the_slowest_server(bad: int) -> None:
    health = health_of(bad, {"latency_s": 0.5}, {"latency_s": 0.7})
    assert (health.low_s, health.high_s, health.newest_s) == (0.5, 0.7, 0.7)
    assert health.worst_server == NAMES[bad]


@ORDERS
def test_each_figure_is_of_the_server_that_is_worst_in_it(bad: int) -> None:
    """One that was slow and calmed down, beside one that has just become slow."""
    traces, now_s = (), 100.0
    delays = ((0.9, 0.05), (0.1, 0.3))
    for first, second in delays:
        now_s += STEP_S
        pairs = zip(NAMES, (first, second) if bad == 0 else (second, first), strict=True)
        readings = tuple(reading(now_s, server=name, latency_s=delay_s) for name, delay_s in pairs)
        health = examine(Signals(readings=readings), traces, now_s)
        traces = health.traces
    assert (health.low_s, health.high_s, health.newest_s) == (0.1, 0.9, 0.3)


@ORDERS
def test_cpu_seats_and_errors_are_those_of_the_busiest_server(bad: int) -> None:
    health = health_of(bad, {"cpu_share": 0.8, "seats_share": 0.9, "errors": 3.0})
    assert (health.utilisation, health.seats) == (0.8, 0.9)
    assert max(health.fresh, key=error_share).server == NAMES[bad]


@ORDERS
def test_a_server_that_tells_nothing_of_its_cpu_hides_no_others(bad: int) -> None:
    health = health_of(bad, {"cpu_share": None, "seats_share": None, "latency_s": None})
    assert (health.utilisation, health.seats) == (0.1, 0.1)
    assert (health.high_s, health.newest_s) == (CALM_S, CALM_S)
    assert health.worst_server == ("b" if bad == 0 else "a")


WAITING, QUEUELESS = {"cpu_share": 0.5, "queue_wait_s": 0.4}, {"queue_wait_s": 0.01}


@ORDERS
@pytest.mark.parametrize(
    ("windows", "full"),
    [
        pytest.param((WAITING,), 1.0, id="once is chance"),
        pytest.param(({"cpu_share": 0.47, "queue_wait_s": 0.3}, WAITING), 0.5, id="the more of two"),
        pytest.param((WAITING, WAITING, {"cpu_share": 0.3, "queue_wait_s": 0.4}), 0.5, id="never less"),
        pytest.param((WAITING, WAITING, {"cpu_share": 0.6, "queue_wait_s": 0.1}), 0.6, id="more is believed"),
        pytest.param((WAITING, WAITING, {"cpu_share": 0.3} | QUEUELESS), 0.5, id="a lull says nothing"),
        pytest.param((WAITING, WAITING, {"cpu_share": 0.5} | QUEUELESS), 1.0, id="it does as much at ease"),
        pytest.param((WAITING, WAITING, {"cpu_share": None} | QUEUELESS), 0.5, id="not told"),
        pytest.param(({"cpu_share": 0.1, "queue_wait_s": 3.0},) * 3, 1.0, id="waits for a webhook"),
        pytest.param(({"cpu_share": 0.8, "queue_wait_s": 0.4},) * 2, 1.0, id="full by its own count"),
        pytest.param((WAITING, WAITING, {"cpu_share": 0.8, "queue_wait_s": 0.4}), 1.0, id="it gets as much as it says"),
    ],
)
def test_a_server_is_full_at_the_cpu_at_which_requests_wait(
    bad: int, windows: tuple[dict[str, object], ...], full: float
) -> None:
    """Its share is of GOMAXPROCS; held to half a core of one it never gets fuller than half."""
    health = health_of(bad, *windows)
    assert {trace.server: trace.full_cpu for trace in health.traces} == {NAMES[bad]: full, NAMES[1 - bad]: 1.0}


@ORDERS
def test_the_busiest_server_is_the_one_nearest_to_its_own_limit(bad: int) -> None:
    health = health_of(bad, *({"cpu_share": 0.3, "queue_wait_s": 0.4},) * 2, calm_cpu=0.6)
    assert (health.utilisation, health.full_cpu, health.crest_share) == (pytest.approx(0.3), 0.3, 1.0)


def look(loop: Loop, joins: Joins, bad: int, **figures: object) -> Verdict:
    return loop.look(Signals(readings=pair(loop.now_s + STEP_S, bad, **figures)), joins)


@ORDERS
def test_one_slow_server_of_two_cuts_the_window(bad: int) -> None:
    loop, joins = begun()
    verdicts = [look(loop, joins, bad, latency_s=HOT_S) for _ in range(3)]
    assert verdicts[-1].because.reason is ThrottleReason.BACKING_OFF
    assert verdicts[-1].because.detail["server"] == NAMES[bad]
    assert verdicts[-1].window < 100


@ORDERS
def test_errors_of_one_server_of_two_brake(bad: int) -> None:
    loop, joins = begun(joining=60)
    verdict = look(loop, joins, bad, errors=20.0)
    assert (verdict.phase, verdict.window, verdict.error_share) == (Phase.BRAKE, 30, 0.2)
    assert verdict.because.detail["server"] == NAMES[bad]


@ORDERS
def test_of_two_servers_with_errors_the_worse_one_is_named(bad: int) -> None:
    loop, joins = begun(joining=60)
    shares = (20.0, 6.0) if bad == 0 else (6.0, 20.0)
    now_s = loop.now_s + STEP_S
    readings = tuple(reading(now_s, server=name, errors=count) for name, count in zip(NAMES, shares, strict=True))
    assert loop.look(Signals(readings=readings), joins).because.detail["server"] == NAMES[bad]


@ORDERS
def test_the_baseline_is_that_of_the_slowest_idle_server(bad: int) -> None:
    loop = Loop()
    for _ in range(4):
        look(loop, Joins(), bad, latency_s=0.08)
    assert loop.memory.baseline.measured_s == 0.08


def apart(now_s: float, late: int) -> Signals:
    """Two servers of which the one at this place was scraped seven seconds before the other."""
    times = {name: now_s - (7.0 if place == late else 0.0) for place, name in enumerate(NAMES)}
    return Signals(readings=tuple(reading(ended_s, server=name, cpu_share=0.5) for name, ended_s in times.items()))


@ORDERS
def test_the_last_that_was_heard_is_the_newest_window_of_any_server(bad: int) -> None:
    loop, joins = begun()
    loop.look(apart(loop.now_s + STEP_S, bad), joins)
    lost = loop.blind(joins)
    assert (lost.phase, lost.because.detail["age_s"]) == (Phase.STALE, STEP_S)


@ORDERS
def test_a_joins_cost_is_that_of_the_joins_in_the_windows_of_all_servers(bad: int) -> None:
    flow = JoinFlow()
    for ago_s, joining in ((20.0, 20), (15.0, 20), (10.0, 20), (5.0, 30)):
        flow = with_counts(flow, Joins(joining=joining), NOW_S - ago_s)
    known = JoinTime(now_s=5.0, least_s=5.0)
    memory = replace(LawMemory.start(), looked_s=NOW_S - 5.0, load=Load(idle=(0.1,)), join_time=known, flow=flow)
    health = examine(apart(NOW_S, bad), (), NOW_S)
    slope = observed(memory, health, Joins(joining=30, waiting=9), SETTINGS, NOW_S).load.slope
    assert sqrt(slope.sum_xx) == pytest.approx((20 + 20 + 30) / 3), "17 seconds, of a fifth of a join ago"


def test_growth_asks_for_two_calm_samples_after_a_hot_one() -> None:
    """Calm, hot, calm: the first calm sample after a hot one is no proof."""
    loop, joins = begun()
    window = loop.calm(joins, times=2).window
    assert window > 100
    assert loop.calm(joins, latency_s=HOT_S).window == window
    assert loop.calm(joins).window == window
    assert loop.calm(joins).window > window


def test_a_cut_asks_for_two_hot_samples_in_a_row() -> None:
    loop, joins = begun()
    windows = [loop.calm(joins, latency_s=delay_s).window for delay_s in (HOT_S, CALM_S, HOT_S, CALM_S)]
    assert min(windows) >= 100


@pytest.mark.parametrize(
    ("latency_s", "service_s", "wait_s", "delay_s"),
    [
        (0.3, None, None, 0.3),
        (0.3, None, 0.1, 0.3),
        (0.3, None, 0.8, 0.8),
        (0.3, 0.1, 0.8, 0.8),
        (0.3, 0.1, 0.2, 0.3),
        (3.0, 0.1, 0.2, 0.3),
        (3.0, 0.1, None, 0.1),
        (None, 0.1, 0.2, 0.3),
        (None, None, 0.2, 0.2),
        (None, None, None, None),
    ],
)
def test_delay_is_service_and_queue_and_no_webhook(
    latency_s: float | None, service_s: float | None, wait_s: float | None, delay_s: float | None
) -> None:
    found = delay_of(reading(0.0, latency_s=latency_s, service_s=service_s, queue_wait_s=wait_s))
    assert found == (None if delay_s is None else pytest.approx(delay_s))


def test_a_long_queue_cuts_where_latency_is_short() -> None:
    """A queue of one level of several: its wait is longer than the mean latency of all."""
    loop, joins = begun()
    grown = loop.calm(joins).window
    cut = [loop.calm(replace(joins), queue_wait_s=HOT_S).window for _ in range(3)][-1]
    assert cut < grown


@pytest.mark.parametrize(("gap_s", "before_s"), [(5.0, 0.2), (60.0, 0.2), (60.1, None)])
def test_windows_more_than_a_minute_apart_are_not_combined(gap_s: float, before_s: float | None) -> None:
    first = traced((), [reading(100.0, latency_s=0.2, cpu_share=0.5)])
    (trace,) = traced(first, [reading(100.0 + gap_s, latency_s=0.4, cpu_share=0.7)])
    assert (trace.delay_s, trace.before_s) == (0.4, before_s)
    assert trace.cpu == ((0.7,) if before_s is None else (0.5, 0.7))


def test_a_window_that_was_seen_before_changes_nothing() -> None:
    first = traced((), [reading(100.0, latency_s=0.2)])
    for ended_s in (100.0, 95.0):
        assert traced(first, [reading(ended_s, latency_s=0.9)]) == first


def test_cpu_is_the_mean_of_three_windows_and_no_server_is_more_than_full() -> None:
    traces: tuple[ServerTrace, ...] = ()
    for place, share in enumerate((0.1, 0.4, None, 1.7, 0.7)):
        traces = traced(traces, [reading(100.0 + 5 * place, cpu_share=share)])
    assert traces[0].cpu == (0.4, 1.0, 0.7)
    assert traces[0].utilisation == pytest.approx(0.7)
    assert ServerTrace(server="a", ended_s=0.0).utilisation is None


@pytest.mark.parametrize(
    "figure",
    ["ended_s", "span_s", "requests", "errors", "others_errors", "latency_s", "service_s", "queue_wait_s",
     "seats_share", "cpu_share"],
)  # fmt: skip
@pytest.mark.parametrize("value", [-0.1, float("nan"), float("inf")])
def test_a_reading_with_a_figure_that_makes_no_sense_is_not_used(figure: str, value: float) -> None:
    good = reading(100.0, latency_s=0.1)
    assert is_usable(good)
    assert not is_usable(replace(good, **{figure: value}))  # type: ignore[arg-type]
    assert not is_usable(replace(good, requests=0.0))


def test_a_server_that_never_answered_stops_growth_for_five_minutes_and_one_that_did_for_good() -> None:
    def lost(ago_s: float, *, was_seen: bool) -> Health:
        server = SilentServer(server="b", problem="away", since_s=1000.0 - ago_s, was_seen=was_seen)
        return examine(Signals(readings=(reading(1000.0),), silent=(server,)), (), 1000.0)

    found = [lost(ago_s, was_seen=was_seen) for was_seen in (False, True) for ago_s in (299.9, 300.0)]
    assert [health.silent is None for health in found] == [False, True, False, False]
    assert [len(health.never_seen) for health in found] == [0, 1, 0, 0]
    assert {health.servers for health in found} == {2}


def test_a_reading_from_the_future_is_no_reading() -> None:
    health = examine(Signals(readings=(reading(100.1),)), (), 100.0)
    assert health.is_blind
    assert not examine(Signals(readings=(reading(100.0),)), (), 100.0).is_blind


def test_a_reading_is_new_once() -> None:
    signals = Signals(readings=(reading(100.0),))
    first = examine(signals, (), 101.0)
    again = examine(signals, first.traces, 102.0)
    assert (len(first.new), len(again.new), len(again.fresh)) == (1, 0, 1)
