"""Cluster API's ceiling: the annotation on a MachineDeployment that tells cluster-autoscaler the group's largest size.

cluster-autoscaler orders a machine by raising `spec.replicas`, so `limit = replicas + share` paces what is in flight
exactly. Its status tells the largest size that it goes by, which confirms the ceiling, and the size that it counted
with, which may be behind: what was ordered since is taken off the allowance. The annotation is the user's: without it
the group is not scaled at all, and nothing is written.

Of several MachineDeployments nobody can know which one the autoscaler takes for a pod. They share the allowance evenly.
One that has room and orders nothing while nodes are waited for leaves it to the others.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from throttler.api.throttle import MachineDeploymentLever
from throttler.kube.because import Because, because
from throttler.kube.cluster_api import MACHINE_DEPLOYMENT_KIND, MAX_SIZE, MachineDeployment
from throttler.kube.cluster_autoscaler import NODES, NodeGroup
from throttler.kube.metadata import ObjectKey
from throttler.kube.quantity import Resources
from throttler.kube.selectors import LabelSelector
from throttler.levers.ceiling import (
    CONTESTED_WRITE_EVERY_S,
    MILLI,
    CeilingNeed,
    Contest,
    RoomSearch,
    Standing,
    Uptake,
    held_by_another,
)
from throttler.levers.lever import (
    THROTTLE_LABEL,
    How,
    LeverBudget,
    LeverOutcome,
    LeverReason,
    LeverReport,
    LeverState,
    LeverWrite,
)
from throttler.levers.lever_context import TURN_S, CeilingLever, LeverContext, PacedAutoscaler, name_of
from throttler.levers.pool_shares import fair_shares
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

DRY_S = 30.0
"""Three of cluster-autoscaler's loops: a group that orders nothing in them leaves its share to the others."""
OFFERED_FOR_S = 60.0
"""A ceiling that cluster-autoscaler goes by is one of those of so long: it looks every ten seconds, and a scan of a
large cluster may take a minute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMemory:
    """What is remembered of one MachineDeployment."""

    contest: Contest = field(default_factory=Contest)
    search: RoomSearch = field(default_factory=RoomSearch)
    uptake: Uptake = field(default_factory=Uptake)
    replicas: int = 0
    """At the last look: a ceiling is not below it either."""
    offered: tuple[tuple[float, int], ...] = ()
    """Ceilings of late, and when they were written."""
    mark: SavedLimits | None = None
    """As we wrote it last; None while nothing of ours is in force."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineDeploymentMemory:
    """What is remembered between looks; a fresh one costs time and never a user's value."""

    demand: CeilingNeed = field(default_factory=CeilingNeed)
    groups: Mapping[ObjectKey, GroupMemory] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLook:
    """One MachineDeployment at one moment."""

    thing: MachineDeployment
    said: NodeGroup | None
    """What cluster-autoscaler says of it; None where it does not know it, or has fallen silent."""
    context: LeverContext
    room: LeverBudget
    memory: GroupMemory

    @property
    def limits(self) -> dict[str, str]:
        """The largest size that stands there, if one does."""
        text = self.thing.metadata.annotations.get(MAX_SIZE)
        return {} if text is None else {MAX_SIZE: text}

    @property
    def mark(self) -> SavedLimits | None:
        """The mark on the object, or the one we remember where only the annotation was lost and our value stands."""
        known = self.memory.mark
        is_ours = known is not None and bool(known.ceiling) and not foreign(known, self.limits)
        return read_saved(self.thing.metadata) or (known if is_ours else None)

    @property
    def kept(self) -> SavedLimits:
        """The mark as it has to be now."""
        return taken_in(self.mark, self.limits, self.thing.metadata.managed_fields, self.thing.LIMITS)

    @property
    def uncounted(self) -> int:
        """Machines that were ordered after cluster-autoscaler counted: the allowance does not know of them yet."""
        counted = self.said.target if self.said else self.thing.status.ready_replicas
        return max(0, self.thing.spec.replicas - counted)

    @property
    def is_full(self) -> bool:
        """Whether the user's own limit admits no further machine."""
        own = self.kept.original.get(MAX_SIZE) if self.kept.ceiling else self.limits.get(MAX_SIZE)
        return not _is_size(own) or int(own or 0) <= self.thing.spec.replicas

    @property
    def is_taken_up(self) -> bool:
        """Whether cluster-autoscaler goes by a ceiling of ours of late; one of 0 hides the group from it."""
        sizes = {size for _, size in self.memory.offered}
        return 0 in sizes if self.said is None else self.said.max_size in sizes


