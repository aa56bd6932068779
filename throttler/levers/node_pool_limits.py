"""Karpenter's ceiling: `spec.limits` of NodePools, in cpu, memory and accelerators.

One call decides for all pools of a throttle, because they share its budget. For each pool it is to refuse, touch
nothing, hand back, or write the ceiling together with the user's value, and to say how far the ceiling can be
trusted. All that must survive stands on the NodePools; the memory is for rate limits and hysteresis.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce

from throttler.api.throttle import JoinThrottle, NodePoolLever
from throttler.joins.demand import Crowd
from throttler.kube.karpenter import NODE_POOL_KIND, NodeClaim, NodePool
from throttler.kube.metadata import ObjectKey
from throttler.kube.pod import Scheduling
from throttler.kube.quantities_and_durations import Resources, format_milli, larger, total
from throttler.kube.reasons_and_events import Because, because
from throttler.kube.selectors import LabelSelector
from throttler.kube.taints import Toleration
from throttler.levers.ceiling import (
    CeilingLever,
    CeilingNeed,
    ObjectCeiling,
    ObjectMemory,
    StateAndReason,
    absent,
    held_by_newer,
    is_pool_taken_up,
)
from throttler.levers.lever_and_reasons import (
    THROTTLE_LABEL,
    Holder,
    LeverBudget,
    LeverContext,
    LeverDecision,
    LeverReason,
    LeverState,
    PacedAutoscaler,
)
from throttler.levers.node_pool_ceiling import (
    CPU,
    DIFFERS_MUCH,
    Charge,
    PoolFigures,
    PoolShare,
    Unheard,
    assumed_size,
    ceiling_of,
    has_users_room,
    size_of,
    sizes_seen,
    smaller,
    usage_of,
)
from throttler.levers.pool_shares import (
    Candidate,
    Makers,
    Need,
    WaitingWork,
    in_karpenters_order,
    is_of,
    may_have_accelerators,
    may_make,
    needs_of,
    node_pool_shares,
    waiting_work,
)
from throttler.levers.saved_limits import SavedLimits, amount_of


@dataclass(frozen=True, kw_only=True)
class NodePoolView:
    """A NodePool and all NodeClaims that were made for it."""

    pool: NodePool
    claims: tuple[NodeClaim, ...] = ()

    @property
    def name(self) -> str:
        """The pool's name."""
        return self.pool.metadata.name

    @cached_property
    def coming(self) -> Mapping[str, bool]:
        """Machines on their way, by the names of their claims, and whether each can be of one type only."""
        coming = (claim for claim in self.claims if not claim.is_initialized and not claim.is_deleting)
        return {claim.metadata.name: claim.is_of_one_type for claim in coming}

    @property
    def sizes_of_one_type(self) -> list[Resources]:
        """Of its machines that are of the one type that its user names now."""
        named = self.pool.one_type
        own = (size_of(claim) for claim in self.claims if named and claim.is_launched and claim.instance_type == named)
        return [size for size in own if size]

    @property
    def coming_for_pods(self) -> int:
        """How many of them are for pods that wait: each machine that is being replaced has one of the others."""
        return max(0, len(self.coming) - sum(claim.is_being_replaced for claim in self.claims))

    @property
    def ordered_s(self) -> float:
        """Creation of the newest machine."""
        return max((claim.metadata.created_s for claim in self.claims), default=0.0)

    def is_late(self, waiting: WaitingWork) -> bool:
        """Whether machines do not become usable in time, and none that was ordered after them has."""
        ages = [(claim.metadata.created_s, claim.is_initialized) for claim in self.claims if not claim.is_deleting]
        late = [at_s for at_s, is_usable in ages if not is_usable and waiting.wall_s - at_s > waiting.late_s]
        return bool(late) and not any(is_usable and at_s > min(late) for at_s, is_usable in ages)


TRIED = 8
"""So many machines' worth of room, with those on their way, all pools together try where they had machines that hold
what waits: the one that is in stock may be larger. More would be room for ever more of the usual ones, which are
ordered all at once when stock comes back: 96 where 6 were allowed."""
TRIED_FOR_S = 11.0
"""What that leaves goes to each pool in turn for so long: Karpenter looks within ten seconds. The rest between two
searches is no whole number of turns, so that each pool has one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CeilingMemory(ObjectMemory):
    """What is remembered of one pool."""

    charge: Charge = field(default_factory=Charge)
    unheard: Unheard = field(default_factory=Unheard)
    figures: PoolFigures | None = None
    before: SavedLimits | None = None
    """The mark as it stood before our last write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePoolMemory:
    """What is remembered between looks; a fresh one costs time and never a user's value."""

    demand: CeilingNeed = field(default_factory=CeilingNeed)
    pools: Mapping[str, CeilingMemory] = field(default_factory=dict)


