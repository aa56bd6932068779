"""In a cluster whose pods take a minute to list, the service sees what happens at every moment."""

import asyncio

import pytest

from balloons.decide.refusing import FEW
from tests.unit.balloons.service.large_cluster import LargeCluster, serving, until_bound

pytestmark = pytest.mark.virtual_time

PAGES = 300
"""Of 500 pods each, 5 a second: 150,000 pods are listed in 60 s."""


async def a_gang_comes(cluster: LargeCluster, name: str) -> float:
    """Three pods that wait for warm nodes come, and go 10 s after they have them; returns how long they waited."""
    keys = [cluster.add_work(f"{name}-{i}") for i in range(3)]
    waited_s = await until_bound(cluster, keys)
    await asyncio.sleep(10)
    for key in keys:
        cluster.drop("pods", key)
    cluster.control()
    return waited_s


@pytest.mark.whole
async def test_hours_pass_with_one_list_and_every_gang_is_seen_at_once() -> None:
    """What it was before: 153 lists begun in 50 min, one of them ended, and blind for ever after."""
    cluster = LargeCluster(nodes=12)
    cluster.add_pool()
    cluster.empty_pages = {"pods": PAGES}
    async with serving(cluster) as service:
        await asyncio.sleep(70)
        assert service.watches.missing == ()
        for number in range(12):
            await asyncio.sleep(280)
            assert await a_gang_comes(cluster, f"gang-{number}") < 1.0
            assert service.watches.missing == ()
    assert cluster.lists_of("pods") == 2, "one that is streamed elsewhere, and one in pages"


@pytest.mark.parametrize("streams_lists", [True, False])
async def test_a_gang_that_comes_while_the_pods_are_listed_after_a_410_waits_no_longer(streams_lists: bool) -> None:
    """What it was before: 57 s."""
    cluster = LargeCluster(nodes=12)
    cluster.streams_lists = streams_lists
    cluster.add_pool()
    async with serving(cluster) as service:
        await asyncio.sleep(60)
        cluster.empty_pages = {"pods": PAGES}
        assert await a_gang_comes(cluster, "before") < 1.0
        # There is always news of some pod in a cluster of that size.
        await asyncio.sleep(1)
        cluster.forget_past("pods")
        await asyncio.sleep(5)
        assert service.watches.missing == ()
        assert await a_gang_comes(cluster, "during") < 1.0
        await asyncio.sleep(100)
        assert service.watches.missing == ()
        assert await a_gang_comes(cluster, "after") < 1.0


@pytest.mark.whole
@pytest.mark.parametrize("silent_s", [0, 900])
async def test_headroom_keeps_its_largest_size_while_the_pods_are_listed(silent_s: float) -> None:
    """What it was before: 36 nodes with maxSize 12, in a view that was called complete; and, where nothing had been
    said about any pod for a while, in one that was called incomplete."""
    cluster = LargeCluster(nodes=6)
    cluster.add_pool(mode="Headroom", size=6, maxSize=12)
    async with serving(cluster):
        await asyncio.sleep(60)
        cluster.empty_pages = {"pods": PAGES}
        if not silent_s:
            cluster.drop("pods", cluster.add_work("news"))
        await asyncio.sleep(silent_s or 1)
        cluster.forget_past("pods")
        await asyncio.sleep(2)
        for number in range(60):
            await asyncio.sleep(1)
            _work_takes_every_warm_node(cluster, number)
            if number % 10 == 9:
                _an_autoscaler_adds_what_is_pending(cluster)
    assert len(cluster.objects["nodes"]) <= 12


async def test_a_node_that_refuses_makes_few_pods_and_the_others_keep_theirs() -> None:
    """What it was before: ten Failed pods a second for ever, of which nobody heard."""
    cluster = LargeCluster(nodes=6)
    cluster.add_pool()
    async with serving(cluster):
        await asyncio.sleep(60)
        pods = cluster.objects["pods"]
        (lost,) = [key for key, pod in pods.items() if pod["spec"].get("nodeName") == "n0002"]
        before = {key: pod["metadata"]["uid"] for key, pod in pods.items() if key != lost}
        cluster.refuses.add("n0002")
        cluster.drop("pods", lost)
        cluster.control()
        await asyncio.sleep(300)
        failed = [pod for pod in pods.values() if pod["status"]["phase"] == "Failed"]
        assert len(failed) == FEW
        alive = {key: pod["metadata"]["uid"] for key, pod in pods.items() if pod not in failed}
        assert alive == before
        made = [event for _, plural, event, _ in cluster.log if plural == "pods" and event["type"] == "ADDED"]
        assert len(made) < 40
        (pool,) = cluster.objects["balloonpools"].values()
        (said,) = {each["message"] for each in pool["status"]["conditions"]}
        assert "1 node refuses balloons (OutOfcpu) and is left alone for a while: n0002" in said
        assert (pool["status"]["warm"], pool["status"]["sick"]) == (5, 1)


def _work_takes_every_warm_node(cluster: LargeCluster, number: int) -> None:
    balloons = [(key, pod) for key, pod in cluster.objects["pods"].items() if pod["spec"]["priority"] == -10]
    for key, pod in balloons:
        if node := pod["spec"].get("nodeName"):
            cluster.drop("pods", key)
            cluster.add_work(f"work-{number}-{node}", node=node)
    cluster.control()


def _an_autoscaler_adds_what_is_pending(cluster: LargeCluster) -> None:
    waiting = [pod for pod in cluster.objects["pods"].values() if not pod["spec"].get("nodeName")]
    for _ in waiting:
        cluster.add_node()
    cluster.control()
