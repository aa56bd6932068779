"""The Kubernetes objects of the demo, as a user would write them."""

from __future__ import annotations

from typing import Any

JOBS, WARM = "jobs", "kube-balloons"
"""Namespaces of the work and of the pool; the service may write in its own namespace without further rights."""
POOL = "gpu"
POOL_LABELS = {"example.com/pool": "gpu"}
WORK_REQUESTS = {"cpu": "500m", "memory": "1Gi", "nvidia.com/gpu": "8"}
"""A whole GPU node per pod."""


def namespace(name: str) -> dict[str, Any]:
    """A namespace."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def work_pod(name: str) -> dict[str, Any]:
    """One worker of a training job: takes every GPU of a node."""
    container = {
        "name": "train",
        "image": "registry.example.com/train:1",
        "resources": {"requests": WORK_REQUESTS, "limits": {"nvidia.com/gpu": "8"}},
    }
    spec = {
        "nodeSelector": POOL_LABELS,
        "terminationGracePeriodSeconds": 0,
        "containers": [container],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": JOBS}, "spec": spec}


def balloon_pool(**spec: Any) -> dict[str, Any]:
    """The BalloonPool over the GPU nodes."""
    return {
        "apiVersion": "kube-balloons.github.io/v1alpha1",
        "kind": "BalloonPool",
        "metadata": {"name": POOL, "namespace": WARM},
        "spec": {"nodes": {"selector": {"matchLabels": POOL_LABELS}}, **spec},
    }
