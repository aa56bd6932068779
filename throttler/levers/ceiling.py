"""What all ceilings share: when one is needed, how often it may be written, whether an autoscaler has taken it up.

A ceiling is needed while anything waits that is to be paced. One that nobody reads paces nothing, and one that somebody
else writes too is written less often. All times are monotonic seconds.
"""

from dataclasses import dataclass, field, replace
from typing import Self

from throttler.kube.because import Because, because
from throttler.kube.karpenter import NodePool
from throttler.kube.metadata import OwnedMetadata
from throttler.levers.lever import (
    THROTTLE_LABEL,
    Holder,
    LeverBudget,
    LeverReason,
    LeverState,
    epoch_of,
)

Standing = tuple[LeverState, Because]
"""How a ceiling stands, and why."""
MILLI = 1000
"""Amounts are kept in thousandths, counts of nodes too."""

CONFIRM_WITHIN_S = 30.0
"""Both autoscalers take up a changed object within about a second (observed: Karpenter 1.15.0, CA 1.36.1)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Uptake:
    """Since when a written object has not been taken up; None while it has. Times are monotonic seconds."""

    waiting_since_s: float | None = None

    def looked(self, now_s: float, *, is_taken_up: bool) -> Self:
        """After a look at the object."""
        since = now_s if self.waiting_since_s is None else self.waiting_since_s
        return type(self)(waiting_since_s=None if is_taken_up else since)

    def waited_s(self, now_s: float) -> float:
        """For how long it has not been taken up."""
        return 0.0 if self.waiting_since_s is None else now_s - self.waiting_since_s

    def is_late(self, now_s: float) -> bool:
        """Whether it is to be reported as not confirmed."""
        return self.waited_s(now_s) >= CONFIRM_WITHIN_S


def held_by_another(metadata: OwnedMetadata, holder: Holder) -> Standing | None:
    """Why the object is not this holder's to move: another throttle's, or a newer leader's; None where it is."""
    other, epoch = metadata.labels.get(THROTTLE_LABEL, holder.label), epoch_of(metadata.annotations)
    if other != holder.label:
        return LeverState.REFUSED, because(LeverReason.OTHER_THROTTLE, throttle=other)
    if epoch > holder.epoch:
        return LeverState.UNCONFIRMED, because(LeverReason.NEWER_HOLDER, epoch=epoch)
    return None


def is_pool_taken_up(pool: NodePool) -> bool:
    """Whether Karpenter has looked at this very generation: it puts it on each of its conditions."""
    conditions = pool.status.conditions or ()
    return bool(conditions) and all(c.observed_generation >= pool.metadata.generation for c in conditions)


CONTESTED_WRITE_EVERY_S = 30.0
"""A field that somebody else writes is written at most this often."""
CONTESTED_FOR_S = 3 * CONTESTED_WRITE_EVERY_S
"""So long without a change by others after our write, and the field counts as ours alone again."""

RAISE_EVERY_S = 1.9
"""More room is given at every other tick of a ramp (they come once a second): each write is a request, and a third of
them met a Conflict, because Karpenter updates a busy NodePool's status several times a second (observed, 1.15.0, 150
nodes)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contest:
    """What is remembered of one object; losing it costs one early write."""

    foreign_s: float | None = None
    """When a value of somebody else was last found where ours had been."""
    written_s: float | None = None
    """When we last wrote."""

    def heard(self, now_s: float, *, is_foreign: bool) -> Self:
        """After a look at the object."""
        return replace(self, foreign_s=now_s) if is_foreign else self

    def wrote(self, now_s: float) -> Self:
        """After a write was planned."""
        return replace(self, written_s=now_s)

    def may_raise(self, now_s: float) -> bool:
        """Whether the last write, be it one that met a conflict, was long enough ago to give more room."""
        return self.written_s is None or now_s - self.written_s >= RAISE_EVERY_S

    def is_contested(self, now_s: float) -> bool:
        """Whether somebody else wrote it of late."""
        return self.foreign_s is not None and now_s - self.foreign_s < CONTESTED_FOR_S

    def may_write(self, now_s: float) -> bool:
        """Whether another write would be no fight."""
        is_recent = self.written_s is not None and now_s - self.written_s < CONTESTED_WRITE_EVERY_S
        return not (self.is_contested(now_s) and is_recent)


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

    def looked(self, room: LeverBudget, now_s: float) -> Self:
        """After a look."""
        return type(self)(quiet_since_s=None if room.waiting > 0 else _since(self.quiet_since_s, now_s))

    def unseen(self) -> Self:
        """While the view is incomplete nobody can say that nothing waits: the quiet time begins anew after it."""
        return type(self)()

    def is_over(self, room: LeverBudget, now_s: float) -> bool:
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
