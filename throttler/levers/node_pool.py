"""Karpenter's ceiling: `spec.limits` of NodePools, in cpu, memory and accelerators.

One call plans all pools of a throttle, because they share its allowance. All that must survive stands on the
NodePools; the memory is for rate limits and hysteresis.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from throttler.kube.node_claim import NodeClaim
from throttler.kube.node_pool import NodePool
from throttler.kube.resources import Resources
from throttler.levers.demand import Demand
from throttler.levers.holder import THROTTLE_LABEL, Holder
from throttler.levers.lever import LeverOutcome, Room
from throttler.levers.one_pool import Look, PoolMemory, plan_pool
from throttler.levers.pool_ceiling import PoolRoom
from throttler.levers.replacements import replacements
from throttler.levers.shares import shares
from throttler.levers.taken_up import is_pool_taken_up


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePoolSeen:
    """A NodePool and all NodeClaims that were made for it."""

    pool: NodePool
    claims: tuple[NodeClaim, ...] = ()

    @property
    def name(self) -> str:
        """The pool's name."""
        return self.pool.metadata.name

    @property
    def booting(self) -> int:
        """Machines on their way."""
        return sum(not claim.is_initialized and not claim.is_deleting for claim in self.claims)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePoolMemory:
    """What is remembered between looks; a fresh one costs time and never a user's value."""

    demand: Demand = field(default_factory=Demand)
    pools: Mapping[str, PoolMemory] = field(default_factory=dict)


def plan_node_pools(
    seen: Sequence[NodePoolSeen], room: Room, hint: Resources, holder: Holder, memory: NodePoolMemory, now_s: float
) -> tuple[tuple[LeverOutcome, ...], NodePoolMemory]:
    """What to write on each NodePool, in the order of their names.

    `room` is that of the whole throttle: its allowance is split here, and what exists and boots is counted from each
    pool's own claims. `hint` is the largest request among the waiting pods, used for pools that never had a machine.
    """
    ordered = sorted(seen, key=lambda one: one.name)
    demand = _demand(ordered, room, holder, memory.demand, now_s)
    rooms = _rooms(ordered, room, demand.step(now_s))
    is_over = demand.is_over(room, now_s)
    look = Look(room=room, hint=hint, holder=holder, now_s=now_s, is_over=is_over, unmet_s=demand.unmet_s(now_s))
    outcomes, pools = [], {}
    for one in ordered:
        known = memory.pools.get(one.name, PoolMemory())
        outcome, pools[one.name] = plan_pool(one.pool, one.claims, rooms[one.name], look, known)
        outcomes.append(outcome)
    return tuple(outcomes), replace(memory, demand=demand, pools=pools)


def _demand(seen: Sequence[NodePoolSeen], room: Room, holder: Holder, known: Demand, now_s: float) -> Demand:
    if not room.may_move:
        return known.unseen()
    ours = [one.pool for one in seen if one.pool.metadata.labels.get(THROTTLE_LABEL) == holder.label]
    return known.looked(room, _newest_order_s(seen), now_s, is_taken_up=all(map(is_pool_taken_up, ours)))


def _newest_order_s(seen: Sequence[NodePoolSeen]) -> float:
    return max((claim.metadata.created_s for one in seen for claim in one.claims), default=0.0)


def _rooms(seen: Sequence[NodePoolSeen], room: Room, doublings: int) -> dict[str, PoolRoom]:
    """Once nothing starts although there is room, each pool gets all of it: the demand may be for any one of them."""
    split = shares(room.allowance, {one.name: one.booting for one in seen}) if seen else {}
    return {
        one.name: PoolRoom(
            share=room.allowance if doublings else split[one.name],
            replacements=replacements(one.pool, one.claims),
            doublings=max(0, doublings - 1),
        )
        for one in seen
    }
