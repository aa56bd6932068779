"""The cluster of the pictures: a GPU pool under Karpenter on a working day, as `balloons dump` would save it.

Its objects are made up, field by field as their controllers write them; what is shown of it is what commands say.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from balloons.cluster import kinds
from balloons.cluster.kept import kept
from balloons.cluster.kinds import Kind
from balloons.cluster.seen import Listed, SeenCluster
from balloons.reading.archive import write_archive
from throttler.kube.pod import POOL_LABEL

NOW = datetime(2026, 11, 20, 14, 30, tzinfo=UTC)
OWN = "kube-balloons.github.io/v1alpha1"
POOL = "gpu"
LABELS = {"karpenter.sh/nodepool": POOL, "node.kubernetes.io/instance-type": "gpu-8x"}
ZONES = ("zone-a", "zone-b", "zone-c")
BUSY, WARM, JOINING = 52, 8, 4
BOOT_S, JOIN_S = 200.0, 55.0
SIZE = {"cpu": "96", "memory": "1Ti", "nvidia.com/gpu": "8", "pods": "110"}
AGENTS = ("cni", "csi", "device-plugin", "exporter", "log-agent", "node-problem-detector")
MOST_GPUS = 4000
Object = dict[str, Any]


def write(file: Path) -> None:
    """The cluster as a file for `--from`; equal bytes each time."""
    lists = {
        kind.name: Listed(tuple(kept(kind, json.dumps(each).encode()) for each in found))
        for kind, found in _objects().items()
    }
    with file.open("wb") as out:
        write_archive(SeenCluster(taken_at=NOW, lists=lists, version="v1.36.3", context="training"), out)


def _objects() -> dict[Kind, list[Object]]:
    empty: dict[Kind, list[Object]] = {kind: [] for kind in kinds.ALL_KINDS}
    return empty | {
        kinds.NODES: [_node(number) for number in range(BUSY + WARM + JOINING)],
        kinds.NODE_CLAIMS: [_claim(number) for number in range(BUSY + WARM + JOINING)],
        kinds.PODS: [*_work(), *_balloons(), *_agents()],
        kinds.NODE_POOLS: [_node_pool(), _counted_pool()],
        kinds.DISRUPTION_BUDGETS: [_budget()],
        kinds.DAEMON_SETS: [_named(name, "kube-system", spec=_template({})) for name in AGENTS],
        kinds.DEPLOYMENTS: [_karpenter(), _placeholders()],
        kinds.PRIORITY_CLASSES: [_class("kube-balloons", -10, "Never"), _class("overprovisioning", -20, "Never")],
        kinds.API_SERVERS: [_servers()],
        kinds.BALLOON_POOLS: [_held_pool(), _headroom_pool()],
        kinds.THROTTLES: [_throttle()],
    }


def _named(name: str, namespace: str = "", age_s: float = 86_400.0, **more: Any) -> Object:
    metadata = {"name": name, "uid": f"{namespace}-{name}", "generation": 1, "creationTimestamp": _ago(age_s)}
    return {"metadata": metadata | ({"namespace": namespace} if namespace else {}), **more}


def _ago(seconds: float) -> str:
    return (NOW - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def _age_s(number: int) -> float:
    """Since the node registered: the last few are on their way, the others came over the day."""
    return 20.0 + 3 * number if number >= BUSY + WARM else 70_000.0 - 1_000 * number


def _boot_s(number: int) -> float:
    """They differ by a tenth or so."""
    return BOOT_S + 7.0 * (number % 9 - 4)


def _node(number: int) -> Object:
    age_s, is_ready = _age_s(number), number < BUSY + WARM
    ready = {"type": "Ready", "status": str(is_ready), "lastTransitionTime": _ago(max(0.0, age_s - 35.0))}
    labels = LABELS | {"topology.kubernetes.io/zone": ZONES[number % 3], "kubernetes.io/hostname": f"gpu-{number}"}
    found = _named(f"gpu-{number}", age_s=age_s, spec={"providerID": f"aws:///zone/gpu-{number}"})
    found["metadata"]["labels"] = labels
    return {**found, "status": {"allocatable": SIZE, "capacity": SIZE, "conditions": [ready]}}


def _claim(number: int) -> Object:
    found = _named(f"gpu-{number:05d}", age_s=_age_s(number) + _boot_s(number))
    found["metadata"]["labels"] = LABELS
    steps = [
        {"type": kind, "status": "True", "lastTransitionTime": _ago(_age_s(number))}
        for kind in ("Launched", "Registered")
    ]
    return {**found, "status": {"nodeName": f"gpu-{number}", "capacity": SIZE, "conditions": steps}}


def _pod(name: str, namespace: str, node: int, age_s: float, requests: dict[str, str], **spec: Any) -> Object:
    container = {"name": "main", "image": "registry.example.com/main:1", "resources": {"requests": requests}}
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": _ago(age_s)}
    placed = {"nodeName": f"gpu-{node}", "containers": [container], **spec}
    return _named(name, namespace, age_s, spec=placed, status={"phase": "Running", "conditions": [ready]})


def _work() -> Iterator[Object]:
    for number in range(BUSY):
        yield _pod(
            f"train-{number}",
            "jobs",
            number,
            3_600.0,
            {"cpu": "64", "memory": "640Gi", "nvidia.com/gpu": "8"},
            priority=0,
        )


def _balloons() -> Iterator[Object]:
    for number in range(BUSY, BUSY + WARM):
        requests = {"cpu": "90", "nvidia.com/gpu": "8"}
        found = _pod(f"gpu-balloon-{number}", "kube-balloons", number, 1_800.0, requests, priority=-10)
        found["metadata"]["labels"] = {POOL_LABEL: POOL}
        found["metadata"]["ownerReferences"] = [{"kind": "ReplicaSet", "name": "gpu", "uid": "gpu", "controller": True}]
        found["spec"] |= {"priorityClassName": "kube-balloons", "terminationGracePeriodSeconds": 0}
        yield found


def _agents() -> Iterator[Object]:
    for number in range(BUSY + WARM):
        for name in AGENTS:
            found = _pod(f"{name}-{number}", "kube-system", number, _age_s(number) - JOIN_S, {"cpu": "100m"})
            found["metadata"]["ownerReferences"] = [
                {"kind": "DaemonSet", "name": name, "uid": name, "controller": True}
            ]
            yield found


def _node_pool() -> Object:
    nodes = BUSY + WARM + JOINING
    used = {"cpu": f"{96 * nodes}", "nvidia.com/gpu": f"{8 * nodes}", "nodes": f"{nodes}"}
    template = {"spec": {"nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "gpu"}}}
    spec = {"limits": {"nvidia.com/gpu": str(MOST_GPUS)}, "template": template}
    return _named(POOL, spec=spec, status={"resources": used})


def _counted_pool() -> Object:
    """With a limit that Karpenter oversteps within a round, and that leaves no room when it does not."""
    spec = {"limits": {"nodes": "9"}, "template": {"spec": {"nodeClassRef": {"name": "notebooks"}}}}
    return _named("notebooks", spec=spec, status={"resources": {"nodes": "9"}})


def _budget() -> Object:
    """It would keep work from the nodes that the placeholders hold."""
    return _named("overprovisioning", "platform", spec={"minAvailable": 2, "selector": {"matchLabels": {"app": "x"}}})


def _template(pod: Object) -> Object:
    return {"selector": {"matchLabels": {"app": "x"}}, "template": {"metadata": {"labels": {"app": "x"}}, "spec": pod}}


def _karpenter() -> Object:
    container = {"name": "controller", "image": "public.example.com/karpenter/controller:1.15.0"}
    return _named("karpenter", "kube-system", spec={"replicas": 2, **_template({"containers": [container]})})


def _placeholders() -> Object:
    """Spare capacity as an old guide says; `doctor` knows better."""
    container = {
        "name": "reserve",
        "image": "registry.k8s.io/pause:3.10",
        "resources": {"requests": {"cpu": "4"}},
    }
    pod = {"priorityClassName": "overprovisioning", "nodeSelector": LABELS, "containers": [container]}
    return _named("overprovisioning", "platform", spec={"replicas": 3, **_template(pod)})


def _class(name: str, value: int, policy: str) -> Object:
    return _named(name, value=value, preemptionPolicy=policy)


def _servers() -> Object:
    addresses = [{"addresses": [f"10.0.0.{host}"], "conditions": {"ready": True}} for host in (11, 12, 13)]
    return _named("kubernetes", "default", endpoints=addresses)


def _condition(kind: str, reason: str, message: str) -> Object:
    return {
        "type": kind,
        "status": "True",
        "reason": reason,
        "message": message,
        "lastTransitionTime": _ago(600),
        "observedGeneration": 1,
    }


def _held_pool() -> Object:
    status = {
        "observedGeneration": 1,
        "nodes": BUSY + WARM + JOINING,
        "busy": BUSY,
        "warm": WARM,
        "target": WARM,
        "because": "Steady",
        "conditions": [_condition("Ready", "Steady", f"{WARM} of {WARM} wanted nodes are warm")],
    }
    spec = {"nodes": {"selector": {"matchLabels": LABELS}}, "mode": "Hold", "size": WARM}
    return _named(POOL, "kube-balloons", 12 * 86_400.0, spec=spec, status=status)


def _headroom_pool() -> Object:
    status = {
        "observedGeneration": 1,
        "nodes": 9,
        "busy": 7,
        "warm": 2,
        "target": 2,
        "because": "Steady",
        "conditions": [_condition("Ready", "Steady", "2 of 2 wanted nodes are warm")],
    }
    selector = {"matchLabels": {"karpenter.sh/nodepool": "notebooks"}}
    spec = {"nodes": {"selector": selector}, "mode": "Headroom", "size": 2, "maxSize": 12}
    return _named("notebooks", "kube-balloons", 12 * 86_400.0, spec=spec, status=status)


def _throttle() -> Object:
    status = {
        "observedGeneration": 1,
        "phase": "Avoid",
        "window": 24,
        "pacePerMinute": 26,
        "inFlight": JOINING,
        "joining": JOINING,
        "waiting": 0,
        "because": "NoDemand",
        "conditions": [_condition("Ready", "NoDemand", "fewer joins are under way than 24, and nothing waits")],
        "servers": [{"name": f"10.0.0.{host}", "state": "Fresh"} for host in (11, 12, 13)],
    }
    spec = {"nodes": {"matchLabels": LABELS}, "levers": {"nodePoolLimits": {"names": [POOL]}}}
    return _named("default", age_s=12 * 86_400.0, spec=spec, status=status)
