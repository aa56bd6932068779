"""The CapacityBuffer strategy's objects: upstream's virtual balloon and the PodTemplate it points to."""

from typing import Any

from balloons.api.pool import BalloonPool
from balloons.render.deployment import (
    MANAGED_BY,
    BalloonSpec,
    balloon_labels,
    deployment_name,
    pod_template,
)
from balloons.view.shape import Shape

BUFFER_GROUP = "autoscaling.x-k8s.io"


def template_object(pool: BalloonPool, shape: Shape, spec: BalloonSpec) -> dict[str, Any]:
    """The PodTemplate that says how large one unit of the buffer is."""
    return {
        "apiVersion": "v1",
        "kind": "PodTemplate",
        "metadata": _metadata(pool, shape),
        "template": pod_template(pool, shape, spec),
    }


def buffer_object(pool: BalloonPool, shape: Shape, replicas: int, api_version: str) -> dict[str, Any]:
    """The buffer of `replicas` units."""
    return {
        "apiVersion": api_version,
        "kind": "CapacityBuffer",
        "metadata": _metadata(pool, shape),
        "spec": {"podTemplateRef": {"name": deployment_name(pool, shape)}, "replicas": replicas},
    }


def _metadata(pool: BalloonPool, shape: Shape) -> dict[str, Any]:
    return {
        "name": deployment_name(pool, shape),
        "namespace": pool.metadata.namespace,
        "labels": {**balloon_labels(pool, shape), **MANAGED_BY},
    }
