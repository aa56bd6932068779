"""What cluster-autoscaler says about its node groups, and what it obeys: the limit of a CapacityQuota on the nodes of a
selector, and the largest size of a MachineDeployment.

What it says is in the ConfigMap kube-system/cluster-autoscaler-status.

Since 1.30 the text is YAML with sorted keys, as Go's encoder writes it: block style, one scalar to a line. It is read
line by line, because a YAML parser takes seconds for the megabyte that a thousand node groups fill. The plain text of
older versions has no `nodeGroups` and reads as "unknown".

Cluster API's MachineDeployment is read as far as cluster-autoscaler's provider for it reads one. The provider takes it
for a node group whose largest size stands in an annotation. Without it, or where it is 0, the group is not scaled. One
below the smallest size, or that is no whole number, is an error of the provider (cluster-autoscaler 1.36,
cloudprovider/clusterapi).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar

import msgspec

from throttler.kube.metadata import KindNames, Metadata, ObjectKey, ObservedCondition, OwnedMetadata
from throttler.kube.selectors import LabelSelector

NAMESPACE, NAME, KEY = "kube-system", "cluster-autoscaler-status", "status"

_GROUPS = "nodeGroups"
_GROUP_NAME = (_GROUPS, "name")
_COUNTS = {
    (_GROUPS, "health", "cloudProviderTarget"): "target",
    (_GROUPS, "health", "nodeCounts", "registered", "total"): "registered",
    (_GROUPS, "health", "nodeCounts", "registered", "beingDeleted"): "being_deleted",
    (_GROUPS, "health", "nodeCounts", "longUnregistered"): "long_unregistered",
    (_GROUPS, "health", "maxSize"): "max_size",
}
_TIME = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(?:\.\d+)? ([+-]\d{4})\b", re.ASCII)
OLD_S = 120.0
"""It writes at the end of each scan: every 10 s by default, and a scan of a large cluster may take a minute."""


MOST_MACHINES = 100_000
"""No cluster is so large. Each machine that boots is remembered by itself, and a ConfigMap may say any number."""


class ConfigMapWire(msgspec.Struct, frozen=True):
    """What is decoded of a ConfigMap."""

    metadata: Metadata
    data: dict[str, str] = {}


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """One node group; its name is the cloud provider's (an ASG's name, a MIG's URL, ...)."""

    name: str = ""
    target: int = 0
    """Nodes that the group is to have."""
    registered: int = 0
    long_unregistered: int = 0
    """Machines that have not registered for longer than its limit (15 min): given up."""
    max_size: int | None = None
    """The most nodes that the group may have, as cluster-autoscaler reads it; None where it says nothing."""
    being_deleted: int = 0
    """Of the registered ones those whose machines are gone, or going: the target does not hold them any more."""

    @property
    def booting(self) -> int:
        """Asked for, and not yet registered when it looked."""
        return max(0, self.target - (self.registered - self.being_deleted) - self.long_unregistered)


@dataclass(frozen=True, slots=True)
class AutoscalerStatus:
    """The node groups, as cluster-autoscaler saw them at `at_s` (seconds since the epoch; 0: not said)."""

    groups: tuple[NodeGroup, ...] = ()
    at_s: float = 0.0

    def is_old(self, wall_s: float) -> bool:
        """Whether cluster-autoscaler has stopped looking."""
        return bool(self.at_s) and wall_s - self.at_s > OLD_S

    @property
    def booting(self) -> int:
        """Of all groups. A group that has more nodes than it is to have takes nothing off another's."""
        return min(MOST_MACHINES, sum(group.booting for group in self.groups))


def read_status(text: str) -> AutoscalerStatus | None:
    """The groups' counts; None where the text names no groups."""
    items: list[dict[str, int | str]] = []
    at_s, has_groups = 0.0, False
    for path, value, is_item in _scalars(text):
        has_groups = has_groups or path[0] == _GROUPS
        if path[0] == _GROUPS and ((is_item and len(path) == 2) or not items):
            items.append({})
        if path == ("time",):
            at_s = _epoch_s(value)
        elif path == _GROUP_NAME:
            items[-1]["name"] = value.strip("'\"")
        elif path in _COUNTS and value.isdecimal() and value.isascii() and len(value) < 10:
            items[-1][_COUNTS[path]] = int(value)
    groups = tuple(msgspec.convert(item, NodeGroup) for item in items if item)
    return AutoscalerStatus(groups, at_s) if has_groups else None


def _scalars(text: str) -> Iterator[tuple[tuple[str, ...], str, bool]]:
    """Every `key: value` line with the keys that lead to it, and whether it begins an item of a list.

    Items of a list share their list's path.
    """
    stack: list[tuple[int, str]] = []
    for line in text.splitlines():
        key, colon, value = line.lstrip(" -").partition(":")
        indent = len(line) - len(line.lstrip(" -"))
        while stack and stack[-1][0] >= indent:
            stack.pop()
        if colon and key:
            stack.append((indent, key))
            yield tuple(name for _, name in stack), value.strip(), line.lstrip(" ").startswith("-")


