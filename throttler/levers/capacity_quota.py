"""cluster-autoscaler's ceiling: a CapacityQuota in nodes, made when there is none of its name.

cluster-autoscaler caps a scale-up to what is left and counts nodes that it asked for, so `limit = existing + booting +
allowance` paces what is in flight exactly. `existing` are all nodes that the quota's selector matches, also those that
an older throttle paces, by the view that tells what is in flight: in the quota's own count, nodes that this view has
not heard of would pass for usable, and make room for as many more. The quota fails open: deleted, invalid or unknown to
the autoscaler, it means no limit. So each look asks anew whether it stands, is ours, and is obeyed: it is enforced only
while cluster-autoscaler says that it is valid.
"""

import math
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from throttler.api.throttle import QuotaLever
from throttler.joins.demand import waiting_crowds
from throttler.kube.cluster_autoscaler import CAPACITY_QUOTA_KIND, NODES, TYPE_LABEL, VIRTUAL_KUBELET, CapacityQuota
from throttler.kube.metadata import ObjectKey, OwnedMetadata
from throttler.kube.quantities_and_durations import Resources, count
from throttler.kube.reasons_and_events import Because, because
from throttler.kube.selectors import LabelSelector, matches
from throttler.levers.ceiling import (
    MILLI,
    STUCK_REST_S,
    CeilingLever,
    CeilingNeed,
    ObjectCeiling,
    ObjectMemory,
    RoomSearch,
    StateAndReason,
    left_to,
    name_of,
)
from throttler.levers.lever_and_reasons import (
    THROTTLE_LABEL,
    Holder,
    LeverBudget,
    LeverContext,
    LeverDecision,
    LeverReason,
    LeverScene,
    LeverState,
    PacedAutoscaler,
)
from throttler.levers.saved_limits import SavedLimits


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaView:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaMemory(ObjectMemory):
    """What is remembered between looks; a fresh one costs time and never a user's value."""

    demand: CeilingNeed = field(default_factory=CeilingNeed)
    was_seen: bool = False
    """Whether the quota was there at any look: the view shows one that was made just now some seconds later."""
    floor: int = 0
    """Nodes that existed or were asked for at the last look: a ceiling is not below it either."""


ATOMIC_S = 30.0
"""Room that cluster-autoscaler does not use for three of its loops may be too small for an atomic request."""
OPEN_S = 60.0
"""For so long there is room for its whole size; then it is not that, and tried again after STUCK_REST_S."""


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

    def undecided(self, keys: Collection[ObjectKey], memory: QuotaMemory, before: QuotaMemory) -> QuotaMemory:
        """There is one object."""
        return before

    def decide(self, context: LeverContext, memory: QuotaMemory) -> tuple[tuple[LeverDecision, ...], QuotaMemory]:
        """What to write on the quota, which need not be there yet."""
        name = self.stated(context).name
        stored = next((quota for quota in context.scene.of(CapacityQuota) if quota.metadata.name == name), None)
        named = CapacityQuota(metadata=OwnedMetadata(name))
        if owner := self.owner(named, context.older):
            return (left_to(owner, name_of(named)),), QuotaMemory()
        version = context.scene.versions.get(CAPACITY_QUOTA_KIND)
        view = QuotaView(name=name, selector=context.throttle.spec.nodes, api_version=version, quota=stored)
        room = replace(context.room_of(self.PACES), existing=_existing(context))
        decision, memory = decide_capacity_quota(
            view, room, context.holder, memory, context.now_s, _largest_demand(context)
        )
        return (decision,), memory


CAPACITY_QUOTAS = CapacityQuotas()


def _existing(context: LeverContext) -> int:
    """Registered nodes that the quota counts: also those of an older throttle, and no virtual kubelet."""
    selector, existing = context.throttle.spec.nodes, context.room.existing
    if context.older:
        existing = sum(matches(selector, node.labels) for node in context.scene.nodes.values())
    uncounted = (node for node in context.scene.nodes.values() if node.labels.get(TYPE_LABEL) == VIRTUAL_KUBELET)
    return existing - sum(matches(selector, node.labels) for node in uncounted)


