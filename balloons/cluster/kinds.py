"""The kinds that the commands read (no Secrets: nothing asks for them), and which fields of each are kept.

Kept are the fields that some command reads, and no others. Live reading and dumps keep the same, so that they answer
alike. Environment variables, volumes' contents, image lists, `last-applied-configuration` and arguments, but for a
dozen flags of the cluster's components and FEATURE_GATES of the same, never get past here.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from balloons.api.pool import GROUP as OWN_GROUP
from balloons.api.pool import POOL_KIND, POOL_PLURAL
from balloons.api.pool import VERSION as OWN_VERSION
from balloons.cluster.object_fields_and_flags import flags_of, moment, parts, text, texts
from throttler.api.throttle import THROTTLE_KIND, THROTTLE_PLURAL
from throttler.kube import cluster_autoscaler
from throttler.kube.cluster_autoscaler import (
    CAPACITY_QUOTA_GROUP,
    CAPACITY_QUOTA_KIND,
    MACHINE_DEPLOYMENT_KIND,
    MACHINE_DEPLOYMENT_VERSIONS,
    MAX_SIZE,
    MIN_SIZE,
)
from throttler.kube.pod import RESIZES

OWN_LEASE = "kube-balloons-throttle"
"""The Lease of the service, in whichever namespace it runs."""
_FLOW_VERSIONS = ("v1", "v1beta3")
_MONITORING = "monitoring.coreos.com"
Keep = Literal[True] | Mapping[str, Any] | Callable[[Any], Any]
"""True keeps a value whole, a mapping keeps those fields (of each item of a list), a function makes what is kept."""
COMPONENTS = ("cluster-autoscaler", "karpenter", "kube-controller-manager", "kube-scheduler")
"""Programs whose arguments matter here; of theirs `KEPT_FLAGS` are kept, all others are not even looked at."""
KEPT_FLAGS = frozenset(
    """capacity-buffer-controller-enabled capacity-buffer-pod-injection-enabled capacity-quotas-enabled
    expendable-pods-priority-cutoff feature-gates kube-api-burst kube-api-qps max-node-provision-time
    max-nodes-per-scaleup max-total-unready-percentage ok-total-unready-count scale-down-utilization-threshold
    scan-interval""".split()  # noqa: SIM905
)
"""The flags that some command reads; a container that merely is called like a component tells no more than these."""
GATES_VARIABLE = "FEATURE_GATES"
"""The one environment variable that is kept, of these programs only: Karpenter reads its gates from it."""
KEPT_DOMAINS = ("kube-balloons.github.io", "karpenter.sh", "cluster-autoscaler.kubernetes.io")
GANG = "scheduling.k8s.io/group-name"
"""The PodGroup that a pod belongs to."""
KEPT_ANNOTATIONS = frozenset(
    {"controller.kubernetes.io/pod-deletion-cost", "kubernetes.io/config.mirror", GANG, MAX_SIZE, MIN_SIZE}
)
PAUSE = "pause"
"""What the image of a pod is called that does nothing, or how its name begins."""
PAUSE_REASON = "kube-balloons.github.io/pause-reason"
"""What `balloons pause --reason` writes beside `spec.paused`: somebody's own words."""


def _stamp(value: Any) -> Any:
    """A time as API servers write it; any other spelling becomes that, or none where no calendar has such a time."""
    if not isinstance(value, str) or value.endswith("Z"):
        return value
    at = moment({"at": value}, "at")
    return at.isoformat().replace("+00:00", "Z") if at is not None else None


