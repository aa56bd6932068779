"""What is kept of each object: the fields that some command reads, and no others.

Live reading and dumps keep the same, so that they answer alike. Environment variables, volumes' contents, image lists,
`last-applied-configuration` and arguments, but for a dozen flags of the cluster's components, never get past here.
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from balloons.cluster import kinds
from balloons.cluster.arguments import flags_of
from balloons.cluster.kinds import Kind
from balloons.cluster.reach import parts, text, texts
from throttler.kube import cluster_autoscaler

Keep = bool | Mapping[str, Any] | Callable[[Any], Any]
"""True keeps a value whole, a mapping keeps those fields (of each item of a list), a function makes what is kept."""

COMPONENTS = ("cluster-autoscaler", "karpenter", "kube-controller-manager", "kube-scheduler")
"""Programs whose arguments matter here; of theirs `KEPT_FLAGS` are kept, all others are not even looked at."""
KEPT_FLAGS = frozenset(
    """capacity-buffer-controller-enabled capacity-buffer-pod-injection-enabled capacity-quotas-enabled
    expendable-pods-priority-cutoff feature-gates kube-api-burst kube-api-qps max-node-provision-time
    max-nodes-per-scaleup scale-down-utilization-threshold scan-interval""".split()  # noqa: SIM905
)
"""The flags that some command reads; a container that merely is called like a component tells no more than these."""
GATES_VARIABLE = "FEATURE_GATES"
"""The one environment variable that is kept, of these programs only: Karpenter reads its gates from it."""
KEPT_DOMAINS = ("kube-balloons.github.io", "karpenter.sh", "cluster-autoscaler.kubernetes.io")
KEPT_ANNOTATIONS = frozenset(
    {"controller.kubernetes.io/pod-deletion-cost", "kubernetes.io/config.mirror", "scheduling.k8s.io/group-name"}
)


def kept(kind: Kind, raw: bytes | msgspec.Raw) -> bytes:
    """The object cut down, as compact JSON with sorted keys.

    Raises msgspec.MsgspecError, UnicodeDecodeError or RecursionError on what is no JSON object.
    """
    found = msgspec.json.decode(raw)
    if not isinstance(found, dict):
        raise msgspec.ValidationError(f"an object was expected, got {type(found).__name__}")
    return msgspec.json.encode(_cut(found, _TREES.get(kind.name, _DEFAULT)), order="sorted")


def _cut(value: Any, keep: Keep) -> Any:
    if keep is True:
        return value
    if isinstance(value, list):
        return [_cut(item, keep) for item in value]
    if callable(keep):
        return keep(value)
    if not isinstance(value, dict) or not isinstance(keep, Mapping):
        return None
    return {key: _cut(value[key], below) for key, below in keep.items() if value.get(key) is not None}


def _annotations(value: Any) -> Any:
    return {key: given for key, given in value.items() if _is_kept(key)} if isinstance(value, dict) else {}


def _is_kept(key: str) -> bool:
    domain = key.partition("/")[0]
    return key in KEPT_ANNOTATIONS or any(domain == d or domain.endswith(f".{d}") for d in KEPT_DOMAINS)


def _container(value: Any) -> Any:
    if not isinstance(value, dict):
        return None
    found = _cut(value, _CONTAINER)
    if is_component(value):
        program = "".join(texts(value, "command")[:1]).rpartition("/")[2]
        flags = {name: given for name, given in flags_of(value).items() if name in KEPT_FLAGS}
        found |= {"command": [program]} if program in COMPONENTS else {}
        found["args"] = [f"--{name}={given}" for name, given in flags.items()]
        found["env"] = [each for each in parts(value, "env") if each.get("name") == GATES_VARIABLE]
    return found


def is_component(container: Mapping[str, Any]) -> bool:
    """Whether a container runs an autoscaler, the controller manager or the scheduler."""
    image = text(container, "image").partition("@")[0]
    program = image.rpartition("/")[2].partition(":")[0]
    started = "".join(texts(container, "command")[:1]).rpartition("/")[2]
    names = {program, started, text(container, "name")}
    # Karpenter's image is called `controller`; its folder says whose.
    return bool(names & {*COMPONENTS}) or "/karpenter/" in image


def _volume(value: Any) -> Any:
    """Which kinds of volume there are, not where they lead to."""
    if not isinstance(value, dict):
        return None
    return {key: {} for key, source in value.items() if key != "name" and source is not None}


_METADATA = {
    "name": True,
    "namespace": True,
    "uid": True,
    "resourceVersion": True,
    "generation": True,
    "creationTimestamp": True,
    "deletionTimestamp": True,
    "labels": True,
    "annotations": _annotations,
    "ownerReferences": {"kind": True, "name": True, "uid": True, "controller": True},
}
_OWNED_METADATA = {**_METADATA, "managedFields": True}
"""With who owns which field: only where a field of ours may be fought over."""
_CONTAINER = {
    "name": True,
    "image": True,
    "resources": {"requests": True, "limits": True},
    "restartPolicy": True,
    "ports": {"hostPort": True, "containerPort": True},
}
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
    "resourceClaims": True,
    "hostNetwork": True,
    "terminationGracePeriodSeconds": True,
    "serviceAccountName": True,
    "volumes": _volume,
}
_TEMPLATE = {"metadata": _METADATA, "spec": _POD_SPEC}
_CONDITIONS = {
    "type": True,
    "status": True,
    "reason": True,
    "message": True,
    "lastTransitionTime": True,
    "observedGeneration": True,
}
_WORKLOAD = {
    "metadata": _METADATA,
    "spec": {"replicas": True, "selector": True, "strategy": True, "updateStrategy": True, "template": _TEMPLATE},
    "status": True,
}
_DEFAULT = {"metadata": _METADATA, "spec": True, "status": True}
_OWNED = {"metadata": _OWNED_METADATA, "spec": True, "status": True}
_MONITOR = {"metadata": _METADATA, "spec": {"selector": True, "namespaceSelector": True}}
_TREES: Mapping[str, Keep] = {
    kinds.PODS.name: {
        "metadata": _METADATA,
        "spec": _POD_SPEC,
        "status": {
            "phase": True,
            "reason": True,
            "startTime": True,
            "nominatedNodeName": True,
            "conditions": _CONDITIONS,
        },
    },
    kinds.NODES.name: {
        "metadata": _METADATA,
        "spec": {"unschedulable": True, "taints": True, "providerID": True},
        "status": {
            "allocatable": True,
            "capacity": True,
            "conditions": _CONDITIONS,
            "nodeInfo": {"kubeletVersion": True, "architecture": True},
        },
    },
    kinds.NAMESPACES.name: {"metadata": _METADATA},
    kinds.EVENTS.name: {
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
    kinds.AUTOSCALER_STATUS.name: {"metadata": _METADATA, "data": {cluster_autoscaler.KEY: True}},
    kinds.API_SERVERS.name: {"metadata": _METADATA, "endpoints": {"addresses": True, "conditions": True}},
    kinds.PRIORITY_CLASSES.name: {
        "metadata": _METADATA,
        "value": True,
        "globalDefault": True,
        "preemptionPolicy": True,
    },
    kinds.DEPLOYMENTS.name: _WORKLOAD,
    kinds.DAEMON_SETS.name: _WORKLOAD,
    kinds.NODE_POOLS.name: _OWNED,
    kinds.QUOTAS.name: _OWNED,
    kinds.SERVICE_MONITORS.name: _MONITOR,
    kinds.POD_MONITORS.name: _MONITOR,
    kinds.PROMETHEUSES.name: {
        "metadata": _METADATA,
        "spec": {
            "serviceMonitorSelector": True,
            "serviceMonitorNamespaceSelector": True,
            "podMonitorSelector": True,
            "podMonitorNamespaceSelector": True,
            "ruleSelector": True,
            "ruleNamespaceSelector": True,
        },
    },
}
