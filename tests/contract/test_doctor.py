"""The doctor's cases on the real API server: what it accepts, refuses and adds changes no finding."""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from balloons.cluster import kinds
from balloons.cluster.kinds import Kind
from balloons.doctor.diagnose import ALL_CHECKS, diagnose
from lab.binaries import find_karpenter_crds
from lab.cloud.nodegroups import install_capacity_quotas
from lab.controlplane import ControlPlane
from lab.errors import LabError
from tests.contract.waiting import serve, until
from tests.doctor_cases import CASES, Case, Cluster, room
from tests.seen_clusters import cluster

pytestmark = pytest.mark.lab

CHECKS = {check.code: check for check in ALL_CHECKS}
STORED = [case for case in CASES if case.is_stored]


@pytest.fixture(scope="module")
def served(control_plane: ControlPlane, balloonpool_crd: str, jointhrottle_crd: str) -> ControlPlane:
    serve(control_plane, find_karpenter_crds())
    asyncio.run(install_capacity_quotas(control_plane))
    control_plane.kubectl(
        "apply", "-f", "-", input='{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"kube-balloons"}}'
    )
    return control_plane


@pytest.mark.parametrize("case", STORED, ids=lambda case: case.code)
def test_failing_objects_can_be_stored_and_are_found(case: Case, served: ControlPlane) -> None:
    (finding,) = diagnose(as_stored(served, case.failing), [CHECKS[case.code]]).findings
    assert case.words in finding.trouble.sentence


@pytest.mark.parametrize("case", STORED, ids=lambda case: case.code)
def test_passing_objects_can_be_stored_and_are_not(case: Case, served: ControlPlane) -> None:
    assert diagnose(as_stored(served, case.passing), [CHECKS[case.code]]).findings == ()


def test_live_and_dump_agree_byte_for_byte(served: ControlPlane, tmp_path: Path) -> None:
    kept = [{**manifest(kind, thing)} for kind, things in room(-11).items() for thing in things]
    kept[1]["spec"]["replicas"] = 0
    served.kubectl("apply", "--server-side", "-f", "-", input=as_list(kept))
    # Other tests of this server leave it held by nobody who renews it, and the doctor tells its age in seconds.
    for namespace in ("kube-balloons", "default"):
        served.kubectl("delete", "lease", kinds.OWN_LEASE, f"--namespace={namespace}", "--ignore-not-found")
    config, dump = str(served.kubeconfig()), str(tmp_path / "dump.tar.gz")

    live: dict[str, str] = {}

    def stands_still() -> None:
        """What earlier tests left may still be on its way out, and differ from one reading to the next."""
        before = balloons("doctor", "-o", "json", "--kubeconfig", config).stdout
        balloons("dump", dump, "--kubeconfig", config)
        for how in ("wide", "json"):
            live[how] = balloons("doctor", "-o", how, "--kubeconfig", config).stdout
        assert live["json"] == before

    until(stands_still)
    assert {how: balloons("doctor", "-o", how, "--from", dump).stdout for how in live} == live
    assert "KB001" in {each["code"] for each in json.loads(live["json"])["findings"]}
    served.kubectl("delete", "deployment/room", "--namespace=default", "--wait=false")
    served.kubectl("delete", "priorityclass/low")


def test_it_reads_as_itself_and_never_a_secret(served: ControlPlane) -> None:
    agent = "kube-balloons-cli/"
    earlier = len(list(served.audit_events(agent)))
    shown = balloons("doctor", "-v", "--kubeconfig", str(served.kubeconfig()))
    assert "list nodes: 200" in shown.stderr
    events = list(served.audit_events(agent))[earlier:]
    ours = [event for event in events if event.get("userAgent", "").startswith(agent)]
    assert ours
    assert all(event["userAgent"].endswith("(doctor)") for event in ours)
    assert {each["verb"] for each in ours} == {"list", "get"}
    assert "secrets" not in {each.get("objectRef", {}).get("resource") for each in ours}


def test_a_viewer_sees_what_he_may_and_is_told_the_rest(served: ControlPlane) -> None:
    served.kubectl("create", "clusterrolebinding", "doctor-viewer", "--clusterrole=view", "--user=vera")
    shown = balloons("doctor", "--kubeconfig", str(served.kubeconfig_for("vera")))
    assert shown.returncode == 0
    assert "nodes not seen (not allowed" in shown.stderr
    assert "skipped: " in shown.stderr
    served.kubectl("delete", "clusterrolebinding", "doctor-viewer")


def test_a_waiting_pod_is_explained_by_the_schedulers_own_event(served: ControlPlane, namespace: str) -> None:
    wish = {"name": "main", "image": "pause", "resources": {"requests": {"cpu": "1000"}}}
    thing = {"metadata": {"name": "waits", "namespace": namespace}, "spec": {"containers": [wish]}}
    served.kubectl("create", "-f", "-", input=json.dumps(manifest(kinds.PODS, thing)))
    told = explained(served, namespace)
    assert told["steps"][0]["step"] == "created"
    assert told["now"].startswith("waiting for a node: ")
    assert balloons("explain", "node", "nowhere", "--kubeconfig", str(served.kubeconfig()), check=False).returncode == 2


def explained(plane: ControlPlane, namespace: str) -> Any:
    """Once the scheduler has said why."""
    deadline = time.monotonic() + 180
    while time.monotonic() < deadline:
        config = str(plane.kubeconfig())
        found = json.loads(balloons("explain", "pod", "waits", "-o", "json", "--kubeconfig", config).stdout)
        if any(step["because"] == "FailedScheduling" for step in found["steps"]):
            return found
        time.sleep(1)
    raise AssertionError(f"no event: {found}")


def as_stored(plane: ControlPlane, objects: Cluster) -> Any:
    """The cluster as the server would have it: every object validated, completed and answered, and none kept."""
    return cluster(
        {kind: [] for kind in kinds.ALL_KINDS}
        | {kind: [answered(plane, kind, thing) for thing in things] for kind, things in objects.items()}
    )


def answered(plane: ControlPlane, kind: Kind, thing: Mapping[str, Any]) -> dict[str, Any]:
    """What users give as the server completes it; what controllers and time would add, from the case."""
    found = tried(plane, manifest(kind, thing))
    for key in ("creationTimestamp", "generation"):
        if key in thing["metadata"]:
            found["metadata"][key] = thing["metadata"][key]
    return found | ({"status": thing["status"]} if "status" in thing else {})


def tried(plane: ControlPlane, given: Mapping[str, Any]) -> dict[str, Any]:
    """The answer to a creation that is not kept; under another name where other tests left an object of that name."""
    try:
        found = plane.try_to_create(given)
    except LabError as error:
        if "AlreadyExists" not in str(error):
            raise
        name = given["metadata"]["name"]
        other = {**given, "metadata": {**given["metadata"], "name": f"{name}-too"}}
        found = plane.try_to_create(other)
        found["metadata"]["name"] = name
    return found


def manifest(kind: Kind, thing: Mapping[str, Any]) -> dict[str, Any]:
    version = "v1alpha1" if kind is kinds.QUOTAS else kind.versions[0]
    return {"apiVersion": f"{kind.group}/{version}".lstrip("/"), "kind": kind.kind, **thing}


def as_list(things: list[dict[str, Any]]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": things})


def balloons(*arguments: str, check: bool = True) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "balloons", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=check, timeout=120)
