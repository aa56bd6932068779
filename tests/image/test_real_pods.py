"""Our own image, by our own chart, on real kubelets: `make image-test` builds the image first.

Skipped, with the reason, where there is no image, no root or no containerd.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from benchmarks.removal.judge import differences, touched
from benchmarks.removal.trial import QUIET_S
from benchmarks.removal.ways import LEVERS
from lab.cloud.machines.real import why_not
from lab.image.command import ARCHIVE, NAME, ROOT, SANDBOX_ARCHIVE
from tests.image.real_cluster import HOSTS, PODS, Cluster, real_cluster
from tests.lab.cluster_view import until
from tests.lab.doc_commands import blocks, tolerating

ARCHIVES = [ROOT / "dist" / name for name in (ARCHIVE, SANDBOX_ARCHIVE)]
NOT_HERE = why_not() or ("" if all(each.exists() for each in ARCHIVES) else "there is no image: make image-test")
pytestmark = [
    pytest.mark.lab,
    pytest.mark.helm,
    pytest.mark.promtool,
    pytest.mark.skipif(bool(NOT_HERE), reason=NOT_HERE),
    pytest.mark.timeout(1200),
]

NEWER = "localhost/kube-balloons:0.1.1"
UPGRADE = (
    "helm upgrade kube-balloons manifests/chart/kube-balloons --namespace kube-balloons --reset-then-reuse-values --set"
)


async def test_it_runs_is_updated_and_goes(tmp_path: Path) -> None:
    async with real_cluster(tmp_path, *ARCHIVES) as cluster:
        cluster.nodes.tag(NAME, NEWER)
        for step in (is_installed, survives_the_loss_of_its_leader, is_updated_and_back, is_removed_in_mid_ramp):
            await step(cluster)
            print(f"{step.__name__}: done")


async def is_installed(cluster: Cluster) -> None:
    """By README, in a namespace that enforces `restricted`: they elect, decide, and are scraped."""
    use, _ = blocks("README.md", "Install")
    install, pool = tolerating(use.replace("registry.example.com", "localhost")).split("kubectl apply", 1)
    await cluster.shell.run(install)
    await cluster.shell.run("kubectl label namespace kube-balloons pod-security.kubernetes.io/enforce=restricted")
    await cluster.until_rolled_out()
    assert sorted(each["spec"]["nodeName"] for each in await cluster.replicas()) == list(HOSTS)
    await cluster.shell.run(f"kubectl apply{pool}")
    await cluster.until_warm(2)
    await cluster.shell.run("helm test kube-balloons --namespace kube-balloons --timeout 120s")
    await cluster.until_scraped("sum(up)", 2)
    await cluster.until_scraped("sum(kube_balloons_leader)", 1)
    await cluster.until_scraped("max(kube_balloons_pool_warm_nodes)", 2)


async def survives_the_loss_of_its_leader(cluster: Cluster) -> None:
    """Its pod is deleted: another leads, and the Deployment makes up for it."""
    leader = await cluster.leader()
    await cluster.shell.run(f"kubectl -n kube-balloons delete pod {leader} --wait=false")
    await until("another leads", _leads_another(cluster, leader))
    await cluster.until_rolled_out()
    await cluster.until_warm(2)


async def is_updated_and_back(cluster: Cluster) -> None:
    """To another image, one replica after the other, and back: no container ends by itself, no alert fires."""
    await cluster.shell.run(f"{UPGRADE} image.tag={NEWER.rpartition(':')[2]}")
    await cluster.until_rolled_out()
    assert await cluster.images() == {NEWER}
    await cluster.shell.run("helm rollback kube-balloons 1 --namespace kube-balloons")
    await cluster.until_rolled_out()
    assert await cluster.images() == {NAME}
    await cluster.until_warm(2)
    for each in await cluster.replicas():
        status = each["status"]["containerStatuses"][0]
        assert status["restartCount"] == 0, json.dumps(status)
    await cluster.until_scraped("sum(up)", 2)
    assert await cluster.ask_prometheus('ALERTS{alertstate="firing"}') == []


async def is_removed_in_mid_ramp(cluster: Cluster) -> None:
    """With every lever in force `helm uninstall` leaves every object of a user's as it was before the ramp."""
    scene = cluster.scene
    await scene.put_quota()
    before = await scene.traces()
    await cluster.shell.run(f"{UPGRADE} {','.join(f'levers.{name}=true' for name in LEVERS)}")
    await cluster.until_rolled_out()
    await scene.begin_ramp()
    await scene.end_ramp()
    held = await scene.marks()
    print(f"in force: {held}")
    await cluster.shell.run(blocks("docs/upgrade-and-uninstall.md", "Uninstall")[0])
    await until("nothing of ours runs", lambda: _is_gone(cluster))
    await asyncio.sleep(QUIET_S)
    assert differences(before, await scene.traces()) == []
    assert list((await scene.marks()).words()) == []
    kinds = {name.partition("/")[0] for name in touched(cluster.plane.audit_events())}
    assert kinds == {"nodepools", "capacityquotas", "nodes", "pods"}, "each lever was moved, as the audit log says"


def _leads_another(cluster: Cluster, before: str) -> Callable[[], Awaitable[bool]]:
    async def leads() -> bool:
        return await cluster.leader() not in ("", before)

    return leads


async def _is_gone(cluster: Cluster) -> bool:
    pods = await cluster.api.items(PODS)
    return not [each for each in pods if each["metadata"]["name"].startswith("kube-balloons-")]
