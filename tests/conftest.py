"""Fixtures of all tests: the real control plane, started once per session for the tests that ask for it."""

import asyncio
import gc
import os
import signal
import time
import uuid
from collections.abc import Generator, Iterator, MutableMapping
from typing import Any

import hypothesis
import pytest

from lab.binaries import find_binaries
from lab.binaries.catalogue import ALL_BINARIES, CHART_BINARIES, MONITORING_BINARIES, Binary, binary_named
from lab.controlplane import ControllerManagerSettings, ControlPlane, ControlPlaneSettings
from lab.errors import LabError
from tests.worker_queue import LongestFirst, Stopwatch

# How long an example takes says more about the other workers of the machine than about the code.
hypothesis.settings.register_profile("tests", deadline=None)
hypothesis.settings.load_profile("tests")
# For `make unit`, which is run many times a day. Where many examples matter, it is `make test` that tries them.
hypothesis.settings.register_profile("quick", hypothesis.settings.get_profile("tests"), max_examples=25)
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


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--watch-seconds", type=float, default=25.0, help="for how long the test of broken hardware watches"
    )
    parser.addoption("--write-seconds", action="store_true", help="write what the slow tests took to seconds.json")


def forget_what_a_user_exported(environment: MutableMapping[str, str]) -> None:
    """Take out what leads to a cluster of the user's, and the width of the terminal.

    Helm puts HELM_KUBEAPISERVER before the KUBECONFIG that a test sets.
    All that tests start listens on loopback. Go and our client go there straight; urllib would ask a company's proxy.
    """
    of_user = ("KUBECONFIG", "COLUMNS", "LINES")
    for name in [name for name in environment if name.startswith(("BALLOONS_", "HELM_")) or name in of_user]:
        del environment[name]
    direct = (environment.get("no_proxy") or environment.get("NO_PROXY"), "127.0.0.1,localhost")
    environment["no_proxy"] = ",".join(filter(None, direct))


def pytest_configure(config: pytest.Config) -> None:
    # A shell lets what it runs with `&` ignore Ctrl-C, and all that tests start would inherit that and never end.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    forget_what_a_user_exported(os.environ)
    if config.getoption("write_seconds", False) and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Stopwatch())


@pytest.hookimpl(tryfirst=True, optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LongestFirst | None:
    return LongestFirst(config, log) if config.getoption("dist") == "loadscope" else None


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable(report: Any) -> Generator[None, Any, Any]:
    """Let a worker leave out the keywords of what passed: they are most of its report, and nobody reads them."""
    data = yield
    if data is not None and report.passed:
        data["keywords"] = {}
    return data


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Let Python's garbage collector pass over what is there for the whole run: modules and thousands of tests.

    Each full collection would walk through all of it again, in each worker. And it need not look so often.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(10_000, 20, 20)
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark whatever uses the control plane, so that `-m "not lab"` leaves all of it out."""
    for item in items:
        if "control_plane" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.lab)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Get the binaries before the first test: a build takes minutes, shows progress, breaks no timeout."""
    marks = {mark.name for item in session.items for mark in item.iter_markers()}
    wanted = [binary.name for mark, binaries in BINARIES.items() if mark in marks for binary in binaries]
    if session.config.option.collectonly or not wanted:
        return
    capture = session.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        find_binaries(wanted)


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
    made = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    control_plane.requests.send("POST", "/api/v1/namespaces", made)
    _wait_for_default_account(control_plane, name)
    yield name
    control_plane.requests.send("DELETE", f"/api/v1/namespaces/{name}")


def _wait_for_default_account(plane: ControlPlane, namespace: str) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            plane.get("serviceaccount", "default", namespace=namespace)
        except LabError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            return
