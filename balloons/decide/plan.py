"""What a decision asks for: one decision per pool, each a list of actions that carry their reason."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from balloons.api.pool import PoolStatus
from balloons.decide.pool_reasons import Because
from throttler.kube.metadata import ObjectKey


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


Action = ApplyObject | DeleteObject | MarkBalloon | ReleaseBalloon | AnnotateNode | RemoveFailed


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
class Plan:
    """Every pool's decision, and what is swept up after pools that are gone."""

    pools: tuple[PoolDecision, ...] = ()
    sweeps: tuple[Action, ...] = ()
