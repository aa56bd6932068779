"""The part of `metadata` that decisions read."""

from datetime import datetime

import msgspec


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
