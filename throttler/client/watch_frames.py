"""A watch stream cut into lines and read into events, without any limit of the HTTP library on a line."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

import msgspec

from throttler.client.errors import UndecodableError, cut, error_from_status_object
from throttler.client.pages import READ_ERRORS, Key, Skipped, Wire, decode_item, identity_of, key_of

LONGEST_FRAME_BYTES = 64 * 1024 * 1024
"""Far above etcd's largest object (1.5 MiB by default); ends a stream that never sends a newline."""

INITIAL_EVENTS_END = "k8s.io/initial-events-end"
"""The annotation of the bookmark that ends a streamed list."""

W = TypeVar("W", bound=Wire)


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