_CONTAINER = {
    "name": True,
    "image": True,
    "resources": {"requests": True, "limits": True},
    "restartPolicy": True,
    "ports": {"hostPort": True, "containerPort": True},
}
_CONDITIONS = {
    "type": True,
    "status": True,
    "reason": True,
    "message": True,
    "lastTransitionTime": _stamp,
    "observedGeneration": True,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of object and which of its objects are read.

    `versions` are tried in this order until one is served. `namespace` and `fields` (server syntax) narrow the list;
    an empty namespace means all. `is_cached`: the API server answers lists of it from its watch cache.
    """

    group: str
    versions: tuple[str, ...]
    plural: str
    kind: str
    namespace: str = ""
    fields: str = ""
    labels: str = ""
    is_cached: bool = True

    @property
    def name(self) -> str:
        """The plural with its group, as kubectl takes it: `pods`, `nodepools.karpenter.sh`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


NODES = Kind(group="", versions=("v1",), plural="nodes", kind="Node")


PODS = Kind(group="", versions=("v1",), plural="pods", kind="Pod")


NAMESPACES = Kind(group="", versions=("v1",), plural="namespaces", kind="Namespace")


EVENTS = Kind(group="events.k8s.io", versions=("v1",), plural="events", kind="Event", is_cached=False)


AUTOSCALER_STATUS = Kind(
    group="",
    versions=("v1",),
    plural="configmaps",
    kind="ConfigMap",
    namespace=cluster_autoscaler.NAMESPACE,
    fields=f"metadata.name={cluster_autoscaler.NAME}",
)


API_SERVERS = Kind(
    group="discovery.k8s.io",
    versions=("v1",),
    plural="endpointslices",
    kind="EndpointSlice",
    namespace="default",
    labels="kubernetes.io/service-name=kubernetes",
)


LEASES = Kind(
    group="coordination.k8s.io",
    versions=("v1",),
    plural="leases",
    kind="Lease",
    fields=f"metadata.name={OWN_LEASE}",
)


DEPLOYMENTS = Kind(group="apps", versions=("v1",), plural="deployments", kind="Deployment")


DAEMON_SETS = Kind(group="apps", versions=("v1",), plural="daemonsets", kind="DaemonSet")


PRIORITY_CLASSES = Kind(group="scheduling.k8s.io", versions=("v1",), plural="priorityclasses", kind="PriorityClass")


DISRUPTION_BUDGETS = Kind(group="policy", versions=("v1",), plural="poddisruptionbudgets", kind="PodDisruptionBudget")


FLOW_SCHEMAS = Kind(
    group="flowcontrol.apiserver.k8s.io", versions=_FLOW_VERSIONS, plural="flowschemas", kind="FlowSchema"
)


NODE_POOLS = Kind(group="karpenter.sh", versions=("v1",), plural="nodepools", kind="NodePool")


NODE_CLAIMS = Kind(group="karpenter.sh", versions=("v1",), plural="nodeclaims", kind="NodeClaim")


QUOTAS = Kind(
    group=CAPACITY_QUOTA_GROUP,
    versions=("v1beta1", "v1alpha1"),
    plural="capacityquotas",
    kind=CAPACITY_QUOTA_KIND,
)


MACHINE_DEPLOYMENTS = Kind(
    group="cluster.x-k8s.io",
    versions=MACHINE_DEPLOYMENT_VERSIONS,
    plural="machinedeployments",
    kind=MACHINE_DEPLOYMENT_KIND,
)


BALLOON_POOLS = Kind(group=OWN_GROUP, versions=(OWN_VERSION,), plural=POOL_PLURAL, kind=POOL_KIND)


THROTTLES = Kind(group=OWN_GROUP, versions=(OWN_VERSION,), plural=THROTTLE_PLURAL, kind=THROTTLE_KIND)


SERVICE_MONITORS = Kind(group=_MONITORING, versions=("v1",), plural="servicemonitors", kind="ServiceMonitor")


POD_MONITORS = Kind(group=_MONITORING, versions=("v1",), plural="podmonitors", kind="PodMonitor")


PROMETHEUSES = Kind(group=_MONITORING, versions=("v1",), plural="prometheuses", kind="Prometheus")


ALL_KINDS = (
    NODES,
    PODS,
    NAMESPACES,
    EVENTS,
    AUTOSCALER_STATUS,
    API_SERVERS,
    LEASES,
    DEPLOYMENTS,
    DAEMON_SETS,
    PRIORITY_CLASSES,
    DISRUPTION_BUDGETS,
    FLOW_SCHEMAS,
    NODE_POOLS,
    NODE_CLAIMS,
    QUOTAS,
    MACHINE_DEPLOYMENTS,
    BALLOON_POOLS,
    THROTTLES,
    SERVICE_MONITORS,
    POD_MONITORS,
    PROMETHEUSES,
)
"""Everything that a dump holds."""


KIND_BY_NAME = {kind.name: kind for kind in ALL_KINDS}


def kept(kind: Kind, raw: bytes | msgspec.Raw) -> bytes:
    """The object cut down, as compact JSON with sorted keys.

    Raises msgspec.MsgspecError, UnicodeDecodeError or RecursionError on what is no JSON object.
    """
    thing = msgspec.json.decode(raw)
    if not isinstance(thing, dict):
        raise msgspec.ValidationError(f"an object was expected, got {type(thing).__name__}")
    return msgspec.json.encode(_cut(thing, _TREES.get(kind.name, _DEFAULT)), order="sorted")


def _cut(value: Any, keep: Keep) -> Any:
    if keep is True:
        return value
    if isinstance(value, list):
        return [_cut(item, keep) for item in value]
    if callable(keep):
        return keep(value)
    if not isinstance(value, dict):
        return None
    return {key: _cut(value[key], below) for key, below in keep.items() if value.get(key) is not None}


def _annotations(value: Any) -> Any:
    return {key: note for key, note in value.items() if is_kept_annotation(key)} if isinstance(value, dict) else {}


def is_kept_annotation(key: str) -> bool:
    """Whether an annotation of this key is read by some command."""
    domain = key.partition("/")[0]
    return key in KEPT_ANNOTATIONS or any(domain == d or domain.endswith(f".{d}") for d in KEPT_DOMAINS)


def _container(value: Any) -> Any:
    if not isinstance(value, dict):
        return None
    kept = _cut(value, _CONTAINER)
    if is_component(value):
        program = "".join(texts(value, "command")[:1]).rpartition("/")[2]
        flags = {name: setting for name, setting in flags_of(value).items() if name in KEPT_FLAGS}
        kept |= {"command": [program]} if program in COMPONENTS else {}
        kept["args"] = [f"--{name}={setting}" for name, setting in flags.items()]
        kept["env"] = [variable for variable in parts(value, "env") if variable.get("name") == GATES_VARIABLE]
    return kept


def is_component(container: Mapping[str, Any]) -> bool:
    """Whether a container runs an autoscaler, the controller manager or the scheduler."""
    image = text(container, "image").partition("@")[0]
    program = image.rpartition("/")[2].partition(":")[0]
    started = "".join(texts(container, "command")[:1]).rpartition("/")[2]
    names = {program, started, text(container, "name")}
    # Karpenter's image is called `controller`; its folder says whose.
    return bool(names & {*COMPONENTS}) or "/karpenter/" in image


_POD_STATUS = {
    "phase": True,
    "reason": True,
    "startTime": True,
    "nominatedNodeName": True,
    "extendedResourceClaimStatus": {},
    "conditions": _CONDITIONS,
}
_HELD: Mapping[str, Keep] = {"allocatedResources": True, "resources": {"requests": True}}
_AMOUNTS = {"name": True, **_HELD}


def _pod_status(value: Any) -> Any:
    """With what it and its containers have, where that may be something else than they ask for: of the few that are
    resized."""
    if not isinstance(value, dict):
        return None
    is_resized = any(text(condition, "type") in RESIZES for condition in parts(value, "conditions"))
    amounts = {"containerStatuses": _AMOUNTS, "initContainerStatuses": _AMOUNTS, **_HELD} if is_resized else {}
    return _cut(value, {**_POD_STATUS, **amounts})


def _volume(value: Any) -> Any:
    """Which kinds of volume there are, not where they lead to."""
    if not isinstance(value, dict):
        return None
    return {key: {} for key in value if key != "name"}


_METADATA = {
    "name": True,
    "namespace": True,
    "uid": True,
    "resourceVersion": True,
    "generation": True,
    "creationTimestamp": _stamp,
    "deletionTimestamp": _stamp,
    "labels": True,
    "annotations": _annotations,
    "ownerReferences": {"kind": True, "name": True, "uid": True, "controller": True},
}


_OWNED_METADATA = {**_METADATA, "managedFields": True}
"""With who owns which field: only where a field of ours may be fought over."""


_POD_SPEC = {
    "nodeName": True,
    "priority": True,
    "priorityClassName": True,
    "preemptionPolicy": True,
    "schedulerName": True,
    "containers": _container,
    "initContainers": _container,
    "overhead": True,
    "resources": {"requests": True, "limits": True},
    "nodeSelector": True,
    "affinity": True,
    "tolerations": True,
    "topologySpreadConstraints": True,
    "schedulingGates": True,
    "schedulingGroup": {"podGroupName": True},
    "resourceClaims": True,
    "hostNetwork": True,
    "terminationGracePeriodSeconds": True,
    "serviceAccountName": True,
    "volumes": _volume,
}


_TEMPLATE = {"metadata": _METADATA, "spec": _POD_SPEC}


_WORKLOAD = {
    "metadata": _METADATA,
    "spec": {"replicas": True, "selector": True, "strategy": True, "updateStrategy": True, "template": _TEMPLATE},
    "status": True,
}


_DEFAULT = {"metadata": _METADATA, "spec": True, "status": True}


_OWNED = {"metadata": _OWNED_METADATA, "spec": True, "status": True}


_MONITOR = {"metadata": _METADATA, "spec": {"selector": True, "namespaceSelector": True}}


_TREES: Mapping[str, Keep] = {
    PODS.name: {
        "metadata": _METADATA,
        "spec": _POD_SPEC,
        "status": _pod_status,
    },
    NODES.name: {
        "metadata": _METADATA,
        "spec": {"unschedulable": True, "taints": True, "providerID": True},
        "status": {
            "allocatable": True,
            "capacity": True,
            "conditions": _CONDITIONS,
            "nodeInfo": {"kubeletVersion": True, "architecture": True},
        },
    },
    NAMESPACES.name: {"metadata": _METADATA},
    EVENTS.name: {
        "metadata": _METADATA,
        "eventTime": True,
        "series": True,
        "reportingController": True,
        "deprecatedSource": {"component": True},
        "deprecatedFirstTimestamp": True,
        "deprecatedLastTimestamp": True,
        "deprecatedCount": True,
        "regarding": {"apiVersion": True, "kind": True, "namespace": True, "name": True, "uid": True},
        "reason": True,
        "type": True,
        "note": True,
    },
    AUTOSCALER_STATUS.name: {"metadata": _METADATA, "data": {cluster_autoscaler.KEY: True}},
    API_SERVERS.name: {"metadata": _METADATA, "endpoints": {"addresses": True, "conditions": True}},
    PRIORITY_CLASSES.name: {
        "metadata": _METADATA,
        "value": True,
        "globalDefault": True,
        "preemptionPolicy": True,
    },
    DEPLOYMENTS.name: _WORKLOAD,
    DAEMON_SETS.name: _WORKLOAD,
    NODE_POOLS.name: _OWNED,
    QUOTAS.name: _OWNED,
    MACHINE_DEPLOYMENTS.name: {
        "metadata": _OWNED_METADATA,
        "spec": {"replicas": True},
        "status": {"readyReplicas": True},
    },
    SERVICE_MONITORS.name: _MONITOR,
    POD_MONITORS.name: _MONITOR,
    PROMETHEUSES.name: {
        "metadata": _METADATA,
        "spec": {
            "serviceMonitorSelector": True,
            "serviceMonitorNamespaceSelector": True,
            "podMonitorSelector": True,
            "podMonitorNamespaceSelector": True,
        },
    },
}
