"""`balloons doctor` from outside: files, dumps, exit codes, what goes to which stream."""

import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from balloons.cli.cluster_source import seconds, warn
from balloons.cli.doctor_command import diagnosis_text, summary
from balloons.cli.main import balloons
from balloons.cli.terminal import Look
from balloons.cluster import kinds
from balloons.cluster.seen_cluster import Listed, SeenCluster, Unread
from balloons.doctor.diagnose import diagnose
from balloons.reading.read_cluster import read_archive, write_archive
from tests.commands import balloons as run_balloons
from tests.doctor_cases import room, workload
from tests.seen_clusters import cluster

EXAMPLE = Path(__file__).resolve().parents[4] / "docs" / "example" / "cluster.tar.gz"
LOW = """\
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: low}
value: -11
preemptionPolicy: Never
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: "room", namespace: default}
spec:
  template:
    spec: {priorityClassName: low, terminationGracePeriodSeconds: 0, containers: [{image: pause}]}
"""


def run(*arguments: str) -> Result:
    return CliRunner().invoke(balloons, ["doctor", *arguments], standalone_mode=False)


@pytest.fixture
def manifest(tmp_path: Path) -> str:
    path = tmp_path / "low.yaml"
    path.write_text(LOW)
    return str(path)


@pytest.fixture
def dump(tmp_path: Path) -> str:
    path = tmp_path / "dump.tar.gz"
    with path.open("wb") as file:
        write_archive(cluster({kind: [] for kind in kinds.ALL_KINDS} | dict(room(-11))), file)
    return str(path)


def test_findings_go_to_stdout_one_to_a_line_and_the_rest_to_stderr(manifest: str) -> None:
    found = run("-f", manifest)
    header, row = found.stdout.splitlines()
    assert header.split() == ["SEVERITY", "CODE", "OBJECT", "FINDING"]
    assert row.startswith("error     KB001  deployment/room -n default  its pods have priority -11")
    assert "1 error" in found.stderr
    assert found.return_value == 0


def test_fail_on_decides_the_exit_code(manifest: str) -> None:
    assert run_balloons("doctor", "-f", manifest, "--fail-on", "error").returncode == 3
    assert run_balloons("doctor", "-f", manifest, "--fail-on", "error", "--skip", "kb001").returncode == 0
    assert run_balloons("doctor", "-f", manifest, BALLOONS_FAIL_ON="warning").returncode == 3


def test_json_is_one_document_and_the_same_from_a_dump(dump: str) -> None:
    found = run("--from", dump, "-o", "json")
    document = json.loads(found.stdout)
    assert document["apiVersion"] == "balloons.kube-balloons.github.io/v1"
    assert [each["code"] for each in document["findings"]] == ["KB001"]
    assert document["findings"][0]["docs"] == "docs/doctor.md#kb001"
    assert json.loads(run("--from", dump, "--skip", "KB001", "-o", "json").stdout)["findings"] == []


def test_no_finding_is_no_table(manifest: str) -> None:
    found = run("-f", manifest, "--only", "KB002")
    assert found.stdout == ""
    assert "1 check: nothing found" in found.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--only", "KB999", "-f", __file__), "no check 'KB999'; accepted: KB001 to KB058"),
        (("--only", "KB001", "--skip", "KB001,KB002", "-f", __file__), "--skip leaves no check"),
        (("-f", "/no/such"), "/no/such: no such file or directory"),
        (("--from", "/no/such"), "/no/such: "),
        (("--from", "/dev/null"), "not a regular file"),
        (("-f", __file__, "--from", __file__), "not together"),
        (("--in-cluster",), "runs in no pod"),
        (("--request-timeout", "soon"), "accepted: 1s to 300s"),
        (("--as-group", "a"), "as-group needs as"),
    ],
)
def test_bad_input_is_one_sentence_and_code_two(arguments: tuple[str, ...], words: str) -> None:
    found = run_balloons("doctor", *arguments)
    assert (found.returncode, found.stdout) == (2, "")
    assert words in found.stderr
    assert "Traceback" not in found.stderr


def test_a_cluster_that_is_away_says_what_to_try(tmp_path: Path) -> None:
    path = tmp_path / "config"
    body = {
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:9"}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "c",
    }
    path.write_text(json.dumps(body))
    found = run_balloons("doctor", "--kubeconfig", str(path), "-v")
    assert found.returncode == 1
    assert "get /version: error" in found.stderr
    assert "kubectl config current-context" in found.stderr


def test_escapes_in_names_are_spelled_out_on_a_terminal_and_in_a_pipe() -> None:
    objects = dict(room(-11))
    objects[kinds.DEPLOYMENTS][0]["metadata"]["name"] = "x\x1b[2J\u202e"
    found = diagnose(cluster({kind: [] for kind in kinds.ALL_KINDS} | objects))
    for look in (Look(), Look(output="wide"), Look(width=40, is_terminal=True)):
        shown = "\n".join(diagnosis_text(found, look))
        assert "\x1b" not in shown
        assert "\u202e" not in shown
        assert "x\\x1b[2J\\u202e" in shown


