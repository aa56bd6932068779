"""Synthetic nodes and pods as the watch caches would hold them: made as JSON, read by the real decoder.

The JSON names only the fields that are decoded (the others cost time on the wire and no memory afterwards; what they
cost in time is measured by `benchmarks.decode`).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from throttler.kube.node import Node, NodeWire, Shared, node_from_wire
from throttler.kube.pod import MANAGED_BY, POOL_LABEL, SHAPE_LABEL, Pod, PodWire, pod_from_wire

POOLS = ("gpu", "cpu")
NAMESPACE = "kube-balloons"
ZONES = ("eu-west-1a", "eu-west-1b", "eu-west-1c")
BUSY_EVERY = 10
"""Every tenth node runs work instead of a balloon."""
_MACHINES = {
    "gpu": (("p5.48xlarge", "191450m", "2063231Mi", "8"), ("p4d.24xlarge", "95690m", "1122011Mi", "8")),
    "cpu": (("m7i.16xlarge", "63770m", "252310Mi", ""), ("c7i.8xlarge", "31850m", "58622Mi", "")),
}
_CREATED = "2026-11-21T03:11:42Z"
_READY = [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]
_CALM = [{"type": kind, "status": "False"} for kind in ("MemoryPressure", "DiskPressure", "PIDPressure")]


@dataclass(frozen=True, slots=True)
class Place:
    """One machine: its number decides its pool, size, zone and whether it is busy."""

    number: int

    @property
    def name(self) -> str:
        """The node's name, as long as those of a cloud."""
        high, middle, low = self.number >> 16 & 255, self.number >> 8 & 255, self.number & 255
        return f"ip-10-{high}-{middle}-{low}.eu-west-1.compute.internal"

    @property
    def pool(self) -> str:
        """The name of the BalloonPool it belongs to."""
        return POOLS[self.number % len(POOLS)]

    @property
    def machine(self) -> tuple[str, str, str, str]:
        """Instance type, cores, memory and GPUs."""
        kinds = _MACHINES[self.pool]
        return kinds[self.number // 8 % len(kinds)]

    @property
    def is_busy(self) -> bool:
        """Whether real work runs on it."""
        return self.number // len(POOLS) % BUSY_EVERY == 3


@dataclass(slots=True)
class Reader:
    """Makes what caches hold of JSON, with one store of shared parts as the service has it."""

    shared: Shared = field(default_factory=Shared)
    nodes: msgspec.json.Decoder[NodeWire] = field(default_factory=lambda: msgspec.json.Decoder(NodeWire))
    pods: msgspec.json.Decoder[PodWire] = field(default_factory=lambda: msgspec.json.Decoder(PodWire))

    def node(self, written: dict[str, Any]) -> Node:
        """The node as caches keep it."""
        return node_from_wire(self.nodes.decode(msgspec.json.encode(written)), self.shared)

    def pod(self, written: dict[str, Any]) -> Pod:
        """The pod as caches keep it."""
        return pod_from_wire(self.pods.decode(msgspec.json.encode(written)), self.shared)


def nodes(count: int, reader: Reader) -> Iterator[Node]:
    """All machines of the cluster, Ready and initialised."""
    return (reader.node(_node(Place(number))) for number in range(count))


def pods(count: int, reader: Reader) -> Iterator[Pod]:
    """On each machine a DaemonSet pod, and a balloon or work that has taken its place."""
    return (reader.pod(written) for number in range(count) for written in _pods_of(Place(number)))


def balloons(count: int, reader: Reader) -> Iterator[Pod]:
    """A balloon on every machine, whether busy or not."""
    return (reader.pod(_balloon(Place(number))) for number in range(count))


def waiting(count: int, reader: Reader) -> Iterator[Pod]:
    """Real pods of gangs that fit no node and wait."""
    return (reader.pod(_waiting(number)) for number in range(count))


def _pods_of(place: Place) -> Iterable[dict[str, Any]]:
    return _daemon(place), work_on(place, 0) if place.is_busy else _balloon(place)


def _node(place: Place) -> dict[str, Any]:
    instance_type, cpu, memory, gpus = place.machine
    family, _, size = instance_type.partition(".")
    zone = ZONES[place.number // 7 % len(ZONES)]
    labels = {
        "karpenter.k8s.aws/instance-category": family[0],
        "karpenter.k8s.aws/instance-family": family,
        "karpenter.k8s.aws/instance-generation": family[1],
        "karpenter.k8s.aws/instance-size": size,
        "karpenter.sh/capacity-type": "on-demand",
        "karpenter.sh/initialized": "true",
        "karpenter.sh/nodepool": f"team-{family}",
        "karpenter.sh/registered": "true",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": place.name,
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": instance_type,
        "pool": place.pool,
        "topology.kubernetes.io/region": "eu-west-1",
        "topology.kubernetes.io/zone": zone,
        "topology.k8s.aws/zone-id": f"euw1-az{ord(zone[-1]) - 96}",
    }
    sizes = {"cpu": cpu, "memory": memory, "pods": "110"} | ({"nvidia.com/gpu": gpus} if gpus else {})
    taints = [{"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"}] if gpus else []
    metadata = _metadata(place.name, f"0d{place.number:06x}", labels)
    return {
        "metadata": metadata,
        "spec": {"taints": taints},
        "status": {"allocatable": sizes, "conditions": [*_CALM, *_READY]},
    }


def _balloon(place: Place) -> dict[str, Any]:
    instance_type, cpu, memory, gpus = place.machine
    shape = instance_type.replace(".", "-") + ("-gpu" if gpus else "")
    requests = {"cpu": f"{int(cpu[:-1]) - 700}m", "memory": f"{int(memory[:-2]) - 1280}Mi"}
    requests |= {"nvidia.com/gpu": gpus} if gpus else {}
    labels = {POOL_LABEL: place.pool, SHAPE_LABEL: shape, **MANAGED_BY, "pod-template-hash": "6d4cf56db6"}
    metadata = _metadata(f"balloons-{place.pool}-{shape}-{place.number:05x}", f"0b{place.number:06x}", labels)
    return _pod(place, metadata, requests, "ReplicaSet", f"{place.pool}-{shape}-6d4cf56db6", priority=-10)


def _daemon(place: Place) -> dict[str, Any]:
    metadata = _metadata(f"node-agent-{place.number:05x}", f"0a{place.number:06x}", {"app": "node-agent"})
    return _pod(place, metadata, {"cpu": "500m", "memory": "1Gi"}, "DaemonSet", "node-agent", priority=2000001000)


def work_on(place: Place, run: int) -> dict[str, Any]:
    """A running pod of a training job that fills most of the machine."""
    _, cpu, memory, gpus = place.machine
    requests = {"cpu": f"{int(cpu[:-1]) - 2000}m", "memory": f"{int(memory[:-2]) - 4096}Mi"}
    requests |= {"nvidia.com/gpu": gpus} if gpus else {}
    metadata = _metadata(f"trainer-{run}-{place.number:05x}", f"0c{place.number:06x}{run:02x}", {"app": "trainer"})
    return _pod(place, metadata, requests, "Job", f"trainer-{run}", priority=0)


def _waiting(number: int) -> dict[str, Any]:
    labels = {"app": "trainer", "pod-group.scheduling.sigs.k8s.io": f"gang-{number // 64}"}
    metadata = _metadata(f"waiting-{number:05x}", f"0e{number:06x}", labels)
    spec = {
        "priority": 0,
        "nodeSelector": {"pool": "tpu"},
        "tolerations": [{"key": "google.com/tpu", "operator": "Exists", "effect": "NoSchedule"}],
        "containers": [{"resources": {"requests": {"cpu": "90", "memory": "500Gi", "nvidia.com/gpu": "8"}}}],
    }
    refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    return {"metadata": metadata, "spec": spec, "status": {"phase": "Pending", "conditions": [refused]}}


def _metadata(name: str, number: str, labels: dict[str, str]) -> dict[str, Any]:
    return {
        "name": name,
        "namespace": NAMESPACE,
        "uid": f"{number}-6d4c-4f56-9d61-2f5d3f1c7a10",
        "resourceVersion": f"81{int(number, 16) % 10**7}",
        "creationTimestamp": _CREATED,
        "labels": labels,
    }


def _pod(
    place: Place, metadata: dict[str, Any], requests: dict[str, str], kind: str, owner: str, *, priority: int
) -> dict[str, Any]:
    owned = {"kind": kind, "name": owner, "uid": f"uid-of-{owner}", "controller": True}
    spec = {"nodeName": place.name, "priority": priority, "containers": [{"resources": {"requests": requests}}]}
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    return {"metadata": {**metadata, "ownerReferences": [owned]}, "spec": spec, "status": status}
