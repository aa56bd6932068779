"""Karpenter's ceiling: `spec.limits` of NodePools, in cpu, memory and accelerators.

One call plans all pools of a throttle, because they share its budget. For each pool the plan is to refuse, hold still,
hand back, or write the ceiling together with the user's value, and to report how far the ceiling can be trusted. All
that must survive stands on the NodePools; the memory is for rate limits and hysteresis.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from throttler.api.throttle import NodePoolLever
from throttler.joins.demand import Crowd
from throttler.kube.because import Because, because
from throttler.kube.karpenter import NODE_POOL_KIND, NodeClaim, NodePool
from throttler.kube.metadata import ObjectKey
from throttler.kube.pod import Scheduling
from throttler.kube.quantity import QuantityError, Resources, format_milli, total
from throttler.kube.selectors import LabelSelector
from throttler.levers.ceiling import (
    CONTESTED_WRITE_EVERY_S,
    CeilingNeed,
    Contest,
    RoomSearch,
    Standing,
    Uptake,
    held_by_another,
    is_pool_taken_up,
)
from throttler.levers.lever import (
    THROTTLE_LABEL,
    Holder,
    How,
    LeverBudget,
    LeverOutcome,
    LeverReason,
    LeverReport,
    LeverState,
    LeverWrite,
)
from throttler.levers.lever_context import CeilingLever, LeverContext, PacedAutoscaler
from throttler.levers.node_pool_ceiling import (
    CPU,
    DIFFERS_MUCH,
    Charge,
    PoolFigures,
    PoolRoom,
    figures_of,
    has_users_room,
    size_of,
    sizes_seen,
)
from throttler.levers.pool_shares import (
    Candidate,
    Need,
    WaitingWork,
    in_karpenters_order,
    is_of,
    may_hold,
    may_make,
    needs_of,
    pool_rooms,
    waiting_work,
)
from throttler.levers.saved_limits import (
    SavedLimits,
    amount_of,
    foreign,
    is_marked_so,
    is_unreadable,
    marked,
    read_saved,
    restore,
    shown,
    taken_in,
    with_ceiling,
)


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
class CeilingContext:
    """What all pools of a throttle have in common at one moment; `now_s` is monotonic."""

    room: LeverBudget
    holder: Holder
    now_s: float
    is_over: bool
    """Whether ceilings are to be handed back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CeilingMemory:
    """What is remembered of one pool."""

    contest: Contest = field(default_factory=Contest)
    search: RoomSearch = field(default_factory=RoomSearch)
    charge: Charge = field(default_factory=Charge)
    uptake: Uptake = field(default_factory=Uptake)
    figures: PoolFigures | None = None
    mark: SavedLimits | None = None
    """As we wrote it last: it goes back on an object that lost its annotation while our values stand."""
    before: SavedLimits | None = None
    """As it stood before our last write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePoolMemory:
    """What is remembered between looks; a fresh one costs time and never a user's value."""

    demand: CeilingNeed = field(default_factory=CeilingNeed)
    pools: Mapping[str, CeilingMemory] = field(default_factory=dict)


Planned = tuple[LeverOutcome, CeilingMemory]


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

    def plan(self, context: LeverContext, memory: NodePoolMemory) -> tuple[tuple[LeverOutcome, ...], NodePoolMemory]:
        """What to write on each NodePool of the throttle."""
        own, others = self.own(context)
        claims: dict[str, list[NodeClaim]] = {}
        for claim in context.scene.claims:
            claims.setdefault(claim.pool, []).append(claim)
        seen = [NodePoolSeen(pool=pool, claims=tuple(claims.get(pool.metadata.name, ()))) for pool in own]
        room, waiting = context.room_of(self.PACES), waiting_work(context)
        outcomes, pools = plan_node_pools(seen, room, waiting, context.holder, memory, context.now_s)
        return (*outcomes, *others), pools


NODE_POOL_LIMITS = NodePoolLimits()


