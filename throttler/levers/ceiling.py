"""What all ceilings share: when one is needed, how often it may be written, whether an autoscaler has taken it up, and
the user's limits, saved from before the first change until they are restored.

A ceiling is needed while anything waits that is to be paced. One that nobody reads paces nothing, and one that somebody
else writes too is written less often. All times are monotonic seconds.

The user's limits are saved in an annotation on the object itself, and ours stay within them. The annotation travels in
the same server-side apply as the ceiling, so there is no moment at which a ceiling is in force and the value to restore
is not written down. It says as well what we wrote last: any other value there is somebody's wish, and becomes the new
original. Our ceilings are never above the user's own limits, and theirs are left alone where they are lower.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import msgspec

from throttler.kube.because import Because, because
from throttler.kube.karpenter import NodePool
from throttler.kube.metadata import ManagedFields, OwnedMetadata, Owner, owners_of
from throttler.kube.quantity import BYTES, QuantityError, Resources, format_resources, parse_quantity
from throttler.levers.lever import (
    EPOCH_ANNOTATION,
    FIELD_MANAGER,
    HOLDER_ANNOTATION,
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


ORIGINAL_ANNOTATION = "kube-balloons.github.io/original"
OUR_ANNOTATIONS = (ORIGINAL_ANNOTATION, HOLDER_ANNOTATION, EPOCH_ANNOTATION)


class SavedLimits(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What the annotation says, by resource name (cpu, memory, nodes, ...)."""

    original: dict[str, Any]
    """The user's value exactly as it was written; None where there was none, which means no limit."""
    ceiling: dict[str, Any]
    """What we wrote last."""
    owners: dict[str, tuple[Owner, ...]] = {}
    """Who owned the user's values: they get them back."""
    had_limits: bool = True
    """Whether there was a list of limits at all, be it an empty one."""
    is_made: bool = False
    """Whether the object itself is ours: it is deleted in the end, unless somebody put a value of his own into it."""


_decoder = msgspec.json.Decoder(SavedLimits)


def read_saved(metadata: OwnedMetadata) -> SavedLimits | None:
    """The mark on an object; None where there is none, or none that can be read.

    Who removes the annotation makes the value that stands there now his own.
    """
    text = metadata.annotations.get(ORIGINAL_ANNOTATION)
    try:
        return _decoder.decode(text) if text else None
    except (msgspec.MsgspecError, RecursionError):
        return None


def is_unreadable(metadata: OwnedMetadata) -> bool:
    """Whether the annotation is there and says nothing: the user's values may be lost, and ours may stand."""
    return bool(metadata.annotations.get(ORIGINAL_ANNOTATION)) and read_saved(metadata) is None


def taken_in(
    mark: SavedLimits | None, limits: Mapping[str, Any] | None, fields: ManagedFields, path: Sequence[str]
) -> SavedLimits:
    """The mark as it has to be now: values that are not our last ones are the user's.

    `limits` is what stands on the object at `path` (None: no such list), `fields` who owns it.
    """
    current = limits or {}
    kept = mark or SavedLimits(original={}, ceiling={}, had_limits=limits is not None)
    changed = foreign(kept, current)
    ours = {name: value for name, value in kept.ceiling.items() if name not in changed}
    original = {**kept.original, **{name: current.get(name) for name in changed}}
    owners = {**kept.owners, **{name: _users(fields, (*path, name)) for name in changed}}
    return msgspec.structs.replace(kept, original=original, ceiling=ours, owners=_named(owners))


def foreign(mark: SavedLimits, current: Mapping[str, Any]) -> tuple[str, ...]:
    """The limits that somebody else changed since our last write."""
    return tuple(name for name, value in mark.ceiling.items() if current.get(name) != value)


