"""The service on a real control plane: it holds nodes, gives way, tells users, and keeps within its rights."""

import asyncio
import itertools
import json
import signal
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from balloons.decide.refusing import FEW
from balloons.service.action_calls_and_pool_status import FORBIDDEN_REST_S
from lab.cloud.machines import PaperNode
from lab.controlplane import ControlPlane
from lab.demo.service import bind_to_service
from lab.errors import LabError
from tests.lab.service_scene import ACCOUNT, PATIENCE_S, Scene, Service, run_balloons, scene, work_object
from throttler.levers.scheduling_gate import PACED_GATE

SIZE = {"cpu": "8", "memory": "32Gi", "pods": "110"}
"""Of the nodes of a scene."""


async def test_idle_nodes_are_held_and_real_work_takes_them(
    control_plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    async with scene(control_plane, namespace, tmp_path, nodes=3) as on:
        service = await on.ready_service()
        await on.apply_pool()
        status = await on.until(lambda s: s.get("warm") == 3)
        assert {c["type"]: c["status"] for c in status["conditions"]}["Ready"] in ("True", "False")
        await on.until(lambda s: s["because"] == "Steady")

        await on.run_work("job")
        await on.until_bound("job")
        await on.until(lambda s: s["busy"] == 1 and s["warm"] == 2 and s["pending"] == 0)
        await on.until_replicas(2)
        await _until_quiet(on, service)
        gave_way = _deleted_to_give_way(on)
        counted = await service.metric("preemptions_total")
        # The ReplicaSet may delete first what the scheduler has marked as its victim.
        assert gave_way <= counted <= gave_way + 1
        assert await service.metric("preempt_to_bind_seconds_count") <= counted

        # No harm: the only pods ever deleted by us are balloons.
        deleted = [w["objectRef"]["name"] for w in on.writes() if w["verb"] == "delete"]
        assert all(name.startswith("gpu-") for name in deleted)
        await _until_event(on, "Steady")


@pytest.mark.parametrize("spec", [{}, {"mode": "Headroom", "size": 2, "maxSize": 3}], ids=["Hold", "Headroom"])
async def test_small_pod_beside_a_balloon_changes_nothing(
    control_plane: ControlPlane, namespace: str, tmp_path: Path, spec: dict[str, Any]
) -> None:
    """As `kubectl debug node` or a CronJob makes one: the scheduler finds room for it in the slack."""
    async with scene(control_plane, namespace, tmp_path, nodes=2) as on:
        service = await on.ready_service()
        await on.apply_pool(**spec)
        await on.until(lambda s: s.get("because") == "Steady")
        await on.until_still(service)
        before = {pod["metadata"]["uid"] for pod in await on.objects("pods")}
        await on.apply(work_object(namespace, "small", cpu="50m"))
        await on.until_bound("small")
        await service.ticks(5)
        status = await on.pool()
        assert (status["warm"], status["busy"]) == (2, 0)
        assert await on.replicas() == 2
        assert before <= {pod["metadata"]["uid"] for pod in await on.objects("pods")}


async def test_work_that_claims_devices_takes_warm_nodes_and_makes_them_busy(
    control_plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    """The scheduler preempts for the cpu of such a pod. One that asks for next to none it puts beside a balloon, where
    nothing but the claim tells that the node is taken."""
    async with scene(control_plane, namespace, tmp_path, nodes=2) as on:
        service = await on.ready_service()
        await on.apply_pool()
        await on.until(lambda s: s.get("warm") == 2)
        await on.until_still(service)
        before = await _balloons(on)
        driver = f"{namespace}.example.com"
        try:
            await on.apply(*_devices_of(driver, [node for _, node, _ in before]), _claim_template(driver))
            await on.apply(_claiming(work_object(namespace, "large")))
            await on.until_bound("large")
            await on.until(lambda s: (s["busy"], s["warm"]) == (1, 1))
            await on.until_replicas(1)
            (kept,) = await _balloons(on)

            await on.apply(_claiming(work_object(namespace, "small", cpu="50m")))
            await on.until_bound("small")
            await on.until(lambda s: (s["busy"], s["warm"]) == (2, 0))
            await on.until_still(service)
            assert await _balloons(on) == {kept}
            await on.kubectl("delete", "pod", "small", "--now")
            await on.until(lambda s: (s["busy"], s["warm"]) == (1, 1))
            await on.until_still(service)
            assert await _balloons(on) == {kept} <= before
        finally:
            await on.kubectl("delete", "pods", "large", "small", "--now", "--ignore-not-found")
            await on.kubectl("delete", "deviceclasses,resourceslices", f"--selector=driver={driver}")


def _devices_of(driver: str, nodes: list[str]) -> list[dict[str, Any]]:
    """One device on each node, as its driver would publish it, and their class."""
    labels = {"driver": driver}
    expression = f'device.driver == "{driver}"'
    device_class = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": driver, "labels": labels},
        "spec": {"selectors": [{"cel": {"expression": expression}}]},
    }
    slices = [
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": f"{node}-{driver}", "labels": labels},
            "spec": {
                "driver": driver,
                "nodeName": node,
                "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
                "devices": [{"name": "gpu-0"}],
            },
        }
        for node in nodes
    ]
    return [device_class, *slices]


