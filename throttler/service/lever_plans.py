"""Everything that one throttle's levers are to do now: each lever that the spec names, and nothing else. Pure."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from throttler.api.throttle import JoinThrottle
from throttler.joins.demand import Crowd, may_use, waiting_crowds
from throttler.joins.join_world import JoinRules
from throttler.joins.joins import Joins
from throttler.kube.cluster_autoscaler import CAPACITY_QUOTA_KIND
from throttler.kube.karpenter import NODE_POOL_KIND, NodeClaim, NodePool
from throttler.kube.node import Node
from throttler.kube.pod import Pod, Scheduling
from throttler.kube.quantity import Resources
from throttler.kube.selectors import Toleration
from throttler.levers.capacity_quota import QuotaMemory, QuotaSeen, plan_capacity_quota
from throttler.levers.lever import Holder, LeverOutcome, Room
from throttler.levers.node_pool_limits import NodePoolSeen, plan_node_pools
from throttler.levers.pool_shares import WaitingWork, by_autoscaler
from throttler.levers.scheduling_gate import GatedDemand, GateSettings, release_gates
from throttler.levers.taint_and_label import LabelSettings, TaintSettings, put_labels, release_taints
from throttler.service.lever_owners import is_of, let_go, pool_owner, quota_owner
from throttler.service.tick_view import LeverMemory, LeverScene, PoolGrowth

Planned = tuple[tuple[LeverOutcome, ...], LeverMemory]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeverCase:
    """One throttle's part of a tick: `joins` and `largest` (the largest node's allocatable) are its own."""

    throttle: JoinThrottle
    rules: JoinRules
    scene: LeverScene
    room: Room
    joins: Joins
    largest: Resources
    growth: tuple[PoolGrowth, ...] = ()
    """The Headroom pools whose nodes it paces."""
    older: tuple[JoinThrottle, ...] = ()
    """Throttles that come first: an object that one of them names is theirs."""

    @property
    def holder(self) -> Holder:
        """In whose name is written."""
        return Holder(throttle=self.throttle.metadata.name, lease=self.scene.lease, epoch=self.scene.epoch)

    @property
    def nodes(self) -> list[Node]:
        """The throttle's nodes."""
        return [node for node in self.scene.nodes.values() if self.rules.selects(node.labels)]

    @property
    def quota_room(self) -> Room:
        """cluster-autoscaler's part: it knows nothing of machines that Karpenter ordered."""
        booting = min(self.room.booting, self.joins.booting_by_groups)
        return replace(self.room, booting=booting, allowance=self._allowances[0])

    @property
    def pools_room(self) -> Room:
        """Karpenter's part; what exists and boots is counted from each pool's own machines."""
        return replace(self.room, allowance=self._allowances[1])

    @property
    def _allowances(self) -> tuple[int, int]:
        """All of the allowance where one autoscaler has a ceiling, else they share it: each could use up all of it."""
        levers = self.throttle.spec.levers
        has_both = levers.capacity_quota is not None and levers.node_pool_limits is not None
        open_room = replace(self.room, allowance=self.room.allowance + self.room.spare)
        if not (has_both and self.scene.quota_version and self.scene.pools):
            return open_room.allowance, open_room.allowance
        return by_autoscaler(open_room, self.joins.booting_by_groups, self.scene.moment.now_s)

    @property
    def waiting(self) -> WaitingWork:
        """What waits for Karpenter's machines: pods, and balloons that Headroom pools want."""
        anywhere = (Toleration(operator="Exists"),)
        balloons = (
            Crowd(Scheduling(anywhere, dict(pool.labels)), {}, pool.lacking) for pool in self.growth if pool.lacking > 0
        )
        pods = _regardless_of_owner(waiting_crowds(self.scene.unplaced, self.rules, self.largest))
        boot_s, join_s = self.joins.boot_s, self.joins.join_s
        usual_s = None if boot_s is None else boot_s + (join_s or 0.0)
        return WaitingWork(crowds=(*pods, *balloons), wall_s=self.scene.moment.wall_s, usual_s=usual_s)

    @property
    def largest_demand(self) -> int:
        """The most nodes that the waiting pods of one owner need, within the user's bound on what is in flight."""
        needed: dict[str, float] = defaultdict(float)
        for crowd in waiting_crowds(self.scene.unplaced, self.rules, self.largest):
            needed[crowd.owner] += 0.0 if crowd.how.is_gated else crowd.nodes
        most = self.throttle.spec.max_in_flight
        bound = self.room.waiting if most is None else min(self.room.waiting, max(0, most - self.joins.in_flight))
        return min(math.ceil(max(needed.values(), default=0.0)), bound)

    @property
    def pods(self) -> list[Pod]:
        """Real pods without a node that may use them."""
        return [pod for pod in self.scene.unplaced if may_use(pod, self.rules)]