class NodePoolLimits(CeilingLever[NodePoolLever, NodePoolMemory, NodePool]):
    """`levers.nodePoolLimits`."""

    FIELD = "node_pool_limits"
    WRITES_ON = NodePool.NAMES
    OBJECTS = NodePool
    PACES = PacedAutoscaler.KARPENTER

    def fresh(self) -> NodePoolMemory:
        """Nothing is known."""
        return NodePoolMemory()

    def moves(self, thing: NodePool, settings: NodePoolLever, nodes: LabelSelector) -> bool:
        """Those that it names, or whose nodes the throttle selects."""
        return is_of(thing, settings, nodes)

    def undecided(self, keys: Collection[ObjectKey], memory: NodePoolMemory, before: NodePoolMemory) -> NodePoolMemory:
        """By the pools' names."""
        pools = {key.name: before.pools.get(key.name, CeilingMemory()) for key in keys}
        return replace(memory, pools={**memory.pools, **pools})

    def decide(self, context: LeverContext, memory: NodePoolMemory) -> tuple[tuple[LeverDecision, ...], NodePoolMemory]:
        """What to write on each NodePool of the throttle."""
        own, others = self.own(context)
        claims: dict[str, list[NodeClaim]] = {}
        for claim in context.scene.claims:
            claims.setdefault(claim.pool, []).append(claim)
        views = [NodePoolView(pool=pool, claims=tuple(claims.get(pool.metadata.name, ()))) for pool in own]
        room, waiting = context.room_of(self.PACES), waiting_work(context)
        decisions, pools = decide_node_pools(views, room, waiting, context.holder, memory, context.now_s)
        there = {pool.metadata.name for pool in context.scene.of(NodePool)}
        names = self.stated(context).names
        lacking = absent(NODE_POOL_KIND, names, there, LeverReason.NO_NODE_POOL, context)
        if not (own or others or lacking):
            lacking = absent(NODE_POOL_KIND, ("*",), there, LeverReason.NO_POOL_SELECTED, context)
        # That a pool is static is no trouble where nobody names it, unless all of them are and nothing is paced.
        paced = [decision for decision in decisions if decision.because.reason is not LeverReason.STATIC_POOL]
        return (*(decisions if names or not paced else paced), *others, *lacking), pools


NODE_POOL_LIMITS = NodePoolLimits()


def unpaced_pools(
    pools: Iterable[NodePool], throttle: JoinThrottle, throttles: Iterable[JoinThrottle]
) -> tuple[str, ...]:
    """Pools that no throttle moves and Karpenter may order from for this one's nodes: growth is not paced there.

    Asked is for a pod that wants the throttle's nodes and tolerates the taints of a pool that its lever moves. At its
    ceiling such a pool is passed over, and the next that the pod may use is tried in the same round.
    """
    lever, nodes, known = throttle.spec.levers.node_pool_limits, throttle.spec.nodes, tuple(pools)
    everybody = tuple(throttles)
    if lever is None:
        return ()
    terms = (nodes.match_expressions,) if nodes.match_expressions else ()
    pod = Scheduling((Toleration(operator="Exists"),), nodes.match_labels, terms)
    tolerated = {frozenset(taint.key for taint in pool.spec.taints) for pool in known if is_of(pool, lever, nodes)}
    free = [pool for pool in known if not pool.is_static and NODE_POOL_LIMITS.owner(pool, everybody) is None]
    barring = {
        pool.metadata.name: {taint.key for taint in pool.spec.taints if taint.effect != "PreferNoSchedule"}
        for pool in free
        if may_make(pool, pod)
    }
    return tuple(sorted(name for name, keys in barring.items() if any(keys <= own for own in tolerated)))


