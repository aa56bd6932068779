"""How many machines may be asked for now: a virtual queue over the boot time, which is dead time.

Without a gate no more than a window may be joining when they come.

What nothing holds back after it was asked for comes one boot time later and joins at once. So an order is bounded at
the time of its arrival: by the joins of now that are still under way then, and by the machines ordered before. Each of
those comes when its boot ends, which is known by mean and spread, and leaves as joins end: servers work through a batch
one machine after the other, so joins that take `join_s` in the mean end evenly over twice that time, and a steady flow
has as many under way as Little's law says. Where machines were lost lately, as many more are ordered.

With a gate, machines boot in advance and are metered at the join. Each machine that is asked for now comes after the
boot time and is let in when those before it are; it must be let in well before its time limit even if the pace turns
out to be half of what it seems (`stock_pace`), because a machine that misses its kill timer is lost, and most are
asked for before anything is proven.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import NormalDist, fmean

from throttler.joins.joins import Joins
from throttler.law.join_flow import JoinFlow
from throttler.law.settings import LawSettings

MARGIN_S = 60.0
"""Well before: kept clear of every time limit."""
OUT_OF_TURN_S = 40.0
"""Who was asked for first goes in first, and may have arrived so much later than the next (jitter of the boots)."""
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


def may_ask(flow: JoinFlow, joining: int, window: float, boots: Boots, join_s: float, now_s: float) -> float:
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


def arrivals(flow: JoinFlow, boots: Boots, join_s: float, now_s: float) -> float:
    """Machines that came lately or are on their way and will not have joined when those asked for now come.

    Where a gate holds them once they have registered, this is what their registrations load the servers with.
    """
    joined_before_s = 2.0 * join_s - boots.mean_s
    came = ((now_s - at_s + boots.mean_s, count) for at_s, count in flow.arrived(since_s=now_s - joined_before_s))
    share = flow.coming_share
    ordered = ((now_s - at_s, share * count) for at_s, count in flow.booting())
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """What the virtual queue runs on."""

    window: float
    pace_per_s: float
    """Joins per second that will be let in, as far as is known."""
    boot_s: float


def longest_hold_s(boot_s: float, settings: LawSettings) -> float:
    """How long a machine may be planned to wait at the gate: not so long that it would go first for its age alone."""
    by_timer = settings.kill_timer_s - boot_s - MARGIN_S
    return max(0.0, min(by_timer, settings.max_wait_s - MARGIN_S - OUT_OF_TURN_S - settings.deadline_s))


def gated_stock(outlook: Outlook, joins: Joins, settings: LawSettings) -> float:
    """Machines that may be booting and held so that the last one asked for now is let in in time."""
    pace_per_s = settings.stock_pace * outlook.pace_per_s
    gate_idle_s = 0.0 if joins.held else max(0.0, outlook.boot_s - joins.oldest_booting_s)
    horizon_s = longest_hold_s(outlook.boot_s, settings) + outlook.boot_s - gate_idle_s
    free = max(0.0, outlook.window - joins.joining)
    return free + pace_per_s * max(0.0, horizon_s)


def boot_time_s(joins: Joins, remembered_s: float | None, settings: LawSettings) -> float:
    """Boot time as measured, else as remembered or guessed, and never less than a machine has been booting already."""
    if joins.boot_s is not None:
        return joins.boot_s
    return max(remembered_s or settings.boot_guess_s, joins.oldest_booting_s)
