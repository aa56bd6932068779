"""The cgroup that a process of the lab is put into, on a machine whose hierarchy is a folder of the test."""

from pathlib import Path

import pytest

from lab.processes import cpu_share

PID = 4711
GROUP = f"kube-balloons-{PID}"


@pytest.fixture(params=["V2", "V1"])
def root(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only hierarchy of this machine, as writable files; the other one is not there."""
    for name in ("V2", "V1"):
        monkeypatch.setattr(cpu_share, name, tmp_path / name)
    folder = tmp_path / str(request.param)
    folder.mkdir()
    (folder / "cgroup.procs").write_text("")
    return folder


def written(root: Path) -> dict[str, str]:
    return {file.name: file.read_text() for file in (root / GROUP).iterdir()}


def test_a_held_process_has_a_quota_of_its_own_and_goes_back_at_the_end(root: Path) -> None:
    with cpu_share.held_to(PID, 0.5) as is_held:
        assert is_held
        limits = {"cpu.max": "10000 20000"}
        if root.name == "V1":
            limits = {"cpu.cfs_period_us": "20000", "cpu.cfs_quota_us": "10000"}
        assert written(root) == {**limits, "cgroup.procs": str(PID)}
        assert (root / "cgroup.procs").read_text() == ""
    assert (root / "cgroup.procs").read_text() == str(PID)


def test_a_process_that_is_served_first_has_the_most_weight_and_no_limit(root: Path) -> None:
    with cpu_share.served_first(PID) as is_first:
        assert is_first
        weight = {"cpu.weight": "10000"} if root.name == "V2" else {"cpu.shares": "262144"}
        assert written(root) == {**weight, "cgroup.procs": str(PID)}
    assert (root / "cgroup.procs").read_text() == str(PID)


def test_a_machine_without_cgroups_runs_it_like_any_other_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("V2", "V1"):
        monkeypatch.setattr(cpu_share, name, tmp_path / name)
    with cpu_share.served_first(PID) as is_first, cpu_share.held_to(PID, 1.0) as is_held:
        assert (is_first, is_held) == (False, False)
    assert list(tmp_path.iterdir()) == []
