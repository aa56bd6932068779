"""Find a binary by name: KUBEBUILDER_ASSETS, then the cache, then a build."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from lab.binaries.building import GoToolchain, Position, build, build_command, find_go, module_source, say
from lab.binaries.cache import any_sound_entry, cache_folder, entry_folder, locked, sound_entry, write_entry
from lab.binaries.catalogue import KARPENTER, Binary, binary_named
from lab.errors import LabError

CRD_FOLDERS = ("pkg/apis/crds", "kwok/apis/crds")
"""Where the Karpenter module keeps its CustomResourceDefinitions (the kwok provider has one of its own)."""


def find_binary(name: str) -> Path:
    """Return the path of one binary, building it if need be; raises LabError if it cannot be had."""
    return find_binaries([name])[name]


def find_binaries(names: Iterable[str]) -> dict[str, Path]:
    """Return the paths of several binaries; what is missing is built, one after the other, with progress."""
    wanted = [binary_named(name) for name in names]
    if sys.platform != "linux":
        raise LabError(
            "the lab needs Linux: it follows its processes in /proc. Run it in a virtual machine or a container; "
            "`make try` and every command of balloons work here, too"
        )
    paths = {binary.name: path for binary in wanted if (path := _without_building(binary)) is not None}
    missing = [binary for binary in wanted if binary.name not in paths]
    if missing:
        paths.update(_build_all(missing))
    return paths


def find_karpenter_crds() -> Path:
    """Return a folder with Karpenter's CRDs as YAML files, copied out of the Go module into the cache."""
    try:
        go = find_go(KARPENTER.minimum_go)
    except LabError:
        if (folder := _any_crds()) is not None:
            return folder
        raise
    target = entry_folder(KARPENTER, go) / "crds"
    with locked(target.parent, _say_waiting):
        if not target.is_dir():
            _copy_crds(module_source(KARPENTER, go), target)
    return target


def _without_building(binary: Binary) -> Path | None:
    return _from_assets(binary) or _from_cache(binary)


def _from_assets(binary: Binary) -> Path | None:
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    if not assets:
        return None
    path = Path(assets).resolve() / binary.name
    return path if path.is_file() and os.access(path, os.X_OK) else None


def _from_cache(binary: Binary) -> Path | None:
    try:
        go = find_go(binary.module.minimum_go)
    except LabError:
        return any_sound_entry(binary)
    # Read through once per process only: a lab with hundreds of machines asks hundreds of times.
    return _remembered_entry(binary, entry_folder(binary.module, go)) or None


@cache
def _remember(binary: Binary, folder: Path, _stamp: tuple[int, int]) -> Path | None:
    return sound_entry(binary, folder)


def _remembered_entry(binary: Binary, folder: Path) -> Path | None:
    try:
        stat = (folder / binary.name).stat()
    except OSError:
        return None
    return _remember(binary, folder, (stat.st_mtime_ns, stat.st_size))


def _build_all(missing: list[Binary]) -> dict[str, Path]:
    toolchains = {binary.name: find_go(binary.module.minimum_go) for binary in missing}
    say(
        f"{len(missing)} of the lab's binaries are not there yet: {', '.join(b.name for b in missing)}. "
        f"They are built from Go modules into {cache_folder()}: about 8 GB of disk for downloads and "
        f"Go's caches ({_free_gb():.0f} GB are free), and about 8 minutes on two cores when all are built cold."
    )
    return {
        binary.name: _build_one(binary, toolchains[binary.name], Position(number, len(missing)))
        for number, binary in enumerate(missing, start=1)
    }


def _free_gb() -> float:
    folder = cache_folder()
    return shutil.disk_usage(next(path for path in folder.parents if path.exists())).free / 1e9


def _build_one(binary: Binary, go: GoToolchain, position: Position) -> Path:
    folder = entry_folder(binary.module, go)
    with locked(folder, _say_waiting):
        # Another run may have built it while this one waited for the lock.
        if (path := sound_entry(binary, folder)) is not None:
            return path
        command = build_command(binary, go, Path(binary.name))
        return write_entry(binary, folder, lambda part: build(binary, go, part, position), command)


def _copy_crds(source: Path, target: Path) -> None:
    part = target.with_name(".crds.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    for folder in CRD_FOLDERS:
        for file in sorted((source / folder).glob("*.yaml")):
            # Go's module cache is read-only; a plain copy of the bytes can be removed again.
            (part / file.name).write_bytes(file.read_bytes())
    part.rename(target)


def _any_crds() -> Path | None:
    return next(iter(sorted(cache_folder().glob(f"{KARPENTER.name}-{KARPENTER.version}-*/crds"))), None)


def _say_waiting() -> None:
    say("another run is building the lab's binaries: waiting for it ...")
