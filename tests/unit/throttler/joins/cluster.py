"""Builders for small clusters whose joins are counted."""

from collections.abc import Iterable
from datetime import UTC, datetime
from functools import cache
from typing import Any

import msgspec

from throttler.joins.joins import JoinRules, JoinWorld
from throttler.kube.daemon_set import DaemonSet
from throttler.kube.karpenter import NodeClaim
from throttler.kube.metadata import ObjectKey, OwnerReference
from throttler.kube.node import KARPENTER_POOL_LABEL, Node
from throttler.kube.pod import Pod, PodKind, Scheduling
from throttler.kube.quantities_and_durations import Resources, parse_resources
from throttler.kube.selectors import LabelSelector
from throttler.kube.taints import UNREGISTERED_TAINT, Taint

WALL_S = 1_700_000_000.0
SIZE = parse_resources({"cpu": "8", "memory": "32Gi", "pods": "110"})
READY = frozenset({("Ready", "True")})
CNI, LOGS = (DaemonSet(ObjectKey("kube-system", name), f"uid-{name}") for name in ("cni", "logs"))
RULES = JoinRules(nodes=LabelSelector({"pool": "a"}))
UNREGISTERED = Taint(UNREGISTERED_TAINT, "NoExecute")


def a_node(name: str, *, age_s: float = 0.0, is_ready: bool = True, **changes: Any) -> Node:
    labels = {"pool": "a", **changes.pop("labels", {})}
    conditions = READY if is_ready else frozenset()
    node = Node(name, f"uid-{name}", "1", labels, SIZE, conditions=conditions, is_ready=is_ready)
    return msgspec.structs.replace(node, created_s=WALL_S - age_s, **changes)


MACHINES = (a_node("machine"),)
"""One usable node, of eight cores."""


def daemons_on(node: str, *sets: DaemonSet, is_running: bool = True) -> tuple[Pod, ...]:
    return tuple(
        Pod(
            ObjectKey("kube-system", f"{each.key.name}-{node}"),
            f"{each.uid}-{node}",
            "1",
            node,
            0,
            {},
            kind=PodKind.DAEMON,
            owner=OwnerReference("DaemonSet", each.key.name, each.uid, controller=True),
            is_running=is_running,
        )
        for each in sets
    )


def a_claim(name: str, *, age_s: float = 0.0, is_registered: bool = False, **labels: str) -> NodeClaim:
    made = datetime.fromtimestamp(WALL_S - age_s, UTC)
    metadata = {"name": name, "uid": f"uid-{name}", "labels": {"pool": "a", KARPENTER_POOL_LABEL: "a", **labels}}
    conditions = [{"type": "Launched", "status": "True"}]
    conditions += [{"type": "Registered", "status": "True"}] if is_registered else []
    claim = msgspec.convert({"metadata": metadata, "status": {"conditions": conditions}}, NodeClaim)
    return msgspec.structs.replace(claim, metadata=msgspec.structs.replace(claim.metadata, creation_timestamp=made))


@cache
def _asked(cpu: str) -> Resources:
    return parse_resources({"cpu": cpu, "pods": "1"})


_HOW = Scheduling(is_tried=True)


def pending(name: str, *, cpu: str = "6", owner: str = "batch", priority: int = 0, **how: Any) -> Pod:
    """Of equal pods the parts are the same, as in the caches: those of one owner are one crowd."""
    return Pod(
        ObjectKey("jobs", name),
        f"uid-{name}",
        "1",
        "",
        priority,
        _asked(cpu),
        owner=OwnerReference("ReplicaSet", owner, f"uid-{owner}", controller=True),
        scheduling=msgspec.structs.replace(_HOW, **how),
    )


def balloon_on(node: str, **changes: Any) -> Pod:
    """A balloon that runs there; seven of its eight cores are the balloon's."""
    pod = Pod(ObjectKey("balloons", f"b-{node}"), f"uid-b-{node}", "1", node, -10, _asked("7"), kind=PodKind.BALLOON)
    return msgspec.structs.replace(pod, is_running=True, **changes)


def a_world(*nodes: Node, pods: Iterable[Pod] = (), **more: Any) -> JoinWorld:
    """A cluster in which the DaemonSets cni and logs want a pod on every node."""
    by_node: dict[str, tuple[Pod, ...]] = {}
    for pod in pods:
        by_node[pod.node] = (*by_node.get(pod.node, ()), pod)
    given = {"daemon_sets": (CNI, LOGS), "wall_s": WALL_S, **more}
    return JoinWorld(nodes={node.name: node for node in nodes}, pods=by_node, **given)
