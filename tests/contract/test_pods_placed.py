"""Where our own pods may run, as the chart says it; the overlays say the same (test_chart_equals_kustomize)."""

from typing import Any

import pytest

from tests.contract.rendered import helm

pytestmark = pytest.mark.helm

HOST = "kubernetes.io/hostname"
SERVICE, GUARD = "kube-balloons", "kube-balloons-guard"


@pytest.fixture(scope="module")
def pods() -> dict[str, Any]:
    found = (each for each in helm() if each["kind"] == "Deployment")
    return {each["metadata"]["name"]: each["spec"]["template"]["spec"] for each in found}


@pytest.mark.parametrize("name", [SERVICE, GUARD])
def test_a_pod_has_one_required_anti_affinity(pods: dict[str, Any], name: str) -> None:
    # Of a pod with two, Kubernetes 1.36 wakes a waiting one only for a pod that matches both
    # (kubernetes/kubernetes#139161): on two hosts a replica that was deleted came back after five minutes.
    terms = pods[name]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert len(terms) == 1


def test_replicas_share_no_host_even_where_there_is_only_one(pods: dict[str, Any]) -> None:
    (apart,) = [each for each in pods[SERVICE]["topologySpreadConstraints"] if each["topologyKey"] == HOST]
    assert apart["labelSelector"] == {"matchLabels": {"app.kubernetes.io/name": SERVICE}}
    assert (apart["whenUnsatisfiable"], apart["maxSkew"], apart["minDomains"]) == ("DoNotSchedule", 1, 2)
