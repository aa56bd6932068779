"""The user's limits, saved on the object itself from before the first change until they are restored; ours stay within
them.

The annotation travels in the same server-side apply as the ceiling, so there is no moment at which a ceiling is in
force and the value to restore is not written down. It says as well what we wrote last: any other value there is
somebody's wish, and becomes the new original. Our ceilings are never above the user's own limits, and theirs are left
alone where they are lower.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from throttler.kube.metadata import ManagedFields, OwnedMetadata, Owner, owners_of
from throttler.kube.quantity import BYTES, QuantityError, Resources, format_resources, parse_quantity
from throttler.levers.lever import EPOCH_ANNOTATION, FIELD_MANAGER, HOLDER_ANNOTATION, THROTTLE_LABEL, Holder

ORIGINAL_ANNOTATION = "kube-balloons.github.io/original"
OUR_ANNOTATIONS = (ORIGINAL_ANNOTATION, HOLDER_ANNOTATION, EPOCH_ANNOTATION)


class Mark(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
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


_decoder = msgspec.json.Decoder(Mark)


def read_mark(metadata: OwnedMetadata) -> Mark | None:
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
    return bool(metadata.annotations.get(ORIGINAL_ANNOTATION)) and read_mark(metadata) is None


def taken_in(mark: Mark | None, limits: Mapping[str, Any] | None, fields: ManagedFields, path: Sequence[str]) -> Mark:
    """The mark as it has to be now: values that are not our last ones are the user's.

    `limits` is what stands on the object at `path` (None: no such list), `fields` who owns it.
    """
    current = limits or {}
    kept = mark or Mark(original={}, ceiling={}, had_limits=limits is not None)
    changed = foreign(kept, current)
    ours = {name: value for name, value in kept.ceiling.items() if name not in changed}
    original = {**kept.original, **{name: current.get(name) for name in changed}}
    owners = {**kept.owners, **{name: _users(fields, (*path, name)) for name in changed}}
    return msgspec.structs.replace(kept, original=original, ceiling=ours, owners=_named(owners))


def foreign(mark: Mark, current: Mapping[str, Any]) -> tuple[str, ...]:
    """The limits that somebody else changed since our last write."""
    return tuple(name for name, value in mark.ceiling.items() if current.get(name) != value)


def with_ceiling(
    mark: Mark, ceiling: Mapping[str, Any], limits: Mapping[str, Any] | None, fields: ManagedFields, path: Sequence[str]
) -> Mark:
    """The mark to write together with `ceiling`: what stands where nothing of ours stood is written down."""
    current = limits or {}
    known = {name for name, value in mark.original.items() if value == current.get(name)}
    new = [name for name in ceiling if name not in mark.ceiling and name not in known]
    original = {**mark.original, **{name: current.get(name) for name in new}}
    owners = {**mark.owners, **{name: _users(fields, (*path, name)) for name in new}}
    return msgspec.structs.replace(mark, original=original, ceiling=dict(ceiling), owners=_named(owners))


def marked(metadata: OwnedMetadata | None, name: str, mark: Mark, holder: Holder) -> dict[str, Any]:
    """The `metadata` of a write: the mark, the holder, and the version that was decided on."""
    version = {"resourceVersion": metadata.resource_version, "uid": metadata.uid} if metadata else {}
    annotations = {ORIGINAL_ANNOTATION: _text(mark), **holder.annotations}
    return {"name": name, **version, "labels": {THROTTLE_LABEL: holder.label}, "annotations": annotations}


def is_marked_so(metadata: OwnedMetadata, mark: Mark, holder: Holder) -> bool:
    """Whether the object already carries all of it: nothing needs to be written."""
    wanted = {ORIGINAL_ANNOTATION: _text(mark), **holder.annotations}
    has_label = metadata.labels.get(THROTTLE_LABEL) == holder.label
    return has_label and all(metadata.annotations.get(key) == value for key, value in wanted.items())


def _text(mark: Mark) -> str:
    return msgspec.json.encode(mark, order="sorted").decode()


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


def clamped(wanted: Resources, kept: Mark, current: Mapping[str, Any]) -> dict[str, Any]:
    """The values to write: the wanted ones within the user's limits, in the API's form.

    `kept` is the mark, `current` what stands on the object. A limit of the user's that is not higher stays his and is
    left out; where ours stands it is written with his value, because dropping a field that we own would remove it.
    Raises QuantityError where a limit of the user's cannot be compared.
    """
    originals = {**current, **{name: kept.original[name] for name in kept.ceiling}}
    held = {name: kept.original[name] for name in kept.ceiling if kept.original[name] is not None}
    texts = format_resources({name: _rounded(name, milli) for name, milli in wanted.items()})
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


def _rounded(name: str, milli: int) -> int:
    return -(-milli // MEBIBYTE) * MEBIBYTE if name in BYTES else milli


def shown(limits: Mapping[str, Any]) -> str:
    """Limits as a short text: `cpu 24, memory 96Gi`; one that does not exist is `none`."""
    return ", ".join(f"{name} {'none' if limits[name] is None else limits[name]}" for name in sorted(limits))
