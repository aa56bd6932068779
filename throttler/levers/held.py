"""What the levers that hold single objects share: how long each has been held, and who is let in next.

An object is held from when it was made (a node from its registration, a pod from its creation). Ages are monotonic as
soon as an object has been seen: a step of the wall clock cannot make the whole queue overdue, nor hold it for ever.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from throttler.levers.lever import Room


@dataclass(frozen=True, slots=True)
class Moment:
    """One moment on both clocks: `now_s` is monotonic, `wall_s` seconds since the epoch."""

    now_s: float
    wall_s: float


@dataclass(frozen=True, slots=True)
class HeldSince:
    """Memory: from which monotonic moment on each held object counts. Losing it costs nothing but wall-clock trust."""

    since_s: Mapping[str, float] = field(default_factory=dict)
    looked_at_s: float = -math.inf
    """When the view was last complete: what is new now cannot have been there before."""

    def seen(self, created_s: Mapping[str, float], moment: Moment, *, is_complete: bool = True) -> "HeldSince":
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


@dataclass(frozen=True, slots=True)
class Queue:
    """Held objects, split by whether their time is up; each part in the order in which it is let in."""

    overdue: tuple[Held, ...]
    waiting: tuple[Held, ...]

    @property
    def oldest_s(self) -> float:
        """Age of the one that has been held for longest; 0 when nothing is."""
        return max((each.age_s for each in (*self.overdue, *self.waiting)), default=0.0)

    def __len__(self) -> int:
        return len(self.overdue) + len(self.waiting)


def queue(held: Iterable[Held], limit_s: float) -> Queue:
    """Urgent ones first, then by age; those held for `limit_s` or longer are overdue."""
    ordered = sorted(held, key=lambda each: (not each.is_urgent, -each.age_s, each.id))
    return Queue(
        tuple(each for each in ordered if each.age_s >= limit_s),
        tuple(each for each in ordered if each.age_s < limit_s),
    )


def let_in(queued: Queue, places: int, room: Room) -> Sequence[Held]:
    """Who goes now: everybody when handing back, whoever is overdue in any case, others as there are places.

    Overdue ones take places as well. While nothing may be moved only they go: the one exception, because a
    machine that is held for too long is lost.
    """
    if room.is_stopping:
        return (*queued.overdue, *queued.waiting)
    free = max(0, places - len(queued.overdue)) if room.may_move else 0
    return (*queued.overdue, *queued.waiting[:free])
