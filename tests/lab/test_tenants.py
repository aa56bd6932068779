"""An editor of one namespace tries to reach another tenant's warm nodes on a real API server; nothing there moves."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lab.controlplane import ControlPlane
from lab.errors import LabError
from tests.lab.service_scene import Scene, pool_object, scene

OUR = "kube-balloons.github.io"
EVERY = {"selector": {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "Exists"}]},
         "tolerations": [{"operator": "Exists"}]}  # fmt: skip
SMALL = {"tolerations": [{"operator": "Exists"}],
         "containers": [{"name": "c", "image": "none", "resources": {"requests": {"cpu": "6"}}}]}  # fmt: skip
OLD, WIDE = "old", {"mode": "Hold", "nodes": EVERY}
GROWING = {"mode": "Headroom", "size": 1000, "maxSize": 1000, "nodes": EVERY}
HUGE = {"type": "Explicit", "resources": {"cpu": "1m"}}
LEAP = {"cron": "59 23 29 2 */7", "duration": "1s", "size": 1, "timeZone": "America/New_York"}
MANY = [{"key": "kubernetes.io/hostname", "operator": "NotIn", "values": [f"{e}-{v}" for v in range(256)]}
        for e in range(32)]  # fmt: skip
GATED = [{"name": f"{OUR}/paced"}]
BUSY = {"containers": [{"name": "c", "image": "none", "resources": {"requests": {"cpu": "100"}}}]}


def hostile_objects(namespace: str) -> Iterator[dict[str, Any]]:
    """What he writes; the pool `old` was there before any other pool, and was harmless."""
    yield pool_object(namespace, OLD, **WIDE)
    yield pool_object(namespace, OLD, **WIDE, paused=True)
    yield pool_object(namespace, OLD, **WIDE, dryRun=True)
    yield pool_object(namespace, OLD, **GROWING)
    yield pool_object(namespace, OLD, **WIDE, strategy="Annotate")
    yield pool_object(namespace, OLD, **GROWING, strategy="CapacityBuffer")
    yield pool_object(namespace, OLD, **GROWING, shape=HUGE)
    yield pool_object(namespace, OLD, **WIDE, prePull=["attacker.example/anything:1"])
    yield pool_object(namespace, OLD, **WIDE, image="attacker.example/anything:1")
    yield pool_object(namespace, OLD, **WIDE, schedules=[LEAP] * 32)
    yield pool_object(namespace, "mars", **WIDE, schedules=[{**LEAP, "timeZone": "Mars/Olympus"}])
    yield pool_object(namespace, OLD, mode="Hold", nodes={"selector": {"matchExpressions": MANY}})
    yield pool_object(namespace, OLD, **WIDE, spread="TopologySpread")
    yield pool_object(namespace, OLD, **WIDE, size=0)
    yield pool_object(namespace, "gpu", **WIDE)
    yield pool_object(namespace, "x" * 253, **WIDE)
    marked = pool_object(namespace, "marked", **WIDE)
    marked["metadata"] |= {"annotations": {f"{OUR}/held-by": "x/y", f"{OUR}/original": "{}"}}
    yield marked
    yield pool_object(namespace, OLD, **WIDE, fallbackAfter="1m", template={"labels": {"app": "disguised"}})
    yield pool_object(namespace, OLD, mode="Hold", nodes={**EVERY, "notReadyGrace": "24h"})
    stuck = pool_object(namespace, "stuck", **WIDE)
    stuck["metadata"] |= {"finalizers": ["attacker.example/never"], "annotations": {"x": "x" * 200_000}}
    yield stuck
    labels = {f"{OUR}/pool": "gpu", f"{OUR}/shape": "x", "app.kubernetes.io/managed-by": "kube-balloons"}
    never = {"schedulerName": "nobody", "priorityClassName": "", **SMALL}
    works = {"disguised": BUSY, "posing": {**BUSY, "priorityClassName": "kube-balloons"}, "never": never,
             "gated": {**SMALL, "schedulingGates": GATED}}  # fmt: skip
    for name, spec in works.items():
        template = {"metadata": {"labels": {**labels, "app": name}}, "spec": spec}
        yield {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name, "namespace": namespace, "labels": labels},
            "spec": {"replicas": 2, "selector": {"matchLabels": {"app": name}}, "template": template},
        }
    yield {
        "apiVersion": "v1",
        "kind": "PodTemplate",
        "metadata": {"name": "disguised", "namespace": namespace, "labels": labels},
        "template": {"metadata": {"labels": labels}, "spec": BUSY},
    }


def owned_by(namespace: str, pool: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """His objects, as if the victim's pool had made them, and what he says about it."""
    owner = {key: pool[key] for key in ("apiVersion", "kind")} | {key: pool["metadata"][key] for key in ("name", "uid")}
    for name in ("owned", "gpu-owned"):
        labels = {f"{OUR}/pool": "gpu", "app": name}
        metadata = {"name": name, "namespace": namespace, "labels": labels, "ownerReferences": [owner]}
        yield {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {**BUSY, "schedulingGates": GATED}}
    yield {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "told", "namespace": namespace},
        "involvedObject": {**owner, "namespace": namespace},
        "reason": "Preempted",
        "message": "x" * 1000,
        "type": "Warning",
    }
    yield {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "grow", "namespace": namespace},
        "spec": {"scaleTargetRef": {**{k: owner[k] for k in ("apiVersion", "kind")}, "name": OLD},
                 "minReplicas": 500, "maxReplicas": 1000},
    }  # fmt: skip


