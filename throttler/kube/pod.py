"""A pod as decisions see it, decoded from the API and cut down to what they read.

Pods that have a node need only their requests, priority and kind; what the scheduler would look at
(`Scheduling`) is kept for unbound pods alone, because only those are ever matched against nodes.
"""

import enum
from collections.abc import Mapping
from typing import Any

import msgspec

from throttler.kube.metadata import Metadata, ObjectKey, OwnerReference, key_of, seconds_of
from throttler.kube.node import HOST_LABEL, Shared
from throttler.kube.quantities_and_durations import Resources, larger, minus, parse_quantity, parse_resources, total
from throttler.kube.selectors import LabelSelector, Requirement
from throttler.kube.taints import Toleration

POOL_LABEL = "kube-balloons.github.io/pool"
"""On every balloon pod and Deployment: the name of the BalloonPool, in the same namespace."""
SHAPE_LABEL = "kube-balloons.github.io/shape"
"""On the same objects: which machine shape of the pool they are cut for."""
PRIORITY_CLASS = "kube-balloons"
"""The PriorityClass that balloons run at; its value must lie in [-10, -1]: cluster-autoscaler's cutoff is -10."""
MANAGED_BY = {"app.kubernetes.io/managed-by": "kube-balloons"}
"""The mark beside these labels. Work may wear a pool's label, to say whose nodes it is meant for, and is not ours."""
DELETION_COST_ANNOTATION = "controller.kubernetes.io/pod-deletion-cost"
MIRROR_ANNOTATION = "kubernetes.io/config.mirror"
DEFAULT_SCHEDULER = "default-scheduler"
GANG_LABELS = (
    "scheduling.x-k8s.io/pod-group",
    "pod-group.scheduling.sigs.k8s.io",
    "kueue.x-k8s.io/pod-group-name",
)
"""Labels that name a pod's gang: of scheduler-plugins, now and formerly, and of Kueue for groups of plain pods. A gang
of Kubernetes itself (KEP-4671) is named in the spec."""


class PodKind(enum.Enum):
    """Why a pod is on its node; only WORK makes a node busy."""

    WORK = "work"
    DAEMON = "daemon"
    MIRROR = "mirror"
    BALLOON = "balloon"


class _ResourceRequests(msgspec.Struct, frozen=True, gc=False):
    requests: dict[str, str] = {}


