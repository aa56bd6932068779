"""The objects of a seen cluster in the types that decisions use; one that cannot be read is left out and named."""

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from balloons.api.pool import BalloonPool
from balloons.api.pool_rules import decode_pool
from balloons.cluster import kinds
from balloons.cluster.kinds import Kind
from balloons.cluster.seen import SeenCluster
from throttler.api.throttle_decode import StoredThrottle, ThrottleWire, throttle_from_wire
from throttler.kube.cluster_autoscaler import CapacityQuota
from throttler.kube.decoding import Invalid
from throttler.kube.karpenter import NodeClaim, NodePool
from throttler.kube.node import Node, NodeWire, Shared, node_from_wire
from throttler.kube.pod import DaemonSet, DaemonSetWire, Pod, PodWire, daemon_set_from_wire, pod_from_wire
from throttler.kube.quantity import QuantityError

T = TypeVar("T")

UNREADABLE = (msgspec.MsgspecError, QuantityError, UnicodeDecodeError, RecursionError)
"""What decoding one object may raise."""


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
