"""The control plane of the lab, on the real binaries."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import aiohttp
import pytest

from lab.controlplane import (
    ApiServerSettings,
    ControlPlane,
    ControlPlaneSettings,
    start_control_plane,
)
from lab.errors import LabError

pytestmark = pytest.mark.lab

PATIENCE_S = 180.0


def eventually(what: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not what():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def processes_below(folder: Path) -> list[str]:
    """Return the command lines of live processes that name the plane's folder."""
    lines = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if str(folder) in line:
                lines.append(line)
    return lines


def test_administrator_may_do_everything(control_plane: ControlPlane) -> None:
    assert control_plane.kubectl("auth", "can-i", "*", "*").strip() == "yes"


def test_failure_of_kubectl_shows_its_own_words(control_plane: ControlPlane) -> None:
    with pytest.raises(LabError, match=r'nodes "nobody" not found'):
        control_plane.kubectl("get", "node", "nobody")


def test_objects_are_read_as_kubectl_shows_them(control_plane: ControlPlane, namespace: str) -> None:
    for name in ("first", "second"):
        control_plane.kubectl("create", "configmap", name, "-n", namespace)
    control_plane.kubectl("label", "configmap", "second", "is=second", "-n", namespace)
    shown = json.loads(
        control_plane.kubectl("get", "cm", "second", "-n", namespace, "-o", "json", "--show-managed-fields")
    )
    one = control_plane.get("configmap", "second", namespace=namespace)
    listed = control_plane.get("configmaps", namespace=namespace, labels="is=second")["items"]
    everywhere = control_plane.get("cm", namespace=None)["items"]
    assert one == shown
    assert [each["metadata"] for each in listed] == [shown["metadata"]]
    assert {(each["metadata"]["namespace"], each["metadata"]["name"]) for each in everywhere} >= {
        (namespace, "first"),
        (namespace, "second"),
        ("kube-system", "extension-apiserver-authentication"),
    }
    assert control_plane.get("namespace", namespace)["metadata"]["name"] == namespace


def test_objects_that_are_not_there_are_named(control_plane: ControlPlane) -> None:
    with pytest.raises(LabError, match=r'nodes "nobody" not found'):
        control_plane.get("node", "nobody")
    with pytest.raises(LabError, match="'gremlins'"):
        control_plane.get("gremlins")


def test_user_is_who_the_certificate_says(control_plane: ControlPlane) -> None:
    kubeconfig = control_plane.kubeconfig_for("alice", ["team-a", "team-b"])
    answer = json.loads(control_plane.kubectl(f"--kubeconfig={kubeconfig}", "auth", "whoami", "-o", "json"))
    user = answer["status"]["userInfo"]
    assert user["username"] == "alice"
    assert {"team-a", "team-b"} <= set(user["groups"])
    assert oct(kubeconfig.stat().st_mode & 0o777) == "0o600"


def test_user_without_rights_is_refused(control_plane: ControlPlane) -> None:
    kubeconfig = control_plane.kubeconfig_for("bob")
    with pytest.raises(LabError, match='User "bob" cannot list resource "nodes"'):
        control_plane.kubectl(f"--kubeconfig={kubeconfig}", "get", "nodes")


def test_service_account_has_its_own_kubeconfig(control_plane: ControlPlane, namespace: str) -> None:
    control_plane.kubectl("create", "serviceaccount", "robot", "-n", namespace)
    kubeconfig = control_plane.service_account_kubeconfig(namespace, "robot")
    answer = json.loads(control_plane.kubectl(f"--kubeconfig={kubeconfig}", "auth", "whoami", "-o", "json"))
    assert answer["status"]["userInfo"]["username"] == f"system:serviceaccount:{namespace}:robot"


async def test_plain_http_client_gets_in_with_the_files(control_plane: ControlPlane) -> None:
    access = control_plane.access()
    async with (
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=access.ssl_context())) as session,
        session.get(f"{access.url}/api/v1/namespaces/default") as response,
    ):
        assert response.status == 200


def test_requests_are_in_the_audit_log(control_plane: ControlPlane, namespace: str) -> None:
    control_plane.kubectl("create", "configmap", "noted", "-n", namespace)
    control_plane.kubectl("delete", "configmap", "noted", "-n", namespace, "--grace-period=7")
    seen = [
        event
        for event in control_plane.audit_events(namespace)
        if event.get("objectRef", {}).get("name") == "noted"
        and event["objectRef"].get("namespace") == namespace
        and event["user"]["username"] == "admin"
    ]
    assert [event["verb"] for event in seen if event["verb"] in ("create", "delete")] == ["create", "delete"]
    deletion = next(event for event in seen if event["verb"] == "delete")
    assert deletion["requestObject"]["gracePeriodSeconds"] == 7


def test_controllers_and_scheduler_are_at_work(control_plane: ControlPlane, namespace: str) -> None:
    control_plane.kubectl("create", "deployment", "web", "--image=none", "--replicas=3", "-n", namespace)

    def unschedulable() -> int:
        pods = control_plane.get("pods", namespace=namespace)["items"]
        conditions = [c for pod in pods for c in pod["status"].get("conditions", [])]
        return sum(c.get("reason") == "Unschedulable" for c in conditions)

    eventually(lambda: unschedulable() == 3)


