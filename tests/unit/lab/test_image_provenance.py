"""What is written beside the image, without building one."""

import json
import re
import subprocess
import sys
import sysconfig
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lab.errors import LabError
from lab.image.command import LOCK, LOCKS, ROOT, snapshot
from lab.image.provenance import (
    Commit,
    ImageBuild,
    bill_differences,
    file_sha256,
    read_commit,
    statement,
    tree_sha256,
)

pytestmark = pytest.mark.whole

ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*:[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=%-]+")
"""Of RFC 3986: absolute, and of no other characters."""
SHA = "21dc8d0c5a1f0e9b7a6c5d4e3f2a1b0c9d8e7f60"


@pytest.fixture
def build(tmp_path: Path) -> ImageBuild:
    archive, bill = tmp_path / "kube-balloons.tar", tmp_path / "kube-balloons.cdx.json"
    archive.write_bytes(b"layers")
    bill.write_text("{}")
    return ImageBuild(
        commit=Commit(SHA),
        context=snapshot(tmp_path / "context"),
        locks=LOCKS,
        arguments={"BASE": "localhost/base:12"},
        bases={"localhost/base:12": "sha256:" + "ab" * 32},
        epoch=1_700_000_000,
        tool="buildah version 1.28.2",
        started=datetime(2026, 11, 23, 8, 0, tzinfo=UTC),
        finished=datetime(2026, 11, 23, 8, 4, tzinfo=UTC),
        config="cd" * 32,
        files=(archive,),
        byproducts=(bill,),
    )


def test_the_statement_has_the_form_of_in_toto_and_slsa(build: ImageBuild) -> None:
    told = json.loads(json.dumps(statement(build)))
    assert told["_type"] == "https://in-toto.io/Statement/v1"
    assert told["predicateType"] == "https://slsa.dev/provenance/v1"
    assert set(told) == {"_type", "subject", "predicateType", "predicate"}
    definition, details = told["predicate"]["buildDefinition"], told["predicate"]["runDetails"]
    assert set(definition) == {"buildType", "externalParameters", "internalParameters", "resolvedDependencies"}
    assert set(details) == {"builder", "metadata", "byproducts"}
    assert details["metadata"] == {"startedOn": "2026-11-23T08:00:00Z", "finishedOn": "2026-11-23T08:04:00Z"}
    everything = [*told["subject"], *definition["resolvedDependencies"], *details["byproducts"]]
    for resource in everything:
        assert resource.get("uri") or resource.get("name")
        (algorithm, digest), *more = resource["digest"].items()
        assert not more
        assert len(digest) == {"sha256": 64, "gitCommit": 40}[algorithm]


def test_it_says_what_was_built_from_what(build: ImageBuild) -> None:
    told = statement(build)
    archive, config = told["subject"]
    assert archive == {"name": "kube-balloons.tar", "digest": {"sha256": file_sha256(build.files[0])}}
    assert config["digest"] == {"sha256": build.config}
    source, *locks, base = told["predicate"]["buildDefinition"]["resolvedDependencies"]
    assert source == {
        "uri": f"git+https://github.com/kube-balloons/kube-balloons@{SHA}",
        "digest": {"gitCommit": SHA},
    }
    # What was really installed from, not what lies in the tree when it is written.
    assert {lock["name"]: lock["digest"]["sha256"] for lock in locks} == {
        lock: file_sha256(ROOT / lock) for lock in LOCKS
    }
    assert base == {"name": "localhost/base:12", "digest": {"sha256": "ab" * 32}}


def test_a_tree_that_was_worked_on_is_not_told_as_its_commit(build: ImageBuild) -> None:
    told = statement(replace(build, commit=Commit(SHA, ("balloons/new.py",))))
    source = told["predicate"]["buildDefinition"]["resolvedDependencies"][0]
    assert source["annotations"] == {"changedSinceCommit": ["balloons/new.py"]}