def forbidden(namespace: str, node: str) -> Iterator[tuple[str, ...]]:
    """What no role of his lets him do, to anybody's objects."""
    yield "label", "node", node, "test=mine", "--overwrite"
    yield "annotate", "node", node, f"{OUR}/held-by={namespace}/old"
    yield "taint", "node", node, "mine=:NoExecute"
    yield "get", "nodes"
    yield "create", "priorityclass", "mine", "--value=-11"
    yield "create", "token", "kube-balloons", "--namespace=kube-balloons"
    yield "patch", "balloonpool", OLD, f"--namespace={namespace}", "--subresource=status", "--type=merge", "--patch={}"
    yield "patch", "lease", "kube-balloons", "--namespace=kube-balloons", "--type=merge", "--patch={}"
    yield "get", "jointhrottles"
    yield "delete", "jointhrottles", "--all"


def commands(namespace: str, victim: str) -> Iterator[tuple[str, ...]]:
    """What he runs."""
    yield "scale", "balloonpool/old", f"--namespace={namespace}", "--replicas=1000"
    yield "label", "balloonpool/old", f"--namespace={namespace}", f"{OUR}/pool=gpu"
    yield "delete", "balloonpool/stuck", f"--namespace={namespace}", "--wait=false"
    yield "delete", "pods", f"--namespace={victim}", "--all"
    yield "delete", "balloonpool", f"--namespace={victim}", "--all"
    yield "scale", "balloonpool/gpu", f"--namespace={victim}", "--replicas=0"
    yield "scale", "deployments", f"--namespace={victim}", "--all", "--replicas=0"


def as_editor(plane: ControlPlane, *arguments: str) -> bool:
    """Run kubectl as him; whether the API server let him."""
    command = [str(plane.binaries["kubectl"]), f"--kubeconfig={plane.kubeconfig()}", "--as=mallory", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False).returncode == 0


def apply_as_editor(plane: ControlPlane, thing: dict[str, Any]) -> bool:
    """Apply it as him, by force; whether the API server let him."""
    try:
        plane.requests.apply(thing, thing["metadata"]["namespace"], as_user="mallory")
    except LabError:
        return False
    return True


async def let_edit(on: Scene, namespace: str) -> None:
    await on.plane.kubectl_async("create", "namespace", namespace)
    for role in ("edit", "kube-balloons-edit"):
        give = ("create", "rolebinding", role, f"--clusterrole={role}", "--user=mallory")
        await on.plane.kubectl_async(*give, f"--namespace={namespace}")


async def warm(on: Scene) -> tuple[set[str], int]:
    """The uids of the victim's balloons, and how many it wants."""
    pods = await on.objects("pods")
    return {each["metadata"]["uid"] for each in pods if not each["metadata"].get("deletionTimestamp")}, (
        await on.replicas()
    )


async def pools_in(on: Scene, namespace: str) -> list[dict[str, Any]]:
    text = await on.plane.kubectl_async("get", "balloonpools", f"--namespace={namespace}", "--output=json")
    found: list[dict[str, Any]] = json.loads(text)["items"]
    return found


def reasons(pools: list[dict[str, Any]]) -> dict[str, str]:
    """What each pool is told, by its name."""
    return {each["metadata"]["name"]: each.get("status", {}).get("because", "") for each in pools}


async def test_a_hostile_editor_moves_no_balloon_of_another_tenant(
    control_plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    elsewhere, beside = f"{namespace}-x", f"{namespace}-y"
    async with scene(control_plane, namespace, tmp_path, nodes=3) as on:
        for space in (elsewhere, beside):
            await let_edit(on, space)
            harmless = pool_object(space, OLD, mode="Hold", nodes={"selector": {"matchLabels": {"none": "such"}}})
            assert apply_as_editor(control_plane, harmless)
        bounds = (f"--bound-node-labels={beside}:team=y", "--bound-max-size=10", "--bound-pools-per-namespace=4")
        service = await on.ready_service("--namespace", beside, *bounds)
        await on.apply_pool(maxSize=3)
        await on.until(lambda s: s.get("warm") == 3 and s["because"] == "Steady")
        await on.until_still(service)
        before = await warm(on)
        assert (len(before[0]), before[1]) == (3, 3)

        (victim,) = await on.objects("balloonpools")
        tried = taken = 0
        for space in (elsewhere, beside):
            for each in (*hostile_objects(space), *owned_by(space, victim)):
                taken += apply_as_editor(control_plane, each)
                tried += 1
            for command in forbidden(space, f"{namespace}-0"):
                assert not as_editor(control_plane, *command), command
            for command in commands(space, namespace):
                as_editor(control_plane, *command)
                tried += 1
            await service.ticks(3)
            assert await warm(on) == before, space
        assert (tried, taken) >= (70, 50)

        for space, reason in ((elsewhere, "NotServed"), (beside, "Bound")):
            pools = await pools_in(on, space)
            wanted = {each["metadata"]["name"]: reason for each in pools}
            if space == beside:
                wanted["mars"] = "Invalid"
            assert len(wanted) >= 5
            deadline = 30
            while (told := reasons(pools)) != wanted and deadline:
                await service.ticks(2)
                deadline -= 1
                pools = await pools_in(on, space)
            assert told == wanted
            assert all(not each["status"].get("nodes") and not each["status"].get("zones") for each in pools)
        assert await service.metric("refused_pools", bound="namespaces") >= 3
        assert await warm(on) == before
