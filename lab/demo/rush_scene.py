"""The stage of the rush: a small control plane, a real Karpenter, machines with all of a kubelet's requests."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from lab.clouds import BootTime, MachineSort
from lab.clouds.json_api import JsonApi
from lab.controlplane import ControlPlane
from lab.demo.objects import JOBS, namespace
from lab.demo.service import ACCOUNT, ACCOUNT_NAMESPACE, install, run_service
from lab.karpenter import Karpenter, KarpenterSettings, NodePoolSettings, paper_type, start_karpenter
from lab.scaleup.cluster import QUICK_MANAGER_QPS, start_small_plane

BOOT_S = 5.0
"""Median boot time; short, so that the demo is."""
NODE_POOL = "workers"
POOL_LABELS = {"example.com/pool": NODE_POOL}
WORKER = paper_type("worker-8", cores=8, memory_gib=32, sort=MachineSort.JOINER)
THROTTLE = "workers"
READ_DEADLINE_S, BASELINE_S = 60, 15
"""A few scrapes of the idle server; in a real cluster there have been thousands."""
LEVER_ROLE = "kube-balloons-node-pools"
"""The right to move a NodePool's ceiling, which manifests/base grants to nobody."""


@dataclass(frozen=True)
class RushScene:
    """What the rush acts on."""

    plane: ControlPlane
    karpenter: Karpenter
    api: JsonApi


@contextlib.asynccontextmanager
async def open_rush(is_paced: bool) -> AsyncIterator[RushScene]:
    """Start everything, with our service and a JoinThrottle if it is the paced rush; end all of it."""
    boot = BootTime(median_s=BOOT_S, jitter=0.3, seed=3)
    pool = NodePoolSettings(name=NODE_POOL, consolidate_after_s=None, labels=POOL_LABELS)
    settings = KarpenterSettings(node_pools=(pool,), instance_types=(WORKER,), boot_time=boot)
    async with contextlib.AsyncExitStack() as stack:
        plane = await stack.enter_async_context(start_small_plane(1, QUICK_MANAGER_QPS, is_audited=True))
        api = await stack.enter_async_context(JsonApi(plane.access("lab:demo", ("system:masters",))))
        await api.create("/api/v1/namespaces", namespace(JOBS))
        karpenter = await stack.enter_async_context(start_karpenter(plane, settings))
        if is_paced:
            await _install(plane)
            await stack.enter_async_context(run_service(plane))
        yield RushScene(plane, karpenter, api)


async def _install(plane: ControlPlane) -> None:
    """What a user applies: the manifests, the right to move the ceiling, and the throttle."""
    await install(plane)
    account = f"--serviceaccount={ACCOUNT_NAMESPACE}:{ACCOUNT}"
    await plane.kubectl_async("create", "clusterrolebinding", LEVER_ROLE, f"--clusterrole={LEVER_ROLE}", account)
    await plane.kubectl_async("apply", "-f", "-", input=json.dumps(join_throttle(plane)))


async def wait_for_throttle(scene: RushScene) -> None:
    """Wait until the service reads the API server and knows its baseline, as it would long before any rush."""
    await scene.plane.kubectl_async(
        "wait", "--for=condition=SignalsFresh", f"jointhrottle/{THROTTLE}", f"--timeout={READ_DEADLINE_S}s"
    )
    await asyncio.sleep(BASELINE_S)


def join_throttle(plane: ControlPlane) -> dict[str, Any]:
    """The JoinThrottle of the demo; the servers are named, because loopback has no EndpointSlices."""
    return {
        "apiVersion": "kube-balloons.github.io/v1alpha1",
        "kind": "JoinThrottle",
        "metadata": {"name": THROTTLE},
        "spec": {
            "nodes": {"matchLabels": POOL_LABELS},
            "signals": {"scrape": {"servers": list(plane.server_urls)}},
            "levers": {"nodePoolLimits": {"names": [NODE_POOL]}},
        },
    }


def training(pods: int) -> dict[str, Any]:
    """A training job that takes `pods` whole nodes."""
    container = {"name": "train", "image": "registry.example/train:1", "resources": {"requests": {"cpu": "6"}}}
    spec = {"nodeSelector": POOL_LABELS, "terminationGracePeriodSeconds": 0, "containers": [container]}
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
