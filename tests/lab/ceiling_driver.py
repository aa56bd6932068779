"""A throttle with a fixed window instead of the law: reads a real cluster, writes its ceilings, and records."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from lab.controlplane import ControlPlane
from throttler.joins.demand import Crowd, waiting_crowds
from throttler.joins.joins import JoinRules
from throttler.kube.cluster_autoscaler import CapacityQuota
from throttler.kube.connection import ConnectionOptions, load_connection
from throttler.kube.errors import NotFoundError
from throttler.kube.karpenter import NodeClaim, NodePool
from throttler.kube.kube_client import KubeClient, decode, open_client
from throttler.kube.node import NodeWire, Shared
from throttler.kube.pod import PodWire, pod_from_wire
from throttler.kube.requests import Resource, Selection
from throttler.kube.selectors import LabelSelector
from throttler.levers.capacity_quota import QuotaMemory, QuotaView, decide_capacity_quota
from throttler.levers.lever_and_reasons import Holder, LeverBudget, LeverDecision
from throttler.levers.node_pool_limits import NodePoolMemory, NodePoolView, decide_node_pools
from throttler.levers.pool_shares import WaitingWork
from throttler.service.lever_calls import LeverWriteOutcome, LeverWriter

POOLS = Resource("karpenter.sh", "v1", "nodepools", "NodePool", False)
CLAIMS = Resource("karpenter.sh", "v1", "nodeclaims", "NodeClaim", False)
QUOTAS = Resource("autoscaling.x-k8s.io", "v1alpha1", "capacityquotas", "CapacityQuota", False)
NODES = Resource("", "v1", "nodes", "Node", False)
PODS = Resource("", "v1", "pods", "Pod")
LOOK_EVERY_S = 0.5
HOLDER = Holder(throttle="lab", lease="kube-balloons/kube-balloons", epoch=1)


@dataclass
class Record:
    """What was seen: (s since start, machines in flight, usable, ceiling) at every look, and all writes."""

    looks: list[tuple[float, int, int, str]] = field(default_factory=list)
    decisions: list[LeverDecision] = field(default_factory=list)
    writes: list[tuple[float, LeverWriteOutcome]] = field(default_factory=list)

    @property
    def most_in_flight(self) -> int:
        return max((in_flight for _, in_flight, _, _ in self.looks), default=0)


class CeilingDriver:
    """`window` machines may be in flight; change it while it runs."""

    def __init__(self, client: KubeClient, window: int) -> None:
        self.window = window
        self.is_stopping = False
        self.record = Record()
        self._client = client
        self._writer = LeverWriter(client)
        self._crowds: tuple[Crowd, ...] = ()
        self._pools, self._quota = NodePoolMemory(), QuotaMemory()
        self._start_s = time.monotonic()

    @property
    def now_s(self) -> float:
        return time.monotonic() - self._start_s

    async def run_node_pools(self, every_s: float = LOOK_EVERY_S) -> None:
        while True:
            await self.look_at_node_pools()
            await asyncio.sleep(every_s)

    async def look_at_node_pools(self) -> None:
        claims = [claim async for claim in self._items(CLAIMS, NodeClaim)]
        pools = [pool async for pool in self._items(POOLS, NodePool)]
        in_flight = sum(not claim.is_initialized and not claim.is_deleting for claim in claims)
        seen = [NodePoolView(pool=p, claims=tuple(c for c in claims if c.pool == p.metadata.name)) for p in pools]
        room = await self._room(len(claims) - in_flight, in_flight)
        waiting = WaitingWork(crowds=self._crowds, wall_s=time.time())
        decisions, self._pools = decide_node_pools(seen, room, waiting, HOLDER, self._pools, self.now_s)
        await self._carry_out(decisions, room)

    async def run_quota(self, name: str, target: Any) -> None:
        """`target()` is how many machines the cloud was asked for: those without a Node are in flight."""
        while True:
            nodes = [node async for node in self._items(NODES, NodeWire)]
            usable = sum(any(c.type == "Ready" and c.status == "True" for c in n.status.conditions) for n in nodes)
            booting = max(0, target() - len(nodes))
            room = await self._room(len(nodes), booting, target() - usable)
            quota = await self._found(name)
            seen = QuotaView(name=name, selector=LabelSelector(), api_version=QUOTAS.api_version, quota=quota)
            decision, self._quota = decide_capacity_quota(seen, room, HOLDER, self._quota, self.now_s)
            await self._carry_out((decision,), room)
            await asyncio.sleep(LOOK_EVERY_S)

    async def _room(self, existing: int, booting: int, in_flight: int | None = None) -> LeverBudget:
        in_flight = booting if in_flight is None else in_flight
        unbound = Selection(namespace="default", fields="spec.nodeName=,status.phase=Pending")
        shared = Shared()
        pods = [pod_from_wire(wire, shared) async for wire in self._items(PODS, PodWire, unbound)]
        self._crowds = waiting_crowds(pods, JoinRules(nodes=LabelSelector()), {})
        waiting = len(pods)
        self._in_flight, self._usable = in_flight, existing + booting - in_flight
        return LeverBudget(
            existing=existing,
            booting=booting,
            allowance=max(0, self.window - in_flight),
            admit=0,
            waiting=max(0, waiting - booting),
            may_move=True,
            is_stopping=self.is_stopping,
        )

    async def _carry_out(self, decisions: tuple[LeverDecision, ...], room: LeverBudget) -> None:
        for decision in decisions:
            results = await self._writer.carry_out(decision.writes)
            self.record.writes += [(self.now_s, result.outcome) for result in results]
            self.record.decisions.append(decision)
            look = (self.now_s, self._in_flight, self._usable, decision.ceiling)
            self.record.looks.append(look)

    async def _items(self, resource: Resource, wire: Any, selection: Selection | None = None) -> AsyncIterator[Any]:
        async for page in self._client.pages(resource, wire, selection or Selection()):
            for item in page.items:
                yield item

    async def _found(self, name: str) -> CapacityQuota | None:
        try:
            return decode(await self._client.get(QUOTAS, name), CapacityQuota)
        except NotFoundError:
            return None


@contextlib.asynccontextmanager
async def driving(plane: ControlPlane, window: int) -> AsyncIterator[CeilingDriver]:
    """A driver with a client of its own; the test starts its loop."""
    connection = await load_connection(ConnectionOptions(kubeconfig=str(plane.kubeconfig())))
    async with open_client(connection, "lab-throttle") as client:
        yield CeilingDriver(client, window)


@contextlib.asynccontextmanager
async def in_background(work: Any) -> AsyncIterator[asyncio.Task[None]]:
    """Run a loop beside the test; its failure fails the test."""
    task = asyncio.ensure_future(work)
    try:
        yield task
        if task.done():
            await task
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
