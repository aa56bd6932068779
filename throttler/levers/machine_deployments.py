"""Cluster API's ceiling: the annotation on a MachineDeployment that tells cluster-autoscaler the group's largest size.

cluster-autoscaler orders a machine by raising `spec.replicas`, so `limit = replicas + share` paces what is in flight
exactly. Its status tells the largest size that it goes by, which confirms the ceiling, and the size that it counted
with, which may be behind: what was ordered since is taken off the allowance. The annotation is the user's: without it
the group is not scaled at all, and nothing is written.

Of several MachineDeployments nobody can know which one the autoscaler takes for a pod. They share the allowance evenly.
One that has room and orders nothing while nodes are waited for leaves it to the others.
"""

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Self

from throttler.api.throttle import MachineDeploymentLever
from throttler.kube.cluster_autoscaler import MACHINE_DEPLOYMENT_KIND, MAX_SIZE, NODES, MachineDeployment, NodeGroup
from throttler.kube.metadata import ObjectKey
from throttler.kube.quantities_and_durations import Resources, count
from throttler.kube.reasons_and_events import Because, because
from throttler.kube.selectors import LabelSelector
from throttler.levers.ceiling import (
    MILLI,
    CeilingLever,
    CeilingNeed,
    ObjectCeiling,
    ObjectMemory,
    StateAndReason,
    absent,
    name_of,
)
from throttler.levers.lever_and_reasons import (
    THROTTLE_LABEL,
    LeverContext,
    LeverDecision,
    LeverReason,
    LeverState,
    PacedAutoscaler,
)
from throttler.levers.pool_shares import fair_shares
from throttler.levers.saved_limits import SavedLimits

OFFERED_FOR_S = 60.0
"""A ceiling that cluster-autoscaler goes by is one of those of so long: it looks every ten seconds, and a scan of a
large cluster may take a minute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMemory(ObjectMemory):
    """What is remembered of one MachineDeployment."""

    replicas: int = 0
    """At the last look."""
    offered: tuple[tuple[float, int], ...] = ()
    """Ceilings of late, and when they were written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineDeploymentMemory:
    """What is remembered between looks; a fresh one costs time and never a user's value."""

    demand: CeilingNeed = field(default_factory=CeilingNeed)
    groups: Mapping[ObjectKey, GroupMemory] = field(default_factory=dict)


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

    def undecided(
        self, keys: Collection[ObjectKey], memory: MachineDeploymentMemory, before: MachineDeploymentMemory
    ) -> MachineDeploymentMemory:
        """By the groups' keys."""
        groups = {key: before.groups.get(key, GroupMemory()) for key in keys}
        return replace(memory, groups={**memory.groups, **groups})

    def decide(
        self, context: LeverContext, memory: MachineDeploymentMemory
    ) -> tuple[tuple[LeverDecision, ...], MachineDeploymentMemory]:
        """What to write on each, in the order of their names."""
        room, now_s, status = context.room_of(self.PACES), context.now_s, context.scene.autoscaler
        demand = memory.demand.looked(room, now_s)
        groups = () if status is None or status.is_old(context.scene.moment.wall_s) else status.groups
        said = {group.name: group for group in groups}
        own, others = self.own(context)
        looks = [
            self._look(thing, said.get(name_of(thing)), context, memory, is_over=demand.is_over(room, now_s))
            for thing in sorted(own, key=lambda thing: thing.key)
        ]
        shares = _shares(looks, room.allowance - sum(look.uncounted for look in looks), context)
        decisions, memories = [], {}
        for look in looks:
            key = look.group.key
            decision, memories[key] = replace(look, share=shares[key]).decided()
            decisions.append(decision)
        settings, there = self.stated(context), {thing.key for thing in context.scene.of(MachineDeployment)}
        names = [ObjectKey(settings.namespace, name) for name in settings.names]
        lacking = absent(MACHINE_DEPLOYMENT_KIND, names, there, LeverReason.NO_MACHINE_DEPLOYMENT, context)
        return (*decisions, *others, *lacking), MachineDeploymentMemory(demand=demand, groups=memories)

    def _look(
        self,
        group: MachineDeployment,
        said: NodeGroup | None,
        context: LeverContext,
        memory: MachineDeploymentMemory,
        *,
        is_over: bool,
    ) -> "GroupCeiling":
        known = memory.groups.get(group.key, GroupMemory())
        return GroupCeiling(
            thing=group,
            group=group,
            said=said,
            floor=max(group.spec.replicas, group.min_size),
            before=known.replicas,
            room=context.room_of(self.PACES),
            holder=context.holder,
            now_s=context.now_s,
            is_over=is_over,
            memory=known,
        ).ordered()


MACHINE_DEPLOYMENTS = MachineDeployments()


def _shares(looks: Sequence["GroupCeiling"], budget: int, context: LeverContext) -> Mapping[ObjectKey, int]:
    """How many machines each may order now; together no more than the budget.

    One place goes to a group that ordered nothing, so that it is seen when it has machines again.
    """
    keys = [look.group.key for look in looks]
    turn = deque(map(str, keys))
    turn.rotate(-context.turn)
    usable = {str(look.group.key): look for look in looks if not look.is_full}
    good = [name for name, look in usable.items() if not look.memory.search.is_dry(context.now_s)]
    probed = [name for name in usable if name not in good] if budget > len(good) else []
    shares, left = dict.fromkeys(turn, 0), max(0, budget)
    for wants in (dict.fromkeys(probed, 1), dict.fromkeys(good, left), dict.fromkeys(usable, left)):
        for name, more in fair_shares(left, wants, turn).items():
            shares[name] += more
            left -= more
    return {key: shares[str(key)] for key in keys}


