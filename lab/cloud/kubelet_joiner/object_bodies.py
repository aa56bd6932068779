"""The objects that a node writes about itself. Functions of values: `at` is a timestamp as the API writes it."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from lab.cloud.kubelet_joiner.settings import LEASE_DURATION_S, JoinerSettings, split_taint


def timestamp() -> str:
    """Return the present, to the second."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_timestamp() -> str:
    """Return the present, to the microsecond (leases)."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


NODES = "/api/v1/nodes"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
CSI_NODES = "/apis/storage.k8s.io/v1/csinodes"
KUBELET_VERSION = "v1.36.3"
ADDRESS = "192.0.2.2"
"""Of every joiner, as of every hollow node; from the range for documentation."""
PRESSURES = (
    ("MemoryPressure", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
)
MIGRATED = "storage.alpha.kubernetes.io/migrated-plugins"
MIGRATED_PLUGINS = ",".join(
    f"kubernetes.io/{plugin}"
    for plugin in (
        "aws-ebs", "azure-disk", "azure-file", "cinder", "gce-pd", "portworx-volume", "vsphere-volume",
    )
)  # fmt: skip


def labels(settings: JoinerSettings) -> dict[str, str]:
    """Return the labels of the node: the usual ones and those asked for."""
    usual = {f"{domain}kubernetes.io/{key}": value for key, value in _PLATFORM for domain in ("", "beta.")}
    return {**usual, "kubernetes.io/hostname": settings.name, **settings.labels}


_PLATFORM = (("arch", "amd64"), ("os", "linux"))


def node(settings: JoinerSettings, at: str) -> bytes:
    """Return the Node to register, not Ready yet."""
    taints = [split_taint(taint) for taint in settings.taints]
    body: dict[str, Any] = {
        "kind": "Node",
        "apiVersion": "v1",
        "metadata": {"name": settings.name, "labels": labels(settings)},
        "spec": {"providerID": f"kubemark://{settings.name}", **({"taints": taints} if taints else {})},
        "status": _status(settings, at),
    }
    return msgspec.json.encode(body)


def taken_over(settings: JoinerSettings, at: str) -> bytes:
    """Return the patch of a Node that somebody (Karpenter) created before its machine came: labels and status."""
    return msgspec.json.encode({"metadata": {"labels": labels(settings)}, "status": _status(settings, at)})


def ready(at: str) -> bytes:
    """Return the patch that says Ready for the first time."""
    condition = {
        **_heartbeat("Ready", at),
        "lastTransitionTime": at,
        "status": "True",
        "reason": "KubeletReady",
        "message": "kubelet is posting ready status",
    }
    return _conditions([*_pressure_heartbeats(at), condition])


def alive(
    at: str, new_images: tuple[str, ...] = (), new_devices: Mapping[str, int | str] = MappingProxyType({})
) -> bytes:
    """Return the patch of a later report.

    `new_images` is the whole list of images when it changed, `new_devices` what a device plugin has brought.
    """
    changed: dict[str, Any] = {"images": [{"names": [image]} for image in new_images]} if new_images else {}
    if new_devices:
        amounts = {resource: str(amount) for resource, amount in new_devices.items()}
        changed |= {"capacity": amounts, "allocatable": amounts}
    return _conditions([*_pressure_heartbeats(at), _heartbeat("Ready", at)], **changed)


def lease(name: str, uid: str, at: str, resource_version: str | None = None) -> bytes:
    """Return the node's Lease: to create it without `resource_version`, to renew it with."""
    owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid}
    place = {} if resource_version is None else {"resourceVersion": resource_version}
    meta = {"name": name, "namespace": "kube-node-lease", "ownerReferences": [owner], **place}
    spec = {"holderIdentity": name, "leaseDurationSeconds": LEASE_DURATION_S, "renewTime": at}
    body = {"kind": "Lease", "apiVersion": "coordination.k8s.io/v1", "metadata": meta, "spec": spec}
    return msgspec.json.encode(body)


def csi_node(name: str, uid: str) -> bytes:
    """Return the CSINode of a node without CSI drivers."""
    owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid}
    meta = {"name": name, "annotations": {MIGRATED: MIGRATED_PLUGINS}, "ownerReferences": [owner]}
    body = {"kind": "CSINode", "apiVersion": "storage.k8s.io/v1", "metadata": meta, "spec": {"drivers": []}}
    return msgspec.json.encode(body)


def _status(settings: JoinerSettings, at: str) -> dict[str, Any]:
    devices = {} if settings.device_plugin else settings.extended_resources
    amounts = {
        "cpu": settings.cpu,
        "ephemeral-storage": "0",
        "memory": settings.memory,
        "pods": str(settings.max_pods),
        **{resource: str(amount) for resource, amount in devices.items()},
    }
    not_ready = {"status": "False", "reason": "KubeletNotReady", "message": "CSINode is not yet initialized"}
    healthy = [
        {**_heartbeat(kind, at), "lastTransitionTime": at, "status": "False", "reason": reason, "message": message}
        for kind, reason, message in PRESSURES
    ]
    return {
        "capacity": amounts,
        "allocatable": amounts,
        "conditions": [*healthy, {**_heartbeat("Ready", at), "lastTransitionTime": at, **not_ready}],
        "addresses": [{"type": "InternalIP", "address": ADDRESS}, {"type": "Hostname", "address": settings.name}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 0}},
        "nodeInfo": _NODE_INFO,
    }


_NODE_INFO = {
    "machineID": "",
    "systemUUID": "",
    "bootID": "",
    "kernelVersion": "",
    "osImage": "lab joiner",
    "containerRuntimeVersion": "none://0",
    "kubeletVersion": KUBELET_VERSION,
    "kubeProxyVersion": "",
    "operatingSystem": "linux",
    "architecture": "amd64",
}


def _heartbeat(kind: str, at: str) -> dict[str, str]:
    return {"type": kind, "lastHeartbeatTime": at}


def _pressure_heartbeats(at: str) -> list[dict[str, str]]:
    return [_heartbeat(kind, at) for kind, _, _ in PRESSURES]


def _conditions(conditions: list[dict[str, str]], **more: Any) -> bytes:
    order = [{"type": condition["type"]} for condition in conditions]
    return msgspec.json.encode({"status": {"$setElementOrder/conditions": order, "conditions": conditions, **more}})