def plan_levers(case: LeverCase, memory: LeverMemory) -> Planned:
    """What to write for each lever of the throttle, and what to remember."""
    outcomes: list[LeverOutcome] = []
    for plan in (_quota, _node_pools, _gates, _taints, _labels):
        found, memory = plan(case, memory)
        outcomes += found
    return tuple(outcomes), memory


def _quota(case: LeverCase, memory: LeverMemory) -> Planned:
    lever = case.throttle.spec.levers.capacity_quota
    if lever is None:
        return (), memory
    stored = case.scene.quotas.get(lever.name)
    if owner := quota_owner(lever.name, case.older):
        outcome = let_go(f"{CAPACITY_QUOTA_KIND}/{lever.name}", stored, owner, case.holder)
        return (outcome,), replace(memory, quota=QuotaMemory())
    seen = QuotaSeen(
        name=lever.name, selector=case.throttle.spec.nodes, api_version=case.scene.quota_version, quota=stored
    )
    now_s = case.scene.moment.now_s
    outcome, quota = plan_capacity_quota(seen, case.quota_room, case.holder, memory.quota, now_s, case.largest_demand)
    return (outcome,), replace(memory, quota=quota)


def _node_pools(case: LeverCase, memory: LeverMemory) -> Planned:
    lever = case.throttle.spec.levers.node_pool_limits
    if lever is None:
        return (), memory
    claims = _by_pool(case.scene.claims)
    named = [pool for pool in case.scene.pools if is_of(pool, lever, case.throttle.spec.nodes)]
    others = {pool.metadata.name: owner for pool in named if (owner := pool_owner(pool, case.older))}
    seen = [
        NodePoolSeen(pool=pool, claims=claims.get(pool.metadata.name, ()))
        for pool in named
        if pool.metadata.name not in others
    ]
    now_s = case.scene.moment.now_s
    found, pools = plan_node_pools(seen, case.pools_room, case.waiting, case.holder, memory.pools, now_s)
    gone = (_let_go(pool, others[pool.metadata.name], case) for pool in named if pool.metadata.name in others)
    return (*found, *gone), replace(memory, pools=pools)


def _let_go(pool: NodePool, owner: str, case: LeverCase) -> LeverOutcome:
    return let_go(f"{NODE_POOL_KIND}/{pool.metadata.name}", pool, owner, case.holder)


def _gates(case: LeverCase, memory: LeverMemory) -> Planned:
    lever = case.throttle.spec.levers.scheduling_gates
    if lever is None or not lever.enabled:
        return (), memory
    released = case.joins.released if case.rules.has_ceiling else 0
    demand = GatedDemand(pods=case.pods, shape=case.largest, released=released)
    settings = GateSettings(
        max_wait_s=case.throttle.spec.max_wait_s,
        urgent_priority=case.throttle.spec.reserved.priority_at_least,
        small_nodes=case.throttle.spec.reserved.demand_at_most,
    )
    outcome, gates = release_gates(demand, settings, case.room, memory.gates, case.scene.moment)
    return (outcome,), replace(memory, gates=gates)


def _taints(case: LeverCase, memory: LeverMemory) -> Planned:
    lever = case.throttle.spec.levers.startup_taint
    if lever is None:
        return (), memory
    settings = TaintSettings(key=lever.key, max_wait_s=case.throttle.spec.max_wait_s)
    outcome, taints = release_taints(case.nodes, settings, case.room, memory.taints, case.scene.moment)
    return (outcome,), replace(memory, taints=taints)


def _labels(case: LeverCase, memory: LeverMemory) -> Planned:
    lever = case.throttle.spec.levers.daemon_set_label
    if lever is None:
        return (), memory
    settings = LabelSettings(key=lever.key, value=lever.value, max_wait_s=case.throttle.spec.max_wait_s)
    outcome, labels = put_labels(case.nodes, settings, case.room, memory.labels, case.scene.moment)
    return (outcome,), replace(memory, labels=labels)


def _regardless_of_owner(crowds: Iterable[Crowd]) -> Iterable[Crowd]:
    """Pods that ask the same, together: thousands of Jobs are a handful of crowds to Karpenter."""
    found: dict[tuple[object, ...], Crowd] = {}
    for crowd in crowds:
        how = crowd.how
        kind = id(how.tolerations), id(how.node_selector), id(how.node_terms), id(crowd.requests)
        key = (*kind, how.is_gated, crowd.is_urgent)
        found[key] = replace(crowd, nodes=crowd.nodes + found[key].nodes) if key in found else crowd
    return found.values()


def _by_pool(claims: Iterable[NodeClaim]) -> Mapping[str, tuple[NodeClaim, ...]]:
    found: dict[str, list[NodeClaim]] = {}
    for claim in claims:
        found.setdefault(claim.pool, []).append(claim)
    return {name: tuple(own) for name, own in found.items()}
