"""Reads a cluster: from the API servers, from a dump in one file, or from manifests.

Manifests in files as a seen cluster: what `kubectl apply -f` takes, within bounds.

A seen cluster as one file: gzip over tar, equal bytes for equal content. `cluster.json` says when and of what;
`lists/KIND.jsonl` holds a kind's objects, one to a line. A file may come from anybody: it is read in a stream, within
bounds, and every object passes `kept` again.

A living cluster is read by one list per kind, in turn, from the API servers' watch caches. Kinds that are not served,
not allowed or too slow are told as such; the others are read all the same. The objects are cut down page by page, so
that no more than one page is held whole.
"""

import gzip
import io
import os
import re
import stat
import sys
import tarfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import msgspec
import yaml
from msgspec import Meta

from balloons.cluster.kinds import ALL_KINDS, KIND_BY_NAME, Kind, kept
from balloons.cluster.seen_cluster import MOST_OBJECTS, Listed, SeenCluster, Unread, minor_of
from throttler.kube.errors import (
    READ_ERRORS,
    ApiError,
    AttemptTimeoutError,
    ForbiddenError,
    GoneError,
    NotFoundError,
    UndecodableError,
    UnreachableError,
)
from throttler.kube.quantities_and_durations import count
from throttler.kube.requests import Resource, Selection

if TYPE_CHECKING:
    from throttler.kube.kube_client import KubeClient

CACHE_PAGES_SINCE = 34
"""The minor version from which pages come from the watch cache (ListFromCacheSnapshot, on by default in 1.34).

Before it a page costs etcd a range read, and the cache answers only whole lists: with resourceVersion 0 it ignores the
limit (computeListLimit in k8s.io/apiserver's cacher). One whole list is then the gentler of the two.
"""
FROM_CACHE = "0"


class _Version(msgspec.Struct, rename="camel"):
    git_version: str = ""


async def read_cluster(client: "KubeClient", wanted: Iterable[Kind], context: str = "") -> SeenCluster:
    """The cluster with these kinds; raises ApiError only when not even the version can be asked for."""
    version = await _version(client)
    taken_at = datetime.fromtimestamp(client.now_s(), UTC).replace(microsecond=0)
    lists = {kind.name: await _listed(client, kind, minor_of(version)) for kind in wanted}
    return SeenCluster(taken_at=taken_at, lists=lists, version=version, context=context)


async def _version(client: "KubeClient") -> str:
    """Every authenticated user may ask (system:public-info-viewer); where an administrator took that away: unknown.

    Every API server answers. What does not is a web server, and would serve no kind: every check would pass.
    """
    # Whoever reads a dump does not wait until the client has been loaded.
    from throttler.kube.kube_client import decode

    try:
        return decode(await client.get_raw("/version"), _Version).git_version
    except ForbiddenError:
        return ""
    except (NotFoundError, UndecodableError) as error:
        raise UnreachableError("what answers at /version is no Kubernetes API server") from error


async def _listed(client: "KubeClient", kind: Kind, minor: int) -> Listed:
    """The kind's list in the first version that is served."""
    for version in kind.versions:
        try:
            return await _in_version(client, kind, version, minor)
        except NotFoundError:
            continue
        except ApiError as error:
            return Listed(unread=_why(error), message=error.message)
    return Listed(unread=Unread.NOT_SERVED)


async def _in_version(client: "KubeClient", kind: Kind, version: str, minor: int) -> Listed:
    is_paged = not kind.is_cached or minor >= CACHE_PAGES_SINCE
    try:
        return await _all_pages(client, kind, version, None if is_paged else FROM_CACHE)
    except GoneError:
        # A list that took longer than its snapshot lives (five minutes at most): once more, in one piece.
        return await _all_pages(client, kind, version, FROM_CACHE)


async def _all_pages(client: "KubeClient", kind: Kind, version: str, resource_version: str | None) -> Listed:
    objects: list[bytes] = []
    unreadable = left_out = 0
    resource = Resource(kind.group, version, kind.plural, kind.kind)
    selection = Selection(namespace=kind.namespace or None, labels=kind.labels or None, fields=kind.fields or None)
    async with aclosing(client.raw_pages(resource, selection, resource_version=resource_version)) as pages:
        async for page in pages:
            for raw in page.items:
                try:
                    objects.append(kept(kind, raw))
                except READ_ERRORS:
                    unreadable += 1
            if len(objects) > MOST_OBJECTS:
                left_out = len(objects) - MOST_OBJECTS
                break
    return Listed(tuple(objects[:MOST_OBJECTS]), left_out=left_out, unreadable=unreadable)


