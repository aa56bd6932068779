"""The watch caches: which objects are followed, as this API server serves them, and whom their changes concern.

What this API server serves: its minor version, and CapacityBuffer if somebody installed it.
"""

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import structlog

from balloons.api.pool import BalloonPool
from balloons.render import BUFFER_GROUP
from balloons.service import watched_objects
from balloons.service.loop import Wake
from balloons.service.metrics import FAILED_BALLOONS, Metrics
from balloons.service.preemptions import Preemptions, found_by
from balloons.service.watched_objects import (
    POD_TEMPLATES,
    POOLS,
    PRIORITY_CLASSES,
    PoolWire,
    buffers,
    failed_balloon,
    pod_or_presence,
    pool_from_wire,
)
from balloons.view.snapshot import (
    Circumstances,
    Deployment,
    FailedBalloon,
    Index,
    PriorityClass,
    RefusedPool,
    StoredObject,
)
from throttler.kube.errors import ApiError, NotFoundError
from throttler.kube.kube_client import KubeClient, decode
from throttler.kube.list_and_watch import Key
from throttler.kube.metadata import ObjectKey
from throttler.kube.node import Node, NodeWire, Shared, node_from_wire
from throttler.kube.pod import POOL_LABEL, Pod, PodWire
from throttler.kube.reflector import Reflector
from throttler.kube.requests import DEPLOYMENTS, EVERYTHING, NODES, PODS, Resource, Selection
from throttler.kube.store import Listener

REDISCOVER_S = 60.0
"""CapacityBuffer may be installed at any time; one cheap request a minute notices."""
USUAL_SILENCE_S = 62.0
"""Bookmarks come once a minute: silence up to here is no sign of age."""
UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"
"""Finished pods take no room on their nodes and are not even listed."""
FAILED = Selection(labels=POOL_LABEL, fields="status.phase=Failed")
"""But for balloons that failed: few, whatever the size of the cluster, and they say which node refuses them."""
log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Served:
    """`minor` is 0 when unknown, `buffer_version` (group/version) empty when CapacityBuffer is not served."""

    minor: int = 0
    buffer_version: str = ""


class _Version(msgspec.Struct):
    minor: str = ""


class _GroupVersion(msgspec.Struct, rename="camel"):
    group_version: str = ""


class _Group(msgspec.Struct, rename="camel"):
    preferred_version: _GroupVersion = msgspec.field(default_factory=_GroupVersion)


class _ResourceName(msgspec.Struct):
    name: str


class _Resources(msgspec.Struct):
    resources: list[_ResourceName] = []


async def discover(client: KubeClient) -> Served:
    """Ask the server; raises ApiError."""
    minor = decode(await client.get_raw("/version"), _Version).minor
    digits = re.match(r"\d{1,4}", minor)
    return Served(int(digits.group()) if digits else 0, await _buffer_version(client))


async def _buffer_version(client: KubeClient) -> str:
    try:
        found = decode(await client.get_raw(f"/apis/{BUFFER_GROUP}"), _Group).preferred_version.group_version
        served = decode(await client.get_raw(f"/apis/{found}"), _Resources).resources
    except NotFoundError:
        return ""
    return found if any(each.name == "capacitybuffers" for each in served) else ""


