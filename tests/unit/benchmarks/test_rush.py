"""The figures of rushes, from made-up ones."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from benchmarks.rush.__main__ import main
from benchmarks.rush.figures import figures
from benchmarks.rush.trial import Trial, keep, kept
from benchmarks.rush.ways import BOUND, HERD, WAYS
from benchmarks.rush.work import Work
from lab.demo.rush import RushRecord, joined, ordered

START = 1_767_225_600.0
NOTHING = Work(cpu_s={}, machine_busy_s=0.0, machine_s=0.0, writes={}, reads=0, attempts=0.0, rounds=0.0)


def rush(way: str, number: int = 0, **changes: Any) -> Trial:
    given: dict[str, Any] = {
        "usable_s": (10.0, 20.0),
        "joined_s": (9.0, 19.0),
        "bystander_p50_ms": 5.0,
        "bystander_p99_ms": 100.0,
        "bystander_requests": 100,
        "bystander_refusals": 0,
        "server_busy": 0.9,
        "unstarted": 0,
        "settled_s": 20.0,
        "errors": 10,
        "in_vain": 0,
        "ordered_s": (0.0, 1.0),
    }
    return Trial(setting="one core", way=way, round=number, record=RushRecord(**{**given, **changes}), work=NOTHING)


def by_name(*trials: Trial) -> dict[str, float]:
    found: dict[str, list[Trial]] = {}
    for trial in trials:
        found.setdefault(trial.way, []).append(trial)
    return {figure.name: figure.value for figure in figures(found)}


def test_figures_are_medians_over_the_herds() -> None:
    herds = [rush(HERD, number, usable_s=(1.0, time_s)) for number, time_s in enumerate((90.0, 100.0, 170.0))]
    ours = [
        rush("gates, remembered", number, usable_s=(1.0, time_s)) for number, time_s in enumerate((95.0, 80.0, 300.0))
    ]
    found = by_name(*herds, *ours)
    assert found["gated_warm_over_herd"] == pytest.approx(0.95)
    assert "gated_cold_over_herd" not in found, "it was not measured"


def test_the_best_window_is_the_quickest_one() -> None:
    trials = (
        rush("ceiling, window 20", usable_s=(50.0,)),
        rush("ceiling, window 40", usable_s=(40.0,)),
        rush("ceiling, remembered", usable_s=(44.0,)),
    )
    assert by_name(*trials)["warm_over_best_window"] == pytest.approx(1.1)


def test_machines_above_the_users_bound_are_told_by_the_worst_run() -> None:
    name = f"gates, at most {BOUND}"
    kept = rush(name, ordered_s=(0.0,) * BOUND, joined_s=(9.0,) * BOUND)
    broken = rush(name, 1, ordered_s=(0.0,) * (BOUND + 3), joined_s=(9.0,) * (BOUND + 3))
    assert by_name(kept)["most_over_max_in_flight"] == 0
    assert by_name(kept, broken)["most_over_max_in_flight"] == 3


def test_most_in_flight_counts_from_the_order_until_the_join_has_ended() -> None:
    """Whether the worker runs is another matter: it may wait for a scheduler that is busy."""
    record = rush(HERD, ordered_s=(0.0, 1.0, 5.0), joined_s=(4.0, 6.0, 7.0), usable_s=(9.0, 9.0, 9.0)).record
    assert record.most_in_flight == 2
    assert record.machines == 3


def answered(verb: str, about: str, code: int, second: float, name: str = "") -> dict[str, Any]:
    resource, _, subresource = about.partition("/")
    return {
        "verb": verb,
        "objectRef": {"resource": resource, "subresource": subresource or None, "namespace": "system", "name": name},
        "responseStatus": {"code": code},
        "stageTimestamp": datetime.fromtimestamp(START + second, UTC).isoformat(),
    }


def test_orders_are_the_claims_that_the_audit_log_says_were_made() -> None:
    events = [
        answered("create", "nodeclaims", 201, 3.5),
        answered("create", "nodeclaims", 429, 4.0),
        answered("get", "pods", 200, 5.0),
    ]
    assert ordered(events, since=START) == [3.5]


def test_a_pupil_learns_from_a_way_that_stands_before_it() -> None:
    names = list(WAYS)
    assert all(names.index(way.teacher) < names.index(name) for name, way in WAYS.items() if way.teacher)


def test_a_rush_is_kept_with_what_it_taught(tmp_path: Path) -> None:
    trial = replace(rush("gates, cold", 2), learned={"window": 40.5})
    keep(trial, tmp_path / "new")
    assert kept(tmp_path / "new", "one core", "gates, cold", 2, nodes=2) == trial


def test_a_rush_of_another_round_setting_or_size_is_run_again(tmp_path: Path) -> None:
    keep(rush("gates, cold"), tmp_path)
    assert kept(tmp_path, "one core", "gates, cold", 1, nodes=2) is None
    assert kept(tmp_path, "half a core", "gates, cold", 0, nodes=2) is None
    assert kept(tmp_path, "one core", "gates, cold", 0, nodes=150) is None


def test_a_way_that_remembers_is_not_measured_without_its_teacher(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["--way", "gates, remembered"])
    assert stopped.value.code == 2
    assert "'gates, cold'" in capsys.readouterr().err


def daemon_pod(name: str, node: str, ready_s: float) -> dict[str, Any]:
    ready_at = datetime.fromtimestamp(START + ready_s, UTC).isoformat()
    conditions = [
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": ready_at},
        {"type": "Ready", "status": "True", "lastTransitionTime": ready_at},
    ]
    metadata = {"namespace": "system", "name": name, "ownerReferences": [{"kind": "DaemonSet"}]}
    return {"metadata": metadata, "spec": {"nodeName": node}, "status": {"conditions": conditions}}


def test_a_join_ends_when_the_server_is_told_of_the_last_daemon_sets_pod() -> None:
    worker = {"metadata": {"namespace": "system", "name": "w"}, "spec": {"nodeName": "n1"}, "status": {}}
    pods = [daemon_pod("a", "n1", 4.0), daemon_pod("b", "n1", 6.0), daemon_pod("c", "n2", 2.0), worker]
    events = [
        answered("patch", "pods/status", 200, 3.0, "a"),
        answered("patch", "pods/status", 200, 4.2, "a"),
        answered("patch", "pods/status", 429, 6.1, "b"),
        answered("patch", "pods/status", 200, 7.5, "b"),
        answered("patch", "pods/status", 200, 9.0, "b"),
        answered("patch", "pods/status", 200, 9.0, "w"),
        answered("patch", "pods", 200, 2.1, "c"),
        answered("patch", "pods/status", 200, 2.2, "c"),
    ]
    assert joined(pods, events, since=START) == pytest.approx([2.2, 7.5])
