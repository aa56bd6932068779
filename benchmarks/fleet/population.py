"""The objects of a fleet: nodes in pools, the pods that fill them, and the BalloonPools. Values, no I/O.

Pods are as large as real ones (4 kB of JSON), because that is what lists and watches of them cost.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks.paper_cluster import ALLOCATABLE
from lab.cloud.machines import PaperNode

FILLER = "example.com/filler"
"""The label of pods that only fill nodes; whoever benchmarks looks at the others."""
NAMESPACE = "fleet"
POOL_KEY = "example.com/fleet-pool"
DAEMONS = 8
"""Pods of DaemonSets on every node; the others are work, on busy nodes only."""
GANG = 100
IDLE = 4
"""Nodes without work in each pool but the first one, which has as many as a gang takes."""
_KUBELET_LABELS = {"beta.kubernetes.io/os": "linux", "beta.kubernetes.io/arch": "amd64"}
"""Without them the controller manager would put them on, twenty nodes a second."""
_ENVIRONMENT = [{"name": f"SETTING_{number}", "value": "x" * 30} for number in range(12)]
_FIELDS: dict[str, Any] = {f"f:field-{number}": {"f:value": {}} for number in range(30)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """How large it is. Raises ValueError where no such fleet can be made."""

    nodes: int
    pods: int
    pools: int

    def __post_init__(self) -> None:
        if not 1 <= self.pools <= self.nodes // (IDLE + 1):
            raise ValueError(f"{self.pools} pools of {self.nodes} nodes: a pool needs {IDLE + 1} nodes")
        if self.pods < self.nodes * DAEMONS + self.busy or self.pods > self.nodes * DAEMONS + self.busy * 60:
            raise ValueError(f"{self.pods} pods on {self.nodes} nodes: {DAEMONS + 1} to 60 a node are possible")

    @property
    def gang(self) -> int:
        """Pods of a gang: the idle nodes of the first pool."""
        return min(GANG, self.nodes // self.pools)

    @property
    def idle(self) -> int:
        """Nodes without work, which balloons hold."""
        return self.gang + (self.pools - 1) * IDLE

    @property
    def busy(self) -> int:
        """Nodes with work."""
        return self.nodes - self.idle

    def pool_of(self, number: int) -> str:
        """The pool of the node of this number, those that come later included."""
        return f"pool-{number % self.pools:02}"

    def is_idle(self, number: int) -> bool:
        """Whether no work runs on the node of this number."""
        return number // self.pools < (self.gang if number % self.pools == 0 else IDLE)

    def node(self, number: int) -> PaperNode:
        """One node."""
        labels = {POOL_KEY: self.pool_of(number), "node.kubernetes.io/instance-type": "p5.48xlarge", **_KUBELET_LABELS}
        return PaperNode(name=f"fleet-{number:05}", labels=labels, allocatable=ALLOCATABLE)

    def balloon_pools(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """The name and the spec of each BalloonPool; its size is the nodes without work that there are at first."""
        for number in range(self.pools):
            name = self.pool_of(number)
            size = self.gang if number == 0 else IDLE
            yield name, {"size": size, "nodes": {"selector": {"matchLabels": {POOL_KEY: name}}}}

    def filler(self, created: str) -> Iterator[dict[str, Any]]:
        """All pods that fill nodes, bound and Running; `created` is a timestamp."""
        busy = [number for number in range(self.nodes) if not self.is_idle(number)]
        work = self.pods - self.nodes * DAEMONS
        counter = iter(range(self.pods))
        for number in range(self.nodes):
            for daemon in range(DAEMONS):
                yield _pod(next(counter), self.node(number).name, created, f"agent-{daemon}")
        for turn in range(work):
            yield _pod(next(counter), self.node(busy[turn % len(busy)]).name, created)


def _pod(number: int, node: str, created: str, daemon_set: str = "") -> dict[str, Any]:
    name = f"{daemon_set or 'trainer'}-{number:06}"
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": NAMESPACE,
        "uid": f"{number:08x}-0000-4000-8000-{number:012x}",
        "creationTimestamp": created,
        "labels": {FILLER: "true", "app": daemon_set or "trainer", "controller-revision-hash": "6d4cf56db6"},
        "annotations": {"example.com/checksum": "x" * 64},
        "managedFields": [
            {"manager": manager, "operation": "Update", "apiVersion": "v1", "time": created, "fieldsType": "FieldsV1"}
            | {"fieldsV1": {"f:metadata": _FIELDS}}
            for manager in ("kube-controller-manager", "kubelet")
        ],
    }
    requests = {"cpu": "100m", "memory": "256Mi"}
    if daemon_set:
        owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": daemon_set, "uid": daemon_set}
        metadata["ownerReferences"] = [{**owner, "controller": True, "blockOwnerDeletion": True}]
    else:
        requests = {"cpu": "2", "memory": "20Gi"}
    container = {
        "name": "main",
        "image": "registry.example.com/fleet/main:1.2.3",
        "imagePullPolicy": "IfNotPresent",
        "env": _ENVIRONMENT,
        "resources": {"requests": requests},
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "volumeMounts": [{"name": "token", "mountPath": "/var/run/secrets/token", "readOnly": True}],
    }
    source = {"serviceAccountToken": {"path": "token", "expirationSeconds": 3607}}
    spec = {
        "nodeName": node,
        "containers": [container],
        "volumes": [{"name": "token", "projected": {"sources": [source], "defaultMode": 420}}],
        "restartPolicy": "Always",
        "dnsPolicy": "ClusterFirst",
        "serviceAccountName": "default",
        "securityContext": {},
        "schedulerName": "default-scheduler",
        "priority": 0,
        "terminationGracePeriodSeconds": 30,
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": spec,
        "status": _running(container["name"], container["image"], created),
    }


def _running(name: Any, image: Any, since: str) -> dict[str, Any]:
    kinds = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    state = {"running": {"startedAt": since}}
    return {
        "phase": "Running",
        "qosClass": "Burstable",
        "hostIP": "10.0.0.1",
        "podIP": "10.0.0.2",
        "startTime": since,
        "conditions": [{"type": kind, "status": "True", "lastTransitionTime": since} for kind in kinds],
        "containerStatuses": [
            {
                "name": name,
                "image": image,
                "imageID": f"{image}@sha256:{'0' * 64}",
                "containerID": f"containerd://{'0' * 64}",
                "ready": True,
                "started": True,
                "restartCount": 0,
                "lastState": {},
                "state": state,
            }
        ],
    }