def _why(error: ApiError) -> Unread:
    if isinstance(error, ForbiddenError):
        return Unread.FORBIDDEN
    return Unread.TIMED_OUT if isinstance(error, AttemptTimeoutError) else Unread.FAILED


FORMAT = "balloons.kube-balloons.github.io/v1"
HEAD = "cluster.json"
MOST_BYTES = 512 * 1024 * 1024
"""Of content: a dump of 5,000 nodes and 50,000 pods has about 80 MB."""
ACCEPTED = "accepted: a file that `balloons dump` wrote"
MOST_RATIO = 200
"""How far content may exceed the file: JSON of a real cluster packs 10 to 60 times smaller, a bomb 1,000 times."""
FREE_BYTES = 16 * 1024 * 1024
"""Content that is read whatever its ratio."""
YEARS = range(1970, 9999)
"""In which a dump may be taken: from other ones on there is no day before or after in any calendar."""
LONGEST_LINE = 4 * 1024 * 1024
"""Above what etcd stores of one object (1.5 MiB by default)."""
_CHUNK = 1024 * 1024
MOST_MANIFEST_BYTES = 16 * 1024 * 1024
"""Of one file."""
MOST_FILES = 10_000
DEEPEST = 100
"""Levels of nesting; the API server's own limit for custom objects is near it, manifests have about 15."""
SUFFIXES = frozenset({".yaml", ".yml", ".json"})
_NAME = re.compile(r"[-A-Za-z0-9.:_]*", re.ASCII)
"""Wider than what any kind that is read here allows."""
_LIST = re.compile(r"lists/([a-z0-9.-]{1,253})\.jsonl")
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Names(msgspec.Struct):
    name: Any = None
    namespace: Any = None


class _Named(msgspec.Struct):
    metadata: _Names | None = None


class ArchiveError(Exception):
    """The file is no dump, or not one that we read; the message says what is wrong and what is accepted."""