class MachineDeployments(CeilingLever[MachineDeploymentLever, MachineDeploymentMemory, MachineDeployment]):
    """`levers.machineDeployments`."""

    FIELD = "machine_deployments"
    WRITES_ON = MachineDeployment.NAMES
    OBJECTS = MachineDeployment
    PACES = PacedAutoscaler.CLUSTER_AUTOSCALER

    def fresh(self) -> MachineDeploymentMemory:
        """Nothing is known."""
        return MachineDeploymentMemory()

    def moves(self, thing: MachineDeployment, settings: MachineDeploymentLever, nodes: LabelSelector) -> bool:
        """Those that it names: which labels their nodes carry does not stand on them."""
        return thing.metadata.namespace == settings.namespace and thing.metadata.name in settings.names

    def plan(
        self, context: LeverContext, memory: MachineDeploymentMemory
    ) -> tuple[tuple[LeverOutcome, ...], MachineDeploymentMemory]:
        """What to write on each, in the order of their names."""
        room, now_s, status = context.room_of(self.PACES), context.now_s, context.scene.autoscaler
        demand = memory.demand.looked(room, now_s) if room.may_move else memory.demand.unseen()
        is_silent = status is None or status.is_old(context.scene.moment.wall_s)
        said = {} if status is None or is_silent else {group.name: group for group in status.groups}
        own, others = self.own(context)
        looks = [
            _heard(
                GroupLook(
                    thing=thing,
                    said=said.get(name_of(thing)),
                    context=context,
                    room=room,
                    memory=memory.groups.get(thing.key, GroupMemory()),
                )
            )
            for thing in sorted(own, key=lambda thing: thing.key)
        ]
        shares = _shares(looks, room.allowance - sum(look.uncounted for look in looks), now_s)
        outcomes, groups = [], {}
        for look in looks:
            key = look.thing.key
            outcome, groups[key] = _planned(look, shares[key], is_over=demand.is_over(room, now_s))
            outcomes.append(outcome)
        return (*outcomes, *others, *_absent(self.stated(context), context)), (
            MachineDeploymentMemory(demand=demand, groups=groups)
        )


MACHINE_DEPLOYMENTS = MachineDeployments()


def _absent(settings: MachineDeploymentLever, context: LeverContext) -> list[LeverOutcome]:
    """What to say of names under which nothing is there."""
    known = {thing.key for thing in context.scene.of(MachineDeployment)}
    wanted = [ObjectKey(settings.namespace, name) for name in settings.names]
    why = because(LeverReason.NO_MACHINE_DEPLOYMENT)
    return [
        LeverOutcome(report=LeverReport(name=f"{MACHINE_DEPLOYMENT_KIND}/{key}", state=LeverState.REFUSED, because=why))
        for key in wanted
        if key not in known and context.room.may_move
    ]


