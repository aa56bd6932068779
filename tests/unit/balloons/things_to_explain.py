"""Objects of one small story: the pod `ml/train-0`, the node `n1`, its NodeClaim and the Events about them."""

from typing import Any

from balloons.cluster import kinds
from balloons.cluster.kinds import Kind
from balloons.cluster.seen_cluster import SeenCluster
from tests.seen_clusters import cluster
from throttler.kube.pod import MANAGED_BY, POOL_LABEL


def at(minute: int, second: int = 0) -> str:
    return f"2026-11-21T11:{minute:02}:{second:02}Z"


def condition(type_: str, when: str, status: str = "True", **more: str) -> dict[str, str]:
    return {"type": type_, "status": status, "lastTransitionTime": when, **more}


def pod(node: str = "", conditions: Any = (), **spec: Any) -> dict[str, Any]:
    placed = {"nodeName": node} if node else {}
    return {
        "metadata": {"name": "train-0", "namespace": "ml", "creationTimestamp": at(0)},
        "spec": {**placed, "containers": [], **spec},
        "status": {"phase": "Running" if node else "Pending", "conditions": list(conditions)},
    }


def balloon(node: str) -> dict[str, Any]:
    return {
        "metadata": {
            "name": "warm-1",
            "namespace": "ml",
            "labels": {POOL_LABEL: "gpu", **MANAGED_BY},
            "ownerReferences": [{"kind": "ReplicaSet", "name": "r", "controller": True}],
        },
        "spec": {"nodeName": node, "containers": []},
        "status": {"conditions": [condition("PodScheduled", at(4))]},
    }


def agent(node: str) -> dict[str, Any]:
    owner = {"kind": "DaemonSet", "name": "agent", "controller": True}
    return {
        "metadata": {"name": "agent-1", "namespace": "kube-system", "ownerReferences": [owner]},
        "spec": {"nodeName": node, "containers": []},
        "status": {"conditions": [condition("PodScheduled", at(3))]},
    }


def static_pod(node: str) -> dict[str, Any]:
    """As the kubelet shows it: owned by its node, or by nobody where the kubelet is old."""
    metadata = {"name": "proxy-n1", "namespace": "kube-system", "annotations": {"kubernetes.io/config.mirror": "5d1"}}
    return {**agent(node), "metadata": metadata}


def node(ready: str = "True", **spec: Any) -> dict[str, Any]:
    said = {"message": "container runtime network not ready"} if ready != "True" else {}
    return {
        "metadata": {"name": "n1", "creationTimestamp": at(2)},
        "spec": spec,
        "status": {"conditions": [condition("Ready", at(2, 30), ready, **said)]},
    }


def claim(*done: str) -> dict[str, Any]:
    times = {"Launched": at(1, 5), "Registered": at(2, 1), "Initialized": at(3)}
    return {
        "metadata": {"name": "general-x", "creationTimestamp": at(1)},
        "status": {"nodeName": "n1", "conditions": [condition(name, times[name]) for name in done]},
    }


def event(kind: str, name: str, reason: str, when: str, note: str = "") -> dict[str, Any]:
    return {
        "metadata": {"name": f"{name}.1", "namespace": "ml", "creationTimestamp": when},
        "reportingController": "karpenter",
        "regarding": {"kind": kind, "name": name, "namespace": "ml"},
        "reason": reason,
        "note": note,
        "deprecatedLastTimestamp": when,
    }


def seen(**objects: list[dict[str, Any]]) -> SeenCluster:
    names: dict[str, Kind] = {
        "pods": kinds.PODS,
        "nodes": kinds.NODES,
        "claims": kinds.NODE_CLAIMS,
        "events": kinds.EVENTS,
        "pools": kinds.BALLOON_POOLS,
        "node_pools": kinds.NODE_POOLS,
        "throttles": kinds.THROTTLES,
        "quotas": kinds.QUOTAS,
    }
    return cluster({names[key]: found for key, found in objects.items()})


def node_pool(name: str, spec: Any = None, **more: Any) -> dict[str, Any]:
    """A NodePool at its limit; `spec` is of its template."""
    return {
        "metadata": {"name": name},
        "spec": {"limits": {"nodes": "9"}, "template": {"spec": spec or {}}, **more},
        "status": {"resources": {"nodes": "9"}},
    }