def _epoch_s(text: str) -> float:
    """`2026-11-21 07:16:26.33 +0000 UTC`, as Go prints it, in the zone of the autoscaler's host; to the second.

    0 when it cannot be read.
    """
    time = _TIME.match(text.strip("'\""))
    try:
        return datetime.strptime(" ".join(time.groups()), "%Y-%m-%d %H:%M:%S %z").timestamp() if time else 0.0
    except (ValueError, OverflowError):
        return 0.0


CAPACITY_QUOTA_KIND = "CapacityQuota"
CAPACITY_QUOTA_GROUP = "autoscaling.x-k8s.io"
CAPACITY_QUOTA_VERSIONS = ("v1beta1", "v1alpha1")
"""Known versions, newest first; their fields are the same (cluster-autoscaler 1.36 serves v1alpha1 only)."""
NODES = "nodes"
"""The limit on the number of nodes; cpu and memory are the others."""
TYPE_LABEL, VIRTUAL_KUBELET = "type", "virtual-kubelet"
"""Nodes with this label are in no quota's count (cluster-autoscaler's VirtualKubeletNodeFilter)."""


class QuotaResources(msgspec.Struct, frozen=True):
    """Resource name -> whole, non-negative quantity as its author wrote it."""

    resources: dict[str, Any] = {}


class QuotaSpec(msgspec.Struct, frozen=True):
    """Without a selector it counts every node."""

    limits: QuotaResources = QuotaResources()
    selector: LabelSelector | None = None


class QuotaStatus(msgspec.Struct, frozen=True):
    """Written by cluster-autoscaler whenever the object or a node changes; `used` counts registered nodes."""

    used: QuotaResources | None = None
    conditions: tuple[ObservedCondition, ...] | None = None
    """`Valid`, in later versions with a prefix: enforced only while it is True."""


class CapacityQuota(msgspec.Struct, frozen=True):
    """The object as stored."""

    NAMES: ClassVar[KindNames] = KindNames(
        CAPACITY_QUOTA_GROUP, CAPACITY_QUOTA_VERSIONS, "capacityquotas", CAPACITY_QUOTA_KIND
    )
    LIMITS: ClassVar[tuple[str, ...]] = ("spec", "limits", "resources")
    MAY_BE_OURS: ClassVar[bool] = True

    metadata: OwnedMetadata
    spec: QuotaSpec = QuotaSpec()
    status: QuotaStatus = QuotaStatus()
    api_version: str = msgspec.field(default=f"{CAPACITY_QUOTA_GROUP}/{CAPACITY_QUOTA_VERSIONS[0]}", name="apiVersion")

    @property
    def limits(self) -> dict[str, Any]:
        """The limits that stand."""
        return self.spec.limits.resources

    @property
    def validity(self) -> ObservedCondition | None:
        """The condition that decides whether cluster-autoscaler enforces it; None before it looked."""
        known = self.status.conditions or ()
        return next((c for c in known if c.type.rpartition("/")[2].lower() == "valid"), None)


MACHINE_DEPLOYMENT_KIND = "MachineDeployment"
MACHINE_DEPLOYMENT_VERSIONS = ("v1beta2", "v1beta1")
"""Known versions, newest first; what is read here is the same in both."""
MAX_SIZE = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size"
MIN_SIZE = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size"


class MachineDeploymentSpec(msgspec.Struct, frozen=True):
    """`replicas` is how many machines there are to be: cluster-autoscaler raises it to order one."""

    replicas: int = 0


class MachineDeploymentStatus(msgspec.Struct, frozen=True, rename="camel"):
    """Written by Cluster API; `ready_replicas` are machines whose Node is Ready."""

    ready_replicas: int = 0


class MachineDeployment(msgspec.Struct, frozen=True):
    """The object as stored."""

    NAMES: ClassVar[KindNames] = KindNames(
        "cluster.x-k8s.io",
        MACHINE_DEPLOYMENT_VERSIONS,
        "machinedeployments",
        MACHINE_DEPLOYMENT_KIND,
        is_namespaced=True,
    )
    LIMITS: ClassVar[tuple[str, ...]] = ("metadata", "annotations")
    MAY_BE_OURS: ClassVar[bool] = False

    metadata: OwnedMetadata
    spec: MachineDeploymentSpec = MachineDeploymentSpec()
    status: MachineDeploymentStatus = MachineDeploymentStatus()
    api_version: str = msgspec.field(default=f"cluster.x-k8s.io/{MACHINE_DEPLOYMENT_VERSIONS[0]}", name="apiVersion")

    @property
    def key(self) -> ObjectKey:
        """Namespace and name."""
        return ObjectKey(self.metadata.namespace, self.metadata.name)

    @property
    def limits(self) -> dict[str, Any]:
        """Of the annotations the largest size."""
        return {name: value for name, value in self.metadata.annotations.items() if name == MAX_SIZE}

    @property
    def min_size(self) -> int:
        """The smallest size that cluster-autoscaler leaves; 0 where it stands nowhere or is no whole number."""
        text = self.metadata.annotations.get(MIN_SIZE, "")
        return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
