"""The CapacityBuffer strategy: upstream's own headroom object, kept at the size the pool wants.

The autoscaler then keeps the room free by itself; no balloon pods exist. What a buffer cannot do is said in the
README: hold whole nodes against lower-priority pods, pull images, work without such an autoscaler.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from balloons.decide.by_balloon import replicas_of
from balloons.decide.holding import Holding
from balloons.decide.plan import Action, ApplyObject, DeleteObject
from balloons.decide.pool_reasons import Reason, because
from balloons.decide.pool_view import PoolView, pool_of
from balloons.decide.settings import DecideSettings
from balloons.decide.target import Target
from balloons.render import BalloonSpec, buffer_object, deployment_name, says, template_object
from balloons.view.shape import Shape, balloon_requests, pod_requests
from balloons.view.snapshot import Snapshot, StoredObject
from throttler.kube.metadata import ObjectKey
from throttler.kube.quantity import Resources


def buffer(
    view: PoolView, snapshot: Snapshot, settings: DecideSettings, holding: Holding, aim: Target
) -> tuple[tuple[Action, ...], tuple[str, ...]]:
    """A PodTemplate and a CapacityBuffer per shape; the second value names shapes with no room for a unit."""
    actions: list[Action] = []
    too_small: list[str] = []
    measured = [shape for shape in view.shapes.by_name.values() if not shape.is_remembered]
    for shape in measured:
        key = ObjectKey(view.pool.metadata.namespace, deployment_name(view.pool, shape))
        requests = balloon_requests(view.pool, shape, settings.default_slack, _in_use(snapshot, key))
        if requests is None:
            too_small.append(shape.name)
            continue
        image = view.pool.spec.image or settings.image
        spec = BalloonSpec(requests, replicas_of(shape, view, holding, aim), image, settings.priority_class)
        actions += _changed(view, shape, spec, snapshot, key, aim)
    if measured:
        actions += _leftovers(view, snapshot, {deployment_name(view.pool, shape) for shape in measured})
    return tuple(actions), tuple(too_small)


def _leftovers(view: PoolView, snapshot: Snapshot, kept: Collection[str]) -> Iterator[DeleteObject]:
    """Buffers of shapes that the pool no longer has; while no shape is known at all, they stay."""
    for api_version, kind, objects in (
        (snapshot.buffer_version, "CapacityBuffer", snapshot.buffers),
        ("v1", "PodTemplate", snapshot.templates),
    ):
        for key, stored in sorted(objects.items()):
            metadata = stored.metadata
            if pool_of(metadata) == view.pool.key and key.name not in kept and metadata.deletion_timestamp is None:
                why = because(Reason.SHRINKING, surplus=stored.spec.get("replicas", 0))
                yield DeleteObject(key, api_version, kind, metadata.uid, metadata.resource_version, why)


def _in_use(snapshot: Snapshot, key: ObjectKey) -> Resources | None:
    stored = snapshot.templates.get(key)
    return pod_requests(stored.template) if stored else None


def _changed(
    view: PoolView, shape: Shape, spec: BalloonSpec, snapshot: Snapshot, key: ObjectKey, aim: Target
) -> Iterator[ApplyObject]:
    why = aim.because or because(Reason.WARMING, warm=aim.hold, target=aim.warm, pending=aim.wait)
    template = template_object(view.pool, shape, spec)
    wanted = buffer_object(view.pool, shape, spec.replicas, snapshot.buffer_version)
    stored_template, stored = snapshot.templates.get(key), snapshot.buffers.get(key)
    if stored_template is None or not says(stored_template.template, template["template"]):
        yield ApplyObject(key, "v1", "PodTemplate", template, spec.replicas, why)
    if stored is None or not says(
        _as_manifest(stored), {"metadata": {"labels": wanted["metadata"]["labels"]}, "spec": wanted["spec"]}
    ):
        yield ApplyObject(key, snapshot.buffer_version, "CapacityBuffer", wanted, spec.replicas, why)


def _as_manifest(stored: StoredObject) -> Mapping[str, Any]:
    return {"metadata": {"labels": stored.metadata.labels}, "spec": stored.spec}
