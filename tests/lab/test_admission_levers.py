"""Gates on real pods, taints on real kubelets, labels before a real DaemonSet: held, and let in one by one."""

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import yaml

from lab.cloud.machines import HollowNodes, HollowNodeSettings, PaperMachines, PaperNode
from lab.controlplane import ControlPlane
from tests.lab.doc_commands import ROOT, blocks
from tests.lab.lever_view import View, daemon_set, eventually, gated_deployment, room, this_moment, view
from throttler.api.throttle import LabelLever, TaintLever
from throttler.kube.errors import ConflictError
from throttler.kube.requests import PatchKind
from throttler.levers.admission_queue import HeldSince, without_elements
from throttler.levers.scheduling_gate import APART_S, PACED_GATE, GatedDemand, GateMemory, GateSettings, release_gates
from throttler.levers.taint_and_label import DAEMON_SET_LABEL, STARTUP_TAINT
from throttler.service.lever_calls import LeverWriteOutcome
from throttler.service.restore_all import NODES

pytestmark = pytest.mark.lab

TAINT = "startup-taint.cluster-autoscaler.kubernetes.io/kube-balloons"
LABEL = "kube-balloons.example/daemons"
LEVER = TaintLever(TAINT)
MAX_WAIT_S = 600.0
SIZE = {"cpu": "8", "memory": "32Gi", "pods": "110"}


async def test_gated_pods_reach_the_scheduler_as_they_are_released(control_plane: ControlPlane, namespace: str) -> None:
    async with view(control_plane) as seen, PaperMachines(control_plane.access()) as machines:
        names = [f"{namespace}-{i}" for i in range(3)]
        await machines.add([PaperNode(name=each, labels={"test": namespace}, allocatable=SIZE) for each in names])
        await seen.apply(gated_deployment(namespace, "work", 3, [PACED_GATE]))
        await eventually(lambda: _has(seen, namespace, 3))
        memory = GateMemory()
        for released in (1, 2, 3):
            pods = await seen.pods(namespace)
            demand = GatedDemand(
                pods=[pod for pod in pods if not pod.node],
                machines=await seen.nodes(f"test={namespace}"),
            )
            now = this_moment()
            moment = replace(now, now_s=now.now_s + released * APART_S)
            outcome, memory = release_gates(demand, GateSettings(max_wait_s=600.0), room(1), memory, moment)
            assert await seen.carry_out(outcome) == [LeverWriteOutcome.DONE]
            await eventually(partial(_runs, seen, namespace, released))
        for each in names:
            await machines.remove(each)


async def test_only_our_gate_goes_and_nothing_else_of_the_pod_changes(
    control_plane: ControlPlane, namespace: str
) -> None:
    gates = ["example.com/first", PACED_GATE, "example.com/last"]
    async with view(control_plane) as seen:
        await seen.apply(gated_deployment(namespace, "work", 1, gates))
        await eventually(lambda: _has(seen, namespace, 1))
        before = (await seen.get("pods", namespace=namespace))["items"][0]
        demand = GatedDemand(pods=await seen.pods(namespace))
        held, _ = release_gates(demand, GateSettings(max_wait_s=0.0), room(9), GateMemory(), this_moment())
        assert held.writes == ()
        back, _ = release_gates(
            demand, GateSettings(max_wait_s=0.0), room(is_stopping=True), GateMemory(), this_moment()
        )
        assert await seen.carry_out(back) == [LeverWriteOutcome.DONE]
        after = (await seen.get("pods", namespace=namespace))["items"][0]
    assert [each["name"] for each in after["spec"]["schedulingGates"]] == ["example.com/first", "example.com/last"]
    assert _without(after, "schedulingGates") == _without(before, "schedulingGates")


async def test_real_kubelets_lose_our_taint_and_keep_the_others(control_plane: ControlPlane, namespace: str) -> None:
    names = [f"{namespace}-{i}" for i in range(3)]
    async with view(control_plane) as seen, HollowNodes(control_plane) as hollow:
        await seen.apply(daemon_set(namespace, "agent", {"test": namespace}))
        for name in names:
            taints = (f"{TAINT}=true:NoSchedule", "team=a:NoSchedule")
            hollow.launch(HollowNodeSettings(name=name, labels={"test": namespace}, taints=taints))
        await eventually(lambda: _are_there(seen, namespace, 3))
        # Somebody's NoExecute taint carries a time that our caches do not hold.
        flaky = {"key": "flaky", "effect": "NoExecute", "timeAdded": "2026-01-02T03:04:05Z"}
        for name in names:
            more = [{"op": "add", "path": "/spec/taints/-", "value": flaky}]
            await seen.client.patch(NODES, more, name, kind=PatchKind.JSON)
        assert await seen.pods(namespace) == []
        since = HeldSince()
        for done in (1, 2, 3):
            # A kubelet that is busy with its join writes the Node as well: the loser looks again.
            async def one_more(want: int = done) -> bool:
                nonlocal since
                nodes = await seen.nodes(f"test={namespace}")
                if sum(any(taint.key == TAINT for taint in node.taints) for node in nodes) > 3 - want:
                    outcome, since = STARTUP_TAINT.let_nodes_in(nodes, LEVER, MAX_WAIT_S, room(1), since, this_moment())
                    return await seen.carry_out(outcome) == [LeverWriteOutcome.DONE]
                return True

            await eventually(one_more)
        nodes = (await seen.get("nodes", labels=f"test={namespace}"))["items"]
        for node in nodes:
            kept = {taint["key"]: taint for taint in node["spec"]["taints"]}
            assert TAINT not in kept
            assert "team" in kept
            assert kept["flaky"] == flaky
        await control_plane.kubectl_async("taint", "node", *names, "team-", "flaky-")
        await eventually(lambda: _runs(seen, namespace, 3))
        await hollow.stop(*names)


