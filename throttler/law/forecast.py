"""How many machines may be asked for now so that no more than a window are joining when they come.

What nothing holds back after it was asked for comes one boot time later and joins at once. So an order is bounded at
the time of its arrival: by the joins of now that are still under way then, and by the machines ordered before. Each of
those comes when its boot ends, which is known by mean and spread, and leaves as joins end: servers work through a batch
one machine after the other, so joins that take `join_s` in the mean end evenly over twice that time, and a steady flow
has as many under way as Little's law says. Where machines were lost lately, as many more are ordered.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import NormalDist, fmean

from throttler.law.flow import Flow

PARTS = 7
"""An order is taken for so many equal parts, each with the boot time in the middle of its share of all boots."""
DEVIATIONS = tuple(NormalDist().inv_cdf((part + 0.5) / PARTS) for part in range(PARTS))
OLDEST = 1.5
"""Means of a join's time after which it is not taken to end any sooner for having lasted so long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Boots:
    """How long machines take from being asked for until they join, in seconds."""

    mean_s: float
    spread_s: float = 0.0
    """Standard deviation; 0 while unknown, when all that is asked for together is taken to come together."""

    @property
    def parts(self) -> tuple[float, ...]:
        """Times that stand for equal shares of all boots, shortest first."""
        if not self.spread_s:
            return (self.mean_s,)
        return tuple(max(0.0, self.mean_s + deviation * self.spread_s) for deviation in DEVIATIONS)


def may_ask(flow: Flow, joining: int, window: float, boots: Boots, join_s: float, now_s: float) -> float:
    """Machines that may be asked for now; not negative."""
    parts = boots.parts
    under_way = [(now_s - at_s, count) for at_s, count in flow.arrived(joining)]
    share = flow.coming_share
    coming = [(_left(now_s - at_s, parts), share * count) for at_s, count in flow.booting()]
    rooms = []
    for later_s in parts:
        there = sum(count * _lasts(age_s, later_s, join_s) for age_s, count in under_way)
        there += sum(count * _joining(left, later_s, join_s) for left, count in coming)
        rooms.append((window - there) / (share * _joining(parts, later_s, join_s)))
    return max(0.0, min(rooms))


def arrivals(flow: Flow, boots: Boots, join_s: float, now_s: float) -> float:
    """Machines that came lately or are on their way and will not have joined when those asked for now come.

    Where a gate holds them once they have registered, this is what their registrations load the servers with.
    """
    came = ((now_s - at_s + boots.mean_s, count) for at_s, count in flow.arrived())
    ordered = ((now_s - at_s, flow.coming_share * count) for at_s, count in flow.booting())
    return sum(count * _share(age_s, join_s) for steps in (came, ordered) for age_s, count in steps)


def _left(age_s: float, parts: Iterable[float]) -> tuple[float, ...]:
    """When machines of this age that have not come yet come, in seconds from now: those that are late at any moment."""
    return tuple(part - age_s for part in parts if part > age_s) or (0.0,)


def _joining(arrive: Iterable[float], later_s: float, join_s: float) -> float:
    """Share of machines with these arrivals that is joining `later_s` from now."""
    return fmean(_share(later_s - at_s, join_s) if at_s <= later_s else 0.0 for at_s in arrive)


def _lasts(age_s: float, later_s: float, join_s: float) -> float:
    """Share of the joins of this age that is still under way `later_s` from now."""
    age_s = min(age_s, OLDEST * join_s)
    return _share(age_s + later_s, join_s) / _share(age_s, join_s)


def _share(age_s: float, join_s: float) -> float:
    """Share of all joins that lasts longer than this."""
    return max(0.0, 1.0 - age_s / (2.0 * join_s))
