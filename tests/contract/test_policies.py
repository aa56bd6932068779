"""Our own accounts on a real API server that holds them to what they promise, though they have every right there is."""

import asyncio
import json
from collections.abc import Iterator

import pytest

from lab.binaries import find_karpenter_crds
from lab.cloud.nodegroups import install_capacity_quotas, install_machine_deployments
from lab.controlplane import ControlPlane
from lab.errors import LabError
from lab.manifests import MANIFESTS
from tests.contract.policy_objects import NAMESPACE, STATUS, STORED, lease
from tests.contract.policy_table import FORBIDDEN, LEASES, LEGAL, PODS, Write
from tests.contract.rendered import helm_text
from tests.contract.waiting import make_namespace, serve, until

pytestmark = pytest.mark.helm

ACCOUNTS = ("kube-balloons", "kube-balloons-guard", "kube-balloons-give-back")
NODE_NAMES = ("policed", "policed-kept", "policed-free")
POLICIES = {"flowControl": {"enabled": False}}


class Server:
    """The server as one of our accounts meets it; nothing it lets pass is stored."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._balloon = ""

    def find_balloon(self) -> None:
        """The pod that the Deployment made: its name is the server's choice."""
        wanted = ("--selector=kube-balloons.github.io/shape", "--output=name")
        self._balloon = (
            self._plane.kubectl("get", "pods", f"--namespace={NAMESPACE}", *wanted).strip().rpartition("/")[2]
        )
        if not self._balloon:
            raise LabError("no balloon yet")

    def attempt(self, write: Write, mode: str = "dryRun=All") -> str:
        """Make the call; returns the server's refusal, empty if it would be done."""
        answer = self._send(write, mode)
        # A controller has written the object since it was read: the server says so before it asks the policies.
        while write.edit and "the object has been modified" in answer:
            answer = self._send(write, mode)
        return answer

    def _send(self, write: Write, mode: str) -> str:
        who = f"system:serviceaccount:{NAMESPACE}:{write.account}"
        body = self._edited(write) if write.edit else write.body
        verb = "PUT" if write.edit else "POST" if write.body is not None else "DELETE"
        path = self._placed(write.path)
        try:
            self._plane.requests.send(verb, f"{path}{'&' if '?' in path else '?'}{mode}", body, as_user=who)
        except LabError as refusal:
            return str(refusal)
        return ""

    def _edited(self, write: Write) -> dict[str, object]:
        assert write.edit is not None
        stored = self._plane.requests.send("GET", self._placed(write.stored_at or write.path))
        return write.edit(stored) or stored

    def _placed(self, path: str) -> str:
        return path.replace(f"{PODS}/balloon", f"{PODS}/{self._balloon}")


@pytest.fixture(scope="module")
def server(control_plane: ControlPlane) -> Iterator[Server]:
    """The policies in force for accounts that have every right, and the objects of the table."""
    serve_kinds(control_plane)
    given = policies()
    make_namespace(control_plane, NAMESPACE)
    try:
        store_objects(control_plane)
        control_plane.kubectl("apply", "--filename=-", input=given)
        found = Server(control_plane)
        until(found.find_balloon)
        until(lambda: all_in_force(found))
        make_lease(found)
        yield found
    finally:
        control_plane.kubectl("delete", "--ignore-not-found", "--filename=-", input=given)
        remove_objects(control_plane)


def policies() -> str:
    return helm_text(POLICIES, "--show-only=templates/policies.yaml", namespace=NAMESPACE)


def serve_kinds(plane: ControlPlane) -> None:
    serve(plane, find_karpenter_crds())
    asyncio.run(install_capacity_quotas(plane))
    asyncio.run(install_machine_deployments(plane))
    plane.kubectl("apply", f"--filename={MANIFESTS}/base/priorityclass.yaml")


def store_objects(plane: ControlPlane) -> None:
    accounts = [f"--serviceaccount={NAMESPACE}:{account}" for account in ACCOUNTS]
    plane.kubectl("create", "clusterrolebinding", "policed-all", "--clusterrole=cluster-admin", *accounts)
    until(lambda: plane.kubectl("get", "serviceaccount", "default", f"--namespace={NAMESPACE}"))
    for body, who in STORED:
        plane.kubectl("create", "--filename=-", f"--namespace={NAMESPACE}", *who, input=json.dumps(body))
    for name, status in STATUS.items():
        patch = json.dumps({"status": status})
        plane.kubectl("patch", name, "--subresource=status", "--type=merge", f"--patch={patch}")


def remove_objects(plane: ControlPlane) -> None:
    for name in ("clusterrolebinding/policed-all", *(f"node/{name}" for name in NODE_NAMES), *STATUS):
        plane.kubectl("delete", name, "--ignore-not-found")
    plane.kubectl("delete", "namespace", NAMESPACE, "--wait=false")


def all_in_force(server: Server) -> None:
    """A policy is in force a moment after it was made; each refuses some delete, or a Lease that is not there yet."""
    writes = [
        write for write in FORBIDDEN if write.edit is None and (write.body is None) != write.path.startswith(LEASES)
    ]
    for write in writes:
        if "ValidatingAdmissionPolicy" not in server.attempt(write):
            raise LabError(f"not yet refused: {write.name}")


def make_lease(server: Server) -> None:
    """In earnest: the service does so at its very first start."""
    body = lease("kube-balloons-throttle")
    assert server.attempt(Write("make its Lease", LEASES, body=body), "fieldManager=first") == ""


@pytest.mark.parametrize("write", FORBIDDEN, ids=lambda write: write.name)
def test_the_server_refuses(server: Server, write: Write) -> None:
    refusal = server.attempt(write)
    assert "ValidatingAdmissionPolicy 'kube-balloons-" in refusal
    assert write.says in refusal


@pytest.mark.parametrize("write", LEGAL, ids=lambda write: write.name)
def test_the_server_lets_pass(server: Server, write: Write) -> None:
    assert server.attempt(write) == ""


def test_the_server_finds_nothing_wrong_with_the_expressions(control_plane: ControlPlane, server: Server) -> None:
    """It checks their types in its own time, and writes what it finds into the status."""
    found = json.loads(control_plane.kubectl("get", "validatingadmissionpolicies", "--output=json"))["items"]
    ours = [each for each in found if each["metadata"]["name"].startswith("kube-balloons-")]
    assert len(ours) == 7
    for policy in ours:
        warnings = policy.get("status", {}).get("typeChecking", {}).get("expressionWarnings", [])
        assert warnings == [], policy["metadata"]["name"]


def test_the_tables_are_large_enough() -> None:
    assert len({write.name for write in FORBIDDEN}) == len(FORBIDDEN) >= 40
    assert len({write.name for write in LEGAL}) == len(LEGAL) >= 20


def test_others_are_not_held_to_our_promises(server: Server) -> None:
    strangers = [write for write in FORBIDDEN if write.path.endswith("/foreign") and write.edit is None]
    assert strangers
    for write in strangers:
        assert server.attempt(Write(write.name, write.path, account="default")).count("ValidatingAdmission") == 0