def _claim_template(driver: str) -> dict[str, Any]:
    request = {"name": "gpu", "exactly": {"deviceClassName": driver}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "one-device"},
        "spec": {"spec": {"devices": {"requests": [request]}}},
    }


def _claiming(pod: dict[str, Any]) -> dict[str, Any]:
    (container,) = pod["spec"]["containers"]
    container["resources"]["claims"] = [{"name": "gpu"}]
    pod["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "one-device"}]
    return pod


async def test_three_broken_nodes_cost_no_other_its_balloon(
    control_plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    """Their kubelets refuse every pod: the real ReplicaSet controller would make new ones for ever."""
    async with scene(control_plane, namespace, tmp_path, nodes=6) as on:
        service = await on.ready_service()
        await on.apply_pool()
        await on.until(lambda s: s.get("because") == "Steady" and s["warm"] == 6)
        await on.until_still(service)
        (deployment,) = await on.objects("deployments")
        broken = {f"{namespace}-{i}" for i in range(3)}
        before = await _balloons(on)
        on.machines.refuse_pods(*broken)
        await on.kubectl("delete", "pod", *(name for name, node, _ in before if node in broken))
        await on.until(lambda s: s["sick"] == 3)
        await service.ticks(30)
        status = await on.until(lambda s: (s["warm"], s["target"], s["because"]) == (3, 3, "Steady"))
        await on.until_still(service)
        (after,) = await on.objects("deployments")
        is_as_before = after["spec"]["template"] == deployment["spec"]["template"]
        others, alive = {balloon for balloon in before if balloon[1] not in broken}, await _balloons(on)
        # The scheduler may try one broken node for so long, before it tries the third, that names are left out: then
        # each of the others has a new balloon.
        assert alive == others if is_as_before else {node for _, node, _ in alive} == {node for _, node, _ in others}
        ready = next(c for c in status["conditions"] if c["type"] == "Ready")
        assert "3 nodes refuse balloons (UnexpectedAdmissionError)" in ready["message"]
        await _until_event(on, "NodesRefuse")
        await _until_failed(on, 3 * FEW)

        # Repaired, and given back as nodes are that somebody has repaired.
        on.machines.admit_pods(*broken)
        for is_cordoned in (True, False):
            for node in broken:
                await on.plane.patch_async("node", node, {"spec": {"unschedulable": is_cordoned}})
            await service.ticks(5)
        await on.until(lambda s: s["warm"] == 6)
        assert others <= await _balloons(on) or not is_as_before
        await _until_failed(on, 0)


async def test_headroom_keeps_what_waits_off_a_node_that_refuses(
    control_plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    """The scheduler finds the broken node free for every balloon that is to wait for a new one."""
    async with scene(control_plane, namespace, tmp_path, nodes=3) as on:
        service = await on.ready_service()
        await on.apply_pool(mode="Headroom", size=3, maxSize=5)
        await on.until(lambda s: s.get("because") == "Steady" and s["warm"] == 3)
        await on.until_still(service)
        broken = f"{namespace}-0"
        on.machines.refuse_pods(broken)
        (balloon,) = [name for name, node, _ in await _balloons(on) if node == broken]
        await on.kubectl("delete", "pod", balloon)
        await on.until(lambda s: (s["warm"], s["sick"], s["pending"], s["because"]) == (2, 1, 1, "Growing"))
        # For a while the status looks the same before the name is left out: a rush may end by itself.
        await _until_left_out(on, broken)
        await on.until_still(service)
        before = await _balloons(on)
        await service.ticks(10)
        assert await _balloons(on) == before, "no more are made"
        await _until_failed(on, FEW)


async def _until_quiet(on: Scene, service: Service) -> None:
    """Wait until nothing is written for five decisions: the last figures of a status and its Events come late."""
    deadline = time.monotonic() + PATIENCE_S
    before = -1
    while len(on.writes()) != before:
        assert time.monotonic() < deadline, on.writes()[before:]
        before = len(on.writes())
        await service.ticks(5)


async def _balloons(on: Scene) -> set[tuple[str, str, str]]:
    """Name, node and uid of those that are alive."""
    return {
        (pod["metadata"]["name"], pod["spec"].get("nodeName", ""), pod["metadata"]["uid"])
        for pod in await on.objects("pods")
        if "kube-balloons.github.io/pool" in pod["metadata"].get("labels", {}) and pod["status"]["phase"] != "Failed"
    }


def _deleted_to_give_way(on: Scene) -> int:
    """Balloons that the scheduler preempted or we released; lowered in time, the ReplicaSet frees the node alone."""
    return sum(
        event["verb"] == "delete"
        and event["objectRef"].get("resource") == "pods"
        and event["objectRef"].get("namespace") == on.namespace
        and event["user"]["username"] in (ACCOUNT, "system:kube-scheduler")
        and event["responseStatus"]["code"] == 200
        for event in on.plane.audit_events(on.namespace)
    )


async def _until_event(on: Scene, reason: str) -> None:
    """Events are written after what they tell of."""
    deadline = time.monotonic() + PATIENCE_S
    while reason not in (found := {event["reason"] for event in await on.objects("events.events.k8s.io")}):
        assert time.monotonic() < deadline, found
        await asyncio.sleep(0.5)


async def _until_left_out(on: Scene, host: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    expression = {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": [host]}
    while True:
        (deployment,) = await on.objects("deployments")
        affinity = deployment["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
        (term,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
        if expression in term["matchExpressions"]:
            return
        assert time.monotonic() < deadline, term
        await asyncio.sleep(0.5)


async def _until_failed(on: Scene, most: int) -> None:
    """Wait until what failed has been removed, but for the record."""
    deadline = time.monotonic() + PATIENCE_S
    while len(failed := [pod for pod in await on.objects("pods") if pod["status"]["phase"] == "Failed"]) > most:
        assert time.monotonic() < deadline, len(failed)
        await asyncio.sleep(0.5)


async def test_gang_takes_all_warm_nodes_and_headroom_of_none_is_left(
    control_plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    async with scene(control_plane, namespace, tmp_path, nodes=4) as on:
        await on.ready_service()
        await on.apply_pool()
        await on.until(lambda s: s.get("warm") == 4)
        gang = [f"rank-{i}" for i in range(4)]
        await on.run_work(*gang)
        await on.until_bound(*gang)
        await on.until(lambda s: s["busy"] == 4 and s["pending"] == 0)
        await on.until_replicas(0)
        await on.kubectl("delete", "pod", "-l", "is=work", "--now")
        await on.until(lambda s: s["busy"] == 0 and s["warm"] == 4)


async def test_balloons_outlive_their_pool(control_plane: ControlPlane, namespace: str, tmp_path: Path) -> None:
    """A pool deleted by mistake, or with its CRD, must not cost the warm nodes; the sweep comes after ten minutes."""
    async with scene(control_plane, namespace, tmp_path, nodes=2) as on:
        service = await on.ready_service()
        await on.apply_pool()
        await on.until(lambda s: s.get("warm") == 2)
        (deployment,) = await on.objects("deployments")
        assert "ownerReferences" not in deployment["metadata"]
        await on.kubectl("delete", "balloonpool", "gpu")
        await service.ticks(10)
        (kept,) = await on.objects("deployments")
        assert kept["metadata"]["uid"] == deployment["metadata"]["uid"]
        assert kept["spec"]["replicas"] == 2
        assert await service.metric("pool_warm_nodes") == 0
        await on.apply_pool()
        await on.until(lambda s: s.get("warm") == 2)
        (adopted,) = await on.objects("deployments")
        assert adopted["metadata"]["uid"] == deployment["metadata"]["uid"]


async def test_right_that_is_missing_is_named_and_its_return_is_noticed(
    control_plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    async with scene(control_plane, namespace, tmp_path, nodes=2, is_allowed=False) as on:
        await on.ready_service()
        await on.apply_pool()
        status = await on.until(lambda s: any(c["type"] == "Stalled" for c in s.get("conditions", [])))
        stalled = next(c for c in status["conditions"] if c["type"] == "Stalled")
        assert stalled["reason"] == "WriteFailed"
        assert 'resource "deployments" in API group "apps"' in stalled["message"]
        await on.allow()
        await on.until(lambda s: s.get("warm") == 2 and not any(c["type"] == "Stalled" for c in s["conditions"]))
        refused = [_received_s(write) for write in on.writes() if write["responseStatus"]["code"] == 403]
        assert refused
        gaps_s = [later - earlier for earlier, later in itertools.pairwise(refused)]
        assert all(gap_s > FORBIDDEN_REST_S - 5 for gap_s in gaps_s), "it asks again, and not more than twice a minute"


def _received_s(event: dict[str, Any]) -> float:
    return datetime.fromisoformat(event["requestReceivedTimestamp"].replace("Z", "+00:00")).timestamp()


async def test_dry_run_once_decides_and_writes_nothing(
    control_plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    async with scene(control_plane, namespace, tmp_path, nodes=2) as on:
        await on.apply_pool()
        service = on.service("--dry-run", "--once")
        assert await asyncio.to_thread(service.process.wait, PATIENCE_S) == 0, service.log.read_text()
        (shown,) = service.lines("would write")
        assert "with 2 replicas" in shown["actions"][0]
        assert on.writes() == []
        assert await on.objects("deployments") == []


async def test_once_writes_what_was_decided_and_ends(
    control_plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    async with scene(control_plane, namespace, tmp_path, nodes=2) as on:
        await on.apply_pool()
        service = on.service("--once")
        assert await asyncio.to_thread(service.process.wait, PATIENCE_S) == 0, service.log.read_text()
        assert await on.replicas() == 2


async def test_status_shows_pools_as_kubectl_would(control_plane: ControlPlane, namespace: str, tmp_path: Path) -> None:
    async with scene(control_plane, namespace, tmp_path, nodes=1) as on:
        none = await run_balloons(control_plane, "status", "-n", namespace)
        assert (none.stdout, none.returncode) == ("", 0)
        assert none.stderr == f"No balloon pools found in namespace {namespace}.\n"
        empty = await run_balloons(control_plane, "status", "-n", namespace, "-o", "json")
        assert json.loads(empty.stdout)["pools"] == []

        await on.apply_pool(size=1, maxSize=3)
        await on.ready_service()
        await on.until(lambda s: s.get("because") == "Steady")
        header, line = (await run_balloons(control_plane, "status", "-n", namespace)).stdout.splitlines()
        assert header.split() == ["NAME", "WARM", "WANT", "BUSY", "PENDING", "MAX", "MODE", "READY", "BECAUSE", "AGE"]
        assert line.split()[:9] == ["gpu", "1", "1", "0", "0", "3", "Hold", "True", "Steady"]
        so = await run_balloons(control_plane, "status", "gpu", "-n", namespace, "--wait", "--for", "warm=1")
        assert (so.returncode, so.stdout.splitlines()[0]) == (0, header), so.stderr
        never = ("--wait", "--for", "warm=9", "--timeout", "1s", "-o", "name")
        late = await run_balloons(control_plane, "status", "-n", namespace, *never)
        assert (late.returncode, late.stdout) == (4, "balloonpool.kube-balloons.github.io/gpu\n")
        assert "not so after 1 s: 1 of 9 nodes are warm" in late.stderr
        named = await run_balloons(control_plane, "status", "-n", namespace, "-o", "name")
        assert named.stdout == "balloonpool.kube-balloons.github.io/gpu\n"
        # Its kubelet may have been late meanwhile, on a busy machine.
        again = ("--wait", "--for", "warm=1", "-o", "json")
        machine = json.loads((await run_balloons(control_plane, "status", "-n", namespace, *again)).stdout)
        assert machine["kind"] == "ThrottleAndPoolStatus"
        assert [item["status"]["warm"] for item in machine["pools"]] == [1]


async def test_watching_adds_a_line_for_each_change(
    control_plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    async with scene(control_plane, namespace, tmp_path, nodes=1) as on:
        await on.apply_pool()
        log = tmp_path / "status.txt"
        command = [sys.executable, "-m", "balloons", "status", "-w", "-n", namespace]
        command += ["--kubeconfig", str(control_plane.kubeconfig())]
        watching = control_plane.processes.spawn(command, log=log)
        try:
            while not log.exists() or "gpu" not in log.read_text():
                await asyncio.sleep(0.1)
            await on.ready_service()
            while "Steady" not in log.read_text():
                await asyncio.sleep(0.1)
        finally:
            watching.send_signal(signal.SIGINT)
            assert await asyncio.to_thread(watching.wait, PATIENCE_S) == 130
        shown = log.read_text()
        assert shown.count("NAME") == 1
        assert "Traceback" not in shown
        assert "\x1b" not in shown


async def test_balloons_keep_off_idle_nodes_of_an_older_pool(
    control_plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    """The real scheduler prefers those: the younger pool's own nodes have a taint that is better avoided."""
    async with scene(control_plane, namespace, tmp_path, nodes=3) as on:
        older = {"matchLabels": {"test": namespace}, "matchExpressions": [{"key": "side", "operator": "DoesNotExist"}]}
        taint = {"key": "busy", "value": "often", "effect": "PreferNoSchedule"}
        own = [f"{namespace}-own-{i}" for i in range(2)]
        labels = {"test": namespace, "side": "own"}
        await on.machines.add([PaperNode(name=n, labels=labels, taints=(taint,), allocatable=SIZE) for n in own])
        try:
            service = await on.ready_service()
            await on.apply_pool("older", size=1, nodes={"selector": older})
            await on.until(lambda s: s.get("because") == "Steady", "older")
            await on.apply_pool("younger")
            await on.until(lambda s: s.get("warm") == 2, "younger")
            await on.until_still(service)
            before = await _balloons(on)
            assert {node for name, node, _ in before if name.startswith("younger")} == set(own)
            await service.ticks(15)
            assert await _balloons(on) == before
            assert not [w for w in on.writes() if w["verb"] == "delete"]
        finally:
            for name in own:
                await on.machines.remove(name)


async def test_pod_that_may_not_preempt_gets_a_warm_node_even_alone(
    control_plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    """The scheduler makes no room for it, so the service must."""
    polite = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": f"polite-{namespace}"},
        "value": 1,
        "preemptionPolicy": "Never",
    }
    async with scene(control_plane, namespace, tmp_path, nodes=2) as on:
        service = await on.ready_service()
        await on.apply_pool()
        await on.until(lambda s: s.get("because") == "Steady")
        job = work_object(namespace, "job")
        job["spec"]["priorityClassName"] = polite["metadata"]["name"]
        try:
            await on.apply(polite)
            await _apply_when_known(on, job)
            await on.until_bound("job")
            await on.until(lambda s: (s["busy"], s["warm"], s["pending"]) == (1, 1, 0))
            assert len([w for w in on.writes() if w["verb"] == "delete"]) == 1
            deadline = time.monotonic() + PATIENCE_S
            while not await service.metric("preemptions_total", how="released"):
                assert time.monotonic() < deadline
                await asyncio.sleep(0.5)
        finally:
            await on.kubectl("delete", "pod", "job", "--now", "--ignore-not-found")
            await on.kubectl("delete", "priorityclass", polite["metadata"]["name"])


async def _apply_when_known(on: Scene, pod: dict[str, Any]) -> None:
    """Admission refuses a pod whose PriorityClass it has not heard of yet."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            await on.apply(pod)
        except LabError as refusal:
            if "PriorityClass" not in str(refusal) or time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.2)
        else:
            return


async def test_gang_behind_a_gate_of_kueues_moves_no_balloon_until_it_is_let_go(
    control_plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    """As Kueue holds pods back and lets them go; no Kueue runs here."""
    gates = [{"name": "kueue.x-k8s.io/admission"}]
    async with scene(control_plane, namespace, tmp_path, nodes=3) as on:
        service = await on.ready_service()
        await on.apply_pool()
        await on.until(lambda s: s.get("because") == "Steady")
        await on.until_still(service)
        before, names = await _balloons(on), ("rank-0", "rank-1")
        for name in names:
            pod = work_object(namespace, name)
            pod["metadata"]["labels"]["kueue.x-k8s.io/pod-group-name"] = "job"
            pod["spec"]["schedulingGates"] = gates
            await on.apply(pod)
        await service.ticks(5)
        assert await _balloons(on) == before
        for name in names:
            await on.kubectl("patch", "pod", name, "--patch", '{"spec": {"schedulingGates": null}}')
        await on.until_bound(*names)
        await on.until(lambda s: (s["busy"], s["warm"], s["pending"]) == (2, 1, 0))


async def test_gated_pods_take_warm_nodes_although_the_window_is_full(
    control_plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    """Two pods came first and need larger machines: one may ask at a time, and nobody makes it.

    Which of them asks is open: pods that other tests left on this control plane may be in flight already. Those ask for
    more cores than these nodes have.
    """
    right = bind_to_service("kube-balloons-scheduling-gates")
    spec = {
        "nodes": {"matchLabels": {"test": namespace}},
        "window": dict.fromkeys(("initial", "min", "max"), 1),
        "reserved": {"nodes": 0},
        "signals": {"scrape": {"servers": list(control_plane.server_urls)}},
        "levers": {"schedulingGates": {}},
    }
    kind = {"apiVersion": "kube-balloons.github.io/v1alpha1", "kind": "JoinThrottle"}

    def gated(name: str, cpu: str) -> dict[str, Any]:
        pod = work_object(namespace, name, cpu)
        pod["spec"]["schedulingGates"] = [{"name": PACED_GATE}]
        return pod

    names = [f"{namespace}-{number}" for number in range(3)]
    async with scene(control_plane, namespace, tmp_path, nodes=0) as on:
        small, labels = {**SIZE, "cpu": "4"}, {"test": namespace}
        await on.machines.add([PaperNode(name=name, labels=labels, allocatable=small) for name in names])
        await on.apply(right, {**kind, "metadata": {"name": namespace}, "spec": spec})
        try:
            await on.ready_service()
            await on.apply_pool()
            await on.until(lambda s: (s.get("warm"), s["because"]) == (3, "Steady"))
            await on.apply(gated("large-0", "20"), gated("large-1", "20"))
            await asyncio.sleep(1)  # creation times are whole seconds: a job of the same second could come before
            await on.apply(*(gated(f"job-{number}", "3") for number in range(4)))
            await on.until(lambda s: (s["busy"], s["warm"]) == (3, 0))
            held = [p["metadata"]["name"] for p in await on.objects("pods") if p["spec"].get("schedulingGates")]
            assert sum(name.startswith("job-") for name in held) == 1
            assert {"large-0", "large-1"} & {*held}
        finally:
            await control_plane.delete_async("jointhrottle", namespace)
            await control_plane.delete_async("clusterrolebinding", right["metadata"]["name"])
            for name in names:
                await on.machines.remove(name)
