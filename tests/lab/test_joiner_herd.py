"""Herds of joiners on the real control plane."""

import asyncio
import base64
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from lab.cloud.kubelet_joiner import Herd, JoinerSettings
from lab.controlplane import ControlPlane
from lab.errors import LabError

PATIENCE_S = 180.0
BOOTSTRAP_ID, BOOTSTRAP_SECRET = "join01", "0123456789abcdef"
BOOTSTRAP_GROUP = "system:bootstrappers"
BOOTSTRAP_ROLES = {
    "lab-joiner-asks": "system:node-bootstrapper",
    "lab-joiner-is-approved": "system:certificates.k8s.io:certificatesigningrequests:nodeclient",
}


async def eventually(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not await asyncio.to_thread(what):
        assert time.monotonic() < deadline, what
        await asyncio.sleep(0.1)


def phase(plane: ControlPlane, namespace: str) -> str:
    return str(plane.get("pod", "work", namespace=namespace)["status"]["phase"])


def is_ready(node_or_pod: dict[str, Any]) -> bool:
    return any(c["type"] == "Ready" and c["status"] == "True" for c in node_or_pod["status"]["conditions"])


def run_pod(plane: ControlPlane, namespace: str, node: str) -> None:
    spec = {
        "containers": [{"name": "main", "image": "registry.example/work:1"}],
        "nodeSelector": {"kubernetes.io/hostname": node},
        "tolerations": [{"operator": "Exists"}],
    }
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "work"}, "spec": spec}
    plane.kubectl("create", "-n", namespace, "-f", "-", input=json.dumps(pod))


@pytest.fixture
def bootstrap_token(control_plane: ControlPlane) -> Iterator[str]:
    values = {
        "token-id": BOOTSTRAP_ID,
        "token-secret": BOOTSTRAP_SECRET,
        "usage-bootstrap-authentication": "true",
    }
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": f"bootstrap-token-{BOOTSTRAP_ID}", "namespace": "kube-system"},
        "type": "bootstrap.kubernetes.io/token",
        "data": {key: base64.b64encode(value.encode()).decode() for key, value in values.items()},
    }
    control_plane.kubectl("create", "-f", "-", input=json.dumps(secret))
    for name, role in BOOTSTRAP_ROLES.items():
        control_plane.kubectl(
            "create", "clusterrolebinding", name, f"--clusterrole={role}", f"--group={BOOTSTRAP_GROUP}"
        )
    yield f"{BOOTSTRAP_ID}.{BOOTSTRAP_SECRET}"
    control_plane.kubectl("delete", "clusterrolebinding", *BOOTSTRAP_ROLES)
    control_plane.kubectl("delete", "secret", "-n", "kube-system", f"bootstrap-token-{BOOTSTRAP_ID}")


async def test_a_joiner_is_the_machine_that_was_asked_for(control_plane: ControlPlane, namespace: str) -> None:
    name = f"{namespace}-gpu"
    settings = JoinerSettings(
        name=name,
        labels={"pool": "training"},
        taints=("team=a:NoSchedule",),
        cpu="96",
        memory="1Ti",
        extended_resources={"nvidia.com/gpu": 8},
    )
    async with Herd(control_plane.access()) as herd:
        record = await herd.join(settings)
        node = await control_plane.get_async("node", name)
        await herd.remove(name)
    assert record.is_complete
    assert is_ready(node)
    assert node["metadata"]["labels"]["pool"] == "training"
    assert {taint["key"] for taint in node["spec"]["taints"]} >= {"team"}
    assert {key: node["status"]["allocatable"][key] for key in ("cpu", "memory", "nvidia.com/gpu")} == {
        "cpu": "96",
        "memory": "1Ti",
        "nvidia.com/gpu": "8",
    }


async def test_its_pods_run_and_end(control_plane: ControlPlane, namespace: str) -> None:
    name = f"{namespace}-worker"
    async with Herd(control_plane.access()) as herd:
        await herd.join(JoinerSettings(name=name))
        run_pod(control_plane, namespace, name)
        await eventually(lambda: phase(control_plane, namespace) == "Running")
        await control_plane.kubectl_async("delete", "pod", "work", "-n", namespace, "--timeout=180s")
        await herd.remove(name)
    assert control_plane.get("pods", namespace=namespace)["items"] == []