class _Container(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    name: str = ""
    resources: _ResourceRequests = _ResourceRequests()
    restart_policy: str = ""
    ports: tuple[dict[str, Any], ...] = ()


class _NodeSelectorTerm(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    match_expressions: tuple[Requirement, ...] = ()
    match_fields: tuple[Requirement, ...] = ()


class _NodeSelector(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    node_selector_terms: tuple[_NodeSelectorTerm, ...] = ()


class _NodeAffinity(msgspec.Struct, frozen=True, gc=False):
    required: _NodeSelector | None = msgspec.field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")


class PodAffinityTerm(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A required (anti-)affinity term towards other pods."""

    topology_key: str
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()


class _PodAffinity(msgspec.Struct, frozen=True, gc=False):
    required: tuple[PodAffinityTerm, ...] = msgspec.field(
        default=(), name="requiredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What a pod requires of nodes and of other pods."""

    node_affinity: _NodeAffinity | None = None
    pod_affinity: _PodAffinity | None = None
    pod_anti_affinity: _PodAffinity | None = None


class _SpreadConstraint(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    when_unsatisfiable: str = ""


class _Volume(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    persistent_volume_claim: dict[str, Any] | None = None
    ephemeral: dict[str, Any] | None = None


class _SchedulingGate(msgspec.Struct, frozen=True, gc=False):
    name: str = ""


class _SchedulingGroup(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    pod_group_name: str = ""


_NO_GROUP = _SchedulingGroup()


class _PodSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    node_name: str = ""
    priority: int = 0
    scheduler_name: str = DEFAULT_SCHEDULER
    preemption_policy: str = ""
    containers: tuple[_Container, ...] = ()
    init_containers: tuple[_Container, ...] = ()
    overhead: dict[str, str] = {}
    resources: _ResourceRequests | None = None
    node_selector: dict[str, str] = {}
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[_SpreadConstraint, ...] = ()
    scheduling_gates: tuple[_SchedulingGate, ...] = ()
    scheduling_group: _SchedulingGroup = _NO_GROUP
    volumes: tuple[_Volume, ...] = ()
    resource_claims: tuple[dict[str, Any], ...] = ()
    host_network: bool = False


class _PodCondition(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    type: str
    status: str
    reason: str = ""
    last_transition_time: str | None = None


_NONE, _NOTHING = msgspec.Raw(b"[]"), msgspec.Raw(b"{}")


class _PodStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    phase: str = "Pending"
    reason: str = ""
    nominated_node_name: str = ""
    conditions: tuple[_PodCondition, ...] = ()
    container_statuses: msgspec.Raw = _NONE
    init_container_statuses: msgspec.Raw = _NONE
    allocated_resources: msgspec.Raw = _NOTHING
    resources: msgspec.Raw = _NOTHING
    """Left as they came: only of the few pods that are resized or start just now they are read. The last two are of the
    pod as a whole, with its overhead."""
    extended_resource_claim_status: dict[str, Any] | None = None
    """There where the scheduler has claimed devices that the pod asks for by number (KEP-5004, on since 1.36)."""


class _Waiting(msgspec.Struct, frozen=True):
    reason: str = ""


class _ContainerState(msgspec.Struct, frozen=True):
    waiting: _Waiting = _Waiting()


class _ContainerStatus(msgspec.Struct, frozen=True, rename="camel"):
    """What of its requests a container has: `resources` are in force, the others promised by the node."""

    name: str = ""
    state: _ContainerState = _ContainerState()
    allocated_resources: dict[str, str] = {}
    resources: _ResourceRequests = _ResourceRequests()


_statuses_decoder = msgspec.json.Decoder(tuple[_ContainerStatus, ...])
_amounts_decoder = msgspec.json.Decoder(dict[str, str])
_requests_decoder = msgspec.json.Decoder(_ResourceRequests)


class PodWire(msgspec.Struct, frozen=True, gc=False):
    """What is decoded of a Pod object."""

    metadata: Metadata
    spec: _PodSpec
    status: _PodStatus = _PodStatus()


class Scheduling(msgspec.Struct, frozen=True, gc=False):
    """What the scheduler asks of a node for an unbound pod, as far as it can be judged here.

    `node_terms` are alternatives (any may hold), each a tuple of requirements that must all hold.
    `is_opaque` says that the pod has a rule that is not judged here (volumes, claims, spread, affinity to
    other pods); such pods are left to the scheduler. `is_one_per_node` is required anti-affinity to its own
    labels by host name; it is also said of a pod that asks for devices by claims alone, since how many of those fit on
    a node nobody tells.
    """

    tolerations: tuple[Toleration, ...] = ()
    node_selector: dict[str, str] = {}
    node_terms: tuple[tuple[Requirement, ...], ...] = ()
    is_gated: bool = False
    gates: tuple[str, ...] = ()
    """Names of the scheduling gates, in the object's order."""
    is_opaque: bool = False
    is_bound_by_volumes: bool = False
    """It is opaque by nothing but its volumes."""
    is_bound_by_claims: bool = False
    """It is opaque by nothing but its claims of devices, and its volumes."""
    cannot_preempt: bool = False
    """Nobody makes room for it: its priority may not preempt, or another scheduler serves it."""
    scheduler: str = DEFAULT_SCHEDULER
    is_one_per_node: bool = False
    is_tried: bool = False
    """The scheduler has said Unschedulable at least once."""
    nominated_node: str = ""
    gang: str = ""


class Pod(msgspec.Struct, frozen=True, gc=False):
    """A pod's facts. `requests` is in milli-units and holds `pods: 1000`, the slot it takes on a node."""

    key: ObjectKey
    uid: str
    resource_version: str
    node: str
    priority: int
    requests: Resources
    kind: PodKind = PodKind.WORK
    owner: OwnerReference | None = None
    pool: str = ""
    shape: str = ""
    created_s: float = 0.0
    ready_s: float = 0.0
    """Since when a balloon is Ready, in seconds since the epoch; 0 where it is not, and of all other pods."""
    deletion_cost: int = 0
    is_ready: bool = False
    is_running: bool = False
    is_terminating: bool = False
    is_finished: bool = False
    is_preempted: bool = False
    start_problem: str = ""
    """The kubelet's word for why a balloon does not start on its node, such as `ImagePullBackOff`; empty while it says
    none, and for all other pods."""
    claims_devices: bool = False
    """It has devices, or is to get some, by Dynamic Resource Allocation: no node counts them."""
    scheduling: Scheduling | None = None


def without_requests(wire: PodWire) -> PodWire:
    """The pod less what it asks for, which may be unreadable."""
    spec = msgspec.structs.replace(wire.spec, containers=(), init_containers=(), overhead={}, resources=None)
    return msgspec.structs.replace(wire, spec=spec)


def pod_from_wire(wire: PodWire, shared: Shared) -> Pod:
    """The compact pod; raises QuantityError when its requests cannot be read."""
    metadata, spec, status = wire.metadata, wire.spec, wire.status
    conditions = {(c.type, c.status): c for c in status.conditions}
    ready, kind = conditions.get(("Ready", "True")), _kind(metadata, spec.priority)
    requests = shared.merged(requests_of(spec, status))
    ready_at = ready.last_transition_time if ready is not None and kind is PodKind.BALLOON else None
    return Pod(
        key=key_of(metadata),
        uid=metadata.uid,
        resource_version=metadata.resource_version,
        node=shared.one(spec.node_name),
        priority=spec.priority,
        requests=requests,
        kind=kind,
        owner=shared.one(metadata.controller),
        pool=shared.one(metadata.labels.get(POOL_LABEL, "")),
        shape=shared.one(metadata.labels.get(SHAPE_LABEL, "")),
        created_s=metadata.created_s,
        ready_s=seconds_of(ready_at),
        deletion_cost=_deletion_cost(metadata),
        is_ready=ready is not None,
        is_running=status.phase == "Running",
        is_terminating=metadata.deletion_timestamp is not None,
        is_finished=status.phase in ("Succeeded", "Failed"),
        is_preempted=any(c.reason == "PreemptionByScheduler" for c in status.conditions),
        start_problem=_start_problem(status) if kind is PodKind.BALLOON and status.phase == "Pending" else "",
        claims_devices=bool(spec.resource_claims) or status.extended_resource_claim_status is not None,
        scheduling=None if spec.node_name else _scheduling(wire, requests, shared),
    )


STARTING = frozenset({"", "ContainerCreating", "PodInitializing"})
"""The kubelet's words for a container that is on its way."""


def _start_problem(status: _PodStatus) -> str:
    words = {own.state.waiting.reason for own in _statuses_decoder.decode(status.container_statuses)}
    return min(words - STARTING, default="")


def _kind(metadata: Metadata, priority: int) -> PodKind:
    """By mark, owner and priority as well as by label: work that wears that would else look like room."""
    owner = metadata.controller
    if MIRROR_ANNOTATION in metadata.annotations:
        return PodKind.MIRROR
    if owner is not None and owner.kind == "DaemonSet":
        return PodKind.DAEMON
    if owner is not None and owner.kind == "ReplicaSet" and priority < 0 and is_marked(metadata.labels):
        return PodKind.BALLOON
    return PodKind.WORK


def is_marked(labels: Mapping[str, str]) -> bool:
    """Whether an object with these labels wears all of what was made for a pool."""
    return POOL_LABEL in labels and labels.items() >= MANAGED_BY.items()


def _deletion_cost(metadata: Metadata) -> int:
    text = metadata.annotations.get(DELETION_COST_ANNOTATION, "0")
    return int(text) if text.removeprefix("-").isdecimal() and text.isascii() and len(text) < 12 else 0


RESIZE_PENDING = "PodResizePending"
RESIZES = (RESIZE_PENDING, "PodResizeInProgress")
"""Conditions of a pod whose requests were changed in place, until its node has carried that out."""


def requests_of(spec: _PodSpec, status: _PodStatus) -> dict[str, int]:
    """Effective requests by the scheduler's rules.

    While a pod is resized in place it takes the largest of what is asked for, what its node has allocated, and what is
    in force (KEP-1287). What the node can never give (`Infeasible`) takes nothing. Until the node has spoken, for a
    second or so after the change, what is asked for holds.
    """
    resize = {c.type: c.reason for c in status.conditions if c.type in RESIZES}
    is_refused = resize.get(RESIZE_PENDING) == "Infeasible"
    effective = {} if is_refused else _aggregated(spec, {})
    if resize:
        said = [
            container
            for raw in (status.container_statuses, status.init_container_statuses)
            for container in _statuses_decoder.decode(raw)
        ]
        allocated = {own.name: {**own.resources.requests, **own.allocated_resources} for own in said}
        in_force = {own.name: {**own.allocated_resources, **own.resources.requests} for own in said}
        effective = larger(effective, larger(_aggregated(spec, allocated), _aggregated(spec, in_force)))
    if spec.resources is not None:
        asked, held = parse_resources(spec.resources.requests), _held_as_a_whole(spec, status) if resize else {}
        effective.update(held if is_refused and held else larger(asked, held))
    return total((effective, parse_resources(spec.overhead), {"pods": parse_quantity("1")}))


def _aggregated(spec: _PodSpec, said: Mapping[str, Mapping[str, str]]) -> dict[str, int]:
    """Of all containers together: init containers run in turn, sidecars beside them (KEP-753).

    What is `said` of a container, by its name, comes in place of what it asks for.
    """
    running = total(_amounts(container, said) for container in spec.containers)
    sidecars: dict[str, int] = {}
    starting: dict[str, int] = {}
    for container in spec.init_containers:
        own = _amounts(container, said)
        if container.restart_policy == "Always":
            sidecars = total((sidecars, own))
            starting = larger(starting, sidecars)
        else:
            starting = larger(starting, total((sidecars, own)))
    return larger(total((running, sidecars)), starting)


def _held_as_a_whole(spec: _PodSpec, status: _PodStatus) -> dict[str, int]:
    """What the node has allocated to the pod as a whole, or what is in force, whichever is more; without its overhead,
    and only of resources that a pod may ask for as a whole."""
    allocated = parse_resources(_amounts_decoder.decode(status.allocated_resources))
    in_force = parse_resources(_requests_decoder.decode(status.resources).requests)
    held = minus(larger(allocated, in_force), parse_resources(spec.overhead))
    return {name: milli for name, milli in held.items() if name in _CPU_AND_MEMORY or name.startswith("hugepages-")}


_CPU_AND_MEMORY = ("cpu", "memory")


def _amounts(container: _Container, said: Mapping[str, Mapping[str, str]]) -> dict[str, int]:
    asked = container.resources.requests
    return parse_resources({**asked, **said[container.name]} if container.name in said else asked)


def _scheduling(wire: PodWire, requests: Resources, shared: Shared) -> Scheduling:
    spec, status, labels = wire.spec, wire.status, wire.metadata.labels
    affinity = spec.affinity or Affinity()
    keeps_apart = affinity.pod_anti_affinity is not None and bool(affinity.pod_anti_affinity.required)
    has_rules, has_claims = _has_rules(wire, affinity), bool(spec.resource_claims)
    claims_alone = has_claims and not any("/" in name for name in requests)
    has_volumes = any(v.persistent_volume_claim is not None or v.ephemeral is not None for v in spec.volumes)
    return Scheduling(
        tolerations=shared.one(spec.tolerations),
        node_selector=shared.mapping(spec.node_selector),
        node_terms=shared.one(node_terms(affinity)),
        is_gated=bool(spec.scheduling_gates),
        gates=shared.one(tuple(gate.name for gate in spec.scheduling_gates)),
        is_opaque=has_volumes or has_claims or has_rules,
        is_bound_by_volumes=has_volumes and not (has_claims or has_rules),
        is_bound_by_claims=has_claims and not has_rules,
        cannot_preempt=spec.preemption_policy == "Never" or spec.scheduler_name != DEFAULT_SCHEDULER,
        scheduler=shared.one(spec.scheduler_name),
        is_one_per_node=keeps_apart or claims_alone,
        is_tried=any(c.type == "PodScheduled" and c.reason == "Unschedulable" for c in status.conditions),
        nominated_node=status.nominated_node_name,
        gang=next((labels[label] for label in GANG_LABELS if label in labels), spec.scheduling_group.pod_group_name),
    )


def node_terms(affinity: Affinity) -> tuple[tuple[Requirement, ...], ...]:
    """The alternatives that required node affinity gives; none means any node."""
    required = affinity.node_affinity.required if affinity.node_affinity else None
    return tuple(term.match_expressions for term in required.node_selector_terms) if required else ()


def _has_rules(wire: PodWire, affinity: Affinity) -> bool:
    """Whether a rule that is not judged here, besides its volumes and claims, says where the pod may go."""
    spec = wire.spec
    required = affinity.node_affinity.required if affinity.node_affinity else None
    return any(
        (
            any(c.when_unsatisfiable == "DoNotSchedule" for c in spec.topology_spread_constraints),
            bool(affinity.pod_affinity and affinity.pod_affinity.required),
            affinity.pod_anti_affinity is not None and not _avoids_only_itself(wire, affinity.pod_anti_affinity),
            required is not None and any(term.match_fields for term in required.node_selector_terms),
            spec.host_network or any(port.get("hostPort") for c in spec.containers for port in c.ports),
        )
    )


def _avoids_only_itself(wire: PodWire, anti: _PodAffinity) -> bool:
    """Whether every required term keeps only the pod's own kind apart, one per host."""
    return all(
        term.topology_key == HOST_LABEL
        and term.label_selector is not None
        and not term.label_selector.match_expressions
        and term.label_selector.match_labels.items() <= wire.metadata.labels.items()
        for term in anti.required
    )
