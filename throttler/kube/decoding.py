"""What lists and watches answer, decoded into typed partial structs; an item that cannot be read is named and left out.

A watch is a stream of lines; the HTTP library's limit on a line does not apply.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Generic, Protocol, TypeVar, cast

import msgspec

from throttler.kube.errors import READ_ERRORS, UndecodableError, cut, error_from_status_object

Key = tuple[str, str]
"""Namespace (empty for cluster-scoped objects) and name."""


class WireMetadata(Protocol):
    """The part of `metadata` that caches need."""

    @property
    def name(self) -> str: ...  # noqa: D102

    @property
    def namespace(self) -> str: ...  # noqa: D102

    @property
    def resource_version(self) -> str: ...  # noqa: D102


class Wire(Protocol):
    """Any msgspec struct with the metadata of a Kubernetes object."""

    @property
    def metadata(self) -> WireMetadata: ...  # noqa: D102


W = TypeVar("W", bound=Wire)


@dataclass(frozen=True, slots=True)
class Skipped:
    """An object that could not be read: which one, as far as that could be told, and why."""

    key: Key
    why: str


@dataclass(frozen=True, slots=True)
class ListPage(Generic[W]):
    """One page of a list; `continue_token` is empty on the last."""

    items: list[W]
    resource_version: str
    continue_token: str = ""
    skipped: tuple[Skipped, ...] = field(default=())


class _ListMeta(msgspec.Struct, rename={"continue_token": "continue", "resource_version": "resourceVersion"}):
    resource_version: str = ""
    continue_token: str = ""


class _IdentityMeta(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    namespace: str = ""
    resource_version: str = ""
    annotations: dict[str, str] | None = None


class Identity(msgspec.Struct, frozen=True):
    """The least that can be read of an object: who it is."""

    metadata: _IdentityMeta = _IdentityMeta()


T = TypeVar("T")


class _Body(msgspec.Struct, Generic[T]):
    metadata: _ListMeta
    items: list[T] | None = None


_identity_decoder = msgspec.json.Decoder(Identity)
_raw_decoder: msgspec.json.Decoder[_Body[msgspec.Raw]] = msgspec.json.Decoder(_Body[msgspec.Raw])


@dataclass(frozen=True, slots=True)
class RawPage:
    """One page of a list with its items as they came; `continue_token` is empty on the last."""

    items: list[msgspec.Raw]
    resource_version: str
    continue_token: str = ""


def raw_page(body: bytes) -> RawPage:
    """The page, its items not looked at; raises UndecodableError when it is no list at all."""
    try:
        page = _raw_decoder.decode(body)
    except READ_ERRORS as error:
        raise UndecodableError(f"not a list: {cut(str(error))}") from error
    return RawPage(page.items or [], page.metadata.resource_version, page.metadata.continue_token)


class PageDecoder(Generic[W]):
    """Decodes pages of one type: the whole page at once, item by item only when that fails."""

    def __init__(self, wire: type[W]) -> None:
        body_type = cast(Any, _Body)[wire]
        self._page: msgspec.json.Decoder[_Body[W]] = msgspec.json.Decoder(body_type)
        self._item: msgspec.json.Decoder[W] = msgspec.json.Decoder(wire)

    def decode(self, body: bytes) -> ListPage[W]:
        """The page; raises UndecodableError when it is no list at all."""
        try:
            page = self._page.decode(body)
        except READ_ERRORS:
            return self._item_by_item(body)
        meta = page.metadata
        return ListPage(page.items or [], meta.resource_version, meta.continue_token)

    def _item_by_item(self, body: bytes) -> ListPage[W]:
        page = raw_page(body)
        read = [decode_item(self._item, raw) for raw in page.items]
        good = [item for item in read if not isinstance(item, Skipped)]
        bad = tuple(item for item in read if isinstance(item, Skipped))
        return ListPage(good, page.resource_version, page.continue_token, bad)


def decode_item(decoder: msgspec.json.Decoder[W], raw: msgspec.Raw) -> W | Skipped:
    """The object, or who it is and why it cannot be read."""
    try:
        return decoder.decode(raw)
    except READ_ERRORS as error:
        return Skipped(key_of(identity_of(raw)), cut(str(error)))


def identity_of(raw: msgspec.Raw) -> Identity:
    """Name, namespace and version of an object of any type; empty texts where even these are broken."""
    try:
        return _identity_decoder.decode(raw)
    except READ_ERRORS:
        return Identity()


def key_of(item: Wire) -> Key:
    """The key under which caches hold the object."""
    return item.metadata.namespace, item.metadata.name


LONGEST_FRAME_BYTES = 64 * 1024 * 1024
"""Far above etcd's largest object (1.5 MiB by default); ends a stream that never sends a newline."""

