"""docs/crd-versions.md line by line, on a real API server and with the real Helm: what becomes of CRDs and objects.

The earlier CRDs are today's less some fields and every rule, and with the lever that was taken away since.
"""

import asyncio
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from balloons.api.pool import BalloonPool
from balloons.api.pool_rules import decode_pool
from lab.binaries import find_binary
from lab.controlplane import ControlPlane, ControlPlaneSettings
from lab.errors import LabError
from lab.manifests import CHART
from tests.contract.waiting import until
from tests.crd_and_types import crd_of, schema_of, without_validations
from tests.lab.doc_commands import ROOT, blocks
from throttler.api.throttle_rules import decode_throttle
from throttler.kube.custom_objects import Invalid

pytestmark = [pytest.mark.lab, pytest.mark.helm]

Json = dict[str, Any]
PAGE = "docs/crd-versions.md"
GROUP = "kube-balloons.github.io"
NAMES = ("balloonpools", "jointhrottles")
REMOVED = {
    "type": "object",
    "properties": {"maxHeld": {"type": "integer", "format": "int32", "default": 50, "minimum": 1, "maximum": 500}},
}
POOL_SPEC = {"nodes": {"selector": {"matchLabels": {"example.com/pool": "gpu"}}}, "mode": "Hold", "size": 2}
NEWER_SPEC = {**POOL_SPEC, "template": {"labels": {"team": "ml"}}}
NEWER_SPEC["nodes"] = {**POOL_SPEC["nodes"], "notReadyGrace": "7m"}  # type: ignore[dict-item]
THROTTLE_SPEC = {"preset": "generic", "maxWait": "2m", "levers": {"nodePoolLimits": {}, "certificateApproval": {}}}
WHO = "--set=image.registry=registry.example.com,giveBack.enabled=false"
"""No machine runs the hook's Job here; tests/lab/test_install.py uninstalls with it."""


def earlier_crd(plural: str) -> Json:
    """A CRD as it was, less its rules, which stands for one whose rules were laxer as well."""
    crd: Json = without_validations(crd_of(plural))
    spec = schema_of(crd)["properties"]["spec"]["properties"]
    if plural == "balloonpools":
        del spec["template"], spec["fallbackAfter"], spec["nodes"]["properties"]["notReadyGrace"]
    else:
        spec["levers"]["properties"]["certificateApproval"] = REMOVED
    return crd


