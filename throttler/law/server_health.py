"""How the API servers are, all of them, worst first: absent, stale, empty and zero are four different things.

Delay is the mean latency of the requests that joins use, their wait in the queue included and time in webhooks left
out, in seconds. The index is delay over baseline. Real delays jump by a factor of five from one scrape to the next at
the same load, so one sample never moves the window: growth asks for two low ones, a cut for two high ones. Unlike an
average, that does not lag.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from operator import itemgetter

from throttler.signals.reading import Alarm, Reading, Signals, SilentServer, is_fresh
from throttler.signals.servers import NEVER_SEEN_S, OWN_REQUESTS

AVERAGED = 3
"""Windows over which utilisation is averaged: it follows the joins in flight smoothly, so a mean does not lag much."""
LONGEST_DELAY_S = 3600.0
"""Longer delays are not told apart."""
LONGEST_GAP_S = 60.0
"""An older sample is not combined with a new one."""
WAITS_S = 0.25
"""A server in which requests wait for so long in two windows in a row has no more CPU to give ..."""
HARDLY_WAITS_S = 0.05
"""... unless they hardly wait while it uses as much again (0.3-1.5 s and 0.05 s: real, at half a core)."""
NEARLY_FULL = 0.95
"""As much: this share of it."""
LEAST_FULL, MOST_FULL = 0.2, 0.75
"""With less CPU requests wait for something else: GOMAXPROCS follows a limit down to two cores (Go 1.25), and half a
core of two is a quarter. With more a server is full by its own count, which all shares of the law go by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerTrace:
    """What is remembered of one server: its newest window, which is judged once however often it is seen."""

    server: str
    ended_s: float
    delay_s: float | None = None
    before_s: float | None = None
    """The delay in the window before."""
    cpu: tuple[float, ...] = ()
    """CPU share in the newest windows, latest last."""
    wait_s: float = 0.0
    """Wait in queues in the newest window; 0 while unknown."""
    full_cpu: float = 1.0
    """The CPU share at which it is full. Its share is of GOMAXPROCS, and a limit on its container or a neighbour on its
    machine may leave it less."""

    @property
    def low_s(self) -> float | None:
        """What both samples reach; None while there is only one: no single sample cuts."""
        if self.delay_s is None or self.before_s is None:
            return None
        return min(self.delay_s, self.before_s)

    @property
    def utilisation(self) -> float | None:
        """Mean CPU of the newest windows; None while unknown."""
        return sum(self.cpu) / len(self.cpu) if self.cpu else None

    @property
    def high_s(self) -> float | None:
        """What neither sample exceeds."""
        if self.delay_s is None:
            return None
        return max(self.delay_s, self.before_s or 0.0)


def is_usable(reading: Reading) -> bool:
    """Whether its figures are finite, not negative, and tell of anything: no server answers no request at all."""
    figures = (reading.ended_s, reading.span_s, reading.requests, reading.errors, reading.others_errors)
    delays = (reading.latency_s, reading.service_s, reading.queue_wait_s)
    for figure in (*figures, *delays, reading.seats_share, reading.cpu_share):
        if figure is not None and not 0 <= figure < math.inf:
            return False
    return reading.requests > 0


def delay_of(reading: Reading) -> float | None:
    """Latency without the time in webhooks, or the queue wait where that is longer; None when no such request ended.

    An API server's latency includes the wait, but is a mean over more priority levels than the worst one; its service
    time includes neither queues nor webhooks. A webhook that takes seconds makes joins slow, not the server.
    """
    wait_s, service_s = reading.queue_wait_s, reading.service_s
    latencies_s = (reading.latency_s, None if service_s is None else service_s + (wait_s or 0.0))
    latency_s = min((figure for figure in latencies_s if figure is not None), default=None)
    known = [figure for figure in (latency_s, wait_s) if figure is not None]
    return min(max(known), LONGEST_DELAY_S) if known else None


def traced(traces: Iterable[ServerTrace], readings: Iterable[Reading]) -> tuple[ServerTrace, ...]:
    """The traces after these readings, which are usable; servers that are gone are forgotten."""
    old = {trace.server: trace for trace in traces}
    return tuple(_follow(old.get(reading.server), reading) for reading in readings)


