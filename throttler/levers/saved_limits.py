"""The user's limits: saved from before the first change, and restored from what stands on the object alone.

They are saved in an annotation on the object itself, and ours stay within them. The annotation travels in the same
server-side apply as the ceiling, so there is no moment at which a ceiling is in force and the value to restore is not
written down. It says as well what we wrote last: any other value there is somebody's wish, and becomes the new
original. Our ceilings are never above the user's own limits, and theirs are left alone where they are lower.

Restored is at shutdown, when idle, and by the guard:

    our value stands     -> the user's value, in the name of the manager who had it
    another value stands -> it is the user's already
    the object is ours   -> deleted

Server-side apply cannot do the first: dropping a field that we alone own removes it, and the user's value with it. A
merge patch in the other manager's name moves value and ownership in one call. An owner who used `Apply` gets it as
`Update`, with which his own next apply would conflict; so a second call puts the field back into his entry. Until then
the mark stays, so that the second call is made again if it failed.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from throttler.kube.metadata import (
    LimitedObject,
    ManagedFields,
    ObjectKey,
    OwnedMetadata,
    Owner,
    owners_of,
    with_owners,
    without_manager,
)
from throttler.kube.quantities_and_durations import BYTES, Resources, format_resources, parse_quantity
from throttler.kube.reasons_and_events import because
from throttler.levers.lever_and_reasons import (
    EPOCH_ANNOTATION,
    FIELD_MANAGER,
    HOLDER_ANNOTATION,
    THROTTLE_LABEL,
    Holder,
    How,
    LeverReason,
    LeverWrite,
)

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

    Who removes the annotation makes the value that stands there now his own. One that names a ceiling and no value of
    the user's for it cannot be read: nobody knows what to restore.
    """
    text = metadata.annotations.get(ORIGINAL_ANNOTATION)
    try:
        mark = _decoder.decode(text) if text else None
    except (msgspec.MsgspecError, RecursionError):
        return None
    return mark if mark is not None and mark.ceiling.keys() <= mark.original.keys() else None


def is_unreadable(metadata: OwnedMetadata) -> bool:
    """Whether the annotation is there and says nothing: the user's values may be lost, and ours may stand."""
    return bool(metadata.annotations.get(ORIGINAL_ANNOTATION)) and read_saved(metadata) is None


def taken_in(
    mark: SavedLimits | None, limits: Mapping[str, Any] | None, fields: ManagedFields, path: Sequence[str]
) -> SavedLimits:
    """The mark as it has to be now: values that are not our last ones are the user's.

    `limits` is what stands on the object at `path` (None: no such list), `fields` who owns it. A value of the user's
    that the server calls ours is held with him: it was given back by value alone, or its mark is lost. Our next apply
    would take it away.
    """
    current = limits or {}
    kept = mark or SavedLimits(original={}, ceiling={})
    changed = foreign(kept, current)
    ours = {name: value for name, value in kept.ceiling.items() if name not in changed}
    # Where no value of ours stands, the list is as the user left it: it may be gone in mid-ramp.
    had_limits = kept.had_limits if ours else limits is not None
    held = {
        name: value
        for name, value in current.items()
        if name not in kept.ceiling and kept.original.get(name, value) == value and _is_ours(fields, (*path, name))
    }
    original = {**kept.original, **{name: current.get(name) for name in changed}, **held}
    owners = {**kept.owners, **{name: _users(fields, (*path, name)) for name in changed}}
    ceiling = {**ours, **held}
    return msgspec.structs.replace(
        kept, original=original, ceiling=ceiling, owners=_named(owners), had_limits=had_limits
    )


def standing(known: SavedLimits, thing: LimitedObject) -> SavedLimits | None:
    """What of a mark that we remember still holds on an object that lost its annotation; None where nothing does.

    Each limit is judged by itself. It is ours where our last value stands, or where the server says so: our last write
    may never have come there.
    """
    current, fields = thing.limits or {}, thing.metadata.managed_fields
    ours = {
        name: current[name]
        for name in known.original
        if name in current and (current[name] == known.ceiling.get(name) or _is_ours(fields, (*thing.LIMITS, name)))
    }
    return msgspec.structs.replace(known, ceiling=ours) if ours else None


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


def _is_ours(fields: ManagedFields, path: Sequence[str]) -> bool:
    return (FIELD_MANAGER, "Apply") in owners_of(fields, path)


def _users(fields: ManagedFields, path: Sequence[str]) -> tuple[Owner, ...]:
    return tuple(owner for owner in owners_of(fields, path) if owner[0] != FIELD_MANAGER)


def _named(owners: Mapping[str, Iterable[Owner]]) -> dict[str, tuple[Owner, ...]]:
    return {name: tuple(owners_of_name) for name, owners_of_name in owners.items() if owners_of_name}


MEBIBYTE = 1024 * 1024 * 1000
"""In milli-bytes; ceilings in memory are whole ones, or nobody could read them."""


def amount_of(value: Any) -> int:
    """Milli-units of a quantity as the API carries it, text or number; raises QuantityError."""
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


def unraised(wanted: Resources, in_force: Resources, usage: Resources) -> Resources:
    """The ceilings in force where all that is wanted is more room, else the wanted ones.

    More room can wait for a moment; less room, the first ceiling of all, and room for what exists already cannot.
    """
    can_wait = wanted.keys() <= in_force.keys() and all(
        usage.get(name, 0) <= in_force[name] <= milli for name, milli in wanted.items()
    )
    return {name: in_force[name] for name in wanted} if can_wait else wanted


def _is_at_most(theirs: Any, milli: int) -> bool:
    return theirs is not None and amount_of(theirs) <= milli