def _largest_demand(context: LeverContext) -> int:
    """The most nodes that the waiting pods of one owner need, within the user's bound on what is in flight.

    What Karpenter may order meanwhile counts as in flight. Below 0 where more is than the bound.
    """
    needed: dict[str, float] = defaultdict(float)
    for crowd in waiting_crowds(context.scene.unplaced, context.rules, context.machines):
        needed[crowd.owner] += 0.0 if crowd.how.is_gated else crowd.nodes
    most, waiting = context.throttle.spec.max_in_flight, context.room.waiting
    of_karpenter = context.room_of(PacedAutoscaler.KARPENTER).allowance if context.paces_both else 0
    bound = waiting if most is None else min(waiting, most - context.joins.in_flight - of_karpenter)
    return min(math.ceil(max(needed.values(), default=0.0)), bound)


def decide_capacity_quota(
    view: QuotaView, room: LeverBudget, holder: Holder, memory: QuotaMemory, now_s: float, whole: int = 0
) -> tuple[LeverDecision, QuotaMemory]:
    """What to write on the quota now, and what to remember.

    `now_s` is monotonic. `whole` is the largest demand of one owner in nodes: an atomic request may be for all of it.
    """
    demand = memory.demand.looked(room, now_s)
    return QuotaCeiling(
        thing=view.quota,
        view=view,
        room=room,
        holder=holder,
        now_s=now_s,
        is_over=demand.is_over(room, now_s),
        whole=whole,
        demand_before=memory.demand,
        memory=replace(memory, demand=demand),
    ).decided()


