"""What is left of pools that no longer exist, and when it goes.

Nothing owns a balloon Deployment but its label: deleting the CRD, or a pool by mistake, must not remove warm capacity
at once. The pool has to be gone for a while, in a view that is complete all that time: what nobody saw does not count.
What a pool's former strategy left behind goes the same way, once the new one has had time to hold the nodes.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping

from balloons.api.pool import Strategy
from balloons.decide.decision_and_reasons import Action, DeleteObject, Reason
from balloons.decide.pool_view_and_schedule import pool_of
from balloons.decide.strategies import let_go, resized
from balloons.view.index_and_snapshot import Deployment, Now, Snapshot, StoredObject
from throttler.kube.metadata import ObjectKey
from throttler.kube.node import HELD_BY_ANNOTATION, Node
from throttler.kube.pod import SHAPE_LABEL, Pod
from throttler.kube.reasons_and_events import Because, because

SWEEP_AFTER_S = 600.0
"""How long a pool must be gone before its balloons are removed."""
_KINDS: Mapping[Strategy, tuple[str, ...]] = {
    Strategy.BALLOON: ("Deployment",),
    Strategy.CAPACITY_BUFFER: ("CapacityBuffer", "PodTemplate"),
    Strategy.ANNOTATE: ("Node",),
}
_Owned = tuple[str, str, Deployment | StoredObject]


def sweep(
    snapshot: Snapshot,
    gone_since_s: Mapping[ObjectKey, float],
    now: Now,
    untouched: Collection[ObjectKey],
) -> tuple[tuple[Action, ...], dict[ObjectKey, float]]:
    """Deletions that are due, and since when each pool that still has something has been missed.

    Pools that are left `untouched` keep what they have: a new strategy that cannot be used holds no node. What any
    other pool left holds its nodes until then, and asks for none: nobody keeps its `maxSize` any more.
    """
    left: dict[ObjectKey, list[_Owned | Node]] = {}
    for pool, thing in _orphans(snapshot, untouched):
        left.setdefault(pool, []).append(thing)
    since = {pool: gone_since_s.get(pool, now.monotonic_s) for pool in left}
    due = [pool for pool in sorted(left) if now.monotonic_s - since[pool] >= SWEEP_AFTER_S]
    actions = [
        _remove(thing, _why(pool, snapshot, now.monotonic_s - since[pool])) for pool in due for thing in left[pool]
    ]
    for pool in sorted(left.keys() - set(due) - snapshot.pools.keys()):
        why = _why(pool, snapshot, now.monotonic_s - since[pool])
        actions += _without_waiting(left[pool], snapshot.unbound.get(pool, ()), why)
    return tuple(actions), since


def _without_waiting(things: Iterable[_Owned | Node], unbound: Iterable[Pod], why: Because) -> Iterator[Action]:
    """Lower what balloons without a node were made by."""
    waiting = Counter(balloon.shape for balloon in unbound)
    for thing in things:
        owned = None if isinstance(thing, Node) else thing[2]
        if isinstance(owned, Deployment) and not owned.is_being_lowered:
            count = waiting[owned.metadata.labels.get(SHAPE_LABEL, "")]
            if count:
                yield resized(owned, max(0, owned.replicas - count), why)


def _why(pool: ObjectKey, snapshot: Snapshot, gone_s: float) -> Because:
    stored = snapshot.pools.get(pool)
    if stored is None:
        return because(Reason.POOL_GONE, gone=gone_s)
    return because(Reason.OTHER_STRATEGY, strategy=stored.spec.strategy.value, gone=gone_s)


def _orphans(snapshot: Snapshot, untouched: Collection[ObjectKey]) -> Iterator[tuple[ObjectKey, _Owned | Node]]:
    for api_version, kind, objects in (
        ("apps/v1", "Deployment", snapshot.deployments),
        (snapshot.buffer_version, "CapacityBuffer", snapshot.buffers),
        ("v1", "PodTemplate", snapshot.templates),
    ):
        for owned in objects.values():
            pool = pool_of(owned.metadata)
            is_used = pool in untouched or _uses(pool, kind, snapshot)
            if pool.name and not is_used and owned.metadata.deletion_timestamp is None:
                yield pool, (api_version, kind, owned)
    for node in snapshot.nodes.values():
        if HELD_BY_ANNOTATION in node.annotations:
            namespace, _, name = node.annotations[HELD_BY_ANNOTATION].partition("/")
            pool = ObjectKey(namespace, name)
            if not (pool in untouched or _uses(pool, "Node", snapshot)):
                yield pool, node


def _uses(pool: ObjectKey, kind: str, snapshot: Snapshot) -> bool:
    """Whether the pool is there and works by objects of this kind. One that breaks a rule keeps what it has.

    So does one that is not served: another service may serve it, and both see the nodes.
    """
    stored = snapshot.pools.get(pool)
    if stored is None:
        return pool in snapshot.invalid or pool in snapshot.refused
    return stored.spec.dry_run or kind in _KINDS[stored.spec.strategy]


def _remove(thing: _Owned | Node, why: Because) -> Action:
    if isinstance(thing, Node):
        return let_go(thing, why)
    api_version, kind, owned = thing
    metadata = owned.metadata
    key = ObjectKey(metadata.namespace, metadata.name)
    return DeleteObject(key, api_version, kind, metadata.uid, metadata.resource_version, why)
