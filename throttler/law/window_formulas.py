"""How far the window moves: slow start doubles it, a latency gradient moves it, and it begins again near the knee.

Slow start doubles on the join's own clock while the servers are calm, and jumps where utilisation shows the way.

Congestion avoidance is a gradient law (as TCP Vegas and Netflix's Gradient have it) that rests where delay is just up:

    g = clamp(T / r, 1/2, 1)        W <- W x (1 + gain x (g + q - 1))        equilibrium r = T / (1 - q)

The knee is where the servers are just well used, in joins in flight; it is remembered from one scale-up to the next.
Where fewer joins leave the delay as it was, it is not of joins: such cuts do not help.
"""

import math
from dataclasses import dataclass, replace

from throttler.law.settings import LawSettings

SCRAPES_PER_DOUBLING = 2.0
"""A doubling must be seen in the signals before the next ..."""
JOINS_PER_DOUBLING = 0.5
"""... and be felt: 40 s at joins of 80 s (study); 5 s at joins of 10 s, where 40 s was three times too slow (real)."""
LONGEST_STEP = 3.0
"""Adaptation times that one look may make up for after a pause."""
FAR_BELOW_KNEE_BOOST = 2.0
PASSED = 2.0
"""So many times the knee that was met, borne by calm servers, no swing around it explains: they have grown, or what was
met was not of joins."""
UNGATED_GAIN = 0.5
"""Machines that cannot be held back are asked for at no less than this share of the pace."""
QUICKEST_S = 5.0
SLOWEST_S = 10.0
"""The window adapts by one step per quarter of a join, within these bounds: a scrape, and the study's 10 s."""
ENOUGH = 2
"""Cuts that must have had their time to show ..."""
FEWER = 0.85
"""... and joins in flight must have come down to this share: where servers queue, delay would have come down as far."""
HELPED = 0.95
"""Below this share of what it was delay has come down."""
MOVED = (0.75, 1.25)
"""Outside of these shares delay has moved by more than the cuts can tell: they count anew."""
BELIEVED_S = 300.0
"""After so long the window is cut on trial again."""


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
    is_calm = ramp.index < settings.calm_below
    if not (is_due and is_calm):
        return ramp.window
    limit = settings.double_limit * ramp.joining
    if ramp.full is not None:
        limit = min(limit, ramp.full)
    return max(ramp.window, min(2.0 * ramp.window, limit))


def fed_forward(ramp: Ramp, settings: LawSettings) -> float:
    """The window that utilisation recommends, as far as it may be trusted; never smaller than it is."""
    if ramp.by_load is None or ramp.index >= settings.calm_below:
        return ramp.window
    return max(ramp.window, min(ramp.by_load, settings.feed_forward_limit * ramp.joining))


def adaptation_time_s(join_s: float) -> float:
    """How long one step of the gradient takes."""
    return min(max(join_s / 4.0, QUICKEST_S), SLOWEST_S)


def pull(index: float, settings: LawSettings) -> float:
    """Relative change of the window per adaptation time: +8 % far below the equilibrium, 0 at it, -2 % far above."""
    gradient = min(max(settings.target / index, 0.5), 1.0) if index > 0 else 1.0
    return settings.gain * (gradient + settings.queue - 1.0)


def grown(window: float, high_index: float, room: float | None, steps: float, settings: LawSettings) -> float:
    """The window after growth, which asks for two low samples and for room; never smaller.

    The gradient sees delay only where it already rises; utilisation says before how far that is. `room` is the share
    by which the window may grow until the servers are full: with much of it the window grows three times as fast as the
    gradient has it, with little by a part of what is left.
    """
    share = max(0.0, pull(high_index, settings))
    if room is not None:
        share = min(settings.room_boost * share, settings.room_gain * max(0.0, room))
    return window * (1.0 + share * min(steps, LONGEST_STEP))


def shrunk(window: float, low_index: float, settings: LawSettings) -> float:
    """The window after one cut, which asks for two high samples: 5 % per equilibrium that the index is above it."""
    excess = max(0.0, low_index / settings.equilibrium - 1.0)
    return window * (1.0 - min(settings.cut_limit, settings.cut * excess))


