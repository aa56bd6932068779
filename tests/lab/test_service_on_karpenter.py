"""Our own service and balloons against the real Karpenter: Hold holds, and never grows the cluster, even frozen."""

import json
import signal
from dataclasses import replace

import pytest

from lab.cloud import BootTime
from lab.cloud.json_api import JsonApi
from lab.cloud.karpenter import KarpenterSettings, NodePoolSettings, paper_type, start_karpenter
from lab.controlplane import ControlPlane
from lab.demo.service import run_service
from tests.lab.cluster_view import ClusterView, deployment, throughout, until
from tests.lab.pool_view import BALLOONS, DEPLOYMENTS, POOL_PATH, PoolView, pool_object

pytestmark = pytest.mark.lab

CONSOLIDATE_AFTER_S = 5
WHOLE_NODE = "7"


def settings() -> KarpenterSettings:
    pool = NodePoolSettings(consolidate_after_s=CONSOLIDATE_AFTER_S, labels={"team": "a"})
    types = (paper_type("paper-8", 8, 32),)
    return KarpenterSettings(node_pools=(pool,), instance_types=types, boot_time=BootTime(median_s=1))


async def test_hold_keeps_its_nodes_ten_delays_long_and_lets_the_others_go(installed_plane: ControlPlane) -> None:
    async with (
        start_karpenter(installed_plane, settings()),
        JsonApi(installed_plane.access()) as api,
        run_service(installed_plane),
    ):
        view, held = ClusterView(api), PoolView(api)
        await api.create(POOL_PATH, pool_object(size=3))
        await view.deploy(deployment("work", 5, WHOLE_NODE))
        await view.wait_running("work", 5)
        await view.scale("work", 0)
        await held.wait(warm=3, because="Steady")
        await view.wait_nodes(3)

        async def are_others_gone() -> bool:
            return len(await view.claims()) == 3

        # A node goes before its claim does, which waits for the machine.
        await until("the claims of the others are gone", are_others_gone)
        names = await held.nodes_held()
        claims = set(await view.claims())

        async def is_unmoved() -> bool:
            at = {"nodes": set(await view.nodes()), "held": await held.nodes_held(), "claims": set(await view.claims())}
            assert at == {"nodes": names, "held": names, "claims": claims}
            return True

        await throughout("the same three nodes are held", is_unmoved, 10 * CONSOLIDATE_AFTER_S)


async def test_balloons_that_gave_way_buy_nothing_even_while_we_are_frozen(installed_plane: ControlPlane) -> None:
    """The worst case for Hold: real work preempts, the ReplicaSet asks again, and nobody lowers the replicas."""
    async with (
        start_karpenter(installed_plane, settings()),
        JsonApi(installed_plane.access()) as api,
        run_service(installed_plane) as service,
    ):
        view, held = ClusterView(api), PoolView(api)
        await api.create(POOL_PATH, pool_object())
        await view.deploy(deployment("work", 3, WHOLE_NODE))
        await view.wait_running("work", 3)
        await view.scale("work", 0)
        await held.wait(warm=3)
        await held.settle()
        claims = set(await view.claims())
        service.send_signal(signal.SIGSTOP)
        try:
            await view.deploy(deployment("gang", 3, WHOLE_NODE))
            await view.wait_running("gang", 3)

            async def are_asked_for_again() -> bool:
                return await held.unbound() == 3

            await until("preempted balloons are asked for again", are_asked_for_again)

            async def has_bought_nothing() -> bool:
                return set(await view.claims()) == claims

            # Karpenter answers pods that wait within ten seconds.
            await throughout("no NodeClaim for Pending balloons", has_bought_nothing, 5 * CONSOLIDATE_AFTER_S)
        finally:
            service.send_signal(signal.SIGCONT)
        await held.wait(busy=3, warm=0, pending=0)
        assert (
            json.loads(installed_plane.kubectl("get", "deployments", "-n", "kube-balloons", "-o", "json"))["items"][0][
                "spec"
            ]["replicas"]
            == 0
        )


async def test_headroom_asks_for_what_is_missing_and_stops_at_max_size(installed_plane: ControlPlane) -> None:
    async with (
        start_karpenter(installed_plane, settings()),
        JsonApi(installed_plane.access()) as api,
        run_service(installed_plane),
    ):
        view, held = ClusterView(api), PoolView(api)
        await view.deploy(deployment("work", 2, WHOLE_NODE))
        await view.wait_running("work", 2)
        await api.create(POOL_PATH, pool_object(mode="Headroom", size=2, maxSize=5))
        await held.wait(warm=2, busy=2, nodes=4)
        await view.scale("work", 4)
        await view.wait_running("work", 4)
        await held.wait(busy=4, warm=1, nodes=5, because="MaxSize")

        async def is_at_max_size() -> bool:
            return len(await view.claims()) == 5

        # Both balloons that gave way are Pending until the service has lowered their number. On a busy machine that
        # is after Karpenter's second of collecting, and a node comes that nobody needs: it goes again.
        await until("maxSize holds: four busy, one warm", is_at_max_size)
        await throughout("it goes on to hold", is_at_max_size, 2 * CONSOLIDATE_AFTER_S)


@pytest.mark.parametrize("had", [True, False], ids=["had before", "never had"])
async def test_headroom_takes_another_type_where_the_first_has_run_out(
    installed_plane: ControlPlane, had: bool
) -> None:
    """A type that the pool has a node of, or one whose size no node shows: then Karpenter, which knows it, chooses."""
    small, large = paper_type("paper-8", 8, 32), paper_type("paper-16", 16, 64)
    async with (
        start_karpenter(installed_plane, replace(settings(), instance_types=(small, large))) as karpenter,
        JsonApi(installed_plane.access()) as api,
        run_service(installed_plane),
    ):
        view, held = ClusterView(api), PoolView(api)
        for kind, count, cpu in ((small, 2, WHOLE_NODE), (large, int(had), "15")):
            chosen = {"node.kubernetes.io/instance-type": kind.name}
            await view.deploy(deployment(kind.name, count, cpu, nodeSelector=chosen))
            await view.wait_running(kind.name, count)
        before = set(await view.claims())
        await karpenter.offer([large])
        await api.create(POOL_PATH, pool_object(mode="Headroom", size=1, maxSize=6, fallbackAfter="10s"))
        await held.wait(warm=1, busy=2 + had, nodes=3 + had)
        (made,) = set(await view.claims()) - before
        claim = (await view.claims())[made]
        assert claim["metadata"]["labels"]["node.kubernetes.io/instance-type"] == large.name

        async def is_held_in_its_own_size() -> bool:
            pods = [pod for pod in await api.items(BALLOONS) if pod["spec"].get("nodeName")]
            return [pod["metadata"]["labels"]["kube-balloons.github.io/shape"] for pod in pods] == [large.name]

        await until("the node is held by a balloon of its own size", is_held_in_its_own_size)

        async def is_all() -> bool:
            return set(await view.claims()) == {*before, made} and await is_held_in_its_own_size()

        await throughout("nothing else is bought", is_all, 3 * CONSOLIDATE_AFTER_S)
        asked = {each["metadata"]["name"] for each in await api.items(DEPLOYMENTS)}
        assert asked == {"gpu-paper-8", "gpu-paper-16"}, "the commonest shape was asked for first"
