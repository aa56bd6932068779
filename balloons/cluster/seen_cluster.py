"""What was read of a cluster, kind by kind, and the same objects in the types that decisions use."""

import enum
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Any, TypeVar

import msgspec

from balloons.api.pool import BalloonPool
from balloons.api.pool_rules import decode_pool
from balloons.cluster import kinds
from balloons.cluster.kinds import Kind
from throttler.api.throttle_decode import StoredThrottle, ThrottleWire, throttle_from_wire
from throttler.kube.cluster_autoscaler import CapacityQuota
from throttler.kube.decoding import Invalid
from throttler.kube.karpenter import NodeClaim, NodePool
from throttler.kube.node import Node, NodeWire, Shared, node_from_wire
from throttler.kube.pod import DaemonSet, DaemonSetWire, Pod, PodWire, daemon_set_from_wire, pod_from_wire
from throttler.kube.quantity import QuantityError

MOST_OBJECTS = 250_000
"""Of one kind: above what the largest known clusters hold of pods; more are left out of a list and counted."""
T = TypeVar("T")
UNREADABLE = (msgspec.MsgspecError, QuantityError, UnicodeDecodeError, RecursionError)
"""What decoding one object may raise."""


class Unread(enum.Enum):
    """Why there is no list; the value is how a sentence says it."""

    FORBIDDEN = "not allowed"
    NOT_SERVED = "not served"
    TIMED_OUT = "timed out"
    FAILED = "failed"
    NOT_ASKED = "not asked for"


@dataclass(frozen=True, slots=True)
class Listed:
    """A kind's objects as they were read, or why not.

    `objects` are JSON texts, cut down by `kept`, in the server's order. `left_out` counts those beyond the reader's
    bound, `unreadable` those that were no JSON objects. `message` is the server's, where there is no list.
    """

    objects: tuple[bytes, ...] = ()
    unread: Unread | None = None
    message: str = ""
    left_out: int = 0
    unreadable: int = 0

    @property
    def is_complete(self) -> bool:
        """Whether this is the whole list."""
        return self.unread is None and not self.left_out and not self.unreadable


NOT_ASKED = Listed(unread=Unread.NOT_ASKED)


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenCluster:
    """A cluster at `taken_at` (aware, UTC). `lists` has one entry for each kind that was asked for, by `Kind.name`.

    `version` is the API server's (`v1.36.3`), empty where it did not say; `context` is how the user calls the cluster.
    """

    taken_at: datetime
    lists: Mapping[str, Listed] = field(default_factory=lambda: MappingProxyType({}))
    version: str = ""
    context: str = ""

    def listed(self, kind: Kind) -> Listed:
        """The kind's list; one that was never asked for says so."""
        return self.lists.get(kind.name, NOT_ASKED)

    def plain(self, kind: Kind) -> tuple[dict[str, Any], ...]:
        """The kind's objects as plain data; none where the list could not be read. Decoded on every call."""
        return tuple(map(_object, self.listed(kind).objects))

    def only(self, wanted: Iterable[Kind]) -> "SeenCluster":
        """With these kinds alone: what a command sees that would have read no others."""
        lists = {kind.name: self.listed(kind) for kind in wanted}
        return SeenCluster(taken_at=self.taken_at, lists=lists, version=self.version, context=self.context)

    @property
    def not_seen(self) -> dict[str, Listed]:
        """The kinds that were asked for and could not be read, by name; one that is not served is not missing."""
        usual = (None, Unread.NOT_SERVED, Unread.NOT_ASKED)
        return {name: listed for name, listed in self.lists.items() if listed.unread not in usual}


def _object(text: bytes) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(text)
    return found


def nodes(seen: SeenCluster) -> tuple[Node, ...]:
    """The nodes."""
    shared = Shared()
    return _readable(seen, kinds.NODES, NodeWire, lambda wire: node_from_wire(wire, shared))


def pods(seen: SeenCluster) -> tuple[Pod, ...]:
    """The pods."""
    shared = Shared()
    return _readable(seen, kinds.PODS, PodWire, lambda wire: pod_from_wire(wire, shared))


def one_pod(plain: Any) -> Pod | None:
    """A pod that was read as plain values; None where it is none that can be used."""
    try:
        return pod_from_wire(msgspec.convert(plain, PodWire), Shared())
    except UNREADABLE:
        return None


def daemon_sets(seen: SeenCluster) -> tuple[DaemonSet, ...]:
    """The DaemonSets."""
    return _readable(seen, kinds.DAEMON_SETS, DaemonSetWire, daemon_set_from_wire)


def node_pools(seen: SeenCluster) -> tuple[NodePool, ...]:
    """Karpenter's NodePools."""
    return _readable(seen, kinds.NODE_POOLS, NodePool, lambda wire: wire)


def node_claims(seen: SeenCluster) -> tuple[NodeClaim, ...]:
    """Karpenter's NodeClaims."""
    return _readable(seen, kinds.NODE_CLAIMS, NodeClaim, lambda wire: wire)


def quotas(seen: SeenCluster) -> tuple[CapacityQuota, ...]:
    """cluster-autoscaler's CapacityQuotas."""
    return _readable(seen, kinds.QUOTAS, CapacityQuota, lambda wire: wire)


def balloon_pools(seen: SeenCluster) -> tuple[BalloonPool | Invalid, ...]:
    """The BalloonPools; one that breaks a rule as the reason why."""
    return tuple(map(decode_pool, seen.listed(kinds.BALLOON_POOLS).objects))


def throttles(seen: SeenCluster) -> tuple[StoredThrottle, ...]:
    """The JoinThrottles; one that breaks a rule is there as refused."""
    return _readable(seen, kinds.THROTTLES, ThrottleWire, throttle_from_wire)


def _readable(seen: SeenCluster, kind: Kind, wire: Any, shape: Callable[[Any], T]) -> tuple[T, ...]:
    decoder = msgspec.json.Decoder(wire)
    found = []
    for text in seen.listed(kind).objects:
        try:
            found.append(shape(decoder.decode(text)))
        except UNREADABLE:
            continue
    return tuple(found)
