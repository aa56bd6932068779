"""The service and what goes wrong: signals, kill -9 at any moment, and objects that nobody could foresee."""

import asyncio
import json
import random
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from lab.controlplane import ControlPlane
from lab.errors import LabError
from tests.contract.waiting import until
from tests.crd_and_types import crd_of, without_validations
from tests.lab.service_scene import PATIENCE_S, Scene, pool_object, scene

LONGEST_END_S = 30.0
"""Kubernetes kills after 30 s. The service promises 3 s for writes under way; a busy test machine gets more."""


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
async def test_signal_ends_the_service_in_order(
    control_plane: ControlPlane, namespace: str, tmp_path: Path, how: signal.Signals
) -> None:
    async with scene(control_plane, namespace, tmp_path, nodes=1) as on:
        service = await on.ready_service()
        await on.apply_pool()
        started = time.monotonic()
        assert await service.end(how) == 0, service.log.read_text()
        assert time.monotonic() - started < LONGEST_END_S
        assert service.lines("stopped")


async def test_killed_at_any_moment_it_reaches_the_same_end(
    control_plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    """Invariants 1 and 8: a restart goes on where the world is, and real work is never touched."""
    moment = random.Random(3)
    async with scene(control_plane, namespace, tmp_path, nodes=6) as on:
        await on.apply_pool()
        await on.run_work("early")
        for round_ in range(5):
            service = on.service()
            await asyncio.sleep(moment.uniform(0.3, 2.5))
            await on.run_work(f"job-{round_}")
            await asyncio.sleep(moment.uniform(0.0, 0.5))
            await service.end(signal.SIGKILL)
            if round_ % 2:
                await on.kubectl("delete", "pod", f"job-{round_}", "--now")
        await on.ready_service()
        work = ("early", "job-0", "job-2", "job-4")
        await on.until_bound(*work)
        await on.until(lambda s: s["busy"] == 4 and s["warm"] == 2 and s["pending"] == 0)
        await on.until_replicas(2)
        assert_only_balloons_were_deleted(on)


def assert_only_balloons_were_deleted(on: Scene) -> None:
    deleted = [w["objectRef"] for w in on.writes() if w["verb"] in ("delete", "deletecollection")]
    assert all(each["resource"] == "pods" and each["name"].startswith("gpu-") for each in deleted), deleted
    assert not [w for w in on.writes() if w["objectRef"].get("subresource") == "eviction"]


async def test_outage_freezes_everything_and_ends_by_itself(
    control_plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    """The API server is away: freeze, one list per resource at most, no burst of catching up."""
    async with scene(control_plane, namespace, tmp_path, nodes=3) as on:
        service = await on.ready_service()
        await on.apply_pool()
        await on.until(lambda s: s.get("because") == "Steady")
        await on.until_still(service)
        before, written = (await on.objects("deployments"))[0]["spec"], len(on.writes())
        control_plane.kill("kube-apiserver-0")
        try:
            while await service.is_ready():
                await asyncio.sleep(0.1)
            await service.ticks(3)
            assert await service.get("/healthz") == "ok\n"
        finally:
            await control_plane.restart("kube-apiserver-0")
        while not await service.is_ready():
            await asyncio.sleep(0.1)
        await service.ticks(3)
        assert (await on.objects("deployments"))[0]["spec"] == before
        await on.until(lambda s: s.get("because") == "Steady")
        assert await service.metric("cache_events_total", event="listed", resource="pods") <= 2
        assert [w["verb"] for w in on.writes()[written:] if w["objectRef"]["resource"] == "deployments"] == []
        assert_only_balloons_were_deleted(on)


async def test_poison_objects_stop_nobody_else(control_plane: ControlPlane, namespace: str, tmp_path: Path) -> None:
    """An object that cannot be read is skipped: one annotation has crashed a controller for good before."""
    async with scene(control_plane, namespace, tmp_path, nodes=2) as on:
        await on.apply(*poison_pods(namespace))
        bad = pool_object(namespace, "bad", mode="Headroom", size=9, maxSize=3, nodes={"selector": {}})
        await asyncio.to_thread(replace_crd, control_plane, without_validations(crd_of("balloonpools")))
        try:
            await store_when_accepted(on, bad)
            await on.apply_pool("good")
            for _ in range(2):  # the second time from the start: a restart must not crash on them either
                service = await on.ready_service()
                await on.until(lambda s: s.get("warm") == 2 and s["because"] == "Steady", "good")
                refused = await on.until(lambda s: s.get("because") == "Invalid", "bad")
                assert "9" in refused["message"]
                await service.ticks(2)
                assert await service.metric("ticks_total", outcome="failed") == 0
                assert await service.end() == 0
        finally:
            await on.kubectl("delete", "balloonpool", "--all")
            await asyncio.to_thread(replace_crd, control_plane, crd_of("balloonpools"))
            await until_refused(on, bad)


def replace_crd(plane: ControlPlane, crd: dict[str, Any]) -> None:
    """Put this one in the place of what is there: an apply leaves what others have applied."""
    name = crd["metadata"]["name"]

    def replace() -> None:
        version = plane.get("customresourcedefinition", name)["metadata"]["resourceVersion"]
        newer = {**crd, "metadata": {**crd["metadata"], "resourceVersion": version}}
        plane.requests.send("PUT", f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}", newer)

    until(replace)


async def store_when_accepted(on: Scene, pool: dict[str, Any]) -> None:
    """The API server takes a moment to believe a changed CRD."""
    for _ in range(100):
        try:
            await on.apply(pool)
        except Exception as error:  # noqa: BLE001  a refusal until then
            last = error
            await asyncio.sleep(0.3)
        else:
            return
    raise last


async def until_refused(on: Scene, pool: dict[str, Any]) -> None:
    """The next test on this server counts on the rules."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            await asyncio.to_thread(on.plane.try_to_create, pool, on.namespace)
        except LabError:
            return
        assert time.monotonic() < deadline
        await asyncio.sleep(0.2)


def poison_pods(namespace: str) -> list[dict[str, Any]]:
    """Pods that any user may make, with whatever a text may hold."""
    odd = {
        "controller.kubernetes.io/pod-deletion-cost": "-2147483648",
        "kube-balloons.github.io/held-by": "{{{[",
        "escape": "\x1b[2J\u202e\u0000"[:-1] + "x" * 5000,
    }
    labels = {"kube-balloons.github.io/pool": "good", "kube-balloons.github.io/shape": ""}
    container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": "1e-3", "memory": "1.5e3"}}}
    unknown = {"key": "kube-balloons.github.io/none", "operator": "Exists"}
    affinity = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [unknown]}]}
        }
    }
    return [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"poison-{i}", "namespace": namespace, "labels": labels, "annotations": odd},
            "spec": {"affinity": affinity, "containers": [container]},
        }
        for i in range(2)
    ]


def test_stripped_crd_has_no_rules_left() -> None:
    assert "x-kubernetes-validations" not in json.dumps(without_validations(crd_of("balloonpools")))
