"""Growth must pay: where more joins at a time do not end more per second, they only queue.

The completion rate of a steady window is held against that of a smaller one. A server's knee is soft, so a doubling
that brings a tenth more still pays; at the controller manager's own request limit, where the API servers
are idle and their index says nothing, it brings nothing.
"""

from dataclasses import dataclass

from throttler.law.flow import JoinFlow

STEADY = 0.75
"""A window was steady when the joins in flight never fell below this share of their most ..."""
STEADY_JOINS = 2.0
"""... for so many joins' time: one to fill, one to measure."""
LARGER = 1.4
"""Levels closer than this factor cannot be told apart."""
ENOUGH = 10
"""Joins that must have ended to speak of a rate."""
PAYS = 0.1
"""Growth pays when the rate rises by this share of what the joins in flight rose by (real: 12-20 % per doubling up to
the best window, nothing beyond)."""
PROBE_JOINS = 10.0
"""After so many joins' time a window that did not pay is tried again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class YieldLevel:
    """A steady window: joins in flight and what they yield."""

    joining: float
    rate_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Payoff:
    """The largest level known to pay, and since when the next one does not."""

    level: YieldLevel | None = None
    flat_since_s: float | None = None

    def is_flat(self, now_s: float, join_s: float) -> bool:
        """Whether growth did not pay lately."""
        return self.flat_since_s is not None and now_s - self.flat_since_s < PROBE_JOINS * join_s


def steady_level(flow: JoinFlow, join_s: float, now_s: float) -> YieldLevel | None:
    """What the window yielded over the last join's time; None when it was not steady or little ended."""
    seen = [point for point in flow.points if point.at_s >= now_s - STEADY_JOINS * join_s]
    rate_per_s = flow.rate_per_s(join_s)
    if not seen or rate_per_s is None or rate_per_s * join_s < ENOUGH:
        return None
    joining = [point.joining for point in seen]
    is_whole = seen[0].at_s <= now_s - (STEADY_JOINS - 0.5) * join_s
    # Joins that are over between two looks are none to hold others against.
    if not is_whole or not max(joining) or min(joining) < STEADY * max(joining):
        return None
    return YieldLevel(joining=sum(joining) / len(joining), rate_per_s=rate_per_s)


def judged(payoff: Payoff, level: YieldLevel, now_s: float) -> Payoff:
    """Hold a steady level against the one that is known to pay."""
    known = payoff.level
    if known is None or level.joining < known.joining:
        return Payoff(level=level, flat_since_s=payoff.flat_since_s)
    if level.joining < LARGER * known.joining:
        return payoff
    wanted = 1.0 + PAYS * (level.joining / known.joining - 1.0)
    if level.rate_per_s >= wanted * known.rate_per_s:
        return Payoff(level=level)
    return Payoff(level=known, flat_since_s=now_s)
