"""The stage: a control plane, an autoscaler with its cloud, the objects of a user, and what the story waits for."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from lab.cloud import BootTime, MachineSort
from lab.cloud.json_api import Json, JsonApi
from lab.cloud.karpenter import HOLLOW_GPU, KarpenterSettings, NodePoolSettings, start_karpenter
from lab.cloud.nodegroups import (
    AutoscalerSettings,
    NodeGroup,
    NodeGroupsSettings,
    autoscaler_binary,
    start_cluster_autoscaler,
    start_node_groups,
)
from lab.controlplane import ControlPlane, start_control_plane
from lab.errors import LabError

JOBS, WARM = "jobs", "kube-balloons"
"""Namespaces of the work and of the pool; the service may write in its own namespace without further rights."""
POOL, BARE = "gpu", "bare"
"""Two pools of the same machines; a BalloonPool is over the first alone."""
WORK_REQUESTS = {"cpu": "500m", "memory": "1Gi", "nvidia.com/gpu": "8"}
"""A whole GPU node per pod."""


def namespace(name: str) -> dict[str, Any]:
    """A namespace."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def labels_of(pool: str) -> dict[str, str]:
    """What the nodes of a pool have, and work for it selects."""
    return {"example.com/pool": pool}


def work_pod(name: str, pool: str) -> dict[str, Any]:
    """One worker of a training job: takes every GPU of a node of that pool."""
    container = {
        "name": "train",
        "image": "registry.example.com/train:1",
        "resources": {"requests": WORK_REQUESTS, "limits": {"nvidia.com/gpu": "8"}},
    }
    spec = {
        "nodeSelector": labels_of(pool),
        "terminationGracePeriodSeconds": 0,
        "containers": [container],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": JOBS}, "spec": spec}


def balloon_pool(**spec: Any) -> dict[str, Any]:
    """The BalloonPool over the nodes of the first pool."""
    return {
        "apiVersion": "kube-balloons.github.io/v1alpha1",
        "kind": "BalloonPool",
        "metadata": {"name": POOL, "namespace": WARM},
        "spec": {"nodes": {"selector": {"matchLabels": labels_of(POOL)}}, **spec},
    }


BOOT_S = 10.0
"""Median boot time of the simulated machines; real GPU nodes take 2 to 12 minutes."""
UNNEEDED_S = 10
"""How long a node must be unneeded before the autoscaler removes it; on real clusters some 10 minutes."""
MOST_NODES = 20
"""A node group's maximum: more than the story ever needs, so that growing too far would show."""
ADMIN_GROUPS = ("system:masters",)
KARPENTER, CLUSTER_AUTOSCALER = "karpenter", "cluster-autoscaler"
POOL_PATH = f"/apis/kube-balloons.github.io/v1alpha1/namespaces/{WARM}/balloonpools/{POOL}"


@dataclass(frozen=True)
class Counts:
    """Nodes of a pool, and how many of them are Ready."""

    nodes: int
    ready: int


class Scene:
    """What the story acts on and looks at."""

    def __init__(self, plane: ControlPlane, api: JsonApi, autoscaler: str) -> None:
        self.plane = plane
        self.api = api
        self.autoscaler = autoscaler

    async def counts(self, pool: str = POOL) -> Counts:
        """The pool's nodes as the API server has them."""
        nodes = [node for node in await self.api.items("/api/v1/nodes") if _is_in(pool, node)]
        return Counts(len(nodes), sum(map(_is_ready, nodes)))

    async def pool_status(self) -> Json:
        """The BalloonPool's status as the service last wrote it."""
        pool = await self.api.get(POOL_PATH)
        status: Json = (pool or {}).get("status", {})
        return status

    async def wait_warm(self, warm: int, deadline_s: float = 120.0) -> float:
        """Wait until the pool reports that many warm nodes."""
        started = time.monotonic()
        while (status := await self.pool_status()).get("warm") != warm:
            if time.monotonic() - started > deadline_s:
                raise LabError(f"waited {deadline_s:.0f} s for {warm} warm nodes; the pool says: {status}")
            await asyncio.sleep(0.2)
        return time.monotonic() - started


def _is_in(pool: str, node: Json) -> bool:
    labels: dict[str, str] = node["metadata"].get("labels", {})
    return labels_of(pool).items() <= labels.items()


def _is_ready(node: Json) -> bool:
    return any(c["type"] == "Ready" and c["status"] == "True" for c in node["status"].get("conditions") or ())


@contextlib.asynccontextmanager
async def open_scene() -> AsyncIterator[Scene]:
    """Start everything the story needs, on loopback, and end all of it."""
    autoscaler = os.environ.get("AUTOSCALER", KARPENTER)
    if autoscaler not in (KARPENTER, CLUSTER_AUTOSCALER):
        raise LabError(f"AUTOSCALER is {autoscaler!r}; accepted are {KARPENTER} and {CLUSTER_AUTOSCALER}")
    async with start_control_plane() as plane, JsonApi(plane.access("lab:demo", ADMIN_GROUPS)) as api:
        await api.create("/api/v1/namespaces", namespace(JOBS))
        async with _start_autoscaler(plane, autoscaler):
            yield Scene(plane, api, autoscaler)


@contextlib.asynccontextmanager
async def _start_autoscaler(plane: ControlPlane, autoscaler: str) -> AsyncIterator[None]:
    boot = BootTime(median_s=BOOT_S, jitter=0.1, seed=7)
    if autoscaler == CLUSTER_AUTOSCALER:
        async with _start_cluster_autoscaler(plane, boot):
            yield
        return
    pools = tuple(
        NodePoolSettings(name=name, consolidate_after_s=UNNEEDED_S, labels=labels_of(name)) for name in (POOL, BARE)
    )
    settings = KarpenterSettings(node_pools=pools, instance_types=(HOLLOW_GPU,), boot_time=boot)
    async with start_karpenter(plane, settings):
        yield


@contextlib.asynccontextmanager
async def _start_cluster_autoscaler(plane: ControlPlane, boot: BootTime) -> AsyncIterator[None]:
    autoscaler_binary()  # says what is missing before a cloud is started for nothing
    groups = tuple(
        NodeGroup(
            name=name,
            max_size=MOST_NODES,
            extended={"nvidia.com/gpu": "8"},
            labels=labels_of(name),
            sort=MachineSort.HOLLOW,
        )
        for name in (POOL, BARE)
    )
    cloud = NodeGroupsSettings(groups=groups, boot_time=boot)
    pace = AutoscalerSettings(scan_interval_s=2, unneeded_s=UNNEEDED_S, delay_after_add_s=5)
    async with start_node_groups(plane, cloud) as server, start_cluster_autoscaler(plane, server, pace):
        yield
