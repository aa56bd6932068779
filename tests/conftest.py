"""Fixtures of all tests: the real control plane, started once per session for the tests that ask for it."""

import asyncio
import json
import time
import uuid
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import hypothesis
import pytest

from lab.binaries import find_binaries
from lab.binaries.catalogue import ALL_BINARIES, CHART_BINARIES, MONITORING_BINARIES, Binary, binary_named
from lab.controlplane import ControllerManagerSettings, ControlPlane, ControlPlaneSettings
from lab.errors import LabError
from tests.dealing import dealt

# How long an example takes says more about the other workers of the machine than about the code.
hypothesis.settings.register_profile("tests", deadline=None)
hypothesis.settings.load_profile("tests")
# For tools/mutants.py: equal examples each time, and whoever fails is not made smaller.
hypothesis.settings.register_profile(
    "mutants",
    deadline=None,
    derandomize=True,
    database=None,
    phases=(hypothesis.Phase.explicit, hypothesis.Phase.generate),
)

BINARIES: dict[str, tuple[Binary, ...]] = {
    "lab": ALL_BINARIES,
    "promtool": MONITORING_BINARIES,
    "helm": (*CHART_BINARIES, binary_named("kubectl")),
}
"""What the tests of each mark need."""
LAB_S, CONTRACT_S = 10, 1
"""Roughly: a test of tests/lab waits for machines, one of tests/contract for a few answers."""
SECONDS: dict[str, int] = json.loads((Path(__file__).parent / "lab/seconds.json").read_text())
"""What the slowest tests took when they were last measured; one that is missing or wrong only makes a run longer."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark whatever uses the control plane, so that `-m "not lab"` leaves all of it out; and deal to the workers."""
    for item in items:
        if "control_plane" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.lab)
    workers = getattr(config, "workerinput", {}).get("workercount", 1)
    if workers > 1:
        slow = [item for item in items if item.get_closest_marker("lab")]
        quick = [item for item in items if not item.get_closest_marker("lab")]
        groups = [list(tests) for _, tests in groupby(slow, _together)]
        items[:] = dealt(((sum(map(_seconds, tests)), tests) for tests in groups), quick, workers)


def _together(item: pytest.Item) -> str:
    """What stays with one worker: tests of a file that share a plane or what is on it. Any other goes alone."""
    fixtures = (each for definitions in item._fixtureinfo.name2fixturedefs.values() for each in definitions)
    is_sharing = any(each.scope != "function" and each.baseid.startswith("tests") for each in fixtures)
    return str(item.path) if is_sharing else item.nodeid


def _seconds(item: pytest.Item) -> int:
    usual = LAB_S if item.path.parent.name == "lab" else CONTRACT_S
    return SECONDS.get(f"{item.path.name}::{item.name}", usual)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Get the binaries before the first test: a build takes minutes, shows progress, breaks no timeout."""
    wanted = [binary.name for mark, binaries in BINARIES.items() if _has(session, mark) for binary in binaries]
    if session.config.option.collectonly or not wanted:
        return
    capture = session.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        find_binaries(wanted)


def _has(session: pytest.Session, mark: str) -> bool:
    return any(item.get_closest_marker(mark) for item in session.items)


@pytest.fixture(scope="session")
def control_plane() -> Iterator[ControlPlane]:
    """One shared plane: one API server, controller manager, scheduler, audit on. Use `namespace` with it."""
    # Ten times the default limits: tests look at what the controllers do, not at how they queue.
    manager = ControllerManagerSettings(kube_api_qps=200, kube_api_burst=300)
    plane = ControlPlane(ControlPlaneSettings(audit=True, controller_manager=manager))
    try:
        with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
            runner.run(plane.start())
        yield plane
    finally:
        plane.close()


@pytest.fixture
def namespace(control_plane: ControlPlane) -> Iterator[str]:
    """A fresh namespace in which pods can be created; removed afterwards without waiting for it."""
    name = f"test-{uuid.uuid4().hex[:8]}"
    control_plane.kubectl("create", "namespace", name)
    _wait_for_default_account(control_plane, name)
    yield name
    control_plane.kubectl("delete", "namespace", name, "--wait=false")


def _wait_for_default_account(plane: ControlPlane, namespace: str) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            plane.kubectl("get", "serviceaccount", "default", f"--namespace={namespace}")
        except LabError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            return
