"""Everything one decision reads, at one moment."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec

from balloons.api.pool import BalloonPool
from balloons.view.claim import Claim
from balloons.view.node_load import NodeLoad
from balloons.view.tenancy import Refusal
from throttler.kube.metadata import Metadata, ObjectKey, key_of
from throttler.kube.node import Node
from throttler.kube.pod import Pod

MOST_REFUSAL_TEXT = 400
"""Characters of the server's words that a status shows."""
_POD_NAME = re.compile(r'pods "[^"]*"')


@dataclass(frozen=True, slots=True)
class Now:
    """The moment of a decision: `monotonic_s` for durations, `wall` (aware, UTC) for schedules only."""

    monotonic_s: float
    wall: datetime


class DeploymentCondition(msgspec.Struct, frozen=True):
    """What a Deployment's controller says of it."""

    type: str
    status: str = ""
    message: str = ""


class DeploymentStatus(msgspec.Struct, frozen=True):
    """How many pods there are (None: nothing was said yet), and the conditions."""

    replicas: int | None = None
    conditions: tuple[DeploymentCondition, ...] = ()


class Deployment(msgspec.Struct, frozen=True):
    """A Deployment as stored; `spec` stays a plain mapping, to be compared with what we would apply."""

    metadata: Metadata
    spec: dict[str, Any] = {}
    status: DeploymentStatus = DeploymentStatus()

    @property
    def key(self) -> ObjectKey:
        """Namespace and name."""
        return key_of(self.metadata)

    @property
    def replicas(self) -> int:
        """Wanted pods; the API server's default is one."""
        return int(self.spec.get("replicas", 1))

    @property
    def refusal(self) -> str:
        """Why the API server makes none of its pods (a quota, a LimitRange, admission), in its words; empty if it does.

        The pod's name, which is another one at each attempt, is left out.
        """
        found = next((c for c in self.status.conditions if c.type == "ReplicaFailure" and c.status == "True"), None)
        return _POD_NAME.sub("pods", found.message)[:MOST_REFUSAL_TEXT] if found else ""


class PriorityClass(msgspec.Struct, frozen=True, rename="camel"):
    """The class balloons run at, and whether it is the one we ship."""

    metadata: Metadata
    value: int = 0
    preemption_policy: str = "PreemptLowerPriority"
    global_default: bool = False


class StoredObject(msgspec.Struct, frozen=True):
    """Any other object we own: a CapacityBuffer or a PodTemplate."""

    metadata: Metadata
    spec: dict[str, Any] = {}
    template: dict[str, Any] = {}
    status: dict[str, Any] = {}


class FailedBalloon(msgspec.Struct, frozen=True, gc=False):
    """A balloon that is over: mostly one that its node's kubelet would not have, with the kubelet's `reason`."""

    key: ObjectKey
    uid: str
    node: str
    pool: str
    created_s: float = 0.0
    reason: str = ""
    is_terminating: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The view a decision is made on.

    `missing` names the caches that are not complete (never listed, or lost their watch); empty means that the view
    is complete. `loads` has no entry for nodes without pods. `unbound` are balloon pods without a node, `failed` those
    that failed, `waiting` real pods without a node. `invalid` maps pools that break a rule to the sentence that says
    so, `refused` those that are not served or break a bound of the operator.
    """

    missing: tuple[str, ...] = ()
    age_s: float = 0.0
    pools: Mapping[ObjectKey, BalloonPool] = field(default_factory=dict)
    invalid: Mapping[ObjectKey, str] = field(default_factory=dict)
    refused: Mapping[ObjectKey, Refusal] = field(default_factory=dict)
    nodes: Mapping[str, Node] = field(default_factory=dict)
    loads: Mapping[str, NodeLoad] = field(default_factory=dict)
    unbound: Mapping[ObjectKey, tuple[Pod, ...]] = field(default_factory=dict)
    failed: Mapping[ObjectKey, tuple[FailedBalloon, ...]] = field(default_factory=dict)
    waiting: tuple[Pod, ...] = ()
    deployments: Mapping[ObjectKey, Deployment] = field(default_factory=dict)
    priority_classes: Mapping[str, PriorityClass] = field(default_factory=dict)
    buffers: Mapping[ObjectKey, StoredObject] = field(default_factory=dict)
    templates: Mapping[ObjectKey, StoredObject] = field(default_factory=dict)
    buffer_version: str = ""
    """API version under which CapacityBuffer is served, or empty when it is not."""
    claims: Mapping[ObjectKey, Claim] | None = None
    """Which nodes each pool claims, where the view keeps that up to date; None: to be worked out from the rest."""
    server_minor: int = 0
    """Minor version of the API server, 0 when unknown."""

    @property
    def is_complete(self) -> bool:
        """Whether every cache is complete; an incomplete view freezes every pool."""
        return not self.missing