def with_ceiling(
    mark: SavedLimits,
    ceiling: Mapping[str, Any],
    limits: Mapping[str, Any] | None,
    fields: ManagedFields,
    path: Sequence[str],
) -> SavedLimits:
    """The mark to write together with `ceiling`: what stands where nothing of ours stood is written down."""
    current = limits or {}
    known = {name for name, value in mark.original.items() if value == current.get(name)}
    new = [name for name in ceiling if name not in mark.ceiling and name not in known]
    original = {**mark.original, **{name: current.get(name) for name in new}}
    owners = {**mark.owners, **{name: _users(fields, (*path, name)) for name in new}}
    return msgspec.structs.replace(mark, original=original, ceiling=dict(ceiling), owners=_named(owners))


def marked(metadata: OwnedMetadata | None, name: str, mark: SavedLimits, holder: Holder) -> dict[str, Any]:
    """The `metadata` of a write: the mark, the holder, and the version that was decided on."""
    version = {"resourceVersion": metadata.resource_version, "uid": metadata.uid} if metadata else {}
    text = msgspec.json.encode(mark, order="sorted").decode()
    annotations = {ORIGINAL_ANNOTATION: text, **holder.annotations}
    return {"name": name, **version, "labels": {THROTTLE_LABEL: holder.label}, "annotations": annotations}


def is_marked_so(metadata: OwnedMetadata, mark: SavedLimits, holder: Holder) -> bool:
    """Whether the object already carries all of it: nothing needs to be written."""
    wanted = marked(metadata, metadata.name, mark, holder)["annotations"]
    has_label = metadata.labels.get(THROTTLE_LABEL) == holder.label
    return has_label and all(metadata.annotations.get(key) == value for key, value in wanted.items())


def _users(fields: ManagedFields, path: Sequence[str]) -> tuple[Owner, ...]:
    return tuple(owner for owner in owners_of(fields, path) if owner[0] != FIELD_MANAGER)


def _named(owners: Mapping[str, Iterable[Owner]]) -> dict[str, tuple[Owner, ...]]:
    return {name: tuple(found) for name, found in owners.items() if found}


MEBIBYTE = 1024 * 1024 * 1000
"""In milli-bytes; ceilings in memory are whole ones, or nobody could read them."""


def amount_of(value: Any) -> int:
    """Milli-units of a quantity as the API carries it, text or number; raises QuantityError."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise QuantityError(f"{value!r} is not a quantity")
    return parse_quantity(str(value))


def clamped(wanted: Resources, kept: SavedLimits, current: Mapping[str, Any]) -> dict[str, Any]:
    """The values to write: the wanted ones within the user's limits, in the API's form.

    `kept` is the mark, `current` what stands on the object. A limit of the user's that is not higher stays his and is
    left out; where ours stands it is written with his value, because dropping a field that we own would remove it.
    Raises QuantityError where a limit of the user's cannot be compared.
    """
    originals = {**current, **{name: kept.original[name] for name in kept.ceiling}}
    held = {name: kept.original[name] for name in kept.ceiling if kept.original[name] is not None}
    rounded = {name: -(-milli // MEBIBYTE) * MEBIBYTE if name in BYTES else milli for name, milli in wanted.items()}
    texts = format_resources(rounded)
    lower = {name for name, milli in wanted.items() if _is_at_most(originals.get(name), milli)}
    return {**held, **{name: text for name, text in texts.items() if name not in lower}}


def unraised(wanted: Resources, standing: Resources, usage: Resources) -> Resources:
    """The ceilings that stand where all that is wanted is more room, else the wanted ones.

    More room can wait for a moment; less room, the first ceiling of all, and room for what exists already cannot.
    """
    can_wait = wanted.keys() <= standing.keys() and all(
        usage.get(name, 0) <= standing[name] <= milli for name, milli in wanted.items()
    )
    return {name: standing[name] for name in wanted} if can_wait else wanted


def _is_at_most(theirs: Any, milli: int) -> bool:
    return theirs is not None and amount_of(theirs) <= milli


def shown(limits: Mapping[str, Any]) -> str:
    """Limits as a short text: `cpu 24, memory 96Gi`; one that does not exist is `none`."""
    return ", ".join(f"{name} {'none' if limits[name] is None else limits[name]}" for name in sorted(limits))