class Watches:
    """All caches of the service. `run` follows the cluster until cancelled."""

    def __init__(
        self,
        client: KubeClient,
        index: Index,
        wake: Wake,
        metrics: Metrics,
        preemptions: Preemptions,
        *,
        clock: Callable[[], float],
    ) -> None:
        self._client = client
        self._index = index
        self._wake = wake
        self._metrics = metrics
        self._preemptions = preemptions
        self._clock = clock
        self._shared = Shared()
        self._served = Served()
        self._was_complete = False
        self._incomplete_since_s = clock()
        shared = self._shared
        ours = Selection(labels=POOL_LABEL)
        self._watches: dict[str, Reflector[Any, Any]] = {}
        self._pools = self._watch(POOLS, PoolWire, pool_from_wire, self._pool_changed)
        self._watch(NODES, NodeWire, lambda wire: node_from_wire(wire, shared), self._node_changed)
        self._watch(
            PODS, PodWire, lambda wire: pod_or_presence(wire, shared), self._pod_changed, Selection(fields=UNFINISHED)
        )
        self._watch(
            PODS, PodWire, lambda wire: failed_balloon(wire, shared), self._failed_changed, FAILED, FAILED_BALLOONS
        )
        self._watch(DEPLOYMENTS, Deployment, _as_it_is, self._deployment_changed, ours)
        self._watch(PRIORITY_CLASSES, PriorityClass, _as_it_is, self._class_changed)

    async def run(self) -> None:
        """Follow everything; ends only by cancellation."""
        async with asyncio.TaskGroup() as group:
            for watch in self._watches.values():
                group.create_task(watch.run(), name=f"watch {watch.name}")
            group.create_task(self._keep_discovering(), name="discovery")

    @property
    def is_complete(self) -> bool:
        """Whether every cache shows everything."""
        return not self.missing

    @property
    def missing(self) -> tuple[str, ...]:
        """The caches that do not, with the server's reason where it gave one."""
        return tuple(watch.in_words for watch in self._watches.values() if not watch.store.is_complete)

    @property
    def incomplete_s(self) -> float:
        """For how long some cache has not shown everything; 0 while all do."""
        return 0.0 if self.is_complete else self._clock() - self._incomplete_since_s

    def circumstances(self) -> Circumstances:
        """What the next snapshot says about itself."""
        self._measure()
        return Circumstances(
            missing=self.missing,
            age_s=max(0.0, max(watch.age_s for watch in self._watches.values()) - USUAL_SILENCE_S),
            unreadable={ObjectKey(*key): why for key, why in self._pools.store.skipped.items()},
            buffer_version=self._served.buffer_version,
            server_minor=self._served.minor,
        )

    # --- what the fence asks ---

    def version_of(self, plural: str) -> str:
        """The version up to which a resource's cache shows everything; empty where there is none such."""
        watch = self._watches.get(plural)
        is_whole = watch is not None and watch.store.is_complete and not watch.is_listing
        return watch.store.resource_version if watch is not None and is_whole else ""

    def has_pod(self, node: str, uid: str) -> bool:
        """Whether the pod is still there and not leaving."""
        pod = self._index.pod_on(node, uid) or self._index.failed_balloon(uid)
        return pod is not None and not pod.is_terminating

    # --- what changes ---

    def _node_changed(self, key: Key, before: Node | None, after: Node | None) -> None:
        self._index.change_node(before, after)
        self._wake.poke(watched_objects.node_within_s(before, after))

    def _pod_changed(self, key: Key, before: Pod | None, after: Pod | None) -> None:
        self._index.change_pod(before, after)
        seen = self._preemptions.pod_changed(before, after, self._clock())
        if seen is not None:
            self._metrics.gave_way(seen)
        self._note_arrival(before, after)
        self._wake.poke(watched_objects.pod_within_s(before, after))

    def _failed_changed(self, key: Key, before: FailedBalloon | None, after: FailedBalloon | None) -> None:
        self._index.change_failed_balloon(before, after)
        self._wake.poke(watched_objects.failure_within_s(before, after))

    def _note_arrival(self, before: Pod | None, after: Pod | None) -> None:
        name = after.node if after is not None else ""
        found, pool = found_by(before, after, self._index.node(name)), self._index.pool_of_node(name)
        if found is not None and pool is not None:
            self._metrics.bound(pool, found)

    def _pool_changed(
        self, key: Key, before: BalloonPool | RefusedPool | None, after: BalloonPool | RefusedPool | None
    ) -> None:
        self._index.change_pool(before, after)
        known = before.metadata if before else None, after.metadata if after else None
        self._wake.poke(watched_objects.pool_within_s(*known))

    def _deployment_changed(self, key: Key, before: Deployment | None, after: Deployment | None) -> None:
        self._index.change_deployment(before, after)
        self._wake.poke(watched_objects.deployment_within_s(before, after))

    def _class_changed(self, key: Key, before: PriorityClass | None, after: PriorityClass | None) -> None:
        self._index.change_priority_class(before, after)
        self._wake.poke(watched_objects.SOON_S)

    def _buffer_changed(self, key: Key, before: StoredObject | None, after: StoredObject | None) -> None:
        self._index.change_buffer(before, after)
        self._wake.poke(watched_objects.SOON_S)

    def _template_changed(self, key: Key, before: StoredObject | None, after: StoredObject | None) -> None:
        self._index.change_template(before, after)
        self._wake.poke(watched_objects.SOON_S)

    def _noticed(self) -> None:
        """Something was heard: a view that has become complete, or stopped being so, is worth a decision."""
        if self._was_complete != (is_complete := self.is_complete):
            self._was_complete = is_complete
            self._incomplete_since_s = self._clock()
            self._wake.poke(watched_objects.URGENT_S)

    # --- what is followed ---

    def _watch(
        self,
        resource: Resource,
        wire: Any,
        shape: Callable[[Any], Any],
        listener: Listener[Any],
        selection: Selection = EVERYTHING,
        name: str = "",
    ) -> Reflector[Any, Any]:
        watch: Reflector[Any, Any] = Reflector(
            self._client,
            resource,
            wire,
            shape,
            selection,
            on_change=self._noticed,
            observer=self._metrics.cache_event,
            listener=_never_raising(name or resource.plural, listener),
            name=name,
        )
        self._watches[watch.name] = watch
        return watch

    async def _keep_discovering(self) -> None:
        """Follow CapacityBuffers and their PodTemplates while the server serves them."""
        following: asyncio.Task[None] | None = None
        try:
            while True:
                served = await self._discover()
                if served.buffer_version != self._served.buffer_version:
                    await _end(following)
                    self._unfollow_buffers()
                    following = self._follow_buffers(served.buffer_version)
                self._served = served
                await asyncio.sleep(REDISCOVER_S)
        finally:
            await _end(following)

    async def _discover(self) -> Served:
        try:
            return await discover(self._client)
        except ApiError as error:
            log.warning("discovery failed", problem=error.message)
            return self._served

    def _follow_buffers(self, api_version: str) -> asyncio.Task[None] | None:
        if not api_version:
            return None
        ours = Selection(labels=POOL_LABEL)
        found = [
            self._watch(buffers(api_version), StoredObject, _as_it_is, self._buffer_changed, ours),
            self._watch(POD_TEMPLATES, StoredObject, _as_it_is, self._template_changed, ours),
        ]
        return asyncio.create_task(_run_all(found), name="watch buffers")

    def _unfollow_buffers(self) -> None:
        for plural in ("capacitybuffers", POD_TEMPLATES.plural):
            watch = self._watches.pop(plural, None)
            if watch is not None:
                # Whoever listens to it learns that everything is gone.
                watch.store.keep_only(set())
                self._metrics.unwatch(plural)

    def _measure(self) -> None:
        for plural, watch in self._watches.items():
            self._metrics.watch(plural, watch.age_s, watch.store.is_complete, len(watch.store.skipped))


def _as_it_is(wire: Any) -> Any:
    return wire


def _never_raising(plural: str, listener: Listener[Any]) -> Listener[Any]:
    """One object that nobody could foresee must not end the watch of all others, now and after every restart."""

    def listen(key: Key, before: Any, after: Any) -> None:
        try:
            listener(key, before, after)
        except Exception as error:
            log.error("object not understood", resource=plural, key="/".join(key), exc_info=error)

    return listen


async def _run_all(watches: list[Reflector[Any, Any]]) -> None:
    async with asyncio.TaskGroup() as group:
        for watch in watches:
            group.create_task(watch.run())


async def _end(task: asyncio.Task[None] | None) -> None:
    if task is not None:
        task.cancel()
        await asyncio.wait([task])
