"""From what the API sends to what the index files, object by object; raising leaves the object out. Pure."""

import msgspec

from balloons.api.pool import BalloonPool, PoolStatus
from balloons.api.pool_rules import decode_pool
from balloons.view.snapshot import FailedBalloon, RefusedPool
from throttler.kube.decoding import Invalid, status_of
from throttler.kube.metadata import Metadata
from throttler.kube.node import Shared
from throttler.kube.pod import Pod, PodKind, PodWire, pod_from_wire
from throttler.kube.quantity import QuantityError


class PoolWire(msgspec.Struct, frozen=True):
    """A BalloonPool with spec and status left as they came: whatever is in them, the object itself is seen."""

    metadata: Metadata
    spec: msgspec.Raw = msgspec.Raw(b"null")
    status: msgspec.Raw = msgspec.Raw(b"{}")


def pool_from_wire(wire: PoolWire) -> BalloonPool | RefusedPool:
    """The pool, or who it is and which rule it breaks."""
    found = decode_pool(msgspec.json.encode(wire))
    if isinstance(found, Invalid):
        return RefusedPool(wire.metadata, found.message, status_of(wire.status, PoolStatus))
    return found


def pod_or_presence(wire: PodWire, shared: Shared) -> Pod:
    """The pod; one whose requests cannot be read still counts as present, so that its node is never taken for idle."""
    try:
        return pod_from_wire(wire, shared)
    except QuantityError:
        bare = msgspec.structs.replace(wire.spec, containers=(), init_containers=(), overhead={}, resources=None)
        return pod_from_wire(msgspec.structs.replace(wire, spec=bare), shared)


def failed_balloon(wire: PodWire, shared: Shared) -> FailedBalloon | None:
    """What is left of a balloon that failed; None for any other pod, whatever labels it wears."""
    pod = pod_or_presence(wire, shared)
    if pod.kind is not PodKind.BALLOON:
        return None
    return FailedBalloon(
        key=pod.key,
        uid=pod.uid,
        node=pod.node,
        pool=pod.pool,
        created_s=pod.created_s,
        reason=shared.one(wire.status.reason),
        is_terminating=pod.is_terminating,
    )
