"""The Kubernetes objects that tell Karpenter what to do, and the NodeClaims by which it orders machines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lab.cloud import MachineOrder
from lab.cloud.karpenter.settings import InstanceType, NodePoolSettings

NODE_CLASS = "lab"
NODE_CLASS_PATH = f"/apis/karpenter.kwok.sh/v1alpha1/kwoknodeclasses/{NODE_CLASS}"
NODE_POOLS_PATH = "/apis/karpenter.sh/v1/nodepools"
NODE_CLAIMS_PATH = "/apis/karpenter.sh/v1/nodeclaims"

# The provider would create the Node itself after this time. Here the machine does that, as on a real cloud,
# so the provider's own attempt is put off to a time that no run reaches.
NEVER = "8760h"


def node_class() -> dict[str, Any]:
    """Return the node class of all pools."""
    return {
        "apiVersion": "karpenter.kwok.sh/v1alpha1",
        "kind": "KWOKNodeClass",
        "metadata": {"name": NODE_CLASS},
        "spec": {"nodeRegistrationDelay": NEVER},
    }


def node_pool(pool: NodePoolSettings) -> dict[str, Any]:
    """Return the NodePool that the settings describe."""
    spec: dict[str, Any] = {"disruption": _disruption(pool), "template": _template(pool)}
    if pool.limits:
        spec["limits"] = dict(pool.limits)
    if pool.weight is not None:
        spec["weight"] = pool.weight
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": pool.name},
        "spec": spec,
    }


def _disruption(pool: NodePoolSettings) -> dict[str, Any]:
    after = "Never" if pool.consolidate_after_s is None else f"{pool.consolidate_after_s}s"
    return {
        "consolidationPolicy": pool.consolidation_policy,
        "consolidateAfter": after,
        "budgets": [{"nodes": pool.budget}],
    }


def _template(pool: NodePoolSettings) -> dict[str, Any]:
    group, kind = "karpenter.kwok.sh", "KWOKNodeClass"
    spec = {
        "expireAfter": "Never",
        "nodeClassRef": {"group": group, "kind": kind, "name": NODE_CLASS},
        "requirements": _requirements(pool),
        "taints": [dict(taint) for taint in pool.taints],
        "startupTaints": [dict(taint) for taint in pool.startup_taints],
    }
    return {"metadata": {"labels": dict(pool.labels)}, "spec": spec}


def _requirements(pool: NodePoolSettings) -> list[dict[str, Any]]:
    terms = [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}]
    if pool.instance_types:
        key = "node.kubernetes.io/instance-type"
        terms.append({"key": key, "operator": "In", "values": list(pool.instance_types)})
    return terms


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
        device_plugin=instance_type.device_plugin,
    )
