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
from throttler.kube.cluster_autoscaler import CAPACITY_QUOTA_KIND, CapacityQuota
from throttler.kube.karpenter import NODE_POOL_KIND, NodePool
from throttler.kube.metadata import ManagedFields, ObjectKey, owners_of, with_owners, without_manager
from throttler.levers.lever import FIELD_MANAGER, THROTTLE_LABEL, How, LeverReason, LeverWrite
from throttler.levers.saved_limits import ORIGINAL_ANNOTATION, OUR_ANNOTATIONS, Mark, is_unreadable, read_mark, taken_in

POOL_PATH = ("spec", "limits")
QUOTA_PATH = ("spec", "limits", "resources")


def hand_back(
    thing: NodePool | CapacityQuota, reason: LeverReason = LeverReason.STOPPING, known: Mark | None = None
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
    mark = known or read_mark(metadata) or Mark(original={}, ceiling={})
    kept = taken_in(mark, _limits(thing), metadata.managed_fields, _path(thing))
    if kept.is_made and all(value is None for value in kept.original.values()):
        body = {"metadata": {"uid": metadata.uid, "resourceVersion": metadata.resource_version}}
        return (_write(thing, How.DELETE, body, reason),)
    return _restored(thing, kept, reason)


def _restored(thing: NodePool | CapacityQuota, kept: Mark, reason: LeverReason) -> tuple[LeverWrite, ...]:
    manager = _manager(kept)
    fields = _rightful(thing, kept)
    must_tidy = fields != thing.metadata.managed_fields and _has_other_owners(thing, kept, manager)
    writes: list[LeverWrite] = []
    if kept.ceiling:
        left = msgspec.structs.replace(kept, ceiling={}) if must_tidy else None
        body = {**_cleaned(thing, left), **_nested(_path(thing), _given_back(thing, kept))}
        writes.append(_write(thing, How.MERGE, body, reason, manager))
    if must_tidy or not kept.ceiling:
        body = _cleaned(thing, None)
        body["metadata"] |= {"managedFields": list(fields)} if must_tidy else {}
        writes.append(_write(thing, How.MERGE, body, reason, manager))
    return tuple(writes)


def _manager(kept: Mark) -> str:
    """In whose name values are put back: the first who owned one of them."""
    owners = [owner for name in kept.ceiling if kept.original[name] is not None for owner in kept.owners.get(name, ())]
    return owners[0][0] if owners else FIELD_MANAGER


def _rightful(thing: NodePool | CapacityQuota, kept: Mark) -> ManagedFields:
    """The object's managed fields as they were before us."""
    fields = without_manager(thing.metadata.managed_fields, FIELD_MANAGER)
    for name in _standing(thing, kept):
        fields = with_owners(fields, (*_path(thing), name), kept.owners.get(name, ()))
    return fields


def _has_other_owners(thing: NodePool | CapacityQuota, kept: Mark, manager: str) -> bool:
    """Whether the values that stand, or will, are owned differently from what a patch by `manager` leaves."""
    entries = thing.metadata.managed_fields
    for name in _standing(thing, kept):
        will_be = ((manager, "Update"),) if name in kept.ceiling else owners_of(entries, (*_path(thing), name))
        if will_be != kept.owners.get(name, ()):
            return True
    return False


def _standing(thing: NodePool | CapacityQuota, kept: Mark) -> tuple[str, ...]:
    """The user's values that our call puts back, or put back before."""
    limits = _limits(thing) or {}
    known = {name: value for name, value in kept.original.items() if value is not None}
    return tuple(name for name, value in known.items() if name in kept.ceiling or limits.get(name) == value)


def _given_back(thing: NodePool | CapacityQuota, kept: Mark) -> Mapping[str, Any] | None:
    values = {name: kept.original[name] for name in kept.ceiling}
    others = (_limits(thing) or {}).keys() - values.keys()
    is_bare = not kept.had_limits and not others and all(value is None for value in values.values())
    return None if is_bare else values


def _cleaned(thing: NodePool | CapacityQuota, left: Mark | None) -> dict[str, Any]:
    metadata = thing.metadata
    body: dict[str, Any] = {"resourceVersion": metadata.resource_version, "uid": metadata.uid}
    if left is not None:
        return {"metadata": {**body, "annotations": {ORIGINAL_ANNOTATION: msgspec.json.encode(left).decode()}}}
    gone = dict.fromkeys(OUR_ANNOTATIONS)
    return {"metadata": {**body, "annotations": gone, "labels": {THROTTLE_LABEL: None}}}


def _limits(thing: NodePool | CapacityQuota) -> Mapping[str, Any] | None:
    return thing.spec.limits if isinstance(thing, NodePool) else thing.spec.limits.resources


def _path(thing: NodePool | CapacityQuota) -> tuple[str, ...]:
    return POOL_PATH if isinstance(thing, NodePool) else QUOTA_PATH


def _nested(path: tuple[str, ...], value: Any) -> dict[str, Any]:
    for name in reversed(path):
        value = {name: value}
    return dict(value)


def _write(
    thing: NodePool | CapacityQuota,
    how: How,
    body: Mapping[str, Any],
    reason: LeverReason,
    manager: str = FIELD_MANAGER,
) -> LeverWrite:
    return LeverWrite(
        api_version=thing.api_version,
        kind=NODE_POOL_KIND if isinstance(thing, NodePool) else CAPACITY_QUOTA_KIND,
        key=ObjectKey("", thing.metadata.name),
        how=how,
        body=body,
        because=because(reason),
        field_manager=manager,
    )
