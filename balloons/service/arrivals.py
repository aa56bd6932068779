"""Whether real work found a node or had to wait for one: the warm-hit ratio is counted from this. Pure."""

import enum

from throttler.kube.node import Node
from throttler.kube.pod import Pod, PodKind


class Found(enum.StrEnum):
    """What a pod found: the label of pool_bound_pods_total."""

    WARM = "warm"
    """The node was there before the pod."""
    COLD = "cold"
    """The pod was there first, and waited for the node."""


def found_by(before: Pod | None, after: Pod | None, node: Node | None) -> Found | None:
    """What this event of a pod tells, if it is the binding of real work; `node` is where it went.

    Only a pod that was seen to wait counts: one that is bound when it is first seen may have been so for months.
    """
    if before is None or after is None or node is None or before.node or not after.node:
        return None
    if after.kind is not PodKind.WORK:
        return None
    return Found.WARM if node.created_s <= after.created_s else Found.COLD
