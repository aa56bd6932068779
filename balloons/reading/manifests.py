"""Manifests in files as a seen cluster: what `kubectl apply -f` takes, within bounds."""

import os
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import yaml

from balloons.cluster.kept import kept
from balloons.cluster.kinds import ALL_KINDS, Kind
from balloons.cluster.seen import Listed, SeenCluster

MOST_BYTES = 16 * 1024 * 1024
"""Of one file."""
MOST_FILES = 10_000
DEEPEST = 100
"""Levels of nesting; the API server's own limit for custom objects is near it, manifests have about 15."""
SUFFIXES = frozenset({".yaml", ".yml", ".json"})
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


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
        read = f"{files:,} file{'' if files == 1 else 's'} read"
        raise ManifestError(f"{', '.join(paths)[:200]}: no object that any check looks at ({read}){deeper}")
    lists = {name: Listed(tuple(found)) for name, found in by_kind.items()}
    return SeenCluster(taken_at=taken_at, lists=lists)


def _texts(paths: Iterable[str], *, is_recursive: bool) -> Iterator[tuple[str, str]]:
    for count, path in enumerate(_files(paths, is_recursive=is_recursive)):
        if count >= MOST_FILES:
            raise ManifestError(f"more than {MOST_FILES:,} files")
        raw = sys.stdin.buffer.read(MOST_BYTES + 1) if path == "-" else _read(path)
        if len(raw) > MOST_BYTES:
            raise ManifestError(f"{path}: more than {MOST_BYTES:,} bytes")
        try:
            yield path, raw.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise ManifestError(f"{path}: not UTF-8 ({error.reason} at byte {error.start})") from error


def _files(paths: Iterable[str], *, is_recursive: bool) -> Iterator[str]:
    for path in paths:
        if path == "-" or not Path(path).is_dir():
            yield path
            continue
        found = Path(path).rglob("*") if is_recursive else Path(path).iterdir()
        yield from sorted(
            str(each) for each in found if each.suffix in SUFFIXES and each.is_file() and not _is_template(each)
        )


def _is_template(file: Path) -> bool:
    """Whether it belongs to a Helm chart, where it is text that only becomes manifests."""
    return any((parent.parent / "Chart.yaml").is_file() for parent in file.parents if parent.name == "templates") or (
        (file.parent / "Chart.yaml").is_file()
    )


def _read(path: str) -> bytes:
    """Without waiting for a pipe's other end, and only what is a file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise ManifestError(f"{path}: {error.strerror}") from error
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ManifestError(f"{path}: not a regular file; accepted: files of manifests, folders with -R, or -")
        return file.read(MOST_BYTES + 1)


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
    kind = _kind_of(document)
    if kind is not None:
        try:
            by_kind[kind.name].append(kept(kind, msgspec.json.encode(document)))
        except (TypeError, ValueError, msgspec.MsgspecError) as error:
            raise ManifestError(f"{name}: {kind.kind}: {error}") from error


def _kind_of(document: dict[str, Any]) -> Kind | None:
    group = str(document.get("apiVersion", "")).rpartition("/")[0]
    return next((k for k in ALL_KINDS if k.kind == document.get("kind") and k.group == group), None)
