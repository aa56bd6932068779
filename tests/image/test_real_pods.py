"""Our own image, by our own chart, on real kubelets: `make image-test` builds the image first.

Skipped, with the reason, where there is no image, no root or no containerd.
"""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from benchmarks.removal.ways import Shell
from lab.clouds.json_api import Json, JsonApi
from lab.controlplane import ControlPlane, ControlPlaneSettings, start_control_plane
from lab.image.command import ARCHIVE, NAME, ROOT, SANDBOX_ARCHIVE
from lab.machines import PaperMachines
from lab.machines.real import RealNodes, why_not
from tests.lab.cluster_view import until
from tests.lab.doc_commands import blocks, idle_nodes, tolerating

ARCHIVES = [ROOT / "dist" / name for name in (ARCHIVE, SANDBOX_ARCHIVE)]
NOT_HERE = why_not() or ("" if all(each.exists() for each in ARCHIVES) else "there is no image: make image-test")
pytestmark = [pytest.mark.lab, pytest.mark.helm, pytest.mark.skipif(bool(NOT_HERE), reason=NOT_HERE)]

PODS = "/api/v1/namespaces/kube-balloons/pods"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-balloons/leases/kube-balloons-throttle"
POOL = "/apis/kube-balloons.github.io/v1alpha1/namespaces/kube-balloons/balloonpools/gpu"
NEWER = "localhost/kube-balloons:0.1.1"
CHART = "kube-balloons manifests/chart/kube-balloons --namespace kube-balloons"


@dataclass(frozen=True)
class Cluster:
    """Two real nodes, and two on paper that are to be kept warm."""

    plane: ControlPlane
    api: JsonApi
    shell: Shell
    nodes: RealNodes

    async def replicas(self) -> list[Json]:
        found = await self.api.items(f"{PODS}?labelSelector=app.kubernetes.io%2Fname%3Dkube-balloons")
        return [each for each in found if "deletionTimestamp" not in each["metadata"]]

    async def leader(self) -> str:
        return str(((await self.api.get(LEASE)) or {}).get("spec", {}).get("holderIdentity") or "")

    async def until_rolled_out(self) -> None:
        for name in ("kube-balloons", "kube-balloons-guard"):
            await self.shell.run(f"kubectl -n kube-balloons rollout status deployment/{name} --timeout=150s")

    async def until_warm(self, count: int) -> None:
        async def is_warm() -> bool:
            return bool(((await self.api.get(POOL)) or {}).get("status", {}).get("warm") == count)

        await until(f"{count} nodes are warm", is_warm)


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    """It says what kubelets, containerd and containers said when it cannot be had."""
    async with (
        start_control_plane(ControlPlaneSettings(audit=True)) as plane,
        JsonApi(plane.access()) as api,
        PaperMachines(plane.access()) as paper,
        RealNodes(plane, *ARCHIVES) as nodes,
    ):
        for name in ("real-a", "real-b"):
            await nodes.start(name)
        await paper.add(idle_nodes())
        (tmp_path / "manifests").symlink_to(ROOT / "manifests")
        try:
            yield Cluster(plane, api, Shell(plane, tmp_path), nodes)
        except BaseException:
            print(nodes.logs())
            raise


async def test_it_runs_is_updated_and_goes(cluster: Cluster) -> None:
    api, shell = cluster.api, cluster.shell
    cluster.nodes.tag(NAME, NEWER)
    use, _ = blocks("README.md", "Use it")
    install, pool = tolerating(use.replace("registry.example.com", "localhost")).split("kubectl apply", 1)
    try:
        await shell.run(install)
        await shell.run("kubectl label namespace kube-balloons pod-security.kubernetes.io/enforce=restricted")
        await cluster.until_rolled_out()
    except BaseException:
        print(await shell.run("kubectl -n kube-balloons get pods,events"), cluster.nodes.logs())
        raise
    first = await cluster.replicas()
    assert sorted(each["spec"]["nodeName"] for each in first) == ["real-a", "real-b"]
    await shell.run(f"kubectl apply{pool}")
    await cluster.until_warm(2)
    print(await shell.run("helm test kube-balloons --namespace kube-balloons --timeout 120s"))

    # The leader is deleted: another leads, and the Deployment makes up for it.
    leader = await cluster.leader()
    name = next(each["metadata"]["name"] for each in first if each["metadata"]["name"] in leader)
    await shell.run(f"kubectl -n kube-balloons delete pod {name} --wait=false")
    await until("another leads", lambda: _leads_another(cluster, leader))
    await cluster.until_rolled_out()

    # Another image, one replica after the other, and back.
    await shell.run(f"helm upgrade {CHART} --reset-then-reuse-values --set image.tag=0.1.1")
    await cluster.until_rolled_out()
    assert {each["spec"]["containers"][0]["image"] for each in await cluster.replicas()} == {NEWER}
    await shell.run("helm rollback kube-balloons 1 --namespace kube-balloons")
    await cluster.until_rolled_out()
    assert {each["spec"]["containers"][0]["image"] for each in await cluster.replicas()} == {NAME}
    await cluster.until_warm(2)

    for each in await cluster.replicas():
        status = each["status"]["containerStatuses"][0]
        assert status["restartCount"] == 0, json.dumps(status)
    await shell.run(blocks("docs/install.md", "Uninstall")[0])
    await until("nothing of ours runs", lambda: _is_gone(api))


async def _leads_another(cluster: Cluster, before: str) -> bool:
    now = await cluster.leader()
    return bool(now) and now != before


async def _is_gone(api: JsonApi) -> bool:
    pods = await api.items(PODS)
    return not [each for each in pods if each["metadata"]["name"].startswith("kube-balloons-")]
