"""The stage of the rush: a small control plane, a real Karpenter, machines with all of a kubelet's requests."""

from __future__ import annotations

import asyncio
import contextlib
import enum
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from lab.cloud import BootTime, MachineSort
from lab.cloud.json_api import JsonApi
from lab.cloud.karpenter import Karpenter, KarpenterSettings, NodePoolSettings, paper_type, start_karpenter
from lab.controlplane import ControlPlane
from lab.demo.scene import JOBS, namespace
from lab.demo.service import bind_to_service, install, run_service
from lab.processes.cpu_share import cpu_s, held_to
from lab.scaleup.cluster import DAEMON_SETS, DEVICE_PLUGIN, QUICK_MANAGER_QPS, start_small_plane

BOOT_S = 5.0
"""Median boot time; short, so that the demo is."""
NODE_POOL = "workers"
POOL_LABELS = {"example.com/pool": NODE_POOL}
WORKER = paper_type("worker-8", cores=8, memory_gib=32, gpus=8, sort=MachineSort.JOINER, device_plugin=DEVICE_PLUGIN)
"""As a real node with GPUs it has none before its device plugin runs, which is one of its DaemonSets."""
THROTTLE = "workers"
SERVER = "kube-apiserver-0"
"""The process of the one API server."""
START_S, START_SHARE = 2.4, 0.5
"""On the machine of docs/benchmarks.md: CPU that the API server needs until Karpenter runs; its share of a core. The
first is worked out: it was 5.4 s on a machine on which the same rush cost 2.3 times the CPU."""
LEAST_SHARE, MOST_OF_MACHINE = 0.2, 0.4
"""The second is of all cores."""
GATE = "kube-balloons.github.io/paced"
TAINT = "startup-taint.cluster-autoscaler.kubernetes.io/paced"
READ_DEADLINE_S, BASELINE_S = 180, 15
"""A few scrapes of the idle server; in a real cluster there have been thousands."""


class Lever(enum.StrEnum):
    """What holds growth back, under its name in a JoinThrottle."""

    CEILING = "nodePoolLimits"
    GATES = "schedulingGates"
    TAINT = "startupTaint"


LEVER_ROLES = {
    Lever.CEILING: "kube-balloons-node-pools",
    Lever.GATES: "kube-balloons-scheduling-gates",
    Lever.TAINT: "kube-balloons-node-levers",
}
"""The right to move each, which manifests/base grants to nobody."""


@dataclass(frozen=True, kw_only=True)
class Pacing:
    """A JoinThrottle: its levers, and where it differs from the defaults."""

    levers: frozenset[Lever] = frozenset({Lever.CEILING})
    window: int | None = None
    """Fixed at this many joins at a time; None: as the law finds."""
    max_in_flight: int | None = None
    learned: Mapping[str, Any] | None = None
    """`status.learned` of an earlier throttle, which the service finds when it starts."""


@dataclass(frozen=True)
class RushScene:
    """What the rush acts on."""

    plane: ControlPlane
    karpenter: Karpenter
    api: JsonApi
    is_gated: bool = False
    service_pid: int | None = None

    def server_held_to(self, cores: float | None) -> AbstractContextManager[bool]:
        """Let the API server have so much of a core until left (None: all that it gets); yields whether it has that."""
        return contextlib.nullcontext(True) if cores is None else held_to(self.plane.pid(SERVER), cores)

    def small_share(self) -> float:
        """Of a core, what makes this API server as slow as half a core of the machine of docs/benchmarks.md does.

        Ask before the rush: how much CPU a server needed to start tells how quick the machine is.
        """
        return small_share(cpu_s(self.plane.pid(SERVER)), os.cpu_count() or 1)


def small_share(start_s: float, cores: int) -> float:
    """`RushScene.small_share`, for a server that needed `start_s` of CPU to start on a machine with so many cores.

    With more than `MOST_OF_MACHINE` everything else, too, would wait for the machine, and not for the server.
    """
    share = START_SHARE * start_s / START_S
    return round(min(max(share, LEAST_SHARE), MOST_OF_MACHINE * cores, 1.0), 2)


