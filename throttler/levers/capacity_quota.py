"""cluster-autoscaler's ceiling: a CapacityQuota in nodes, made when there is none of its name.

cluster-autoscaler caps a scale-up to what is left and counts nodes that it asked for, so `limit = existing + booting +
allowance` paces what is in flight exactly. `existing` is the larger of our count and its own: the quota counts every
node that its selector matches, also those that an older throttle paces. The quota fails open: deleted, invalid or
unknown to the autoscaler, it means no limit. So each look asks anew whether it stands, is ours, and is honoured: it is
enforced only while cluster-autoscaler says that it is valid.
"""

import math
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from throttler.api.throttle import QuotaLever
from throttler.joins.demand import waiting_crowds
from throttler.kube.because import Because, because
from throttler.kube.cluster_autoscaler import CAPACITY_QUOTA_KIND, NODES, CapacityQuota
from throttler.kube.metadata import ManagedFields, ObjectKey, OwnedMetadata
from throttler.kube.quantity import QuantityError, Resources
from throttler.kube.selectors import LabelSelector
from throttler.levers.ceiling import (
    CONTESTED_WRITE_EVERY_S,
    MILLI,
    STUCK_REST_S,
    CeilingNeed,
    Contest,
    RoomSearch,
    Standing,
    Uptake,
    held_by_another,
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
from throttler.levers.lever_context import CeilingLever, LeverContext, LeverScene, PacedAutoscaler, let_go, name_of
from throttler.levers.saved_limits import (
    SavedLimits,
    amount_of,
    clamped,
    foreign,
    is_marked_so,
    is_unreadable,
    marked,
    read_saved,
    restore,
    shown,
    taken_in,
    unraised,
    with_ceiling,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaSeen:
    """The lever as the throttle's spec names it, and what stands there."""

    name: str
    selector: LabelSelector
    """The throttle's own: the nodes that it counts."""
    api_version: str | None
    """`group/version` as discovery says; None where the cluster does not serve the kind."""
    quota: CapacityQuota | None
    """None: there is no object of this name."""

    @property
    def selects_others(self) -> bool:
        """Whether the object counts other nodes than the throttle."""
        return self.quota is not None and (self.quota.spec.selector or LabelSelector()) != self.selector

    @property
    def limits(self) -> dict[str, object]:
        """The limits that stand on the object."""
        return self.quota.spec.limits.resources if self.quota else {}

    @property
    def fields(self) -> ManagedFields:
        """Who owns the object's fields."""
        return self.quota.metadata.managed_fields if self.quota else ()

    @property
    def used(self) -> int:
        """Registered nodes by cluster-autoscaler's count; 0 where it has not said."""
        used = self.quota.status.used if self.quota else None
        try:
            return amount_of(used.resources.get(NODES, 0)) // MILLI if used else 0
        except QuantityError:
            return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaMemory:
    """What is remembered between looks; a fresh one costs time and never a user's value."""

    demand: CeilingNeed = field(default_factory=CeilingNeed)
    search: RoomSearch = field(default_factory=RoomSearch)
    contest: Contest = field(default_factory=Contest)
    uptake: Uptake = field(default_factory=Uptake)
    floor: int = 0
    """Nodes that existed or were asked for at the last look: a ceiling is not below it either."""
    mark: SavedLimits | None = None
    """As we wrote it last; None while nothing of ours is in force."""


ATOMIC_S = 30.0
"""Room that cluster-autoscaler does not use for three of its loops may be too small for an atomic request."""
OPEN_S = 60.0
"""For so long there is room for its whole size; then it is not that, and tried again after STUCK_REST_S."""

Planned = tuple[LeverOutcome, QuotaMemory]


class CapacityQuotas(CeilingLever[QuotaLever, QuotaMemory, CapacityQuota]):
    """`levers.capacityQuota`."""

    FIELD = "capacity_quota"
    WRITES_ON = CapacityQuota.NAMES
    OBJECTS = CapacityQuota
    PACES = PacedAutoscaler.CLUSTER_AUTOSCALER

    def fresh(self) -> QuotaMemory:
        """Nothing is known."""
        return QuotaMemory()

    def can_act(self, scene: LeverScene) -> bool:
        """Wherever the kind is served: a quota that is not there is made."""
        return CAPACITY_QUOTA_KIND in scene.versions

    def moves(self, thing: CapacityQuota, settings: QuotaLever, nodes: LabelSelector) -> bool:
        """The one that it names."""
        return thing.metadata.name == settings.name

    def plan(self, context: LeverContext, memory: QuotaMemory) -> tuple[tuple[LeverOutcome, ...], QuotaMemory]:
        """What to write on the quota, which need not be there yet."""
        name = self.stated(context).name
        stored = next((quota for quota in context.scene.of(CapacityQuota) if quota.metadata.name == name), None)
        named = stored or CapacityQuota(metadata=OwnedMetadata(name))
        if owner := self.owner(named, context.older):
            return (let_go(name_of(named), stored, owner, context.holder),), QuotaMemory()
        version = context.scene.versions.get(CAPACITY_QUOTA_KIND)
        seen = QuotaSeen(name=name, selector=context.throttle.spec.nodes, api_version=version, quota=stored)
        outcome, memory = plan_capacity_quota(
            seen, context.room_of(self.PACES), context.holder, memory, context.now_s, _largest_demand(context)
        )
        return (outcome,), memory


CAPACITY_QUOTAS = CapacityQuotas()


def _largest_demand(context: LeverContext) -> int:
    """The most nodes that the waiting pods of one owner need, within the user's bound on what is in flight."""
    needed: dict[str, float] = defaultdict(float)
    for crowd in waiting_crowds(context.scene.unplaced, context.rules, context.largest):
        needed[crowd.owner] += 0.0 if crowd.how.is_gated else crowd.nodes
    most, waiting = context.throttle.spec.max_in_flight, context.room.waiting
    bound = waiting if most is None else min(waiting, max(0, most - context.joins.in_flight))
    return min(math.ceil(max(needed.values(), default=0.0)), bound)


def plan_capacity_quota(
    seen: QuotaSeen, room: LeverBudget, holder: Holder, memory: QuotaMemory, now_s: float, whole: int = 0
) -> Planned:
    """What to write on the quota now, and what to remember.

    `now_s` is monotonic. `whole` is the largest demand of one owner in nodes: an atomic request may be for all of it.
    """
    if refusal := _refusal(seen, holder):
        return quota_outcome(seen.name, None, refusal), replace(memory, mark=None)
    demand = memory.demand.looked(room, now_s) if room.may_move else memory.demand.unseen()
    memory, mark = replace(memory, demand=demand), _mark(seen, memory)
    if mark is None and seen.quota is not None and is_unreadable(seen.quota.metadata):
        return quota_outcome(seen.name, None, (LeverState.REFUSED, because(LeverReason.ORIGINAL_UNREADABLE))), memory
    if seen.quota is not None and seen.selects_others and not (mark and mark.is_made):
        differs = (LeverState.REFUSED, because(LeverReason.QUOTA_SELECTOR_DIFFERS))
        return quota_outcome(seen.name, None, differs, restore(seen.quota)), replace(memory, mark=None)
    if demand.is_over(room, now_s) or (mark is None and room.waiting <= 0):
        return _handed_back(seen, mark, room, memory)
    memory = _heard(seen, mark, memory, now_s)
    if not room.may_move:
        memory = replace(memory, search=memory.search.waited(now_s, is_unmet=False))
        return quota_outcome(seen.name, mark, _blind(is_lost=seen.quota is None and mark is not None)), memory
    try:
        memory = replace(memory, search=_searched(seen, room, memory, now_s))
        return _in_force(seen, mark, _with_room_for_all(room, whole, memory.search, now_s), holder, memory, now_s)
    except QuantityError as error:
        unreadable = because(LeverReason.LIMIT_UNREADABLE, value=str(error))
        return quota_outcome(seen.name, mark, (LeverState.REFUSED, unreadable)), memory


def _refusal(seen: QuotaSeen, holder: Holder) -> Standing | None:
    if seen.api_version is None:
        return LeverState.REFUSED, because(LeverReason.QUOTA_NOT_SERVED)
    return held_by_another(seen.quota.metadata, holder) if seen.quota is not None else None


def _mark(seen: QuotaSeen, memory: QuotaMemory) -> SavedLimits | None:
    """The mark on the object, or the one we remember: the object is gone, or lost its annotation under our value."""
    if seen.quota is None:
        return memory.mark
    known = memory.mark
    is_ours = known is not None and bool(known.ceiling) and not foreign(known, seen.limits)
    return read_saved(seen.quota.metadata) or (known if is_ours else None)


def _handed_back(seen: QuotaSeen, mark: SavedLimits | None, room: LeverBudget, memory: QuotaMemory) -> Planned:
    reason = LeverReason.STOPPING if room.is_stopping else LeverReason.NOTHING_WAITS
    writes = restore(seen.quota, reason, mark) if seen.quota else ()
    outcome = quota_outcome(seen.name, None, (LeverState.HANDED_BACK, because(reason)), writes)
    return outcome, QuotaMemory(demand=memory.demand)


def _blind(*, is_lost: bool) -> Standing:
    if is_lost:
        return LeverState.LOST, because(LeverReason.QUOTA_LOST)
    return LeverState.PENDING, because(LeverReason.VIEW_INCOMPLETE)


def _heard(seen: QuotaSeen, mark: SavedLimits | None, memory: QuotaMemory, now_s: float) -> QuotaMemory:
    """The memory after a look at the object."""
    is_changed = mark is not None and seen.quota is not None and bool(foreign(mark, seen.limits))
    contest = memory.contest.heard(now_s, is_foreign=is_changed or (mark is not None and seen.selects_others))
    uptake = memory.uptake.looked(now_s, is_taken_up=is_quota_taken_up(seen.quota))
    return replace(memory, contest=contest, uptake=uptake)


def _in_force(
    seen: QuotaSeen, mark: SavedLimits | None, room: LeverBudget, holder: Holder, memory: QuotaMemory, now_s: float
) -> Planned:
    floor = _floor(seen, room)
    wanted: Resources = {NODES: (max(floor, memory.floor) + room.allowance) * MILLI}
    kept = _kept(seen, mark)
    if seen.quota is not None and not memory.contest.may_raise(now_s):
        standing_now = {name: amount_of(value) for name, value in kept.ceiling.items()}
        wanted = unraised(wanted, standing_now, {NODES: floor * MILLI})
    new = with_ceiling(kept, clamped(wanted, kept, seen.limits), seen.limits, seen.fields, CapacityQuota.LIMITS)
    reason = quota_reason(seen, new, room, floor)
    standing = quota_standing(seen, new, memory, reason, now_s)
    memory = replace(memory, floor=floor, mark=new if new.ceiling else None)
    if _is_fulfilled(seen, new, holder) or not memory.contest.may_write(now_s):
        return quota_outcome(seen.name, new, standing), memory
    write = quota_write(seen, new, holder, reason)
    return quota_outcome(seen.name, new, standing, (write,)), replace(memory, contest=memory.contest.wrote(now_s))


def _floor(seen: QuotaSeen, room: LeverBudget) -> int:
    """Nodes that exist or were asked for; what boots is in neither count of nodes."""
    return max(room.existing, seen.used) + room.booting


def _searched(seen: QuotaSeen, room: LeverBudget, memory: QuotaMemory, now_s: float) -> RoomSearch:
    """Since when nothing is ordered although there is room: more nodes than at the last look are an order."""
    is_ours = seen.quota is not None and THROTTLE_LABEL in seen.quota.metadata.labels
    is_taken_up = not is_ours or is_quota_taken_up(seen.quota)
    ordered_s = now_s if _floor(seen, room) > memory.floor else memory.search.newest_order_s
    search = memory.search.heard(ordered_s, now_s, is_taken_up=is_taken_up)
    return search.waited(now_s, is_unmet=room.waiting > 0 and room.allowance > 0)


def _with_room_for_all(room: LeverBudget, whole: int, search: RoomSearch, now_s: float) -> LeverBudget:
    """An atomic request orders all its nodes or none: where a part of the room is not used, it gets the whole."""
    waited_s = search.unmet_s(now_s) % STUCK_REST_S
    is_open = ATOMIC_S <= waited_s < ATOMIC_S + OPEN_S
    return replace(room, allowance=whole, is_atomic=True) if is_open and whole > room.allowance else room


def _kept(seen: QuotaSeen, mark: SavedLimits | None) -> SavedLimits:
    if seen.quota is None:
        return SavedLimits(original={}, ceiling={}, is_made=True)
    return taken_in(mark, seen.limits, seen.fields, CapacityQuota.LIMITS)


def _is_fulfilled(seen: QuotaSeen, mark: SavedLimits, holder: Holder) -> bool:
    """Whether the object already says all of it, or there is nothing to say: the user's own limit is lower."""
    if seen.quota is None:
        return False
    is_untouched = not mark.ceiling and THROTTLE_LABEL not in seen.quota.metadata.labels
    stands = seen.limits.items() >= mark.ceiling.items() and not seen.selects_others
    return is_untouched or (stands and is_marked_so(seen.quota.metadata, mark, holder))


def is_quota_taken_up(quota: CapacityQuota | None) -> bool:
    """Whether cluster-autoscaler enforces this very generation."""
    valid = quota.validity if quota else None
    if quota is None or valid is None:
        return False
    return valid.status == "True" and valid.observed_generation >= quota.metadata.generation


def quota_standing(seen: QuotaSeen, mark: SavedLimits, memory: QuotaMemory, reason: Because, now_s: float) -> Standing:
    """The state of a quota, and why; `mark` is what is to stand there, and `reason` why that is so."""
    if seen.quota is None and memory.mark is not None:
        return LeverState.LOST, because(LeverReason.QUOTA_LOST)
    if seen.selects_others:
        return LeverState.UNCONFIRMED, because(LeverReason.QUOTA_CHANGED)
    valid = seen.quota.validity if seen.quota else None
    if valid is not None and valid.status == "False":
        return LeverState.UNCONFIRMED, because(LeverReason.QUOTA_INVALID, message=valid.message)
    if memory.contest.is_contested(now_s):
        return LeverState.CONTESTED, because(LeverReason.CONTESTED, period=int(CONTESTED_WRITE_EVERY_S))
    if not mark.ceiling:
        return LeverState.HANDED_BACK, reason
    return _uptake(f"{mark.ceiling[NODES]} nodes", memory, reason, now_s)


def _uptake(ceiling: str, memory: QuotaMemory, reason: Because, now_s: float) -> Standing:
    if memory.uptake.is_late(now_s):
        waited = round(memory.uptake.waited_s(now_s))
        return LeverState.UNCONFIRMED, because(LeverReason.LEVER_UNCONFIRMED, ceiling=ceiling, waited=waited)
    if memory.uptake.waiting_since_s is not None:
        return LeverState.PENDING, because(LeverReason.NOT_TAKEN_UP_YET, ceiling=ceiling)
    return LeverState.CONFIRMED, reason


def quota_reason(seen: QuotaSeen, mark: SavedLimits, room: LeverBudget, floor: int) -> Because:
    """Why the ceiling is what it is."""
    theirs = mark.original.get(NODES) if mark.ceiling else seen.limits.get(NODES)
    if not mark.ceiling or mark.ceiling[NODES] == theirs:
        return because(LeverReason.USER_LIMIT_IS_LOWER, limit=theirs)
    ceiling, usage = f"{mark.ceiling[NODES]} nodes", f"{floor} nodes"
    if room.is_atomic:
        return because(LeverReason.ROOM_FOR_ALL, ceiling=ceiling, share=room.allowance)
    return because(LeverReason.PACING, ceiling=ceiling, usage=usage, share=room.allowance)


def quota_write(seen: QuotaSeen, mark: SavedLimits, holder: Holder, reason: Because) -> LeverWrite:
    """One apply with the ceiling and the value to restore: neither is ever there without the other.

    The selector is written on a quota of our own only; a user's quota keeps its own.
    """
    version = seen.api_version or ""
    metadata = marked(seen.quota.metadata if seen.quota else None, seen.name, mark, holder)
    spec: dict[str, Any] = {"limits": {"resources": dict(mark.ceiling)}}
    if mark.is_made:
        spec["selector"] = msgspec.to_builtins(seen.selector)
    body = {"apiVersion": version, "kind": CAPACITY_QUOTA_KIND, "metadata": metadata, "spec": spec}
    return LeverWrite(
        api_version=version,
        kind=CAPACITY_QUOTA_KIND,
        key=ObjectKey("", seen.name),
        how=How.APPLY,
        body=body,
        because=reason,
        is_forced=True,
    )


def quota_outcome(
    name: str, mark: SavedLimits | None, state: Standing, writes: tuple[LeverWrite, ...] = ()
) -> LeverOutcome:
    """The report of a look, and its writes; without a mark nothing of ours is in force."""
    ceiling = mark.ceiling if mark else {}
    original = {name: mark.original.get(name) for name in ceiling} if mark else {}
    title = f"{CAPACITY_QUOTA_KIND}/{name}"
    report = LeverReport(name=title, state=state[0], because=state[1], ceiling=shown(ceiling), original=shown(original))
    return LeverOutcome(report=report, writes=writes)
