"""The part of `metadata` and of `status.conditions` that decisions read, and who owns which field of an object."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar, Protocol

import msgspec


class VersionMetadata(msgspec.Struct, frozen=True, rename="camel"):
    """Which version an answered object is; empty where the answer is a mere Status."""

    resource_version: str = ""


class OwnerReference(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Who owns an object; at most one owner is its controller."""

    kind: str
    name: str
    uid: str = ""
    controller: bool = False


class Metadata(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Names, versions and labels of an object; timestamps are wall-clock UTC."""

    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: tuple[OwnerReference, ...] = ()

    @property
    def created_s(self) -> float:
        """Creation as seconds since the epoch; 0 where the server named none."""
        return self.creation_timestamp.timestamp() if self.creation_timestamp else 0.0

    @property
    def controller(self) -> OwnerReference | None:
        """The owner that manages this object, if any."""
        return next((owner for owner in self.owner_references if owner.controller), None)


class ObjectKey(msgspec.Struct, frozen=True, order=True, gc=False):
    """Namespace and name; sorts by them, prints as `namespace/name`."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


def key_of(metadata: Metadata) -> ObjectKey:
    """The key under which caches hold the object."""
    return ObjectKey(metadata.namespace, metadata.name)


ManagedFields = tuple[dict[str, Any], ...]
"""The entries as they came: they are written back unchanged but for the fields in question."""

Owner = tuple[str, str]
"""A manager and its operation, `Apply` or `Update`: the server keeps the two of one name apart."""


class OwnedMetadata(msgspec.Struct, frozen=True, rename="camel"):
    """`throttler.kube.metadata.Metadata` of objects whose fields we share with their users."""

    name: str
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    managed_fields: ManagedFields = ()
    namespace: str = ""
    """Empty for kinds that are cluster-scoped."""


class KindNames(msgspec.Struct, frozen=True):
    """How the API names a kind: `versions` are those that we know, newest first."""

    group: str
    versions: tuple[str, ...]
    plural: str
    kind: str
    is_namespaced: bool = False


class LimitedObject(Protocol):
    """An object of the user's on which limits stand that an autoscaler keeps to."""

    NAMES: ClassVar[KindNames]
    LIMITS: ClassVar[tuple[str, ...]]
    """The path of the map in which the limits stand."""
    MAY_BE_OURS: ClassVar[bool]
    """Whether a throttle ever makes such an object; all others are the user's, whatever is written on them."""

    @property
    def metadata(self) -> OwnedMetadata:
        """Who it is, and who owns its fields."""

    @property
    def api_version(self) -> str:
        """The version that it was read in."""

    @property
    def limits(self) -> Mapping[str, Any] | None:
        """What stands at LIMITS, as its author wrote it; None where there is no such map."""


def owners_of(entries: Iterable[Mapping[str, Any]], path: Sequence[str]) -> tuple[Owner, ...]:
    """Who owns the field at `path` (such as spec, limits, cpu), in the server's order."""
    return tuple(_owner(entry) for entry in entries if _is_whole(entry) and _has(entry.get("fieldsV1"), path))


def with_owners(entries: ManagedFields, path: Sequence[str], owners: Iterable[Owner]) -> ManagedFields:
    """The entries with the field at `path` owned by exactly these; owners without an entry are left out.

    An entry that owns nothing any more goes.
    """
    wanted = frozenset(owners)
    changed = (_with_field(entry, path, is_owned=_owner(entry) in wanted) for entry in entries)
    return tuple(entry for entry in changed if entry.get("fieldsV1"))


def without_manager(entries: ManagedFields, manager: str) -> ManagedFields:
    """The entries less those of one manager."""
    return tuple(entry for entry in entries if entry.get("manager") != manager)


def _owner(entry: Mapping[str, Any]) -> Owner:
    return str(entry.get("manager", "")), str(entry.get("operation", ""))


def _is_whole(entry: Mapping[str, Any]) -> bool:
    """Whether it is about the object and not about a subresource such as its status."""
    return not entry.get("subresource")


def _has(fields: Any, path: Sequence[str]) -> bool:
    for name in path:
        fields = fields.get(f"f:{name}") if isinstance(fields, dict) else None
        if fields is None:
            return False
    return True


def _with_field(entry: dict[str, Any], path: Sequence[str], *, is_owned: bool) -> dict[str, Any]:
    fields = entry.get("fieldsV1")
    if not _is_whole(entry) or _has(fields, path) == is_owned or not isinstance(fields, dict):
        return entry
    return {**entry, "fieldsV1": _put(fields, path) if is_owned else _cut(fields, path)}


def _put(fields: dict[str, Any], path: Sequence[str]) -> dict[str, Any]:
    if not path:
        return {}
    key = f"f:{path[0]}"
    return {**fields, key: _put(fields.get(key, {}), path[1:])}


def _cut(fields: dict[str, Any], path: Sequence[str]) -> dict[str, Any]:
    """Without the field; a parent that is left empty goes too, as an empty one would claim the parent itself."""
    key = f"f:{path[0]}"
    inner = _cut(fields[key], path[1:]) if len(path) > 1 else {}
    rest = {name: tree for name, tree in fields.items() if name != key}
    return {**rest, key: inner} if inner else rest


class Condition(msgspec.Struct, frozen=True, rename="camel"):
    """A status condition with the meaning kstatus gives it."""

    type: str
    status: str
    reason: str
    message: str
    last_transition_time: str = ""
    observed_generation: int = 0


class ObservedCondition(msgspec.Struct, frozen=True, rename="camel"):
    """A condition that an autoscaler writes; `observed_generation` is 0 where it names none."""

    type: str
    status: str
    message: str = ""
    observed_generation: int = 0


def seconds_of(stamp: str | None) -> float:
    """A time as the API writes it, in seconds since the epoch; 0 without one, and for one that no calendar has.

    Whoever may write a status may write the year 0 or 10000 into it, which must not hide the object.
    """
    try:
        return datetime.fromisoformat(stamp).timestamp() if stamp else 0.0
    except (ValueError, OverflowError):
        return 0.0
