"""The two strategies without balloon pods, against the real Karpenter and its real objects."""

from typing import Any

import pytest

from lab.cloud import BootTime
from lab.cloud.json_api import Json, JsonApi
from lab.cloud.karpenter import KarpenterSettings, NodePoolSettings, paper_type, start_karpenter
from lab.controlplane import ControlPlane
from lab.demo.service import bind_to_service, run_service
from tests.lab.cluster_view import ClusterView, deployment, throughout, until
from tests.lab.pool_view import BALLOONS, POOL_PATH, PoolView, pool_object

pytestmark = pytest.mark.lab

CONSOLIDATE_AFTER_S = 5
WHOLE_NODE = "7"
BUFFERS = "/apis/autoscaling.x-k8s.io/v1beta1/namespaces/kube-balloons/capacitybuffers"
KEEP = "karpenter.sh/do-not-disrupt"


def settings(**gates: bool) -> KarpenterSettings:
    node_pool = NodePoolSettings(consolidate_after_s=CONSOLIDATE_AFTER_S, labels={"team": "a"})
    types = (paper_type("paper-8", 8, 32),)
    return KarpenterSettings(
        node_pools=(node_pool,), instance_types=types, boot_time=BootTime(median_s=1), feature_gates=gates
    )


async def test_annotated_nodes_stay_and_go_when_they_are_let_go(installed_plane: ControlPlane) -> None:
    await installed_plane.apply_async(bind_to_service("kube-balloons-annotator"))
    async with (
        start_karpenter(installed_plane, settings()),
        JsonApi(installed_plane.access()) as api,
        run_service(installed_plane),
    ):
        view, held = ClusterView(api), PoolView(api)
        await api.create(POOL_PATH, pool_object(strategy="Annotate", size=2))
        await view.deploy(deployment("work", 3, WHOLE_NODE))
        await view.wait_running("work", 3)
        await view.scale("work", 0)
        await held.wait(warm=2)
        await view.wait_nodes(2)

        async def are_two() -> bool:
            return [_keep(node) for node in (await view.nodes()).values()] == ["true", "true"]

        await throughout("two annotated nodes stay", are_two, 5 * CONSOLIDATE_AFTER_S)
        assert await api.items(BALLOONS) == [], "no pod holds them"
        await api.merge(f"{POOL_PATH}/gpu", {"spec": {"size": 0}})
        await view.wait_nodes(0)


async def test_a_capacity_buffer_makes_karpenter_keep_room(installed_plane: ControlPlane) -> None:
    karpenter = start_karpenter(installed_plane, settings(CapacityBuffer=True))
    async with karpenter, JsonApi(installed_plane.access()) as api, run_service(installed_plane):
        view, held = ClusterView(api), PoolView(api)
        await view.deploy(deployment("work", 1, WHOLE_NODE))
        await view.wait_running("work", 1)
        await api.create(POOL_PATH, pool_object(strategy="CapacityBuffer", mode="Headroom", size=2, maxSize=4))
        await held.wait(nodes=3, busy=1, warm=2)
        (buffer,) = await api.items(BUFFERS)
        assert buffer["spec"]["replicas"] == 2
        await until("Karpenter has taken the buffer up", lambda: _is_resolved(api))
        assert await api.items(BALLOONS) == [], "the buffer is virtual"

        async def are_three() -> bool:
            return len(await view.nodes()) == 3

        await throughout("the room stays", are_three, 4 * CONSOLIDATE_AFTER_S)

        await api.merge(f"{POOL_PATH}/gpu", {"spec": {"paused": True}})
        await held.wait(because="Paused")
        await view.scale("work", 3)
        await view.wait_running("work", 3)
        await until("the paused pool's buffer is what maxSize leaves", lambda: _has_units(api, 1))
        await view.wait_nodes(4)


def _keep(node: Json) -> Any:
    return node["metadata"].get("annotations", {}).get(KEEP)


async def _has_units(api: JsonApi, wanted: int) -> bool:
    (buffer,) = await api.items(BUFFERS)
    return bool(buffer["spec"]["replicas"] == wanted)


async def _is_resolved(api: JsonApi) -> bool:
    (buffer,) = await api.items(BUFFERS)
    conditions = buffer.get("status", {}).get("conditions") or ()
    return any(c["type"] == "ReadyForProvisioning" and c["status"] == "True" for c in conditions)
