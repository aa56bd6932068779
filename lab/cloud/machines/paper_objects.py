"""The objects of paper nodes and of the pods on them, as a kubelet would write them: values, no I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

CALM_CONDITIONS = ("MemoryPressure", "DiskPressure", "PIDPressure")
DEFAULT_ALLOCATABLE = {"cpu": "8", "memory": "32Gi", "pods": "110", "ephemeral-storage": "100Gi"}


@dataclass(frozen=True, kw_only=True)
class PaperNode:
    """A node that exists only as an object. `taints` are as in the API: mappings with key, value and effect.

    `capacity` is what the machine has in all; None stands for the allocatable.
    """

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[Mapping[str, str]] = ()
    allocatable: Mapping[str, str] = field(default_factory=lambda: dict(DEFAULT_ALLOCATABLE))
    capacity: Mapping[str, str] | None = None


class PodMetadata(msgspec.Struct, frozen=True, rename="camel"):
    """What the paper kubelet reads of a pod's metadata."""

    name: str
    namespace: str
    uid: str
    deletion_timestamp: str | None = None


class PodContainer(msgspec.Struct, frozen=True):
    """A container of a pod's spec."""

    name: str
    image: str = ""


class PodSpec(msgspec.Struct, frozen=True, rename="camel"):
    """What the paper kubelet reads of a pod's spec."""

    node_name: str = ""
    containers: tuple[PodContainer, ...] = ()


class PodStatus(msgspec.Struct, frozen=True):
    """What the paper kubelet reads of a pod's status."""

    phase: str = "Pending"


class Pod(msgspec.Struct, frozen=True):
    """The part of a Pod that a paper kubelet needs."""

    metadata: PodMetadata
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def path(self) -> str:
        """Its address in the API."""
        return f"/api/v1/namespaces/{self.metadata.namespace}/pods/{self.metadata.name}"


class ListMetadata(msgspec.Struct, frozen=True, rename="camel"):
    """The resource version of a list or of a bookmark; an error has none."""

    resource_version: str | None = None


class PodList(msgspec.Struct, frozen=True):
    """A list of pods."""

    metadata: ListMetadata
    items: tuple[Pod, ...]


def node_object(node: PaperNode, timestamp: str) -> dict[str, Any]:
    """Return the Node to create, Ready from the start."""
    labels = {
        "kubernetes.io/hostname": node.name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        **node.labels,
    }
    status = {
        "capacity": dict(node.capacity or node.allocatable),
        "allocatable": dict(node.allocatable),
        "conditions": node_conditions(is_ready=True, timestamp=timestamp),
        "nodeInfo": {"kubeletVersion": "v1.36.3", "operatingSystem": "linux", "architecture": "amd64"},
    }
    spec = {"taints": [dict(taint) for taint in node.taints], "providerID": f"paper://{node.name}"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": node.name, "labels": labels},
        "spec": spec,
        "status": status,
    }


def node_conditions(*, is_ready: bool, timestamp: str) -> list[dict[str, str]]:
    """Return the conditions that a kubelet reports."""
    calm = [_condition(kind, "False", f"KubeletHasNo{kind}", timestamp) for kind in CALM_CONDITIONS]
    reason = "KubeletReady" if is_ready else "KubeletNotReady"
    return [*calm, _condition("Ready", str(is_ready), reason, timestamp)]


def lease_object(name: str, timestamp: str) -> dict[str, Any]:
    """Return the Lease by which a node shows that it is alive."""
    spec = {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": timestamp}
    return {"metadata": {"name": name, "namespace": "kube-node-lease"}, "spec": spec}


def running_status(pod: Pod, timestamp: str) -> dict[str, Any]:
    """Return the status patch that makes a pod Running and Ready."""
    kinds = ("Initialized", "Ready", "ContainersReady", "PodReadyToStartContainers")
    conditions = [{"type": kind, "status": "True", "lastTransitionTime": timestamp} for kind in kinds]
    containers = [
        {
            "name": container.name,
            "image": container.image,
            "imageID": "",
            "ready": True,
            "started": True,
            "restartCount": 0,
            "state": {"running": {"startedAt": timestamp}},
        }
        for container in pod.spec.containers
    ]
    status = {
        "phase": "Running",
        "startTime": timestamp,
        "conditions": conditions,
        "containerStatuses": containers,
    }
    return {"metadata": {"uid": pod.metadata.uid}, "status": status}


def failed_status(pod: Pod, reason: str) -> dict[str, Any]:
    """Return the status patch with which a kubelet refuses a pod."""
    message = f"Pod was rejected: {reason}"
    return {"metadata": {"uid": pod.metadata.uid}, "status": {"phase": "Failed", "reason": reason, "message": message}}


def final_delete(pod: Pod) -> dict[str, Any]:
    """Return the options with which a kubelet removes a pod whose containers have ended."""
    return {"gracePeriodSeconds": 0, "preconditions": {"uid": pod.metadata.uid}}


def _condition(kind: str, status: str, reason: str, timestamp: str) -> dict[str, str]:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": "this node exists on paper only",
        "lastHeartbeatTime": timestamp,
        "lastTransitionTime": timestamp,
    }
