"""The watch caches: which objects are followed, as this API server serves them, and whom their changes concern.

Asked of the server are its minor version, and whether somebody installed CapacityBuffer.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from balloons.api.pool import BalloonPool, Strategy
from balloons.balloon_manifest import BUFFER_GROUP
from balloons.service import watched_kinds
from balloons.service.loop import Wake
from balloons.service.metrics import FAILED_BALLOONS, Metrics
from balloons.service.preemptions_and_warm_hits import Preemptions, found_by
from balloons.service.watched_kinds import (
    BUFFER_PLURAL,
    POD_TEMPLATES,
    POOLS,
    PRIORITY_CLASSES,
    PoolWire,
    buffers,
    failed_balloon,
    pod_or_presence,
    pool_from_wire,
)
from balloons.view.index_and_snapshot import (
    Circumstances,
    Deployment,
    FailedBalloon,
    Index,
    PriorityClass,
    StoredObject,
    StoredPool,
)
from throttler.kube.decoding import Key
from throttler.kube.errors import ForbiddenError
from throttler.kube.kube_client import KubeClient
from throttler.kube.metadata import ObjectKey
from throttler.kube.node import Node, NodeWire, Shared, node_from_wire
from throttler.kube.pod import POOL_LABEL, Pod, PodWire
from throttler.kube.reflector import Reflector
from throttler.kube.requests import DEPLOYMENTS, NODES, PODS, Selection
from throttler.kube.watch_set import Followed, WatchSet, keep_discovering, served_version, server_minor

UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"
"""Finished pods take no room on their nodes and are not even listed."""
FAILED = Selection(labels=POOL_LABEL, fields="status.phase=Failed")
"""But for balloons that failed: few, whatever the size of the cluster, and they say which node refuses them."""


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
        self._buffer_version = ""
        self._server_minor = 0
        self._was_complete = False
        self._incomplete_since_s = clock()
        self._always = self._always_followed()
        self._set = WatchSet(client, lambda name: self._noticed(), metrics.cache_event)
        self._set.follow(self._always)

    async def run(self) -> None:
        """Follow everything; ends only by cancellation."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._set.run(), name="watches")
            group.create_task(keep_discovering("CapacityBuffers", self._discover), name="discovery")

    @property
    def is_complete(self) -> bool:
        """Whether every cache shows everything that pools need."""
        return self._set.is_complete or not self.missing

    @property
    def missing(self) -> tuple[str, ...]:
        """The caches that do not, with the server's reason where it gave one."""
        return self._set.missing_without(self._spare)

    @property
    def _spare(self) -> frozenset[str]:
        """CapacityBuffers and their templates that may not or cannot be read, while no pool holds nodes by them.

        An autoscaler brings the kind, at any time. No pool of another strategy is to stand still for it.
        """
        refused = frozenset(
            name
            for name in (BUFFER_PLURAL, POD_TEMPLATES.plural)
            if (cache := self._set.caches.get(name)) is not None and not cache.store.items and _is_refused(cache)
        )
        is_used = bool(refused) and any(map(_uses_buffers, self._set.items(POOLS.plural).values()))
        return frozenset() if is_used else refused

    @property
    def incomplete_s(self) -> float:
        """For how long some cache has not shown everything; 0 while all do."""
        return 0.0 if self.is_complete else self._clock() - self._incomplete_since_s

    def circumstances(self) -> Circumstances:
        """What the next snapshot says about itself."""
        spare = self._spare
        self._metrics.watches("pools", self._set.states_without(spare))
        unreadable = self._set.caches[POOLS.plural].store.skipped
        return Circumstances(
            missing=self.missing,
            age_s=self._set.age_without(spare),
            unreadable={ObjectKey(*key): why for key, why in unreadable.items()},
            buffer_version=self._buffer_version,
            server_minor=self._server_minor,
        )

    # --- whether our own writes are seen ---

    def version_of(self, plural: str) -> str:
        """The version up to which a resource's cache shows everything; empty where there is none such."""
        return self._set.version_of(plural)

    def has_pod(self, node: str, uid: str) -> bool:
        """Whether the pod is still there and not leaving, as far as pods are seen at all.

        Nobody waits for one to go that cannot be seen to: what keeps `maxSize` while pods are not seen may not wait.
        """
        caches = self._set.caches
        if not all(caches[name].store.is_complete for name in (PODS.plural, FAILED_BALLOONS)):
            return False
        pod = self._index.pod_on(node, uid) or self._index.failed_balloon(uid)
        return pod is not None and not pod.is_terminating

    # --- what changes ---

    def _node_changed(self, key: Key, before: Node | None, after: Node | None) -> None:
        self._index.change_node(before, after)
        self._wake.poke(watched_kinds.node_within_s(before, after))

    def _pod_changed(self, key: Key, before: Pod | None, after: Pod | None) -> None:
        self._index.change_pod(before, after)
        event = self._preemptions.pod_changed(before, after, self._clock())
        if event is not None:
            self._metrics.gave_way(event)
        self._note_arrival(before, after)
        self._wake.poke(watched_kinds.pod_within_s(before, after))

    def _failed_changed(self, key: Key, before: FailedBalloon | None, after: FailedBalloon | None) -> None:
        self._index.change_failed_balloon(before, after)
        self._wake.poke(watched_kinds.failure_within_s(before, after))

    def _note_arrival(self, before: Pod | None, after: Pod | None) -> None:
        name = after.node if after is not None else ""
        warmth, pool = found_by(before, after, self._index.node(name)), self._index.pool_of_node(name)
        if warmth is not None and pool is not None:
            self._metrics.bound(pool, warmth)

    def _pool_changed(self, key: Key, before: StoredPool | None, after: StoredPool | None) -> None:
        self._index.change_pool(before, after)
        known = before.metadata if before else None, after.metadata if after else None
        self._wake.poke(watched_kinds.pool_within_s(*known))

    def _deployment_changed(self, key: Key, before: Deployment | None, after: Deployment | None) -> None:
        self._index.change_deployment(before, after)
        self._wake.poke(watched_kinds.deployment_within_s(before, after))

    def _class_changed(self, key: Key, before: PriorityClass | None, after: PriorityClass | None) -> None:
        self._index.change_priority_class(before, after)
        self._wake.poke(watched_kinds.SOON_S)

    def _buffer_changed(self, key: Key, before: StoredObject | None, after: StoredObject | None) -> None:
        self._index.change_buffer(before, after)
        self._wake.poke(watched_kinds.SOON_S)

    def _template_changed(self, key: Key, before: StoredObject | None, after: StoredObject | None) -> None:
        self._index.change_template(before, after)
        self._wake.poke(watched_kinds.SOON_S)

    def _noticed(self) -> None:
        """Something was heard: a view that has become complete, or stopped being so, is worth a decision."""
        if self._was_complete != (is_complete := self.is_complete):
            self._was_complete = is_complete
            self._incomplete_since_s = self._clock()
            self._wake.poke(watched_kinds.URGENT_S)

    # --- what is followed ---

    def _always_followed(self) -> tuple[Followed, ...]:
        shared, ours = Shared(), Selection(labels=POOL_LABEL)
        return (
            Followed(POOLS, PoolWire, pool_from_wire, listener=self._pool_changed),
            Followed(NODES, NodeWire, lambda wire: node_from_wire(wire, shared), listener=self._node_changed),
            Followed(
                PODS,
                PodWire,
                lambda wire: pod_or_presence(wire, shared),
                Selection(fields=UNFINISHED),
                self._pod_changed,
            ),
            Followed(
                PODS, PodWire, lambda wire: failed_balloon(wire, shared), FAILED, self._failed_changed, FAILED_BALLOONS
            ),
            Followed(DEPLOYMENTS, Deployment, _as_it_is, ours, self._deployment_changed),
            Followed(PRIORITY_CLASSES, PriorityClass, _as_it_is, listener=self._class_changed),
        )

    async def _discover(self) -> None:
        """Follow CapacityBuffers and their PodTemplates while the server serves them; raises ApiError."""
        minor = await server_minor(self._client)
        version = await served_version(self._client, BUFFER_GROUP, BUFFER_PLURAL)
        if not version and self._set.still_shows(buffers(self._buffer_version)):
            version = self._buffer_version
        self._set.follow((*self._always, *self._of_buffers(version)))
        self._noticed()
        self._buffer_version, self._server_minor = version, minor

    def _of_buffers(self, api_version: str) -> tuple[Followed, ...]:
        if not api_version:
            return ()
        ours = Selection(labels=POOL_LABEL)
        return (
            Followed(buffers(api_version), StoredObject, _as_it_is, ours, self._buffer_changed),
            Followed(POD_TEMPLATES, StoredObject, _as_it_is, ours, self._template_changed),
        )


def _uses_buffers(pool: StoredPool) -> bool:
    return isinstance(pool, BalloonPool) and pool.spec.strategy is Strategy.CAPACITY_BUFFER


def _is_refused(cache: Reflector[Any, Any]) -> bool:
    """Whether a right is missing, or the kind's own webhook is away: that may last."""
    error = cache.last_error
    return error is not None and (isinstance(error, ForbiddenError) or error.is_of_webhook)


def _as_it_is(wire: Any) -> Any:
    return wire
