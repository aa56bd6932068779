"""A lock held against advisories that lie in a file."""

import json
import zipfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from lab.errors import LabError
from lab.image.advisories import Pin, pins, read_advisories, scan_result
from lab.image.command import SCAN, audit

LOCK = """\
aiohttp==3.9.1 \\
    --hash=sha256:0000000000000000000000000000000000000000000000000000000000000000
    # via kube-balloons (pyproject.toml)
numpy==2.4.6 ; python_full_version < '3.12' \\
    --hash=sha256:1111111111111111111111111111111111111111111111111111111111111111
numpy==2.5.5 ; python_full_version >= '3.12' \\
    --hash=sha256:1111111111111111111111111111111111111111111111111111111111111111
PyYAML==6.0.3 \\
    --hash=sha256:2222222222222222222222222222222222222222222222222222222222222222
"""


def record(name: str, *events: dict[str, str], **more: Any) -> dict[str, Any]:
    part = {
        "package": {"ecosystem": more.pop("ecosystem", "PyPI"), "name": name},
        "ranges": [{"type": "ECOSYSTEM", "events": list(events)}] if events else [],
        "versions": more.pop("versions", []),
    }
    return {"id": "PYSEC-2024-26", "modified": "2024-02-06T20:20:18Z", "affected": [part], **more}


def known(folder: Path, *records: dict[str, Any], version: str = "3.9.1") -> list[str]:
    for number, content in enumerate(records):
        (folder / f"{number}.json").write_text(json.dumps(content))
    return [vulnerability.id for vulnerability in read_advisories(folder).against([Pin("aiohttp", version)])]


def test_a_lock_is_read_with_its_markers() -> None:
    assert [(pin.name, pin.version) for pin in pins(LOCK)] == [
        ("aiohttp", "3.9.1"),
        ("numpy", "2.4.6"),
        ("numpy", "2.5.5"),
        ("pyyaml", "6.0.3"),
    ]
    assert [pin.version for pin in pins(LOCK) if pin.name == "numpy" and pin.applies_to("3.11.2")] == ["2.4.6"]


@pytest.mark.parametrize(
    ("version", "events", "is_affected"),
    [
        ("3.9.1", [{"introduced": "0"}, {"fixed": "3.9.2"}], True),
        ("3.9.2", [{"introduced": "0"}, {"fixed": "3.9.2"}], False),
        ("3.9.1", [{"fixed": "3.9.2"}, {"introduced": "3.9.0"}], True),
        ("3.8.9", [{"introduced": "3.9.0"}, {"fixed": "3.9.2"}], False),
        ("3.9.1", [{"introduced": "3.0"}, {"last_affected": "3.9.1"}], True),
        ("3.9.1.post1", [{"introduced": "3.0"}, {"last_affected": "3.9.1"}], False),
        ("3.10.0", [{"introduced": "3.9.0"}, {"fixed": "3.9.2"}, {"introduced": "3.10.0"}], True),
        ("3.9.1", [{"introduced": "3.9.1"}, {"fixed": "3.9.1"}], False),
        ("0.0.1a1", [{"introduced": "0"}], True),
    ],
)
def test_a_range_of_versions_is_read_as_osv_says(
    tmp_path: Path, version: str, events: list[dict[str, str]], is_affected: bool
) -> None:
    assert known(tmp_path, record("aiohttp", *events), version=version) == (["PYSEC-2024-26"] if is_affected else [])


def test_a_version_that_is_listed_counts_however_it_is_written(tmp_path: Path) -> None:
    assert known(tmp_path, record("AioHTTP", versions=["not a version", "3.9.1.0"])) == ["PYSEC-2024-26"]


def test_what_is_withdrawn_or_about_another_registry_does_not_count(tmp_path: Path) -> None:
    everything = {"introduced": "0"}
    withdrawn = record("aiohttp", everything, withdrawn="2024-03-01T00:00:00Z")
    other = record("aiohttp", everything, ecosystem="npm")
    harmless = record("somewhere-else", everything)
    assert known(tmp_path, withdrawn, other, harmless) == []


def test_one_vulnerability_of_two_databases_is_told_once_with_its_fix(tmp_path: Path) -> None:
    names = ["CVE-2024-23829", "GHSA-8qpw-xqxj-h4r2", "PYSEC-2024-26"]
    without_fix = record("aiohttp", versions=["3.9.1"], aliases=names[:2])
    fixed = record("aiohttp", {"introduced": "0"}, {"fixed": "3.9.2"}, aliases=[names[0], names[2]])
    fixed |= {"id": names[1], "summary": "Request smuggling\nmore"}
    assert known(tmp_path, without_fix, fixed) == [names[1]]
    (vulnerability,) = read_advisories(tmp_path).against([Pin("aiohttp", "3.9.1")])
    assert (vulnerability.fixed_in, vulnerability.summary) == ("3.9.2", "Request smuggling")
    assert str(vulnerability) == f"aiohttp 3.9.1: {names[1]}, {names[0]}, {names[2]}; fixed in 3.9.2"


