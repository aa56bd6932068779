"""Every object of the chart on a real API server: taken as it is, in a namespace that enforces `restricted`."""

import json
import os
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from lab.binaries import find_binary
from lab.controlplane import ControlPlane
from lab.errors import LabError
from lab.manifests import CHART
from tests.contract.rendered import REGISTRY, Object, helm
from tests.contract.waiting import make_namespace

pytestmark = pytest.mark.helm

NAMESPACE = "accepted"
ON = {"enabled": True}
ALL: dict[str, Any] = {
    "levers": dict.fromkeys(
        ("nodePoolLimits", "capacityQuota", "machineDeployments", "nodes", "schedulingGates"), True
    ),
    "annotateNodes": True,
    "dashboards": ON,
}
"""What needs no further CRD; the kinds of prometheus-operator and grafana-operator are not to be had here."""


@pytest.fixture(scope="module")
def restricted(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    make_namespace(control_plane, NAMESPACE)
    enforced = "pod-security.kubernetes.io/enforce=restricted"
    control_plane.kubectl("label", "namespace", NAMESPACE, enforced)
    for account in ("kube-balloons", "kube-balloons-guard", "kube-balloons-doctor"):
        control_plane.kubectl("create", "serviceaccount", account, f"--namespace={NAMESPACE}")
    yield control_plane
    control_plane.kubectl("delete", "namespace", NAMESPACE, "--wait=false")


def rendered(values: dict[str, Any]) -> list[Object]:
    return helm(values, f"--namespace={NAMESPACE}")


def as_list(objects: list[Object]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})


def test_the_server_takes_every_object_and_knows_every_field(restricted: ControlPlane) -> None:
    how = ("--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict", "--output=name")
    objects = rendered(ALL)
    taken = restricted.kubectl("apply", *how, "--filename=-", input=as_list(objects))
    assert len(taken.split()) == len(objects) >= 60


@pytest.mark.parametrize("name", ["kube-balloons", "kube-balloons-guard"])
def test_the_pods_keep_to_the_restricted_standard(restricted: ControlPlane, name: str) -> None:
    found = next(each for each in rendered({}) if each["kind"] == "Deployment" and each["metadata"]["name"] == name)
    template = found["spec"]["template"]
    pod = {"apiVersion": "v1", "kind": "Pod", **template, "metadata": {**template["metadata"], "name": name}}
    create_pod(restricted, pod)
    pod["spec"]["containers"][0]["securityContext"]["allowPrivilegeEscalation"] = True
    with pytest.raises(LabError, match="violates PodSecurity"):
        create_pod(restricted, pod)


def create_pod(plane: ControlPlane, pod: Object) -> None:
    how = (f"--namespace={NAMESPACE}", "--dry-run=server", "--validate=strict")
    plane.kubectl("create", *how, "--filename=-", input=json.dumps(pod))


def install(plane: ControlPlane, values: dict[str, Any], namespace: str = "tried") -> str:
    """What `helm install` says to a user, notes included, without doing it."""
    # Other tests on this server applied some of the objects before.
    how = (
        f"--namespace={namespace}",
        "--dry-run=server",
        "--take-ownership",
        f"--set=image.registry={REGISTRY}",
        "--values=-",
    )
    command = [str(find_binary("helm")), "install", "tried", str(CHART), *how]
    environment = {**os.environ, "KUBECONFIG": str(plane.kubeconfig())}
    answer = subprocess.run(
        command, input=json.dumps(values), env=environment, capture_output=True, text=True, check=True
    )
    return answer.stdout.partition("NOTES:")[2]


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({}, "No lever is bound"),
        ({"settings": {"dryRun": True}}, "writes nothing"),
        ({"run": {"replicas": 1}}, "run.replicas is 1"),
        ({"guard": {"enabled": False}}, "leaves its ceilings"),
        ({"policies": {"enabled": False}}, "more than they promise"),
        ({"flowControl": {"enabled": False}}, "queue with everybody's"),
        ({"rbac": {"create": False}}, "bind the roles"),
        ({"crds": {"keep": False}}, "deletes every BalloonPool"),
    ],
)
def test_the_notes_warn(control_plane: ControlPlane, values: dict[str, Any], says: str) -> None:
    notes = install(control_plane, values)
    assert says in notes
    assert "helm test tried -n tried" in notes


def test_nothing_to_warn_of_is_said_by_silence(control_plane: ControlPlane) -> None:
    values = {"levers": {"nodes": True}}
    assert "Warnings" not in install(control_plane, values)


def test_in_kube_system_no_label_is_recommended(control_plane: ControlPlane) -> None:
    """It would keep the pods of CNIs, which are privileged, from coming back."""
    label = "kubectl label namespace"
    assert label in install(control_plane, {})
    notes = install(control_plane, {}, namespace="kube-system")
    assert "do not label this namespace" in notes
    assert label not in notes
