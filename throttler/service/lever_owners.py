"""Whose lever moves which object: where several throttles name one, the oldest keeps it; what is nobody's is given
back. Pure.

Two that write one ceiling would each take the other's value for the user's own. An object is nobody's when its throttle
was deleted, cannot be read any more, or no longer names the lever: growth must not stay blocked for that.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from throttler.api.throttle import JoinThrottle, NodePoolLever
from throttler.joins.demand import may_use
from throttler.joins.join_world import JoinRules
from throttler.kube.because import because
from throttler.kube.cluster_autoscaler import CapacityQuota
from throttler.kube.karpenter import NodePool
from throttler.kube.node import KARPENTER_POOL_LABEL
from throttler.kube.pod import Scheduling
from throttler.kube.selectors import LabelSelector, Toleration, can_match
from throttler.levers.lever import (
    THROTTLE_LABEL,
    Holder,
    LeverOutcome,
    LeverReason,
    LeverReport,
    LeverState,
    LeverWrite,
    Room,
    epoch_of,
)
from throttler.levers.pool_shares import may_make
from throttler.levers.restore import hand_back
from throttler.levers.scheduling_gate import PACED_GATE, GatedDemand, GateMemory, GateSettings, is_held, release_gates
from throttler.service.tick_view import LeverScene, Turn


def is_of(pool: NodePool, lever: NodePoolLever, nodes: LabelSelector) -> bool:
    """Whether the lever moves this pool: by its name, or because the throttle selects nodes like its own."""
    if lever.names:
        return pool.metadata.name in lever.names
    # A label that the pool's template does not name and that no requirement gives is on none of its nodes.
    labels = {KARPENTER_POOL_LABEL: pool.metadata.name, **pool.spec.labels}
    given = {part.key: part.values for part in pool.spec.requirements if part.operator == "In"}
    for key, value in nodes.match_labels.items():
        if labels.get(key) != value and value not in given.get(key, ()):
            return False
    return can_match(nodes, labels)


def pool_owner(pool: NodePool, throttles: Iterable[JoinThrottle]) -> str | None:
    """The first of the throttles whose lever moves the pool, by name; None: no one's does."""
    for each in throttles:
        lever = each.spec.levers.node_pool_limits
        if lever is not None and is_of(pool, lever, each.spec.nodes):
            return each.metadata.name
    return None


def left_out(pools: Iterable[NodePool], throttle: JoinThrottle, throttles: Iterable[JoinThrottle]) -> tuple[str, ...]:
    """Pools that no throttle moves and Karpenter may order from for this one's nodes: growth is not paced there.

    Asked is for a pod that wants the throttle's nodes and tolerates the taints of a pool that its lever moves. At its
    ceiling such a pool is passed over, and the next that the pod may use is tried in the same round.
    """
    lever, nodes, known = throttle.spec.levers.node_pool_limits, throttle.spec.nodes, tuple(pools)
    everybody = tuple(throttles)
    if lever is None:
        return ()
    terms = (nodes.match_expressions,) if nodes.match_expressions else ()
    pods = [
        Scheduling(tuple(Toleration(taint.key, "Exists") for taint in pool.spec.taints), nodes.match_labels, terms)
        for pool in known
        if is_of(pool, lever, nodes)
    ]
    free = [pool for pool in known if pool.spec.replicas is None and pool_owner(pool, everybody) is None]
    return tuple(sorted(pool.metadata.name for pool in free if any(may_make(pool, pod) for pod in pods)))


def quota_owner(name: str, throttles: Iterable[JoinThrottle]) -> str | None:
    """The same of a CapacityQuota."""
    for each in throttles:
        lever = each.spec.levers.capacity_quota
        if lever is not None and lever.name == name:
            return each.metadata.name
    return None


def let_go(name: str, thing: NodePool | CapacityQuota | None, owner: str, holder: Holder) -> LeverOutcome:
    """What a throttle does on an object that is `owner`'s: give back what it holds there, and say whose it is.

    `name` is as reports name the object.
    """
    why = because(LeverReason.OTHER_THROTTLE, throttle=owner)
    writes = hand_back(thing) if thing is not None and _is_held(thing, holder) else ()
    report = LeverReport(name=name, state=LeverState.REFUSED, because=why)
    return LeverOutcome(report=report, writes=tuple(replace(write, because=why) for write in writes))


def _is_held(thing: NodePool | CapacityQuota, holder: Holder) -> bool:
    """Whether this throttle wrote the object last, and no newer leader of ours did."""
    is_ours = thing.metadata.labels.get(THROTTLE_LABEL) == holder.label
    return is_ours and epoch_of(thing.metadata.annotations) <= holder.epoch


_BACK = Room(existing=0, booting=0, allowance=0, admit=0, waiting=0, may_move=True, is_stopping=True)


def leftover_writes(scene: LeverScene, turns: Sequence[Turn]) -> tuple[LeverWrite, ...]:
    """The writes that give back what none of these turns is about.

    A throttle claims what its spec names, whether its turn was decided or failed: what it has in force stays then.
    """
    throttles = [turn.stored for turn in turns if isinstance(turn.stored, JoinThrottle)]
    things: Iterable[NodePool | CapacityQuota] = (*scene.pools, *scene.quotas.values())
    found = [write for thing in things if not _is_claimed(thing, throttles) for write in hand_back(thing)]
    return (*found, *_gates(scene, turns))


def _is_claimed(thing: NodePool | CapacityQuota, throttles: Iterable[JoinThrottle]) -> bool:
    if isinstance(thing, NodePool):
        return pool_owner(thing, throttles) is not None
    return quota_owner(thing.metadata.name, throttles) is not None


def _gates(scene: LeverScene, turns: Sequence[Turn]) -> tuple[LeverWrite, ...]:
    gated = [pod for pod in scene.unplaced if is_held(pod)]
    if not gated:
        return ()
    throttles = (turn.stored for turn in turns if isinstance(turn.stored, JoinThrottle))
    rules = [JoinRules.of(throttle, PACED_GATE) for throttle in throttles if _has_gates(throttle)]
    strays = [pod for pod in gated if not any(may_use(pod, each) for each in rules)]
    demand = GatedDemand(pods=strays, shape={})
    return release_gates(demand, GateSettings(max_wait_s=0.0), _BACK, GateMemory(), scene.moment)[0].writes


def _has_gates(throttle: JoinThrottle) -> bool:
    lever = throttle.spec.levers.scheduling_gates
    return lever is not None and lever.enabled