async def test_two_servers_share_one_etcd_and_nothing_is_left() -> None:
    small = ApiServerSettings(max_requests_inflight=7, max_mutating_requests_inflight=5, gomaxprocs=1)
    settings = ControlPlaneSettings(api_servers=(ApiServerSettings(), small), controller_manager=None, scheduler=None)
    async with start_control_plane(settings) as plane:
        assert plane.component_names == ("etcd", "kube-apiserver-0", "kube-apiserver-1")
        plane.kubectl("create", "namespace", "shared")
        second = f"--kubeconfig={plane.kubeconfig(server=1)}"
        assert plane.kubectl(second, "get", "namespace", "shared", "-o", "name").strip() == "namespace/shared"
        logs = plane.directory / "logs"
        first_serves = first_logged(logs / "kube-apiserver-0.log", "Serving securely")
        assert first_serves < first_logged(logs / "kube-apiserver-1.log")
        # A server that is ready takes its levels up a moment later.
        eventually(lambda: node_high_seats(plane.kubectl("get", "--raw", "/metrics")) == 98)
        eventually(lambda: node_high_seats(plane.kubectl(second, "get", "--raw", "/metrics")) == 2)
        # A component that was killed comes back at its address with its data.
        plane.kill("etcd")
        assert not plane.is_running("etcd")
        await plane.restart("etcd")
        await plane.restart("kube-apiserver-1")
        # Objects are read again although the connection that was kept is broken.
        assert plane.get("namespace", "shared")["metadata"]["name"] == "shared"
        await plane.restart("kube-apiserver-0")
        assert plane.get("namespace", "shared")["metadata"]["name"] == "shared"
        assert plane.kubectl(second, "get", "namespace", "shared", "-o", "name").strip() == "namespace/shared"
        assert plane.audit_logs == ()
    assert not plane.directory.exists()
    assert processes_below(plane.directory) == []


def first_logged(log: Path, words: str = "") -> str:
    """Month, day and time, to the microsecond, of the first line of a component that holds the words."""
    return re.findall(rf"^[IWEF](\d{{4}} [\d:.]+) .*{words}", log.read_text(), re.MULTILINE)[0]


def node_high_seats(metrics: str) -> float:
    """Read the seats of one priority level: 40 of all 245 shares, rounded up; 0 while there is no such level."""
    prefix = 'apiserver_flowcontrol_nominal_limit_seats{priority_level="node-high"} '
    return next((float(line[len(prefix) :]) for line in metrics.splitlines() if line.startswith(prefix)), 0.0)


async def test_paused_server_does_not_answer_until_it_is_resumed_and_a_given_directory_keeps_its_log(
    tmp_path: Path,
) -> None:
    settings = ControlPlaneSettings(directory=tmp_path, controller_manager=None, scheduler=None)
    async with start_control_plane(settings) as plane:
        assert plane.log("etcd").parent == tmp_path / "logs"
        plane.pause("kube-apiserver-0")
        with pytest.raises(LabError, match=r"(?i)timeout|deadline|timed out"):
            plane.kubectl("get", "--raw", "/readyz", "--request-timeout=1s")
        plane.resume("kube-apiserver-0")
        eventually(lambda: is_ready(plane))
        plane.pause("kube-apiserver-0")
    assert processes_below(tmp_path) == []
    assert (tmp_path / "logs" / "kube-apiserver-0.log").stat().st_size > 0


def is_ready(plane: ControlPlane) -> bool:
    try:
        return plane.kubectl("get", "--raw", "/readyz") == "ok"
    except LabError:
        return False


async def test_component_that_cannot_start_shows_the_end_of_its_log() -> None:
    # The API server reads its flags first: nothing is computed in vain.
    plane = ControlPlane(
        ControlPlaneSettings(api_servers=(ApiServerSettings(extra_flags=("--bind-address=nowhere",)),))
    )
    with pytest.raises(LabError, match=r"(?s)kube-apiserver-0 ended .*nowhere"):
        await plane.start()
    assert not plane.directory.exists()
    assert processes_below(plane.directory) == []


def without_network(command: list[str]) -> list[str]:
    """The command with loopback alone and no route, where this machine lets us; else as it is."""
    alone = ["unshare", "--map-root-user", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
    try:
        subprocess.run([*alone, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        return command
    return [*alone, *command]


@pytest.mark.parametrize(
    ("ending", "servers", "nodes"), [(signal.SIGKILL, 2, 1), (signal.SIGTERM, 1, 0), (signal.SIGINT, 1, 0)]
)
def test_plane_ends_with_its_parent(ending: signal.Signals, servers: int, nodes: int) -> None:
    """Where the parent is killed nobody else ends anything, so of everything there is one then.

    It needs no network either.
    """
    command = without_network([sys.executable, "-m", "lab", "up", f"--nodes={nodes}", f"--servers={servers}"])
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as parent:
        assert parent.stdout is not None
        line = parent.stdout.readline()
        assert line.startswith("export KUBECONFIG="), line
        folder = Path(line.split("=", 1)[1].strip()).parent.parent
        programs = sorted(line.split()[0].rsplit("/", 1)[-1] for line in processes_below(folder))
        assert [name for name in programs if not name.startswith("python")] == [
            "etcd",
            *["kube-apiserver"] * servers,
            "kube-controller-manager",
            "kube-scheduler",
            *["kubemark"] * nodes,
        ]
        parent.send_signal(ending)
        parent.wait(PATIENCE_S)
    eventually(lambda: not processes_below(folder) and not folder.exists())
