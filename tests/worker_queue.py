"""The queue of tests for pytest-xdist's workers: the longest first, one at a time, while one begins at the other end.

Most tests of tests/lab wait for a real control plane, and those of tests/unit compute: so four hands wait together
while one computes, and at the end only short tests are left to share. `seconds.json` says how long a test took when
`make seconds` last measured it; one that is missing or wrong only makes a run longer.

A worker starts the session's control plane for the first test that asks for it, and keeps it to its end: 30 s of CPU in
a whole run. So the tests that share it go to the first `HOSTS` workers for as long as there are others for the rest.
"""

import itertools
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path, PurePosixPath
from typing import SupportsIndex

import pytest
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

ROOT = Path(__file__).parents[1]
SECONDS_FILE = ROOT / "tests" / "lab" / "seconds.json"
USUAL_S = {"tests/lab": 10.0, "tests/contract": 5.0}
QUICK_S = 1.0
HOSTS = 2
"""Workers with a session's control plane: the tests that share it take less than a third of all the time."""
LONG_S = 3.0
"""What takes less is not written down."""


def read_seconds() -> dict[str, float]:
    """By unit, without the folder: files move."""
    seconds: dict[str, float] = json.loads(SECONDS_FILE.read_text(encoding="utf-8"))
    return seconds


def write_seconds(took: dict[str, float]) -> None:
    """Write down the long units, longest first, from what each test took by its id."""
    units: Counter[str] = Counter()
    for test, seconds in took.items():
        units[_short(unit(test))] += seconds
    long = {name: round(seconds) for name, seconds in units.most_common() if seconds >= LONG_S}
    SECONDS_FILE.write_text(json.dumps(long, indent=2) + "\n", encoding="utf-8")


@cache
def unit(test: str) -> str:
    """What stays with one worker: a file whose tests are quick or share what a module sets up; or one test alone."""
    file = test.partition("::")[0]
    if not file.startswith("tests/lab/"):
        return file
    return file if _shares_by_module(file) else test


@cache
def _shares_by_module(file: str) -> bool:
    return 'scope="module"' in (ROOT / file).read_text(encoding="utf-8")


@cache
def shares_plane(unit: str) -> bool:
    """Whether a test of its file asks for the session's control plane."""
    file = unit.partition("::")[0]
    is_without = not file.startswith(("tests/lab/", "tests/contract/"))
    return not is_without and "control_plane: ControlPlane" in (ROOT / file).read_text(encoding="utf-8")


def next_unit(queue: Sequence[str], worker: int, workers: int) -> str:
    """Of units in their order, the one for this worker (the first is 0): see above."""
    hosts = min(HOSTS, workers - 1)
    if worker < hosts:
        return next(filter(shares_plane, queue), queue[0])
    is_last = worker == workers - 1 > 0
    in_turn = queue[::-1] if is_last else queue
    return next(itertools.filterfalse(shares_plane, in_turn), in_turn[0])


def longest_first(units: Iterable[str], seconds: dict[str, float]) -> list[str]:
    """The units, the one first that takes longest."""
    return sorted(units, key=lambda name: -seconds.get(_short(name), _usual(name)))


def _usual(name: str) -> float:
    return USUAL_S.get(str(PurePosixPath(name.partition("::")[0]).parent), QUICK_S)


def _short(name: str) -> str:
    file, *test = name.split("::", 1)
    return "::".join([PurePosixPath(file).name, *test])


class Numbered(list[str]):
    """Tests in the order in which a worker collected them. The place of each is known, and not looked for."""

    def __init__(self, tests: Iterable[str]) -> None:
        super().__init__(tests)
        self._places = {test: place for place, test in enumerate(self)}

    def index(self, test: str, *_: SupportsIndex) -> int:
        return self._places[test]


class LongestFirst(LoadScopeScheduling):
    """xdist's scheduling by scope, with units for scopes, each dealt by `next_unit`.

    What has ended is forgotten: xdist would count all of it again after each test.
    """

    def _split_scope(self, nodeid: str) -> str:
        return unit(nodeid)

    def add_node_collection(self, node: WorkerController, collection: Sequence[str]) -> None:
        """As xdist's."""
        super().add_node_collection(node, collection)
        if node in self.registered_collections:
            self.registered_collections[node] = Numbered(self.registered_collections[node])

    def mark_test_complete(self, node: WorkerController, item_index: int, duration: float = 0) -> None:
        """As xdist's."""
        super().mark_test_complete(node, item_index, duration)
        name, work = unit(self.registered_collections[node][item_index]), self.assigned_work[node]
        if all(work[name].values()):
            del work[name]

    def _assign_work_unit(self, node: WorkerController) -> None:
        if not any(self.assigned_work.values()):
            self._put_in_order()
        name = next_unit(tuple(self.workqueue), self.nodes.index(node), len(self.nodes))
        self.workqueue.move_to_end(name, last=False)
        super()._assign_work_unit(node)

    def _put_in_order(self) -> None:
        for name in longest_first(list(self.workqueue), read_seconds()):
            self.workqueue.move_to_end(name)


class Stopwatch:
    """Adds up what each test took, with what it set up; a plugin of the process that hears of all workers."""

    def __init__(self) -> None:
        self.took: dict[str, float] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Called for each phase of each test."""
        self.took[report.nodeid] = self.took.get(report.nodeid, 0.0) + report.duration

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """Write down what was measured where nothing failed."""
        if exitstatus == pytest.ExitCode.OK:
            write_seconds(self.took)
