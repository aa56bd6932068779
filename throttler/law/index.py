"""How slow each API server is, from its two newest readings.

Delay is the mean latency of the requests that joins use, their wait in the queue included and time in webhooks left
out, in seconds. The index is delay over baseline. Real delays jump by a factor of five from one scrape to the next at
the same load, so one sample never moves the window: growth asks for two low ones, a cut for two high ones. Unlike an
average, that does not lag.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from throttler.signals.reading import Reading

AVERAGED = 3
"""Windows over which utilisation is averaged: it follows the joins in flight smoothly, so a mean does not lag much."""
LONGEST_DELAY_S = 3600.0
"""Longer delays are not told apart."""
LONGEST_GAP_S = 60.0
"""An older sample is not combined with a new one."""


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
    known = (*figures, *(share for share in (*delays, reading.seats_share, reading.cpu_share) if share is not None))
    return all(math.isfinite(figure) and figure >= 0 for figure in known) and reading.requests > 0


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
    is_company = trace is not None and reading.ended_s - trace.ended_s <= LONGEST_GAP_S
    return ServerTrace(
        server=reading.server,
        ended_s=reading.ended_s,
        delay_s=delay_of(reading),
        before_s=trace.delay_s if trace is not None and is_company else None,
        cpu=_newest(trace.cpu if trace is not None and is_company else (), reading.cpu_share),
    )


def _newest(before: tuple[float, ...], share: float | None) -> tuple[float, ...]:
    return before if share is None else (*before, min(share, 1.0))[-AVERAGED:]


def new_among(traces: Iterable[ServerTrace], readings: Iterable[Reading]) -> tuple[Reading, ...]:
    """Those readings that were not judged yet."""
    judged = {trace.server: trace.ended_s for trace in traces}
    return tuple(reading for reading in readings if reading.ended_s > judged.get(reading.server, -math.inf))


def worst_low_s(traces: Iterable[ServerTrace]) -> tuple[float | None, str]:
    """The highest of what both samples of a server reach, and that server's name."""
    lows = [(trace.low_s, trace.server) for trace in traces if trace.low_s is not None]
    return max(lows, default=(None, ""))


def worst_high_s(traces: Iterable[ServerTrace]) -> tuple[float | None, str]:
    """The highest of what no sample of a server exceeds, and that server's name."""
    highs = [(trace.high_s, trace.server) for trace in traces if trace.high_s is not None]
    return max(highs, default=(None, ""))