async def test_patch_on_an_older_version_is_a_conflict(control_plane: ControlPlane, namespace: str) -> None:
    async with view(control_plane) as seen, PaperMachines(control_plane.access()) as machines:
        taint = {"key": TAINT, "effect": "NoSchedule"}
        labels = {"test": namespace}
        other = {"key": "example.com/first", "effect": "NoSchedule"}
        await machines.add([PaperNode(name=namespace, labels=labels, taints=(other, taint), allocatable=SIZE)])
        node = (await seen.nodes(f"test={namespace}"))[0]
        await control_plane.kubectl_async("taint", "node", namespace, "example.com/first-")
        outcome, _ = STARTUP_TAINT.let_nodes_in([node], LEVER, MAX_WAIT_S, room(1), HeldSince(), this_moment())
        assert await seen.carry_out(outcome) == [LeverWriteOutcome.CONFLICT], "our taint stands elsewhere by now"
        node = (await seen.nodes(f"test={namespace}"))[0]
        await control_plane.kubectl_async("annotate", "node", namespace, "somebody=else")
        outcome, _ = STARTUP_TAINT.let_nodes_in([node], LEVER, MAX_WAIT_S, room(1), HeldSince(), this_moment())
        assert await seen.carry_out(outcome) == [LeverWriteOutcome.CONFLICT]
        older = without_elements("/spec/taints", [0], node.resource_version, {"key": TAINT})
        with pytest.raises(ConflictError):
            await seen.client.patch(NODES, older, namespace, kind=PatchKind.JSON)

        async def is_released() -> bool:
            """Controllers write new nodes as well."""
            nodes = await seen.nodes(f"test={namespace}")
            fresh, _ = STARTUP_TAINT.let_nodes_in(nodes, LEVER, MAX_WAIT_S, room(1), HeldSince(), this_moment())
            return await seen.carry_out(fresh) == [LeverWriteOutcome.DONE]

        await eventually(is_released)
        assert "taints" not in (await seen.get("node", namespace))["spec"]
        await machines.remove(namespace)


async def test_daemon_set_follows_the_label(control_plane: ControlPlane, namespace: str) -> None:
    lever = LabelLever(LABEL)
    async with view(control_plane) as seen, PaperMachines(control_plane.access()) as machines:
        await seen.apply(daemon_set(namespace, "agent", {LABEL: "true", "test": namespace}))
        names = [f"{namespace}-{i}" for i in range(4)]
        await machines.add([PaperNode(name=each, labels={"test": namespace}, allocatable=SIZE) for each in names])
        since = HeldSince()
        for labelled in (1, 2):
            # Controllers write new nodes as well: the loser looks again.
            async def one_more(want: int = labelled) -> bool:
                nonlocal since
                nodes = await seen.nodes(f"test={namespace}")
                if sum(LABEL in node.labels for node in nodes) < want:
                    outcome, since = DAEMON_SET_LABEL.let_nodes_in(
                        nodes, lever, MAX_WAIT_S, room(1), since, this_moment()
                    )
                    return await seen.carry_out(outcome) == [LeverWriteOutcome.DONE]
                return True

            await eventually(one_more)
            await eventually(partial(_runs, seen, namespace, labelled))
            assert len(await seen.pods(namespace)) == labelled

        async def all_the_rest() -> bool:
            nodes = await seen.nodes(f"test={namespace}")
            rest, _ = DAEMON_SET_LABEL.let_nodes_in(
                nodes, lever, MAX_WAIT_S, room(is_stopping=True), since, this_moment()
            )
            return set(await seen.carry_out(rest)) <= {LeverWriteOutcome.DONE}

        await eventually(all_the_rest)
        await eventually(lambda: _runs(seen, namespace, 4))
        for each in names:
            await machines.remove(each)


