"""How nodes came to be, read off their own timestamps: whatever else was lost, objects remember when they were made."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from balloons.cluster.reach import moment, name_of, part, parts, text
from throttler.kube.node import INSTANCE_TYPE_LABEL, KARPENTER_POOL_LABEL

LONGEST_S = 1800.0
"""A transition later than this after a node's birth is no part of it: nodes and pods restart."""

Plain = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Birth:
    """One node; times in seconds since the epoch, None where nothing tells."""

    name: str
    pool: str
    instance_type: str
    created_s: float
    """Registered."""
    asked_s: float | None = None
    """Its NodeClaim was made, or the pods that it was made for were."""
    is_asked_by_claim: bool = False
    ready_s: float | None = None
    usable_s: float | None = None
    """Ready, and the DaemonSet pods that came with it ready too."""
    own_s: float | None = None
    """Of its join, what was its own and no waiting for DaemonSet pods to be made."""

    @property
    def boot_s(self) -> float | None:
        """From being asked for to being registered."""
        return None if self.asked_s is None else self.created_s - self.asked_s

    @property
    def join_s(self) -> float | None:
        """From registered to usable."""
        return None if self.usable_s is None else self.usable_s - self.created_s


def births_of(nodes: Iterable[Plain], pods: Iterable[Plain], claims: Iterable[Plain]) -> tuple[Birth, ...]:
    """Every node's, the oldest first; plain objects as the API server has them."""
    by_node: dict[str, list[Plain]] = {}
    for pod in pods:
        by_node.setdefault(text(pod, "spec", "nodeName"), []).append(pod)
    claimed = {text(claim, "status", "nodeName"): claim for claim in claims}
    found = (_birth(node, by_node.get(name_of(node), []), claimed.get(name_of(node))) for node in nodes)
    return tuple(sorted((each for each in found if each), key=lambda each: (each.created_s, each.name)))


def _birth(node: Plain, pods: list[Plain], claim: Plain | None) -> Birth | None:
    created_s = _created_s(node)
    if created_s is None:
        return None
    labels = part(node, "metadata", "labels")
    ready_s = _since(_condition_s(node, "Ready"), created_s)
    daemons = [times for pod in pods if (times := _daemon_times(pod, created_s)) is not None]
    asked_s = _created_s(claim) if claim is not None else _asked_by_pods(pods, created_s)
    usable_s = None if ready_s is None else max([ready_s, *(done_s for _, done_s in daemons)])
    own_s = None if ready_s is None else max([ready_s - created_s, *(done_s - made_s for made_s, done_s in daemons)])
    return Birth(
        name=name_of(node),
        pool=text(labels, KARPENTER_POOL_LABEL),
        instance_type=text(labels, INSTANCE_TYPE_LABEL),
        created_s=created_s,
        asked_s=asked_s if asked_s is not None and created_s - LONGEST_S <= asked_s <= created_s else None,
        is_asked_by_claim=claim is not None,
        ready_s=ready_s,
        usable_s=usable_s,
        own_s=own_s,
    )


def _daemon_times(pod: Plain, born_s: float) -> tuple[float, float] | None:
    """(made, ready) of a DaemonSet pod that came with the node."""
    owners = parts(pod, "metadata", "ownerReferences")
    if not any(text(owner, "kind") == "DaemonSet" for owner in owners):
        return None
    made_s = _since(_created_s(pod), born_s)
    ready_s = _since(_condition_s(pod, "Ready"), born_s)
    return None if made_s is None or ready_s is None or ready_s < made_s else (made_s, ready_s)


def _asked_by_pods(pods: list[Plain], born_s: float) -> float | None:
    """The newest pod that runs on the node and is older than it: what the node was most likely made for."""
    found = [made_s for pod in pods if (made_s := _created_s(pod)) is not None and made_s < born_s]
    return max(found, default=None)


def _condition_s(value: Plain, type_: str) -> float | None:
    for condition in parts(value, "status", "conditions"):
        if text(condition, "type") == type_ and text(condition, "status") == "True":
            at = moment(condition, "lastTransitionTime")
            return at.timestamp() if at else None
    return None


def _created_s(value: Plain | None) -> float | None:
    at = moment(value, "metadata", "creationTimestamp")
    return at.timestamp() if at else None


def _since(at_s: float | None, born_s: float) -> float | None:
    """The time, if it can belong to the birth: times are whole seconds, so one second early is none."""
    return max(at_s, born_s) if at_s is not None and -1.0 <= at_s - born_s <= LONGEST_S else None
