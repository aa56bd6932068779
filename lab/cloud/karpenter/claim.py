"""Read a NodeClaim: which machine did Karpenter order, and has it been launched?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lab.cloud import MachineOrder
from lab.cloud.karpenter.instance_types import InstanceType

INSTANCE_TYPE_LABEL = "node.kubernetes.io/instance-type"
# Karpenter expects every kubelet of its machines to register with this taint and removes it once it has copied
# the NodeClaim's labels and taints; without it, pods could start before the node is complete.
UNREGISTERED = {"key": "karpenter.sh/unregistered", "effect": "NoExecute"}


def is_launched(claim: Mapping[str, Any]) -> bool:
    """Return whether the provider has accepted the order, so that a machine is on its way."""
    return bool(claim.get("status", {}).get("providerID")) and not claim["metadata"].get("deletionTimestamp")


def is_leaving(claim: Mapping[str, Any]) -> bool:
    """Return whether Karpenter is removing it: draining, if its Node exists."""
    return bool(claim["metadata"].get("deletionTimestamp"))


def instance_type_name(claim: Mapping[str, Any]) -> str:
    """Return the name of the instance type that the provider chose for a launched claim."""
    return str(claim["metadata"]["labels"][INSTANCE_TYPE_LABEL])


def order_of(claim: Mapping[str, Any], instance_type: InstanceType) -> MachineOrder:
    """Return the machine to make for a launched claim: labels and taints as a real provider passes them on.

    Its Node is called like the claim, not like the provider's id: shorter to read, and that id is too long for
    the certificate of a kubelet. Karpenter matches Node and claim by the provider id.
    """
    spec = claim["spec"]
    return MachineOrder(
        name=claim["metadata"]["name"],
        provider_id=claim["status"]["providerID"],
        labels=claim["metadata"]["labels"],
        taints=(UNREGISTERED, *spec.get("taints", ()), *spec.get("startupTaints", ())),
        capacity=instance_type.capacity,
        allocatable=instance_type.allocatable,
    )
