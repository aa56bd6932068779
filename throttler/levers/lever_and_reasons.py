"""What every lever is: something that decides on writes from what one throttle knows now and what it remembers.

There are two kinds. A ceiling bounds what an autoscaler may order, by a limit on objects of the user's; it saves their
value and restores it (`ceiling.py`). An admission lever keeps single nodes or pods waiting, and lets them in one by one
(`admission_queue.py`). To the rest of the throttle they are alike: `decide(context, memory)`, and what they write on.

Every object that a throttle changes says who keeps the lever in force; the guard reads it. No time is written: it would
cost a write per tick, and clocks of two machines cannot be compared. The guard watches the named Lease by its own
clock.

Headroom growth is a lever too, with nothing to write: how many more balloons may ask for a node, for the pools whose
nodes a throttle paces. A balloon that waits is demand like any pod. It was let out for a machine of the allowance, so
until one has been ordered for it, it counts against the allowance: the autoscaler takes seconds to see it.
"""

import enum
import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Generic, TypeVar

from throttler.api.throttle import JoinThrottle, Levers
from throttler.joins.demand import may_use
from throttler.joins.joins import JoinRules, Joins
from throttler.kube.cluster_autoscaler import AutoscalerStatus
from throttler.kube.election import LARGEST_EPOCH
from throttler.kube.karpenter import NodeClaim
from throttler.kube.metadata import KindNames, LimitedObject, ObjectKey
from throttler.kube.node import Node
from throttler.kube.pod import Pod
from throttler.kube.reasons_and_events import Because, Sentence
from throttler.kube.selectors import LabelSelector

FIELD_MANAGER = "kube-balloons-throttle"
"""Who owns the fields that a throttle writes, in `metadata.managedFields`."""


@dataclass(frozen=True, slots=True)
class Clocks:
    """One moment on both clocks: `now_s` is monotonic, `wall_s` seconds since the epoch."""

    now_s: float
    wall_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LeverBudget:
    """What a lever is to enforce now, in nodes of its own selector."""

    existing: int
    """Registered nodes."""
    booting: int
    """Asked for and not registered: an existing promise that no ceiling may go below."""
    allowance: int
    """How many more may be asked for now."""
    spare: int = 0
    """How many beyond those a ceiling leaves open for demand that is not seen yet."""
    admit: int
    """How many held ones may be let in now."""
    waiting: int
    """Wanted and not asked for; while it is 0 nothing needs pacing and ceilings are handed back."""
    may_move: bool
    """False while the view is incomplete or stale: nothing is raised or lowered."""
    is_atomic: bool = False
    """Whether the allowance is the whole size of a request that takes all of its nodes or none."""
    is_stopping: bool = False
    """True on shutdown, pause or deletion of the throttle, or when its view is given up: give everything back."""


class LeverState(enum.Enum):
    """How far a lever can be trusted."""

    HANDED_BACK = "HandedBack"
    """Not in force: nothing waits, the user's value stands."""
    PENDING = "Pending"
    """Written, and not yet seen to be taken up."""
    CONFIRMED = "Confirmed"
    """Seen to be in force."""
    UNCONFIRMED = "Unconfirmed"
    """Written, and not taken up in time: growth is not paced here."""
    CONTESTED = "Contested"
    """Somebody else writes the same field: their value is the new original, and we write at most every 30 s."""
    LOST = "Lost"
    """The object that was there is gone."""
    REFUSED = "Refused"
    """Cannot be used here: kind not served, version too old, or nothing to derive a ceiling from."""


class How(enum.Enum):
    """The kind of call a write is."""

    APPLY = "apply"
    """Server-side apply under the throttle's field manager; `body` is the whole intent."""
    MERGE = "merge"
    """JSON merge patch; `body` carries metadata.resourceVersion as its precondition."""
    JSON = "json"
    """JSON patch; `body` is the list of operations, and one of them replaces /metadata/resourceVersion by itself, which
    makes it the precondition. For one element of a list whose others must stay byte for byte."""
    DELETE = "delete"
    """Delete an object that we made; `body` carries metadata.uid and resourceVersion as preconditions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeverWrite:
    """One call. `api_version`, `kind` and `key` name the object."""

    api_version: str
    kind: str
    key: ObjectKey
    how: How
    body: Mapping[str, Any] | Sequence[Any]
    because: Because
    is_forced: bool = False
    """For APPLY: take the field over from another manager."""
    field_manager: str = FIELD_MANAGER
    """Another name only where a field is given back to the manager who had it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeverDecision:
    """What a lever decided for one object: how it stands there, as users see it, and what is written."""

    name: str
    """Kind/name, such as `CapacityQuota/kube-balloons` or `NodePool/gpu`."""
    state: LeverState
    because: Because
    ceiling: str = ""
    original: str = ""
    writes: tuple[LeverWrite, ...] = ()
    """In the order in which they must be made; each is useful and harmless without the next."""