def _follow(trace: ServerTrace | None, reading: Reading) -> ServerTrace:
    if trace is not None and reading.ended_s <= trace.ended_s:
        return trace
    if trace is None or reading.ended_s - trace.ended_s > LONGEST_GAP_S:
        trace = ServerTrace(server=reading.server, ended_s=reading.ended_s)
    return ServerTrace(
        server=reading.server,
        ended_s=reading.ended_s,
        delay_s=delay_of(reading),
        before_s=trace.delay_s,
        cpu=_newest(trace.cpu, reading.cpu_share),
        wait_s=reading.queue_wait_s or 0.0,
        full_cpu=_full_cpu(trace, reading),
    )


def _full_cpu(trace: ServerTrace, reading: Reading) -> float:
    """What this window says of it, else what was known."""
    known = trace.full_cpu
    if not trace.cpu or reading.cpu_share is None:
        return known
    wait_s, share = reading.queue_wait_s or 0.0, reading.cpu_share
    if wait_s < HARDLY_WAITS_S and share >= NEARLY_FULL * known:
        return 1.0
    full = max(known, share)
    if min(wait_s, trace.wait_s) >= WAITS_S and known >= 1.0:
        full = max(share, trace.cpu[-1])
    return full if LEAST_FULL <= full <= MOST_FULL else 1.0


def _newest(before: tuple[float, ...], share: float | None) -> tuple[float, ...]:
    return before if share is None else (*before, min(share, 1.0))[-AVERAGED:]


def worst_low_s(traces: Iterable[ServerTrace]) -> tuple[float | None, str]:
    """The highest of what both samples of a server reach, and that server's name."""
    lows = [(low_s, trace.server) for trace in traces if (low_s := trace.low_s) is not None]
    return max(lows, default=(None, ""))


def worst_high_s(traces: Iterable[ServerTrace]) -> tuple[float | None, str]:
    """The highest of what no sample of a server exceeds, and that server's name."""
    highs = [(high_s, trace.server) for trace in traces if (high_s := trace.high_s) is not None]
    return max(highs, default=(None, ""))


@dataclass(frozen=True, kw_only=True)
class Health:
    """The newest complete window of each server, judged together. A look asks for its figures often: they are kept."""

    fresh: tuple[Reading, ...]
    """Usable readings that are not stale."""
    new: tuple[Reading, ...]
    """Of these, those that were not judged before."""
    own: tuple[Reading, ...]
    """What our own requests met, in a window that is not stale: errors count, but it is no server."""
    new_own: tuple[Reading, ...]
    """The same, if it was not judged before."""
    traces: tuple[ServerTrace, ...]
    silent: SilentServer | None
    """A server that gives no usable reading and stops growth; the one that has been silent longest."""
    never_seen: tuple[SilentServer, ...]
    """Servers that never gave one, for so long that growth goes on by the others."""
    servers: int
    """How many there are, silent ones included."""
    alarm: Alarm | None
    """An extra signal over its threshold."""

    @property
    def is_blind(self) -> bool:
        """Whether nothing trustworthy is known of any server."""
        return not self.fresh

    @property
    def is_by_own_requests(self) -> bool:
        """Whether no server was ever read, and our own few requests alone tell of them."""
        return {reading.server for reading in self.fresh} == {OWN_REQUESTS}

    @cached_property
    def low_s(self) -> float | None:
        """Delay that two samples of the worst server agree to be reached."""
        return worst_low_s(self.traces)[0]

    @cached_property
    def high_s(self) -> float | None:
        """Delay that no sample exceeds."""
        return worst_high_s(self.traces)[0]

    @cached_property
    def newest_s(self) -> float | None:
        """Delay of the newest windows, of the worst server."""
        return max((trace.delay_s for trace in self.traces if trace.delay_s is not None), default=None)

    @cached_property
    def utilisation(self) -> float | None:
        """CPU of the busiest server; None while unknown."""
        return self._busiest.utilisation if self._busiest is not None else None

    @property
    def full_cpu(self) -> float:
        """CPU at which the busiest server is full."""
        return self._busiest.full_cpu if self._busiest is not None else 1.0

    @cached_property
    def crest_share(self) -> float:
        """The most CPU in one of the newest windows, over what that server gets: of waves a mean tells of the lull too.

        0 while unknown.
        """
        return max((share / trace.full_cpu for trace in self.traces for share in trace.cpu), default=0.0)

    @cached_property
    def _busiest(self) -> ServerTrace | None:
        """By its CPU over what it gets."""
        known = [(trace.utilisation / trace.full_cpu, trace) for trace in self.traces if trace.utilisation is not None]
        return max(known, key=itemgetter(0))[1] if known else None

    @cached_property
    def longest_span_s(self) -> float | None:
        """How long the newest windows are; None without any."""
        return max((reading.span_s for reading in self.fresh), default=None)

    @cached_property
    def read_until_s(self) -> float | None:
        """When the newest reading ended; None without any."""
        return max((reading.ended_s for reading in self.fresh), default=None)

    @property
    def seats(self) -> float:
        """Share of its seats that the busiest server had taken; 0 while unknown."""
        return max((reading.seats_share or 0.0 for reading in self.fresh), default=0.0)

    @property
    def worst_server(self) -> str:
        """The slowest server."""
        return worst_low_s(self.traces)[1] or worst_high_s(self.traces)[1]