async def test_a_running_pod_that_is_marked_not_ready_says_that_it_is(
    control_plane: ControlPlane, namespace: str
) -> None:
    name = f"{namespace}-marked"
    where = ("pod", "work", "-n", namespace)
    # As the controller manager does with the pods of a node that it has not yet heard to be ready.
    marked = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
    async with Herd(control_plane.access()) as herd:
        await herd.join(JoinerSettings(name=name))
        run_pod(control_plane, namespace, name)
        await eventually(lambda: phase(control_plane, namespace) == "Running")
        patch = ("patch", *where, "--subresource=status", f"--patch={json.dumps(marked)}", "--output=json")
        # What the server answers: a moment later it may be Ready again.
        assert not is_ready(json.loads(await control_plane.kubectl_async(*patch)))
        await eventually(lambda: is_ready(control_plane.get("pod", "work", namespace=namespace)))
        await herd.remove(name)


async def test_nobody_begins_before_the_gate_opens(control_plane: ControlPlane, namespace: str) -> None:
    names = [f"{namespace}-{number}" for number in range(6)]
    gate, asked = asyncio.Semaphore(0), []

    async def admit(name: str) -> None:
        asked.append(name)
        await gate.acquire()

    async with Herd(control_plane.access(), admit=admit) as herd:
        herd_joins = asyncio.create_task(herd.join_all(JoinerSettings(name=name) for name in names))
        await eventually(lambda: len(asked) == len(names))
        before = len(herd)
        for _ in names:
            gate.release()
        records = await herd_joins
        await herd.remove(*names)
    assert before == 0
    assert [record.name for record in records] == names
    assert all(record.is_complete and (record.admitted_s or 0) > record.requested_s for record in records)
    assert all(sum(record.attempts.values()) > 10 for record in records)


async def test_takes_over_a_node_that_an_autoscaler_created(control_plane: ControlPlane, namespace: str) -> None:
    name = f"{namespace}-claimed"
    control_plane.kubectl(
        "create", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
    )
    async with Herd(control_plane.access()) as herd:
        record = await herd.join(JoinerSettings(name=name, labels={"pool": "a"}))
        node = await control_plane.get_async("node", name)
        await herd.remove(name)
    assert record.is_complete
    assert is_ready(node)
    assert node["metadata"]["labels"]["pool"] == "a"
    assert node["status"]["allocatable"]["cpu"] == "1"


async def test_joins_with_a_certificate_of_its_own(control_plane: ControlPlane, namespace: str) -> None:
    name = f"{namespace}-certified"
    herd = Herd(
        control_plane.access(),
        certificate_of=lambda node: control_plane.access(f"system:node:{node}", ("system:nodes",)),
    )
    async with herd:
        record = await herd.join(JoinerSettings(name=name))
        await herd.remove(name)
    assert record.is_complete
    user = f"system:node:{name}"
    mine = [e for e in control_plane.audit_events(user) if e["user"]["username"] == user]
    assert not any("impersonatedUser" in event for event in mine)
    assert len(mine) > 10


async def test_joins_with_a_bootstrap_token(control_plane: ControlPlane, namespace: str, bootstrap_token: str) -> None:
    name = f"{namespace}-bootstrapped"
    async with Herd(control_plane.access()) as herd:
        record = await herd.join(JoinerSettings(name=name, bootstrap_token=bootstrap_token))
        await herd.remove(name)
    assert record.is_complete
    asked = [
        e
        for e in control_plane.audit_events(BOOTSTRAP_ID)
        if e["user"]["username"] == f"system:bootstrap:{BOOTSTRAP_ID}"
    ]
    assert {event["verb"] for event in asked} == {"create", "get", "watch"}


async def test_a_stopped_herd_leaves_nothing_behind(control_plane: ControlPlane, namespace: str) -> None:
    name = f"{namespace}-dies"
    tasks_before = len(asyncio.all_tasks())
    async with Herd(control_plane.access()) as herd:
        await herd.join(JoinerSettings(name=name))
        with pytest.raises(LabError, match="runs already"):
            await herd.join(JoinerSettings(name=name))
        await herd.stop(name)
        assert len(herd) == 0
    assert len(asyncio.all_tasks()) == tasks_before
    await control_plane.kubectl_async("delete", "node", name)


async def test_a_join_that_cannot_end_is_given_up_at_its_deadline(control_plane: ControlPlane, namespace: str) -> None:
    name = f"{namespace}-waits"
    async with Herd(control_plane.access()) as herd:
        record = await herd.join(JoinerSettings(name=name, daemon_pods=1, deadline_s=20.0))
        await herd.remove(name)
    assert not record.is_complete
    assert record.ready_s is not None
    assert record.daemons_ready_s is None