def test_a_table_has_the_colours_that_were_asked_for() -> None:
    """`--color always` did nothing in a pipe."""
    found = diagnose(read_archive(str(EXAMPLE)))
    plain, coloured = (diagnosis_text(found, Look(is_coloured=colour)) for colour in (False, True))
    assert [line[:5] for line in coloured[1:]] == ["\x1b[31m", "\x1b[33m", "\x1b[33m"]
    assert [re.sub(r"\x1b\[\d*m", "", line) for line in coloured] == plain


def test_names_are_never_cut_on_a_narrow_terminal() -> None:
    name = "a-very-long-name-of-a-deployment-that-is-wider-than-the-terminal"
    objects = dict(room(-11))
    objects[kinds.DEPLOYMENTS] = [workload(name)]
    found = diagnose(cluster({kind: [] for kind in kinds.ALL_KINDS} | objects))
    shown = diagnosis_text(found, Look(width=30, is_terminal=True))
    assert shown[:3] == ["✗ error KB001", f"    deployment/{name}", "    -n default"]
    assert max(len(line) for line in shown[2:-2]) <= 30
    assert diagnosis_text(found, Look(width=30, is_terminal=True, is_unicode=False))[0] == "x error KB001"


def test_wide_tells_a_terminal_what_was_looked_for_in_vain() -> None:
    """A table with fixes would be 350 columns wide; a terminal has each finding as a block with its fix anyway."""
    found, look = diagnose(read_archive(str(EXAMPLE))), Look("wide", width=80, is_terminal=True)
    assert diagnosis_text(found, look) == diagnosis_text(found, replace(look, output=""))
    told = summary(found, look)
    heading = told.index("none of these was found:")
    assert told[heading + 1 : -1] == [f"  {check.code} {check.title}" for check in found.passed]
    assert told[-1] == "44 checks: 1 error, 2 warnings"


def test_misspelt_commands_are_guessed() -> None:
    found = run_balloons("docter")
    assert (found.returncode, found.stdout) == (2, "")
    assert "did you mean doctor?" in found.stderr


def test_lengths_of_time_as_kubectl_takes_them() -> None:
    assert (seconds("30s"), seconds("2m"), seconds("5"), seconds("1.5")) == (30, 120, 5, 1.5)


def empty_dump(path: Path) -> str:
    """A dump in which nothing could be read."""
    unread = {kind.name: Listed((), Unread.FORBIDDEN) for kind in kinds.ALL_KINDS}
    with path.open("wb") as file:
        write_archive(SeenCluster(taken_at=datetime(2026, 11, 1, tzinfo=UTC), lists=unread), file)
    return str(path)


def test_a_gate_never_passes_on_checks_that_could_not_look(tmp_path: Path) -> None:
    found = run_balloons("doctor", "--from", empty_dump(tmp_path / "d"), "--fail-on", "error")
    assert found.returncode == 3
    assert "nothing could be looked at" in found.stderr or "checks could not look" in found.stderr
    assert "--skip KB0" in found.stderr


def test_a_plan_from_no_nodes_says_so(tmp_path: Path) -> None:
    found = run_balloons("plan", "--from", empty_dump(tmp_path / "d"), "--add", "5")
    assert "! No node was seen: all that this plan says of nodes is assumed." in found.stdout


def test_manifests_without_anything_to_look_at_are_bad_input(tmp_path: Path) -> None:
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    (tmp_path / "job.yaml").write_text("kind: Job\napiVersion: batch/v1\nmetadata: {name: train}\n")
    for path in (tmp_path / "job.yaml", tmp_path):
        found = run_balloons("doctor", "-f", str(path))
        assert found.returncode == 2
        assert "no object that any check looks at (1 file read)" in found.stderr
    assert "; -R looks into folders of folders" in run_balloons("doctor", "-f", str(tmp_path)).stderr


def test_templates_of_a_chart_in_a_folder_are_passed_over(manifest: str, tmp_path: Path) -> None:
    templates = tmp_path / "chart" / "templates"
    templates.mkdir(parents=True)
    (templates.parent / "Chart.yaml").write_text("name: chart\n")
    (templates / "x.yaml").write_text("{{- if .Values.x }}\n")
    (tmp_path / "m.yaml").write_text(Path(manifest).read_text())
    found = run_balloons("doctor", "-f", str(tmp_path), "-R")
    assert found.returncode == 0, found.stderr
    assert "passed: KB" in found.stderr


def test_notes_are_as_wide_as_the_terminal_and_cut_no_word(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    passed = [line for line in summary(diagnose(read_archive(str(EXAMPLE))), Look(width=40)) if "KB0" in line]
    assert len(passed) > 2
    assert max(map(len, passed)) <= 40
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    warn("from a dump, cluster.tar.gz, taken 2026-11-20 14:30:00 UTC (3d ago)")
    assert capsys.readouterr().err == "from a dump, cluster.tar.gz, taken\n  2026-11-20 14:30:00 UTC (3d ago)\n"
