"""Paper machines: Node objects that one asyncio loop keeps alive, for hundreds to thousands of cheap nodes.

SIMULATED: there is no kubelet. The Nodes are created Ready with the allocatable that is asked for; pods that are
bound to them are set Running and Ready at once, run for ever, and vanish at once when they are deleted. What
etcd, the API server, the controllers and the scheduler do is real. The requests of a join are not those of a
kubelet: never measure joins with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
from collections.abc import AsyncIterator, Iterable, Iterator
from types import TracebackType
from typing import Self

import msgspec

from lab.cloud.machines.api_client import STRATEGIC_MERGE_PATCH, ApiClient, ApiError, for_each
from lab.cloud.machines.paper_objects import (
    ListMetadata,
    PaperNode,
    Pod,
    PodList,
    failed_status,
    final_delete,
    lease_object,
    node_conditions,
    node_object,
    running_status,
)
from lab.controlplane.credentials import ApiAccess

BOUND_PODS = {"fieldSelector": "spec.nodeName!="}
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
RETRY_AFTER_S = 1.0
GONE = {404, 409}
"""Somebody else removed the object, or replaced it by one of the same name: nothing is left to do."""


class _WatchEvent(msgspec.Struct, frozen=True):
    type: str
    object: msgspec.Raw


class _Versioned(msgspec.Struct, frozen=True):
    """An object of which only the resource version matters; that of an error has none."""

    metadata: ListMetadata = ListMetadata()


class PaperMachines:
    """The paper nodes of one API server; an async context manager that runs their shared kubelet.

    `heartbeat_every_s` renews each node's Lease. With None nobody renews: start the control plane with a
    `node_monitor_grace_period_s` longer than the run. `writers` bounds the requests in flight. Only pods that the label
    selector `pods` selects are served, all by default.
    Use within one event loop. On exit the nodes stay as objects, and nobody serves them any more.
    """

    def __init__(
        self, access: ApiAccess, *, heartbeat_every_s: float | None = 10.0, writers: int = 16, pods: str = ""
    ) -> None:
        self._client = ApiClient(access, user_agent="lab-paper-machines", max_connections=writers + 2)
        self._heartbeat_every_s = heartbeat_every_s
        self._writers = writers
        self._selected = {**BOUND_PODS, **({"labelSelector": pods} if pods else {})}
        self._nodes: set[str] = set()
        self._refusals: dict[str, str] = {}
        self._work: asyncio.Queue[Pod] = asyncio.Queue()
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        await self._client.__aenter__()
        loops = [self._follow_pods(), *(self._serve_pods() for _ in range(self._writers))]
        if self._heartbeat_every_s is not None:
            loops.append(self._keep_alive(self._heartbeat_every_s))
        self._tasks = [asyncio.create_task(loop) for loop in loops]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        results = await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._client.__aexit__(kind, error, trace)
        for result in results:
            # A loop ends only by being cancelled: anything else is a bug that must not stay unseen.
            if isinstance(result, Exception):
                raise result

    async def add(self, nodes: Iterable[PaperNode]) -> None:
        """Create nodes, Ready and schedulable (but for their own taints) when this returns.

        A Node that exists already, such as one of Karpenter's, is taken over and keeps its taints.
        """
        await for_each(nodes, self._add_one, at_once=self._writers)

    async def remove(self, *names: str) -> None:
        """Delete nodes as a cloud does; pods on them are left to the garbage collector."""
        await for_each(names, self._remove_one, at_once=self._writers)

    def switch_off(self, *names: str) -> None:
        """Let machines die: nobody serves them any more, their Nodes stay until somebody deletes them."""
        self._nodes.difference_update(names)

    def fall_silent(self, name: str) -> None:
        """Let a machine die: its Node stays, without heartbeats, and nobody serves its pods any more."""
        self._nodes.discard(name)

    def refuse_pods(self, *names: str, reason: str = "UnexpectedAdmissionError") -> None:
        """Let these nodes' kubelets admit no pod any more: each becomes Failed at once; what runs goes on."""
        self._refusals |= dict.fromkeys(names, reason)

    def admit_pods(self, *names: str) -> None:
        """Repair them."""
        for name in names:
            self._refusals.pop(name, None)

    async def set_ready(self, name: str, *, is_ready: bool) -> None:
        """Report a node Ready or not Ready."""
        conditions = node_conditions(is_ready=is_ready, timestamp=timestamp())
        body = {"status": {"conditions": conditions}}
        await self._client.patch(f"/api/v1/nodes/{name}/status", body, STRATEGIC_MERGE_PATCH)

    async def _add_one(self, node: PaperNode) -> None:
        self._nodes.add(node.name)
        try:
            await self._client.post("/api/v1/nodes", node_object(node, timestamp()))
        except ApiError as error:
            if error.status != 409:
                raise
            await self._take_over(node)
        else:
            # Every new Node gets the taint `not-ready`. The controller manager would take it off in its own time,
            # limited by its client; whoever asks for 5,000 nodes does not want to wait for that.
            taints = [dict(taint) for taint in node.taints]
            await self._client.patch(f"/api/v1/nodes/{node.name}", {"spec": {"taints": taints}})
        if self._heartbeat_every_s is not None:
            with unless_gone():
                await self._client.post(LEASES, lease_object(node.name, timestamp()))

    async def _take_over(self, node: PaperNode) -> None:
        # Like a kubelet that finds its Node: status and labels are its own, taints are not.
        wanted = node_object(node, timestamp())
        path = f"/api/v1/nodes/{node.name}"
        await self._client.patch(path, {"metadata": {"labels": wanted["metadata"]["labels"]}})
        await self._client.patch(f"{path}/status", {"status": wanted["status"]}, STRATEGIC_MERGE_PATCH)
        pods = await self._client.get("/api/v1/pods", fieldSelector=f"spec.nodeName={node.name}")
        self._enqueue(msgspec.json.decode(pods, type=PodList).items)

    async def _remove_one(self, name: str) -> None:
        self._nodes.discard(name)
        with unless_gone():
            await self._client.delete(f"/api/v1/nodes/{name}")

    # --- the shared kubelet ---

    async def _follow_pods(self) -> None:
        while True:
            try:
                async for pod in self._bound_pods():
                    self._enqueue([pod])
            except ApiError:
                await asyncio.sleep(RETRY_AFTER_S)

    def _enqueue(self, pods: Iterable[Pod]) -> None:
        for pod in pods:
            if _needs_work(pod) and pod.spec.node_name in self._nodes:
                self._work.put_nowait(pod)

    async def _bound_pods(self) -> AsyncIterator[Pod]:
        """Yield every bound pod, then each change, until the watch can no longer be resumed."""
        listed = msgspec.json.decode(await self._client.get("/api/v1/pods", **self._selected), type=PodList)
        for pod in listed.items:
            yield pod
        version: str | None = listed.metadata.resource_version
        while version is not None:
            lines = self._client.watch("/api/v1/pods", resourceVersion=version, **self._selected)
            version = None
            async for line in lines:
                event = msgspec.json.decode(line, type=_WatchEvent)
                version = msgspec.json.decode(event.object, type=_Versioned).metadata.resource_version
                if event.type in ("ADDED", "MODIFIED"):
                    yield msgspec.json.decode(event.object, type=Pod)

    async def _serve_pods(self) -> None:
        while True:
            pod = await self._work.get()
            try:
                with unless_gone():
                    await self._bring_to_wanted_state(pod)
            except ApiError:
                await asyncio.sleep(RETRY_AFTER_S)
                self._work.put_nowait(pod)

    async def _bring_to_wanted_state(self, pod: Pod) -> None:
        if pod.metadata.deletion_timestamp is not None:
            await self._client.delete(pod.path, final_delete(pod))
        else:
            why = self._refusals.get(pod.spec.node_name)
            status = failed_status(pod, why) if why else running_status(pod, timestamp())
            await self._client.patch(f"{pod.path}/status", status, STRATEGIC_MERGE_PATCH)

    async def _keep_alive(self, every_s: float) -> None:
        while True:
            await asyncio.sleep(every_s)
            await for_each(sorted(self._nodes), self._renew, at_once=self._writers)

    async def _renew(self, name: str) -> None:
        # A missed renewal is made good by the next one.
        with contextlib.suppress(ApiError):
            await self._client.patch(f"{LEASES}/{name}", {"spec": {"renewTime": timestamp()}})


def _needs_work(pod: Pod) -> bool:
    return pod.metadata.deletion_timestamp is not None or pod.status.phase == "Pending"


@contextlib.contextmanager
def unless_gone() -> Iterator[None]:
    """Whoever else removed the object: it is gone, as it was to be."""
    try:
        yield
    except ApiError as error:
        if error.status not in GONE:
            raise


def timestamp() -> str:
    """The wall clock, as the API writes it."""
    # With microseconds: a Lease asks for them, and every other time field takes them.
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
