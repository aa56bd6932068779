"""The cluster of the pictures: a GPU pool under Karpenter on a working day, as `balloons dump` would save it.

Its control plane is the user's own: the clients of its controllers are not slow, so that nothing holds a herd of nodes
back but its API servers. A batch of jobs came half an hour ago and took all warm nodes; four more machines are on
their way. Its objects are made up, field by field as their controllers write them, the service's own with its own
reasons; what is shown of it is what commands say.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from balloons.cluster import kinds
from balloons.cluster.kinds import Kind, kept
from balloons.cluster.seen_cluster import Listed, SeenCluster
from balloons.decide.decision_and_reasons import Reason
from balloons.reading.read_cluster import write_archive
from balloons.service.pool_status_and_events import CONTROLLER as BALLOONS
from throttler.kube.pod import MANAGED_BY, POOL_LABEL
from throttler.kube.reasons_and_events import Because, because
from throttler.law.verdict import ThrottleReason
from throttler.levers.lever_and_reasons import LeverReason, LeverState
from throttler.service.throttle_status import CONTROLLER as THROTTLER

NOW = datetime(2026, 11, 20, 14, 30, tzinfo=UTC)
VERSION = "v1.36.3"
"""Of Kubernetes."""
OWN = "kube-balloons.github.io/v1alpha1"
POOL = "gpu"
LABELS = {"karpenter.sh/nodepool": POOL, "node.kubernetes.io/instance-type": "gpu-8x"}
NOTEBOOK_LABELS = {"karpenter.sh/nodepool": "notebooks", "node.kubernetes.io/instance-type": "cpu-16x"}
SERVER_LABELS = {"node-role.kubernetes.io/control-plane": "", "node.kubernetes.io/instance-type": "cpu-8x"}
ZONES = ("zone-a", "zone-b", "zone-c")
BUSY, WARM, JOINING = 52, 8, 4
NOTEBOOKS_BUSY, NOTEBOOKS_WARM = 7, 2
BOOT_S, JOIN_S = 200.0, 55.0
BURST_S, WARM_AGAIN_S = 1_700.0, 600.0
"""Ago: when a batch took every warm node, and when as many were warm again."""
SIZE = {"cpu": "96", "memory": "1Ti", "nvidia.com/gpu": "8", "pods": "110"}
NOTEBOOK_SIZE = {"cpu": "16", "memory": "128Gi", "pods": "110"}
SERVER_SIZE = {"cpu": "8", "memory": "32Gi", "pods": "110"}
AGENTS = (
    "block-storage-csi",
    "cni",
    "device-plugin",
    "fabric-agent",
    "file-storage-csi",
    "gpu-exporter",
    "image-cache",
    "log-agent",
    "mesh-node",
    "node-exporter",
    "node-problem-detector",
    "security-agent",
)
MOST_GPUS = 12_000
LEARNED_WINDOW = 600
"""What the rush of the night has shown that these servers bear."""
CLIENT_QPS = 300
"""Of controller manager and scheduler, as people set it who start hundreds of nodes at once."""
Object = dict[str, Any]


def write(file: Path) -> None:
    """The cluster as a file for `--from`; equal bytes each time."""
    lists = {
        kind.name: Listed(tuple(kept(kind, json.dumps(thing).encode()) for thing in things))
        for kind, things in _objects().items()
    }
    with file.open("wb") as out:
        write_archive(SeenCluster(taken_at=NOW, lists=lists, version=VERSION, context="training"), out)


def _objects() -> dict[Kind, list[Object]]:
    empty: dict[Kind, list[Object]] = {kind: [] for kind in kinds.ALL_KINDS}
    return empty | {
        kinds.NODES: [*map(_node, range(BUSY + WARM + JOINING)), *_notebook_nodes(), *_server_nodes()],
        kinds.NODE_CLAIMS: [_claim(number) for number in range(BUSY + WARM + JOINING)],
        kinds.PODS: [*_work(), *_waiting(), *_balloons(), *_notebooks(), *_agents(), *_controllers()],
        kinds.EVENTS: list(_events()),
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
    return _host(f"gpu-{number}", LABELS, SIZE, ZONES[number % 3], _age_s(number), is_ready=number < BUSY + WARM)


def _notebook_nodes() -> Iterator[Object]:
    for number in range(NOTEBOOKS_BUSY + NOTEBOOKS_WARM):
        yield _host(f"notebook-{number}", NOTEBOOK_LABELS, NOTEBOOK_SIZE, ZONES[number % 3], 5 * 86_400.0)


def _server_nodes() -> Iterator[Object]:
    for number, zone in enumerate(ZONES):
        host = _host(f"server-{number}", SERVER_LABELS, SERVER_SIZE, zone, 90 * 86_400.0)
        host["spec"]["taints"] = [{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}]
        yield host


def _host(
    name: str, labels: dict[str, str], size: dict[str, str], zone: str, age_s: float, *, is_ready: bool = True
) -> Object:
    ready = {"type": "Ready", "status": str(is_ready), "lastTransitionTime": _ago(max(0.0, age_s - 35.0))}
    if not is_ready:
        ready |= {"reason": "KubeletNotReady", "message": "network plugin is not ready: cni config uninitialized"}
    host = _named(name, age_s=age_s, spec={"providerID": f"aws:///{zone}/{name}"})
    host["metadata"]["labels"] = labels | {"topology.kubernetes.io/zone": zone, "kubernetes.io/hostname": name}
    return {**host, "status": {"allocatable": size, "capacity": size, "conditions": [ready]}}


def _claim(number: int) -> Object:
    claim = _named(f"gpu-{number:05d}", age_s=_age_s(number) + _boot_s(number))
    claim["metadata"]["labels"] = LABELS
    steps = [
        {"type": kind, "status": "True", "lastTransitionTime": _ago(_age_s(number))}
        for kind in ("Launched", "Registered")
    ]
    return {**claim, "status": {"nodeName": f"gpu-{number}", "capacity": SIZE, "conditions": steps}}


def _pod(name: str, namespace: str, node: str, age_s: float, requests: dict[str, str], **spec: Any) -> Object:
    """Bound in its first second, and running four seconds later."""
    container = {"name": "main", "image": "registry.example.com/main:1", "resources": {"requests": requests}}
    steps = [
        {"type": kind, "status": "True", "lastTransitionTime": _ago(age_s - after_s)}
        for kind, after_s in (("PodScheduled", 1.0), ("Ready", 5.0))
    ]
    placed = {"nodeName": node, "containers": [container], **spec}
    return _named(name, namespace, age_s, spec=placed, status={"phase": "Running", "conditions": steps})


WORK = {"cpu": "64", "memory": "640Gi", "nvidia.com/gpu": "8"}


def _work() -> Iterator[Object]:
    """The last of them are the batch that took the warm nodes."""
    for number in range(BUSY):
        age_s = BURST_S if number >= BUSY - WARM else 14_400.0
        yield _pod(f"train-{number}", "jobs", f"gpu-{number}", age_s, WORK, priority=0)


def _waiting() -> Iterator[Object]:
    """What the machines on their way were bought for."""
    for number in range(BUSY, BUSY + JOINING):
        age_s = _age_s(number + WARM) + _boot_s(number + WARM) + 4.0
        pod = _pod(f"train-{number}", "jobs", "", age_s, WORK, priority=0)
        why = "0/72 nodes are available: 55 Insufficient nvidia.com/gpu, 17 node(s) had untolerated taints."
        refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": why}
        pod["status"] = {"phase": "Pending", "conditions": [{**refused, "lastTransitionTime": _ago(age_s)}]}
        yield pod


def _balloons() -> Iterator[Object]:
    for number in range(BUSY, BUSY + WARM):
        requests = {"cpu": "90", "nvidia.com/gpu": "8"}
        yield _balloon(POOL, f"gpu-{number}", WARM_AGAIN_S + 20.0 * (BUSY + WARM - number), requests)


def _balloon(pool: str, node: str, age_s: float, requests: dict[str, str]) -> Object:
    balloon = _pod(f"{pool}-balloon-{node}", "kube-balloons", node, age_s, requests, priority=-10)
    balloon["metadata"]["labels"] = {POOL_LABEL: pool, **MANAGED_BY}
    balloon["metadata"]["ownerReferences"] = [{"kind": "ReplicaSet", "name": pool, "uid": pool, "controller": True}]
    balloon["spec"] |= {"priorityClassName": "kube-balloons", "terminationGracePeriodSeconds": 0}
    return balloon


def _notebooks() -> Iterator[Object]:
    for number in range(NOTEBOOKS_BUSY):
        requests = {"cpu": "12", "memory": "96Gi"}
        yield _pod(f"notebook-{number}", "research", f"notebook-{number}", 20_000.0, requests, priority=0)
    for number in range(NOTEBOOKS_BUSY, NOTEBOOKS_BUSY + NOTEBOOKS_WARM):
        yield _balloon("notebooks", f"notebook-{number}", 20_000.0, {"cpu": "14"})


def _controllers() -> Iterator[Object]:
    """Static pods, whose flags a plan reads."""
    for name in ("kube-controller-manager", "kube-scheduler"):
        for number in range(len(ZONES)):
            pod = _pod(f"{name}-server-{number}", "kube-system", f"server-{number}", 80_000.0, {"cpu": "200m"})
            flags = [f"--kube-api-qps={CLIENT_QPS}", f"--kube-api-burst={2 * CLIENT_QPS}"]
            image = f"registry.k8s.io/{name}:{VERSION}"
            pod["spec"]["containers"][0] |= {"name": name, "image": image, "command": [name, *flags]}
            pod["spec"]["priority"] = 2_000_001_000
            pod["metadata"]["annotations"] = {"kubernetes.io/config.mirror": name}
            yield pod


def _agents() -> Iterator[Object]:
    for number in range(BUSY + WARM):
        for name in AGENTS:
            pod = _pod(f"{name}-{number}", "kube-system", f"gpu-{number}", _age_s(number) - JOIN_S, {"cpu": "100m"})
            pod["metadata"]["ownerReferences"] = [{"kind": "DaemonSet", "name": name, "uid": name, "controller": True}]
            yield pod


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


NO_DEMAND = because(ThrottleReason.NO_DEMAND, window=LEARNED_WINDOW)


def _steady(warm: int) -> Because:
    return because(Reason.STEADY, warm=warm, target=warm)


def _condition(kind: str, why: Because, age_s: float = WARM_AGAIN_S) -> Object:
    return {
        "type": kind,
        "status": "True",
        "reason": why.code,
        "message": why.sentence,
        "lastTransitionTime": _ago(age_s),
        "observedGeneration": 1,
    }


def _held_pool() -> Object:
    status = {
        "observedGeneration": 1,
        "nodes": BUSY + WARM + JOINING,
        "busy": BUSY,
        "warm": WARM,
        "target": WARM,
        "because": _steady(WARM).code,
        "conditions": [_condition("Ready", _steady(WARM))],
    }
    spec = {"nodes": {"selector": {"matchLabels": LABELS}}, "mode": "Hold", "size": WARM}
    return _named(POOL, "kube-balloons", 12 * 86_400.0, spec=spec, status=status)


def _headroom_pool() -> Object:
    status = {
        "observedGeneration": 1,
        "nodes": NOTEBOOKS_BUSY + NOTEBOOKS_WARM,
        "busy": NOTEBOOKS_BUSY,
        "warm": NOTEBOOKS_WARM,
        "target": NOTEBOOKS_WARM,
        "because": _steady(NOTEBOOKS_WARM).code,
        "conditions": [_condition("Ready", _steady(NOTEBOOKS_WARM), 20_000.0)],
    }
    selector = {"matchLabels": {"karpenter.sh/nodepool": "notebooks"}}
    spec = {"nodes": {"selector": selector}, "mode": "Headroom", "size": 2, "maxSize": 12}
    return _named("notebooks", "kube-balloons", 12 * 86_400.0, spec=spec, status=status)


def _lever(name: str, state: LeverState, why: Because) -> Object:
    return {"name": name, "state": state.value, "because": why.code, "message": why.sentence}


def _throttle() -> Object:
    status = {
        "observedGeneration": 1,
        "phase": "Avoid",
        "window": LEARNED_WINDOW,
        "pacePerMinute": round(60 * LEARNED_WINDOW / JOIN_S),
        "inFlight": JOINING,
        "joining": JOINING,
        "waiting": 0,
        "because": NO_DEMAND.code,
        "message": NO_DEMAND.sentence,
        "conditions": [_condition("Ready", NO_DEMAND)],
        "levers": [_lever(f"NodePool/{POOL}", LeverState.HANDED_BACK, because(LeverReason.NOTHING_WAITS))],
        "servers": [{"name": f"10.0.0.{host}", "state": "Fresh"} for host in (11, 12, 13)],
        "learned": {
            "window": LEARNED_WINDOW,
            "windowProven": True,
            "baselineMicroseconds": 3_200,
            "joinMilliseconds": round(JOIN_S * 1e3),
            "bootMilliseconds": round(BOOT_S * 1e3),
            "loadPerJoinMillionths": 800,
            "learnedAt": _ago(66_000.0),
        },
    }
    spec = {"nodes": {"matchLabels": LABELS}, "levers": {"nodePoolLimits": {"names": [POOL]}}}
    return _named("default", age_s=12 * 86_400.0, spec=spec, status=status)


def _events() -> Iterator[Object]:
    """What is not older than Events become: the batch, what the pool did about it, and the machines bought since."""
    pool = {"kind": "BalloonPool", "name": POOL, "namespace": "kube-balloons"}
    yield _told(pool, BURST_S - 1.0, because(Reason.BURST_RELEASE, released=WARM, waiting=WARM))
    yield _told(pool, BURST_S - 6.0, because(Reason.GAVE_WAY, busy=BUSY))
    yield _told(pool, 1_080.0, because(Reason.WARMING, warm=0, target=WARM, pending=WARM))
    yield _told(pool, WARM_AGAIN_S, _steady(WARM))
    throttle = {"kind": "JoinThrottle", "name": "default"}
    bought_s = _age_s(BUSY + WARM + JOINING - 1) + _boot_s(BUSY + WARM + JOINING - 1)
    yield _told(throttle, bought_s + 3.0, because(ThrottleReason.REMEMBERED, window=LEARNED_WINDOW))
    yield _told(throttle, bought_s - 5.0, NO_DEMAND)
    for number in range(BUSY, BUSY + JOINING):
        age_s = _age_s(number + WARM) + _boot_s(number + WARM)
        pod = {"kind": "Pod", "name": f"train-{number}", "namespace": "jobs"}
        yield _event(pod, age_s, "Nominated", f"Pod should schedule on: nodeclaim/gpu-{number + WARM:05d}", "karpenter")


def _told(about: dict[str, str], age_s: float, why: Because) -> Object:
    by = BALLOONS if about["kind"] == "BalloonPool" else THROTTLER
    return _event(about, age_s, why.code, why.sentence, by)


def _event(about: dict[str, str], age_s: float, reason: str, note: str, by: str) -> Object:
    namespace = about.get("namespace", "default")
    event = _named(f"{about['name']}-{reason.lower()}", namespace, age_s)
    at = (NOW - timedelta(seconds=age_s)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    told = {"eventTime": at, "reportingController": by, "reason": reason, "note": note, "type": "Normal"}
    return {**event, **told, "regarding": about}
