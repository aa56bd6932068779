"""Everything one decision reads, at one moment, and the index that keeps it up to date event by event. Pure.

A snapshot costs what has changed and not what there is.
Every `change_*` takes what was known of the object before and what is known now (None: not there), as watch caches
tell it. Nothing here raises on an odd object: whatever has been decoded can be filed.
"""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

import msgspec

from balloons.api.pool import BalloonPool, PoolStatus
from balloons.view.node_load_and_devices import USUAL_PRIORITY, NodeLoad, load_of
from balloons.view.tenancy_and_claim import Claim, Refusal, Selectors, Tenancy, is_of_its_pool, pool_of
from throttler.kube.custom_objects import Refused
from throttler.kube.metadata import Metadata, ObjectKey, key_of
from throttler.kube.node import Node
from throttler.kube.pod import PRIORITY_CLASS, Pod, PodKind

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


class DeploymentStatus(msgspec.Struct, frozen=True, rename="camel"):
    """How many pods there are (None: nothing was said yet), run, and are of the newest template; and the conditions."""

    replicas: int | None = None
    conditions: tuple[DeploymentCondition, ...] = ()
    ready_replicas: int = 0
    updated_replicas: int = 0


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
    def is_rolling(self) -> bool:
        """Whether pods of an older template are still being replaced."""
        return self.status.updated_replicas < (self.status.replicas or 0)

    @property
    def is_being_lowered(self) -> bool:
        """Whether pods are still to go that are wanted no more."""
        return self.status.replicas is not None and self.status.replicas > self.replicas

    @property
    def refusal(self) -> str:
        """Why the API server makes none of its pods (a quota, a LimitRange, admission), in its words; empty if it does.

        The pod's name, which is another one at each attempt, is left out.
        """
        failure = next((c for c in self.status.conditions if c.type == "ReplicaFailure" and c.status == "True"), None)
        return _POD_NAME.sub("pods", failure.message)[:MOST_REFUSAL_TEXT] if failure else ""


class PriorityClass(msgspec.Struct, frozen=True, rename="camel"):
    """The class balloons run at, and whether it is the one we ship."""

    metadata: Metadata
    value: int = 0
    preemption_policy: str = "PreemptLowerPriority"


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
    that failed, `outranking` those that were given a priority of work's, `waiting` real pods without a node. `invalid`
    maps pools that break a rule to the sentence that says so, `refused` those that are not served or break a bound of
    the operator.
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
    outranking: Mapping[ObjectKey, tuple[Pod, ...]] = field(default_factory=dict)
    waiting: tuple[Pod, ...] = ()
    deployments: Mapping[ObjectKey, Deployment] = field(default_factory=dict)
    priority_classes: Mapping[str, PriorityClass] = field(default_factory=dict)
    buffers: Mapping[ObjectKey, StoredObject] = field(default_factory=dict)
    templates: Mapping[ObjectKey, StoredObject] = field(default_factory=dict)
    buffer_version: str = ""
    """API version under which CapacityBuffer is served, or empty when it is not."""
    claims: Mapping[ObjectKey, Claim] = field(default_factory=dict)
    """Which nodes each of the `pools` claims."""
    server_minor: int = 0
    """Minor version of the API server, 0 when unknown."""
    resting: frozenset[ObjectKey] = frozenset()
    """Pools whose last write failed: nobody sees to their balloons now."""

    @property
    def is_complete(self) -> bool:
        """Whether every cache is complete; an incomplete view freezes every pool."""
        return not self.missing


@dataclass(frozen=True, slots=True)
class RefusedPool(Refused[PoolStatus]):
    """A pool that breaks a rule."""

    status: PoolStatus = field(default_factory=PoolStatus)


StoredPool = BalloonPool | RefusedPool


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """What a snapshot says about itself, besides the objects: see the fields of Snapshot.

    `unreadable` are pools that exist and could not even be told apart, with the reason.
    """

    missing: tuple[str, ...] = ()
    age_s: float = 0.0
    unreadable: Mapping[ObjectKey, str] = field(default_factory=dict)
    buffer_version: str = ""
    server_minor: int = 0
    resting: frozenset[ObjectKey] = frozenset()


