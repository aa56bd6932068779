"""Every pod of a control plane as one watch shows it, with the moment of each step; one clock for all of it."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

import msgspec

from lab.cloud.machines.api_client import ApiClient
from lab.controlplane import ApiAccess
from throttler.kube.pod import POOL_LABEL

PODS = "/api/v1/pods"
PREEMPTED = "PreemptionByScheduler"


class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str = ""
    name: str = ""
    namespace: str = ""
    labels: dict[str, str] = {}


class _Condition(msgspec.Struct, frozen=True):
    type: str
    reason: str = ""


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    node_name: str = ""


class _Status(msgspec.Struct, frozen=True):
    phase: str = "Pending"
    conditions: tuple[_Condition, ...] = ()


class _Pod(msgspec.Struct, frozen=True):
    metadata: _Metadata
    spec: _Spec = _Spec()
    status: _Status = _Status()


class _Event(msgspec.Struct, frozen=True):
    type: str
    object: msgspec.Raw


class _List(msgspec.Struct, frozen=True):
    metadata: _Metadata
    items: tuple[_Pod, ...] = ()


@dataclass(slots=True)
class SeenPod:
    """One pod; times are monotonic seconds, None where it has not happened."""

    is_balloon: bool
    node: str = ""
    is_running: bool = False
    is_preempted: bool = False
    expected_at: float | None = None
    bound_at: float | None = None
    gone_at: float | None = None


@dataclass(slots=True)
class PodWatch:
    """Use as an async context manager; `pods` is live, `gone` are those that have been deleted.

    Only pods that the label selector `selector` selects are followed, all by default.
    """

    access: ApiAccess
    selector: str = ""
    pods: dict[tuple[str, str], SeenPod] = field(default_factory=dict)
    gone: list[SeenPod] = field(default_factory=list)
    bound_balloons: int = 0
    """Balloons that have been bound so far, whether they are still there or not."""
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _client: ApiClient | None = None
    _task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._client = await ApiClient(self.access, user_agent="benchmark-watch").__aenter__()
        self._task = asyncio.create_task(self._follow(self._client, await self._list(self._client)))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._task is not None
        assert self._client is not None
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self._client.__aexit__(kind, error, trace)

    async def until(self, is_reached: Callable[[], bool], what: str, timeout_s: float = 120.0) -> float:
        """Wait for a state of the pods; returns when it was reached, raises TimeoutError that says what was not."""
        try:
            async with asyncio.timeout(timeout_s):
                while not is_reached():
                    self._changed.clear()
                    await self._changed.wait()
                    self._raise_if_ended()
        except TimeoutError as error:
            raise TimeoutError(f"not within {timeout_s:.0f} s: {what}") from error
        return time.monotonic()

    @property
    def _query(self) -> dict[str, str]:
        return {"labelSelector": self.selector} if self.selector else {}

    def _raise_if_ended(self) -> None:
        if self._task is not None and self._task.done():
            self._task.result()

    def expect(self, key: tuple[str, str]) -> None:
        """A pod of this namespace and name is about to be submitted: its wait begins now."""
        self.pods[key] = SeenPod(is_balloon=False, expected_at=time.monotonic())

    def held_nodes(self) -> set[str]:
        """Nodes with a running balloon."""
        return {pod.node for pod in self.pods.values() if pod.is_balloon and pod.is_running}

    async def _follow(self, client: ApiClient, version: str) -> None:
        """The server ends watches that fall behind: go on from there, or list anew where it has forgotten that."""
        try:
            while True:
                async for line in client.watch(PODS, resourceVersion=version, **self._query):
                    event = msgspec.json.decode(line, type=_Event)
                    if event.type == "ERROR":
                        version = await self._list(client)
                        break
                    version = self._see(event.type, msgspec.json.decode(event.object, type=_Pod))
        finally:
            self._changed.set()

    async def _list(self, client: ApiClient) -> str:
        listed = msgspec.json.decode(await client.get(PODS, **self._query), type=_List)
        pods = {(pod.metadata.namespace, pod.metadata.name): pod for pod in listed.items}
        for pod in pods.values():
            self._see("MODIFIED", pod)
        # One that is expected and has no node may not have arrived yet; all others that are not listed are gone.
        for key in [
            key for key, known in self.pods.items() if key not in pods and (known.node or not known.expected_at)
        ]:
            self.gone.append(self.pods.pop(key))
        return listed.metadata.resource_version

    def _see(self, kind: str, pod: _Pod) -> str:
        now, key = time.monotonic(), (pod.metadata.namespace, pod.metadata.name)
        if kind in ("ADDED", "MODIFIED"):
            self._update(self.pods.setdefault(key, SeenPod(POOL_LABEL in pod.metadata.labels)), pod, now)
        elif kind == "DELETED" and key in self.pods:
            known = self.pods.pop(key)
            self._update(known, pod, now)
            known.gone_at = now
            self.gone.append(known)
        self._changed.set()
        return pod.metadata.resource_version

    def _update(self, known: SeenPod, pod: _Pod, now: float) -> None:
        if pod.spec.node_name and known.bound_at is None:
            known.node, known.bound_at = pod.spec.node_name, now
            self.bound_balloons += known.is_balloon
        known.is_running = pod.status.phase == "Running"
        known.is_preempted |= any(condition.reason == PREEMPTED for condition in pod.status.conditions)
