"""The cache of built binaries: where it is, and how a broken entry is told from a sound one.

Each binary lies beside a manifest with its size and SHA-256. The binary is moved into place before its
manifest, so whatever a crash leaves behind either matches its manifest or counts as absent.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from lab.binaries.building import GoToolchain
from lab.binaries.catalogue import Binary, GoModule
from lab.errors import LabError

BUILD_RECIPE = "1"
"""Raised when the build flags change in a way that makes older cache entries wrong."""


def cache_folder() -> Path:
    """Return the cache of this user: XDG_CACHE_HOME, else ~/.cache, below it `kube-balloons/binaries`."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "kube-balloons" / "binaries"


def module_prefix(module: GoModule) -> str:
    """Name the entries of one module at one version: a changed go.mod or go.sum gives another name."""
    digest = hashlib.sha256(BUILD_RECIPE.encode())
    for name in ("go.mod", "go.sum"):
        digest.update((module.folder / name).read_bytes())
    return f"{module.name}-{module.version}-{digest.hexdigest()[:12]}"


def entry_folder(module: GoModule, go: GoToolchain) -> Path:
    """Return the folder for what this Go builds from this module."""
    return cache_folder() / f"{module_prefix(module)}-go{go.version_text}"


def sound_entry(binary: Binary, folder: Path) -> Path | None:
    """Return the cached binary if it matches its manifest, else None (absent, cut, corrupt)."""
    path = folder / binary.name
    try:
        manifest = json.loads(_manifest_path(path).read_text())
        expected = (manifest["size_bytes"], manifest["sha256"])
        # The size first: it settles the usual damage without reading a hundred megabytes.
        if path.stat().st_size != expected[0] or _sha256(path) != expected[1]:
            return None
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return path


def any_sound_entry(binary: Binary) -> Path | None:
    """Return an entry of this module version whatever Go built it: for machines where Go is gone again."""
    prefix = module_prefix(binary.module)
    for folder in sorted(cache_folder().glob(f"{prefix}-go*"), reverse=True):
        if (path := sound_entry(binary, folder)) is not None:
            return path
    return None


def write_entry(binary: Binary, folder: Path, build_into: Callable[[Path], None], command: list[str]) -> Path:
    """Let `build_into` write (and prove) the binary under a temporary name, then move it in place.

    The caller holds the folder's lock. Nothing changes for readers unless `build_into` returns normally.
    """
    target, part = folder / binary.name, folder / f".{binary.name}.part"
    part.unlink(missing_ok=True)
    try:
        build_into(part)
        manifest = {"size_bytes": part.stat().st_size, "sha256": _sha256(part), "command": command}
        _manifest_path(target).unlink(missing_ok=True)
        part.rename(target)
    finally:
        part.unlink(missing_ok=True)
    _write_whole(_manifest_path(target), json.dumps(manifest, indent=1))
    return target


@contextlib.contextmanager
def locked(folder: Path, on_wait: Callable[[], None]) -> Iterator[None]:
    """Hold the folder's lock against other runs; `on_wait` is called once if another run holds it.

    Raises LabError where the folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / ".lock").open("w")
    except OSError as error:
        raise LabError(f"the lab's binaries cannot be kept: {error}. Let XDG_CACHE_HOME name another folder") from error
    with lock as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_wait()
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _manifest_path(binary_path: Path) -> Path:
    return binary_path.with_name(f"{binary_path.name}.manifest.json")


def _write_whole(path: Path, text: str) -> None:
    part = path.with_name(f".{path.name}.part")
    part.write_text(text)
    part.rename(path)


def _sha256(path: Path) -> str:
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()