def decide_node_pools(
    views: Sequence[NodePoolView],
    room: LeverBudget,
    waiting: WaitingWork,
    holder: Holder,
    memory: NodePoolMemory,
    now_s: float,
) -> tuple[tuple[LeverDecision, ...], NodePoolMemory]:
    """What to write on each NodePool, in the order of their names.

    `room` is that of the whole throttle: its allowance is split here, and what exists and boots is counted from each
    pool's own claims.
    """
    demand = memory.demand.looked(room, now_s)
    known = {
        pool.name: _ordered(pool, memory.pools.get(pool.name, CeilingMemory()), room, holder, now_s) for pool in views
    }
    crowds, candidates = _candidates(views, waiting, room, holder, known, now_s)
    needs = needs_of(crowds, candidates)
    # What nobody has heard of is in flight beside what is counted so.
    budget = max(0, room.allowance - sum(memory_of.unheard.machines for memory_of in known.values()))
    shares = node_pool_shares(budget, candidates, needs, now_s)
    places, coming = sum(share.nodes for share in shares.values()), sum(len(pool.coming) for pool in views)
    spare = max(0, TRIED - coming - places)
    in_order = sorted(views, key=lambda pool: pool.name)
    begin = int(now_s // TRIED_FOR_S) % max(1, len(in_order))
    decisions, pools = [], {}
    for pool in (*in_order[begin:], *in_order[:begin]):
        need = needs[pool.name]
        memory_of, share = _searched(pool, known[pool.name], shares[pool.name], need, room, spare, now_s)
        spare = max(0, spare - share.nodes * (2**share.doublings - 1))
        ceiling = PoolCeiling(
            thing=pool.pool,
            view=pool,
            room=room,
            share=share,
            hint=need.hint,
            holder=holder,
            now_s=now_s,
            is_over=demand.is_over(room, now_s),
            memory=memory_of,
        )
        decision, pools[pool.name] = ceiling.decided()
        decisions.append(decision)
    decisions.sort(key=lambda decision: decision.name)
    return tuple(decisions), NodePoolMemory(demand=demand, pools=pools)


def _ordered(
    view: NodePoolView, memory: CeilingMemory, room: LeverBudget, holder: Holder, now_s: float
) -> CeilingMemory:
    """The memory after a look at what the pool ordered; while blind nothing is missed."""
    if not room.may_move:
        return replace(memory, search=memory.search.waited(now_s, is_unmet=False))
    is_ours = view.pool.metadata.labels.get(THROTTLE_LABEL) == holder.label
    is_taken_up = not is_ours or is_pool_taken_up(view.pool)
    search = memory.search.heard(view.ordered_s, now_s, is_taken_up=is_taken_up)
    unheard = memory.unheard.looked(view.pool, view.claims, now_s)
    lost = memory.charge.coming.keys() - {claim.metadata.name for claim in view.claims if not claim.is_deleting}
    return replace(memory, search=search, charge=memory.charge.looked(view.coming, now_s, len(lost)), unheard=unheard)


def _candidates(
    views: Sequence[NodePoolView],
    waiting: WaitingWork,
    room: LeverBudget,
    holder: Holder,
    known: Mapping[str, CeilingMemory],
    now_s: float,
) -> tuple[Sequence[Crowd], Sequence[Candidate]]:
    """What waits, and the pools as those that may serve it, in Karpenter's order.

    Demand that no pool seems to serve may be for any of them: it is not for us to say that it is for none.
    """
    by_name = {pool.name: pool for pool in views}
    ordered = [by_name[pool.metadata.name] for pool in in_karpenters_order(pool.pool for pool in views)]
    sizes = {pool.name: sizes_seen(pool.pool, pool.claims) for pool in ordered}
    crowds: Sequence[Crowd] = waiting.crowds
    serves = _serves([pool.pool for pool in ordered], sizes, crowds)
    if not any(serves.values()):
        nodes = room.waiting + sum(pool.coming_for_pods for pool in ordered)
        crowds, serves = (Crowd(Scheduling(), {}, nodes),), {name: frozenset({0}) for name in serves}
    candidates = [
        Candidate(
            name=pool.name,
            serves=serves[pool.name],
            coming=pool.coming_for_pods,
            is_late=pool.is_late(waiting),
            is_full=_refusal(pool.pool, holder) is not None
            or not pool.pool.is_usable
            or not has_users_room(pool.pool, pool.claims, sizes[pool.name]),
            is_dry=known[pool.name].search.is_dry(now_s),
            ordered_s=pool.ordered_s,
            still_open=known[pool.name].charge.still_open(now_s, known[pool.name].unheard.machines),
        )
        for pool in ordered
    ]
    return crowds, candidates


def _serves(
    pools: Sequence[NodePool], sizes: Mapping[str, Sequence[Resources]], crowds: Sequence[Crowd]
) -> Mapping[str, frozenset[int]]:
    """Which of the crowds each pool may serve, by its name."""
    makers, known = Makers(pools), dict[tuple[int, int, int], list[str]]()
    served: dict[str, list[int]] = {pool.metadata.name: [] for pool in pools}
    for at, crowd in enumerate(crowds):
        # Caches share the parts that equal pods have, so identity tells; there may be thousands of crowds.
        key = id(crowd.how.tolerations), id(crowd.how.node_selector), id(crowd.how.node_terms)
        if key not in known:
            known[key] = [pool.metadata.name for pool in makers.of(crowd.how)]
        for name in known[key]:
            if may_have_accelerators(sizes[name], crowd.requests):
                served[name].append(at)
    return {name: frozenset(places) for name, places in served.items()}


def _doublings_within(times: int) -> int:
    return max(1, times).bit_length() - 1


def _searched(
    view: NodePoolView,
    memory: CeilingMemory,
    share: PoolShare,
    need: Need,
    room: LeverBudget,
    spare: int,
    now_s: float,
) -> tuple[CeilingMemory, PoolShare]:
    """The memory and the share of a pool whose share may be too small for what waits.

    A pool whose pods another one serves is out of stock as a rule. Only where the machine that they need may be larger
    than all that it had does its room grow as well. Where its size is known, it may have room for `spare` more.
    """
    is_unmet = bool(share.lighter) or (share.nodes > 0 and need.visible > 0)
    search = memory.search.waited(now_s, is_unmet=is_unmet and room.may_move)
    sizes, of_type = (memory.figures.largest, memory.figures.of_type) if memory.figures else ({}, "")
    is_of_one_type = bool(of_type) and of_type == view.pool.one_type
    fits = bool(sizes) and all(milli <= sizes[name] for name, milli in need.hint.items() if name in sizes)
    doublings = max(0, search.step(now_s) - 1)
    if fits or is_of_one_type:
        # The room is large enough. Where there may be larger machines an order that is long overdue tells otherwise.
        is_tried = search.is_dry(now_s) and not share.lighter and not is_of_one_type
        most = _doublings_within((share.nodes + spare) // max(1, share.nodes))
        doublings = min(doublings, most) if is_tried else 0
    elif share.lighter:
        # What the other pool has on its way and this room together are no more than twice the budget.
        doublings = min(doublings, _doublings_within(room.allowance))
    charge = memory.charge
    if room.may_move:
        charge = charge.given(share.nodes, math.ceil(need.visible), now_s, memory.unheard.machines)
    share = replace(share, doublings=doublings, charge=charge.within(sizes))
    return replace(memory, search=search, charge=charge), share


@dataclass(frozen=True, kw_only=True)
class PoolCeiling(ObjectCeiling[NodePool, CeilingMemory]):
    """One NodePool at one moment."""

    KIND = NodePool.NAMES
    LIMITS = NodePool.LIMITS
    UNIT = CPU, "cores"

    view: NodePoolView
    share: PoolShare
    """What it may grow by."""
    hint: Resources
    """The largest request that waits for it."""

    @cached_property
    def figures(self) -> PoolFigures:
        """What the ceiling is made of; sizes that it had are not forgotten at once."""
        last, sizes = self.memory.figures, sizes_seen(self.view.pool, self.view.claims)
        named, own = self.view.pool.one_type, self.view.sizes_of_one_type
        of_type = named if own or (last and last.of_type == named) else ""
        if of_type and last and last.of_type != of_type:
            last = None
        there: Resources = reduce(larger, own if of_type else sizes, {})
        largest, seen_s = last.largest_of(there, self.now_s) if last else (there, self.now_s)
        return PoolFigures(
            sizes=sizes,
            largest=largest,
            of_type=of_type,
            seen_s=seen_s,
            usage=usage_of(
                self.view.pool, self.view.claims, largest or assumed_size(self.hint), self.memory.unheard.gone
            ),
        )

    def refusal(self) -> StateAndReason | None:
        """Also where the size is the user's decision."""
        return _refusal(self.view.pool, self.holder)

    def heard(self) -> CeilingMemory:
        """With who changed the limits, and whether Karpenter has seen them."""
        memory = replace(self.memory, contest=self.memory.contest.heard(self.now_s, is_foreign=self.is_foreign))
        if not self.room.may_move:
            return memory
        uptake = memory.uptake.looked(self.now_s, is_taken_up=is_pool_taken_up(self.view.pool))
        return replace(memory, uptake=uptake)

    def wanted(self) -> tuple[Resources, Resources]:
        """In capacity; not below the usage of the look before, which adds nothing to the room."""
        figures, last = self.figures, self.memory.figures
        largest, before = figures.largest or assumed_size(self.hint), last.usage if last else {}
        ceiling = ceiling_of(figures.usage, largest, self.share)
        wanted = {name: max(milli, before.get(name, 0)) for name, milli in ceiling.items()}
        in_force, smallest = self.ceiling_in_force, reduce(smaller, figures.sizes, largest)
        # Those that stand where they admit just as many machines: machines that register move the usage a little
        # (estimates become real sizes), and each write is a request.
        steady: Resources = {
            name: in_force[name]
            if name in in_force and milli <= in_force[name] < milli + smallest.get(name, 0)
            else milli
            for name, milli in wanted.items()
        }
        return steady, figures.usage

    def remembered(self, new: SavedLimits, *, is_written: bool) -> CeilingMemory:
        """The figures of this look, and what stood before the last write."""
        before = self.kept if is_written else self.memory.before
        return replace(self.memory, figures=self.figures, before=before)

    def handed_back_memory(self) -> CeilingMemory:
        """How large its machines are, and what Karpenter counts too many."""
        return CeilingMemory(figures=self.memory.figures, unheard=self.memory.unheard)

    def reason(self, new: SavedLimits, ceiling: str) -> Because:
        """The user's own limit, what other pools do, what it had, or the room there is."""
        figures, share = self.figures, self.share
        unmet_s = self.memory.search.unmet_s(self.now_s)
        if _is_users(new):
            limit = new.ceiling.get(CPU, (self.limits or {}).get(CPU))
            return because(LeverReason.USER_LIMIT_IS_LOWER, limit=limit)
        if share.lighter:
            return because(LeverReason.RAN_DRY, ceiling=ceiling, waited=round(unmet_s), lighter=share.lighter)
        if share.heavier and not share.nodes:
            return because(LeverReason.HEAVIER_FIRST, ceiling=ceiling, heavier=share.heavier)
        if share.doublings:
            return because(LeverReason.NOTHING_STARTS, ceiling=ceiling, waited=round(unmet_s))
        if not figures.largest and share.nodes:
            return because(LeverReason.PROBING_SIZE, ceiling=ceiling)
        if share.charge > 1:
            return because(LeverReason.WIDE_POOL, ceiling=ceiling, share=share.nodes, charge=share.charge)
        usage = f"{format_milli(figures.usage.get(CPU, 0))} cores"
        cores = sorted(size.get(CPU, 0) for size in figures.sizes)
        if cores and cores[-1] >= DIFFERS_MUCH * cores[0] > 0:
            detail = {"smallest": format_milli(cores[0]), "largest": format_milli(cores[-1]), "share": share.nodes}
            return because(LeverReason.PACING_IN_CAPACITY, ceiling=ceiling, **detail)
        return because(LeverReason.PACING, ceiling=ceiling, usage=usage, share=share.nodes)

    def exception(self, new: SavedLimits, reason: Because) -> StateAndReason | None:
        """Machines beyond the last two ceilings, more than one batch and replacements explain.

        A round that was under way went by the ceiling before; without one it went by none. Karpenter starts a
        replacement while usage is not above the ceiling: three drifted machines under a ceiling equal to the usage had
        two replacements at once (observed, 1.15.0).
        """
        in_force, before = _cores(self.kept), _cores(self.memory.before)
        if in_force is None or before is None:
            return None
        remaining = [claim for claim in self.view.claims if not claim.is_leaving]
        usage = total(size_of(claim) for claim in remaining).get(CPU, 0)
        drifted = sum(claim.is_drifted for claim in remaining)
        allowed = max(in_force, before) + (1 + drifted) * self.figures.largest.get(CPU, 0)
        if usage <= allowed:
            return None
        why = because(LeverReason.OVERRUN, usage=format_milli(usage), ceiling=self.kept.ceiling[CPU])
        return LeverState.UNCONFIRMED, why


def _refusal(pool: NodePool, holder: Holder) -> StateAndReason | None:
    if pool.is_static:
        return LeverState.REFUSED, because(LeverReason.STATIC_POOL)
    return held_by_newer(pool.metadata, holder)


def _is_users(mark: SavedLimits) -> bool:
    return all(value == mark.original.get(name) for name, value in mark.ceiling.items())


def _cores(mark: SavedLimits | None) -> int | None:
    """A ceiling of ours, in milli-cores; None where the user's own value, or nothing, stood."""
    value = mark.ceiling.get(CPU) if mark else None
    is_ours = mark is not None and value is not None and value != mark.original.get(CPU)
    return amount_of(value) if is_ours else None