def error_share(reading: Reading, errors: float | None = None) -> float:
    """429 and 5xx, or so many errors instead of them, over all requests of the window."""
    counted = reading.errors if errors is None else errors
    return min(1.0, counted / reading.requests) if reading.requests else 0.0


def examine(
    signals: Signals,
    traces: tuple[ServerTrace, ...],
    now_s: float,
    own_until_s: float = -math.inf,
) -> Health:
    """Judge the signals of now; `traces`, and until when our own requests were judged, is what was remembered."""
    own = tuple(reading for reading in signals.readings if reading.server == OWN_REQUESTS)
    signals = replace(
        signals, readings=tuple(reading for reading in signals.readings if reading.server != OWN_REQUESTS)
    )
    fresh_own = _fresh(own, now_s)
    fresh = _fresh(signals.readings or own, now_s)
    judged = {trace.server: trace.ended_s for trace in traces}
    answering = {reading.server for reading in fresh}
    silent = _silent(signals, answering, now_s)
    never_seen = [server for server in silent if not server.was_seen and now_s - server.since_s >= NEVER_SEEN_S]
    return Health(
        fresh=fresh,
        new=tuple(reading for reading in fresh if reading.ended_s > judged.get(reading.server, -math.inf)),
        own=fresh_own,
        new_own=tuple(reading for reading in fresh_own if reading.ended_s > own_until_s),
        traces=traced(traces, fresh),
        silent=min(
            (server for server in silent if server not in never_seen), key=lambda server: server.since_s, default=None
        ),
        never_seen=tuple(never_seen),
        servers=len(answering) + len({server.server for server in silent}),
        alarm=next((alarm for alarm in signals.alarms if alarm.is_on), None),
    )


def _fresh(readings: tuple[Reading, ...], now_s: float) -> tuple[Reading, ...]:
    """Those that are usable, not stale and not from the future."""
    return tuple(
        reading for reading in readings if is_usable(reading) and reading.ended_s <= now_s and is_fresh(reading, now_s)
    )


def _silent(signals: Signals, answering: set[str], now_s: float) -> list[SilentServer]:
    """Those that say so themselves, and those whose reading is old or senseless."""
    named = [server for server in signals.silent if server.server not in answering]
    names = {server.server for server in named}
    old = [reading for reading in signals.readings if reading.server not in answering | names]
    return named + [
        SilentServer(server=reading.server, problem=_problem(reading, now_s), since_s=min(reading.ended_s, now_s))
        for reading in old
    ]


def _problem(reading: Reading, now_s: float) -> str:
    if not is_usable(reading):
        return "its figures make no sense"
    return f"its newest reading is {now_s - reading.ended_s:.0f} s old"
