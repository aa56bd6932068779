"""Whether real work found a node, and how long it waits for one that a balloon leaves.

The warm-hit ratio is counted from the first of the two.

The clock starts when a balloon that the scheduler preempted, or that we released, is first seen to leave its node, and
stops when the first real pod is seen bound there. Both events come through the same watch, in order.
"""

import enum
from dataclasses import dataclass

from throttler.kube.node import Node
from throttler.kube.pod import Pod, PodKind

FORGET_S = 600.0
"""A node that nobody took for this long is no longer measured."""


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


class Leaving(enum.StrEnum):
    """Why a balloon gave way: the label of preemptions_total."""

    PREEMPTED = "preempted"
    RELEASED = "released"


@dataclass(frozen=True, slots=True)
class GaveWay:
    """A balloon left its node for real work."""

    how: Leaving


@dataclass(frozen=True, slots=True)
class Taken:
    """A real pod was bound on a node that a balloon had left `seconds` before."""

    seconds: float


class Preemptions:
    """Follows balloons that leave and pods that take their place; `now_s` is monotonic."""

    def __init__(self) -> None:
        self._left_s: dict[str, float] = {}
        self._released_s: dict[str, float] = {}

    def expect_release(self, uid: str, now_s: float) -> None:
        """We are about to delete this balloon for a waiting pod."""
        self._released_s[uid] = now_s

    def pod_changed(self, before: Pod | None, after: Pod | None, now_s: float) -> GaveWay | Taken | None:
        """What this event means, if anything."""
        if before is not None and before.kind is PodKind.BALLOON:
            return self._balloon_changed(before, after, now_s)
        if after is not None and after.kind is PodKind.WORK and after.node in self._left_s:
            is_bound_now = before is None or not before.node
            return Taken(now_s - self._left_s.pop(after.node)) if is_bound_now else None
        return None

    def prune(self, now_s: float) -> None:
        """Forget what nobody took."""
        self._left_s = {node: at_s for node, at_s in self._left_s.items() if now_s - at_s < FORGET_S}
        self._released_s = {uid: at_s for uid, at_s in self._released_s.items() if now_s - at_s < FORGET_S}

    def _balloon_changed(self, before: Pod, after: Pod | None, now_s: float) -> GaveWay | None:
        is_leaving = after is None or after.is_terminating
        if not before.node or before.is_terminating or before.is_finished or not is_leaving:
            return None
        if self._released_s.pop(before.uid, None) is not None:
            how = Leaving.RELEASED
        elif before.is_preempted or (after is not None and after.is_preempted):
            how = Leaving.PREEMPTED
        else:
            return None
        self._left_s[before.node] = now_s
        return GaveWay(how)
