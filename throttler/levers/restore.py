"""Gives an object back to its user, from what stands on the object alone: at shutdown, when idle, and by the guard.

    our value stands     -> the user's value, in the name of the manager who had it
    another value stands -> it is the user's already
    the object is ours   -> deleted

Server-side apply cannot do the first: dropping a field that we alone own removes it, and the user's value with it. A
merge patch in the other manager's name moves value and ownership in one call. An owner who used `Apply` gets it as
`Update`, with which his own next apply would conflict; so a second call puts the field back into his entry. Until then
the mark stays, so that the second call is made again if it failed.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from throttler.kube.because import because
from throttler.kube.metadata import (
    LimitedObject,
    ManagedFields,
    ObjectKey,
    owners_of,
    with_owners,
    without_manager,
)
from throttler.levers.ceiling import (
    ORIGINAL_ANNOTATION,
    OUR_ANNOTATIONS,
    SavedLimits,
    is_unreadable,
    read_saved,
    taken_in,
)
from throttler.levers.lever import FIELD_MANAGER, THROTTLE_LABEL, How, LeverReason, LeverWrite


def restore(
    thing: LimitedObject, reason: LeverReason = LeverReason.STOPPING, known: SavedLimits | None = None
) -> tuple[LeverWrite, ...]:
    """The calls that leave nothing of ours on the object, in order; none if nothing of ours is there.

    `known` is the mark where it is remembered. None as well while the annotation cannot be read and nobody remembers
    what it said: the ceiling would stay for good, and nothing on the object would say so.
    """
    metadata = thing.metadata
    if THROTTLE_LABEL not in metadata.labels and ORIGINAL_ANNOTATION not in metadata.annotations:
        return ()
    if known is None and is_unreadable(metadata):
        return ()
    mark = known or read_saved(metadata) or SavedLimits(original={}, ceiling={})
    kept = taken_in(mark, thing.limits, metadata.managed_fields, thing.LIMITS)
    if kept.is_made and all(value is None for value in kept.original.values()):
        body = {"metadata": {"uid": metadata.uid, "resourceVersion": metadata.resource_version}}
        return (_write(thing, How.DELETE, body, reason),)
    return _restored(thing, kept, reason)


def _restored(thing: LimitedObject, kept: SavedLimits, reason: LeverReason) -> tuple[LeverWrite, ...]:
    manager = _manager(kept)
    fields = _rightful(thing, kept)
    must_tidy = fields != thing.metadata.managed_fields and _has_other_owners(thing, kept, manager)
    writes: list[LeverWrite] = []
    if kept.ceiling:
        left = msgspec.structs.replace(kept, ceiling={}) if must_tidy else None
        body = _merged(_cleaned(thing, left), _nested(thing.LIMITS, _given_back(thing, kept)))
        writes.append(_write(thing, How.MERGE, body, reason, manager))
    if must_tidy or not kept.ceiling:
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
    for name in _standing(thing, kept):
        fields = with_owners(fields, (*thing.LIMITS, name), kept.owners.get(name, ()))
    return fields


def _has_other_owners(thing: LimitedObject, kept: SavedLimits, manager: str) -> bool:
    """Whether the values that stand, or will, are owned differently from what a patch by `manager` leaves."""
    entries = thing.metadata.managed_fields
    for name in _standing(thing, kept):
        will_be = ((manager, "Update"),) if name in kept.ceiling else owners_of(entries, (*thing.LIMITS, name))
        if will_be != kept.owners.get(name, ()):
            return True
    return False


def _standing(thing: LimitedObject, kept: SavedLimits) -> tuple[str, ...]:
    """The user's values that our call puts back, or put back before."""
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