@dataclass(frozen=True, kw_only=True)
class QuotaCeiling(ObjectCeiling[CapacityQuota, QuotaMemory]):
    """The quota at one moment."""

    KIND = CapacityQuota.NAMES
    LIMITS = CapacityQuota.LIMITS
    UNIT = NODES, "nodes"

    view: QuotaView
    whole: int
    demand_before: CeilingNeed

    @property
    def key(self) -> ObjectKey:
        """By the name that the throttle gives it."""
        return ObjectKey("", self.view.name)

    @property
    def api_version(self) -> str:
        """As discovery says."""
        return self.view.api_version or ""

    @property
    def limits(self) -> dict[str, object]:
        """Those of the quota."""
        return self.view.limits

    @property
    def floor(self) -> int:
        """Nodes that exist or were asked for."""
        return self.room.existing + self.room.booting

    @property
    def is_gone(self) -> bool:
        """Whether somebody deleted it under our ceiling."""
        return self.thing is None and self.memory.mark is not None and self.memory.was_seen

    def refusal(self) -> StateAndReason | None:
        """Also where the cluster does not serve quotas."""
        if self.view.api_version is None:
            return LeverState.REFUSED, because(LeverReason.QUOTA_NOT_SERVED)
        return super().refusal()

    def refused_memory(self) -> QuotaMemory:
        """Nothing was looked at."""
        return replace(self.memory, mark=None, demand=self.demand_before)

    def misfit(self) -> StateAndReason | None:
        """A quota of the user's for other nodes."""
        if self.thing is None or not self.view.selects_others or (self.mark and self.mark.is_made):
            return None
        return LeverState.REFUSED, because(LeverReason.QUOTA_SELECTOR_DIFFERS)

    def heard(self) -> QuotaMemory:
        """With who changed the quota, whether it is enforced, and whether its room is used."""
        now_s, memory = self.now_s, self.memory
        is_changed = self.is_foreign or self.is_reselected
        search = self._searched() if self.room.may_move else memory.search.waited(now_s, is_unmet=False)
        return replace(
            memory,
            was_seen=memory.was_seen or self.thing is not None,
            contest=memory.contest.heard(now_s, is_foreign=is_changed),
            uptake=memory.uptake.looked(now_s, is_taken_up=is_quota_taken_up(self.thing)),
            search=search,
        )

    def blind(self) -> tuple[LeverDecision, QuotaMemory]:
        """A quota that is gone is told at once: growth is not paced."""
        if self.is_gone:
            return self.decision(self.mark, (LeverState.LOST, because(LeverReason.QUOTA_LOST))), self.memory
        return super().blind()

    @property
    def shown(self) -> SavedLimits | None:
        """Also what somebody changed."""
        return self.mark

    def wanted(self) -> tuple[Resources, Resources]:
        """In nodes."""
        most = max(self.floor + self.budget.allowance, self.memory.floor)
        return {NODES: most * MILLI}, {NODES: self.floor * MILLI}

    @property
    def is_reselected(self) -> bool:
        """Whether somebody changed the selector that this throttle wrote; one that it takes over has another's."""
        is_ours = self.thing is not None and self.thing.metadata.labels.get(THROTTLE_LABEL) == self.holder.label
        return is_ours and self.view.selects_others

    @property
    def is_other(self) -> bool:
        """The selector is ours to put right."""
        return self.view.selects_others

    def besides(self, new: SavedLimits) -> Mapping[str, Any]:
        """The selector is written on a quota of our own only; a user's quota keeps its own."""
        return {"selector": msgspec.to_builtins(self.view.selector)} if new.is_made else {}

    def remembered(self, new: SavedLimits, *, is_written: bool) -> QuotaMemory:
        """The floor of this look."""
        return replace(self.memory, floor=self.floor)

    def handed_back_memory(self) -> QuotaMemory:
        """Since when nothing waits."""
        return QuotaMemory(demand=self.memory.demand)

    def trouble(self) -> StateAndReason | None:
        """Gone, changed, or ignored."""
        if self.is_gone:
            return LeverState.LOST, because(LeverReason.QUOTA_LOST)
        if self.is_reselected:
            return LeverState.UNCONFIRMED, because(LeverReason.QUOTA_CHANGED)
        valid = self.thing.validity if self.thing else None
        if valid is not None and valid.status == "False":
            return LeverState.UNCONFIRMED, because(LeverReason.QUOTA_INVALID, message=valid.message)
        return None

    @property
    def is_unseen(self) -> bool:
        """Whether a quota is enforced stands on it, whoever wrote it."""
        return False

    def reason(self, new: SavedLimits, ceiling: str) -> Because:
        """The user's own limit, or the room there is."""
        theirs = new.original.get(NODES) if NODES in new.ceiling else self.limits.get(NODES)
        if new.ceiling.get(NODES, theirs) == theirs:
            return because(LeverReason.USER_LIMIT_IS_LOWER, limit=theirs)
        budget = self.budget
        if budget.is_atomic:
            return because(LeverReason.ROOM_FOR_ALL, ceiling=ceiling, share=budget.allowance)
        return because(LeverReason.PACING, ceiling=ceiling, usage=count(self.floor, "node"), share=budget.allowance)

    @property
    def budget(self) -> LeverBudget:
        """An atomic request orders all its nodes or none: where a part of the room is not used, it gets the whole."""
        waited_s = self.memory.search.unmet_s(self.now_s) % STUCK_REST_S
        is_open = ATOMIC_S <= waited_s < ATOMIC_S + OPEN_S
        is_more = is_open and self.whole > self.room.allowance
        return replace(self.room, allowance=self.whole, is_atomic=True) if is_more else self.room

    def _searched(self) -> RoomSearch:
        """Since when nothing is ordered although there is room: more nodes than at the last look are an order."""
        now_s, memory, room = self.now_s, self.memory, self.room
        is_ours = self.thing is not None and THROTTLE_LABEL in self.thing.metadata.labels
        is_taken_up = not is_ours or is_quota_taken_up(self.thing)
        ordered_s = now_s if self.floor > memory.floor else memory.search.newest_order_s
        search = memory.search.heard(ordered_s, now_s, is_taken_up=is_taken_up)
        return search.waited(now_s, is_unmet=room.waiting > 0 and room.allowance > 0)


def is_quota_taken_up(quota: CapacityQuota | None) -> bool:
    """Whether cluster-autoscaler enforces this very generation."""
    if quota is None or (valid := quota.validity) is None:
        return False
    return valid.status == "True" and valid.observed_generation >= quota.metadata.generation
