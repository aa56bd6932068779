"""Twice the pods on the same nodes: no part of the service's work more than doubles. Work is counted, not timed."""

import asyncio

import pytest

from tests.counted_work import counting
from tests.unit.balloons.service.large_cluster import LargeCluster, serving
from tests.virtual_time import run_virtual

NODES, PODS = 3, 60
"""Pods are per node."""


async def work_with(pods: int, *, streams_lists: bool) -> dict[str, int]:
    """The work of each thing that happens in a life, with so many pods on each node."""
    cluster, found = LargeCluster(NODES), {}
    cluster.streams_lists, cluster.page_s = streams_lists, 0.0
    cluster.add_pool()
    for number in range(NODES * pods):
        place(cluster, f"work-{number:04}", number % NODES)
    async with serving(cluster) as service:
        with counting(found, "the first list"):
            await asyncio.sleep(30)
        assert service.watches.missing == ()
        with counting(found, "quiet minutes"):
            await asyncio.sleep(300)
        with counting(found, "news of every pod"):
            for number in range(NODES * pods):
                place(cluster, f"work-{number:04}", (number + 1) % NODES)
            await asyncio.sleep(2)
        with counting(found, "a list after a 410"):
            cluster.forget_past("pods")
            await asyncio.sleep(20)
        assert service.watches.missing == ()
        assert sum(len(each) for each in service.index.pods_by_node.values()) == NODES * pods
    return found


def place(cluster: LargeCluster, name: str, node: int) -> None:
    spec = {"nodeName": f"n{node:04}", "priority": 0, "containers": [{"resources": {"requests": {"cpu": "1"}}}]}
    cluster.put("pods", {"metadata": {"name": name, "namespace": "jobs"}, "spec": spec, "status": {"phase": "Running"}})


@pytest.mark.whole
@pytest.mark.parametrize("streams_lists", [True, False])
def test_twice_the_pods_are_at_most_twice_the_work(streams_lists: bool) -> None:
    once = run_virtual(work_with(PODS, streams_lists=streams_lists))
    twice = run_virtual(work_with(2 * PODS, streams_lists=streams_lists))
    assert once.keys() == twice.keys()
    grown = {what: twice[what] / once[what] for what in once}
    assert all(ratio <= 2.05 for ratio in grown.values()), grown
    assert grown["quiet minutes"] < 1.1, "what nobody changed costs nothing"
