"""The Balloon strategy: one Deployment per machine shape, its size, and the balloons that must go first."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from balloons.decide.because import Because, Reason, because
from balloons.decide.holding import Holding
from balloons.decide.look import PoolView
from balloons.decide.plan import Action, ApplyObject, DeleteObject, MarkBalloon, ReleaseBalloon
from balloons.decide.settings import DecideSettings
from balloons.decide.target import Target
from balloons.render.deployment import BalloonSpec, deployment, deployment_name
from balloons.render.drift import says
from balloons.view.shape import Shape, balloon_requests
from balloons.view.snapshot import Deployment
from throttler.kube.metadata import ObjectKey
from throttler.kube.pod import Pod
from throttler.kube.quantity import QuantityError
from throttler.kube.resources import Resources, parse_resources

VICTIM_COST = -1000
"""Deletion cost of a balloon that must go before the others (their default is 0)."""


def inflate(
    view: PoolView,
    settings: DecideSettings,
    holding: Holding,
    aim: Target,
    freed: Sequence[tuple[Pod, str]],
) -> tuple[tuple[Action, ...], tuple[str, ...]]:
    """The writes, in order: mark victims, set the Deployments' sizes, then delete what gives way.

    The second value names shapes on which nothing is left for a balloon. Lowering before deleting matters: the
    ReplicaSet would otherwise put a new balloon where the waiting pod should go.
    """
    actions: list[Action] = list(_marks(holding))
    too_small: list[str] = []
    for shape in view.shapes.by_name.values():
        spec = _spec(view, shape, replicas_of(shape, view, holding, aim), settings)
        if spec is None:
            too_small.append(shape.name)
        else:
            actions += _changed(view, shape, spec, aim, holding)
    actions += _leftovers(view, holding, aim)
    actions += [_release(balloon, taker) for balloon, taker in freed]
    return tuple(actions), tuple(too_small)


def replicas_of(shape: Shape, view: PoolView, holding: Holding, aim: Target) -> int:
    """Balloons of this shape: those that hold nodes, and on the pool's largest shape those that wait for nodes."""
    main = next(iter(view.shapes.by_name))
    return holding.replicas.get(shape.name, 0) + (aim.wait if shape.name == main else 0)


def _spec(view: PoolView, shape: Shape, replicas: int, settings: DecideSettings) -> BalloonSpec | None:
    stored = view.deployments.get(shape.name)
    requests = balloon_requests(view.pool, shape, settings.default_slack, stored_requests(stored))
    if requests is None:
        return None
    return BalloonSpec(requests, replicas, view.pool.spec.image or settings.image, settings.priority_class)


def stored_requests(stored: Deployment | None) -> Resources | None:
    """The requests of a Deployment as it stands; None where there is none or somebody broke them."""
    try:
        containers: list[dict[str, Any]] = stored.spec["template"]["spec"]["containers"] if stored else []
        return parse_resources(containers[0]["resources"]["requests"]) if containers else None
    except (KeyError, TypeError, IndexError, QuantityError):
        return None


def _changed(view: PoolView, shape: Shape, spec: BalloonSpec, aim: Target, holding: Holding) -> Iterator[ApplyObject]:
    manifest = deployment(view.pool, shape, spec)
    stored = view.deployments.get(shape.name)
    if stored is None and spec.replicas == 0:
        return
    if stored is not None and says(_as_manifest(stored), manifest):
        return
    before = stored.replicas if stored is not None else 0
    key = ObjectKey(view.pool.metadata.namespace, deployment_name(view.pool, shape))
    yield ApplyObject(
        key, "apps/v1", "Deployment", manifest, spec.replicas, _why_size(before, spec.replicas, aim, holding)
    )


def _as_manifest(stored: Deployment) -> Mapping[str, Any]:
    metadata = stored.metadata
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": metadata.name, "namespace": metadata.namespace, "labels": metadata.labels},
        "spec": stored.spec,
    }


def _why_size(before: int, after: int, aim: Target, holding: Holding) -> Because:
    if aim.because is not None:
        return aim.because
    if after < before and holding.victims:
        return because(Reason.SHRINKING, surplus=before - after)
    return because(Reason.WARMING, warm=min(before, after), target=aim.warm, pending=max(0, after - before))


def _marks(holding: Holding) -> Iterator[MarkBalloon]:
    for balloon in holding.victims:
        if balloon.deletion_cost > VICTIM_COST:
            why = because(Reason.SHRINKING, surplus=len(holding.victims))
            yield MarkBalloon(balloon.key, balloon.uid, VICTIM_COST, why)


def _leftovers(view: PoolView, holding: Holding, aim: Target) -> Iterator[DeleteObject]:
    """Deployments of shapes that the pool no longer has, once no balloon of theirs holds anything."""
    if not view.shapes.by_name and aim.wait:
        return
    for name, stored in sorted(view.deployments.items()):
        if name in view.shapes.by_name or holding.replicas.get(name, 0):
            continue
        metadata = stored.metadata
        why = because(Reason.SHRINKING, surplus=stored.replicas)
        yield DeleteObject(stored.key, "apps/v1", "Deployment", metadata.uid, metadata.resource_version, why)


def _release(balloon: Pod, taker: str) -> ReleaseBalloon:
    why = because(Reason.BURST_RELEASE, released=1, waiting=1)
    return ReleaseBalloon(balloon.key, balloon.uid, balloon.resource_version, balloon.node, taker, why)