THROTTLE_LABEL = "kube-balloons.github.io/throttle"
"""On every object that a throttle changed or made: the JoinThrottle's name. A list by it finds them all."""
HOLDER_ANNOTATION = "kube-balloons.github.io/holder"
"""`namespace/name` of the Lease whose renewal keeps the change in force."""
EPOCH_ANNOTATION = "kube-balloons.github.io/epoch"
"""The Lease's transitions when it was written; never goes down."""
LONGEST_LABEL = 63
_HASH_DIGITS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """The throttle in whose name is written, and the leadership under which."""

    throttle: str
    lease: str = ""
    """`namespace/name`; empty without leader election."""
    epoch: int = 0

    @property
    def label(self) -> str:
        """The throttle's name as a label's value, which is shorter than a name may be."""
        if len(self.throttle) <= LONGEST_LABEL:
            return self.throttle
        digest = hashlib.sha256(self.throttle.encode()).hexdigest()[:_HASH_DIGITS]
        return f"{self.throttle[: LONGEST_LABEL - _HASH_DIGITS - 1]}-{digest}"

    @property
    def annotations(self) -> dict[str, str]:
        """What goes with every change."""
        return {HOLDER_ANNOTATION: self.lease, EPOCH_ANNOTATION: str(self.epoch)}

    def is_deposed_by(self, annotations: Mapping[str, str]) -> bool:
        """Whether a newer leader by the same Lease wrote the object; epochs of two Leases cannot be compared."""
        return is_held_by(self.lease, annotations) and epoch_of(annotations) > self.epoch


def is_held_by(lease: str, annotations: Mapping[str, str]) -> bool:
    """Whether the object was last written in the name of this Lease, or of none."""
    return annotations.get(HOLDER_ANNOTATION, "") in ("", lease)


def epoch_of(annotations: Mapping[str, str]) -> int:
    """The epoch under which an object was last written; 0 where none can be read, or none that a leader could have."""
    text = annotations.get(EPOCH_ANNOTATION, "")
    epoch = int(text) if text.isascii() and text.isdigit() and len(text) < 19 else 0
    return epoch if epoch <= LARGEST_EPOCH else 0


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
    pods: Mapping[str, tuple[Pod, ...]] = field(default_factory=dict)
    """Pods by the name of their node."""
    unplaced: tuple[Pod, ...] = ()
    limited: tuple[LimitedObject, ...] = ()
    """Everything that may bear a ceiling, of every kind that is served."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Kind -> the apiVersion under which it is served; a kind that is not served is missing."""
    claims: tuple[NodeClaim, ...] = ()
    autoscaler: AutoscalerStatus | None = None
    """What cluster-autoscaler says of its node groups."""
    refused: frozenset[tuple[str, ObjectKey]] = frozenset()
    """Objects, by kind and key, of which the API server refused a write a moment ago: they rest."""

    def of(self, kind: type[Limited]) -> tuple[Limited, ...]:
        """The objects of one kind that may bear a ceiling."""
        return tuple(thing for thing in self.limited if isinstance(thing, kind))


@dataclass(frozen=True, slots=True)
class PoolGrowth:
    """What one Headroom pool wants: `selector` selects its nodes; `lacking` ones are wanted, `granted` were let out."""

    selector: LabelSelector
    lacking: int
    granted: int