@dataclass(frozen=True, kw_only=True)
class GroupCeiling(ObjectCeiling[MachineDeployment, GroupMemory]):
    """One MachineDeployment at one moment."""

    KIND = MachineDeployment.NAMES
    LIMITS = MachineDeployment.LIMITS
    UNIT = MAX_SIZE, "nodes"
    SHOWN_AS = MappingProxyType({MAX_SIZE: NODES})

    group: MachineDeployment
    said: NodeGroup | None
    """What cluster-autoscaler says of it; None where it does not know it, or has fallen silent."""
    floor: int
    """Machines that there are."""
    before: int
    """At the last look: the ceiling is not below it either."""
    share: int = 0
    """How many machines it may order now."""

    @property
    def limits(self) -> dict[str, Any]:
        """The largest size that stands there, if one does."""
        return self.group.limits

    @property
    def uncounted(self) -> int:
        """Machines that were ordered after cluster-autoscaler counted: the allowance does not know of them yet."""
        counted = self.said.target if self.said else self.group.status.ready_replicas
        return max(0, self.group.spec.replicas - counted)

    @property
    def theirs(self) -> Any:
        """The user's own limit."""
        return self.kept.original.get(MAX_SIZE) if self.kept.ceiling else self.limits.get(MAX_SIZE)

    @property
    def is_full(self) -> bool:
        """Whether the user's own limit admits no further machine."""
        return not _is_size(self.theirs) or int(self.theirs) <= self.group.spec.replicas

    @property
    def is_taken_up(self) -> bool:
        """Whether cluster-autoscaler goes by a ceiling of ours of late; one of 0 hides the group from it."""
        sizes = {size for _, size in self.memory.offered}
        return 0 in sizes if self.said is None else self.said.max_size in sizes

    def ordered(self) -> Self:
        """The same with what it ordered since the last look, and whether it goes by our ceiling."""
        now_s = self.now_s
        memory = replace(self.memory, replicas=self.group.spec.replicas)
        if not self.room.may_move:
            return replace(self, memory=replace(memory, search=memory.search.waited(now_s, is_unmet=False)))
        is_ours = self.group.metadata.labels.get(THROTTLE_LABEL) == self.holder.label
        is_taken_up = self.is_taken_up or not is_ours
        ordered_s = now_s if self.group.spec.replicas > self.before else memory.search.newest_order_s
        search = memory.search.heard(ordered_s, now_s, is_taken_up=is_taken_up)
        memory = replace(
            memory,
            search=search.waited(now_s, is_unmet=self.room.waiting > 0),
            uptake=memory.uptake.looked(now_s, is_taken_up=is_taken_up),
            contest=memory.contest.heard(now_s, is_foreign=self.is_foreign),
        )
        return replace(self, memory=memory)

    def misfit(self) -> StateAndReason | None:
        """Without the user's annotation the group is not scaled; one that cannot be read is no size to keep to."""
        if not self.limits:
            return LeverState.REFUSED, because(LeverReason.NOT_SCALED)
        if not _is_size(self.theirs):
            return LeverState.REFUSED, because(LeverReason.LIMIT_UNREADABLE, value=str(self.theirs))
        return None

    def wanted(self) -> tuple[Resources, Resources]:
        """The largest size."""
        return {MAX_SIZE: max(self.floor + self.share, self.before) * MILLI}, {MAX_SIZE: self.floor * MILLI}

    def remembered(self, new: SavedLimits, *, is_written: bool) -> GroupMemory:
        """The size among those that were offered of late."""
        if not is_written:
            return self.memory
        offered = [(at_s, size) for at_s, size in self.memory.offered if self.now_s - at_s < OFFERED_FOR_S]
        size = int(new.ceiling.get(MAX_SIZE) or self.limits[MAX_SIZE])
        return replace(self.memory, offered=(*offered, (self.now_s, size)))

    def handed_back_memory(self) -> GroupMemory:
        """Nothing."""
        return GroupMemory()

    def reason(self, new: SavedLimits, ceiling: str) -> Because:
        """The user's own limit, or the room there is."""
        theirs = new.original.get(MAX_SIZE) if new.ceiling else self.limits[MAX_SIZE]
        if not new.ceiling or new.ceiling[MAX_SIZE] == theirs:
            return because(LeverReason.USER_LIMIT_IS_LOWER, limit=theirs)
        usage = count(self.group.spec.replicas, "node")
        return because(LeverReason.PACING, ceiling=ceiling, usage=usage, share=self.share)

    def exception(self, new: SavedLimits, reason: Because) -> StateAndReason | None:
        """The user's own limit needs nobody to confirm it."""
        is_users = new.ceiling[MAX_SIZE] == new.original.get(MAX_SIZE)
        return (LeverState.CONFIRMED, reason) if is_users else None


def _is_size(text: Any) -> bool:
    """Whether cluster-autoscaler can read it: a whole number, and no quantity such as 1k."""
    return isinstance(text, str) and text.isascii() and text.isdigit() and len(text) < 10
