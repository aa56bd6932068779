"""Simulated machines on the real control plane."""

import asyncio
import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from lab.cloud.machines import HollowNodes, HollowNodeSettings, PaperMachines, PaperNode
from lab.controlplane import ControllerManagerSettings, ControlPlane, ControlPlaneSettings, start_control_plane
from lab.errors import LabError

pytestmark = pytest.mark.lab

PATIENCE_S = 180.0
MANY_NODES, MANY_PODS = 60, 120
"""Several times what the paper machines write at once."""


async def eventually(what: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not await asyncio.to_thread(what):
        assert time.monotonic() < deadline, what
        await asyncio.sleep(0.1)


def run_pod(plane: ControlPlane, namespace: str, name: str, **spec: Any) -> None:
    body = {"containers": [{"name": "main", "image": "registry.example/work:1"}], **spec}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": body}
    plane.kubectl("create", "-n", namespace, "-f", "-", input=json.dumps(pod))


def phases(plane: ControlPlane, namespace: str) -> dict[str, str]:
    pods = plane.get("pods", namespace=namespace)["items"]
    return {pod["metadata"]["name"]: pod["status"]["phase"] for pod in pods}


def gpu_pod(node: str) -> dict[str, Any]:
    limits = {"limits": {"nvidia.com/gpu": "8"}}
    return {
        "containers": [{"name": "main", "image": "registry.example/work:1", "resources": limits}],
        "nodeSelector": {"kubernetes.io/hostname": node},
        "tolerations": [{"key": "team", "operator": "Exists"}],
    }


async def test_hollow_nodes_join_as_asked_and_run_pods(control_plane: ControlPlane, namespace: str) -> None:
    gpu = HollowNodeSettings(
        name="hollow-gpu",
        labels={"pool": "training"},
        taints=("team=a:NoSchedule",),
        extended_resources={"nvidia.com/gpu": 8},
    )
    async with HollowNodes(control_plane) as machines:
        await machines.start(gpu, HollowNodeSettings(name="hollow-cpu"), at_once=2)
        assert len(machines) == 2
        node = control_plane.get("node", "hollow-gpu")
        assert node["metadata"]["labels"]["pool"] == "training"
        assert node["status"]["allocatable"]["nvidia.com/gpu"] == "8"
        assert {"key": "team", "value": "a", "effect": "NoSchedule"} in node["spec"]["taints"]
        run_pod(control_plane, namespace, "training", **gpu_pod("hollow-gpu"))
        await eventually(lambda: phases(control_plane, namespace) == {"training": "Running"})
        control_plane.kubectl("delete", "pod", "training", "-n", namespace)
        assert phases(control_plane, namespace) == {}
        await machines.stop("hollow-gpu", "hollow-cpu")
        with pytest.raises(LabError, match="not found"):
            control_plane.kubectl("get", "node", "hollow-gpu")


async def test_no_kubelet_is_left_behind(control_plane: ControlPlane) -> None:
    async with HollowNodes(control_plane) as machines:
        node = machines.launch(HollowNodeSettings(name="hollow-brief"))
        assert [node.is_running, node.log.exists()] == [True, True]
    assert [node.is_running, node.log.parent.exists()] == [False, False]
    await eventually(lambda: control_plane.kubectl("delete", "node", "hollow-brief", "--ignore-not-found") == "")


async def test_hollow_node_that_ends_early_shows_its_log(control_plane: ControlPlane) -> None:
    bad = HollowNodeSettings(name="hollow-bad", taints=("key=value:NoSuchEffect",))
    async with HollowNodes(control_plane) as machines:
        with pytest.raises(LabError, match=r"(?s)hollow node hollow-bad ended.*NoSuchEffect"):
            await machines.start(bad)


async def test_dead_machines_become_not_ready() -> None:
    manager = ControllerManagerSettings(node_monitor_grace_period_s=12)
    async with (
        start_control_plane(ControlPlaneSettings(controller_manager=manager)) as plane,
        HollowNodes(plane) as hollow,
        PaperMachines(plane.access(), heartbeat_every_s=2) as paper,
    ):
        await hollow.start(HollowNodeSettings(name="hollow"), HollowNodeSettings(name="hollow-dead"))
        await paper.add([PaperNode(name="paper"), PaperNode(name="paper-dead")])
        hollow["hollow-dead"].kill()
        paper.switch_off("paper-dead")
        dead = {"hollow-dead": "Unknown", "paper-dead": "Unknown"}
        await eventually(lambda: readiness(plane) == {"hollow": "True", "paper": "True", **dead})


def readiness(plane: ControlPlane) -> dict[str, str]:
    return {
        node["metadata"]["name"]: condition["status"]
        for node in plane.get("nodes")["items"]
        for condition in node["status"]["conditions"]
        if condition["type"] == "Ready"
    }


async def test_paper_nodes_run_and_lose_pods(control_plane: ControlPlane, namespace: str) -> None:
    node = PaperNode(
        name="paper-gpu",
        labels={"pool": "training"},
        taints=({"key": "team", "value": "a", "effect": "NoSchedule"},),
        allocatable={"cpu": "96", "memory": "1Ti", "pods": "110", "nvidia.com/gpu": "8"},
    )
    async with PaperMachines(control_plane.access()) as machines:
        await machines.add([node])
        seen = control_plane.get("node", "paper-gpu")
        assert seen["spec"]["taints"] == [dict(taint) for taint in node.taints]
        assert seen["status"]["allocatable"] == dict(node.allocatable)
        run_pod(control_plane, namespace, "training", **gpu_pod("paper-gpu"), terminationGracePeriodSeconds=3600)
        await eventually(lambda: phases(control_plane, namespace) == {"training": "Running"})
        conditions = control_plane.get("pod", "training", namespace=namespace)["status"]["conditions"]
        assert {"PodScheduled", "Ready", "ContainersReady"} <= {c["type"] for c in conditions}
        # Only a kubelet's final deletion ends it before its grace period.
        await control_plane.kubectl_async("delete", "pod", "training", "-n", namespace, "--timeout=180s")
        await machines.remove("paper-gpu")
        assert "paper-gpu" not in readiness(control_plane)


async def test_paper_machine_takes_over_a_node_that_waits_for_it(control_plane: ControlPlane, namespace: str) -> None:
    taint = {"key": "example.com/unregistered", "effect": "NoExecute"}
    spec = {"providerID": "cloud://1", "taints": [taint]}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "paper-bought"}, "spec": spec}
    control_plane.kubectl("create", "-f", "-", input=json.dumps(node))
    run_pod(control_plane, namespace, "early", nodeName="paper-bought", tolerations=[{"operator": "Exists"}])
    async with PaperMachines(control_plane.access()) as machines:
        await machines.add([PaperNode(name="paper-bought", labels={"pool": "bought"})])
        await eventually(lambda: phases(control_plane, namespace) == {"early": "Running"})
        seen = control_plane.get("node", "paper-bought")
        assert seen["spec"]["providerID"] == "cloud://1"
        assert taint["key"] in {t["key"] for t in seen["spec"]["taints"]}
        assert seen["metadata"]["labels"]["pool"] == "bought"
        await machines.set_ready("paper-bought", is_ready=False)
        assert readiness(control_plane)["paper-bought"] == "False"
        await machines.remove("paper-bought")


