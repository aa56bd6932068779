"""What a decision gives: actions per pool, each with its reason, and what is remembered.

The reasons are one closed list. A reason's name is the condition's and the Event's reason and the metric's label, its
template the sentence in status, log and CLI. A new one also goes into docs/pool-reasons.md and the runbook; a test
compares them.

Remembered from tick to tick is hysteresis only. Losing it (a restart, another leader) costs time and never correctness:
a frozen pool is looked at anew, a reservation is made anew from the pods that still wait.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from balloons.api.pool import PoolStatus
from throttler.kube.metadata import ObjectKey
from throttler.kube.reasons_and_events import Because, Sentence

if TYPE_CHECKING:
    # Whoever asks for a reason only, as the doctor does, need not load how nodes are counted.
    from balloons.decide.census import NodeState, Unready
    from balloons.decide.refusing import NodeRefusal
    from balloons.decide.release_to_waiting_work import Reservations


class Reason(Sentence):
    """Every reason of a pool's decision, and its sentence."""

    STEADY = "{warm} of {target:wanted node is|wanted nodes are} warm"
    WARMING = (
        "{warm} of {target:wanted node is|wanted nodes are} warm, {pending:balloon waits|balloons wait} for a node"
    )
    GROWING = "headroom grows by {growth:node|nodes} towards {target}"
    FALLBACK = "no node of shape {main} came within {after}: the pool asks for shape {shape}"
    ALLOWANCE = "{target:warm node|warm nodes} wanted, but only {allowance} more may start now"
    MAX_SIZE = "the pool has reached maxSize {max_size}: {busy:node is|nodes are} busy, {others} not available"
    TOO_FEW_NODES = "{size:warm node|warm nodes} wanted, but only {eligible} can be held, and Hold never grows"
    SHRINKING = "{surplus:more node is|more nodes are} held than wanted"
    SHRINK_LIMITED = (
        "{surplus:more node is|more nodes are} held than wanted; "
        "at most {limit:balloon is|balloons are} removed at once"
    )
    LEAVING = "{nodes:held node is|held nodes are} being replaced or removed by the autoscaler: {names}"
    MOVED = "the balloon on node {node} holds nothing there and is needed elsewhere"
    SPARED = "the balloon on node {node} is wanted again"
    GAVE_WAY = "{busy:node runs|nodes run} real work, and no idle node is left to hold"
    BURST_RELEASE = "{released:balloon gives|balloons give} way to {waiting:waiting pod|waiting pods}"
    RESERVED = "{reserved:node stays|nodes stay} free for pods that will take {reserved:|it|them}"
    SCHEDULE = "schedule {schedule} wants {target:warm node|warm nodes}"
    PAUSED = "the pool is paused"
    INVALID = "{message}"
    NOT_SERVED = "not served, by bound {bound}: {message}"
    BOUND = "bound {bound}: {message}"
    INCOMPLETE_VIEW = "the view of the cluster is incomplete: {missing}"
    STALE_VIEW = "the view of the cluster is {age:.0f} s old"
    SHRUNKEN_VIEW = (
        "{gone} of {before:node|nodes} vanished at once; "
        "frozen until {gone:|it returns|they return} or {wait:.0f} s pass"
    )
    CONFLICT = "{nodes:node also matches|nodes also match} {other}, which keeps {nodes:|it|them}"
    NO_PRIORITY_CLASS = "PriorityClass {name} {problem}; balloons are neither made nor removed"
    OUTRANKING = (
        "balloons are given priority {priority}, accepted are -10 to -1: they would not give way to work, so they are "
        "removed, and tried again one at a time"
    )
    REFUSED = "the API server refuses balloons: {message}"
    GATED = "scheduling gates hold {balloons:balloon|balloons} back: {gates}"
    ENLARGED = "balloons fit no node that they were made for: at their admission they got more {resources}"
    NOT_STARTED = "{nodes:node does|nodes do} not start {nodes:|its balloon|their balloons} ({why}): {names}"
    NO_NODES = "no node matches the selector"
    NO_SHAPE = "no node shows how large a balloon must be: set shape.type Explicit, or wait for a node"
    TOO_SMALL = "DaemonSets and slack leave no room for a balloon on nodes of shape {shape}"
    SHORT_OF_DEVICES = (
        "{nodes:node is|nodes are} short of devices: fewer {device} than others of shape {shape}: {names}"
    )
    SHORT_OF_ROOM = (
        "{nodes:node has|nodes have} less cpu or memory left than others of shape {shape}, so no balloon fits: {names}"
    )
    SHARED_NODES = "{nodes:warm node runs|warm nodes run} other pods beside {nodes:|its|their} balloon: {names}"
    NODES_REFUSE = (
        "{nodes:node refuses|nodes refuse} balloons ({why}) and {nodes:|is|are} left alone for a while: {names}"
    )
    ENDLESS = "{nodes:node keeps a balloon|nodes keep balloons} that should have ended: {names}"
    COPIED = (
        "{deployments:Deployment wears|Deployments wear} the labels of this pool's balloons and {deployments:|is|are} "
        "none of its own, so {deployments:|its|their} pods hold nothing for it: {names}"
    )
    SHAPES_ALIKE = "shapes {shapes} cannot be told apart by a label; set node.kubernetes.io/instance-type"
    IMAGE_NOT_ALLOWED = "image {image} is not on the service's allow-list; accepted: {accepted}"
    NO_IMAGE_VOLUMES = "prePull needs image volumes (Kubernetes 1.35 or later), the server is 1.{minor}"
    NO_BUFFERS = "the API server does not serve CapacityBuffer (autoscaling.x-k8s.io)"
    OTHER_STRATEGY = "the pool has used strategy {strategy} for {gone:.0f} s: what the former strategy left is removed"
    FAILED = "deciding for this pool failed, nothing is changed: {error}"
    POOL_GONE = "the pool has been gone for {gone:.0f} s"


