from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import worker_queue
from tests.worker_queue import LongestFirst, longest_first, next_unit, shares_plane, unit, write_seconds

HOLDS, HERD = "tests/lab/test_service_holds.py", "tests/lab/test_joiner_herd.py"
NAMES = st.sampled_from(["tests/unit/a/test_a.py", "tests/unit/test_b.py", "tests/contract/test_c.py", HOLDS, HERD])


def test_tests_of_the_lab_go_alone_and_those_of_other_files_together() -> None:
    assert unit(f"{HOLDS}::test_one") == f"{HOLDS}::test_one"
    assert unit("tests/unit/test_b.py::test_one[a/b]") == "tests/unit/test_b.py"
    assert unit("tests/contract/test_rights.py::test_one") == "tests/contract/test_rights.py"


def test_tests_of_the_lab_that_share_what_a_module_sets_up_stay_together() -> None:
    file = "tests/lab/test_dashboards.py"
    assert 'scope="module"' in (worker_queue.ROOT / file).read_text()
    assert unit(f"{file}::test_one") == file


def test_the_longest_goes_first_whatever_folder_it_is_in() -> None:
    units = ["tests/unit/test_b.py", f"{HERD}::test_brief", "tests/contract/test_c.py", f"{HOLDS}::test_long[a/b]"]
    long = {"test_service_holds.py::test_long[a/b]": 90.0, "test_c.py": 30.0}
    assert longest_first(units, long) == [units[3], units[2], units[1], units[0]]


@given(st.lists(NAMES, unique=True))
def test_every_unit_is_dealt_once(units: list[str]) -> None:
    assert sorted(longest_first(units, {"test_b.py": 7.0})) == sorted(units)


RIGHTS, FILES = "tests/contract/test_rights.py", "tests/contract/test_pods_placed.py"
DRIFT = "tests/lab/test_drift_on_karpenter.py::test_one"


def test_tests_that_share_the_sessions_plane_go_to_its_hosts_and_the_others_elsewhere() -> None:
    assert [shares_plane(name) for name in (RIGHTS, f"{HOLDS}::test_one", FILES, DRIFT)] == [True, True, False, False]
    queue = [DRIFT, RIGHTS, f"{HOLDS}::test_one", FILES]
    dealt = [next_unit(queue, worker, 6) for worker in range(6)]
    assert dealt == [RIGHTS, RIGHTS, DRIFT, DRIFT, DRIFT, FILES]


def test_whoever_has_none_of_its_own_kind_left_takes_the_other() -> None:
    assert next_unit([DRIFT, FILES], 0, 6) == DRIFT
    assert [next_unit([RIGHTS, f"{HOLDS}::test_one"], worker, 6) for worker in (2, 5)] == [RIGHTS, f"{HOLDS}::test_one"]


@given(st.lists(st.sampled_from([RIGHTS, FILES, DRIFT, HOLDS, HERD]), unique=True, min_size=1), st.integers(1, 8))
def test_every_worker_is_dealt_something_however_many_there_are(queue: list[str], workers: int) -> None:
    assert all(next_unit(queue, worker, workers) in queue for worker in range(workers))


def test_what_was_slow_is_written_down_and_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_queue, "SECONDS_FILE", tmp_path / "seconds.json")
    files = ("tests/unit/test_b.py::test_b", "tests/unit/test_b.py::test_c", "tests/unit/test_d.py::test_e")
    write_seconds({f"{HOLDS}::test_a[x/y]": 31.4, **dict.fromkeys(files, 2.0), f"{HERD}::test_c": 99.0})
    assert list(worker_queue.read_seconds().items()) == [
        ("test_joiner_herd.py::test_c", 99),
        ("test_service_holds.py::test_a[x/y]", 31),
        ("test_b.py", 4),
    ]


class Worker:
    """Runs what it is sent, in that order."""

    gateway = SimpleNamespace(id="gw")
    shutting_down = False

    def __init__(self) -> None:
        self.sent: list[int] = []

    def send_runtest_some(self, places: list[int]) -> None:
        self.sent += places

    def shutdown(self) -> None:
        self.shutting_down = True


def test_each_test_is_sent_to_one_worker_and_what_has_ended_is_forgotten() -> None:
    option = SimpleNamespace(loadscopereorder=False)
    config: Any = SimpleNamespace(getvalue=lambda _: ["2*popen"], option=option)
    tests = [f"tests/unit/test_{file}.py::test_{number}" for file in "abcdef" for number in range(4)]
    queue, workers = LongestFirst(config, None), [Worker(), Worker()]
    for worker in workers:
        queue.add_node(worker)  # type: ignore[arg-type]
        queue.add_node_collection(worker, tests)  # type: ignore[arg-type]
    queue.schedule()
    ended: list[int] = []
    while any(worker.sent for worker in workers):
        for worker in workers:
            if worker.sent:
                ended.append(worker.sent.pop(0))
                queue.mark_test_complete(worker, ended[-1])  # type: ignore[arg-type]
        assert sum(map(len, queue.assigned_work.values())) <= 4
    assert sorted(ended) == list(range(len(tests)))
    assert (queue.has_pending, queue.tests_finished) == (False, True)
    assert all(worker.shutting_down for worker in workers)
