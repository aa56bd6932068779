"""README and docs/install.md followed to the letter, by Helm, on a cluster with Karpenter."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from benchmarks.removal.scene import HOST_TAINT, HOSTS
from benchmarks.removal.ways import Shell
from lab.clouds.json_api import JsonApi
from lab.controlplane import ControlPlane, ControlPlaneSettings, start_control_plane
from lab.karpenter import start_karpenter
from lab.machines import PaperNode, ProcessPods
from tests.lab.cluster_view import until
from tests.lab.doc_commands import ROOT, blocks, idle_nodes, tolerating

pytestmark = [pytest.mark.lab, pytest.mark.helm]

POOL = "/apis/kube-balloons.github.io/v1alpha1/namespaces/kube-balloons/balloonpools/gpu"


@asynccontextmanager
async def cluster(folder: Path) -> AsyncIterator[tuple[ControlPlane, Shell, JsonApi]]:
    """Three hosts, two idle nodes of the pool that README keeps warm, and a clone of the repository to stand in."""
    async with (
        start_control_plane(ControlPlaneSettings(audit=True)) as plane,
        JsonApi(plane.access()) as api,
        ProcessPods(plane) as machines,
    ):
        await machines.add([PaperNode(name=name, taints=(HOST_TAINT,)) for name in HOSTS])
        await machines.add(idle_nodes())
        (folder / "manifests").symlink_to(ROOT / "manifests")
        yield plane, Shell(plane, folder), api


async def follow_helm(shell: Shell, api: JsonApi) -> None:
    """README, then the test, then the removal of docs/install.md."""
    use, _ = blocks("README.md", "Use it")
    await shell.run(tolerating(use))
    await until("two nodes are warm", lambda: is_warm(api))
    print(await shell.run(blocks("docs/install.md", "With Helm")[0].splitlines()[-1]))
    uninstall = blocks("docs/install.md", "Uninstall")[0]
    await shell.run(uninstall)
    assert (
        await api.items("/apis/apps/v1/namespaces/kube-balloons/deployments?labelSelector=app.kubernetes.io/name") == []
    )


async def is_warm(api: JsonApi) -> bool:
    status = (await api.get(POOL) or {}).get("status", {})
    return bool(status.get("warm") == 2)


async def test_with_karpenter(tmp_path: Path) -> None:
    async with cluster(tmp_path) as (plane, shell, api), start_karpenter(plane):
        await follow_helm(shell, api)
