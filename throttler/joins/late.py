"""Machines that are late: so much older than their like ever were that they are not reckoned with any more. Pure.

A machine that never registers holds a place until its kill timer, one that never becomes Ready as long: at 15 minutes
each a few of them stop all growth, and a window full of dead machines seems to bear anything. Late ones leave use,
stock and what is learned. They are in flight for `maxInFlight` until they are lost, and the autoscaler still counts on
them for its pods.

Slowness alone makes nobody late: a later one of the same pool must have come. When all are slow, all are waited for.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from throttler.joins.durations import Durations

LATE_BOOTS, LEAST_BOOT_S = 2.0, 120.0
LATE_JOINS, LEAST_JOIN_S = 5.0, 180.0
"""Late after so many times the usual duration in its pool, and never before so many seconds."""


@dataclass(frozen=True, slots=True)
class Usual:
    """How long it takes the machines of one pool, by those that came lately."""

    times: Durations = field(default_factory=Durations)
    newest_s: float = float("-inf")
    """When the newest of those that came had begun (monotonic seconds)."""

    def is_late(self, began_s: float, now_s: float, factor: float, least_s: float) -> bool:
        """Whether one that began then ought to have come long ago; nobody is late before the first has come."""
        mean_s = self.times.mean_s
        is_passed = mean_s is not None and began_s < self.newest_s
        return is_passed and now_s - began_s > max(least_s, factor * (mean_s or 0.0))


NONE_YET = Usual()


def learned(usual: Mapping[str, Usual], came: Iterable[tuple[str, float, float]]) -> dict[str, Usual]:
    """With those that came since: (pool, when it began, how long it took)."""
    after = dict(usual)
    for pool, began_s, took_s in came:
        known = after.get(pool, NONE_YET)
        after[pool] = Usual(known.times.and_then([took_s]), max(known.newest_s, began_s))
    return after