async def test_paper_machines_survive_a_restart_of_the_server() -> None:
    settings = ControlPlaneSettings(controller_manager=None)
    async with start_control_plane(settings) as plane, PaperMachines(plane.access()) as machines:
        await machines.add([PaperNode(name="paper")])
        plane.kill("kube-apiserver-0")
        await plane.restart("kube-apiserver-0")
        run_pod(plane, "default", "after")
        await eventually(lambda: phases(plane, "default") == {"after": "Running"})


async def test_many_paper_nodes_run_a_large_deployment(control_plane: ControlPlane, namespace: str) -> None:
    nodes = [PaperNode(name=f"paper-{number}", labels={"pool": "many"}) for number in range(MANY_NODES)]
    async with PaperMachines(control_plane.access()) as machines:
        await machines.add(nodes)
        # Not on nodes that earlier tests have left and that nobody serves any more.
        control_plane.apply(_deployment(namespace, MANY_PODS, {"pool": "many"}))
        await eventually(lambda: list(phases(control_plane, namespace).values()) == ["Running"] * MANY_PODS)
        control_plane.kubectl("scale", "deployment", "web", "--replicas=0", "-n", namespace)
        await eventually(lambda: phases(control_plane, namespace) == {})
        await machines.remove(*(node.name for node in nodes))


def _deployment(namespace: str, replicas: int, node_selector: dict[str, str]) -> dict[str, Any]:
    labels, container = {"app": "web"}, {"name": "web", "image": "registry.example/web:1"}
    template = {"metadata": {"labels": labels}, "spec": {"nodeSelector": node_selector, "containers": [container]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": namespace},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template},
    }
