"""Karpenter's ceiling: `spec.limits` of NodePools, in cpu, memory and accelerators.

One call plans all pools of a throttle, because they share its budget. All that must survive stands on the NodePools;
the memory is for rate limits and hysteresis.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from throttler.joins.demand import Crowd
from throttler.kube.karpenter import NodeClaim, NodePool
from throttler.kube.pod import Scheduling
from throttler.kube.quantity import Resources
from throttler.levers.ceiling_need import CeilingNeed
from throttler.levers.holder import THROTTLE_LABEL, Holder
from throttler.levers.lever import LeverOutcome, Room
from throttler.levers.node_pool_plan import CeilingContext, CeilingMemory, plan_pool, refusal
from throttler.levers.pool_ceiling import PoolRoom
from throttler.levers.pool_figures import has_users_room
from throttler.levers.pool_matching import in_karpenters_order, may_hold, may_make
from throttler.levers.shares import Candidate, Need, WaitingWork, needs_of, pool_rooms
from throttler.levers.sizes import sizes_seen
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
    def coming(self) -> frozenset[str]:
        """Machines on their way, by the names of their claims."""
        coming = (claim for claim in self.claims if not claim.is_initialized and not claim.is_deleting)
        return frozenset(claim.metadata.name for claim in coming)

    @property
    def ordered_s(self) -> float:
        """Creation of the newest machine."""
        return max((claim.metadata.created_s for claim in self.claims), default=0.0)

    def is_late(self, waiting: WaitingWork) -> bool:
        """Whether machines do not become usable in time, and none that was ordered after them has."""
        ages = [(claim.metadata.created_s, claim.is_initialized) for claim in self.claims if not claim.is_deleting]
        late = [at_s for at_s, is_usable in ages if not is_usable and waiting.wall_s - at_s > waiting.late_s]
        return bool(late) and not any(is_usable and at_s > min(late) for at_s, is_usable in ages)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePoolMemory:
    """What is remembered between looks; a fresh one costs time and never a user's value."""

    demand: CeilingNeed = field(default_factory=CeilingNeed)
    pools: Mapping[str, CeilingMemory] = field(default_factory=dict)


def plan_node_pools(
    seen: Sequence[NodePoolSeen], room: Room, waiting: WaitingWork, holder: Holder, memory: NodePoolMemory, now_s: float
) -> tuple[tuple[LeverOutcome, ...], NodePoolMemory]:
    """What to write on each NodePool, in the order of their names.

    `room` is that of the whole throttle: its allowance is split here, and what exists and boots is counted from each
    pool's own claims.
    """
    demand = memory.demand.looked(room, now_s) if room.may_move else memory.demand.unseen()
    look = CeilingContext(room=room, holder=holder, now_s=now_s, is_over=demand.is_over(room, now_s))
    heard = {one.name: _heard(one, memory.pools.get(one.name, CeilingMemory()), look) for one in seen}
    crowds, candidates = _candidates(seen, waiting, look, heard)
    needs = needs_of(crowds, candidates)
    rooms = pool_rooms(room.allowance, candidates, needs, now_s)
    outcomes, pools = [], {}
    for one in sorted(seen, key=lambda one: one.name):
        need = needs[one.name]
        known, own_room = _searched(one, rooms[one.name], need, look, heard[one.name])
        outcome, pools[one.name] = plan_pool(one.pool, one.claims, own_room, need.hint, look, known)
        outcomes.append(outcome)
    return tuple(outcomes), NodePoolMemory(demand=demand, pools=pools)


def _heard(one: NodePoolSeen, known: CeilingMemory, look: CeilingContext) -> CeilingMemory:
    """The memory of a pool after a look at what it ordered; while blind nothing is missed."""
    if not look.room.may_move:
        return replace(known, search=known.search.waited(look.now_s, is_unmet=False))
    is_ours = one.pool.metadata.labels.get(THROTTLE_LABEL) == look.holder.label
    is_taken_up = not is_ours or is_pool_taken_up(one.pool)
    search = known.search.heard(one.ordered_s, look.now_s, is_taken_up=is_taken_up)
    return replace(known, search=search, charge=known.charge.looked(one.coming, look.now_s))


def _candidates(
    seen: Sequence[NodePoolSeen], waiting: WaitingWork, look: CeilingContext, heard: Mapping[str, CeilingMemory]
) -> tuple[Sequence[Crowd], Sequence[Candidate]]:
    """What waits, and the pools as those that may serve it, in Karpenter's order.

    Demand that no pool seems to serve may be for any of them: it is not for us to say that it is for none.
    """
    by_name = {one.name: one for one in seen}
    ordered = [by_name[pool.metadata.name] for pool in in_karpenters_order(one.pool for one in seen)]
    sizes = {one.name: sizes_seen(one.pool, one.claims) for one in ordered}
    serves = {one.name: _serves(one.pool, sizes[one.name], waiting.crowds) for one in ordered}
    crowds: Sequence[Crowd] = waiting.crowds
    if not any(serves.values()):
        nodes = look.room.waiting + sum(len(one.coming) for one in ordered)
        crowds, serves = (Crowd(Scheduling(), {}, nodes),), {one.name: frozenset({0}) for one in ordered}
    candidates = [
        Candidate(
            name=one.name,
            serves=serves[one.name],
            coming=len(one.coming),
            is_late=one.is_late(waiting),
            is_full=refusal(one.pool, look.holder) is not None
            or not one.pool.is_usable
            or not has_users_room(one.pool, one.claims, sizes[one.name]),
            is_dry=heard[one.name].search.is_dry(look.now_s),
            ordered_s=one.ordered_s,
        )
        for one in ordered
    ]
    return crowds, candidates


def _serves(pool: NodePool, sizes: Sequence[Resources], crowds: Sequence[Crowd]) -> frozenset[int]:
    known = dict[tuple[int, int, int], bool]()
    found = []
    for at, crowd in enumerate(crowds):
        # Caches share the parts that equal pods have, so identity tells; there may be thousands of crowds.
        key = id(crowd.how.tolerations), id(crowd.how.node_selector), id(crowd.how.node_terms)
        if key not in known:
            known[key] = may_make(pool, crowd.how)
        if known[key] and may_hold(sizes, crowd.requests):
            found.append(at)
    return frozenset(found)


def _searched(
    one: NodePoolSeen, room: PoolRoom, need: Need, look: CeilingContext, known: CeilingMemory
) -> tuple[CeilingMemory, PoolRoom]:
    """The memory and the room of a pool whose room may be too small for what waits.

    A pool whose pods another one serves is out of stock as a rule. Only where the machine that they need may be larger
    than all that it had does its room grow as well.
    """
    is_unmet = bool(room.lighter) or (room.share > 0 and need.seen > 0)
    search = known.search.waited(look.now_s, is_unmet=is_unmet and look.room.may_move)
    step = search.step(look.now_s)
    seen = known.figures.seen if known.figures else {}
    is_size_known = bool(seen) and all(milli <= seen.get(name, 0) for name, milli in need.hint.items() if name in seen)
    doublings = max(0, step - 1)
    if room.lighter:
        # What the other pool has on its way and this room together are no more than twice the budget.
        most = max(1, look.room.allowance).bit_length() - 1
        doublings = 0 if is_size_known else min(doublings, most)
    charge = known.charge.given(min(room.share, math.ceil(need.seen)), look.now_s)
    room = replace(room, doublings=doublings, charge=charge.within(seen))
    return replace(known, search=search, charge=charge), room
