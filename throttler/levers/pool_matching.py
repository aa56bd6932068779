"""Which NodePools may make a machine for a pod, in the order in which Karpenter tries them.

Karpenter takes the first pool in this order that a pod is compatible with, and a pool at its limit is passed over
within the same round (`addToNewNodeClaim`, Karpenter 1.15). So it matters which of the pools that may serve a pod has
room.
What cannot be judged from the objects counts as possible: the provider's instance types and the labels that it gives
are not in them.
"""

from collections.abc import Iterable, Sequence

from throttler.kube.karpenter import NodePool
from throttler.kube.node import KARPENTER_POOL_LABEL
from throttler.kube.pod import Scheduling
from throttler.kube.quantity import Resources
from throttler.kube.selectors import Requirement, meets, untolerated
from throttler.levers.sizes import ACCELERATORS

HOST_LABEL = "kubernetes.io/hostname"
PROVIDERS = (
    "kubernetes.io",
    "k8s.io",
    "karpenter.sh",
    "k8s.aws",
    "amazonaws.com",
    "aws.com",
    "azure.com",
    "google.com",
    "oraclecloud.com",
    "kwok.sh",
)
"""Domains of labels that a machine may carry although its pool does not name them: zone, type, architecture, ..."""
USERS_OWN = "node-restriction.kubernetes.io"
"""... but for this one, which is kept for labels of the cluster's administrators."""


def in_karpenters_order(pools: Iterable[NodePool]) -> list[NodePool]:
    """The heaviest first; of equal weight the one whose name comes later in the alphabet (Karpenter's own rule)."""
    by_name = sorted(pools, key=lambda pool: pool.metadata.name, reverse=True)
    return sorted(by_name, key=lambda pool: -(pool.spec.weight or 0))


def may_make(pool: NodePool, how: Scheduling) -> bool:
    """Whether the pool's taints, labels and requirements leave room for a machine that the pod may run on."""
    if untolerated(pool.spec.taints, how.tolerations) is not None:
        return False
    if not all(_may_meet(Requirement(key, "In", (value,)), pool) for key, value in how.node_selector.items()):
        return False
    return not how.node_terms or any(all(_may_meet(part, pool) for part in term) for term in how.node_terms)


def may_hold(sizes: Sequence[Resources], requests: Resources) -> bool:
    """Whether machines of the sizes seen so far have the accelerators that a pod asks for; a guess of yes before any.

    Other resources do not tell: a pool may have types of many sizes, of which only small ones were needed so far.
    """
    wanted = {name for name, milli in requests.items() if name in ACCELERATORS and milli > 0}
    return not sizes or any(wanted <= size.keys() for size in sizes)


def _may_meet(part: Requirement, pool: NodePool) -> bool:
    labels = {**pool.spec.labels, KARPENTER_POOL_LABEL: pool.metadata.name}
    if part.key in labels:
        return meets(part, labels)
    own = [each for each in pool.spec.requirements if each.key == part.key]
    if own:
        return _have_in_common(part, own)
    is_without = part.operator in ("NotIn", "DoesNotExist")
    return is_without or (part.key != HOST_LABEL and _may_come_with_the_machine(part.key))


def _have_in_common(part: Requirement, own: Sequence[Requirement]) -> bool:
    """Whether some value satisfies the pod's term and all of the pool's; yes where neither lists its values."""
    listed = next((each.values for each in (*own, part) if each.operator == "In"), None)
    if listed is None:
        return part.operator != "DoesNotExist" or any(each.operator == "DoesNotExist" for each in own)
    return any(all(meets(each, {part.key: value}) for each in (*own, part)) for value in listed)


def _may_come_with_the_machine(key: str) -> bool:
    domain = key.rpartition("/")[0]
    is_providers = any(domain == each or domain.endswith(f".{each}") for each in PROVIDERS)
    return is_providers and domain != USERS_OWN
