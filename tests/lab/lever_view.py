"""What the tests of admission levers ask of a real API server, and write to it as the service would."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

from lab.controlplane import ControlPlane
from throttler.kube.connection import ConnectionOptions, load_connection
from throttler.kube.kube_client import KubeClient, open_client
from throttler.kube.node import Node, NodeWire, Shared, node_from_wire
from throttler.kube.pod import Pod, PodWire, pod_from_wire
from throttler.kube.requests import Selection
from throttler.levers.lever_and_reasons import Clocks, LeverBudget, LeverDecision
from throttler.service.lever_calls import LeverWriteOutcome, LeverWriter
from throttler.service.restore_all import NODES, PODS

PATIENCE_S = 180.0


def room(places: int = 0, *, is_stopping: bool = False) -> LeverBudget:
    """Room for so many, whichever way the lever counts."""
    return LeverBudget(
        existing=0, booting=0, allowance=places, admit=places, waiting=1, may_move=True, is_stopping=is_stopping
    )


def this_moment() -> Clocks:
    return Clocks(time.monotonic(), time.time())


class View:
    """Objects as the service's caches hold them, and plain ones."""

    def __init__(self, plane: ControlPlane, client: KubeClient) -> None:
        self.plane, self.client = plane, client
        self._writer = LeverWriter(client)

    async def nodes(self, selector: str | None = None) -> list[Node]:
        shared, found = Shared(), list[Node]()
        async for page in self.client.pages(NODES, NodeWire, Selection(labels=selector)):
            found += [node_from_wire(wire, shared) for wire in page.items]
        return found

    async def pods(self, namespace: str) -> list[Pod]:
        shared, found = Shared(), list[Pod]()
        async for page in self.client.pages(PODS, PodWire, Selection(namespace=namespace)):
            found += [pod_from_wire(wire, shared) for wire in page.items]
        return found

    async def carry_out(self, decision: LeverDecision) -> list[LeverWriteOutcome]:
        """Each write by itself, as the service does it."""
        return [(await self._writer.carry_out((write,)))[-1].outcome for write in decision.writes]

    async def get(self, what: str, name: str = "", *, namespace: str = "default", labels: str = "") -> dict[str, Any]:
        return await self.plane.get_async(what, name, namespace=namespace, labels=labels)

    async def apply(self, *things: dict[str, Any]) -> None:
        await self.plane.apply_async(*things)


@asynccontextmanager
async def view(plane: ControlPlane) -> AsyncIterator[View]:
    connection = await load_connection(ConnectionOptions(kubeconfig=str(plane.kubeconfig())))
    async with open_client(connection, "service") as client:
        yield View(plane, client)


async def eventually(what: Callable[[], Any]) -> Any:
    """The first truthy answer of an async question."""
    deadline = time.monotonic() + PATIENCE_S
    while not (found := await what()):
        assert time.monotonic() < deadline, what
        await asyncio.sleep(0.5)
    return found


def gated_deployment(namespace: str, name: str, replicas: int, gates: Iterable[str]) -> dict[str, Any]:
    """A workload whose author put gates into its template; each pod wants most of a machine of 8 cores."""
    spec = {
        "schedulingGates": [{"name": each} for each in gates],
        "nodeSelector": {"test": namespace},
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "work", "image": "none", "resources": {"requests": {"cpu": "6"}}}],
    }
    template = {"metadata": {"labels": {"app": name}}, "spec": spec}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template},
    }


def daemon_set(namespace: str, name: str, node_selector: dict[str, str]) -> dict[str, Any]:
    """A DaemonSet that does not tolerate our taint."""
    spec = {
        "nodeSelector": node_selector,
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "agent", "image": "none"}],
    }
    template = {"metadata": {"labels": {"app": name}}, "spec": spec}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"selector": {"matchLabels": {"app": name}}, "template": template},
    }
