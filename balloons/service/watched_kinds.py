"""What the service watches: resources, their objects cut down at the edge, and how soon a change calls for it. Pure.

From what the API sends to what the index files, object by object; raising leaves the object out.

Most events of a large cluster change nothing that a decision reads; waiting work and users' wishes are urgent; all
else may wait to be looked at together.
"""

import msgspec

from balloons.api.pool import GROUP, POOL_KIND, POOL_PLURAL, VERSION, PoolStatus
from balloons.api.pool_rules import decode_pool
from balloons.balloon_manifest import BUFFER_GROUP
from balloons.view.index_and_snapshot import Deployment, FailedBalloon, RefusedPool, StoredPool
from balloons.view.tenancy_and_claim import is_of_its_pool
from throttler.kube.custom_objects import Invalid, status_of
from throttler.kube.metadata import Metadata
from throttler.kube.node import Node, Shared, is_leaving
from throttler.kube.pod import Pod, PodKind, PodWire, pod_from_wire, without_requests
from throttler.kube.quantities_and_durations import QuantityError
from throttler.kube.requests import DEPLOYMENTS, Resource

POD_TEMPLATES = Resource("", "v1", "podtemplates", "PodTemplate")
POOLS = Resource(GROUP, VERSION, POOL_PLURAL, POOL_KIND)
PRIORITY_CLASSES = Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", is_namespaced=False)
BUFFER_PLURAL = "capacitybuffers"
URGENT_S = 0.05
"""Long enough to catch a gang of pods that arrives together."""
NODE_S = 0.3
"""Nodes change seldom, pods of large clusters all the time: what has just become Ready is counted within a second."""
SOON_S = 1.0


_WRITTEN = {resource.kind: resource for resource in (DEPLOYMENTS, POD_TEMPLATES)}


def buffers(api_version: str) -> Resource:
    """CapacityBuffers in the version that the server serves."""
    return Resource(BUFFER_GROUP, api_version.rpartition("/")[2], BUFFER_PLURAL, "CapacityBuffer")


def written(api_version: str, kind: str) -> Resource:
    """The resource of an object that an action names by apiVersion and kind; raises KeyError for any other."""
    return buffers(api_version) if kind == "CapacityBuffer" else _WRITTEN[kind]


class PoolWire(msgspec.Struct, frozen=True):
    """A BalloonPool with spec and status left as they came: whatever is in them, the object itself is seen."""

    metadata: Metadata
    spec: msgspec.Raw = msgspec.Raw(b"null")
    status: msgspec.Raw = msgspec.Raw(b"{}")


def pool_from_wire(wire: PoolWire) -> StoredPool:
    """The pool, or who it is and which rule it breaks."""
    pool = decode_pool(msgspec.json.encode(wire))
    if isinstance(pool, Invalid):
        return RefusedPool(wire.metadata, pool.message, status_of(wire.status, PoolStatus))
    return pool


def pod_or_presence(wire: PodWire, shared: Shared) -> Pod:
    """The pod; one whose requests cannot be read still counts as present, so that its node is never taken for idle."""
    try:
        return pod_from_wire(wire, shared)
    except QuantityError:
        return pod_from_wire(without_requests(wire), shared)


def failed_balloon(wire: PodWire, shared: Shared) -> FailedBalloon | None:
    """What is left of a balloon that failed; None for any other pod, whatever labels it wears."""
    pod = pod_or_presence(wire, shared)
    if pod.kind is not PodKind.BALLOON or not is_of_its_pool(pod):
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
        return None if known is not None and _is_queued(known) else SOON_S
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


def _is_queued(pod: Pod) -> bool:
    """Whether the pod still is in the scheduler's hands: it may well be bound in a moment."""
    is_gated = pod.scheduling is not None and pod.scheduling.is_gated
    return pod.kind is PodKind.WORK and not pod.node and not _is_refused(pod) and not is_gated