def cut_time_s(scrape_s: float, join_s: float) -> float:
    """How long a cut must show before the next: two scrapes, or the third of a join that has most of its work."""
    return max(2.0 * scrape_s, join_s / 3.0)


def pacing_gain(index: float, settings: LawSettings) -> float:
    """Share of the window's pace that goes in while delay is up: the backlog drains now, before any cut can show.

    It goes by the newest sample alone: unlike a cut it is taken back as soon as delay falls. By the square, because
    what is let in now loads most half a minute later: with less, one of twelve runs with list bursts collapsed. What
    nothing holds back after it was asked for arrives a boot time later, when that delay is long over: there a strong
    answer only starves the servers and floods them in turn.
    """
    share = min(1.0, settings.equilibrium / index) if index > 0 else 1.0
    return share**2 if settings.has_gate else max(UNGATED_GAIN, share)


@dataclass(frozen=True, slots=True, kw_only=True)
class Knee:
    """A moving average of the window near the equilibrium; until one was met, the most that did no harm."""

    window: float | None = None
    at_s: float | None = None
    """When it was learned, monotonic; None: by an earlier process, `age_s` before this one started."""
    age_s: float = 0.0
    is_proven: bool = False
    """Whether an equilibrium was met; otherwise it is only a lower bound."""

    def age_at(self, now_s: float) -> float:
        """How long ago it was learned."""
        return self.age_s if self.at_s is None else max(0.0, now_s - self.at_s)


def near_equilibrium(knee: Knee, window: float, now_s: float, settings: LawSettings) -> Knee:
    """The window is used, and the index says that it is right."""
    if knee.window is None or not knee.is_proven:
        return Knee(window=window, at_s=now_s, is_proven=True)
    moved = knee.window + settings.knee_weight * (window - knee.window)
    return Knee(window=moved, at_s=now_s, is_proven=True)


def borne(knee: Knee, joining: int, now_s: float) -> Knee:
    """So many joins in flight did no harm: the knee is not below, and one that was met far below is none any more."""
    if joining <= (PASSED if knee.is_proven else 1.0) * (knee.window or 0.0):
        return knee
    return Knee(window=float(joining), at_s=now_s)


def start_window(knee: Knee, now_s: float, settings: LawSettings) -> float:
    """What a scale-up begins with: a little above the knee, and closer to a cold start the longer ago that was."""
    if knee.window is None:
        return settings.window_initial
    kept = math.pow(0.5, knee.age_at(now_s) / settings.forget_s) if settings.forget_s else 0.0
    trusted = settings.knee_trust * knee.window
    if not knee.is_proven:
        trusted = max(trusted, settings.window_initial)
    return settings.window_initial + kept * (trusted - settings.window_initial)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cuts:
    """The cuts in a row, and what was before the first."""

    count: int
    joining: int
    """Joins in flight."""
    delay_s: float
    """Delay of the worst server."""
    window: float
    useless_since_s: float | None = None
    """Since when they are known not to have helped; None while that is open."""

    def is_useless(self, delay_s: float | None, now_s: float) -> bool:
        """Whether the delay of now is one that cuts do not change."""
        if delay_s is None or self.useless_since_s is None or self.has_moved(delay_s):
            return False
        return now_s - self.useless_since_s <= BELIEVED_S

    def has_moved(self, delay_s: float) -> bool:
        """Whether delay is another one than at the first cut."""
        least, most = MOVED
        return not least * self.delay_s <= delay_s <= most * self.delay_s

    def judged(self, joining: int, delay_s: float, now_s: float, *, is_least: bool) -> "Cuts | None":
        """The latest cut has had its time; None: they helped. `is_least`: the window cannot get any smaller."""
        has_fewer = joining <= FEWER * self.joining or is_least
        if self.count < ENOUGH or not has_fewer:
            return self
        return replace(self, useless_since_s=now_s) if delay_s >= HELPED * self.delay_s else None