class Index:
    """All facts decisions read, filed by what they are looked up by."""

    def __init__(self, tenancy: Tenancy | None = None) -> None:
        self._tenancy = tenancy or Tenancy()
        self._balloon_priority = USUAL_PRIORITY
        self._nodes: dict[str, Node] = {}
        self._nodes_lent: Mapping[str, Node] | None = None
        self._pods: dict[str, dict[ObjectKey, Pod]] = {}
        self._pods_now: dict[str, tuple[Pod, ...]] = {}
        self._loads: dict[str, NodeLoad] = {}
        self._dirty: dict[str, None] = {}
        self._changed: dict[str, None] = {}
        self._selectors = Selectors(())
        self._claims: dict[ObjectKey, Claim] = {}
        self._waiting: dict[ObjectKey, Pod] = {}
        self._waiting_now: tuple[Pod, ...] | None = ()
        self._unbound: dict[ObjectKey, dict[ObjectKey, Pod]] = {}
        self._unbound_now: dict[ObjectKey, tuple[Pod, ...]] = {}
        self._failed: dict[ObjectKey, FailedBalloon] = {}
        self._failed_now: dict[ObjectKey, tuple[FailedBalloon, ...]] | None = {}
        self._outranking: dict[ObjectKey, Pod] = {}
        self._pools: dict[ObjectKey, StoredPool] = {}
        self._deployments: dict[ObjectKey, Deployment] = {}
        self._classes: dict[str, PriorityClass] = {}
        self._buffers: dict[ObjectKey, StoredObject] = {}
        self._templates: dict[ObjectKey, StoredObject] = {}

    # --- what changed ---

    def change_node(self, before: Node | None, after: Node | None) -> None:
        """A node appeared, changed or went."""
        if self._nodes is self._nodes_lent:
            self._nodes = self._nodes.copy()
        if after is not None:
            self._nodes[after.name] = after
            self._changed[after.name] = None
        elif before is not None:
            self._nodes.pop(before.name, None)
            self._changed[before.name] = None

    def change_pod(self, before: Pod | None, after: Pod | None) -> None:
        """A pod appeared, changed, moved onto its node or went."""
        before, after = self._as_judged(before), self._as_judged(after)
        if before is not None and (after is None or _place(before) != _place(after)):
            self._unfile(before)
        if after is not None:
            self._file(after)

    def change_failed_balloon(self, before: FailedBalloon | None, after: FailedBalloon | None) -> None:
        """A balloon has failed, or what is left of it went."""
        if after is not None and self._tenancy.serves(after.key.namespace):
            self._failed[after.key] = after
        elif before is not None:
            self._failed.pop(before.key, None)
        self._failed_now = None

    def change_pool(self, before: StoredPool | None, after: StoredPool | None) -> None:
        """A pool appeared, changed, stopped or began to break a rule, or went."""
        if after is not None:
            self._pools[after.key] = after
        elif before is not None:
            self._pools.pop(before.key, None)

    def change_deployment(self, before: Deployment | None, after: Deployment | None) -> None:
        """A balloon Deployment appeared, changed or went."""
        if after is not None and self._tenancy.serves(after.key.namespace):
            self._deployments[after.key] = after
        elif before is not None:
            self._deployments.pop(before.key, None)

    def change_priority_class(self, before: PriorityClass | None, after: PriorityClass | None) -> None:
        """A PriorityClass changed; if it is the balloons', what counts as work is decided anew for every node."""
        if after is not None:
            self._classes[after.metadata.name] = after
        elif before is not None:
            self._classes.pop(before.metadata.name, None)
        ours = self._classes.get(PRIORITY_CLASS)
        value = ours.value if ours else USUAL_PRIORITY
        if value != self._balloon_priority:
            self._balloon_priority = value
            self._dirty.update(dict.fromkeys(self._pods))

    def change_buffer(self, before: StoredObject | None, after: StoredObject | None) -> None:
        """A CapacityBuffer of ours changed."""
        self._put(self._buffers, before, after)

    def change_template(self, before: StoredObject | None, after: StoredObject | None) -> None:
        """A PodTemplate of ours changed."""
        self._put(self._templates, before, after)

    # --- what there is ---

    def snapshot(self, circumstances: Circumstances) -> Snapshot:
        """The view as it is now; it does not change when the index does."""
        sound = {key: pool for key, pool in self._pools.items() if isinstance(pool, BalloonPool)}
        broken = {key: pool for key, pool in self._pools.items() if isinstance(pool, RefusedPool)}
        made_s = dict.fromkeys(circumstances.unreadable, math.inf) | {
            key: p.metadata.created_s for key, p in broken.items()
        }
        refused = self._tenancy.refused(sound.values(), made_s)
        pools = {key: pool for key, pool in sound.items() if key not in refused}
        self._refresh(pools)
        self._nodes_lent = self._nodes
        invalid = {**circumstances.unreadable, **{key: pool.problem for key, pool in broken.items()}}
        return Snapshot(
            missing=circumstances.missing,
            age_s=circumstances.age_s,
            pools=pools,
            invalid={key: problem for key, problem in invalid.items() if key not in refused},
            refused=refused,
            nodes=self._nodes,
            loads=self._loads,
            unbound=self._unbound_now.copy(),
            failed=self._failed_now or {},
            outranking=_by_pool(pod for pod in self._outranking.values() if not pod.is_terminating),
            waiting=self._waiting_now or (),
            deployments=self._deployments.copy(),
            priority_classes=self._classes.copy(),
            buffers=self._buffers.copy(),
            templates=self._templates.copy(),
            buffer_version=circumstances.buffer_version,
            claims=self._claims,
            server_minor=circumstances.server_minor,
            resting=circumstances.resting,
        )

    @property
    def pods_by_node(self) -> Mapping[str, tuple[Pod, ...]]:
        """The pods of each node as they were at the last snapshot; live, to be read before the next one."""
        return self._pods_now

    def pool(self, key: ObjectKey) -> StoredPool | None:
        """The pool as it is stored now, whether it breaks a rule or not."""
        return self._pools.get(key)

    def node(self, name: str) -> Node | None:
        """The node as it is now."""
        return self._nodes.get(name)

    def pool_of_node(self, name: str) -> ObjectKey | None:
        """The pool that the node counts for, by the selectors of the last snapshot; None where none selects it."""
        node = self._nodes.get(name)
        pools = self._selectors.of(node.labels) if node is not None else ()
        return pools[0] if pools else None

    def pod_on(self, node: str, uid: str) -> Pod | None:
        """One pod of a node, by uid; `node` is empty for a pod without one."""
        return next((pod for pod in self._pods.get(node, {}).values() if pod.uid == uid), None)

    def failed_balloon(self, uid: str) -> FailedBalloon | None:
        """One balloon that has failed; there are few of them."""
        return next((balloon for balloon in self._failed.values() if balloon.uid == uid), None)

    # --- how it is filed ---

    def _as_judged(self, pod: Pod | None) -> Pod | None:
        """The pod; what looks like a balloon where no pool is served, or is made by another, is somebody's work."""
        if pod is None or pod.kind is not PodKind.BALLOON:
            return pod
        if self._tenancy.serves(pod.key.namespace) and is_of_its_pool(pod):
            return pod
        return msgspec.structs.replace(pod, kind=PodKind.WORK)

    def _put(
        self, filed: dict[ObjectKey, StoredObject], before: StoredObject | None, after: StoredObject | None
    ) -> None:
        if after is not None and self._tenancy.serves(after.metadata.namespace):
            filed[key_of(after.metadata)] = after
        elif before is not None:
            filed.pop(key_of(before.metadata), None)

    def _outranks(self, pod: Pod) -> bool:
        """Whether it is a balloon with a priority at which it takes work's place and gives way to none: its class was
        another one when it was made, or a webhook gave it another."""
        is_of_ours = pod.kind is PodKind.WORK and bool(pod.pool) and pod.priority >= 0 and not pod.is_finished
        return is_of_ours and self._tenancy.serves(pod.key.namespace) and is_of_its_pool(pod)

    def _file(self, pod: Pod) -> None:
        is_outranking = self._outranks(pod)
        if is_outranking:
            self._outranking[pod.key] = pod
        else:
            self._outranking.pop(pod.key, None)
        if pod.node:
            self._pods.setdefault(pod.node, {})[pod.key] = pod
            self._dirty[pod.node] = None
        elif pod.kind is PodKind.BALLOON:
            self._unbound.setdefault(pool_of(pod), {})[pod.key] = pod
            self._unbound_now.pop(pool_of(pod), None)
        elif is_outranking:
            self._waiting.pop(pod.key, None)
            self._waiting_now = None
        elif pod.kind is PodKind.WORK and not pod.is_finished:
            self._waiting[pod.key] = pod
            self._waiting_now = None

    def _unfile(self, pod: Pod) -> None:
        self._outranking.pop(pod.key, None)
        if pod.node:
            self._pods.get(pod.node, {}).pop(pod.key, None)
            self._dirty[pod.node] = None
        elif pod.kind is PodKind.BALLOON:
            self._unbound.get(pool_of(pod), {}).pop(pod.key, None)
            self._unbound_now.pop(pool_of(pod), None)
        elif self._waiting.pop(pod.key, None) is not None:
            self._waiting_now = None

    def _refresh(self, pools: Mapping[ObjectKey, BalloonPool]) -> None:
        if self._dirty:
            # What an earlier snapshot holds must not change.
            self._loads = self._loads.copy()
        for name in self._dirty:
            self._refresh_load(name)
        self._refresh_claims(pools)
        self._dirty.clear()
        for key in [key for key in self._unbound if key not in self._unbound_now]:
            self._refresh_unbound(key)
        if self._waiting_now is None:
            self._waiting_now = tuple(self._waiting.values())
        if self._failed_now is None:
            self._failed_now = _by_pool(self._failed.values())

    def _refresh_load(self, name: str) -> None:
        if pods := tuple(self._pods.get(name, {}).values()):
            self._pods_now[name] = pods
            self._loads[name] = load_of(pods, self._balloon_priority)
        else:
            for filed in (self._loads, self._pods, self._pods_now):
                filed.pop(name, None)

    def _refresh_claims(self, pools: Mapping[ObjectKey, BalloonPool]) -> None:
        """Follow what has changed of nodes, their pods and the claiming pools; earlier snapshots keep their claims."""
        changed = self._changed | self._dirty
        self._changed = {}
        claims: dict[ObjectKey, Claim] | None = None
        if self._selectors.are_of(pools.values()):
            claims = self._selectors.renewed(self._claims, changed, self._nodes, self._loads)
        else:
            self._selectors = Selectors(pools.values())
        self._claims = self._selectors.claims(self._nodes.values(), self._loads) if claims is None else claims

    def _refresh_unbound(self, pool: ObjectKey) -> None:
        pods = tuple(pod for pod in self._unbound[pool].values() if not (pod.is_finished or pod.is_terminating))
        if self._unbound[pool]:
            self._unbound_now[pool] = pods
        else:
            del self._unbound[pool]


Balloon = TypeVar("Balloon", FailedBalloon, Pod)


def _by_pool(balloons: Iterable[Balloon]) -> dict[ObjectKey, tuple[Balloon, ...]]:
    by_pool: dict[ObjectKey, list[Balloon]] = {}
    for balloon in balloons:
        by_pool.setdefault(ObjectKey(balloon.key.namespace, balloon.pool), []).append(balloon)
    return {pool: tuple(own) for pool, own in by_pool.items()}


def _place(pod: Pod) -> tuple[str, PodKind, str, bool]:
    """Where a pod is filed; a pod that finishes while it waits is filed nowhere."""
    return pod.node, pod.kind, pod.pool, pod.is_finished
