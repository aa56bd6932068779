"""The decision, composed: look at every pool, give waiting pods their nodes, then decide pool by pool.

Deterministic and level-triggered: equal input gives an equal plan, and once a plan has been applied the next one is
empty. Pools are taken in the order in which they get nodes, which is also who is served first from the allowance.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import msgspec

from balloons.api.pool import BalloonPool, PoolStatus
from balloons.decide.allowance import Purse, lanes_of
from balloons.decide.census import NodeState
from balloons.decide.joining import Unready, ages_s, unready_since
from balloons.decide.memory import Memory, PoolMemory
from balloons.decide.one_pool import Case, Outcome, decide_pool
from balloons.decide.plan import Plan, PoolDecision
from balloons.decide.pool_reasons import Because, Reason, because
from balloons.decide.pool_view import Ages, PoolView, look
from balloons.decide.release import Reservations, reserve
from balloons.decide.sanity import blind
from balloons.decide.settings import DecideSettings
from balloons.decide.sweep import sweep
from balloons.view.claim import Bound, Refusal, claim_nodes, precedence
from balloons.view.node_load import USUAL_PRIORITY
from balloons.view.snapshot import Now, Snapshot
from throttler.kube.metadata import ObjectKey
from throttler.levers.lever import Lane

MOST_ERROR_TEXT = 200
"""Characters of an unexpected error that a status shows."""


def decide(
    snapshot: Snapshot,
    memory: Memory,
    settings: DecideSettings,
    now: Now,
    allowance: int | Sequence[Lane] | None = None,
) -> tuple[Plan, Memory]:
    """What to do now, and what to remember.

    `allowance` is how many more nodes may start now: over all pools, or lane by lane (None: as many as wanted). With
    an incomplete or stale view nothing moves in any pool, and the memory stays as it was; only what was missed while
    everything was in view has to be missed anew.
    """
    invalid = tuple(_refused(key, text) for key, text in sorted(snapshot.invalid.items()))
    refused = tuple(_turned_away(key, refusal) for key, refusal in sorted(snapshot.refused.items()))
    still = blind(snapshot, settings)
    if still is not None:
        pools = sorted(snapshot.pools.values(), key=lambda pool: pool.key)
        frozen = (_frozen(pool, still) for pool in pools)
        return Plan((*invalid, *refused, *frozen)), replace(memory, gone_since_s={})
    unready = unready_since(snapshot.nodes.values(), memory.unready_since_s, now, is_first=not memory.pools)
    views, failed = _look_at_all(snapshot, memory, ages_s(unready, now), settings, now)
    reserved = _reserve(views, snapshot, memory, settings, now)
    purse = Purse(lanes_of(allowance))
    decisions, pool_memory = _decide_all(views, Case(snapshot, settings, now, reserved), memory, purse)
    sweeps, gone = sweep(snapshot, memory.gone_since_s, settings, now)
    plan = Plan((*invalid, *refused, *failed, *decisions), sweeps)
    return plan, Memory(reserved.since_s, pool_memory, gone, reserved.looked, unready)


def _look_at_all(
    snapshot: Snapshot, memory: Memory, unready: Mapping[str, Unready], settings: DecideSettings, now: Now
) -> tuple[list[PoolView], list[PoolDecision]]:
    """What is seen of each pool; a pool that cannot be looked at is left as it is, and the others go on."""
    pools = sorted(snapshot.pools.values(), key=precedence)
    claims = snapshot.claims
    if claims is None:
        claims = claim_nodes(pools, snapshot.nodes, snapshot.loads)
    views, failed = [], []
    for pool in pools:
        try:
            past = memory.pools.get(pool.key, PoolMemory())
            ages = Ages(unready, {name: now.monotonic_s - since_s for name, since_s in past.late_since_s.items()})
            views.append(look(pool, claims[pool.key], snapshot, settings, now, ages, past.refusals))
        except Exception as error:  # noqa: BLE001 - one pool's error never changes another's plan
            failed.append(_frozen(pool, _failure(error)))
    return views, failed


def _failure(error: Exception) -> Because:
    return because(Reason.FAILED, error=f"{type(error).__name__}: {error}"[:MOST_ERROR_TEXT])


def _reserve(
    views: list[PoolView], snapshot: Snapshot, memory: Memory, settings: DecideSettings, now: Now
) -> Reservations:
    """Nodes for waiting pods, over all pools that are not paused: a pod is given one node, not one per pool."""
    active = [view for view in views if not view.pool.spec.paused]
    found = snapshot.priority_classes.get(settings.priority_class)
    return reserve(
        snapshot.waiting,
        [node for view in active for node in view.census.by_state[NodeState.BUSY]],
        [node for view in active for node in view.holdable],
        snapshot.loads,
        memory.reserved_since_s,
        settings,
        found.value if found else USUAL_PRIORITY,
        now,
        memory.looked,
    )


def _decide_all(
    views: list[PoolView], case: Case, memory: Memory, purse: Purse
) -> tuple[list[PoolDecision], Mapping[ObjectKey, PoolMemory]]:
    decisions, memories = [], {}
    for view in views:
        key = view.pool.key
        before = memory.pools.get(key, PoolMemory())
        try:
            outcome = decide_pool(view, case, before, purse.left(view.pool))
        except Exception as error:  # noqa: BLE001 - as above: this pool holds still, the others go on
            outcome = Outcome(_frozen(view.pool, _failure(error)), before)
        decisions.append(outcome.decision)
        memories[key] = outcome.memory
        purse.take(view.pool, outcome.started)
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


def _frozen(pool: BalloonPool, why: Because) -> PoolDecision:
    status = msgspec.structs.replace(pool.status, because=why.code, message=why.sentence)
    return PoolDecision(pool.key, why, status, is_dry_run=pool.spec.dry_run)