@contextlib.asynccontextmanager
async def open_rush(pacing: Pacing | None = None) -> AsyncIterator[RushScene]:
    """Start everything, with our service and a JoinThrottle if it is a paced rush; end all of it.

    With a startup taint half of the DaemonSets mind it; one that all of them tolerate would keep back nothing.
    """
    boot = BootTime(median_s=BOOT_S, jitter=0.3, seed=3)
    levers = pacing.levers if pacing else frozenset[Lever]()
    taints = ({"key": TAINT, "value": "true", "effect": "NoSchedule"},) if Lever.TAINT in levers else ()
    pool = NodePoolSettings(name=NODE_POOL, consolidate_after_s=None, labels=POOL_LABELS, startup_taints=taints)
    settings = KarpenterSettings(node_pools=(pool,), instance_types=(WORKER,), boot_time=boot)
    async with contextlib.AsyncExitStack() as stack:
        choosy = DAEMON_SETS // 2 if Lever.TAINT in levers else 0
        plane = await stack.enter_async_context(start_small_plane(1, QUICK_MANAGER_QPS, is_audited=True, choosy=choosy))
        api = await stack.enter_async_context(JsonApi(plane.access("lab:demo", ("system:masters",))))
        await api.create("/api/v1/namespaces", namespace(JOBS))
        karpenter = await stack.enter_async_context(start_karpenter(plane, settings))
        pid = None
        if pacing is not None:
            await _install(plane, pacing)
            pid = (await stack.enter_async_context(run_service(plane))).pid
        yield RushScene(plane, karpenter, api, Lever.GATES in levers, pid)


async def _install(plane: ControlPlane, pacing: Pacing) -> None:
    """What a user applies: the manifests, the right to move the levers, and the throttle."""
    await install(plane)
    roles = [LEVER_ROLES[lever] for lever in sorted(pacing.levers)]
    await plane.apply_async(*(bind_to_service(role) for role in roles), join_throttle(plane, pacing))
    if pacing.learned is not None:
        learned = {"status": {"learned": pacing.learned}}
        await plane.patch_async("jointhrottle", THROTTLE, learned, subresource="status")


async def wait_for_throttle(scene: RushScene) -> None:
    """Wait until the service reads the API server and knows its baseline, as it would long before any rush."""
    await scene.plane.kubectl_async(
        "wait", "--for=condition=SignalsFresh", f"jointhrottle/{THROTTLE}", f"--timeout={READ_DEADLINE_S}s"
    )
    await asyncio.sleep(BASELINE_S)


def join_throttle(plane: ControlPlane, pacing: Pacing) -> dict[str, Any]:
    """The JoinThrottle of the rush; the servers are named, because loopback has no EndpointSlices."""
    levers = {
        Lever.CEILING: {"names": [NODE_POOL]},
        Lever.GATES: {},
        Lever.TAINT: {"key": TAINT},
    }
    spec: dict[str, Any] = {
        "nodes": {"matchLabels": POOL_LABELS},
        "signals": {"scrape": {"servers": list(plane.server_urls)}},
        "levers": {lever.value: levers[lever] for lever in sorted(pacing.levers)},
    }
    if pacing.window is not None:
        spec["window"] = dict.fromkeys(("initial", "min", "max"), pacing.window)
    if pacing.max_in_flight is not None:
        spec["maxInFlight"] = pacing.max_in_flight
    return {
        "apiVersion": "kube-balloons.github.io/v1alpha1",
        "kind": "JoinThrottle",
        "metadata": {"name": THROTTLE},
        "spec": spec,
    }


def training(pods: int, *, is_gated: bool = False) -> dict[str, Any]:
    """A training job that takes `pods` whole nodes; `is_gated`: its author lets a JoinThrottle release its pods."""
    resources = {"requests": {"cpu": "6", **WORKER.extended}, "limits": dict(WORKER.extended)}
    container = {"name": "train", "image": "registry.example/train:1", "resources": resources}
    spec: dict[str, Any] = {
        "nodeSelector": POOL_LABELS,
        "terminationGracePeriodSeconds": 0,
        "containers": [container],
    }
    if is_gated:
        spec["schedulingGates"] = [{"name": GATE}]
    labels = {"app": "training"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "training", "namespace": JOBS},
        "spec": {
            "replicas": pods,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }
