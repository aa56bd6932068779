"""The decision, composed: look at every pool, give waiting pods their nodes, then decide pool by pool.

How many more nodes may start, where somebody paces that: one lane for each throttle.

Deterministic and level-triggered: equal input gives an equal decision, and once one has been applied the next is empty.
Pools are taken in the order in which they get nodes, which is also who is served first from the allowance.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import msgspec

from balloons.api.pool import BalloonPool, PoolStatus, Strategy
from balloons.balloon_manifest import ImageSettings
from balloons.decide.census import NodeState, Unready, ages_s, unready_since
from balloons.decide.decision_and_reasons import (
    Action,
    Decision,
    Memory,
    PoolDecision,
    PoolMemory,
    Reason,
    UnseenBuffers,
)
from balloons.decide.deleted_pools import sweep
from balloons.decide.one_pool import Case, Outcome, PoolCase, decide_pool
from balloons.decide.pool_view_and_schedule import PoolDeployments, deployments_by_pool, view_of
from balloons.decide.pools_left_alone import believe, blind, outranked, why_left_alone
from balloons.decide.release_to_waiting_work import Reservations, reserve
from balloons.decide.strategies import (
    PoolBuffers,
    bound_of,
    buffers_by_pool,
    lowered_buffers_unseen,
    lowered_unseen,
)
from balloons.view.index_and_snapshot import Now, Snapshot
from balloons.view.node_load_and_devices import USUAL_PRIORITY
from balloons.view.tenancy_and_claim import Bound, Refusal, precedence
from throttler.kube.metadata import ObjectKey
from throttler.kube.node import HELD_BY_ANNOTATION, Node
from throttler.kube.pod import PRIORITY_CLASS
from throttler.kube.reasons_and_events import MOST_ERROR_TEXT, Because, because
from throttler.kube.selectors import are_disjoint
from throttler.levers.lever_and_reasons import Lane


class Purse:
    """What is left of each lane while pool after pool is served."""

    def __init__(self, lanes: Sequence[Lane]) -> None:
        self._lanes = lanes
        self._left = [lane.allowance for lane in lanes]

    def left(self, pool: BalloonPool) -> int | None:
        """How many more nodes the pool may start; None where nobody paces its nodes."""
        lane = self._lane_of(pool)
        return None if lane is None else self._left[lane]

    def is_shut(self, pool: BalloonPool) -> bool:
        """Whether the throttle lets no machine be ordered for the pool, and none is on its way."""
        lane = self._lane_of(pool)
        return lane is not None and self._lanes[lane].is_shut

    def take(self, pool: BalloonPool, started: int) -> None:
        """The pool starts so many."""
        lane = self._lane_of(pool)
        if lane is not None and (left := self._left[lane]) is not None:
            self._left[lane] = left - started

    def _lane_of(self, pool: BalloonPool) -> int | None:
        """The first lane that may be the pool's: where its labels do not tell, it is paced rather than not."""
        selector = pool.spec.nodes.selector
        return next((i for i, lane in enumerate(self._lanes) if not are_disjoint(lane.nodes, selector)), None)


def decide(
    snapshot: Snapshot,
    memory: Memory,
    settings: ImageSettings,
    now: Now,
    lanes: Sequence[Lane] | None = None,
) -> tuple[Decision, Memory]:
    """What to do now, and what to remember.

    `lanes` say how many more nodes may start now (None: as many as wanted). With an incomplete or stale view nothing
    moves in any pool but what keeps `maxSize`, and the memory stays as it was; only what was missed while everything
    was in view has to be missed anew.
    """
    invalid = tuple(_refused(key, text) for key, text in sorted(snapshot.invalid.items()))
    refused = tuple(_turned_away(key, refusal) for key, refusal in sorted(snapshot.refused.items()))
    left_alone = blind(snapshot)
    if left_alone is not None:
        frozen, memory = _unseen(snapshot, memory, left_alone)
        return Decision((*invalid, *refused, *frozen)), replace(memory, gone_since_s={})
    unready = unready_since(snapshot.nodes.values(), memory.unready_since_s, now, is_first=not memory.pools)
    buffers = buffers_by_pool(snapshot)
    pools, failed = _look_at_all(snapshot, memory, buffers, ages_s(unready, now), settings, now)
    active = [own.view.census for own in pools if own.gives_way]
    ours = snapshot.priority_classes.get(PRIORITY_CLASS)
    # Over all pools that give way: a pod is given one node, and not one per pool.
    reserved = reserve(
        snapshot.waiting,
        [node for census in active for node in census.by_state[NodeState.BUSY]],
        [node for census in active for node in census.holdable],
        snapshot.loads,
        memory.reserved or Reservations(),
        ours.value if ours else USUAL_PRIORITY,
        now,
    )
    purse = Purse(lanes or ())
    case = Case(snapshot, settings, now, reserved, _annotated(snapshot), buffers)
    decisions, pool_memory = _decide_all(pools, case, memory, purse)
    touched = {own.view.pool.key for own in pools if own.left_alone is None and not own.is_resting}
    sweeps, gone = sweep(snapshot, memory.gone_since_s, now, snapshot.pools.keys() - touched)
    decided = Decision((*invalid, *refused, *failed, *decisions), sweeps)
    return decided, Memory(reserved, pool_memory, gone, unready)


def _annotated(snapshot: Snapshot) -> Mapping[str, Sequence[Node]]:
    """Nodes that carry our annotations, by the pool that these name."""
    annotated: dict[str, list[Node]] = {}
    for node in snapshot.nodes.values():
        if HELD_BY_ANNOTATION in node.annotations:
            annotated.setdefault(node.annotations[HELD_BY_ANNOTATION], []).append(node)
    return annotated


def _unseen(snapshot: Snapshot, memory: Memory, left_alone: Because) -> tuple[list[PoolDecision], Memory]:
    """What is done for pools that nobody sees; remembered is what their Deployments and buffers were heard to have."""
    # Without the nodes, balloons that fell may be those of nodes that stopped being Ready: they are not to go.
    sees_nodes = not snapshot.is_complete and not any(words.split()[0] == "nodes" for words in snapshot.missing)
    unseen = {key: before for key, before in memory.unseen.items() if sees_nodes and key in snapshot.deployments}
    unseen_buffers: dict[ObjectKey, UnseenBuffers] = {}
    buffers, version = buffers_by_pool(snapshot), snapshot.buffer_version
    deployments = deployments_by_pool(snapshot.deployments.values())
    decisions = []
    for key, pool in sorted(snapshot.pools.items()):
        actions: list[Action] = []
        try:
            if sees_nodes and bound_of(pool) is not None:
                away = sum(not node.is_ready for node, _ in snapshot.claims[key].nodes)
                for stored in deployments.get(key, PoolDeployments()).own.values():
                    unseen[stored.key], lower = lowered_unseen(stored, memory.unseen.get(stored.key), away, left_alone)
                    actions += lower
            most_nodes = bound_of(pool, Strategy.CAPACITY_BUFFER)
            if sees_nodes and version and most_nodes is not None:
                own, nodes = buffers.get(key, PoolBuffers()), len(snapshot.claims[key].nodes)
                before = memory.unseen_buffers.get(key)
                unseen_buffers[key], lower = lowered_buffers_unseen(most_nodes, own, version, before, nodes, left_alone)
                actions += lower
            decisions.append(_frozen(pool, left_alone, actions))
        except Exception as error:  # noqa: BLE001 - one pool's error never changes another's decision
            decisions.append(_frozen(pool, _failure(error)))
    return decisions, replace(memory, unseen=unseen, unseen_buffers=unseen_buffers)


def _look_at_all(
    snapshot: Snapshot,
    memory: Memory,
    buffers: Mapping[ObjectKey, PoolBuffers],
    unready: Mapping[str, Unready],
    settings: ImageSettings,
    now: Now,
) -> tuple[list[PoolCase], list[PoolDecision]]:
    """What is seen of each pool, and why it must not be touched, if so; one that cannot be looked at is left as it is,
    and the others go on."""
    pools = sorted(snapshot.pools.values(), key=precedence)
    deployments = deployments_by_pool(snapshot.deployments.values())
    cases, failed = [], []
    for at, pool in enumerate(pools):
        labelled = deployments.get(pool.key, PoolDeployments())
        try:
            past = memory.pools.get(pool.key, PoolMemory())
            templates = buffers.get(pool.key, PoolBuffers()).templates
            view = view_of(pool, snapshot, labelled, templates, pools[:at], past, unready, now)
            late_since = {late: past.late_since_s.get(late, now.monotonic_s) for late in view.late}
            balloons = [balloon.uid for balloon in snapshot.failed.get(pool.key, ())]
            failed_since = {uid: past.failed_since_s.get(uid, now.monotonic_s) for uid in balloons}
            own = replace(
                past,
                late_since_s=late_since,
                refusals=view.refusals,
                failed_since_s=failed_since,
                outranking=outranked(view, past.outranking, now),
            )
            own, shrunken = believe(view, snapshot.nodes, own, now)
            left_alone = why_left_alone(view, snapshot, settings) or shrunken
            cases.append(PoolCase(view, own, left_alone, is_resting=pool.key in snapshot.resting))
        except Exception as error:  # noqa: BLE001 - one pool's error never changes another's decision
            failed.append(_frozen(pool, _failure(error)))
    return cases, failed


def _failure(error: Exception) -> Because:
    return because(Reason.FAILED, error=f"{type(error).__name__}: {error}"[:MOST_ERROR_TEXT])


def _decide_all(
    pools: list[PoolCase], case: Case, memory: Memory, purse: Purse
) -> tuple[list[PoolDecision], Mapping[ObjectKey, PoolMemory]]:
    # What cannot be looked at keeps its memory: what was valued there, removed, refused.
    memories = {key: memory.pools[key] for key in case.snapshot.pools if key in memory.pools}
    decisions = []
    for own in pools:
        pool = own.view.pool
        try:
            outcome = decide_pool(own, case, purse.left(pool), is_shut=purse.is_shut(pool))
        except Exception as error:  # noqa: BLE001 - as above: this pool is left as it is, the others go on
            outcome = Outcome(_frozen(pool, _failure(error)), memory.pools.get(pool.key, PoolMemory()))
        decisions.append(outcome.decision)
        memories[pool.key] = outcome.memory
        purse.take(pool, outcome.started)
    return decisions, memories


def _refused(key: ObjectKey, text: str) -> PoolDecision:
    why = because(Reason.INVALID, message=text)
    return PoolDecision(key, why, PoolStatus(because=why.code, message=why.sentence))


def _turned_away(key: ObjectKey, refusal: Refusal) -> PoolDecision:
    """A pool that is not ours to serve: nothing of it is touched, and its status counts no node."""
    bound, message = refusal.bound.value, refusal.message
    if refusal.bound is Bound.NAMESPACES:
        why = because(Reason.NOT_SERVED, bound=bound, message=message)
    else:
        why = because(Reason.BOUND, bound=bound, message=message)
    return PoolDecision(key, why, PoolStatus(because=why.code, message=why.sentence))


def _frozen(pool: BalloonPool, why: Because, actions: Sequence[Action] = ()) -> PoolDecision:
    generation = pool.metadata.generation
    status = msgspec.structs.replace(
        pool.status, because=why.code, message=why.sentence, observed_generation=generation
    )
    return PoolDecision(pool.key, why, status, tuple(actions), is_dry_run=pool.spec.dry_run)
