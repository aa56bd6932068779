"""Pairs of replicas, each with a namespace, a Lease, a pool and nodes of its own, and work for whichever leads."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from benchmarks.takeover.replica import LeasePath, Replica
from lab.cloud.json_api import JsonApi
from lab.cloud.machines import PaperMachines, PaperNode
from lab.controlplane import ControlPlane, binding
from lab.demo.service import ACCOUNT_NAMESPACE, MANIFESTS, install, manifests_in

POOL = "gpu"
NODES = 3
TURN_S = 0.25
"""Between two changes of a lone pair's pool, each of which the leader answers with writes at once."""
SHARED_TURN_S = 0.75
"""The same where several pairs share one small server."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two replicas of one installation."""

    namespace: str
    replicas: tuple[Replica, Replica]

    @property
    def users(self) -> tuple[str, str]:
        """Their users at the server."""
        return self.replicas[0].name, self.replicas[1].name


@asynccontextmanager
async def open_pairs(
    plane: ControlPlane, count: int = 1, turn_s: float | None = None
) -> AsyncIterator[tuple[Pair, ...]]:
    """So many pairs, ready, on a cluster where each leader has something to write every `turn_s`; killed in the end.

    The first lives in the namespace of the manifests. By default a lone pair has more to write than each of several.
    """
    await install(plane)
    async with AsyncExitStack() as stack:
        machines = await stack.enter_async_context(PaperMachines(plane.access()))
        api = await stack.enter_async_context(JsonApi(plane.access()))
        if turn_s is None:
            turn_s = TURN_S if count == 1 else SHARED_TURN_S
        pairs = tuple([await _open_pair(stack, plane, machines, number) for number in range(count)])
        for pair in pairs:
            work = asyncio.create_task(keep_busy(api, pair.namespace, turn_s), name=f"work for {pair.namespace}")
            stack.callback(work.cancel)
        yield pairs


async def _open_pair(stack: AsyncExitStack, plane: ControlPlane, machines: PaperMachines, number: int) -> Pair:
    namespace = ACCOUNT_NAMESPACE if number == 0 else f"pair-{number}"
    users = (f"replica-{number}-a", f"replica-{number}-b")
    if number:
        await plane.apply_async({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    await _allow(plane, namespace, users)
    allocatable = {"cpu": "8", "memory": "32Gi", "pods": "110"}
    nodes = [f"{namespace}-n{i}" for i in range(NODES)]
    await machines.add([PaperNode(name=name, labels={"pool": namespace}, allocatable=allocatable) for name in nodes])
    await plane.apply_async(_pool(namespace))
    replicas = []
    for name in users:
        path = await stack.enter_async_context(LeasePath(plane.access(name)).open())
        replica = Replica(name, plane, path, plane.directory / "logs" / f"{name}.log", namespace)
        stack.push_async_callback(replica.kill)
        replica.start()
        replicas.append(replica)
        await replica.until_ready()
    return Pair(namespace, (replicas[0], replicas[1]))


async def _allow(plane: ControlPlane, namespace: str, users: tuple[str, str]) -> None:
    """The rights of the service's own account, for both replicas' users."""
    subjects = [{"kind": "User", "name": user} for user in users]
    places = (
        ("reader", "", False),
        ("reporter", "", False),
        ("lease", namespace, True),
        ("writer", namespace, False),
        ("servers", "default", True),
        ("servers", "kube-system", True),
    )
    bindings = (
        binding(f"replicas-{namespace}-{name}", f"kube-balloons-{name}", *subjects, namespace=where, is_own=is_own)
        for name, where, is_own in places
    )
    await plane.apply_async(_lease_role(namespace), *bindings)


def _lease_role(namespace: str) -> dict[str, Any]:
    """The manifests' Role for the Lease, in another namespace."""
    role = next(thing for thing in manifests_in(MANIFESTS / "base" / "lease.yaml") if thing["kind"] == "Role")
    return {**role, "metadata": {**role["metadata"], "namespace": namespace}}


async def keep_busy(api: JsonApi, namespace: str, turn_s: float) -> None:
    """Change the pool's size for ever, so that whoever leads has something to write."""
    path = f"/apis/kube-balloons.github.io/v1alpha1/namespaces/{namespace}/balloonpools/{POOL}"
    for size in itertools.cycle((1, 2)):
        await api.merge(path, {"spec": {"size": size}})
        await asyncio.sleep(turn_s)


def _pool(namespace: str) -> dict[str, object]:
    return {
        "apiVersion": "kube-balloons.github.io/v1alpha1",
        "kind": "BalloonPool",
        "metadata": {"name": POOL, "namespace": namespace},
        "spec": {"mode": "Hold", "size": 1, "nodes": {"selector": {"matchLabels": {"pool": namespace}}}},
    }
