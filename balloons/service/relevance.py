"""How soon a change calls for a decision. Pure.

Most events of a large cluster change nothing that a decision reads; waiting work and users' wishes are urgent; all
else may wait to be looked at together.
"""

import msgspec

from balloons.view.snapshot import Deployment, FailedBalloon
from throttler.kube.metadata import Metadata
from throttler.kube.node import Node, is_leaving
from throttler.kube.pod import Pod, PodKind

URGENT_S = 0.05
"""Long enough to catch a gang of pods that arrives together."""
NODE_S = 0.3
"""Nodes change seldom, pods of large clusters all the time: what has just become Ready is counted within a second."""
SOON_S = 1.0


def node_within_s(before: Node | None, after: Node | None) -> float | None:
    """For a node; None when only its version changed (a heartbeat).

    Karpenter gathers its orders for a second: from then on it buys for what still runs on a node that it removes.
    """
    if before is None or after is None:
        return NODE_S
    if is_leaving(after) and not is_leaving(before):
        return URGENT_S
    is_same = msgspec.structs.replace(after, resource_version=before.resource_version) == before
    return None if is_same else NODE_S


def pod_within_s(before: Pod | None, after: Pod | None) -> float | None:
    """For a pod; urgent when the scheduler has found no room for real work, soon when it may not look at it yet."""
    if after is not None and _is_refused(after) and not (before is not None and _is_refused(before)):
        return URGENT_S
    if before is None or after is None:
        known = after or before
        return None if known is not None and _is_queued(known) and not _is_gated(known) else SOON_S
    is_same = msgspec.structs.replace(after, resource_version=before.resource_version) == before
    return None if is_same else SOON_S


def failure_within_s(before: FailedBalloon | None, after: FailedBalloon | None) -> float | None:
    """For a balloon that failed: the ReplicaSet makes the next one meanwhile; None when it merely goes."""
    return NODE_S if before is None and after is not None else None


def pool_within_s(before: Metadata | None, after: Metadata | None) -> float | None:
    """For a pool; None when only its status changed."""
    if before is None or after is None:
        return URGENT_S
    return URGENT_S if before.generation != after.generation or before.uid != after.uid else None


def deployment_within_s(before: Deployment | None, after: Deployment | None) -> float | None:
    """For a balloon Deployment; None when only its status changed, but for why its pods are refused."""
    if before is None or after is None:
        return SOON_S
    is_same = before.spec == after.spec and before.metadata.labels == after.metadata.labels
    return None if is_same and before.refusal == after.refusal else SOON_S


def _is_refused(pod: Pod) -> bool:
    how = pod.scheduling
    return pod.kind is PodKind.WORK and how is not None and how.is_tried and not pod.is_terminating


def _is_gated(pod: Pod) -> bool:
    return pod.scheduling is not None and pod.scheduling.is_gated


def _is_queued(pod: Pod) -> bool:
    """Whether the pod still is in the scheduler's hands: it may well be bound in a moment."""
    return pod.kind is PodKind.WORK and not pod.node and not _is_refused(pod)