def test_records_are_read_from_a_zip_of_json_and_a_folder_of_yaml(tmp_path: Path) -> None:
    text = json.dumps(record("aiohttp", {"introduced": "0"}))
    (tmp_path / "vulns" / "aiohttp").mkdir(parents=True)
    (tmp_path / "vulns" / "aiohttp" / "PYSEC-2024-26.yaml").write_text(text)
    (tmp_path / "vulns" / "README.txt").write_text("not a record")
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        archive.writestr("PYSEC-2024-26.json", text)
    for path in (tmp_path / "vulns", tmp_path / "all.zip"):
        advisories = read_advisories(path)
        assert (advisories.count, advisories.newest, advisories.unreadable) == (1, "2024-02-06T20:20:18Z", ())


def test_a_date_that_yaml_reads_is_told_as_json_has_it(tmp_path: Path) -> None:
    text = json.dumps(record("aiohttp", {"introduced": "0"})).replace(
        '"2024-02-06T20:20:18Z"', "2024-02-06T20:20:18.5Z"
    )
    (tmp_path / "PYSEC-2024-26.yaml").write_text(text)
    assert read_advisories(tmp_path).newest == "2024-02-06T20:20:18Z"


def test_a_record_that_cannot_be_read_is_named_and_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "list.yaml").write_text("[1, 2]")
    (tmp_path / "version.json").write_text(json.dumps(record("aiohttp", {"introduced": "soon"})))
    assert known(tmp_path, record("aiohttp", {"introduced": "0"})) == ["PYSEC-2024-26"]
    assert read_advisories(tmp_path).unreadable == ("broken.json", "list.yaml", "version.json")


@pytest.mark.parametrize("name", ["absent", "empty", "text.txt"])
def test_a_place_without_advisories_is_an_error_that_names_it(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "text.txt").write_text("hello")
    with pytest.raises(LabError, match=f"--advisories: .*{name}"):
        read_advisories(tmp_path / name)


def test_the_result_says_what_was_held_against_what(tmp_path: Path) -> None:
    (tmp_path / "one.json").write_text(json.dumps(record("aiohttp", {"introduced": "0"}, {"fixed": "3.9.2"})))
    result = scan_result(read_advisories(tmp_path), {"image.lock": LOCK}, datetime(2026, 11, 23, tzinfo=UTC))
    # The four keys of cosign's predicate for scans.
    assert set(result) == {"invocation", "scanner", "metadata"}
    assert set(result["scanner"]) == {"uri", "version", "db", "result"}
    assert set(result["scanner"]["db"]) == {"uri", "version", "lastUpdate"}
    assert result["metadata"]["scanStartedOn"] == "2026-11-23T00:00:00Z"
    told = result["scanner"]["result"]
    assert told["packages"] == {"image.lock": 4}
    assert told["advisories"] == 1
    assert told["vulnerabilities"] == [
        {
            "lock": "image.lock",
            "package": "aiohttp",
            "version": "3.9.1",
            "id": "PYSEC-2024-26",
            "fixed_in": "3.9.2",
        }
    ]


def test_audit_needs_no_image_and_fails_on_what_is_known(tmp_path: Path) -> None:
    (tmp_path / "old.json").write_text(json.dumps(record("aiohttp", {"introduced": "0"}, {"fixed": "3.9.2"})))
    arguments = ["--advisories", str(tmp_path), "--output", str(tmp_path / "dist")]
    answer = CliRunner().invoke(audit, arguments)
    assert answer.exit_code == 0, answer.output
    assert "held against 1 advisories, the newest of 2024-02-06" in answer.output
    assert json.loads((tmp_path / "dist" / SCAN).read_text())["scanner"]["result"]["vulnerabilities"] == []
    (tmp_path / "new.json").write_text(json.dumps(record("aiohttp", {"introduced": "0"})))
    answer = CliRunner().invoke(audit, arguments)
    assert isinstance(answer.exception, LabError)
    assert "requirements-image.lock: aiohttp" in str(answer.exception)


def test_audit_without_advisories_says_what_to_give() -> None:
    assert "--advisories: name a folder or a zip" in str(CliRunner().invoke(audit, []).exception)
