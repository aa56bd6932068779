"""The examples of docs/jointhrottle.md, what kubectl shows of a throttle, and the rights that its levers need."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from balloons.cli.status_text import THROTTLE_COLUMNS
from lab.controlplane import ControlPlane
from lab.errors import LabError
from tests.contract.waiting import reviewed, until
from throttler.api.throttle import JoinThrottle, Levers
from throttler.api.throttle_rules import decode_throttle

PAGE = Path(__file__).parents[2] / "docs" / "jointhrottle.md"
MANIFESTS = Path(__file__).parents[2] / "manifests"
EXAMPLES = [yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)]


def name_of(manifest: dict[str, Any]) -> str:
    return str(manifest["metadata"]["name"])


def test_the_page_shows_every_lever() -> None:
    assert len(EXAMPLES) >= 4
    levers = {lever for example in EXAMPLES for lever in example["spec"].get("levers", {})}
    assert levers >= set(Levers.__struct_encode_fields__) - {"headroom"}


@pytest.mark.parametrize("example", EXAMPLES, ids=name_of)
def test_the_server_stores_the_example_and_the_service_reads_it(
    control_plane: ControlPlane, jointhrottle_crd: str, example: dict[str, Any]
) -> None:
    create = ("create", "--dry-run=server", "--output=json", "--filename=-")
    throttle = decode_throttle(control_plane.kubectl(*create, input=json.dumps(example)).encode())
    assert isinstance(throttle, JoinThrottle), throttle
    # The server fills in the defaults that the types have: both readings are of the same throttle.
    plain = decode_throttle(example)
    assert isinstance(plain, JoinThrottle), plain
    assert throttle.spec == plain.spec


def test_a_lever_that_is_no_more_is_named_by_whoever_checks_fields(
    control_plane: ControlPlane, jointhrottle_crd: str
) -> None:
    levers = {
        "startupTaint": {"key": "startup-taint.cluster-autoscaler.kubernetes.io/new"},
        "certificateApproval": {"maxHeld": 20},
    }
    manifest = json.dumps({**EXAMPLES[0], "spec": {"maxWait": "3m", "levers": levers}})
    create = ("create", "--dry-run=server", "--output=json", "--filename=-")
    with pytest.raises(LabError, match=r'unknown field "spec\.levers\.certificateApproval"'):
        control_plane.kubectl(*create, input=manifest)
    stored = json.loads(control_plane.kubectl(*create, "--validate=ignore", input=manifest))
    assert stored["spec"]["levers"].keys() == {"headroom", "startupTaint"}


def test_a_status_shows_in_kubectl_and_can_be_waited_for(control_plane: ControlPlane, jointhrottle_crd: str) -> None:
    manifest = {**EXAMPLES[0], "metadata": {"name": "shown"}}
    control_plane.kubectl("apply", "--filename=-", input=json.dumps(manifest))
    condition = {"type": "Ready", "status": "True", "reason": "NoDemand", "message": "ok", "observedGeneration": 1}
    status = {
        "observedGeneration": 1,
        "phase": "Avoid",
        "pacePerMinute": 31,
        "inFlight": 12,
        "waiting": 40,
        "window": 16,
        "because": "NoDemand",
        "learned": {"window": 33, "learnedAt": "2026-11-21T06:00:00Z"},
        "levers": [{"name": "NodePool/gpu", "state": "Confirmed"}],
        "conditions": [condition],
    }
    body = {**{key: manifest[key] for key in ("apiVersion", "kind", "metadata")}, "status": status}
    server_side = ("--server-side", "--subresource=status", "--field-manager=service")
    try:
        control_plane.kubectl("apply", *server_side, "--filename=-", input=json.dumps(body))
        control_plane.kubectl("wait", "jt/shown", "--for=condition=Ready", "--timeout=180s")
        shown = control_plane.kubectl("get", "jt", "shown")
        stored = decode_throttle(control_plane.kubectl("get", "jt", "shown", "--output=json").encode())
        assert "shown" in control_plane.kubectl("get", "balloons")
    finally:
        control_plane.kubectl("delete", "jt", "shown")
    header, row = (line.split() for line in shown.splitlines())
    assert tuple(header) == THROTTLE_COLUMNS
    cells = dict(zip(header, row, strict=True))
    assert [cells[name] for name in ("NAME", "PACE", "INFLIGHT", "WAITING")] == ["shown", "31", "12", "40"]
    assert [cells[name] for name in ("PHASE", "READY", "BECAUSE")] == ["Avoid", "True", "NoDemand"]
    assert isinstance(stored, JoinThrottle)
    assert (stored.status.learned.window, stored.metadata.generation) == (33, 1)


def test_kubectl_explains_every_field(control_plane: ControlPlane, jointhrottle_crd: str) -> None:
    text = control_plane.kubectl("explain", "jointhrottle.spec", "--recursive")
    for field in ("safePerMinute", "demandAtMost", "killTimer", "nodePoolLimits", "startupTaint", "dryRun"):
        assert field in text
    assert "Where the service reads the load" in control_plane.kubectl("explain", "jt.spec.signals")


LEVERS = {
    "capacity-quota": [("patch", "autoscaling.x-k8s.io", "capacityquotas", "")],
    "node-pools": [("patch", "karpenter.sh", "nodepools", "")],
    "machine-deployments": [("patch", "cluster.x-k8s.io", "machinedeployments", "")],
    "scheduling-gates": [("patch", "", "pods", "")],
    "nodes": [("patch", "", "nodes", "")],
}
READS = [
    ("watch", "kube-balloons.github.io", "jointhrottles", ""),
    ("patch", "kube-balloons.github.io", "jointhrottles/status", ""),
    ("watch", "apps", "daemonsets", ""),
    ("watch", "karpenter.sh", "nodeclaims", ""),
    ("watch", "autoscaling.x-k8s.io", "capacityquotas", ""),
    ("watch", "cluster.x-k8s.io", "machinedeployments", ""),
    ("get", "", "/metrics", ""),
]


def allowed(plane: ControlPlane, account: str, rights: list[tuple[str, str, str, str]]) -> list[bool]:
    """What the API server itself says about rights of one of our accounts."""
    user = f"system:serviceaccount:kube-balloons:{account}"
    return reviewed(plane, [{"user": user, **attributes(*right)} for right in rights])


def attributes(verb: str, group: str, kind: str, name: str) -> dict[str, Any]:
    resource, _, subresource = kind.partition("/")
    named = {"group": group, "resource": resource, "subresource": subresource, "name": name}
    asked = {"nonResourceAttributes": {"path": kind}} if kind.startswith("/") else {"resourceAttributes": named}
    next(iter(asked.values()))["verb"] = verb
    return asked


def test_levers_have_their_right_only_where_it_was_bound(control_plane: ControlPlane) -> None:
    def is_allowed(rights: list[tuple[str, str, str, str]]) -> None:
        """The server takes up a binding a moment after it was made."""
        assert all(allowed(control_plane, "kube-balloons", rights)), rights

    control_plane.kubectl("apply", "--kustomize", f"{MANIFESTS}/base")
    until(lambda: is_allowed(READS))
    for file, rights in LEVERS.items():
        assert not any(allowed(control_plane, "kube-balloons", rights)), file
        control_plane.kubectl("apply", "--kustomize", f"{MANIFESTS}/levers/{file}")
        try:
            until(lambda rights=rights: is_allowed(rights))  # type: ignore[misc]
        finally:
            control_plane.kubectl("delete", "--kustomize", f"{MANIFESTS}/levers/{file}")
