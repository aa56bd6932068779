"""The real Karpenter buys machines for pending pods; they boot, join, fail and run out as they are told."""

from collections.abc import AsyncIterator
from datetime import datetime

import pytest

from lab.cloud import BootTime
from lab.cloud.json_api import Json, JsonApi
from lab.cloud.karpenter import HOLLOW_GPU, Karpenter, KarpenterSettings, NodePoolSettings, paper_type, start_karpenter
from lab.cloud.karpenter.karpenter import has_condition
from lab.controlplane import ControllerManagerSettings, ControlPlane, ControlPlaneSettings, start_control_plane
from tests.lab.cluster_view import ClusterView, deployment, throughout, until

pytestmark = pytest.mark.lab

EIGHT_CORES = paper_type("paper-8", cores=8, memory_gib=32)
WHOLE_NODE = "7"
STARTUP_TAINT = {"key": "lab/preparing", "value": "true", "effect": "NoSchedule"}


@pytest.fixture
async def plane() -> AsyncIterator[ControlPlane]:
    """A plane of one's own: Karpenter leaves NodeClaims behind. It notices dead machines sooner than usual."""
    manager = ControllerManagerSettings(node_monitor_grace_period_s=20)
    async with start_control_plane(ControlPlaneSettings(controller_manager=manager)) as plane:
        yield plane


@pytest.fixture
async def view(plane: ControlPlane) -> AsyncIterator[ClusterView]:
    async with JsonApi(plane.access()) as api:
        yield ClusterView(api)


async def test_pending_whole_node_pods_get_machines_that_boot_first(plane: ControlPlane, view: ClusterView) -> None:
    boot_s = 6
    settings = KarpenterSettings(instance_types=(EIGHT_CORES,), boot_time=BootTime(median_s=boot_s, jitter=0))
    async with start_karpenter(plane, settings) as karpenter:
        await view.deploy(deployment("work", 3, WHOLE_NODE))
        await until("3 machines are ordered", lambda: _has_ordered(karpenter, 3))
        await view.wait_running("work", 3)
        assert set((await view.node_of("work")).values()) == set(karpenter.cloud.running)
        await until("every NodeClaim is Initialized", lambda: view.are_initialized(3))
        claims = await view.claims()
        for name, node in (await view.nodes()).items():
            waited_s = _created_s(node) - _created_s(claims[name])
            assert waited_s > boot_s - 1, (
                "a Node appears when its machine has booted, not before; times are whole seconds"
            )


async def test_hollow_kubelets_take_over_gpu_nodes_with_their_startup_taint(
    plane: ControlPlane, view: ClusterView
) -> None:
    pool = NodePoolSettings(labels={"team": "red"}, startup_taints=(STARTUP_TAINT,))
    settings = KarpenterSettings(node_pools=(pool,), instance_types=(HOLLOW_GPU,), boot_time=BootTime(median_s=1))
    gpus = {"name": "work", "image": "registry.invalid/work", "resources": {"limits": {"nvidia.com/gpu": "8"}}}
    async with start_karpenter(plane, settings):
        await view.deploy(deployment("work", 2, "1", containers=[gpus]))
        await until("2 nodes are Ready", lambda: _has_ready_nodes(view, 2))
        nodes = await view.nodes()
        for node in nodes.values():
            assert node["metadata"]["labels"]["team"] == "red"
            assert node["status"]["nodeInfo"]["containerRuntimeVersion"].startswith("fakeRuntime"), "not a kubelet"
            assert node["status"]["allocatable"]["nvidia.com/gpu"] == "8"
            assert STARTUP_TAINT["key"] in [taint["key"] for taint in node["spec"]["taints"]]
        assert await view.node_of("work") == {}, "the startup taint keeps work away"
        for name in nodes:
            await view.api.merge(f"/api/v1/nodes/{name}", {"spec": {"taints": None}})
        await view.wait_running("work", 2)
        await until("every NodeClaim is Initialized", lambda: view.are_initialized(2))


