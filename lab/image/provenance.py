"""What stands beside an image: from which commit, locks and bases it was built, and whether its SBOM is the lock's.

The statement is in-toto's (https://in-toto.io/Statement/v1) with SLSA's predicate (https://slsa.dev/provenance/v1).
It is not signed here: whoever publishes an image signs it, with keys that are theirs (docs/image.md).
"""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name

from lab.errors import LabError
from lab.image.advisories import pins, rfc3339

REPOSITORY = "git+https://github.com/kube-balloons/kube-balloons"
BUILD_TYPE = "https://github.com/kube-balloons/kube-balloons/blob/main/docs/image.md#provenance"
BUILDER = f"{BUILD_TYPE}-by-hand"
"""A machine of somebody who ran `make image`; a CI that builds names itself by --builder."""
OWN_NAME = "kube-balloons"


@dataclass(frozen=True)
class Commit:
    """What git says about the files that the image is built from."""

    sha: str
    changed: tuple[str, ...] = ()
    """Paths among them that differ from that commit."""


def read_commit(root: Path, paths: Sequence[str]) -> Commit:
    """Ask git; raises LabError where there is none, because provenance without a commit says nothing."""
    sha = _git(root, "rev-parse", "HEAD").strip()
    lines = _git(root, "status", "--porcelain", "--untracked-files=all", "--", *paths).splitlines()
    return Commit(sha, tuple(sorted(line[3:] for line in lines)))


def _git(root: Path, *arguments: str) -> str:
    try:
        command = ["git", "-C", str(root), *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        why = getattr(error, "stderr", "") or str(error)
        raise LabError(f"provenance names the commit, and git does not tell it: {why.strip()}") from error


def file_sha256(path: Path) -> str:
    """The digest of a file, which may be larger than memory."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def tree_sha256(folder: Path) -> str:
    """One digest of every name and every content below a folder: the same files, the same digest."""
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        digest.update(f"{path.relative_to(folder).as_posix()}\0{file_sha256(path)}\n".encode())
    return digest.hexdigest()


@dataclass(frozen=True, kw_only=True)
class ImageBuild:
    """Everything that is known of one build when it is over."""

    commit: Commit
    context: Path
    """The folder that was built from, with the Containerfile."""
    locks: tuple[str, ...]
    """Paths in the context of what says which packages are installed."""
    arguments: Mapping[str, str]
    bases: Mapping[str, str]
    """Digest of each image that it was built on, by its name."""
    epoch: int
    """The time that every file of the image has."""
    tool: str
    """The builder's program and its version."""
    builder: str = BUILDER
    started: datetime
    finished: datetime
    config: str
    """Digest of the image's configuration, which names its layers; a registry does not change it."""
    files: tuple[Path, ...]
    """What is handed on: the archive first, then what describes it."""
    byproducts: tuple[Path, ...] = field(default=())


def statement(build: ImageBuild) -> dict[str, Any]:
    """The provenance of one build."""
    source: dict[str, Any] = {"uri": f"{REPOSITORY}@{build.commit.sha}", "digest": {"gitCommit": build.commit.sha}}
    if build.commit.changed:
        source["annotations"] = {"changedSinceCommit": list(build.commit.changed)}
    locks = [{"name": lock, "digest": {"sha256": file_sha256(build.context / lock)}} for lock in build.locks]
    bases = [{"name": name, "digest": _digest(digest)} for name, digest in build.bases.items()]
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [
            *({"name": path.name, "digest": {"sha256": file_sha256(path)}} for path in build.files),
            {"name": "image configuration", "digest": _digest(build.config)},
        ],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": {
                    "source": {"uri": REPOSITORY, "digest": {"gitCommit": build.commit.sha}},
                    "containerfile": "Containerfile",
                    "buildArguments": dict(build.arguments),
                },
                "internalParameters": {
                    "timestamp": build.epoch,
                    "context": {"sha256": tree_sha256(build.context)},
                },
                "resolvedDependencies": [source, *locks, *bases],
            },
            "runDetails": {
                "builder": {"id": build.builder, "version": {"tool": build.tool}},
                "metadata": {"startedOn": rfc3339(build.started), "finishedOn": rfc3339(build.finished)},
                "byproducts": [
                    {"name": path.name, "digest": {"sha256": file_sha256(path)}} for path in build.byproducts
                ],
            },
        },
    }


def _digest(digest: str) -> dict[str, str]:
    algorithm, _, value = digest.rpartition(":")
    return {algorithm or "sha256": value}


def bill_differences(bill: Mapping[str, Any], lock: str, python: str) -> list[str]:
    """What a CycloneDX bill of materials has and the lock has not, and the other way round; empty if they agree."""
    listed = {(canonicalize_name(part["name"]), part["version"]) for part in bill.get("components", ())}
    wanted = {(pin.name, pin.version) for pin in pins(lock) if pin.applies_to(python)}
    return [
        *_sentences(listed - wanted, "is installed and not in the lock"),
        *_sentences(wanted - listed, "is in the lock and not installed"),
    ]


def _sentences(packages: Iterable[tuple[str, str]], what: str) -> list[str]:
    return [f"{name} {version} {what}" for name, version in sorted(packages) if name != OWN_NAME]
