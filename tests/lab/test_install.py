"""README and what the pages say of installing and removing, by Helm, with Karpenter, cluster-autoscaler or neither.

cluster-autoscaler is the binary that CLUSTER_AUTOSCALER names, on simulated node groups; skipped without one.
"""

import os
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from benchmarks.removal.scene import HOST_TAINT, HOSTS
from benchmarks.removal.ways import Shell
from lab.cloud.json_api import JsonApi
from lab.cloud.karpenter import start_karpenter
from lab.cloud.machines import PaperNode, ProcessPods
from lab.cloud.nodegroups import NOT_GIVEN, NodeGroup, NodeGroupsSettings, start_cluster_autoscaler, start_node_groups
from lab.cloud.nodegroups.autoscaler import VARIABLE
from lab.controlplane import ControlPlane, ControlPlaneSettings, start_control_plane
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


@asynccontextmanager
async def cluster_autoscaler(plane: ControlPlane) -> AsyncIterator[None]:
    """The real one, with a group that is empty."""
    group = NodeGroup(name="workers", max_size=8, cpu_millis=8000, memory_mib=32768)
    async with (
        start_node_groups(plane, NodeGroupsSettings(groups=(group,))) as server,
        start_cluster_autoscaler(plane, server),
    ):
        yield


async def follow_helm(shell: Shell, api: JsonApi) -> None:
    """README, then the test, then the removal."""
    use, _ = blocks("README.md", "Install")
    await shell.run(tolerating(use))
    await until("two nodes are warm", lambda: is_warm(api))
    print(await shell.run(blocks("docs/install.md", "With Helm")[0].splitlines()[-1]))
    uninstall = blocks("docs/upgrade-and-uninstall.md", "Uninstall")[0]
    await shell.run(uninstall)
    assert (
        await api.items("/apis/apps/v1/namespaces/kube-balloons/deployments?labelSelector=app.kubernetes.io/name") == []
    )


async def is_warm(api: JsonApi) -> bool:
    status = (await api.get(POOL) or {}).get("status", {})
    return bool(status.get("warm") == 2)


Present = Callable[[ControlPlane], AbstractAsyncContextManager[Any]]


@pytest.mark.parametrize(
    "present",
    [
        pytest.param(start_karpenter, id="karpenter"),
        pytest.param(
            cluster_autoscaler,
            id="cluster-autoscaler",
            marks=pytest.mark.skipif(VARIABLE not in os.environ, reason=NOT_GIVEN),
        ),
        pytest.param(nullcontext, id="neither"),
    ],
)
async def test_with(present: Present, tmp_path: Path) -> None:
    async with cluster(tmp_path) as (plane, shell, api), present(plane):
        await follow_helm(shell, api)
