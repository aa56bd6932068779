"""What every lever is: something that decides on writes from what one throttle knows now and what it remembers.

There are two kinds. A ceiling bounds what an autoscaler may order, by a limit on objects of the user's; it saves their
value and restores it. An admission lever keeps single nodes or pods waiting, and lets them in one by one. To the
rest of the throttle they are alike: `decide(context, memory)`, and what they write on.
"""

import enum
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Generic, TypeVar

from throttler.api.throttle import JoinThrottle, Levers
from throttler.joins.demand import may_use
from throttler.joins.joins import JoinRules, Joins
from throttler.kube.because import because
from throttler.kube.cluster_autoscaler import AutoscalerStatus
from throttler.kube.karpenter import NodeClaim
from throttler.kube.metadata import KindNames, LimitedObject
from throttler.kube.node import Node
from throttler.kube.pod import Pod
from throttler.kube.quantities_and_durations import Resources
from throttler.kube.selectors import Labels, LabelSelector
from throttler.levers.lever import (
    THROTTLE_LABEL,
    Clocks,
    Holder,
    LeverBudget,
    LeverOutcome,
    LeverReason,
    LeverReport,
    LeverState,
    LeverWrite,
    epoch_of,
)
from throttler.levers.saved_limits import restore

Settings = TypeVar("Settings")
"""What a throttle's spec says of one lever."""
Remembered = TypeVar("Remembered")
"""What one lever remembers between looks."""
Thing = TypeVar("Thing")
"""What a lever moves."""
Limited = TypeVar("Limited", bound=LimitedObject)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeverScene:
    """The objects that levers move, and the moment."""

    moment: Clocks
    lease: str = ""
    """`namespace/name` of the Lease whose renewal keeps ceilings in force; empty without one."""
    epoch: int = 0
    """The leadership under which is decided: written on every object with a ceiling, and never lowered there."""
    nodes: Mapping[str, Node] = field(default_factory=dict)
    unplaced: tuple[Pod, ...] = ()
    limited: tuple[LimitedObject, ...] = ()
    """Everything that may bear a ceiling, of every kind that is served."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Kind -> the apiVersion under which it is served; a kind that is not served is missing."""
    claims: tuple[NodeClaim, ...] = ()
    autoscaler: AutoscalerStatus | None = None
    """What cluster-autoscaler says of its node groups."""

    def of(self, kind: type[Limited]) -> tuple[Limited, ...]:
        """The objects of one kind that may bear a ceiling."""
        return tuple(thing for thing in self.limited if isinstance(thing, kind))


@dataclass(frozen=True, slots=True)
class PoolGrowth:
    """What one Headroom pool wants: its nodes carry `labels`; `lacking` nodes are wanted, `granted` were let out."""

    labels: Labels
    lacking: int
    granted: int


class PacedAutoscaler(enum.Enum):
    """Who keeps to a ceiling."""

    CLUSTER_AUTOSCALER = "cluster-autoscaler"
    KARPENTER = "Karpenter"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeverContext:
    """One throttle's part of a tick: `joins` and `largest` (the largest node's allocatable) are its own."""

    throttle: JoinThrottle
    rules: JoinRules
    scene: LeverScene
    room: LeverBudget
    joins: Joins
    largest: Resources
    growth: tuple[PoolGrowth, ...] = ()
    """The Headroom pools whose nodes it paces."""
    older: tuple[JoinThrottle, ...] = ()
    """Throttles that come first: an object that one of them names is theirs."""
    paces_both: bool = False
    """Whether the throttle has a ceiling for each autoscaler: each could use up the whole allowance."""

    @property
    def holder(self) -> Holder:
        """In whose name is written."""
        return Holder(throttle=self.throttle.metadata.name, lease=self.scene.lease, epoch=self.scene.epoch)

    @property
    def now_s(self) -> float:
        """The moment, on the monotonic clock."""
        return self.scene.moment.now_s

    @property
    def nodes(self) -> list[Node]:
        """The throttle's nodes."""
        return [node for node in self.scene.nodes.values() if self.rules.selects(node.labels)]

    @property
    def pods(self) -> list[Pod]:
        """Real pods without a node that may use them."""
        return [pod for pod in self.scene.unplaced if may_use(pod, self.rules)]

    def room_of(self, autoscaler: PacedAutoscaler) -> LeverBudget:
        """What this autoscaler may order: all of the allowance where only one has a ceiling, else its share.

        cluster-autoscaler knows nothing of machines that Karpenter ordered; what of Karpenter's exists and boots is
        counted from each pool's own machines.
        """
        by_groups = self.joins.booting_by_groups
        room = replace(self.room, allowance=self.room.allowance + self.room.spare)
        of_groups, of_karpenter = room.allowance, room.allowance
        if self.paces_both:
            of_groups, of_karpenter = by_autoscaler(room, by_groups, self.now_s)
        if autoscaler is PacedAutoscaler.KARPENTER:
            return replace(room, allowance=of_karpenter)
        return replace(room, allowance=of_groups, booting=min(self.room.booting, by_groups))


TURN_S = 30.0
"""What does not divide goes to each in turn for so long: both autoscalers look within ten seconds."""


