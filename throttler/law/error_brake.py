"""The emergency brake: 429 and 5xx cut the window by up to half and stop admissions for a moment.

Errors that are not ours do not: those that joins have no part in, and those that are there while nothing joins.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from throttler.law.server_health import Health, error_share
from throttler.law.settings import LawSettings
from throttler.signals.reading import Reading

LEAST_SHARE = 1e-3
"""Share of 429 and 5xx that brakes (study) ..."""
LEAST_ERRORS = 5.0
"""... if at least so many were counted, so that a single failure on a quiet server does not (study)."""
EVERY_S = 30.0
"""The window is cut at most once per two joins, or per so long if that is shorter: it must show first (study)."""
PAUSE_S = 15.0
"""Nothing is let in for half a join after a brake, and not for longer than this (study: 10-20 s; real: 15 s drained
joins of 7 s to none)."""
MILD_SHARE = 0.01
MILD_OF_WAVES = 0.05
MILD_KEPT = 0.7
"""Up to one error in a hundred the cut is that of CUBIC (RFC 9438, beta), above that of Reno (RFC 5681). A wave's few
errors fall into one reading: there it is one in twenty (real: 1 to 4 % in it where the whole scale-up had 0.1 %)."""
ROW = 10.0
ENOUGH = 2
FEWER = 0.5
SAME = 0.8
"""Errors of others scatter; those of joins fall at least as fast as joins do, and faster from a full queue."""
MOST_SAMPLES = 128
DEVIATIONS = 3.0
"""Errors of others come like a Poisson process: so many standard deviations above their mean are still theirs."""
LASTING = 3
"""Errors in so many idle windows in a row go on: they count in full, whatever was before."""
STILL = 0.5
"""Fewer than this share of what others cause in the mean say nothing of whether they still do."""
TOLD_S = 300.0
"""For so long after the last of them the status speaks of errors that were left out: it must not flap. And after as
long without them others cause none any more: where something always joins, servers are never idle, and one bad hour
would excuse as many errors of joins for ever."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Brake:
    """When it was last pulled, monotonic; None: never."""

    pulled_s: float | None = None
    pulls: int = 0
    """In a row, since errors and joins were those of the first."""
    joining: int = 0
    """Joins in flight at the first of them ..."""
    errors_per_s: float = 0.0
    """... and errors of the worst server."""

    def pulled(self, now_s: float, joining: int, errors_per_s: float) -> "Brake":
        """Once more."""
        if not (self.pulls and self._is_in_row(now_s)):
            return Brake(pulled_s=now_s, pulls=1, joining=joining, errors_per_s=errors_per_s)
        return replace(self, pulled_s=now_s, pulls=self.pulls + 1)

    def has_not_helped(self, now_s: float, joining: int, errors_per_s: float) -> bool:
        """Whether two pulls left half of the joins, and as many errors as there were: these are not of joins."""
        is_proven = self.pulls >= ENOUGH and self._is_in_row(now_s) and joining <= FEWER * self.joining
        return is_proven and errors_per_s >= SAME * self.errors_per_s

    def _is_in_row(self, now_s: float) -> bool:
        """What was longer ago than ten times the shortest distance of two pulls is another matter."""
        return self.pulled_s is not None and now_s - self.pulled_s <= ROW * EVERY_S

    def left_s(self, now_s: float, join_s: float) -> float:
        """How long nothing is let in any more: half a join, or quick joins would all have ended before the next."""
        if self.pulled_s is None:
            return 0.0
        return max(0.0, self.pulled_s + min(PAUSE_S, join_s / 2.0) - now_s)

    def may_pull(self, now_s: float, join_s: float) -> bool:
        """Whether the former pull has had its time to show: two joins."""
        return self.pulled_s is None or now_s - self.pulled_s >= min(EVERY_S, 2.0 * join_s)


def is_alarming(reading: Reading, errors: float) -> bool:
    """Whether so many errors among its requests call for the brake."""
    return errors >= LEAST_ERRORS and error_share(reading, errors) > LEAST_SHARE


