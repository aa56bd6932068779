"""Slow start: double on the join's own clock while the servers are calm, and jump where utilisation shows the way."""

from dataclasses import dataclass

from throttler.law.settings import LawSettings

SCRAPES_PER_DOUBLING = 2.0
"""A doubling must be seen in the signals before the next ..."""
JOINS_PER_DOUBLING = 0.5
"""... and be felt: 40 s at joins of 80 s (study); 5 s at joins of 10 s, where 40 s was three times too slow (real)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ramp:
    """What slow start looks at."""

    window: float
    joining: float
    """The most joins that were really in flight lately."""
    index: float
    """The higher of two samples of the worst server."""
    since_doubling_s: float
    scrape_s: float
    join_s: float
    by_load: float | None
    """Joins in flight at the utilisation that slow start aims at; None while unknown."""
    full: float | None
    """Joins in flight at full utilisation; None while unknown."""


def doubling_time_s(scrape_s: float, join_s: float) -> float:
    """How long one doubling must be watched."""
    return max(SCRAPES_PER_DOUBLING * scrape_s, JOINS_PER_DOUBLING * join_s)


def doubled(ramp: Ramp, settings: LawSettings) -> float:
    """The window after this look; never smaller, never above 2.5 times what was really in flight."""
    is_due = ramp.since_doubling_s >= doubling_time_s(ramp.scrape_s, ramp.join_s)
    is_calm = ramp.index < settings.calm_index * settings.equilibrium
    if not (is_due and is_calm):
        return ramp.window
    limit = settings.double_limit * ramp.joining
    if ramp.full is not None:
        limit = min(limit, ramp.full)
    return max(ramp.window, min(2.0 * ramp.window, limit))


def fed_forward(ramp: Ramp, settings: LawSettings) -> float:
    """The window that utilisation recommends, as far as it may be trusted; never smaller than it is."""
    if ramp.by_load is None or ramp.index >= settings.calm_index * settings.equilibrium:
        return ramp.window
    return max(ramp.window, min(ramp.by_load, settings.feed_forward_limit * ramp.joining))