def by_autoscaler(room: LeverBudget, by_groups: int, now_s: float) -> tuple[int, int]:
    """How many nodes cluster-autoscaler, and how many Karpenter, may order of one allowance.

    Which of them will order for a pending pod cannot be known; machines on their way are evidence. `by_groups` of the
    booting machines are cluster-autoscaler's.
    """
    share, rest = divmod(room.allowance * (1 + min(by_groups, room.booting)), 2 + room.booting)
    share += 1 if rest and int(now_s // TURN_S) % 2 == 0 else 0
    return share, room.allowance - share


@dataclass(frozen=True, slots=True)
class LeverMemory:
    """What the levers of one throttle remember, by their names; losing it costs seconds, never a user's value."""

    by_lever: Mapping[str, Any] = field(default_factory=dict)


class Lever(ABC, Generic[Settings, Remembered]):
    """One way to hold nodes back. It has no state: what it remembers is handed to it, and comes back."""

    FIELD: ClassVar[str]
    """Its name in `throttler.api.throttle.Levers`."""
    WRITES_ON: ClassVar[KindNames]
    """What it writes on."""

    def settings(self, levers: Levers) -> Settings | None:
        """What the throttle says of it; None where the throttle does not use it."""
        settings: Settings | None = getattr(levers, self.FIELD)
        return settings

    def stated(self, context: "LeverContext") -> Settings:
        """The same of a throttle that uses it."""
        settings = self.settings(context.throttle.spec.levers)
        assert settings is not None, "only asked of a throttle that uses it"
        return settings

    @abstractmethod
    def fresh(self) -> Remembered:
        """What it remembers at first."""

    @abstractmethod
    def decide(self, context: LeverContext, memory: Remembered) -> tuple[tuple[LeverOutcome, ...], Remembered]:
        """What to write now for a throttle that uses it, and what to remember."""

    def remembered(self, memory: LeverMemory) -> Remembered:
        """Its own part of the memory."""
        own: Remembered = memory.by_lever.get(self.FIELD, self.fresh())
        return own


class CeilingLever(Lever[Settings, Remembered], Generic[Settings, Remembered, Limited]):
    """Bounds what an autoscaler may order, by a limit on objects of one kind."""

    PACES: ClassVar[PacedAutoscaler]
    OBJECTS: type[Limited]
    """What the limit stands on."""

    def can_act(self, scene: LeverScene) -> bool:
        """Whether anything is there that it could bound."""
        return bool(scene.of(self.OBJECTS))

    @abstractmethod
    def moves(self, thing: Limited, settings: Settings, nodes: LabelSelector) -> bool:
        """Whether a throttle with these settings, which selects `nodes`, sets the limit on this object."""

    def owner(self, thing: Limited, throttles: Iterable[JoinThrottle]) -> str | None:
        """The first of the throttles that moves the object, by name; None: no one does."""
        for throttle in throttles:
            settings = self.settings(throttle.spec.levers)
            if settings is not None and self.moves(thing, settings, throttle.spec.nodes):
                return throttle.metadata.name
        return None

    def own(self, context: LeverContext) -> tuple[tuple[Limited, ...], tuple[LeverOutcome, ...]]:
        """The objects that this throttle moves, and what is to be done on those that are an older one's."""
        settings = self.stated(context)
        own: list[Limited] = []
        others: list[LeverOutcome] = []
        for thing in context.scene.of(self.OBJECTS):
            if self.moves(thing, settings, context.throttle.spec.nodes):
                owner = self.owner(thing, context.older)
                own += [thing] if owner is None else []
                others += [] if owner is None else [let_go(name_of(thing), thing, owner, context.holder)]
        return tuple(own), tuple(others)


class AdmissionLever(Lever[Settings, Remembered], Generic[Settings, Remembered, Thing]):
    """Keeps single objects waiting that bear, or lack, a mark of ours, and lets them in one by one."""

    @abstractmethod
    def let_all_in(self, things: Sequence[Thing], settings: Settings) -> tuple[LeverWrite, ...]:
        """What lets all of these go, whoever holds them: for the guard, which remembers nothing."""


def name_of(thing: LimitedObject) -> str:
    """As reports name the object: Kind/name, or Kind/namespace/name."""
    place = f"{thing.metadata.namespace}/" if thing.metadata.namespace else ""
    return f"{thing.NAMES.kind}/{place}{thing.metadata.name}"


def let_go(name: str, thing: LimitedObject | None, owner: str, holder: Holder) -> LeverOutcome:
    """What a throttle does on an object that is `owner`'s: give back what it holds there, and say whose it is.

    `name` is as reports name the object.
    """
    why = because(LeverReason.OTHER_THROTTLE, throttle=owner)
    writes = restore(thing) if thing is not None and _is_held(thing, holder) else ()
    report = LeverReport(name=name, state=LeverState.REFUSED, because=why)
    return LeverOutcome(report=report, writes=tuple(replace(write, because=why) for write in writes))


def _is_held(thing: LimitedObject, holder: Holder) -> bool:
    """Whether this throttle wrote the object last, and no newer leader of ours did."""
    is_ours = thing.metadata.labels.get(THROTTLE_LABEL) == holder.label
    return is_ours and epoch_of(thing.metadata.annotations) <= holder.epoch


EVERYTHING_BACK = LeverBudget(existing=0, booting=0, allowance=0, admit=0, waiting=0, may_move=True, is_stopping=True)
"""With it a lever hands back all that it holds."""
ANY_TIME = Clocks(0.0, 0.0)
"""For a lever that hands back: then no time counts."""