class PacedAutoscaler(enum.Enum):
    """Who keeps to a ceiling."""

    CLUSTER_AUTOSCALER = "cluster-autoscaler"
    KARPENTER = "Karpenter"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeverContext:
    """One throttle's part of a tick: `joins` and `machines` (as of JoinMemory) are its own."""

    throttle: JoinThrottle
    rules: JoinRules
    scene: LeverScene
    room: LeverBudget
    joins: Joins
    machines: tuple[Node, ...]
    growth: tuple[PoolGrowth, ...] = ()
    """The Headroom pools whose nodes it paces."""
    older: tuple[JoinThrottle, ...] = ()
    """Throttles that come first: an object that one of them names is theirs."""
    at_once: frozenset[str] = frozenset()
    """Pods (by uid) that a gate need not hold, because warm nodes take them: no count knows of them."""
    in_vain: tuple[Pod, ...] = ()
    """Pods that a gate holds, as others like them wait in vain: no demand, and not in the scene."""
    pilot: str = ""
    """The pod (by uid) that a gate lets go to learn whether an autoscaler is there, in a place of the reserve."""
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
    def turn(self) -> int:
        """Counts the turns of one autoscaler's objects: where it paces both, each autoscaler has a turn in each."""
        return int(self.now_s // (2.0 * TURN_S if self.paces_both else TURN_S))

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


STALE_VIEW_S = 30.0
"""A view older than this moves no lever: what was ordered before then, all views have heard of."""
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


Settings = TypeVar("Settings")
"""What a throttle's spec says of one lever."""
Remembered = TypeVar("Remembered")
"""What one lever remembers between looks."""


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
    def decide(self, context: LeverContext, memory: Remembered) -> tuple[tuple[LeverDecision, ...], Remembered]:
        """What to write now for a throttle that uses it, and what to remember."""

    def remembered(self, memory: LeverMemory) -> Remembered:
        """Its own part of the memory."""
        own: Remembered = memory.by_lever.get(self.FIELD, self.fresh())
        return own


NOTHING_MOVES = LeverBudget(existing=0, booting=0, allowance=0, admit=0, waiting=0, may_move=False)
"""Nothing is known, so nothing starts."""
EVERYTHING_BACK = replace(NOTHING_MOVES, may_move=True, is_stopping=True)
"""With it a lever hands back all that it holds."""
ANY_TIME = Clocks(0.0, 0.0)
"""For a lever that hands back: then no time counts."""


class LeverReason(Sentence):
    """Reason name -> sentence; the braces name the figures of the case."""

    NOTHING_WAITS = "nothing waits for a node, so the user's own value applies"
    STOPPING = "the throttle stops, is paused or cannot see: everything is given back"
    PACING = "at most {ceiling}: {usage} there or asked for, and {share:more node|more nodes} may be asked for now"
    PACING_IN_CAPACITY = (
        "at most {ceiling}: this pool has machines of {smallest} to {largest} cores, so the room for {share} of the "
        "largest may be used by more of the smaller ones"
    )
    WIDE_POOL = (
        "at most {ceiling}, room for {share:more node|more nodes}: the machine types of this pool differ so much that "
        "Karpenter reserves {charge} times what it orders; give types of similar size a pool of their own"
    )
    PROBING_SIZE = "at most {ceiling}: this pool never had a machine, so the room is an estimate"
    NOTHING_STARTS = "at most {ceiling}: pods wait and no node was ordered for {waited} s, so the room grows"
    HEAVIER_FIRST = (
        "at most {ceiling}, which is what it has: Karpenter prefers NodePool {heavier} for the pods that wait, and "
        "would buy here as soon as that one is at its ceiling"
    )
    RAN_DRY = (
        "at most {ceiling}: nothing was ordered here for {waited} s although there was room, so NodePool {lighter} "
        "serves the pods that wait until machines come here again"
    )
    ROOM_FOR_ALL = (
        "at most {ceiling}: smaller room was not used, perhaps because a request takes all of its nodes or none; so "
        "there is room for {share:node|nodes}, the largest demand that waits"
    )
    USER_LIMIT_IS_LOWER = "the user's own limit {limit} is lower than what the throttle would allow"
    VIEW_INCOMPLETE = "the view is incomplete or stale: nothing is raised or lowered"
    NOT_TAKEN_UP_YET = "written as {ceiling}; the autoscaler has not confirmed it yet"
    LEVER_UNCONFIRMED = (
        "written as {ceiling}; the autoscaler has not confirmed it within {waited} s: growth is not paced here"
    )
    QUOTA_INVALID = "cluster-autoscaler ignores the quota: {message}"
    QUOTA_LOST = "somebody deleted the quota, so growth was not paced; it is made again"
    QUOTA_CHANGED = "somebody changed the selector of our quota; it is put back"
    QUOTA_NOT_SERVED = (
        "the cluster does not serve CapacityQuota: install its CRD and a cluster-autoscaler that obeys it"
    )
    QUOTA_SELECTOR_DIFFERS = "the user's own CapacityQuota of this name selects other nodes than the throttle"
    LIMIT_UNREADABLE = "the user's own limit is not a quantity that can be compared: {value}"
    ORIGINAL_UNREADABLE = (
        "the annotation kube-balloons.github.io/original cannot be read, so the user's own limit is not known: nothing "
        "is changed until the annotation is repaired or removed"
    )
    NOT_SCALED = (
        "cluster-autoscaler does not scale this MachineDeployment: it has no annotation "
        "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size, so there is no limit to lower"
    )
    NO_MACHINE_DEPLOYMENT = (
        "this API server has no such MachineDeployment: Cluster API must manage this cluster from within"
    )
    NO_NODE_POOL = "this API server has no such NodePool, so there is no limit to lower"
    NO_POOL_SELECTED = (
        "no NodePool is known to make nodes that the throttle selects, so there is no limit to lower: correct the "
        "selector, or name the NodePools"
    )
    STATIC_POOL = "the pool has a fixed number of replicas, so its size is the user's decision"
    OVERRUN = "{usage} cores exist or were asked for and {ceiling} were allowed: Karpenter does not obey the ceiling"
    CONTESTED = (
        "somebody else writes the same limit: that counts as the user's new value, and we write at most once in "
        "{period} s"
    )
    OTHER_THROTTLE = "JoinThrottle {throttle} already moves this object"
    NEWER_HOLDER = "a newer leader (epoch {epoch}) has written this object: this replica changes nothing"


@dataclass(frozen=True, slots=True)
class Lane:
    """`allowance` more nodes may start now among those that `nodes` selects; None: as many as wanted."""

    nodes: LabelSelector
    allowance: int | None
    is_shut: bool = False
    """Whether the throttle lets no machine be ordered for them and none is on its way: that none comes is our doing."""
