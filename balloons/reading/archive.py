"""A seen cluster as one file: gzip over tar, equal bytes for equal content.

`cluster.json` says when and of what; `lists/KIND.jsonl` holds a kind's objects, one to a line. A file may come from
anybody: it is read in a stream, within bounds, and every object passes `kept` again.
"""

import gzip
import io
import os
import stat
import tarfile
import zlib
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import IO, Any

import msgspec

from balloons.cluster.kept import kept
from balloons.cluster.kinds import KIND_BY_NAME, Kind
from balloons.cluster.seen import MOST_OBJECTS, Listed, SeenCluster, Unread

FORMAT = "balloons.kube-balloons.github.io/v1"
HEAD = "cluster.json"
MOST_BYTES = 512 * 1024 * 1024
"""Of content: a dump of 5,000 nodes and 50,000 pods has about 80 MB."""
MOST_RATIO = 200
"""How far content may exceed the file: JSON of a real cluster packs 10 to 60 times smaller, a bomb 1,000 times."""
FREE_BYTES = 16 * 1024 * 1024
"""Content that is read whatever its ratio."""
LONGEST_LINE = 4 * 1024 * 1024
"""Above what etcd stores of one object (1.5 MiB by default)."""
_CHUNK = 1024 * 1024


class ArchiveError(Exception):
    """The file is no dump, or not one that we read; the message says what is wrong and what is accepted."""


class _Head(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    api_version: str
    kind: str
    taken_at: datetime
    version: str = ""
    context: str = ""
    lists: dict[str, "_ListHead"] = {}


class _ListHead(msgspec.Struct, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    unread: Unread | None = None
    message: str = ""
    left_out: int = 0
    unreadable: int = 0


def write_archive(seen: SeenCluster, file: IO[bytes]) -> None:
    """Writes the dump; raises ArchiveError when it would be larger than what is read back."""
    if (size := sum(len(text) + 1 for listed in seen.lists.values() for text in listed.objects)) > MOST_BYTES:
        raise ArchiveError(f"the dump would hold {size:,} bytes; accepted: {MOST_BYTES:,}")
    with (
        gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=file, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w|", format=tarfile.USTAR_FORMAT) as tar,
    ):
        _add(tar, HEAD, msgspec.json.encode(_head(seen), order="sorted"))
        for name in sorted(seen.lists):
            _add(tar, f"lists/{name}.jsonl", b"".join(text + b"\n" for text in seen.lists[name].objects))


def read_archive(path: str) -> SeenCluster:
    """The cluster in the file; raises ArchiveError, or OSError when it cannot be opened."""
    with _opened(path) as file:
        try:
            return _read(file, os.fstat(file.fileno()).st_size)
        except EOFError as error:
            raise ArchiveError(
                "the dump is cut off: copy the whole file, or write it anew with `balloons dump`"
            ) from error
        except (tarfile.TarError, zlib.error, gzip.BadGzipFile, ValueError) as error:
            raise ArchiveError("not a dump, or a damaged one; accepted: a file that `balloons dump` wrote") from error


def _opened(path: str) -> IO[bytes]:
    """Without waiting for a pipe's other end, and only what is a file."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ArchiveError("not a regular file; accepted: a file that `balloons dump` wrote")
    return os.fdopen(descriptor, "rb")


def _read(file: IO[bytes], size: int) -> SeenCluster:
    limit = min(MOST_BYTES, max(FREE_BYTES, MOST_RATIO * size))
    with gzip.GzipFile(fileobj=file) as unpacked:
        bounded = io.BufferedReader(_Bounded(unpacked, limit), _CHUNK)
        with tarfile.open(fileobj=bounded, mode="r|") as tar:
            return _cluster(tar)


def _cluster(tar: tarfile.TarFile) -> SeenCluster:
    head: _Head | None = None
    objects: dict[str, tuple[tuple[bytes, ...], int]] = {}
    for member in tar:
        content = tar.extractfile(member) if member.isreg() else None
        if content is None:
            raise ArchiveError(f"{member.name[:200]!r} is not a regular file")
        if member.name == HEAD and head is None:
            head = _read_head(content.read(LONGEST_LINE))
        elif (kind := _kind_of(member.name)).name in objects:
            raise ArchiveError(f"{member.name!r} is there twice")
        else:
            objects[kind.name] = _objects(kind, content)
    if head is None:
        raise ArchiveError(f"it holds no {HEAD}; accepted: a file that `balloons dump` wrote")
    return _made(head, objects)


def _made(head: _Head, objects: dict[str, tuple[tuple[bytes, ...], int]]) -> SeenCluster:
    lists = {}
    for name, about in head.lists.items():
        found, bad = objects.get(name, ((), 0)) if name in KIND_BY_NAME else ((), 0)
        lists[name] = Listed(found, about.unread, about.message, about.left_out, about.unreadable + bad)
    return SeenCluster(taken_at=head.taken_at.astimezone(UTC), lists=lists, version=head.version, context=head.context)


def _read_head(text: bytes) -> _Head:
    try:
        head = msgspec.json.decode(text, type=_Head)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise ArchiveError(f"{HEAD}: {error}") from error
    if (head.api_version, head.kind) != (FORMAT, "Dump"):
        raise ArchiveError(f"{HEAD}: {head.kind} {head.api_version} is not accepted; accepted: Dump {FORMAT}")
    return head


def _kind_of(member: str) -> Kind:
    name = member.removeprefix("lists/").removesuffix(".jsonl")
    if member != f"lists/{name}.jsonl" or name not in KIND_BY_NAME:
        raise ArchiveError(f"{member[:200]!r} is no part of a dump")
    return KIND_BY_NAME[name]


def _objects(kind: Kind, content: IO[bytes]) -> tuple[tuple[bytes, ...], int]:
    """The kind's objects, and how many lines could not be read."""
    found, bad = [], 0
    for line in _lines(content):
        try:
            found.append(kept(kind, line))
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            bad += 1
        if len(found) + bad > MOST_OBJECTS:
            raise ArchiveError(f"more than {MOST_OBJECTS:,} {kind.plural}")
    return tuple(found), bad


def _lines(content: IO[bytes]) -> Iterator[bytes]:
    while line := content.readline(LONGEST_LINE + 1):
        if len(line) > LONGEST_LINE:
            raise ArchiveError(f"an object has more than {LONGEST_LINE:,} bytes")
        yield line


def _head(seen: SeenCluster) -> _Head:
    lists = {
        name: _ListHead(listed.unread, listed.message, listed.left_out, listed.unreadable)
        for name, listed in seen.lists.items()
    }
    return _Head(FORMAT, "Dump", seen.taken_at, seen.version, seen.context, lists)


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    tar.addfile(member, io.BytesIO(content))


class _Bounded(io.RawIOBase):
    """What comes out of a decompressor, up to a limit."""

    def __init__(self, source: gzip.GzipFile, limit: int) -> None:
        self._source = source
        self._limit = self._left = limit

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        chunk = self._source.read(min(len(buffer), self._left + 1))
        self._left -= len(chunk)
        if self._left < 0:
            raise ArchiveError(f"it unpacks to more than {self._limit:,} bytes")
        buffer[: len(chunk)] = chunk
        return len(chunk)