async def test_overdue_pods_keep_the_bounds_and_go_first(control_plane: ControlPlane, namespace: str) -> None:
    async with view(control_plane) as seen:
        await seen.apply(gated_deployment(namespace, "work", 2, [PACED_GATE]))
        await eventually(lambda: _has(seen, namespace, 2))
        demand = GatedDemand(pods=await seen.pods(namespace))
        settings = GateSettings(max_wait_s=0.0)
        kept, memory = release_gates(demand, settings, room(0), GateMemory(), this_moment())
        assert kept.writes == ()
        outcome, memory = release_gates(demand, settings, room(1), memory, this_moment())
        assert await seen.carry_out(outcome) == [LeverWriteOutcome.DONE]
        assert len(memory.released) == 1


async def test_the_documented_policy_gates_new_pods_while_their_throttle_acts(
    control_plane: ControlPlane, namespace: str
) -> None:
    """Pods are only tried, as no throttle's service runs here. The names are of this test: others share the plane."""
    await control_plane.install(yaml.safe_load((ROOT / "manifests/crds/jointhrottles.yaml").read_text()))
    label = {"example.com/paced": "true"}
    await control_plane.patch_async("namespace", namespace, {"metadata": {"labels": label}})
    throttle = {
        "apiVersion": "kube-balloons.github.io/v1alpha1",
        "kind": "JoinThrottle",
        "metadata": {"name": namespace},
        "spec": {"nodes": {"matchLabels": {"test": namespace}}, "levers": {"schedulingGates": {}}},
    }
    policies = documented_policy(namespace)

    def gates_of(pod: dict[str, Any]) -> list[str]:
        stored = control_plane.try_to_create(pod, pod["metadata"]["namespace"])
        return [each["name"] for each in stored["spec"].get("schedulingGates", ())]

    def gates(other_gates: Iterable[str] = (), **metadata: Any) -> list[str]:
        return gates_of(gpu_pod(namespace, other_gates, **metadata))

    async def gated() -> bool:
        return gates() == [PACED_GATE]

    async def not_gated() -> bool:
        return gates() == []

    await control_plane.apply_async(throttle, *policies)
    try:
        await eventually(gated)
        assert gates(["example.com/other"]) == ["example.com/other", PACED_GATE]
        assert gates([PACED_GATE]) == [PACED_GATE]
        assert gates(labels={"kube-balloons.github.io/pool": "gpu"}) == []
        owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "1"}
        assert gates(ownerReferences=[owner]) == []
        assert gates(ownerReferences=[{**owner, "kind": "ReplicaSet"}]) == [PACED_GATE]
        placed = gpu_pod(namespace)
        placed["spec"]["nodeName"] = "somewhere"
        assert gates_of(placed) == []
        small = gpu_pod(namespace)
        small["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "1"}}
        assert gates_of(small) == []
        assert gates_of(gpu_pod("default")) == []

        acting = {"paused": None, "dryRun": None, "levers": {"schedulingGates": {}}}
        for unused in ({"paused": True}, {"dryRun": True}, {"levers": {"schedulingGates": None}}):
            await control_plane.patch_async("jointhrottle", namespace, {"spec": unused})
            await eventually(not_gated)
            await control_plane.patch_async("jointhrottle", namespace, {"spec": acting})
            await eventually(gated)
        await control_plane.delete_async("jointhrottle", namespace)
        await eventually(not_gated)
    finally:
        for kind in ("mutatingadmissionpolicybinding", "mutatingadmissionpolicy", "jointhrottle"):
            await control_plane.delete_async(kind, namespace)


def documented_policy(name: str) -> list[dict[str, Any]]:
    """The policy and its binding as the page shows them, by this name, for the JoinThrottle of this name."""
    (command,) = blocks("docs/gates-taints-labels.md", "Gates for pods whose templates are not yours")
    own = command.replace("pace-gpu-pods", name).replace("{name: default,", f"{{name: {name},")
    return list(yaml.safe_load_all(own.split("<<EOF\n")[1].removesuffix("EOF\n")))


def gpu_pod(namespace: str, gates: Iterable[str] = (), **metadata: Any) -> dict[str, Any]:
    """A pod of its own that asks for a GPU."""
    container = {"name": "work", "image": "none", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    spec = {"containers": [container], "schedulingGates": [{"name": each} for each in gates]}
    metadata = {"name": "work", "namespace": namespace, **metadata}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


async def _has(seen: View, namespace: str, count: int) -> bool:
    return len(await seen.pods(namespace)) == count


async def _runs(seen: View, namespace: str, count: int) -> bool:
    return sum(pod.is_running for pod in await seen.pods(namespace)) == count


async def _are_there(seen: View, namespace: str, count: int) -> bool:
    return len(await seen.nodes(f"test={namespace}")) == count


def _without(thing: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in thing["spec"].items() if key != name}
