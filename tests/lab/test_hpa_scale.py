"""A real HorizontalPodAutoscaler, kubectl and the controller manager drive a BalloonPool through /scale.

There is no metrics server here. The controller needs none where the size lies outside of minReplicas and maxReplicas
(reconcileAutoscaler in pkg/controller/podautoscaler/horizontal.go): it then writes the nearer bound at once.
"""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab.controlplane import ControlPlane
from lab.errors import LabError
from tests.contract.waiting import serve

MANIFESTS = Path(__file__).parents[2] / "manifests"
PATIENCE_S = 180
"""The controller looks every 15 s, and learns of a new kind of object within another 30 s."""


@pytest.fixture
def pools(control_plane: ControlPlane, namespace: str) -> str:
    """A namespace in which BalloonPools are served."""
    serve(control_plane, MANIFESTS / "crds" / "balloonpools.yaml")
    return namespace


def make_pool(plane: ControlPlane, namespace: str, **spec: Any) -> None:
    nodes = {"selector": {"matchLabels": {"pool": "gpu"}}}
    make(plane, namespace, "BalloonPool", "kube-balloons.github.io/v1alpha1", {"mode": "Hold", "nodes": nodes, **spec})


def make_autoscaler(plane: ControlPlane, namespace: str, least: int, most: int) -> None:
    target = {"apiVersion": "kube-balloons.github.io/v1alpha1", "kind": "BalloonPool", "name": "gpu"}
    spec = {"scaleTargetRef": target, "minReplicas": least, "maxReplicas": most}
    make(plane, namespace, "HorizontalPodAutoscaler", "autoscaling/v2", spec)


def make(plane: ControlPlane, namespace: str, kind: str, version: str, spec: dict[str, Any]) -> None:
    manifest = {"apiVersion": version, "kind": kind, "metadata": {"name": "gpu", "namespace": namespace}, "spec": spec}
    plane.apply(manifest)


def read(plane: ControlPlane, namespace: str, kind: str) -> dict[str, Any]:
    return plane.get(kind, "gpu", namespace=namespace)


def wait_until(is_so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline, f"{what} did not happen within {PATIENCE_S} s"
        time.sleep(0.5)


def test_an_autoscaler_raises_and_lowers_the_size(control_plane: ControlPlane, pools: str) -> None:
    def size() -> int:
        return int(read(control_plane, pools, "balloonpool")["spec"]["size"])

    make_pool(control_plane, pools, size=2, maxSize=10)
    make_autoscaler(control_plane, pools, least=5, most=8)
    wait_until(lambda: size() == 5, "raising the size to minReplicas")
    writers = [
        entry["manager"]
        for entry in read(control_plane, pools, "balloonpool")["metadata"]["managedFields"]
        if "f:size" in json.dumps(entry) and entry.get("subresource") == "scale"
    ]
    assert writers == ["kube-controller-manager"]

    make_autoscaler(control_plane, pools, least=1, most=4)
    wait_until(lambda: size() == 4, "lowering the size to maxReplicas")


def test_an_autoscaler_is_told_why_it_may_not_go_above_the_maximum(control_plane: ControlPlane, pools: str) -> None:
    def complaints() -> list[str]:
        conditions = read(control_plane, pools, "hpa").get("status", {}).get("conditions", [])
        return [c["message"] for c in conditions if c["type"] == "AbleToScale" and c["status"] == "False"]

    make_pool(control_plane, pools, size=2, maxSize=10)
    make_autoscaler(control_plane, pools, least=20, most=30)
    wait_until(lambda: any("size 20 is above maxSize 10" in text for text in complaints()), "the refusal")
    assert read(control_plane, pools, "balloonpool")["spec"]["size"] == 2


def test_scale_shows_the_warm_nodes_and_the_balloons_selector(control_plane: ControlPlane, pools: str) -> None:
    make_pool(control_plane, pools, size=3)
    status = {"status": {"warm": 2, "selector": "kube-balloons.github.io/pool=gpu"}}
    patch = ("--subresource=status", "--type=merge", f"--patch={json.dumps(status)}")
    control_plane.kubectl("patch", "balloonpool", "gpu", f"--namespace={pools}", *patch)
    path = f"/apis/kube-balloons.github.io/v1alpha1/namespaces/{pools}/balloonpools/gpu/scale"
    scale = json.loads(control_plane.kubectl("get", "--raw", path))
    assert scale["spec"]["replicas"] == 3
    assert scale["status"] == {"replicas": 2, "selector": "kube-balloons.github.io/pool=gpu"}


def test_kubectl_scales_a_pool(control_plane: ControlPlane, pools: str) -> None:
    make_pool(control_plane, pools, size=2, maxSize=10)
    control_plane.kubectl("scale", "bp/gpu", f"--namespace={pools}", "--replicas=7")
    assert read(control_plane, pools, "balloonpool")["spec"]["size"] == 7


def test_a_pool_in_percent_says_how_to_make_it_scalable(control_plane: ControlPlane, pools: str) -> None:
    make_pool(control_plane, pools, sizePercent=50, maxSize=10)
    with pytest.raises(LabError) as refusal:
        control_plane.kubectl("scale", "bp/gpu", f"--namespace={pools}", "--replicas=7")
    assert "size 7 and sizePercent 50 are both set" in str(refusal.value)
    assert "remove sizePercent before the pool is scaled by kubectl scale" in str(refusal.value)
    assert "size" not in read(control_plane, pools, "balloonpool")["spec"]


def test_the_pool_appears_in_its_category_with_its_figures(control_plane: ControlPlane, pools: str) -> None:
    make_pool(control_plane, pools, size=2, maxSize=10)
    lines = control_plane.kubectl("get", "balloons", f"--namespace={pools}", "--output=wide").splitlines()
    assert lines[0].split() == ["NAME", "WARM", "WANT", "BUSY", "PENDING", "MAX", "MODE", "READY", "BECAUSE", "AGE"]
    # kubectl adds the kind to names once two kinds of the category are there.
    name, *figures = lines[1].split()[:3]
    assert name.rpartition("/")[2] == "gpu"
    assert figures == ["10", "Hold"]
