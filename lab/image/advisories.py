"""Holds the packages of a lock against known vulnerabilities, read from a file: nothing is asked over the network.

Advisories are records in OSV's format (https://ossf.github.io/osv-schema/), as JSON or YAML, in a folder or a zip: the
export of osv.dev for PyPI is one such zip, a clone of pypa/advisory-database is one such folder. Only what PyPI
publishes is looked at; what the base image brings is a matter for a scanner of images.
"""

from __future__ import annotations

import hashlib
import json
import re
import zipfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any

import yaml
from packaging.markers import Marker
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from lab.errors import LabError

ECOSYSTEM = "PyPI"
SCANNER = "https://github.com/kube-balloons/kube-balloons/blob/main/lab/image/advisories.py"
_PIN = re.compile(r"^([\w.-]+)==([^\s;\\]+)(?: *; *([^\\\n]+?))? *\\?$", re.MULTILINE)
_BEFORE_ALL = "0"
"""In an event `introduced`: every version, pre-releases too."""


@dataclass(frozen=True, order=True)
class Pin:
    """One package of a lock."""

    name: str
    version: str
    marker: str = ""

    def applies_to(self, python: str) -> bool:
        """Whether it is installed on this machine's kind of system, by a Python of that version (3.11.2)."""
        versions = {"python_full_version": python, "python_version": ".".join(python.split(".")[:2])}
        return not self.marker or Marker(self.marker).evaluate(versions)


def pins(lock: str) -> tuple[Pin, ...]:
    """The packages that a lock's text names, by name."""
    return tuple(sorted(Pin(canonicalize_name(name), version, marker) for name, version, marker in _PIN.findall(lock)))


@dataclass(frozen=True, order=True)
class Vulnerability:
    """An advisory that applies to a package of a lock."""

    package: str
    version: str
    id: str
    aliases: tuple[str, ...] = ()
    fixed_in: str = ""
    """The first later version without it; empty if the record knows none."""
    summary: str = ""

    def __str__(self) -> str:
        names = ", ".join((self.id, *self.aliases))
        return f"{self.package} {self.version}: {names}; {f'fixed in {self.fixed_in}' if self.fixed_in else 'no fix'}"


@dataclass(frozen=True)
class Advisories:
    """What a file of advisories says."""

    source: str
    sha256: str
    """Of the zip, or of the names and contents of a folder's records."""
    records: Mapping[str, tuple[Mapping[str, Any], ...]]
    """By the package's name: the part of a record that is about it, with the record's own fields under `record`."""
    count: int
    newest: str
    """When the newest record was last changed: advisories that are younger are not in there."""
    unreadable: tuple[str, ...] = ()

    def against(self, wanted: Iterable[Pin]) -> tuple[Vulnerability, ...]:
        """The advisories that apply to these packages; one that several databases carry is told once."""
        merged: dict[tuple[str, str, str], Vulnerability] = {}
        for pin in wanted:
            for affected in self.records.get(pin.name, ()):
                if _is_affected(Version(pin.version), affected):
                    vulnerability = _vulnerability(pin, affected)
                    names = sorted((vulnerability.id, *vulnerability.aliases))
                    known = merged.setdefault((pin.name, pin.version, names[0]), vulnerability)
                    if vulnerability.fixed_in and not known.fixed_in:
                        merged[pin.name, pin.version, names[0]] = vulnerability
        return tuple(sorted(merged.values()))


@dataclass
class _Collector:
    records: dict[str, list[Mapping[str, Any]]] = field(default_factory=lambda: defaultdict(list))
    digest: Any = field(default_factory=hashlib.sha256)
    unreadable: list[str] = field(default_factory=list)
    count: int = 0
    newest: str = ""

    def add(self, name: str, content: bytes) -> None:
        """Take one record in; one that cannot be read is named in the result and stops nothing."""
        self.digest.update(name.encode() + b"\0" + hashlib.sha256(content).digest())
        try:
            record = json.loads(content) if name.endswith(".json") else yaml.load(content, yaml.CSafeLoader)
            parts = [(canonicalize_name(part["package"]["name"]), part) for part in _about_pypi(record)]
            for _, part in parts:
                _check_versions(part)
            modified = _written(record.get("modified"))
        except (ValueError, yaml.YAMLError, KeyError, TypeError, AttributeError):
            self.unreadable.append(name)
            return
        if record.get("withdrawn") or not parts:
            return
        self.count += 1
        self.newest = max(self.newest, modified)
        for package, part in parts:
            self.records[package].append({**part, "record": record})


def read_advisories(path: Path) -> Advisories:
    """Read a zip or a folder; raises LabError where it holds none for Python packages."""
    if not path.exists():
        raise LabError(f"--advisories: {path} is not there; give a folder or a zip of OSV records (docs/image.md)")
    collector = _Collector()
    for name, content in _contents(path):
        collector.add(name, content)
    if not collector.count:
        raise LabError(f"--advisories: {path} holds no OSV record for {ECOSYSTEM} as .json or .yaml (docs/image.md)")
    return Advisories(
        source=path.name,
        sha256=collector.digest.hexdigest(),
        records={package: tuple(parts) for package, parts in collector.records.items()},
        count=collector.count,
        newest=collector.newest,
        unreadable=tuple(sorted(collector.unreadable)),
    )