def cut(window: float, joining: int, share: float, settings: LawSettings, *, has_waves: bool = False) -> float:
    """Half of what was really in flight, where the window was not used up; more than half after a few errors.

    Where next to nothing was in flight it proves little: half of the window that a cold start tries is left.
    """
    kept = MILD_KEPT if share <= (MILD_OF_WAVES if has_waves else MILD_SHARE) else 0.5
    used = max(float(joining), min(window, settings.window_initial))
    return min(window, max(1.0, kept * min(window, used)))


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleErrors:
    """Errors per second of the worst server while nothing joined; no samples of a scale-up enter."""

    samples: tuple[tuple[float, float], ...] = ()
    """(time, errors per second), oldest first."""
    seen_s: float | None = None
    """When others were last seen to cause about as many."""

    def followed(self, per_s: float, readings: Sequence[Reading], now_s: float) -> "IdleErrors":
        """After new readings, where others are taken to cause `per_s`; nothing is left once they have ended."""
        if not per_s:
            # As a rule.
            return self
        if self.seen_s is not None and now_s - self.seen_s > TOLD_S:
            return IdleErrors()
        is_there = any(reading.span_s > 0 and reading.errors >= STILL * per_s * reading.span_s for reading in readings)
        return replace(self, seen_s=now_s) if is_there else self

    def per_s(self, before_s: float) -> float:
        """What is to be expected, by what was seen before."""
        rates = [per_s for at_s, per_s in self.samples if at_s < before_s]
        # Of fewer the least is not above the mean.
        return max(statistics.fmean(rates), min(rates[-LASTING:])) if rates else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignErrors:
    """What is known of them; the servers' and those that our own requests meet apart."""

    servers: IdleErrors = field(default_factory=IdleErrors)
    own: IdleErrors = field(default_factory=IdleErrors)
    unmoved_per_s: float = 0.0
    """Errors per second that two brakes left as they were, until idle servers tell."""
    server: str = ""
    """Where errors were left out last that would have pulled the brake."""
    left_out_s: float | None = None
    """When that was, monotonic."""

    def are_told(self, now_s: float) -> bool:
        """Whether errors were left out lately."""
        return self.left_out_s is not None and now_s - self.left_out_s <= TOLD_S

    def with_unmoved(self, per_s: float, server: str, now_s: float) -> "ForeignErrors":
        """Two brakes left so many as they were; the worst are those of this server."""
        servers = replace(self.servers, seen_s=now_s)
        return replace(self, servers=servers, unmoved_per_s=per_s, server=server, left_out_s=now_s)

    def followed(self, health: Health, now_s: float) -> "ForeignErrors":
        """After new readings: what is there no more excuses nothing."""
        per_s = max(self.servers.per_s(now_s), self.unmoved_per_s)
        servers = self.servers.followed(per_s, health.new, now_s)
        own = self.own.followed(self.own.per_s(now_s), health.new_own, now_s)
        if servers is self.servers and own is self.own:
            return self
        unmoved_per_s = 0.0 if servers.seen_s is None else self.unmoved_per_s
        return replace(self, servers=servers, own=own, unmoved_per_s=unmoved_per_s)

    def ours(self, health: Health, now_s: float) -> tuple[Reading, ...]:
        """The new readings with those errors only that may be of joins."""
        per_s = max(self.servers.per_s(now_s), self.unmoved_per_s)
        own_per_s = self.own.per_s(now_s)
        return (
            *(_without(reading, per_s) for reading in health.new),
            *(_without(reading, own_per_s) for reading in health.new_own),
        )


def observed(
    foreign: ForeignErrors, health: Health, now_s: float, settings: LawSettings, *, is_idle: bool
) -> ForeignErrors:
    """After the new readings; `is_idle`: nothing joined while they were made."""
    foreign = foreign.followed(health, now_s)
    ours = foreign.ours(health, now_s)
    for before, after in zip((*health.new, *health.new_own), ours, strict=True):
        was_ours = is_alarming(before, before.errors) and not is_alarming(after, after.errors)
        if was_ours or is_alarming(before, before.others_errors):
            foreign = replace(foreign, server=before.server, left_out_s=now_s)
    if not is_idle:
        return foreign
    servers = _learned(foreign.servers, health.fresh if health.new else (), now_s, settings)
    unmoved_per_s = 0.0 if servers is not foreign.servers else foreign.unmoved_per_s
    return replace(
        foreign,
        servers=servers,
        unmoved_per_s=unmoved_per_s,
        own=_learned(foreign.own, health.new_own, now_s, settings),
    )


def _without(reading: Reading, per_s: float) -> Reading:
    """Less the most errors that others may be expected to cause in the window."""
    mean = per_s * reading.span_s
    if not mean:
        # As a rule. Simulations look thousands of times, and a copy costs as much as all else here.
        return reading
    return replace(reading, errors=max(0.0, reading.errors - mean - DEVIATIONS * math.sqrt(mean)))


def _learned(idle: IdleErrors, readings: Sequence[Reading], now_s: float, settings: LawSettings) -> IdleErrors:
    rates = [reading.errors / reading.span_s for reading in readings if reading.span_s > 0]
    if not rates:
        return idle
    since_s = now_s - settings.baseline_s
    kept = tuple(sample for sample in idle.samples if since_s <= sample[0] <= now_s)[-MOST_SAMPLES + 1 :]
    return IdleErrors(samples=(*kept, (now_s, max(rates))), seen_s=now_s)
