"""Our own service and balloons against the real Karpenter: Hold holds, and never grows the cluster, even frozen."""

import json
import signal
from collections.abc import AsyncIterator
from typing import Any

import pytest

from lab.clouds import BootTime
from lab.clouds.json_api import JsonApi
from lab.controlplane import ControlPlane, start_control_plane
from lab.demo.service import install, run_service
from lab.karpenter import KarpenterSettings, NodePoolSettings, paper_type, start_karpenter
from tests.lab.cluster_view import ClusterView, deployment, throughout, until

pytestmark = pytest.mark.lab

CONSOLIDATE_AFTER_S = 5
POOL_PATH = "/apis/kube-balloons.github.io/v1alpha1/namespaces/kube-balloons/balloonpools"
BALLOONS = "/api/v1/namespaces/kube-balloons/pods"
WHOLE_NODE = "7"


@pytest.fixture
async def plane() -> AsyncIterator[ControlPlane]:
    """A plane of one's own: Karpenter leaves NodeClaims behind."""
    async with start_control_plane() as plane:
        await install(plane)
        yield plane


def settings() -> KarpenterSettings:
    pool = NodePoolSettings(consolidate_after_s=CONSOLIDATE_AFTER_S, labels={"team": "a"})
    types = (paper_type("paper-8", 8, 32),)
    return KarpenterSettings(node_pools=(pool,), instance_types=types, boot_time=BootTime(median_s=1))


def pool(**spec: Any) -> dict[str, Any]:
    nodes = {"selector": {"matchLabels": {"team": "a"}}}
    metadata = {"name": "gpu", "namespace": "kube-balloons"}
    kind = {"apiVersion": "kube-balloons.github.io/v1alpha1", "kind": "BalloonPool"}
    return {**kind, "metadata": metadata, "spec": {"nodes": nodes, "mode": "Hold", **spec}}


class Pool:
    """The pool's status and its balloons."""

    def __init__(self, api: JsonApi) -> None:
        self._api = api

    async def wait(self, **wanted: Any) -> None:
        async def is_so() -> bool:
            found = await self._api.get(f"{POOL_PATH}/gpu") or {}
            return wanted.items() <= found.get("status", {}).items()

        await until(f"the pool says {wanted}", is_so)

    async def nodes_held(self) -> set[str]:
        found = await self._api.items(BALLOONS)
        return {pod["spec"]["nodeName"] for pod in found if pod["spec"].get("nodeName")}

    async def unbound(self) -> int:
        return len([pod for pod in await self._api.items(BALLOONS) if not pod["spec"].get("nodeName")])


async def test_hold_keeps_its_nodes_ten_delays_long_and_lets_the_others_go(plane: ControlPlane) -> None:
    async with start_karpenter(plane, settings()), JsonApi(plane.access()) as api, run_service(plane):
        view, held = ClusterView(api), Pool(api)
        await api.create(POOL_PATH, pool(size=3))
        await view.deploy(deployment("work", 5, WHOLE_NODE))
        await view.wait_running("work", 5)
        await view.scale("work", 0)
        await held.wait(warm=3, because="Steady")
        await view.wait_nodes(3)
        names = await held.nodes_held()
        claims = set(await view.claims())

        async def is_unmoved() -> bool:
            return set(await view.nodes()) == names == await held.nodes_held() and set(await view.claims()) == claims

        await throughout("the same three nodes are held", is_unmoved, 10 * CONSOLIDATE_AFTER_S)


async def test_balloons_that_gave_way_buy_nothing_even_while_we_are_frozen(plane: ControlPlane) -> None:
    """The worst case for Hold: real work preempts, the ReplicaSet asks again, and nobody lowers the replicas."""
    async with start_karpenter(plane, settings()), JsonApi(plane.access()) as api, run_service(plane) as service:
        view, held = ClusterView(api), Pool(api)
        await api.create(POOL_PATH, pool())
        await view.deploy(deployment("work", 3, WHOLE_NODE))
        await view.wait_running("work", 3)
        await view.scale("work", 0)
        await held.wait(warm=3)
        claims = set(await view.claims())
        service.send_signal(signal.SIGSTOP)
        try:
            await view.deploy(deployment("gang", 3, WHOLE_NODE))
            await view.wait_running("gang", 3)
            assert await held.unbound() == 3, "preempted balloons are asked for again"

            async def has_bought_nothing() -> bool:
                return set(await view.claims()) == claims

            await throughout("no NodeClaim for Pending balloons", has_bought_nothing, 10 * CONSOLIDATE_AFTER_S)
        finally:
            service.send_signal(signal.SIGCONT)
        await held.wait(busy=3, warm=0, pending=0)
        assert (
            json.loads(plane.kubectl("get", "deployments", "-n", "kube-balloons", "-o", "json"))["items"][0]["spec"][
                "replicas"
            ]
            == 0
        )


async def test_headroom_asks_for_what_is_missing_and_stops_at_max_size(plane: ControlPlane) -> None:
    async with start_karpenter(plane, settings()), JsonApi(plane.access()) as api, run_service(plane):
        view, held = ClusterView(api), Pool(api)
        await view.deploy(deployment("work", 2, WHOLE_NODE))
        await view.wait_running("work", 2)
        await api.create(POOL_PATH, pool(mode="Headroom", size=2, maxSize=5))
        await held.wait(warm=2, busy=2, nodes=4)
        await view.scale("work", 4)
        await view.wait_running("work", 4)
        await held.wait(busy=4, warm=1, nodes=5, because="MaxSize")
        assert len(await view.claims()) == 5, "maxSize holds: four busy, one warm"