async def test_failing_machines_never_register(plane: ControlPlane, view: ClusterView) -> None:
    boot_time = BootTime(median_s=0.5, failure_share=1.0)
    settings = KarpenterSettings(instance_types=(EIGHT_CORES,), boot_time=boot_time)
    async with start_karpenter(plane, settings) as karpenter:
        await view.deploy(deployment("work", 2, WHOLE_NODE))
        await until("2 machines are ordered", lambda: _has_ordered(karpenter, 2))
        await until("their NodeClaims tell what the machines have", lambda: _tell_eight_cores(view, 2))
        await throughout("no Node appears", lambda: _has_nodes(view, 0), duration_s=8)
        assert len(karpenter.cloud.ordered) == 2, "Karpenter waits for them and buys no others"


async def test_machines_beyond_capacity_come_when_others_end(plane: ControlPlane, view: ClusterView) -> None:
    settings = KarpenterSettings(
        node_pools=(NodePoolSettings(consolidate_after_s=1),),
        instance_types=(EIGHT_CORES,),
        boot_time=BootTime(median_s=0.5),
        capacity=2,
    )
    async with start_karpenter(plane, settings) as karpenter:
        await view.deploy(deployment("first", 2, WHOLE_NODE))
        await view.wait_running("first", 2)
        await view.deploy(deployment("second", 1, WHOLE_NODE))
        await until("a third machine is ordered", lambda: _has_ordered(karpenter, 3))
        await throughout("it does not come", lambda: _has_nodes(view, 2), duration_s=5)
        await view.scale("first", 0)
        await view.wait_running("second", 1)


async def test_a_killed_karpenter_goes_on_where_it_was(plane: ControlPlane, view: ClusterView) -> None:
    settings = KarpenterSettings(instance_types=(EIGHT_CORES,), boot_time=BootTime(median_s=1))
    async with start_karpenter(plane, settings) as karpenter:
        await view.deploy(deployment("work", 1, WHOLE_NODE))
        await view.wait_running("work", 1)
        before = set(await view.claims())
        karpenter.kill()
        assert not karpenter.is_running
        await view.scale("work", 2)
        await karpenter.restart()
        await view.wait_running("work", 2)
        assert before < set(await view.claims())


async def test_a_dead_machine_falls_silent_and_its_node_stays(plane: ControlPlane, view: ClusterView) -> None:
    settings = KarpenterSettings(instance_types=(EIGHT_CORES,), boot_time=BootTime(median_s=0.5))
    async with start_karpenter(plane, settings) as karpenter:
        await view.deploy(deployment("work", 1, WHOLE_NODE))
        await view.wait_running("work", 1)
        (name,) = karpenter.cloud.running
        await karpenter.cloud.kill(name)
        await until(f"{name} is no longer Ready", lambda: _has_ready_nodes(view, 0))
        assert set(await view.nodes()) == {name}


def _created_s(thing: Json) -> float:
    return datetime.fromisoformat(thing["metadata"]["creationTimestamp"].replace("Z", "+00:00")).timestamp()


async def _has_ordered(karpenter: Karpenter, count: int) -> bool:
    return len(karpenter.cloud.ordered) == count


async def _tell_eight_cores(view: ClusterView, count: int) -> bool:
    # As a cloud's do before any Node tells it; the kwok provider alone writes what the pods ask for.
    told = [claim.get("status", {}) for claim in (await view.claims()).values()]
    expected = {
        "capacity": {"cpu": "8000m", "memory": "32768Mi", "pods": "110", "ephemeral-storage": "20Gi"},
        "allocatable": {"cpu": "7900m", "memory": "32758Mi", "pods": "110", "ephemeral-storage": "20Gi"},
    }
    return [{key: status.get(key) for key in expected} for status in told] == [expected] * count


async def _has_nodes(view: ClusterView, count: int) -> bool:
    return len(await view.nodes()) == count


async def _has_ready_nodes(view: ClusterView, count: int) -> bool:
    return sum(has_condition(node, "Ready") for node in (await view.nodes()).values()) == count