def scan_result(advisories: Advisories, locks: Mapping[str, str], started: datetime) -> dict[str, Any]:
    """What to write beside the image, for locks by their names: a predicate for `cosign attest --type vuln`."""
    vulnerabilities = {name: advisories.against(pins(text)) for name, text in locks.items()}
    result = {
        "locks": {name: hashlib.sha256(text.encode()).hexdigest() for name, text in locks.items()},
        "packages": {name: len(pins(text)) for name, text in locks.items()},
        "advisories": advisories.count,
        "unreadable": list(advisories.unreadable),
        "vulnerabilities": [
            {"lock": lock, **{key: value for key, value in vars(vulnerability).items() if value}}
            for lock, several in vulnerabilities.items()
            for vulnerability in several
        ],
    }
    database = {"uri": advisories.source, "version": advisories.sha256, "lastUpdate": advisories.newest}
    return {
        "invocation": {"parameters": sorted(locks)},
        "scanner": {"uri": SCANNER, "version": "1", "db": database, "result": result},
        "metadata": {"scanStartedOn": rfc3339(started), "scanFinishedOn": rfc3339(datetime.now(UTC))},
    }


def rfc3339(moment: datetime) -> str:
    """A time as attestations have it, to the second, in UTC."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _written(modified: object) -> str:
    """A time as JSON has it; YAML reads what is not quoted as a date."""
    if isinstance(modified, datetime):
        return rfc3339(modified if modified.tzinfo else modified.replace(tzinfo=UTC))
    return str(modified or "")


def _contents(path: Path) -> Iterator[tuple[str, bytes]]:
    if path.is_dir():
        for file in sorted(path.rglob("*")):
            if _is_record(file.name) and file.is_file():
                yield file.relative_to(path).as_posix(), file.read_bytes()
        return
    try:
        with zipfile.ZipFile(path) as archive:
            for name in sorted(archive.namelist()):
                if _is_record(name):
                    yield name, archive.read(name)
    except (zipfile.BadZipFile, OSError) as error:
        raise LabError(f"--advisories: {path} is neither a folder nor a zip: {error}") from error


def _is_record(name: str) -> bool:
    return PurePosixPath(name).suffix in {".json", ".yaml"}


def _about_pypi(record: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    affected = record.get("affected") or ()
    return [part for part in affected if part.get("package", {}).get("ecosystem", "").split(":")[0] == ECOSYSTEM]


def _check_versions(part: Mapping[str, Any]) -> None:
    for event in (event for changes in _ranges(part) for event in changes):
        for version in event.values():
            Version(version)


def _is_affected(version: Version, part: Mapping[str, Any]) -> bool:
    return _is_listed(version, part.get("versions") or ()) or any(
        _contains(events, version) for events in _ranges(part)
    )


def _is_listed(version: Version, listed: Iterable[str]) -> bool:
    for name in listed:
        try:
            if Version(name) == version:
                return True
        except InvalidVersion:
            continue  # Old releases that no installer of today takes.
    return False


def _ranges(part: Mapping[str, Any]) -> list[list[dict[str, str]]]:
    return [
        [{kind: str(version)} for event in one["events"] for kind, version in event.items() if kind != "limit"]
        for one in part.get("ranges") or ()
        if one["type"] == "ECOSYSTEM"
    ]


def _contains(events: Iterable[Mapping[str, str]], version: Version) -> bool:
    """OSV's own rule: events in the order of their versions, the last that counts decides."""
    inside = False
    for kind, since in sorted(((kind, since) for event in events for kind, since in event.items()), key=_place):
        reached = version > Version(since) if kind == "last_affected" else version >= Version(since)
        if reached or since == _BEFORE_ALL:
            inside = kind == "introduced"
    return inside


def _place(event: tuple[str, str]) -> tuple[bool, Version, bool]:
    kind, since = event
    return since != _BEFORE_ALL, Version(since), kind != "introduced"


def _vulnerability(pin: Pin, part: Mapping[str, Any]) -> Vulnerability:
    record = part["record"]
    version = Version(pin.version)
    fixes = [event["fixed"] for events in _ranges(part) for event in events if "fixed" in event]
    later = sorted((fix for fix in fixes if Version(fix) > version), key=Version)
    text = str(record.get("summary") or record.get("details") or "").strip()
    return Vulnerability(
        package=pin.name,
        version=pin.version,
        id=str(record["id"]),
        aliases=tuple(sorted(str(alias) for alias in record.get("aliases") or ())),
        fixed_in=later[0] if later else "",
        summary=text.splitlines()[0][:200] if text else "",
    )
