"""Taints of nodes: which ones say that a node is joining or leaving, and which of them a pod tolerates. Pure."""

from collections.abc import Iterable, Sequence

import msgspec

NOT_READY_TAINT = "node.kubernetes.io/not-ready"
UNREACHABLE_TAINT = "node.kubernetes.io/unreachable"
"""By these two, with effect NoExecute, pods are evicted from a node that stopped being Ready, or that is silent."""
UNINITIALIZED_TAINT = "node.cloudprovider.kubernetes.io/uninitialized"
SWITCHED_OFF_TAINT = "node.cloudprovider.kubernetes.io/shutdown"
"""On a node whose machine is switched off in its cloud. With AKS' scale-down mode Deallocate that is how nodes wait."""
UNREGISTERED_TAINT = "karpenter.sh/unregistered"
"""On a Node of Karpenter's until it has matched the Node with its NodeClaim."""
JOINING_TAINTS = frozenset(
    {
        NOT_READY_TAINT,
        "node.kubernetes.io/network-unavailable",
        UNINITIALIZED_TAINT,
        UNREGISTERED_TAINT,
    }
)
"""Taints that others take off while a node joins."""
STARTUP_TAINT_PREFIX = "startup-taint.cluster-autoscaler.kubernetes.io/"
OLD_STARTUP_TAINT_PREFIX = "ignore-taint.cluster-autoscaler.kubernetes.io/"
"""Taints whose key begins with one of these are taken off while a node joins as well. cluster-autoscaler takes the
second, which is deprecated since 1.29, for the first."""
STATUS_TAINT_PREFIX = "status-taint.cluster-autoscaler.kubernetes.io/"
"""Taints that say how a node does; cluster-autoscaler expects none of them on a new node."""
READINESS_TAINT_PREFIX = "readiness.k8s.io/"
"""Taints of Kubernetes' Node Readiness Controller: until a rule of its user's is met, or as long as it is not."""
LEAVING_TAINTS = frozenset(
    {
        "karpenter.sh/disrupted",
        "ToBeDeletedByClusterAutoscaler",
        f"{OLD_STARTUP_TAINT_PREFIX}oke-impending-node-termination",
    }
)
"""Taints by which Karpenter and cluster-autoscaler (on Oracle's cloud, too) keep pods off a node that they are about to
remove."""


class Taint(msgspec.Struct, frozen=True):
    """A node's taint."""

    key: str
    effect: str
    value: str = ""


class Toleration(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What a pod accepts; an empty key with `Exists` accepts every taint."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


def is_joining_taint(taint: Taint) -> bool:
    """Whether somebody is still to take this taint off a new node."""
    is_startup = taint.key.startswith((STARTUP_TAINT_PREFIX, OLD_STARTUP_TAINT_PREFIX))
    return taint.key in JOINING_TAINTS or (is_startup and taint.key not in LEAVING_TAINTS)


def is_marked_to_leave(taints: Iterable[Taint]) -> bool:
    """Whether an autoscaler has tainted the node because it is about to remove it."""
    return any(taint.key in LEAVING_TAINTS for taint in taints)


def is_switched_off(taints: Iterable[Taint]) -> bool:
    """Whether the cloud says that the node's machine is off: it is registered, and nothing runs there."""
    return any(taint.key == SWITCHED_OFF_TAINT for taint in taints)


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Whether one toleration accepts one taint (k8s.io/api core/v1 ToleratesTaint)."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    # Lt and Gt (alpha in 1.35) count as "does not tolerate": whoever waits on it is left to the scheduler.
    is_equal = toleration.operator in ("", "Equal")
    return is_equal and bool(toleration.key) and toleration.value == taint.value


def untolerated(taints: Iterable[Taint], tolerations: Sequence[Toleration]) -> Taint | None:
    """The first taint that keeps a pod off the node; PreferNoSchedule keeps nobody off."""
    for taint in taints:
        if taint.effect != "PreferNoSchedule" and not any(tolerates(t, taint) for t in tolerations):
            return taint
    return None