INITIAL_EVENTS_END = "k8s.io/initial-events-end"
"""The annotation of the bookmark that ends a streamed list."""


class LineFrames:
    """Collects chunks as they come and gives back whole lines; empty lines are dropped."""

    def __init__(self, longest_bytes: int = LONGEST_FRAME_BYTES) -> None:
        self._longest_bytes = longest_bytes
        self._parts: list[bytes] = []
        self._size_bytes = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that `chunk` completes; raises UndecodableError when one grows past the limit."""
        head, newline, tail = chunk.partition(b"\n")
        self._keep(head)
        if not newline:
            return []
        lines = [b"".join(self._parts), *tail.split(b"\n")]
        self._parts, self._size_bytes = [], 0
        self._keep(lines.pop())
        return [line for line in lines if line.strip()]

    def _keep(self, part: bytes) -> None:
        self._size_bytes += len(part)
        if self._size_bytes > self._longest_bytes:
            raise UndecodableError(f"a watch event is longer than {self._longest_bytes} bytes")
        if part:
            self._parts.append(part)


class EventKind(StrEnum):
    """What a watch event says about its object."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"


@dataclass(frozen=True, slots=True)
class WatchEvent(Generic[W]):
    """One event. `item` is None for a bookmark, and where the object could not be read (`why` says so).

    `ends_list`: the bookmark after the last object of a streamed list.
    """

    kind: EventKind
    key: Key
    resource_version: str
    item: W | None = None
    why: str = ""
    ends_list: bool = False


class _Frame(msgspec.Struct):
    type: str
    object: msgspec.Raw


_frame_decoder = msgspec.json.Decoder(_Frame)


class EventDecoder(Generic[W]):
    """Reads the lines of one watch."""

    def __init__(self, wire: type[W]) -> None:
        self._item: msgspec.json.Decoder[W] = msgspec.json.Decoder(wire)

    def decode(self, line: bytes) -> WatchEvent[W]:
        """The event of one line.

        Raises the server's own error for an ERROR event (410 is a GoneError), and UndecodableError when
        the line is no event: what follows it cannot be trusted either.
        """
        frame = _frame_of(line)
        if frame.type == "ERROR":
            raise error_from_status_object(frame.object)
        kind = _kind_of(frame.type)
        if kind is EventKind.BOOKMARK or kind is EventKind.DELETED:
            return _bare(kind, frame.object)
        read = decode_item(self._item, frame.object)
        if isinstance(read, Skipped):
            return _bare(kind, frame.object, read.why)
        return WatchEvent(kind, key_of(read), read.metadata.resource_version, read)


def _frame_of(line: bytes) -> _Frame:
    try:
        return _frame_decoder.decode(line)
    except READ_ERRORS as error:
        raise UndecodableError(f"not a watch event: {cut(str(error))}") from error


def _kind_of(text: str) -> EventKind:
    try:
        return EventKind(text)
    except ValueError as error:
        raise UndecodableError(f"unknown type of watch event: {cut(text)}") from error


def _bare(kind: EventKind, raw: msgspec.Raw, why: str = "") -> WatchEvent[W]:
    identity = identity_of(raw)
    meta = identity.metadata
    ends_list = kind is EventKind.BOOKMARK and (meta.annotations or {}).get(INITIAL_EVENTS_END) == "true"
    return WatchEvent(kind, key_of(identity), meta.resource_version, None, why, ends_list)