@dataclass(frozen=True, slots=True)
class ApplyObject:
    """Server-side apply of one object of ours, given whole; `replicas` is its size in nodes."""

    key: ObjectKey
    api_version: str
    kind: str
    manifest: Mapping[str, Any]
    replicas: int
    because: Because


@dataclass(frozen=True, slots=True)
class DeleteObject:
    """Delete an object of ours, if it is still the very one that was decided on."""

    key: ObjectKey
    api_version: str
    kind: str
    uid: str
    resource_version: str
    because: Because


@dataclass(frozen=True, slots=True)
class MarkBalloon:
    """Set a balloon's deletion cost: low, so that the ReplicaSet removes this one first, or back to 0."""

    key: ObjectKey
    uid: str
    cost: int
    because: Because


@dataclass(frozen=True, slots=True)
class ReleaseBalloon:
    """Delete one balloon pod: for the waiting pod `taker`, only valid after the replicas were lowered; or, with no
    taker, because it holds nothing where it is and the ReplicaSet is to make another one elsewhere."""

    key: ObjectKey
    uid: str
    resource_version: str
    node: str
    taker: str
    because: Because


@dataclass(frozen=True, slots=True)
class LeaveNode:
    """Delete a balloon on a `node` that is about to go: valid at any time, whatever else is written or refused."""

    key: ObjectKey
    uid: str
    node: str
    because: Because


@dataclass(frozen=True, slots=True)
class AnnotateNode:
    """Set (text) or remove (None) annotations on one node, if it is still the very one decided on."""

    node: str
    resource_version: str
    annotations: Mapping[str, str | None]
    because: Because


@dataclass(frozen=True, slots=True)
class RemoveFailed:
    """Delete what is left of a balloon that failed on `node`; nothing runs any more."""

    key: ObjectKey
    uid: str
    node: str
    because: Because


Action = ApplyObject | DeleteObject | MarkBalloon | ReleaseBalloon | LeaveNode | AnnotateNode | RemoveFailed


