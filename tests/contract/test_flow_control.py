"""In which of the API server's queues our requests really stand."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from lab.controlplane import ControlPlane
from lab.manifests import MANIFESTS
from tests.contract.waiting import until

FILE = MANIFESTS / "components" / "flow-control" / "flow-control.yaml"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/{}/leases/kube-balloons-throttle"
SERVICE, GUARD = "kube-balloons:kube-balloons", "kube-balloons:kube-balloons-guard"
HOOK = "kube-balloons:kube-balloons-give-back"
CASES = [
    (SERVICE, LEASE.format("kube-balloons"), "kube-balloons-lease"),
    (GUARD, LEASE.format("kube-balloons"), "kube-balloons-lease"),
    (HOOK, LEASE.format("kube-balloons"), "kube-balloons-lease"),
    (SERVICE, "/metrics", "kube-balloons"),
    (SERVICE, "/api/v1/nodes", "kube-balloons"),
    (SERVICE, "/apis/karpenter.sh/v1/nodepools", "kube-balloons"),
    (GUARD, "/api/v1/pods", "kube-balloons"),
    (HOOK, "/api/v1/pods", "kube-balloons"),
    (SERVICE, LEASE.format("kube-system"), "kube-balloons"),
    ("kube-balloons:default", "/api/v1/nodes", "service-accounts"),
    ("default:kube-balloons", "/api/v1/nodes", "service-accounts"),
]


def schema_of(plane: ControlPlane, account: str, path: str) -> str:
    """The uid of the FlowSchema that took the request; whether it was allowed does not matter."""
    access = plane.access()
    headers = {"Impersonate-User": f"system:serviceaccount:{account}"}
    request = urllib.request.Request(f"{access.url}{path}", headers=headers)
    try:
        with urllib.request.urlopen(request, context=access.ssl_context(), timeout=30) as answer:
            return str(answer.headers["X-Kubernetes-PF-FlowSchema-UID"])
    except urllib.error.HTTPError as refusal:
        with refusal:
            return str(refusal.headers["X-Kubernetes-PF-FlowSchema-UID"])


def schemas(plane: ControlPlane) -> dict[str, str]:
    found = json.loads(plane.kubectl("get", "flowschemas", "--output=json"))["items"]
    return {each["metadata"]["name"]: each["metadata"]["uid"] for each in found}


@pytest.fixture(scope="module")
def queued(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    control_plane.kubectl("apply", f"--filename={FILE}")

    def are_taken_up() -> None:
        """One after the other, each in the server's own time."""
        uids = schemas(control_plane)
        for account, path, schema in CASES:
            assert schema_of(control_plane, account, path) == uids[schema]

    until(are_taken_up)
    yield control_plane
    control_plane.kubectl("delete", f"--filename={FILE}")


@pytest.mark.parametrize(("account", "path", "schema"), CASES)
def test_each_request_stands_where_it_should(queued: ControlPlane, account: str, path: str, schema: str) -> None:
    assert schema_of(queued, account, path) == schemas(queued)[schema]


def test_the_level_has_the_seats_that_the_file_explains(queued: ControlPlane) -> None:
    found = json.loads(queued.kubectl("get", "prioritylevelconfigurations", "--output=json"))["items"]
    shares = {
        each["metadata"]["name"]: each["spec"]["limited"]["nominalConcurrencyShares"]
        for each in found
        if "limited" in each["spec"]
    }
    ours = shares.pop("kube-balloons")
    assert (ours, sum(shares.values())) == (10, 245)
    assert round(600 * ours / (ours + sum(shares.values()))) == 24
