"""What a decision gives: actions per pool, each with its reason (pool_reasons.py), and what is remembered.

Remembered from tick to tick is hysteresis only. Losing it (a restart, another leader) costs time and never correctness:
a frozen pool is looked at anew, a reservation is made anew from the pods that still wait.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from balloons.api.pool import PoolStatus
from balloons.decide.census import Unready
from balloons.decide.refusing import NodeRefusal
from throttler.kube.metadata import ObjectKey
from throttler.kube.reasons_and_events import Because


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

    `status` holds no timestamps; the writer keeps `lastTransitionTime` where a condition did not change.
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
    late_since_s: Mapping[str, float] = field(default_factory=dict)
    """Since when nodes that are Ready have not been usable: a preflight or startup taint, devices that lack."""
    refusals: Mapping[str, NodeRefusal] | None = None
    """Nodes that refuse balloons or did so lately, by name; None before the first decision."""
    failed_since_s: Mapping[str, float] = field(default_factory=dict)
    """Since when each Failed balloon is known, by uid."""


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

    `reserved_since_s` maps a waiting pod's uid to the moment it was first given a node, `unready_since_s` a node that
    is not Ready to the moments since which it may be taken to join, and since which it was seen so.
    """

    reserved_since_s: Mapping[str, float] = field(default_factory=dict)
    pools: Mapping[ObjectKey, PoolMemory] = field(default_factory=dict)
    gone_since_s: Mapping[ObjectKey, float] = field(default_factory=dict)
    looked: frozenset[tuple[object, ...]] = frozenset()
    """Classes of waiting pods that have had their turn while others wait for theirs."""
    unready_since_s: Mapping[str, Unready] = field(default_factory=dict)
    unseen: Mapping[ObjectKey, Unseen] = field(default_factory=dict)
    """Balloon Deployments of Headroom pools, since the view was lost; empty while it is complete."""
    unseen_buffers: Mapping[ObjectKey, UnseenBuffers] = field(default_factory=dict)
    """The same of pools that have buffers, by pool."""