class Cluster:
    """A user's kubectl and helm on one API server."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self.plane, self.folder = plane, folder
        (folder / "manifests").symlink_to(ROOT / "manifests")
        self._older = folder / "older" / "kube-balloons"
        shutil.copytree(CHART, self._older)
        for plural in NAMES:
            (self._older / "files" / "crds" / f"{plural}.yaml").write_text(yaml.safe_dump(earlier_crd(plural)))

    def run(self, script: str) -> str:
        """Run it with bash as the page has it; raises LabError with what it prints."""
        tools = os.pathsep.join(str(find_binary(name).parent) for name in ("kubectl", "helm"))
        environment = {
            **os.environ,
            "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
            "KUBECONFIG": str(self.plane.kubeconfig()),
            "KUBECACHEDIR": str(self.plane.directory / "kubectl-cache"),
            "HOME": str(self.folder),
        }
        command = ["bash", "-euo", "pipefail", "-c", script]
        answer = subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, check=False)
        if answer.returncode:
            raise LabError(f"{script}: {answer.stdout}{answer.stderr}")
        return answer.stdout

    def install(self, chart: str = "manifests/chart/kube-balloons", release: str = "kube-balloons", *more: str) -> str:
        where = "--namespace kube-balloons --create-namespace"
        return self.run(f"helm install {release} {chart} {where} {WHO} {' '.join(more)}")

    def uninstall(self) -> None:
        self.run("helm uninstall kube-balloons --namespace kube-balloons --wait")

    def apply(self, kind: str, spec: Json) -> None:
        """As `kubectl apply --server-side`."""
        self.plane.apply(_manifest(kind, spec))

    def apply_by_kubectl(self, kind: str, spec: Json, *how: str) -> None:
        self.plane.kubectl("apply", *how, "--filename=-", input=json.dumps(_manifest(kind, spec)))

    def write_status(self, kind: str, status: Json) -> None:
        """As the service does."""
        self.plane.requests.patch(kind, "default", {"status": status}, "default", "status")

    def read(self, kind: str) -> Json:
        return self.plane.get(kind, "default")

    def apply_crds(self, crds: list[Json]) -> None:
        self.plane.apply(*crds)
        self.until_served(*crds)

    def has_no_crd_of_ours(self) -> None:
        """Raises AssertionError with the conditions of those that are there."""
        crds = self.plane.get("customresourcedefinitions")["items"]
        assert {crd["metadata"]["name"]: crd["status"] for crd in crds if crd["spec"]["group"] == GROUP} == {}

    def until_served(self, *crds: Json) -> None:
        """The schema of each CRD is the one that clients are told: a second or two after it was applied."""
        for crd in crds:
            kind, wanted = crd["spec"]["names"]["kind"], _fields(crd)
            until(lambda kind=kind, wanted=wanted: self._has_fields(kind, wanted))  # type: ignore[misc]

    def _has_fields(self, kind: str, wanted: set[str]) -> None:
        document = self.plane.requests.send("GET", f"/openapi/v3/apis/{GROUP}/v1alpha1")
        # While a group comes or goes its document is there, and nothing is in it.
        schemas = document.get("components", {}).get("schemas", {})
        specs = [part["properties"]["spec"] for name, part in schemas.items() if name.endswith(f".{kind}")]
        assert [_paths(spec) for spec in specs] == [wanted]


def _manifest(kind: str, spec: Json) -> Json:
    namespace = {"namespace": "default"} if kind == "BalloonPool" else {}
    metadata = {"name": "default", **namespace}
    return {"apiVersion": f"{GROUP}/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}


def _fields(crd: Json) -> set[str]:
    return _paths(schema_of(crd)["properties"]["spec"])


def _paths(schema: Json, path: str = "spec") -> set[str]:
    """Every field of a schema, by its path."""
    below = schema.get("properties", {})
    return {path}.union(*(_paths(part, f"{path}.{name}") for name, part in below.items()))


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    one = ControlPlane(ControlPlaneSettings())
    try:
        with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
            runner.run(one.start())
        yield one
    finally:
        one.close()


@pytest.fixture
def cluster(plane: ControlPlane, tmp_path: Path) -> Iterator[Cluster]:
    yield (one := Cluster(plane, tmp_path))
    one.run("helm uninstall kube-balloons --namespace kube-balloons --ignore-not-found")
    crds = " ".join(f"{plural}.{GROUP}" for plural in NAMES)
    one.run(f"kubectl delete crd {crds} --ignore-not-found --wait=false")
    # The API server looks every five seconds whether the objects are gone, and after an error waits longer each time.
    # A finalizer of ours would make this wait for ever.
    until(one.has_no_crd_of_ours, deadline_s=300.0)


def today() -> list[Json]:
    return [crd_of(plural) for plural in NAMES]


def earlier() -> list[Json]:
    return [earlier_crd(plural) for plural in NAMES]


def identity(read: Json) -> tuple[Any, ...]:
    metadata = read["metadata"]
    return metadata["uid"], metadata["generation"], metadata["resourceVersion"], read.get("status")


def test_an_upgrade_leaves_objects_as_they_are_but_for_defaults_and_removed_fields(cluster: Cluster) -> None:
    cluster.install("older/kube-balloons")
    cluster.until_served(*earlier())
    cluster.apply("BalloonPool", POOL_SPEC)
    cluster.apply("JoinThrottle", THROTTLE_SPEC)
    cluster.write_status("balloonpool", {"observedGeneration": 1, "warm": 2})
    cluster.write_status("jointhrottle", {"observedGeneration": 1})
    before = [identity(cluster.read(kind)) for kind in ("balloonpool", "jointhrottle")]
    assert "certificateApproval" in cluster.read("jointhrottle")["spec"]["levers"]

    (upgrade,) = blocks(PAGE, "Upgrade")
    cluster.run(upgrade)
    cluster.until_served(*today())
    pool, throttle = cluster.read("balloonpool"), cluster.read("jointhrottle")
    assert [identity(pool), identity(throttle)] == before
    assert pool["spec"]["nodes"]["notReadyGrace"] == "3m"
    assert pool["spec"]["fallbackAfter"] == "5m"
    assert throttle["spec"]["levers"] == {"headroom": True, "nodePoolLimits": {}}
    assert isinstance(decode_pool(pool), BalloonPool)
    assert not isinstance(decode_throttle(throttle), Invalid)

    # The next write takes it out of the store: it does not come back with the field.
    cluster.write_status("jointhrottle", {"observedGeneration": 2})
    cluster.apply_crds(earlier())
    assert "certificateApproval" not in cluster.read("jointhrottle")["spec"]["levers"]


@pytest.mark.parametrize("how", [(), ("--server-side",)])
def test_a_manifest_with_a_removed_field_is_refused_by_its_name(cluster: Cluster, how: tuple[str, ...]) -> None:
    cluster.apply_crds(today())
    with pytest.raises(LabError, match=r"spec\.levers\.certificateApproval"):
        cluster.apply_by_kubectl("JoinThrottle", THROTTLE_SPEC, *how)


def test_a_spec_that_breaks_a_newer_rule_stays_and_its_status_is_written(cluster: Cluster) -> None:
    cluster.apply_crds(earlier())
    broken = {**POOL_SPEC, "maxSize": 1}
    cluster.apply("BalloonPool", broken)
    cluster.apply_crds(today())
    refused = decode_pool(cluster.read("balloonpool"))
    assert isinstance(refused, Invalid)
    cluster.write_status("balloonpool", {"because": "Invalid", "message": refused.message})
    assert cluster.read("balloonpool")["status"]["because"] == "Invalid"
    cluster.plane.requests.patch(
        "balloonpool", "default", {"metadata": {"annotations": {"example.com/note": "x"}}}, "default", ""
    )
    # The rule is about size and maxSize, and so about the spec as a whole.
    with pytest.raises(LabError, match="size 2 is above maxSize 1"):
        cluster.apply("BalloonPool", {**broken, "paused": True})
    cluster.apply("BalloonPool", {**broken, "maxSize": 4, "paused": True})
    assert isinstance(decode_pool(cluster.read("balloonpool")), BalloonPool)


def test_what_breaks_a_newer_rule_about_one_field_may_stay_while_others_change(cluster: Cluster) -> None:
    cluster.apply_crds(earlier())
    broken = {**POOL_SPEC, "shape": {"slack": {"memory": "much"}}}
    cluster.apply("BalloonPool", broken)
    cluster.apply_crds(today())
    assert isinstance(decode_pool(cluster.read("balloonpool")), Invalid)
    cluster.apply("BalloonPool", {**broken, "paused": True})
    with pytest.raises(LabError, match="slack"):
        cluster.apply("BalloonPool", {**broken, "shape": {"slack": {"memory": "more"}}})
    cluster.apply("BalloonPool", {**broken, "shape": {"slack": {"memory": "1Gi"}}})
    assert isinstance(decode_pool(cluster.read("balloonpool")), BalloonPool)


def test_an_older_service_on_newer_crds_loses_nothing(cluster: Cluster) -> None:
    cluster.install()
    cluster.until_served(*today())
    cluster.apply("BalloonPool", NEWER_SPEC)
    before = cluster.read("balloonpool")
    older, save, apply_saved = blocks(PAGE, "Roll back")
    assert "helm rollback" in save
    assert "saved.yaml" in apply_saved
    cluster.run(older)
    cluster.write_status("balloonpool", {"observedGeneration": 1, "warm": 2})
    assert cluster.read("balloonpool")["spec"] == before["spec"]
    # What that service does not know it does not read: no more than this one reads a field of the next.
    assert isinstance(decode_pool({**before, "spec": {**before["spec"], "newer": {"field": 1}}}), BalloonPool)
    # Upgraded again, they belong to the release again.
    cluster.run(f"{blocks(PAGE, 'Upgrade')[0].strip()} --set crds.enabled=true")
    assert cluster.read("balloonpool")["spec"] == before["spec"]


def test_a_rollback_of_the_crds_loses_what_they_do_not_know_unless_it_is_saved(cluster: Cluster) -> None:
    cluster.install("older/kube-balloons")
    (upgrade,) = blocks(PAGE, "Upgrade")
    cluster.run(upgrade)
    cluster.until_served(*today())
    cluster.apply("BalloonPool", NEWER_SPEC)
    cluster.write_status("balloonpool", {"observedGeneration": 1, "warm": 2})
    before = cluster.read("balloonpool")

    _, save_and_roll_back, apply_saved = blocks(PAGE, "Roll back")
    cluster.run(save_and_roll_back)
    cluster.until_served(*earlier())
    hidden = cluster.read("balloonpool")
    assert "template" not in hidden["spec"]
    assert identity(hidden) == identity(before)
    # A status is a write of the whole object.
    cluster.write_status("balloonpool", {"warm": 1})
    cluster.run(upgrade)
    cluster.until_served(*today())
    lost = cluster.read("balloonpool")
    assert "template" not in lost["spec"]
    assert lost["spec"]["nodes"]["notReadyGrace"] == "3m"
    cluster.run(apply_saved)
    assert cluster.read("balloonpool")["spec"] == before["spec"]
    assert cluster.read("balloonpool")["status"]["warm"] == 1


def test_kept_crds_are_taken_back_by_the_same_release(cluster: Cluster) -> None:
    cluster.install("older/kube-balloons")
    cluster.until_served(*earlier())
    cluster.apply("BalloonPool", POOL_SPEC)
    cluster.write_status("balloonpool", {"observedGeneration": 1, "warm": 2})
    before = identity(cluster.read("balloonpool"))
    cluster.uninstall()
    assert identity(cluster.read("balloonpool")) == before
    cluster.install()
    cluster.until_served(*today())
    assert identity(cluster.read("balloonpool")) == before
    assert cluster.read("balloonpool")["spec"]["fallbackAfter"] == "5m"


@pytest.mark.parametrize("who", ["another release", "kubectl"])
def test_crds_of_somebody_else_are_refused_and_can_be_taken(cluster: Cluster, who: str) -> None:
    if who == "kubectl":
        cluster.apply_crds(today())
    else:
        cluster.install()
        cluster.until_served(*today())
        cluster.uninstall()
    cluster.apply("BalloonPool", POOL_SPEC)
    before = identity(cluster.read("balloonpool"))
    name = "kube-balloons" if who == "kubectl" else "warm"
    with pytest.raises(LabError, match="invalid ownership metadata"):
        cluster.install("manifests/chart/kube-balloons", name)
    cluster.install("manifests/chart/kube-balloons", name, "--set crds.enabled=false")
    cluster.run(f"helm uninstall {name} --namespace kube-balloons --wait")
    cluster.install("manifests/chart/kube-balloons", name, "--take-ownership")
    assert identity(cluster.read("balloonpool")) == before
    cluster.run(f"helm uninstall {name} --namespace kube-balloons --wait")
    assert identity(cluster.read("balloonpool")) == before


def test_from_helm_to_overlays_fields_are_taken_once(cluster: Cluster) -> None:
    cluster.install("older/kube-balloons")
    cluster.until_served(*earlier())
    cluster.apply("BalloonPool", POOL_SPEC)
    before = identity(cluster.read("balloonpool"))
    cluster.uninstall()
    plain = "kubectl apply --server-side -k manifests/crds"
    with pytest.raises(LabError, match="conflict"):
        cluster.run(plain)
    cluster.run(plain.replace("-k", "--force-conflicts -k"))
    cluster.run(plain)
    cluster.until_served(*today())
    assert identity(cluster.read("balloonpool")) == before


def test_keep_holds_from_the_next_upgrade_on(cluster: Cluster) -> None:
    cluster.install()
    cluster.until_served(*today())
    cluster.apply("BalloonPool", POOL_SPEC)
    upgrade = blocks(PAGE, "Upgrade")[0].strip()
    cluster.run(f"{upgrade} --set crds.enabled=false")
    assert cluster.read("balloonpool")["spec"]["size"] == 2
    cluster.run(f"{upgrade} --set crds.enabled=true,crds.keep=false")
    assert cluster.read("balloonpool")["spec"]["size"] == 2
    cluster.uninstall()
    _has_no_crd(cluster)


def test_disabled_without_keep_they_are_deleted(cluster: Cluster) -> None:
    cluster.install("manifests/chart/kube-balloons", "kube-balloons", "--set crds.keep=false")
    cluster.run(f"{blocks(PAGE, 'Upgrade')[0].strip()} --set crds.enabled=false")
    until(lambda: _has_no_crd(cluster))


def _has_no_crd(cluster: Cluster) -> None:
    crds = cluster.plane.get("customresourcedefinitions")["items"]
    assert GROUP not in {crd["spec"]["group"] for crd in crds}


def test_an_overlay_is_deleted_with_the_crds_and_their_objects(cluster: Cluster) -> None:
    cluster.run("kubectl apply --server-side -k manifests/overlays/default")
    until(lambda: cluster.apply("BalloonPool", POOL_SPEC))
    cluster.run("kubectl delete --ignore-not-found -k manifests/overlays/default --timeout=300s")
    _has_no_crd(cluster)
