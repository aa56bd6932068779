"""The plan for one NodePool: refuse, hold still, hand back, or write the ceiling together with the user's value."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from throttler.kube.because import Because, because
from throttler.kube.karpenter import NODE_POOL_KIND, NodeClaim, NodePool
from throttler.kube.metadata import ObjectKey
from throttler.kube.quantity import QuantityError, Resources
from throttler.levers.ceiling_need import RoomSearch
from throttler.levers.clamp import shown
from throttler.levers.contest import Contest
from throttler.levers.hand_back import POOL_PATH, hand_back
from throttler.levers.holder import THROTTLE_LABEL, Holder, epoch_of
from throttler.levers.lever import How, LeverOutcome, LeverReport, LeverState, LeverWrite, Room
from throttler.levers.lever_reasons import LeverReason
from throttler.levers.original import (
    Mark,
    foreign,
    is_marked_so,
    is_unreadable,
    marked,
    read_mark,
    taken_in,
    with_ceiling,
)
from throttler.levers.pool_ceiling import Charge, PoolRoom
from throttler.levers.pool_figures import PoolFigures, figures_of
from throttler.levers.pool_standing import PoolMoment, reason_of, standing_of
from throttler.levers.taken_up import Uptake, is_pool_taken_up


@dataclass(frozen=True, slots=True, kw_only=True)
class CeilingContext:
    """What all pools of a throttle have in common at one moment; `now_s` is monotonic."""

    room: Room
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
    mark: Mark | None = None
    """As we wrote it last: it goes back on an object that lost its annotation while our values stand."""
    before: Mark | None = None
    """As it stood before our last write."""


Planned = tuple[LeverOutcome, CeilingMemory]


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
        return _outcome(pool, Mark(original={}, ceiling={}), refused), memory
    mark = _mark(pool, memory)
    if mark is None and is_unreadable(pool.metadata):
        why = because(LeverReason.ORIGINAL_UNREADABLE)
        return _outcome(pool, Mark(original={}, ceiling={}), (LeverState.REFUSED, why)), memory
    kept = taken_in(mark, pool.spec.limits, pool.metadata.managed_fields, POOL_PATH)
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
    return _paced(pool, claims, kept, room, look, replace(memory, figures=figures, uptake=uptake))


def refusal(pool: NodePool, holder: Holder) -> tuple[LeverState, Because] | None:
    """Why the pool is left alone; None where it is ours to move."""
    other, epoch = pool.metadata.labels.get(THROTTLE_LABEL, holder.label), epoch_of(pool.metadata.annotations)
    if pool.spec.replicas is not None:
        return LeverState.REFUSED, because(LeverReason.STATIC_POOL)
    if other != holder.label:
        return LeverState.REFUSED, because(LeverReason.OTHER_THROTTLE, throttle=other)
    if epoch > holder.epoch:
        return LeverState.UNCONFIRMED, because(LeverReason.NEWER_HOLDER, epoch=epoch)
    return None


def _mark(pool: NodePool, memory: CeilingMemory) -> Mark | None:
    """The mark on the object, or the one we remember where only the annotation was lost and our values stand."""
    known = memory.mark
    is_ours = known is not None and bool(known.ceiling) and not foreign(known, pool.spec.limits or {})
    return read_mark(pool.metadata) or (known if is_ours else None)


def _handed_back(pool: NodePool, kept: Mark, look: CeilingContext, memory: CeilingMemory) -> Planned:
    reason = LeverReason.STOPPING if look.room.is_stopping else LeverReason.NOTHING_WAITS
    nothing = Mark(original=kept.original, ceiling={})
    outcome = _outcome(pool, nothing, (LeverState.HANDED_BACK, because(reason)), hand_back(pool, reason, kept))
    return outcome, CeilingMemory(figures=memory.figures)


def _paced(
    pool: NodePool, claims: Sequence[NodeClaim], kept: Mark, room: PoolRoom, look: CeilingContext, memory: CeilingMemory
) -> Planned:
    figures = memory.figures
    assert figures is not None, "set by the caller"
    mark = with_ceiling(kept, figures.ceiling, pool.spec.limits, pool.metadata.managed_fields, POOL_PATH)
    moment = PoolMoment(
        pool=pool, claims=claims, mark=mark, figures=figures, room=room, unmet_s=memory.search.unmet_s(look.now_s)
    )
    state = standing_of(moment, kept, memory.before, memory.contest, memory.uptake, look.now_s)
    memory = replace(memory, mark=mark if mark.ceiling else None)
    if _is_fulfilled(pool, mark, look.holder) or not memory.contest.may_write(look.now_s):
        return _outcome(pool, mark, state), memory
    write = _write(pool, mark, look.holder, reason_of(moment))
    contest = memory.contest.wrote(look.now_s)
    return _outcome(pool, mark, state, (write,)), replace(memory, contest=contest, before=kept)


def _is_fulfilled(pool: NodePool, mark: Mark, holder: Holder) -> bool:
    """Whether the object already says all of it, or there is nothing to say: the user's own limits are lower."""
    is_untouched = not mark.ceiling and THROTTLE_LABEL not in pool.metadata.labels
    stands = (pool.spec.limits or {}).items() >= mark.ceiling.items()
    return is_untouched or (stands and is_marked_so(pool.metadata, mark, holder))


def _write(pool: NodePool, mark: Mark, holder: Holder, reason: Because) -> LeverWrite:
    """One apply with the ceiling and the values to restore: neither is ever there without the other."""
    metadata = marked(pool.metadata, pool.metadata.name, mark, holder)
    names = {"apiVersion": pool.api_version, "kind": NODE_POOL_KIND}
    body: dict[str, Any] = {**names, "metadata": metadata, "spec": {"limits": dict(mark.ceiling)}}
    key = ObjectKey("", pool.metadata.name)
    return LeverWrite(
        api_version=pool.api_version,
        kind=NODE_POOL_KIND,
        key=key,
        how=How.APPLY,
        body=body,
        because=reason,
        is_forced=True,
    )


def _outcome(
    pool: NodePool, mark: Mark, state: tuple[LeverState, Because], writes: tuple[LeverWrite, ...] = ()
) -> LeverOutcome:
    report = LeverReport(
        name=f"{NODE_POOL_KIND}/{pool.metadata.name}",
        state=state[0],
        because=state[1],
        ceiling=shown(mark.ceiling),
        original=shown({name: mark.original[name] for name in mark.ceiling}),
    )
    return LeverOutcome(report=report, writes=writes)
