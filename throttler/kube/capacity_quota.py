"""cluster-autoscaler's CapacityQuota: an upper bound on the nodes that match a selector."""

from typing import Any

import msgspec

from throttler.kube.managed_fields import OwnedMetadata
from throttler.kube.selectors import LabelSelector

CAPACITY_QUOTA_KIND = "CapacityQuota"
CAPACITY_QUOTA_GROUP = "autoscaling.x-k8s.io"
CAPACITY_QUOTA_VERSIONS = ("v1beta1", "v1alpha1")
"""Known versions, newest first; their fields are the same (cluster-autoscaler 1.36 serves v1alpha1 only)."""
NODES = "nodes"
"""The limit on the number of nodes; cpu and memory are the others."""


class QuotaResources(msgspec.Struct, frozen=True):
    """Resource name -> whole, non-negative quantity as its author wrote it."""

    resources: dict[str, Any] = {}


class QuotaSpec(msgspec.Struct, frozen=True):
    """Without a selector it counts every node."""

    limits: QuotaResources = QuotaResources()
    selector: LabelSelector | None = None


class QuotaCondition(msgspec.Struct, frozen=True, rename="camel"):
    """`Valid`, in later versions with a prefix; enforced only while it is True."""

    type: str
    status: str
    message: str = ""
    observed_generation: int = 0


class QuotaStatus(msgspec.Struct, frozen=True):
    """Written by cluster-autoscaler whenever the object or a node changes; `used` counts registered nodes."""

    used: QuotaResources | None = None
    conditions: tuple[QuotaCondition, ...] | None = None


class CapacityQuota(msgspec.Struct, frozen=True):
    """The object as stored."""

    metadata: OwnedMetadata
    spec: QuotaSpec = QuotaSpec()
    status: QuotaStatus = QuotaStatus()
    api_version: str = msgspec.field(default=f"{CAPACITY_QUOTA_GROUP}/{CAPACITY_QUOTA_VERSIONS[0]}", name="apiVersion")

    @property
    def validity(self) -> QuotaCondition | None:
        """The condition that decides whether cluster-autoscaler enforces it; None before it looked."""
        known = self.status.conditions or ()
        return next((c for c in known if c.type.rpartition("/")[2].lower() == "valid"), None)
