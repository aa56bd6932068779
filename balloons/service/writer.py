"""Writes through the client, as exactly as the API allows: one action of a plan, and a pool's status and Events.

Everything is guarded: server-side apply under our own field manager, deletes with uid and version, node patches with
the version that was decided on. What the server answers is given back as the version our caches have to reach.

Tells users: writes a pool's status through /status when it changes, and Events. Counts may change many times a second
while nodes join. Those are written once in `COUNTS_PERIOD_S`; a new reason or condition goes out at once. A status
that the cache does not show yet is not written again.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from random import Random
from typing import Any

import msgspec
import structlog

from balloons.api.pool import PoolStatus
from balloons.decide.plan import (
    Action,
    AnnotateNode,
    ApplyObject,
    DeleteObject,
    MarkBalloon,
    PoolDecision,
    ReleaseBalloon,
    RemoveFailed,
)
from balloons.service.metrics import Metrics
from balloons.service.pool_status import TURNED_AWAY, Announcer, StoredPool, next_status, status_manifest
from balloons.service.watched_objects import EVENTS, NODES, PODS, POOLS, written
from balloons.service.write_rules import ActionKind, PoolWriteOutcome, least_rest_s, outcome_of
from throttler.kube.errors import AlreadyExistsError, ApiError, ConflictError
from throttler.kube.kube_client import KubeClient, decode
from throttler.kube.metadata import ObjectKey
from throttler.kube.pod import DELETION_COST_ANNOTATION
from throttler.kube.requests import Resource

FIELD_MANAGER = "kube-balloons"
FORCE_PERIOD_S = 30.0
"""A field that somebody else took is taken back at most this often: a quarrel must not load the API server."""
COUNTS_PERIOD_S = (15.0, 30.0)
"""Between two writes of one pool's status that differ in figures only; drawn anew each time, so that pools whose counts
move together do not come together. Metrics show the figures of every decision."""
FAILED_REST_S = 2.0
"""After a status that could not be written, at least."""
log = structlog.get_logger()
StoredPools = Callable[[ObjectKey], StoredPool | None]


class _VersionMeta(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str = ""


class _Versioned(msgspec.Struct, frozen=True):
    metadata: _VersionMeta = _VersionMeta()


class Writer:
    """The writes of balloons. Every method raises ApiError and never returns a failure.

    Each of the three clients has a ceiling of its own: `client` is for what may wait, `urgent` for what gives nodes
    back to work, `noting` for annotations of nodes and for what failed balloons leave, of which there may be thousands.
    """

    def __init__(self, client: KubeClient, urgent: KubeClient, noting: KubeClient, clock: Callable[[], float]) -> None:
        self._client = client
        self._urgent = urgent
        self._noting = noting
        self._clock = clock
        self._forced_s: dict[ObjectKey, float] = {}

    async def carry_out(self, action: Action, *, is_urgent: bool) -> tuple[Resource, str]:
        """Do it; returns which resource was written and the version the server answered (empty after a delete)."""
        client = self._urgent if is_urgent else self._client
        match action:
            case ApplyObject():
                return await self._apply(client, action)
            case DeleteObject():
                return await _delete(client, action)
            case MarkBalloon():
                return PODS, await _mark(client, action)
            case ReleaseBalloon():
                return PODS, await _release(client, action)
            case AnnotateNode():
                return NODES, await _annotate(self._noting, action)
            case RemoveFailed():
                # By uid alone: whatever still changes in what a pod left, it never runs again.
                await self._noting.delete(PODS, action.key.name, action.key.namespace, uid=action.uid)
                return PODS, ""

    async def _apply(self, client: KubeClient, action: ApplyObject) -> tuple[Resource, str]:
        resource = written(action.api_version, action.kind)
        try:
            return resource, await _apply_once(client, resource, action, force=False)
        except ConflictError as error:
            if isinstance(error, AlreadyExistsError) or not self._may_force(action.key):
                raise
            return resource, await _apply_once(client, resource, action, force=True)

    def _may_force(self, key: ObjectKey) -> bool:
        now_s = self._clock()
        self._forced_s = {k: at_s for k, at_s in self._forced_s.items() if now_s - at_s < FORCE_PERIOD_S}
        return self._forced_s.setdefault(key, now_s) == now_s


async def _apply_once(client: KubeClient, resource: Resource, action: ApplyObject, *, force: bool) -> str:
    answer = await client.apply(
        resource,
        action.manifest,
        action.key.name,
        action.key.namespace,
        field_manager=FIELD_MANAGER,
        force=force,
    )
    return version_in(answer)


async def _delete(client: KubeClient, action: DeleteObject) -> tuple[Resource, str]:
    resource = written(action.api_version, action.kind)
    answer = await client.delete(
        resource,
        action.key.name,
        action.key.namespace,
        uid=action.uid,
        resource_version=action.resource_version,
        propagation="Background",
    )
    return resource, version_in(answer)


async def _mark(client: KubeClient, action: MarkBalloon) -> str:
    # The uid makes sure that a balloon of the same name that came later is not meant.
    metadata = {"uid": action.uid, "annotations": {DELETION_COST_ANNOTATION: str(action.cost)}}
    return await _patch(client, PODS, metadata, action.key)


async def _release(client: KubeClient, action: ReleaseBalloon) -> str:
    await client.delete(
        PODS,
        action.key.name,
        action.key.namespace,
        uid=action.uid,
        resource_version=action.resource_version,
    )
    return ""


async def _annotate(client: KubeClient, action: AnnotateNode) -> str:
    metadata = {"resourceVersion": action.resource_version, "annotations": dict(action.annotations)}
    return await _patch(client, NODES, metadata, ObjectKey("", action.node))


async def _patch(client: KubeClient, resource: Resource, metadata: dict[str, Any], key: ObjectKey) -> str:
    answer = await client.patch(
        resource, {"metadata": metadata}, key.name, key.namespace or None, field_manager=FIELD_MANAGER
    )
    return version_in(answer)


def version_in(answer: bytes) -> str:
    """The resourceVersion of an answered object; empty where the answer is a mere Status."""
    return decode(answer, _Versioned).metadata.resource_version


@dataclass(slots=True)
class _Told:
    """When mere figures may be written again, as which version the status was last, and until when nothing is tried.

    `turned_away` is what the pool was told last, if that is why it is not served: it is told once, because another
    service may serve it, and two that correct each other would never end.
    """

    counts_at_s: float = float("-inf")
    version: int = 0
    turned_away: str = ""
    rest_until_s: float = 0.0


class Reporter:
    """Writes status and Events; failures are counted and logged, and never stop the pool's own writes."""

    def __init__(
        self,
        client: KubeClient,
        stored_pools: StoredPools,
        announcer: Announcer,
        metrics: Metrics,
        clock: Callable[[], float],
        random: Random | None = None,
    ) -> None:
        self._client = client
        self._random = random or Random()
        self._stored = stored_pools
        self._announcer = announcer
        self._metrics = metrics
        self._clock = clock
        self._told: dict[ObjectKey, _Told] = {}

    def has_news(self, decision: PoolDecision, problem: str) -> bool:
        """Whether there is a status to write now."""
        return self._due(decision, problem) is not None

    async def report(self, decision: PoolDecision, problem: str) -> None:
        """Write the status if it is due, and what there is to announce."""
        stored, found = self._stored(decision.pool), self._due(decision, problem)
        if stored is None:
            return
        # Asked before the status is written: what the stored status says is what was told before.
        events = self._announcer.due(stored, decision, self._clock(), datetime.now(UTC))
        if found is not None:
            await self._write_status(decision.pool, *found)
            if decision.because.reason not in TURNED_AWAY:
                self._told[decision.pool].turned_away = ""
        for event in events:
            await self._write_event(decision.pool, event)

    def forget(self, known: Collection[ObjectKey]) -> None:
        """Drop what is about pools that are gone."""
        self._told = {key: told for key, told in self._told.items() if key in known}
        self._announcer.forget(known)

    def _due(self, decision: PoolDecision, problem: str) -> tuple[StoredPool, PoolStatus] | None:
        stored = self._stored(decision.pool)
        if stored is None:
            return None
        status = next_status(stored, decision, problem, datetime.now(UTC))
        if status is None or not self._may_write(decision.pool, stored, status):
            return None
        told = self._told.get(decision.pool)
        if told is not None and decision.because.reason in TURNED_AWAY and told.turned_away == status.message:
            return None
        return stored, status

    def _may_write(self, key: ObjectKey, stored: StoredPool, status: PoolStatus) -> bool:
        told, now_s = self._told.get(key), self._clock()
        if told is None:
            return True
        version = stored.metadata.resource_version
        is_seen = not version.isdecimal() or int(version) >= told.version
        is_soon = now_s < told.counts_at_s and _meaning(stored.status) == _meaning(status)
        return is_seen and not is_soon and now_s >= told.rest_until_s

    async def _write_status(self, key: ObjectKey, stored: StoredPool, status: PoolStatus) -> None:
        told = self._told.setdefault(key, _Told())
        told.counts_at_s = self._clock() + self._random.uniform(*COUNTS_PERIOD_S)
        body = status_manifest(stored, status)
        try:
            answer = await self._client.apply(
                POOLS,
                body,
                key.name,
                key.namespace,
                field_manager=FIELD_MANAGER,
                force=True,
                subresource="status",
            )
        except ApiError as error:
            told.rest_until_s = self._clock() + max(least_rest_s(error), FAILED_REST_S)
            self._failed(key, ActionKind.STATUS, error)
            return
        version = version_in(answer)
        told.version = int(version) if version.isdecimal() else 0
        told.turned_away = status.message
        self._metrics.wrote(ActionKind.STATUS, PoolWriteOutcome.DONE)

    async def _write_event(self, key: ObjectKey, event: dict[str, object]) -> None:
        try:
            await self._client.create(EVENTS, event, key.namespace)
        except ApiError as error:
            self._failed(key, ActionKind.EVENT, error)
        else:
            self._metrics.wrote(ActionKind.EVENT, PoolWriteOutcome.DONE)

    def _failed(self, key: ObjectKey, kind: ActionKind, error: ApiError) -> None:
        outcome = outcome_of(error)
        self._metrics.wrote(kind, outcome)
        if outcome not in (PoolWriteOutcome.GONE, PoolWriteOutcome.FENCED):
            log.warning("report failed", pool=str(key), what=kind.value, problem=error.message)


def _meaning(status: PoolStatus) -> tuple[object, ...]:
    """What a reader would call news: the reason, the conditions, and which spec they are about."""
    conditions = tuple((c.type, c.status, c.reason) for c in status.conditions)
    return status.because, status.observed_generation, conditions
