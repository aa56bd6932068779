"""A real control plane with paper nodes and our own service on it: the ground on which whole nodes are taken."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.pod_watch import PodWatch
from lab.cloud.machines import PaperMachines, PaperNode
from lab.cloud.machines.api_client import ApiClient, ApiError
from lab.controlplane import ControlPlane, ControlPlaneSettings, start_control_plane
from lab.controlplane.settings import ControllerManagerSettings, SchedulerSettings
from lab.demo.service import ACCOUNT_NAMESPACE, install

JOBS = "jobs"
POOL = "gpu"
POOL_LABELS = {"example.com/pool": "gpu"}
POOL_PATH = f"/apis/kube-balloons.github.io/v1alpha1/namespaces/{ACCOUNT_NAMESPACE}/balloonpools"
ALLOCATABLE = {"cpu": "96", "memory": "1100Gi", "pods": "110", "nvidia.com/gpu": "8"}
WORK_REQUESTS = {"cpu": "80", "memory": "900Gi", "nvidia.com/gpu": "8"}
"""One worker takes a whole node."""
NEVER_S = 86_400


@dataclass(frozen=True, slots=True)
class PaperCluster:
    """The control plane, a client for the load, a watch of all pods, and the nodes."""

    plane: ControlPlane
    client: ApiClient
    watch: PodWatch
    machines: PaperMachines

    async def make_namespace(self, name: str) -> None:
        """A namespace, and the ServiceAccount without which no pod is let in."""
        await self.client.post("/api/v1/namespaces", {"metadata": {"name": name}})
        path = f"/api/v1/namespaces/{name}/serviceaccounts/default"
        for _ in range(100):
            with contextlib.suppress(ApiError):
                await self.client.get(path)
                return
            await asyncio.sleep(0.1)
        raise TimeoutError(f"no default ServiceAccount in {name}")

    async def make_pool(self, name: str = POOL, **spec: Any) -> None:
        """A BalloonPool over the paper nodes, in Hold unless told otherwise."""
        spec = {"nodes": {"selector": {"matchLabels": POOL_LABELS}}, "mode": "Hold", **spec}
        body = {"apiVersion": "kube-balloons.github.io/v1alpha1", "kind": "BalloonPool"}
        await self.client.post(POOL_PATH, {**body, "metadata": {"name": name}, "spec": spec})

    async def patch_pool(self, spec: Mapping[str, Any], because: str = "", name: str = POOL) -> None:
        """Change a pool, and wait until the service gives the reason that is waited for."""
        await self.client.patch(f"{POOL_PATH}/{name}", {"spec": spec})
        for _ in range(300):
            pool = json.loads(await self.client.get(f"{POOL_PATH}/{name}"))
            status, generation = pool.get("status", {}), pool["metadata"]["generation"]
            if status.get("observedGeneration") == generation and because in ("", status.get("because")):
                return
            await asyncio.sleep(0.1)
        raise TimeoutError(f"pool {name} does not say {because!r}: {pool.get('status')}")


def work_pod(name: str, requests: Mapping[str, str] = WORK_REQUESTS, **spec: Any) -> dict[str, Any]:
    """A worker of a training job; every GPU of a node unless told otherwise."""
    devices = {key: amount for key, amount in requests.items() if "/" in key}
    container = {
        "name": "train",
        "image": "registry.example.com/train:1",
        "resources": {"requests": dict(requests), "limits": devices},
    }
    spec = {"terminationGracePeriodSeconds": 0, "containers": [container], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": JOBS}, "spec": spec}


@contextlib.asynccontextmanager
async def start_paper_cluster(
    nodes: int,
    controller_manager: ControllerManagerSettings | None = None,
    scheduler: SchedulerSettings | None = None,
    beside: Iterable[PaperNode] = (),
    pods: str = "",
) -> AsyncIterator[PaperCluster]:
    """Start everything but the service. Client limits are the binaries' defaults unless given.

    `nodes` paper nodes belong to the pool, those `beside` do not. Only pods that the label selector `pods` selects are
    watched and made Running, all by default.
    """
    manager = controller_manager or ControllerManagerSettings(node_monitor_grace_period_s=NEVER_S)
    settings = ControlPlaneSettings(controller_manager=manager, scheduler=scheduler or SchedulerSettings())
    async with contextlib.AsyncExitStack() as stack:
        plane = await stack.enter_async_context(start_control_plane(settings))
        await install(plane)
        access = plane.access()
        client = await stack.enter_async_context(ApiClient(access, user_agent="benchmark", max_connections=100))
        paper = await stack.enter_async_context(PaperMachines(access, heartbeat_every_s=None, writers=32, pods=pods))
        watch = await stack.enter_async_context(PodWatch(access, pods))
        cluster = PaperCluster(plane, client, watch, paper)
        await cluster.make_namespace(JOBS)
        await paper.add([*(_pool_node(number) for number in range(nodes)), *beside])
        yield cluster


def _pool_node(number: int) -> PaperNode:
    return PaperNode(name=f"paper-{number:05}", labels=POOL_LABELS, allocatable=ALLOCATABLE)
