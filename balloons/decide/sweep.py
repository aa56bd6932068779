"""What is left of pools that no longer exist, and when it goes.

Nothing owns a balloon Deployment but its label: deleting the CRD, or a pool by mistake, must not remove warm capacity
at once. The pool has to be gone for a while, in a view that is complete all that time: what nobody saw does not count.
What a pool's former strategy left behind goes the same way, once the new one has had time to hold the nodes.
"""

from collections.abc import Iterator, Mapping

from balloons.api.pool import Strategy
from balloons.decide.by_annotation import let_go
from balloons.decide.plan import Action, DeleteObject
from balloons.decide.pool_reasons import Because, Reason, because
from balloons.decide.pool_view import pool_of
from balloons.decide.settings import DecideSettings
from balloons.render import MANAGED_BY
from balloons.view.claim import Bound
from balloons.view.snapshot import Deployment, Now, Snapshot, StoredObject
from throttler.kube.metadata import ObjectKey
from throttler.kube.node import HELD_BY_ANNOTATION, Node

_KINDS: Mapping[Strategy, tuple[str, ...]] = {
    Strategy.BALLOON: ("Deployment",),
    Strategy.CAPACITY_BUFFER: ("CapacityBuffer", "PodTemplate"),
    Strategy.ANNOTATE: ("Node",),
}

_Owned = tuple[str, str, Deployment | StoredObject]


def sweep(
    snapshot: Snapshot, gone_since_s: Mapping[ObjectKey, float], settings: DecideSettings, now: Now
) -> tuple[tuple[Action, ...], dict[ObjectKey, float]]:
    """Deletions that are due, and since when each pool that still has something has been missed."""
    left: dict[ObjectKey, list[_Owned | Node]] = {}
    for pool, thing in _orphans(snapshot):
        left.setdefault(pool, []).append(thing)
    since = {pool: gone_since_s.get(pool, now.monotonic_s) for pool in left}
    due = [pool for pool in sorted(left) if now.monotonic_s - since[pool] >= settings.sweep_after_s]
    actions = [
        _remove(thing, _why(pool, snapshot, now.monotonic_s - since[pool])) for pool in due for thing in left[pool]
    ]
    return tuple(actions), since


def _why(pool: ObjectKey, snapshot: Snapshot, gone_s: float) -> Because:
    found = snapshot.pools.get(pool)
    if found is None:
        # A pool that is served no more leaves its marks on nodes: to this service it is gone.
        return because(Reason.POOL_GONE, gone=gone_s)
    return because(Reason.OTHER_STRATEGY, strategy=found.spec.strategy.value, gone=gone_s)


def _orphans(snapshot: Snapshot) -> Iterator[tuple[ObjectKey, _Owned | Node]]:
    for api_version, kind, objects in (
        ("apps/v1", "Deployment", snapshot.deployments),
        (snapshot.buffer_version, "CapacityBuffer", snapshot.buffers),
        ("v1", "PodTemplate", snapshot.templates),
    ):
        for owned in objects.values():
            pool = pool_of(owned.metadata)
            is_ours = owned.metadata.labels.items() >= MANAGED_BY.items()
            if pool.name and is_ours and not _uses(pool, kind, snapshot) and owned.metadata.deletion_timestamp is None:
                yield pool, (api_version, kind, owned)
    for node in snapshot.nodes.values():
        if node.annotations and HELD_BY_ANNOTATION in node.annotations:
            namespace, _, name = node.annotations[HELD_BY_ANNOTATION].partition("/")
            if not _uses(ObjectKey(namespace, name), "Node", snapshot):
                yield ObjectKey(namespace, name), node


def _uses(pool: ObjectKey, kind: str, snapshot: Snapshot) -> bool:
    """Whether the pool is there and works by objects of this kind; one that must not be touched keeps what it has."""
    found = snapshot.pools.get(pool)
    if found is None:
        return pool in snapshot.invalid or _is_bounded(pool, snapshot)
    return found.spec.paused or found.spec.dry_run or kind in _KINDS[found.spec.strategy]


def _is_bounded(pool: ObjectKey, snapshot: Snapshot) -> bool:
    """Whether the pool would be served but for a bound: what it has stays, as with one that is invalid."""
    refusal = snapshot.refused.get(pool)
    return refusal is not None and refusal.bound is not Bound.NAMESPACES


def _remove(thing: _Owned | Node, why: Because) -> Action:
    if isinstance(thing, Node):
        return let_go(thing, why)
    api_version, kind, owned = thing
    metadata = owned.metadata
    key = ObjectKey(metadata.namespace, metadata.name)
    return DeleteObject(key, api_version, kind, metadata.uid, metadata.resource_version, why)
