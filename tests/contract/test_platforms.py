"""The recommended values for platforms: the chart takes them, and a real API server what comes of them."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab.controlplane import ControlPlane
from lab.manifests.generated import PLATFORMS
from tests.contract.rendered import Object, helm
from tests.contract.test_chart_values import ELSEWHERE
from tests.contract.waiting import make_namespace

pytestmark = pytest.mark.helm

NAMESPACE = "platforms"


def values(name: str) -> dict[str, Any]:
    path = next(each for each in PLATFORMS if each.stem == name)
    found: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return found


def rendered(path: Path) -> list[Object]:
    given = yaml.safe_load(path.read_text(encoding="utf-8"))
    return helm(given, f"--namespace={NAMESPACE}")


def pods(objects: list[Object]) -> list[dict[str, Any]]:
    found = [each["spec"]["template"]["spec"] for each in objects if each["kind"] in ("Deployment", "Job")]
    return [*found, *(each["spec"] for each in objects if each["kind"] == "Pod")]


def test_the_server_takes_what_the_values_of_each_platform_make(control_plane: ControlPlane) -> None:
    assert [path.stem for path in PLATFORMS] == ["air-gapped", "aks", "eks", "gke", "kubeadm", "openshift"]
    objects = [each for path in PLATFORMS for each in rendered(path)]
    objects = [each for each in objects if each["apiVersion"].partition("/")[0] not in ELSEWHERE]
    make_namespace(control_plane, NAMESPACE)
    try:
        how = ("--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict", "--output=name")
        given = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
        taken = control_plane.kubectl("apply", *how, "--filename=-", input=given)
        assert len(taken.split()) == len(objects) >= 300
    finally:
        control_plane.kubectl("delete", "namespace", NAMESPACE, "--wait=false")


def test_on_openshift_no_pod_of_ours_names_a_user() -> None:
    found = pods(helm(values("openshift"), has_hooks=True))
    assert len(found) == 4
    assert all(not pod["securityContext"].keys() & {"runAsUser", "runAsGroup"} for pod in found)
    assert all(pod["securityContext"]["runAsNonRoot"] for pod in found)
    service = [container["args"] for pod in found for container in pod["containers"] if "run" in container["args"]]
    assert ["--no-balloon-user" in args for args in service] == [True]


def test_without_a_way_out_everything_comes_from_the_mirror() -> None:
    given = values("air-gapped")
    mirror = given["global"]["imageRegistry"]
    found = pods(helm({**given, "image": {"registry": ""}}, has_hooks=True))
    containers = [container for pod in found for container in pod["containers"]]
    images = [container["image"] for container in containers]
    images += [arg[8:] for container in containers for arg in container["args"] if arg.startswith("--image=")]
    assert len(images) == 5
    assert all(image.startswith(f"{mirror}/") for image in images)
    assert all(pod["imagePullSecrets"] == [{"name": "mirror"}] for pod in found)


@pytest.mark.parametrize("name", ["aks", "kubeadm"])
def test_service_guard_and_hook_stay_on_nodes_of_the_system(name: str) -> None:
    given = values(name)
    found = pods(helm(given, has_hooks=True))
    assert [pod["nodeSelector"] for pod in found] == [given["run"]["nodeSelector"]] * 4
