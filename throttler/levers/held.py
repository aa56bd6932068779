"""What the levers that hold single objects share: how long each has been held, and who is let in next.

An object is held from when it was made (a node from its registration, a pod from its creation). Ages are monotonic as
soon as an object has been seen: a step of the wall clock cannot make the whole queue overdue, nor hold it for ever.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from throttler.levers.lever import Room


@dataclass(frozen=True, slots=True)
class Clocks:
    """One moment on both clocks: `now_s` is monotonic, `wall_s` seconds since the epoch."""

    now_s: float
    wall_s: float


@dataclass(frozen=True, slots=True)
class HeldSince:
    """Memory: from which monotonic moment on each held object counts. Losing it costs nothing but wall-clock trust."""

    since_s: Mapping[str, float] = field(default_factory=dict)
    looked_at_s: float = -math.inf
    """When the view was last complete: what is new now cannot have been there before."""

    def seen(self, created_s: Mapping[str, float], moment: Clocks, *, is_complete: bool = True) -> "HeldSince":
        """The memory after a look at everything that is held: id -> creation, in seconds since the epoch."""
        longest_s = moment.now_s - self.looked_at_s
        since_s = {
            each: self.since_s.get(each, moment.now_s - _between(0.0, moment.wall_s - created, longest_s))
            for each, created in created_s.items()
        }
        return HeldSince(since_s, moment.now_s if is_complete else self.looked_at_s)

    def age_s(self, each: str, now_s: float) -> float:
        """Seconds for which it has been held; 0 for what has not been seen."""
        return now_s - self.since_s.get(each, now_s)


def _between(low: float, value: float, high: float) -> float:
    return low if not math.isfinite(value) else max(low, min(value, high))


@dataclass(frozen=True, slots=True)
class Held:
    """One object in the queue."""

    id: str
    age_s: float
    is_urgent: bool = False


def in_turn(held: Iterable[Held], limit_s: float) -> tuple[Held, ...]:
    """All in the order in which they are let in: those held for `limit_s` or longer, then urgent ones, then by age."""
    return tuple(sorted(held, key=lambda each: (each.age_s < limit_s, not each.is_urgent, -each.age_s, each.id)))


def let_in(held: Sequence[Held], places: int, limit_s: float, room: Room) -> Sequence[Held]:
    """Who goes now of those that are in turn: all when handing back, whoever is overdue in any case, others as there
    are places.

    Overdue ones take places as well. While nothing may be moved only they go: the one exception, because a
    machine that is held for too long is lost.
    """
    if room.is_stopping:
        return held
    overdue = sum(each.age_s >= limit_s for each in held)
    return held[: max(overdue, places if room.may_move else 0)]
