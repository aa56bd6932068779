"""What admission refuses, and what users copy: a pool names it, the others go on, and all is well when it is gone."""

import asyncio
import time
from pathlib import Path
from typing import Any

from lab.controlplane import ControlPlane
from lab.errors import LabError
from tests.lab.service_scene import PATIENCE_S, Scene, scene, work_object

POOL_LABEL = "kube-balloons.github.io/pool"
HOST_LABEL = "kubernetes.io/hostname"
FROZEN = "Deployments do not change during the audit"
CLOSED = "this cost centre starts no pods"


async def test_pools_that_admission_refuses_say_so_and_hinder_nobody(
    control_plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    """A policy of the API server stands for every webhook: we see the same refusal of both.

    It lets the Deployment of pool `frozen` not change, and pods of pool `closed` not start. Beside the Deployment of
    pool `gpu` stands a copy. All three are watched at once, because a pool rests for 30 s after a refusal.
    """
    async with scene(control_plane, namespace, tmp_path, nodes=5) as on:
        await on.ready_service()
        await on.apply_pool("gpu", nodes=on_nodes(namespace, 0, 1))
        await on.apply_pool("frozen", nodes=on_nodes(namespace, 2, 3))
        for name in ("gpu", "frozen"):
            await on.until(lambda s: (s.get("because"), s.get("warm")) == ("Steady", 2), name)
        found = {each["metadata"]["labels"][POOL_LABEL]: each for each in await on.objects("deployments")}
        policy = f"refuses-{namespace}"
        await on.apply(*refusal(policy, namespace, found["frozen"]["metadata"]["name"]))
        try:
            await _until_in_force(on)
            await on.kubectl("taint", "node", f"{namespace}-2", "karpenter.sh/disrupted:NoSchedule")
            await on.apply_pool("closed", nodes=on_nodes(namespace, 4))
            job = work_object(namespace, "job")
            job["spec"]["nodeSelector"] = {HOST_LABEL: f"{namespace}-0"}
            await on.apply(job, copy_of(found["gpu"], "by-hand"))

            frozen = await on.until(lambda s: "Stalled" in conditions(s), "frozen")
            assert conditions(frozen)["Stalled"]["reason"] == "WriteFailed"
            assert FROZEN in conditions(frozen)["Stalled"]["message"]
            # Karpenter buys a node for a balloon that stays on one which goes, so it leaves although the size stands.
            await _until_empty(on, f"{namespace}-2")
            closed = await on.until(lambda s: s.get("because") == "Refused", "closed")
            assert conditions(closed)["Stalled"]["reason"] == "Refused"
            assert CLOSED in conditions(closed)["Stalled"]["message"]
            await on.until(lambda s: (s["busy"], s["warm"], s["pending"], s["because"]) == (1, 1, 0, "Steady"), "gpu")
            assert "Stalled" in conditions(await on.pool("frozen")), "nothing has changed there"
        finally:
            await on.kubectl("delete", "validatingadmissionpolicybinding,validatingadmissionpolicy", policy)
        for name in ("closed", "frozen"):
            await on.until(lambda s: (s["warm"], s["pending"]) == (1, 0) and "Stalled" not in conditions(s), name)

        # The copy's pod still waits. No node was freed for it, and nobody has touched the copy.
        gpu = await on.until(lambda s: "by-hand" in conditions(s)["Ready"]["message"], "gpu")
        assert (gpu["warm"], gpu["because"], conditions(gpu).keys()) == (1, "Steady", {"Ready"})
        copied = await _until_told(on, "Copied")
        assert [(each["type"], each["regarding"]["name"]) for each in copied] == [("Warning", "gpu")]
        sizes = {each["metadata"]["name"]: each["spec"]["replicas"] for each in await on.objects("deployments")}
        assert sizes == {"by-hand": 2, **{each: 1 for each in sizes if each != "by-hand"}}
        assert not [each for each in on.writes() if each["objectRef"].get("name", "").startswith("by-hand")]


def on_nodes(namespace: str, *numbers: int) -> dict[str, Any]:
    """Of a pool's spec: these nodes of the scene."""
    names = [f"{namespace}-{number}" for number in numbers]
    return {"selector": {"matchExpressions": [{"key": HOST_LABEL, "operator": "In", "values": names}]}}


def copy_of(deployment: dict[str, Any], name: str) -> dict[str, Any]:
    """What somebody gets who exports the Deployment and gives it another name."""
    kept = {key: deployment["metadata"][key] for key in ("namespace", "labels", "annotations")}
    metadata = {**kept, "name": name}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": deployment["spec"]}


def refusal(name: str, namespace: str, deployment: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """A policy and its binding: updates of one Deployment are refused, and the pods of pool `closed`."""
    group = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": name}}
    within = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}}
    updates = {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["deployments"]}
    pods = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    is_closed = f"object.metadata.?labels[?'{POOL_LABEL}'].orValue('') == 'closed'"
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {**within, "resourceRules": [updates, pods]},
        "validations": [
            {"expression": f"request.resource.resource == 'pods' || request.name != '{deployment}'", "message": FROZEN},
            {"expression": f"request.resource.resource != 'pods' || !({is_closed})", "message": CLOSED},
        ],
    }
    binding = {"policyName": name, "validationActions": ["Deny"]}
    return (
        {**group, "kind": "ValidatingAdmissionPolicy", "spec": spec},
        {**group, "kind": "ValidatingAdmissionPolicyBinding", "spec": binding},
    )


def conditions(status: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """A pool's, by type."""
    return {each["type"]: each for each in status.get("conditions", [])}


async def _until_told(on: Scene, reason: str) -> list[dict[str, Any]]:
    """The Events for this reason, once there is one: they are written after what they tell of."""
    deadline = time.monotonic() + PATIENCE_S
    while not (told := [each for each in await on.objects("events.events.k8s.io") if each["reason"] == reason]):
        assert time.monotonic() < deadline
        await asyncio.sleep(0.5)
    return told


async def _until_in_force(on: Scene) -> None:
    """A policy takes a moment; both of its rules begin at once."""
    pod = work_object(on.namespace, "refused")
    pod["metadata"]["labels"] = {POOL_LABEL: "closed"}
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            await asyncio.to_thread(on.plane.try_to_create, pod, on.namespace)
        except LabError:
            return
        assert time.monotonic() < deadline
        await asyncio.sleep(0.2)


async def _until_empty(on: Scene, node: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while pods := [pod["metadata"]["name"] for pod in await on.objects("pods") if pod["spec"].get("nodeName") == node]:
        assert time.monotonic() < deadline, pods
        await asyncio.sleep(0.2)