def test_the_digest_of_a_tree_goes_by_names_and_contents(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "one").write_text("1")
    before = tree_sha256(tmp_path)
    (tmp_path / "folder" / "one").rename(tmp_path / "folder" / "two")
    renamed = tree_sha256(tmp_path)
    (tmp_path / "folder" / "two").write_text("2")
    assert len({before, renamed, tree_sha256(tmp_path)}) == 3


def test_git_tells_the_commit_and_what_differs(tmp_path: Path) -> None:
    def git(*arguments: str) -> str:
        identity = ("-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false")
        command = ["git", "-C", str(tmp_path), *identity, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    git("init", "--quiet")
    (tmp_path / "inside").write_text("1")
    (tmp_path / "outside").write_text("1")
    git("add", ".")
    git("commit", "--quiet", "-m", "first")
    (tmp_path / "outside").write_text("2")
    assert read_commit(tmp_path, ("inside", "new")) == Commit(git("rev-parse", "HEAD"))
    (tmp_path / "inside").write_text("2")
    (tmp_path / "new").write_text("1")
    assert read_commit(tmp_path, ("inside", "new")).changed == ("inside", "new")


def test_without_git_there_is_no_provenance(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="provenance names the commit"):
        read_commit(tmp_path, ())


def test_the_image_would_have_a_bill_of_materials_that_its_schema_accepts(tmp_path: Path) -> None:
    """Made as the Containerfile makes it, of the image's packages as they are installed here."""
    from cyclonedx.schema import SchemaVersion  # two seconds, and only here
    from cyclonedx.validation.json import JsonStrictValidator

    bill = tmp_path / "bill.json"
    how = ("environment", "--output-reproducible", f"--pyproject={ROOT / 'pyproject.toml'}", f"--output-file={bill}")
    command = [sys.executable, "-m", "cyclonedx_py", *how, str(python_of_the_image(tmp_path))]
    subprocess.run(command, check=True, capture_output=True, cwd=tmp_path)
    told = json.loads(bill.read_text())
    assert told["specVersion"] == "1.6"
    # The schema's own check of an address takes a tenth of a second each, of four hundred: ours stands in for it.
    references = [each for part in told["components"] for each in part.get("externalReferences", [])]
    for reference in references:
        assert ADDRESS.fullmatch(reference.pop("url"))
        reference["url"] = ""
    assert references
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(json.dumps(told)) is None
    names = {part["name"].lower().replace("_", "-") for part in told["components"]}
    assert {"aiohttp", "kubernetes", "msgspec", "numpy"} <= names
    assert all(part["purl"].startswith("pkg:pypi/") for part in told["components"] if "purl" in part)


def python_of_the_image(folder: Path) -> Path:
    """What tells where its packages lie, as a Python does: only those of the lock, a third of what the tests need."""
    site, python = folder / "site", folder / "python"
    site.mkdir()
    locked = {line.partition("==")[0] for line in (ROOT / LOCK).read_text().splitlines() if "==" in line}
    for package in Path(sysconfig.get_path("purelib")).glob("*.dist-info"):
        if re.sub(r"[-_.]+", "-", package.name.partition("-")[0]).lower() in locked:
            (site / package.name).symlink_to(package)
    python.write_text(f"#!/bin/sh\necho '{json.dumps([str(site)])}'\n")
    python.chmod(0o755)
    return python


def test_a_bill_that_is_not_the_lock_is_refused() -> None:
    lock = (ROOT / LOCK).read_text()
    lines = [line.split(" ")[0].split("==") for line in lock.splitlines() if "==" in line and "#" not in line]
    parts = [{"name": name, "version": version} for name, version in lines if version != "2.5.5"]
    assert (
        bill_differences({"components": [{"name": "kube-balloons", "version": "0.1.0"}, *parts]}, lock, "3.11.2") == []
    )
    parts[0]["version"] = "0.0.1"
    name, version = lines[0]
    assert bill_differences({"components": parts}, lock, "3.11.2") == [
        f"{name} 0.0.1 is installed and not in the lock",
        f"{name} {version} is in the lock and not installed",
    ]