def plan_node_pools(
    seen: Sequence[NodePoolSeen],
    room: LeverBudget,
    waiting: WaitingWork,
    holder: Holder,
    memory: NodePoolMemory,
    now_s: float,
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


def plan_pool(
    pool: NodePool,
    claims: Sequence[NodeClaim],
    room: PoolRoom,
    hint: Resources,
    look: CeilingContext,
    memory: CeilingMemory,
) -> Planned:
    """What to write on this pool now, and what to remember of it; `hint` is the largest request that waits for it."""
    if refused := refusal(pool, look.holder):
        return _outcome(pool, SavedLimits(original={}, ceiling={}), refused), memory
    mark = _mark(pool, memory)
    if mark is None and is_unreadable(pool.metadata):
        why = because(LeverReason.ORIGINAL_UNREADABLE)
        return _outcome(pool, SavedLimits(original={}, ceiling={}), (LeverState.REFUSED, why)), memory
    kept = taken_in(mark, pool.spec.limits, pool.metadata.managed_fields, NodePool.LIMITS)
    is_foreign = mark is not None and bool(foreign(mark, pool.spec.limits or {}))
    memory = replace(memory, contest=memory.contest.heard(look.now_s, is_foreign=is_foreign))
    if look.is_over or (mark is None and look.room.waiting <= 0):
        return _handed_back(pool, kept, look, memory)
    if not look.room.may_move:
        return _outcome(pool, kept, (LeverState.PENDING, because(LeverReason.VIEW_INCOMPLETE))), memory
    try:
        may_raise = memory.contest.may_raise(look.now_s)
        figures = figures_of(pool, claims, kept, room, hint, memory.figures, may_raise=may_raise)
    except QuantityError as error:
        unreadable = because(LeverReason.LIMIT_UNREADABLE, value=str(error))
        return _outcome(pool, kept, (LeverState.REFUSED, unreadable)), memory
    uptake = memory.uptake.looked(look.now_s, is_taken_up=is_pool_taken_up(pool))
    mark = with_ceiling(kept, figures.ceiling, pool.spec.limits, pool.metadata.managed_fields, NodePool.LIMITS)
    moment = PoolMoment(
        pool=pool, claims=claims, mark=mark, figures=figures, room=room, unmet_s=memory.search.unmet_s(look.now_s)
    )
    state = standing_of(moment, kept, memory.before, memory.contest, uptake, look.now_s)
    memory = replace(memory, figures=figures, uptake=uptake, mark=mark if mark.ceiling else None)
    if _is_fulfilled(pool, mark, look.holder) or not memory.contest.may_write(look.now_s):
        return _outcome(pool, mark, state), memory
    # One apply with the ceiling and the values to restore: neither is ever there without the other.
    metadata = marked(pool.metadata, pool.metadata.name, mark, look.holder)
    names = {"apiVersion": pool.api_version, "kind": NODE_POOL_KIND}
    write = LeverWrite(
        api_version=pool.api_version,
        kind=NODE_POOL_KIND,
        key=ObjectKey("", pool.metadata.name),
        how=How.APPLY,
        body={**names, "metadata": metadata, "spec": {"limits": dict(mark.ceiling)}},
        because=reason_of(moment),
        is_forced=True,
    )
    contest = memory.contest.wrote(look.now_s)
    return _outcome(pool, mark, state, (write,)), replace(memory, contest=contest, before=kept)


def refusal(pool: NodePool, holder: Holder) -> Standing | None:
    """Why the pool is left alone; None where it is ours to move."""
    if pool.spec.replicas is not None:
        return LeverState.REFUSED, because(LeverReason.STATIC_POOL)
    return held_by_another(pool.metadata, holder)


def _mark(pool: NodePool, memory: CeilingMemory) -> SavedLimits | None:
    """The mark on the object, or the one we remember where only the annotation was lost and our values stand."""
    known = memory.mark
    is_ours = known is not None and bool(known.ceiling) and not foreign(known, pool.spec.limits or {})
    return read_saved(pool.metadata) or (known if is_ours else None)


def _handed_back(pool: NodePool, kept: SavedLimits, look: CeilingContext, memory: CeilingMemory) -> Planned:
    reason = LeverReason.STOPPING if look.room.is_stopping else LeverReason.NOTHING_WAITS
    nothing = SavedLimits(original=kept.original, ceiling={})
    outcome = _outcome(pool, nothing, (LeverState.HANDED_BACK, because(reason)), restore(pool, reason, kept))
    return outcome, CeilingMemory(figures=memory.figures)


def _is_fulfilled(pool: NodePool, mark: SavedLimits, holder: Holder) -> bool:
    """Whether the object already says all of it, or there is nothing to say: the user's own limits are lower."""
    is_untouched = not mark.ceiling and THROTTLE_LABEL not in pool.metadata.labels
    stands = (pool.spec.limits or {}).items() >= mark.ceiling.items()
    return is_untouched or (stands and is_marked_so(pool.metadata, mark, holder))


def _outcome(pool: NodePool, mark: SavedLimits, state: Standing, writes: tuple[LeverWrite, ...] = ()) -> LeverOutcome:
    report = LeverReport(
        name=f"{NODE_POOL_KIND}/{pool.metadata.name}",
        state=state[0],
        because=state[1],
        ceiling=shown(mark.ceiling),
        original=shown({name: mark.original[name] for name in mark.ceiling}),
    )
    return LeverOutcome(report=report, writes=writes)


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolMoment:
    """One pool, what was derived from it, and what is to be written on it."""

    pool: NodePool
    claims: Sequence[NodeClaim]
    mark: SavedLimits
    figures: PoolFigures
    room: PoolRoom
    unmet_s: float

    @property
    def text(self) -> str:
        """The ceiling in words."""
        return f"{self.mark.ceiling.get(CPU, 'none')} cores"


def standing_of(
    moment: PoolMoment, kept: SavedLimits, before: SavedLimits | None, contest: Contest, uptake: Uptake, now_s: float
) -> Standing:
    """The state and its reason.

    `kept` is what stands on the object now, `before` what stood there before, `moment.mark` what is to be written.
    """
    if contest.is_contested(now_s):
        period = int(CONTESTED_WRITE_EVERY_S)
        return LeverState.CONTESTED, because(LeverReason.CONTESTED, period=period)
    if not moment.mark.ceiling:
        return LeverState.HANDED_BACK, reason_of(moment)
    if overrun := _overrun(moment, kept, before):
        return LeverState.UNCONFIRMED, overrun
    if uptake.is_late(now_s):
        waited = round(uptake.waited_s(now_s))
        return LeverState.UNCONFIRMED, because(LeverReason.LEVER_UNCONFIRMED, ceiling=moment.text, waited=waited)
    if not kept.ceiling or uptake.waiting_since_s is not None:
        return LeverState.PENDING, because(LeverReason.NOT_TAKEN_UP_YET, ceiling=moment.text)
    return LeverState.CONFIRMED, reason_of(moment)


def reason_of(moment: PoolMoment) -> Because:
    """Why the ceiling is what it is."""
    figures, room, ceiling = moment.figures, moment.room, moment.text
    if _is_users(moment.mark):
        limit = moment.mark.original.get(CPU) if moment.mark.ceiling else (moment.pool.spec.limits or {}).get(CPU)
        return because(LeverReason.USER_LIMIT_IS_LOWER, limit=limit)
    if room.lighter:
        return because(LeverReason.RAN_DRY, ceiling=ceiling, waited=round(moment.unmet_s), lighter=room.lighter)
    if room.heavier and not room.share:
        return because(LeverReason.HEAVIER_FIRST, ceiling=ceiling, heavier=room.heavier)
    if room.doublings:
        return because(LeverReason.NOTHING_STARTS, ceiling=ceiling, waited=round(moment.unmet_s))
    if not figures.seen and room.share:
        return because(LeverReason.PROBING_SIZE, ceiling=ceiling)
    if room.charge > 1:
        return because(LeverReason.WIDE_POOL, ceiling=ceiling, share=room.share, charge=room.charge)
    usage = f"{format_milli(figures.usage.get(CPU, 0))} cores"
    smallest, largest = figures.cores
    if largest >= DIFFERS_MUCH * smallest > 0:
        detail = {"smallest": format_milli(smallest), "largest": format_milli(largest), "share": room.share}
        return because(LeverReason.PACING_IN_CAPACITY, ceiling=ceiling, **detail)
    return because(LeverReason.PACING, ceiling=ceiling, usage=usage, share=room.share)


def _is_users(mark: SavedLimits) -> bool:
    return all(value == mark.original.get(name) for name, value in mark.ceiling.items())


def _overrun(moment: PoolMoment, kept: SavedLimits, before: SavedLimits | None) -> Because | None:
    """Machines beyond the last two ceilings, more than one batch and replacements explain.

    A round that was under way went by the ceiling before; without one it went by none. Karpenter starts a replacement
    while usage is not above the ceiling: three drifted machines under a ceiling equal to the usage had two replacements
    at once (observed, 1.15.0).
    """
    ceilings = [_cores(mark) for mark in (kept, before)]
    if None in ceilings or not moment.figures.seen:
        return None
    standing = [claim for claim in moment.claims if not claim.is_deleting]
    usage = total(size_of(claim) for claim in standing).get(CPU, 0)
    drifted = sum(claim.is_drifted for claim in standing)
    allowed = max(amount for amount in ceilings if amount) + (1 + drifted) * moment.figures.seen.get(CPU, 0)
    if usage <= allowed:
        return None
    return because(LeverReason.OVERRUN, usage=format_milli(usage), ceiling=kept.ceiling[CPU])


def _cores(mark: SavedLimits | None) -> int | None:
    """A ceiling of ours, in milli-cores; None where the user's own value, or nothing, stood."""
    value = mark.ceiling.get(CPU) if mark else None
    is_ours = mark is not None and value is not None and value != mark.original.get(CPU)
    return amount_of(value) if is_ours else None
