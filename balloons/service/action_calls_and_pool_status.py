"""Writes through the client, as exactly as the API allows: one action of a decision, and a pool's status and Events.
And what such a write is: of which kind, in words, and what the error means with which it ended.

Everything is bound to what was decided on: server-side apply under our own field manager, deletes with uid and
version, node patches with the version. What the server answers is given back as the version our caches have to reach.

How users are told: `throttler.kube.write_queue_and_status`; here is what of a pool's status is news, and how often
figures go out.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from random import Random
from typing import Any

from balloons.api.pool import PoolStatus
from balloons.decide.decision_and_reasons import (
    Action,
    AnnotateNode,
    ApplyObject,
    DeleteObject,
    LeaveNode,
    MarkBalloon,
    PoolDecision,
    ReleaseBalloon,
    RemoveFailed,
)
from balloons.service.metrics import ActionKind, Metrics, PoolWriteOutcome
from balloons.service.pool_status_and_events import TURNED_AWAY, Announcer, next_status
from balloons.service.watched_kinds import POOLS, written
from balloons.view.index_and_snapshot import StoredPool
from throttler.kube.errors import (
    AlreadyExistsError,
    ApiError,
    ConflictError,
    FencedError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    ServerError,
    TooManyRequestsError,
    UndecodableError,
    UnreachableError,
)
from throttler.kube.kube_client import KubeClient
from throttler.kube.metadata import ObjectKey
from throttler.kube.pod import DELETION_COST_ANNOTATION
from throttler.kube.requests import NODES, PODS, Resource
from throttler.kube.write_queue_and_status import FIELD_MANAGER, StatusWriter, version_in

FORCE_PERIOD_S = 30.0
"""A field that somebody else took is taken back at most this often: a quarrel must not load the API server."""
COUNTS_PERIOD_S = (15.0, 30.0)
"""Between two writes of one pool's status that differ in figures only; drawn anew each time, so that pools whose counts
move together do not come together. Metrics show the figures of every decision."""
NEWS_AT_ONCE, FIGURES_AT_ONCE = 64, 16
"""While so many statuses are on their way, or wait at the ceiling of their calls, no other one follows: at the default
2.5 a second they are told within half a minute, and news within 6 s of figures. Of a thousand pools those that waited
would say by then what was long ago, and first of all how many nodes were busy."""
FAILED_REST_S = 2.0
"""After a status that could not be written, at least."""
FORBIDDEN_REST_S = 30.0
"""Without the right there is no use in asking more than twice a minute."""
UNKNOWN_REST_S = 10.0
"""As long as one attempt may take: a write that was under way has ended by then, one way or the other."""
KINDS: Mapping[type[Action], ActionKind] = {
    ApplyObject: ActionKind.APPLY,
    DeleteObject: ActionKind.DELETE,
    MarkBalloon: ActionKind.MARK,
    ReleaseBalloon: ActionKind.RELEASE,
    LeaveNode: ActionKind.RELEASE,
    AnnotateNode: ActionKind.ANNOTATE,
    RemoveFailed: ActionKind.REMOVE,
}
"""The kind of each action of a decision."""
StoredPools = Callable[[ObjectKey], StoredPool | None]


_UNKNOWN = (UnreachableError, ServerError, UndecodableError)
"""After these it may have been done."""


def outcome_of(error: ApiError) -> PoolWriteOutcome:
    """What a failed call means for what was to be done."""
    if isinstance(error, FencedError):
        return PoolWriteOutcome.FENCED
    if error.is_of_webhook:
        # Whatever the status: one that is down makes it a 500.
        return PoolWriteOutcome.REFUSED
    if isinstance(error, NotFoundError):
        return PoolWriteOutcome.GONE
    if isinstance(error, ConflictError):
        return PoolWriteOutcome.CONFLICT
    if isinstance(error, TooManyRequestsError):
        return PoolWriteOutcome.BUSY
    return PoolWriteOutcome.UNKNOWN if isinstance(error, _UNKNOWN) else PoolWriteOutcome.REFUSED


def least_rest_s(error: ApiError) -> float:
    """How long a pool rests at least after this error."""
    if isinstance(error, ForbiddenError | InvalidError):
        return FORBIDDEN_REST_S
    if error.retry_after_s is not None:
        return error.retry_after_s
    return UNKNOWN_REST_S if isinstance(error, _UNKNOWN) else 0.0


def in_words(action: Action) -> str:
    """What the action does, without its reason."""
    match action:
        case ApplyObject():
            return f"apply {action.kind} {action.key} with {action.replicas} replicas"
        case DeleteObject():
            return f"delete {action.kind} {action.key}"
        case MarkBalloon():
            return f"set the deletion cost of balloon {action.key} to {action.cost}"
        case ReleaseBalloon():
            return f"delete balloon {action.key} on {action.node}{f' for {action.taker}' if action.taker else ''}"
        case LeaveNode():
            return f"delete balloon {action.key} on {action.node}, which is about to go"
        case AnnotateNode():
            return f"annotate node {action.node}"
        case RemoveFailed():
            return f"remove Failed balloon {action.key} of {action.node}"


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
                key, version = action.key, action.resource_version
                await client.delete(PODS, key.name, key.namespace, uid=action.uid, resource_version=version)
                return PODS, ""
            case LeaveNode():
                await client.delete(PODS, action.key.name, action.key.namespace, uid=action.uid)
                return PODS, ""
            case AnnotateNode():
                return NODES, await _annotate(self._noting, action)
            case RemoveFailed():
                # By uid alone: whatever still changes in what a pod left, it never runs again.
                await self._noting.delete(PODS, action.key.name, action.key.namespace, uid=action.uid)
                return PODS, ""

    async def _apply(self, client: KubeClient, action: ApplyObject) -> tuple[Resource, str]:
        resource, key = written(action.api_version, action.kind), action.key
        apply = partial(client.apply, resource, action.manifest, key.name, key.namespace, field_manager=FIELD_MANAGER)
        try:
            answer = await apply(force=False)
        except ConflictError as error:
            if isinstance(error, AlreadyExistsError) or not self._may_force(key):
                raise
            answer = await apply(force=True)
        return resource, version_in(answer)

    def _may_force(self, key: ObjectKey) -> bool:
        now_s = self._clock()
        self._forced_s = {k: at_s for k, at_s in self._forced_s.items() if now_s - at_s < FORCE_PERIOD_S}
        return self._forced_s.setdefault(key, now_s) == now_s


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


async def _annotate(client: KubeClient, action: AnnotateNode) -> str:
    metadata = {"resourceVersion": action.resource_version, "annotations": dict(action.annotations)}
    return await _patch(client, NODES, metadata, ObjectKey("", action.node))


async def _patch(client: KubeClient, resource: Resource, metadata: dict[str, Any], key: ObjectKey) -> str:
    answer = await client.patch(
        resource, {"metadata": metadata}, key.name, key.namespace or None, field_manager=FIELD_MANAGER
    )
    return version_in(answer)


class PoolStatusWriter:
    """Writes what users are told of pools: status and Events. What cannot be told never stops the pool's own writes.

    `announcer` knows the Events; whoever takes those that are due must `tell` them.

    A pool that is not served is told so once, because another service may serve it, and two that correct each other
    would never end.
    """

    def __init__(
        self,
        client: KubeClient,
        stored_pools: StoredPools,
        announcer: Announcer,
        metrics: Metrics,
        clock: Callable[[], float],
    ) -> None:
        self._stored = stored_pools
        self.announcer = announcer
        chance = Random()
        self._status = StatusWriter(
            client,
            POOLS,
            clock,
            figures_period_s=lambda: chance.uniform(*COUNTS_PERIOD_S),
            rest_s=lambda error: max(least_rest_s(error), FAILED_REST_S),
            on_told=lambda what, error: metrics.wrote(
                ActionKind(what), outcome_of(error) if error is not None else PoolWriteOutcome.DONE
            ),
        )
        self.figures_due_s = self._status.figures_due_s
        """By which pools are told in turn."""
        self._turned_away: dict[ObjectKey, tuple[str, str]] = {}
        """Which pool (uid) was told what last, if that is why it is not served."""

    def status_due(self, decision: PoolDecision, problem: str, under_way: int = 0) -> PoolStatus | None:
        """The status to write now, if any; so many of other pools are under way."""
        if under_way >= NEWS_AT_ONCE:
            return None
        stored = self._stored(decision.pool)
        status = next_status(stored, decision, problem, self._status.now()) if stored is not None else None
        if stored is None or status is None:
            return None
        before = self._status.standing(stored.metadata, stored.status)
        is_news = _is_news(before, status)
        if status == before or not self._status.may_write(stored.metadata, is_news=is_news):
            return None
        if not is_news and under_way >= FIGURES_AT_ONCE:
            return None
        is_repeated = self._turned_away.get(decision.pool) == (stored.metadata.uid, status.message)
        return None if is_repeated and decision.because.reason in TURNED_AWAY else status

    async def write(self, decision: PoolDecision, status: PoolStatus) -> None:
        """Write the status that is due."""
        stored = self._stored(decision.pool)
        if stored is None:
            return
        is_written = await self._status.write(stored.metadata, status)
        if decision.because.reason not in TURNED_AWAY:
            self._turned_away.pop(decision.pool, None)
        elif is_written:
            self._turned_away[decision.pool] = stored.metadata.uid, status.message

    def notice(self, decision: PoolDecision) -> None:
        """Remember what is new about a decision, before its status is written: the stored one says what was told."""
        stored = self._stored(decision.pool)
        if stored is not None:
            self.announcer.notice(stored, decision, self._status.now())

    async def tell(self, events: Sequence[tuple[ObjectKey, dict[str, Any]]]) -> None:
        """Write these Events one after the other; those that got no answer wait again."""
        for pool, event in events:
            if (stored := self._stored(pool)) is None:
                continue
            for late in await self._status.announce(stored.metadata, [event]):
                self.announcer.tell_again(pool, late)

    def forget(self, known: Collection[ObjectKey]) -> None:
        """Drop what is about pools that are gone."""
        self._status.forget(known)
        self._turned_away = {key: told for key, told in self._turned_away.items() if key in known}
        self.announcer.forget(known)


def _is_news(stored: PoolStatus, wanted: PoolStatus) -> bool:
    """Whether more than figures differs: the reason, the conditions, or which spec they are about."""
    if (stored.because, stored.observed_generation) != (wanted.because, wanted.observed_generation):
        return True
    before, after = ([(c.type, c.status, c.reason) for c in status.conditions] for status in (stored, wanted))
    return before != after
