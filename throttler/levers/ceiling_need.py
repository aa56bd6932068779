"""Whether anything waits that is to be paced, and whether machines start meanwhile. Times are monotonic seconds."""

from dataclasses import dataclass, field, replace
from typing import Self

from throttler.levers.lever import Room
from throttler.levers.taken_up import Uptake

QUIET_S = 30.0
"""A ceiling is handed back after so long without demand: a gang's pods do not all come in one moment."""
STUCK_S = 10.0
"""Room was there, nodes were waited for, and none was ordered for so long: the room is too small for what waits.
Karpenter's own batch takes at most 10 s."""
DRY_S = 15.0
"""The same, until the next pool in Karpenter's order serves what waits. Karpenter looks at a waiting pod every 10 s:
with less, a look that is a moment late would open the dearer pool."""
STUCK_REST_S = 600.0
"""After all steps were tried in vain the waiting pods cannot be helped by room; tried again after so long."""
STEPS = 7
"""Each step doubles the room."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CeilingNeed:
    """Whether a throttle's ceilings are needed; losing it costs QUIET_S."""

    quiet_since_s: float | None = None

    def looked(self, room: Room, now_s: float) -> Self:
        """After a look."""
        return type(self)(quiet_since_s=None if room.waiting > 0 else _since(self.quiet_since_s, now_s))

    def unseen(self) -> Self:
        """While the view is incomplete nobody can say that nothing waits: the quiet time begins anew after it."""
        return type(self)()

    def is_over(self, room: Room, now_s: float) -> bool:
        """Whether ceilings are to be handed back."""
        return room.is_stopping or (self.quiet_since_s is not None and now_s - self.quiet_since_s >= QUIET_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomSearch:
    """Whether a pool orders what it has room for; losing it costs STUCK_S."""

    unmet_since_s: float | None = None
    newest_order_s: float = 0.0
    """Creation of the newest order, in wall-clock seconds: only compared with itself."""
    heard_s: float | None = None
    uptake: Uptake = field(default_factory=Uptake)

    def heard(self, newest_order_s: float, now_s: float, *, is_taken_up: bool = True) -> Self:
        """At a look: `newest_order_s` is when the newest machine was ordered, which ends the search.

        `is_taken_up` says whether the autoscaler has seen the room that it was given last. Nothing can be too small
        before it was seen: until then no time passes, and an autoscaler that is away is given no more room at all.
        """
        uptake = self.uptake.looked(now_s, is_taken_up=is_taken_up)
        since_s = self.unmet_since_s
        if since_s is not None and not is_taken_up and self.heard_s is not None:
            since_s = min(now_s, since_s + now_s - self.heard_s)
        is_ended = newest_order_s > self.newest_order_s or uptake.is_late(now_s)
        return replace(
            self,
            unmet_since_s=None if is_ended else since_s,
            newest_order_s=max(newest_order_s, self.newest_order_s),
            heard_s=now_s,
            uptake=uptake,
        )

    def waited(self, now_s: float, *, is_unmet: bool) -> Self:
        """After it was decided whether the pool has room for something that waits."""
        return replace(self, unmet_since_s=_since(self.unmet_since_s, now_s) if is_unmet else None)

    def unmet_s(self, now_s: float) -> float:
        """For how long nodes have been waited for without one being ordered."""
        return 0.0 if self.unmet_since_s is None else now_s - self.unmet_since_s

    def is_dry(self, now_s: float) -> bool:
        """Whether that is so long that the pool seems to be out of stock, or its room too small."""
        return self.unmet_s(now_s) >= DRY_S

    def step(self, now_s: float) -> int:
        """How often the room is doubled: 0 at first and after all was in vain, up to STEPS in between."""
        step = int(self.unmet_s(now_s) % STUCK_REST_S / STUCK_S)
        return step if step <= STEPS else 0


def _since(since_s: float | None, now_s: float) -> float:
    return now_s if since_s is None else since_s