@dataclass(frozen=True, slots=True)
class PoolDecision:
    """One pool's outcome: actions in the order in which they must be written, and the status to show.

    `status` holds no timestamps; the writer keeps `lastTransitionTime` where a condition did not change. Its
    `observed_generation` is 0 where the pool's spec was not looked at.
    `notes` are further findings that do not decide but that the user should see (a conflict with another pool).
    `is_dry_run` means that the actions are shown but not written. `lacking` is how many nodes Headroom would wait for
    if nobody paced it.
    """

    pool: ObjectKey
    because: Because
    status: PoolStatus
    actions: tuple[Action, ...] = ()
    notes: tuple[Because, ...] = ()
    is_dry_run: bool = False
    lacking: int = 0


@dataclass(frozen=True, slots=True)
class Decision:
    """Every pool's decision, and what is swept up after pools that are gone."""

    pools: tuple[PoolDecision, ...] = ()
    sweeps: tuple[Action, ...] = ()


@dataclass(frozen=True, slots=True)
class AskedShape:
    """New nodes are asked for in this shape since `since_s`; `nodes` is how many the pool had then, in all.

    `since_s` is later by the time in which the throttle let nothing be ordered; `shut_s` is when this was decided, if
    that was so then.
    """

    shape: str
    since_s: float
    nodes: int
    shut_s: float | None = None


@dataclass(frozen=True, slots=True)
class Outranking:
    """Balloons were given a `priority` of work's, so many `times` in a row; when the youngest was made (seconds since
    the epoch), and when one was last there (monotonic)."""

    priority: int
    newest_s: float
    last_s: float
    times: int


@dataclass(frozen=True, slots=True)
class PoolMemory:
    """One pool's memory; times are monotonic seconds.

    `valued` are the busy and held nodes of the last view that was believed, `shrunken_since_s` is when too many of
    them were first missed. `removed` are (time, count) of recent removals. `granted` of the waiting balloons
    ask for new nodes with the allowance's leave; None while nobody paces the pool, and after a restart: what waits then
    was granted before.
    """

    valued: frozenset[str] = frozenset()
    shrunken_since_s: float | None = None
    removed: tuple[tuple[float, int], ...] = ()
    granted: int | None = None
    asked: AskedShape | None = None
    """In which shape the pool waits for new nodes; None while it waits for none."""
    late_since_s: Mapping[tuple[str, "NodeState"], float] = field(default_factory=dict)
    """Since when nodes that are Ready have not been usable: a preflight or startup taint, devices that lack."""
    refusals: Mapping[str, "NodeRefusal"] | None = None
    """Nodes that refuse balloons or did so lately, by name; None before the first decision."""
    failed_since_s: Mapping[str, float] = field(default_factory=dict)
    """Since when each Failed balloon is known, by uid."""
    outranking: Outranking | None = None
    """None unless balloons are given a priority of work's."""


@dataclass(frozen=True, slots=True)
class Unseen:
    """What a Deployment was last heard to have while nobody sees its balloons: how many are `ready`, or on a node that
    is not Ready, or being replaced, and how many may still wait for a node. A roll-out that has not ended replaces
    `at_once`."""

    ready: int
    may_wait: int
    at_once: int = 0


@dataclass(frozen=True, slots=True)
class UnseenBuffers:
    """How many nodes a pool may have while nobody sees its pods, and how many units its buffers had when they were last
    seen, by key."""

    most_nodes: int
    units: Mapping[ObjectKey, int]


@dataclass(frozen=True, slots=True)
class Memory:
    """All pools' memory; `gone_since_s` says when a pool whose balloons remain was first missed.

    `unready_since_s` maps a node (uid) that is not Ready to the moments since which it may be taken to join, and since
    which it was seen so.
    """

    reserved: "Reservations | None" = None
    """Which nodes waiting pods were given last; None before the first decision."""
    pools: Mapping[ObjectKey, PoolMemory] = field(default_factory=dict)
    gone_since_s: Mapping[ObjectKey, float] = field(default_factory=dict)
    unready_since_s: Mapping[str, "Unready"] = field(default_factory=dict)
    unseen: Mapping[ObjectKey, Unseen] = field(default_factory=dict)
    """Balloon Deployments of Headroom pools, since the view was lost; empty while it is complete."""
    unseen_buffers: Mapping[ObjectKey, UnseenBuffers] = field(default_factory=dict)
    """The same of pools that have buffers, by pool."""