def restore(
    thing: LimitedObject, reason: LeverReason = LeverReason.STOPPING, known: SavedLimits | None = None
) -> tuple[LeverWrite, ...]:
    """The calls that leave nothing of ours on the object, in order; none if nothing of ours is there.

    `known` is the mark where it is remembered. Also none while the annotation cannot be read and nobody remembers
    what it said: the ceiling would stay for good, and nothing on the object would say so.
    """
    metadata = thing.metadata
    has_mark = THROTTLE_LABEL in metadata.labels or not metadata.annotations.keys().isdisjoint(OUR_ANNOTATIONS)
    if known is None and (is_unreadable(metadata) or not has_mark):
        return ()
    kept = taken_in(known or read_saved(metadata), thing.limits, metadata.managed_fields, thing.LIMITS)
    if not (has_mark or kept.ceiling):
        return ()
    users = (thing.limits or {}).keys() - kept.ceiling.keys() or any(
        value is not None for value in kept.original.values()
    )
    if thing.MAY_BE_OURS and kept.is_made and not users:
        body = {"metadata": {"uid": metadata.uid, "resourceVersion": metadata.resource_version}}
        return (_write(thing, How.DELETE, body, reason),)
    return _restored(thing, kept, reason)


def _restored(thing: LimitedObject, kept: SavedLimits, reason: LeverReason) -> tuple[LeverWrite, ...]:
    manager = _manager(kept)
    fields = _rightful(thing, kept)
    must_tidy = fields != thing.metadata.managed_fields and _has_other_owners(thing, kept, manager)
    writes: list[LeverWrite] = []
    if any((thing.limits or {}).get(name) != kept.original[name] for name in kept.ceiling):
        left = msgspec.structs.replace(kept, ceiling={}) if must_tidy else None
        body = _merged(_cleaned(thing, left), _nested(thing.LIMITS, _given_back(thing, kept)))
        writes.append(_write(thing, How.MERGE, body, reason, manager))
    if must_tidy or not writes:
        body = _cleaned(thing, None)
        body["metadata"] |= {"managedFields": list(fields)} if must_tidy else {}
        writes.append(_write(thing, How.MERGE, body, reason, manager))
    return tuple(writes)


def _manager(kept: SavedLimits) -> str:
    """In whose name values are put back: the first who owned one of them."""
    owners = [owner for name in kept.ceiling if kept.original[name] is not None for owner in kept.owners.get(name, ())]
    return owners[0][0] if owners else FIELD_MANAGER


def _rightful(thing: LimitedObject, kept: SavedLimits) -> ManagedFields:
    """The object's managed fields as they were before us."""
    fields = without_manager(thing.metadata.managed_fields, FIELD_MANAGER)
    for name in _restored_names(thing, kept):
        fields = with_owners(fields, (*thing.LIMITS, name), kept.owners.get(name, ()))
    return fields


def _has_other_owners(thing: LimitedObject, kept: SavedLimits, manager: str) -> bool:
    """Whether the values that stand, or will, are owned differently from what a patch by `manager` leaves."""
    entries, limits = thing.metadata.managed_fields, thing.limits or {}
    for name in _restored_names(thing, kept):
        # A patch moves only what it changes: where ours is the user's own value, it stays ours.
        is_moved = name in kept.ceiling and limits.get(name) != kept.original[name]
        will_be = ((manager, "Update"),) if is_moved else owners_of(entries, (*thing.LIMITS, name))
        if will_be != kept.owners.get(name, ()):
            return True
    return False


def _restored_names(thing: LimitedObject, kept: SavedLimits) -> tuple[str, ...]:
    """Names of the user's values that our call puts back, or put back before."""
    limits = thing.limits or {}
    known = {name: value for name, value in kept.original.items() if value is not None}
    return tuple(name for name, value in known.items() if name in kept.ceiling or limits.get(name) == value)


def _given_back(thing: LimitedObject, kept: SavedLimits) -> Mapping[str, Any] | None:
    values = {name: kept.original[name] for name in kept.ceiling}
    others = (thing.limits or {}).keys() - values.keys()
    is_bare = not kept.had_limits and not others and all(value is None for value in values.values())
    return None if is_bare else values


def _cleaned(thing: LimitedObject, left: SavedLimits | None) -> dict[str, Any]:
    metadata = thing.metadata
    body: dict[str, Any] = {"resourceVersion": metadata.resource_version, "uid": metadata.uid}
    if left is not None:
        return {"metadata": {**body, "annotations": {ORIGINAL_ANNOTATION: msgspec.json.encode(left).decode()}}}
    gone = dict.fromkeys(OUR_ANNOTATIONS)
    return {"metadata": {**body, "annotations": gone, "labels": {THROTTLE_LABEL: None}}}


def _nested(path: tuple[str, ...], value: Any) -> dict[str, Any]:
    for name in reversed(path):
        value = {name: value}
    return dict(value)


def _merged(one: dict[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Both: where the limits are annotations, what is taken off and what is put back stand in one map."""
    both = dict(one)
    for name, value in other.items():
        both[name] = _merged(both[name], value) if isinstance(both.get(name), dict) else value
    return both


def _write(
    thing: LimitedObject,
    how: How,
    body: Mapping[str, Any],
    reason: LeverReason,
    manager: str = FIELD_MANAGER,
) -> LeverWrite:
    return LeverWrite(
        api_version=thing.api_version,
        kind=thing.NAMES.kind,
        key=ObjectKey(thing.metadata.namespace, thing.metadata.name),
        how=how,
        body=body,
        because=because(reason),
        field_manager=manager,
    )
