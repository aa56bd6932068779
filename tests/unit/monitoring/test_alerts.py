"""Alerts: what each must say, and a real promtool that sees each fire and stay silent."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab.binaries import find_binary

ROOT = Path(__file__).resolve().parents[3]
RULE_FILE = ROOT / "manifests" / "components" / "monitoring" / "prometheusrule.yaml"
SPEC: dict[str, Any] = yaml.safe_load(RULE_FILE.read_text())["spec"]
RULES = [rule for group in SPEC["groups"] for rule in group["rules"]]
ALERTS = {rule["alert"]: rule for rule in RULES if "alert" in rule}
CASES: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("alert_cases.yaml").read_text())
RUNBOOK = (ROOT / "docs" / "runbook.md").read_text()
DASHBOARDS = ROOT / "manifests" / "components" / "monitoring" / "dashboards"

each_alert = pytest.mark.parametrize("alert", ALERTS.values(), ids=ALERTS)


@each_alert
def test_alert_says_what_why_and_where_to_look(alert: dict[str, Any]) -> None:
    assert alert["labels"]["severity"] in ("warning", "critical")
    notes = alert["annotations"]
    assert set(notes) == {"summary", "description", "runbook_url", "dashboard_url"}
    assert "{{" not in notes["summary"], "one summary for all of its alerts"
    assert notes["summary"].endswith(".")
    assert _seconds(alert["for"]) >= 30, "two scrapes at least"


@each_alert
def test_alert_links_to_a_section_of_the_runbook(alert: dict[str, Any]) -> None:
    page, _, anchor = alert["annotations"]["runbook_url"].partition("#")
    assert page.endswith("/docs/runbook.md")
    assert anchor == alert["alert"].lower()
    assert f"\n### {alert['alert']}\n" in RUNBOOK


@each_alert
def test_alert_links_to_a_dashboard_of_ours(alert: dict[str, Any]) -> None:
    uids = {json.loads(file.read_text())["uid"] for file in DASHBOARDS.glob("*.json")}
    assert alert["annotations"]["dashboard_url"].removeprefix("/d/") in uids


def test_runbook_has_no_alert_that_is_gone() -> None:
    assert set(re.findall(r"^### (KubeBalloons\w+)$", RUNBOOK, re.MULTILINE)) == set(ALERTS)


def test_every_alert_has_its_two_cases() -> None:
    assert set(CASES) == set(ALERTS)
    assert all(set(case) == {"firing", "silent"} for case in CASES.values())


@pytest.mark.promtool
def test_promtool_finds_the_rules_sound(tmp_path: Path) -> None:
    _promtool(tmp_path, "check", "rules", "--lint=all", "--lint-fatal", "rules.yaml")


@pytest.mark.promtool
@pytest.mark.parametrize("which", ["firing", "silent"])
def test_promtool_sees_each_alert_as_its_case_says(which: str, tmp_path: Path) -> None:
    _see(tmp_path, [_promtool_test(name, case[which]) for name, case in CASES.items()])


@pytest.mark.promtool
def test_promtool_sees_that_no_cluster_at_all_is_scraped(tmp_path: Path) -> None:
    description = CASES["KubeBalloonsDown"]["firing"]["description"].replace('"east"', '""')
    case = {"series": {"other": "1x10"}, "at": "6m", "labels": {}, "description": description}
    _see(tmp_path, [_promtool_test("KubeBalloonsDown", case)])


@pytest.mark.promtool
def test_promtool_sees_one_alert_for_the_outage_of_the_only_cluster(tmp_path: Path) -> None:
    case = CASES["KubeBalloonsDown"]["firing"]
    series = {name: values for name, values in case["series"].items() if "east" in name}
    _see(tmp_path, [_promtool_test("KubeBalloonsDown", {**case, "series": series})])


@pytest.mark.promtool
def test_promtool_sees_no_alert_before_its_time(tmp_path: Path) -> None:
    early = {name: f"{_seconds(ALERTS[name]['for']) - 15}s" for name in CASES}
    cases = {name: {"series": case["firing"]["series"], "at": early[name]} for name, case in CASES.items()}
    _see(tmp_path, [_promtool_test(name, case) for name, case in cases.items()])


def _see(folder: Path, tests: list[dict[str, Any]]) -> None:
    cases = {"rule_files": ["rules.yaml"], "evaluation_interval": "15s", "tests": tests}
    (folder / "cases.yaml").write_text(yaml.safe_dump(cases))
    _promtool(folder, "test", "rules", "cases.yaml")


def _promtool_test(name: str, case: dict[str, Any]) -> dict[str, Any]:
    expected = []
    if "description" in case:
        fixed = ALERTS[name]
        notes = {**fixed["annotations"], "description": case["description"]}
        expected = [{"exp_labels": {**fixed["labels"], **case["labels"]}, "exp_annotations": notes}]
    return {
        "name": name,
        "interval": "1m",
        "input_series": [{"series": series, "values": values} for series, values in case["series"].items()],
        "alert_rule_test": [{"eval_time": case["at"], "alertname": name, "exp_alerts": expected}],
    }


def _promtool(folder: Path, *arguments: str) -> None:
    (folder / "rules.yaml").write_text(yaml.safe_dump(SPEC))
    command = [find_binary("promtool"), *arguments]
    answer = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=180)
    assert answer.returncode == 0, answer.stdout + answer.stderr


def _seconds(text: str) -> int:
    return int(text[:-1]) * {"s": 1, "m": 60, "h": 3600}[text[-1]]