def _heard(look: GroupLook) -> GroupLook:
    """The same with what it ordered since the last look, and whether it goes by our ceiling."""
    memory, now_s, replicas = look.memory, look.context.now_s, look.thing.spec.replicas
    if not look.room.may_move:
        return replace(look, memory=replace(memory, search=memory.search.waited(now_s, is_unmet=False)))
    is_ours = look.thing.metadata.labels.get(THROTTLE_LABEL) == look.context.holder.label
    is_taken_up = look.is_taken_up or not is_ours
    ordered_s = now_s if replicas > memory.replicas else memory.search.newest_order_s
    search = memory.search.heard(ordered_s, now_s, is_taken_up=is_taken_up)
    memory = replace(
        memory,
        search=search.waited(now_s, is_unmet=look.room.waiting > 0),
        uptake=memory.uptake.looked(now_s, is_taken_up=is_taken_up),
        contest=memory.contest.heard(now_s, is_foreign=look.mark is not None and bool(foreign(look.mark, look.limits))),
    )
    return replace(look, memory=memory)


def _shares(looks: Sequence[GroupLook], budget: int, now_s: float) -> Mapping[ObjectKey, int]:
    """How many machines each may order now; together no more than the budget.

    One place goes to a group that ordered nothing, so that it is seen when it has machines again.
    """
    keys = [look.thing.key for look in looks]
    begin = int(now_s // TURN_S) % len(keys) if keys else 0
    turn = [str(key) for key in (*keys[begin:], *keys[:begin])]
    usable = {str(look.thing.key): look for look in looks if not look.is_full}
    good = [name for name, look in usable.items() if look.memory.search.unmet_s(now_s) < DRY_S]
    probed = [name for name in usable if name not in good] if good and budget > len(good) else []
    shares, left = dict.fromkeys(turn, 0), max(0, budget)
    for wants in (dict.fromkeys(probed, 1), dict.fromkeys(good, left), dict.fromkeys(usable, left)):
        for name, count in fair_shares(left, wants, turn).items():
            shares[name] += count
            left -= count
    return {key: shares[str(key)] for key in keys}


def _planned(look: GroupLook, share: int, *, is_over: bool) -> tuple[LeverOutcome, GroupMemory]:
    thing, memory, now_s = look.thing, replace(look.memory, replicas=look.thing.spec.replicas), look.context.now_s
    if refusal := _refusal(look):
        return _outcome(thing, None, refusal), replace(memory, mark=None)
    if is_over or (look.mark is None and look.room.waiting <= 0):
        reason = LeverReason.STOPPING if look.room.is_stopping else LeverReason.NOTHING_WAITS
        writes = restore(thing, reason, look.mark)
        return _outcome(thing, None, (LeverState.HANDED_BACK, because(reason)), writes), GroupMemory()
    if not look.room.may_move:
        return _outcome(thing, look.kept, (LeverState.PENDING, because(LeverReason.VIEW_INCOMPLETE))), memory
    new = _new_mark(look, share)
    state = _standing(look, new, share)
    memory = replace(memory, mark=new if new.ceiling else None)
    is_untouched = not new.ceiling and THROTTLE_LABEL not in thing.metadata.labels
    stands = look.limits.items() >= new.ceiling.items() and is_marked_so(thing.metadata, new, look.context.holder)
    if is_untouched or stands or not memory.contest.may_write(now_s):
        return _outcome(thing, new, state), memory
    offered = [(at_s, size) for at_s, size in memory.offered if now_s - at_s < OFFERED_FOR_S]
    size = int(new.ceiling.get(MAX_SIZE) or look.limits[MAX_SIZE])
    memory = replace(memory, contest=memory.contest.wrote(now_s), offered=(*offered, (now_s, size)))
    return _outcome(thing, new, state, (_write(look, new, state[1]),)), memory


def _refusal(look: GroupLook) -> Standing | None:
    """Why the MachineDeployment is left alone; None where it is ours to move."""
    metadata = look.thing.metadata
    if others := held_by_another(metadata, look.context.holder):
        return others
    if look.mark is None and is_unreadable(metadata):
        return LeverState.REFUSED, because(LeverReason.ORIGINAL_UNREADABLE)
    if not look.limits:
        return LeverState.REFUSED, because(LeverReason.NOT_SCALED)
    theirs = look.kept.original.get(MAX_SIZE) if look.kept.ceiling else look.limits[MAX_SIZE]
    if not _is_size(theirs):
        return LeverState.REFUSED, because(LeverReason.LIMIT_UNREADABLE, value=str(theirs))
    return None


def _is_size(text: Any) -> bool:
    """Whether cluster-autoscaler can read it: a whole number, and no quantity such as 1k."""
    return isinstance(text, str) and text.isascii() and text.isdigit() and len(text) < 10


def _new_mark(look: GroupLook, share: int) -> SavedLimits:
    """The mark to write, with the ceiling in it; without one where the user's own limit is lower."""
    thing, kept = look.thing, look.kept
    floor = max(thing.spec.replicas, look.memory.replicas, thing.min_size)
    wanted: Resources = {MAX_SIZE: (floor + share) * MILLI}
    if not look.memory.contest.may_raise(look.context.now_s):
        standing = {name: amount_of(value) for name, value in kept.ceiling.items()}
        wanted = unraised(wanted, standing, {MAX_SIZE: floor * MILLI})
    ceiling = clamped(wanted, kept, look.limits)
    return with_ceiling(kept, ceiling, look.limits, thing.metadata.managed_fields, thing.LIMITS)


def _standing(look: GroupLook, new: SavedLimits, share: int) -> Standing:
    now_s, memory = look.context.now_s, look.memory
    if memory.contest.is_contested(now_s):
        return LeverState.CONTESTED, because(LeverReason.CONTESTED, period=int(CONTESTED_WRITE_EVERY_S))
    theirs = new.original.get(MAX_SIZE) if new.ceiling else look.limits[MAX_SIZE]
    if not new.ceiling or new.ceiling[MAX_SIZE] == theirs:
        users = because(LeverReason.USER_LIMIT_IS_LOWER, limit=theirs)
        return (LeverState.CONFIRMED if new.ceiling else LeverState.HANDED_BACK), users
    ceiling = f"{new.ceiling[MAX_SIZE]} nodes"
    if memory.uptake.is_late(now_s):
        waited = round(memory.uptake.waited_s(now_s))
        return LeverState.UNCONFIRMED, because(LeverReason.LEVER_UNCONFIRMED, ceiling=ceiling, waited=waited)
    if not look.kept.ceiling or memory.uptake.waiting_since_s is not None:
        return LeverState.PENDING, because(LeverReason.NOT_TAKEN_UP_YET, ceiling=ceiling)
    usage = f"{look.thing.spec.replicas} nodes"
    return LeverState.CONFIRMED, because(LeverReason.PACING, ceiling=ceiling, usage=usage, share=share)


def _write(look: GroupLook, new: SavedLimits, reason: Because) -> LeverWrite:
    """One apply with the ceiling and the value to restore: neither is ever there without the other."""
    thing = look.thing
    metadata = marked(thing.metadata, thing.metadata.name, new, look.context.holder)
    metadata["annotations"] |= new.ceiling
    return LeverWrite(
        api_version=thing.api_version,
        kind=MACHINE_DEPLOYMENT_KIND,
        key=thing.key,
        how=How.APPLY,
        body={"apiVersion": thing.api_version, "kind": MACHINE_DEPLOYMENT_KIND, "metadata": metadata},
        because=reason,
        is_forced=True,
    )


def _outcome(
    thing: MachineDeployment, mark: SavedLimits | None, state: Standing, writes: tuple[LeverWrite, ...] = ()
) -> LeverOutcome:
    ceiling, original = (mark.ceiling, mark.original) if mark else ({}, {})
    report = LeverReport(
        name=name_of(thing),
        state=state[0],
        because=state[1],
        ceiling=shown({NODES: ceiling[MAX_SIZE]}) if ceiling else "",
        original=shown({NODES: original.get(MAX_SIZE)}) if ceiling else "",
    )
    return LeverOutcome(report=report, writes=writes)
