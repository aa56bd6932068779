"""The emergency brake: 429 and 5xx cut the window by up to half and stop admissions for a moment."""

from dataclasses import dataclass, replace

from throttler.law.server_health import error_share
from throttler.law.settings import LawSettings
from throttler.signals.reading import Reading

MILD_SHARE = 0.01
MILD_KEPT = 0.7
"""Up to one error in a hundred the cut is that of CUBIC (RFC 9438, beta), above that of Reno (RFC 5681)."""

ROW = 10.0
ENOUGH = 2
FEWER = 0.5
SAME = 0.8
"""Errors of others scatter; those of joins fall at least as fast as joins do, and faster from a full queue."""


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

    def pulled(self, now_s: float, joining: int, errors_per_s: float, settings: LawSettings) -> "Brake":
        """Once more; what was longer ago than ten times the shortest distance of two pulls is another matter."""
        is_first = self.pulled_s is None or now_s - self.pulled_s > ROW * settings.brake_every_s
        if is_first or not self.pulls:
            return Brake(pulled_s=now_s, pulls=1, joining=joining, errors_per_s=errors_per_s)
        return replace(self, pulled_s=now_s, pulls=self.pulls + 1)

    def has_not_helped(self, joining: int, errors_per_s: float) -> bool:
        """Whether two pulls left half of the joins, and as many errors as there were: these are not of joins."""
        is_proven = self.pulls >= ENOUGH and joining <= FEWER * self.joining
        return is_proven and errors_per_s >= SAME * self.errors_per_s

    def left_s(self, now_s: float, join_s: float, settings: LawSettings) -> float:
        """How long nothing is let in any more: half a join, or quick joins would all have ended before the next."""
        if self.pulled_s is None:
            return 0.0
        return max(0.0, self.pulled_s + min(settings.brake_pause_s, join_s / 2.0) - now_s)

    def may_pull(self, now_s: float, join_s: float, settings: LawSettings) -> bool:
        """Whether the former pull has had its time to show: two joins."""
        return self.pulled_s is None or now_s - self.pulled_s >= min(settings.brake_every_s, 2.0 * join_s)


def is_alarming(reading: Reading, settings: LawSettings) -> bool:
    """Whether its errors call for the brake."""
    return reading.errors >= settings.brake_errors and error_share(reading) > settings.brake_share


def culprit(new: tuple[Reading, ...], settings: LawSettings) -> Reading | None:
    """The new reading whose errors call for the brake; the worst one."""
    bad = (reading for reading in new if is_alarming(reading, settings))
    return max(bad, key=error_share, default=None)


def cut(window: float, joining: int, share: float, settings: LawSettings) -> float:
    """Half of what was really in flight, where the window was not used up; more than half after a few errors.

    Where next to nothing was in flight it proves little: half of the window that a cold start tries is left.
    """
    kept = MILD_KEPT if share <= MILD_SHARE else 0.5
    used = max(float(joining), min(window, settings.window_initial))
    return min(window, max(1.0, kept * min(window, used)))