class _Head(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    api_version: str
    kind: str
    taken_at: Annotated[datetime, Meta(tz=True)]
    version: str = ""
    context: str = ""
    lists: dict[str, "_ListHead"] = {}


class _ListHead(msgspec.Struct, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    unread: Unread | None = None
    message: str = ""
    left_out: int = 0
    unreadable: int = 0


def write_archive(cluster: SeenCluster, file: IO[bytes]) -> None:
    """Writes the dump; raises ArchiveError when it would be larger than what is read back."""
    if (size := sum(len(text) + 1 for listed in cluster.lists.values() for text in listed.objects)) > MOST_BYTES:
        raise ArchiveError(f"the dump would hold {size:,} bytes; accepted: {MOST_BYTES:,}")
    with (
        gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=file, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w|", format=tarfile.USTAR_FORMAT) as tar,
    ):
        _add(tar, HEAD, msgspec.json.encode(_head(cluster), order="sorted"))
        for name in sorted(cluster.lists):
            _add(tar, f"lists/{name}.jsonl", b"".join(text + b"\n" for text in cluster.lists[name].objects))


def read_archive(path: str) -> SeenCluster:
    """The cluster in the file; raises ArchiveError, or OSError when it cannot be opened."""
    with _opened(path) as file:
        try:
            return _read_dump(file, os.fstat(file.fileno()).st_size)
        except EOFError as error:
            raise ArchiveError(
                "the dump is cut off: copy the whole file, or write it anew with `balloons dump`"
            ) from error
        except (tarfile.TarError, zlib.error, gzip.BadGzipFile, ValueError, OverflowError) as error:
            raise ArchiveError(f"not a dump, or a damaged one; {ACCEPTED}") from error


def _opened(path: str) -> IO[bytes]:
    """Without waiting for a pipe's other end, and only what is a file."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ArchiveError(f"not a regular file; {ACCEPTED}")
    return os.fdopen(descriptor, "rb")


def _read_dump(file: IO[bytes], size: int) -> SeenCluster:
    limit = min(MOST_BYTES, max(FREE_BYTES, MOST_RATIO * size))
    with gzip.GzipFile(fileobj=file) as unpacked:
        bounded = io.BufferedReader(_Bounded(unpacked, limit), _CHUNK)
        with tarfile.open(fileobj=bounded, mode="r|") as tar:
            return _cluster(tar)


def _cluster(tar: tarfile.TarFile) -> SeenCluster:
    head: _Head | None = None
    objects: dict[str, tuple[tuple[bytes, ...], int]] = {}
    for member in tar:
        # A sparse file is regular, and its holes stand for any number of bytes that no bound on the content counts.
        content = tar.extractfile(member) if member.isreg() and not member.issparse() else None
        if content is None:
            raise ArchiveError(f"{member.name[:200]!r} is not a regular file; {ACCEPTED}")
        if member.name == HEAD and head is None:
            head = _read_head(content.read(LONGEST_LINE))
        elif (name := _list_of(member.name)) in objects:
            raise ArchiveError(f"{member.name!r} is there twice; {ACCEPTED}")
        elif kind := KIND_BY_NAME.get(name):  # other versions may dump other kinds
            objects[name] = _objects(kind, content)
    if head is None:
        raise ArchiveError(f"it holds no {HEAD}; {ACCEPTED}")
    return _made(head, objects)


def _made(head: _Head, objects: dict[str, tuple[tuple[bytes, ...], int]]) -> SeenCluster:
    lists = {}
    for name, about in head.lists.items():
        texts, bad = objects.get(name, ((), 0)) if name in KIND_BY_NAME else ((), 0)
        lists[name] = Listed(texts, about.unread, about.message, about.left_out, about.unreadable + bad)
    return SeenCluster(taken_at=head.taken_at.astimezone(UTC), lists=lists, version=head.version, context=head.context)


def _read_head(text: bytes) -> _Head:
    try:
        head = msgspec.json.decode(text, type=_Head)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise ArchiveError(f"{HEAD}: {error}; {ACCEPTED}") from error
    if (head.api_version, head.kind) != (FORMAT, "Dump"):
        raise ArchiveError(f"{HEAD}: {head.kind} {head.api_version} is not accepted; accepted: Dump {FORMAT}")
    if head.taken_at.year not in YEARS:
        raise ArchiveError(f"{HEAD}: takenAt {head.taken_at.isoformat()} is not accepted; {ACCEPTED}")
    return head


def _list_of(member: str) -> str:
    """The name of the kind whose list it is."""
    match = _LIST.fullmatch(member)
    if match is None:
        raise ArchiveError(f"{member[:200]!r} is no part of a dump; {ACCEPTED}")
    return match[1]


def _objects(kind: Kind, content: IO[bytes]) -> tuple[tuple[bytes, ...], int]:
    """The kind's objects, and how many lines could not be read."""
    texts, bad = [], 0
    for line in _lines(content):
        try:
            text = kept(kind, line)
            _check_names(text)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            bad += 1
        else:
            texts.append(text)
        if len(texts) + bad > MOST_OBJECTS:
            raise ArchiveError(f"more than {MOST_OBJECTS:,} {kind.plural}; {ACCEPTED}")
    return tuple(texts), bad


def _check_names(text: bytes) -> None:
    """Raises msgspec.ValidationError for a name that no API server takes: commands that people paste name objects."""
    names = msgspec.json.decode(text, type=_Named).metadata
    for name in (names.name, names.namespace) if names else ():
        if isinstance(name, str) and not _NAME.fullmatch(name):
            raise msgspec.ValidationError(f"{name[:80]!r} is no name of an object")


def _lines(content: IO[bytes]) -> Iterator[bytes]:
    while line := content.readline(LONGEST_LINE + 1):
        if len(line) > LONGEST_LINE:
            raise ArchiveError(f"an object has more than {LONGEST_LINE:,} bytes; {ACCEPTED}")
        yield line


def _head(cluster: SeenCluster) -> _Head:
    lists = {
        name: _ListHead(listed.unread, listed.message, listed.left_out, listed.unreadable)
        for name, listed in cluster.lists.items()
    }
    return _Head(FORMAT, "Dump", cluster.taken_at, cluster.version, cluster.context, lists)


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
            raise ArchiveError(f"it unpacks to more than {self._limit:,} bytes; {ACCEPTED}")
        buffer[: len(chunk)] = chunk
        return len(chunk)


class ManifestError(Exception):
    """A file is not one of manifests; the message names it and says what is accepted."""


def read_manifests(paths: Sequence[str], taken_at: datetime, *, is_recursive: bool) -> SeenCluster:
    """The objects in these files and folders, "-" for stdin; raises ManifestError, also where none is of interest.

    Templates of charts in a folder are passed over: they are no manifests yet.
    """
    by_kind: dict[str, list[bytes]] = {kind.name: [] for kind in ALL_KINDS}
    files = 0
    for name, text in _texts(paths, is_recursive=is_recursive):
        files += 1
        for document in _documents(name, text):
            _file(name, document, by_kind)
    if not any(by_kind.values()):
        deeper = "" if is_recursive or not any(map(os.path.isdir, paths)) else "; -R looks into folders of folders"
        read = f"{count(files, 'file')} read"
        raise ManifestError(f"{', '.join(paths)[:200]}: no object that any check looks at ({read}){deeper}")
    lists = {name: Listed(tuple(texts)) for name, texts in by_kind.items()}
    return SeenCluster(taken_at=taken_at, lists=lists)


def _texts(paths: Iterable[str], *, is_recursive: bool) -> Iterator[tuple[str, str]]:
    for number, path in enumerate(_files(paths, is_recursive=is_recursive)):
        if number >= MOST_FILES:
            raise ManifestError(f"more than {MOST_FILES:,} files")
        raw = sys.stdin.buffer.read(MOST_MANIFEST_BYTES + 1) if path == "-" else _read_manifest(path)
        if len(raw) > MOST_MANIFEST_BYTES:
            raise ManifestError(f"{path}: more than {MOST_MANIFEST_BYTES:,} bytes")
        try:
            yield path, raw.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise ManifestError(f"{path}: not UTF-8 ({error.reason} at byte {error.start})") from error


def _files(paths: Iterable[str], *, is_recursive: bool) -> Iterator[str]:
    for path in paths:
        if path == "-" or not Path(path).is_dir():
            yield path
            continue
        entries = Path(path).rglob("*") if is_recursive else Path(path).iterdir()
        yield from sorted(
            str(file) for file in entries if file.suffix in SUFFIXES and file.is_file() and not _is_template(file)
        )


def _is_template(file: Path) -> bool:
    """Whether it belongs to a Helm chart, where it is text that only becomes manifests."""
    return any((parent.parent / "Chart.yaml").is_file() for parent in file.parents if parent.name == "templates") or (
        (file.parent / "Chart.yaml").is_file()
    )


def _read_manifest(path: str) -> bytes:
    """Without waiting for a pipe's other end, and only what is a file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise ManifestError(f"{path}: {error.strerror}") from error
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ManifestError(f"{path}: not a regular file; accepted: files of manifests, folders with -R, or -")
        return file.read(MOST_MANIFEST_BYTES + 1)


def _documents(name: str, text: str) -> Iterator[Any]:
    try:
        _check_shape(name, text)
        yield from yaml.load_all(text, Loader=_LOADER)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        hint = "; of a chart: helm template CHART | balloons doctor -f -" if "{{" in text else ""
        raise ManifestError(f"{name}: {' '.join(str(error).split())}{hint}") from error


def _check_shape(name: str, text: str) -> None:
    """Before anything is built: no aliases (a few of them stand for billions of values) and no endless nesting."""
    depth = 0
    for event in yaml.parse(text, Loader=_LOADER):
        if isinstance(event, yaml.AliasEvent):
            line = event.start_mark.line + 1 if event.start_mark else 0
            raise ManifestError(f"{name}: line {line} has an alias (*); accepted: plain manifests")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > DEEPEST:
            raise ManifestError(f"{name}: nested deeper than {DEEPEST} levels")


def _file(name: str, document: Any, by_kind: dict[str, list[bytes]]) -> None:
    """Puts an object, or those of a List, where its kind is read; other kinds are of no interest."""
    if not isinstance(document, dict):
        if document is not None:
            raise ManifestError(f"{name}: holds {type(document).__name__}; accepted: Kubernetes objects")
        return
    if str(document.get("kind", "")).endswith("List") and isinstance(document.get("items"), list):
        for item in document["items"]:
            _file(name, item, by_kind)
        return
    kind = _kind_of_document(document)
    if kind is not None:
        try:
            text = kept(kind, msgspec.json.encode(document))
            _check_names(text)
        except (TypeError, ValueError, msgspec.MsgspecError) as error:
            raise ManifestError(f"{name}: {kind.kind}: {error}") from error
        by_kind[kind.name].append(text)


def _kind_of_document(document: dict[str, Any]) -> Kind | None:
    group = str(document.get("apiVersion", "")).rpartition("/")[0]
    return next((k for k in ALL_KINDS if k.kind == document.get("kind") and k.group == group), None)
