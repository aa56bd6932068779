"""What the tests of the clouds write and look at on a real control plane."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from lab.cloud.json_api import Json, JsonApi
from lab.cloud.karpenter.karpenter import has_condition

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
BALLOON_PRIORITY = -10
LOOK_AGAIN_S = 0.5
"""A list of all machines, nodes and pods costs the server as much as what a test waits for."""


def deployment(name: str, replicas: int, cpu: str, **pod_spec: Any) -> Json:
    """Pods that run for ever and vanish at once when deleted; `pod_spec` is merged into the pod's spec."""
    resources = {"requests": {"cpu": cpu}}
    spec = {
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "work", "image": "registry.invalid/work", "resources": resources}],
        **pod_spec,
    }
    template = {"metadata": {"labels": {"app": name}}, "spec": spec}
    body = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": body}


class ClusterView:
    """Short questions about one cluster; every wait has a generous deadline and names what it waits for."""

    def __init__(self, api: JsonApi) -> None:
        self.api = api

    async def deploy(self, body: Json) -> None:
        await self.api.create(DEPLOYMENTS, body)

    async def scale(self, name: str, replicas: int) -> None:
        await self.api.merge(f"{DEPLOYMENTS}/{name}", {"spec": {"replicas": replicas}})

    async def allow_balloons(self) -> None:
        """Create the PriorityClass `balloon`."""
        path = "/apis/scheduling.k8s.io/v1/priorityclasses"
        names = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "balloon"}}
        await self.api.create(path, {**names, "value": BALLOON_PRIORITY, "preemptionPolicy": "Never"})

    async def nodes(self) -> dict[str, Json]:
        return {node["metadata"]["name"]: node for node in await self.api.items("/api/v1/nodes")}

    async def claims(self) -> dict[str, Json]:
        found = await self.api.items("/apis/karpenter.sh/v1/nodeclaims")
        return {claim["metadata"]["name"]: claim for claim in found}

    async def are_initialized(self, count: int) -> bool:
        """Whether there are so many machines at least, and Karpenter knows of all that they have booted."""
        claims = (await self.claims()).values()
        return len(claims) >= count and all(has_condition(claim, "Initialized") for claim in claims)

    async def pods(self, app: str) -> list[Json]:
        return await self.api.items(f"/api/v1/namespaces/default/pods?labelSelector=app%3D{app}")

    async def node_of(self, app: str) -> dict[str, str]:
        """Return the node of each Running pod of a Deployment."""
        running = [pod for pod in await self.pods(app) if pod["status"]["phase"] == "Running"]
        return {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in running}

    async def wait_running(self, app: str, count: int, deadline_s: float = 180) -> None:
        async def has_them() -> bool:
            return len(await self.node_of(app)) == count

        await until(f"{count} pods of {app} run", has_them, deadline_s)

    async def wait_nodes(self, count: int, deadline_s: float = 180) -> None:
        async def has_them() -> bool:
            return len(await self.nodes()) == count

        await until(f"there are {count} nodes", has_them, deadline_s)


async def until(what: str, holds: Callable[[], Awaitable[bool]], deadline_s: float = 180) -> None:
    """Return once it holds; fails with `what` when the deadline has passed."""
    end = time.monotonic() + deadline_s
    while not await holds():
        assert time.monotonic() < end, f"waited {deadline_s:.0f} s in vain until {what}"
        await asyncio.sleep(LOOK_AGAIN_S)


async def until_it_stays(
    what: str, holds: Callable[[], Awaitable[bool]], duration_s: float, deadline_s: float = 180
) -> None:
    """Return once it has held for `duration_s` at a stretch: for what may hold for a moment before it is true."""
    since = time.monotonic()

    async def stays() -> bool:
        nonlocal since
        if not await holds():
            since = time.monotonic()
        return time.monotonic() - since >= duration_s

    await until(what, stays, deadline_s)


async def throughout(what: str, holds: Callable[[], Awaitable[bool]], duration_s: float) -> None:
    """Watch for `duration_s`; fails with `what` as soon as it no longer holds."""
    end = time.monotonic() + duration_s
    while time.monotonic() < end:
        assert await holds(), f"no longer true: {what}"
        await asyncio.sleep(0.5)
