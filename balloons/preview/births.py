"""How nodes came to be, read off their own timestamps: whatever else was lost, objects remember when they were made."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

import msgspec

from throttler.kube.node import INSTANCE_TYPE_LABEL, KARPENTER_POOL_LABEL

LONGEST_S = 1800.0
"""A transition later than this after a node's birth is no part of it: nodes and pods restart."""


class _Owner(msgspec.Struct, frozen=True, gc=False):
    kind: str = ""


class _Metadata(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    name: str = ""
    creation_timestamp: datetime | None = None
    labels: dict[str, str] = {}
    owner_references: tuple[_Owner, ...] = ()


class _Condition(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    type: str = ""
    status: str = ""
    last_transition_time: datetime | None = None


class _Spec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    node_name: str = ""


class _Status(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    node_name: str = ""
    conditions: tuple[_Condition, ...] = ()


class Dated(msgspec.Struct, frozen=True, gc=False):
    """A node, a pod or a NodeClaim, cut down to what its timestamps tell."""

    metadata: _Metadata = _Metadata()
    spec: _Spec = _Spec()
    status: _Status = _Status()

    @property
    def created_s(self) -> float | None:
        """When it was made."""
        at = self.metadata.creation_timestamp
        return at.timestamp() if at else None

    @property
    def ready_s(self) -> float | None:
        """Since when it has been Ready; None while it is not."""
        for condition in self.status.conditions:
            if condition.type == "Ready" and condition.status == "True":
                at = condition.last_transition_time
                return at.timestamp() if at else None
        return None

    @property
    def is_daemon(self) -> bool:
        """Whether a DaemonSet made it."""
        return any(owner.kind == "DaemonSet" for owner in self.metadata.owner_references)


_decoder = msgspec.json.Decoder(Dated)


def dated(texts: Iterable[bytes]) -> list[Dated]:
    """The objects of these JSON texts; what cannot be read is left out."""
    found = []
    for text in texts:
        try:
            found.append(_decoder.decode(text))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            continue
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Birth:
    """One node; times in seconds since the epoch, None where nothing tells."""

    name: str
    pool: str
    """Karpenter's NodePool; empty where it is not Karpenter's."""
    instance_type: str
    created_s: float
    """Registered."""
    asked_s: float | None = None
    """Its NodeClaim was made, or the pods that it was made for were."""
    is_asked_by_claim: bool = False
    wanted_s: float | None = None
    """The newest pod was made that runs on it and is older than its NodeClaim: what it was most likely made for."""
    ready_s: float | None = None
    usable_s: float | None = None
    """Ready, and the DaemonSet pods that came with it ready too."""
    own_s: float | None = None
    """Of its join, what was its own and no waiting for DaemonSet pods to be made."""

    @property
    def reaction_s(self) -> float | None:
        """From pods that wait to the machine that is asked for; only NodeClaims tell."""
        return None if self.asked_s is None or self.wanted_s is None else self.asked_s - self.wanted_s

    @property
    def boot_s(self) -> float | None:
        """From being asked for to being registered."""
        return None if self.asked_s is None else self.created_s - self.asked_s

    @property
    def join_s(self) -> float | None:
        """From registered to usable."""
        return None if self.usable_s is None else self.usable_s - self.created_s


def births_of(
    nodes: Iterable[Dated], pods: Iterable[Dated], claims: Iterable[Dated], since_s: float = 0.0
) -> tuple[Birth, ...]:
    """Every node's that registered since then (seconds since the epoch), the oldest first."""
    young = {node.metadata.name: node for node in nodes if (node.created_s or 0.0) >= max(since_s, 1.0)}
    by_node: dict[str, list[Dated]] = {name: [] for name in young}
    for pod in pods:
        if (found := by_node.get(pod.spec.node_name)) is not None:
            found.append(pod)
    claimed = {claim.status.node_name: claim for claim in claims}
    births = (_birth(node, by_node[name], claimed.get(name)) for name, node in young.items())
    return tuple(sorted(births, key=lambda each: (each.created_s, each.name)))


def _birth(node: Dated, pods: list[Dated], claim: Dated | None) -> Birth:
    created_s = node.created_s or 0.0
    ready_s = _since(node.ready_s, created_s)
    daemons = [times for pod in pods if (times := _daemon_times(pod, created_s)) is not None]
    claimed_s = claim.created_s if claim is not None else None
    asked_s = claimed_s if claim is not None else _asked_by_pods(pods, created_s)
    usable_s = None if ready_s is None else max([ready_s, *(done_s for _, done_s in daemons)])
    own_s = None if ready_s is None else max([ready_s - created_s, *(done_s - made_s for made_s, done_s in daemons)])
    return Birth(
        name=node.metadata.name,
        pool=node.metadata.labels.get(KARPENTER_POOL_LABEL, ""),
        instance_type=node.metadata.labels.get(INSTANCE_TYPE_LABEL, ""),
        created_s=created_s,
        asked_s=asked_s if asked_s is not None and created_s - LONGEST_S <= asked_s <= created_s else None,
        is_asked_by_claim=claim is not None,
        wanted_s=None if claimed_s is None else _wanted_s(pods, claimed_s),
        ready_s=ready_s,
        usable_s=usable_s,
        own_s=own_s,
    )


def _daemon_times(pod: Dated, born_s: float) -> tuple[float, float] | None:
    """(made, ready) of a DaemonSet pod that came with the node."""
    if not pod.is_daemon:
        return None
    made_s, ready_s = _since(pod.created_s, born_s), _since(pod.ready_s, born_s)
    return None if made_s is None or ready_s is None or ready_s < made_s else (made_s, ready_s)


def _asked_by_pods(pods: list[Dated], born_s: float) -> float | None:
    """The newest pod that runs on the node and is older than it: what the node was most likely made for."""
    found = [made_s for pod in pods if (made_s := pod.created_s) is not None and made_s < born_s]
    return max(found, default=None)


def _wanted_s(pods: list[Dated], asked_s: float) -> float | None:
    """The same for a NodeClaim. Times are whole seconds: a pod of the same second may have come first."""
    found = [made_s for pod in pods if (made_s := pod.created_s) is not None and not pod.is_daemon]
    return max((made_s for made_s in found if asked_s - LONGEST_S <= made_s <= asked_s), default=None)


def _since(at_s: float | None, born_s: float) -> float | None:
    """The time, if it can belong to the birth: times are whole seconds, so one second early is none."""
    return max(at_s, born_s) if at_s is not None and -1.0 <= at_s - born_s <= LONGEST_S else None
