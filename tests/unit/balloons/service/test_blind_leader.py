"""A leader that sees nothing makes room for one that does, and a blind standby does not lead. Two whole services.

And one whose clock is wrong.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any, cast

import pytest

from balloons.service.loop import Wake
from balloons.service.metrics import Metrics
from balloons.service.preemptions_and_warm_hits import Preemptions
from balloons.service.run import OWN_WINDOW_S, Clients, Service
from balloons.service.settings import ServiceSettings
from balloons.service.watches import Watches
from balloons.view.index_and_snapshot import Index
from tests.unit.balloons.service.large_cluster import LargeCluster
from tests.unit.throttler.kube.fake_list_and_watch import FakeResponse, client_for, status_answer
from tests.world import work
from throttler.kube.connection import ServerClock
from throttler.kube.lease import Elector, ElectorSettings
from throttler.kube.requests import Request
from throttler.scraping.signal_watch import OwnAttempts

pytestmark = [pytest.mark.virtual_time, pytest.mark.whole]

BUFFERED = {"strategy": "CapacityBuffer", "mode": "Headroom", "size": 1, "maxSize": 2}
LEASE_S = 20.0
"""Longer than any takeover takes."""


class Replica:
    """One service, whose requests about some resources somebody may refuse, or not know."""

    def __init__(self, cluster: LargeCluster, name: str, server_clock: ServerClock | None = None) -> None:
        self._cluster = cluster
        self.date = ""
        self.refused: set[str] = set()
        self.unserved: set[str] = set()
        self.discovered: dict[str, bytes] = {}
        client = client_for(self, server_clock=server_clock)
        clock = asyncio.get_running_loop().time
        self.elector = Elector(client, ElectorSettings(namespace="b", identity=name), clock=clock)
        clients = Clients(
            connection=cast(Any, None),
            reading=client,
            writing=client,
            urgent=client,
            noting=client,
            telling=client,
            pulling=client,
            releasing=client,
            elector=self.elector,
            own=OwnAttempts(OWN_WINDOW_S),
        )
        self.metrics = Metrics("test")
        self.service = Service(ServiceSettings(metrics_address=None), self.metrics, clients)

    def serve_buffers_that_may_not_be_read(self) -> None:
        """As where an upgrade of the autoscaler has brought them."""
        group = "/apis/autoscaling.x-k8s.io"
        self.discovered[group] = b'{"versions":[{"groupVersion":"autoscaling.x-k8s.io/v1beta1"}]}'
        self.discovered[f"{group}/v1beta1"] = b'{"resources":[{"name":"capacitybuffers"}]}'
        self.refused = {"capacitybuffers", "podtemplates"}

    @asynccontextmanager
    async def open(self, request: Request, credentials: Any) -> AsyncIterator[Any]:
        if request.path in self.discovered:
            yield FakeResponse(200, self.discovered[request.path])
        elif request.resource in self.refused:
            await asyncio.sleep(0.005)
            yield status_answer(403, "Forbidden", f"may not {request.verb} {request.resource}")
        elif request.resource.partition("/")[0] in self.unserved:
            await asyncio.sleep(0.005)
            yield status_answer(404, "NotFound", "the server could not find the requested resource")
        else:
            async with self._cluster.open(request, credentials) as answer:
                answer.headers |= {"Date": self.date}
                yield answer

    async def close(self) -> None:
        """Nothing is open."""


@asynccontextmanager
async def replicas(cluster: LargeCluster) -> AsyncIterator[tuple[Replica, Replica]]:
    """Two of them, the first of which leads."""
    first, second = Replica(cluster, "first"), Replica(cluster, "second")
    stop = asyncio.Event()
    running = [asyncio.create_task(first.service.run(stop))]
    try:
        await asyncio.sleep(LEASE_S)
        running.append(asyncio.create_task(second.service.run(stop)))
        await asyncio.sleep(LEASE_S)
        assert leaders(first, second) == [True, False]
        yield first, second
    finally:
        stop.set()
        await asyncio.gather(*running)


def leaders(*each: Replica) -> list[bool]:
    return [one.elector.may_write() for one in each]


async def test_a_leader_whose_caches_stay_incomplete_says_so_and_another_takes_over() -> None:
    cluster = LargeCluster(nodes=3)
    cluster.add_pool()
    async with replicas(cluster) as (first, second):
        first.refused = {"pods"}
        cluster.forget_past("pods")
        await asyncio.sleep(170)
        assert leaders(first, second) == [True, False], "it may recover"
        assert first.service.not_alive() == ""
        await asyncio.sleep(14)
        assert "pods" in first.service.not_alive()
        await asyncio.sleep(LEASE_S)
        assert leaders(first, second) == [False, True]
        assert first.service.not_alive() == "", "a restart would repair nothing"
        assert "view incomplete for 2" in first.service.blind_in_words()
        first.refused = set()
        await asyncio.sleep(60)
        assert first.service.blind_in_words() == ""
        assert leaders(first, second) == [False, True]
        shown = first.metrics.registry.get_sample_value("kube_balloons_watch_complete", {"resource": "pods"})
        assert shown == 1, "KubeBalloonsViewIncomplete looks at every replica: it would fire until this one leads again"


async def test_nobody_leads_while_everybody_is_blind_and_somebody_does_again_afterwards() -> None:
    cluster = LargeCluster(nodes=3)
    async with replicas(cluster) as (first, second):
        first.refused = second.refused = {"pods"}
        cluster.forget_past("pods")
        await asyncio.sleep(180 + 2 * LEASE_S)
        assert leaders(first, second) == [False, False]
        first.refused = second.refused = set()
        await asyncio.sleep(30 + LEASE_S)
        assert sum(leaders(first, second)) == 1


async def test_a_kind_that_is_installed_later_is_not_seen_from_then_on_and_not_since_last_week() -> None:
    """Nothing else changes here, as in a small cluster at night; the leader lost its lead at once."""
    cluster = LargeCluster(nodes=3)
    cluster.add_pool("other", **BUFFERED)
    async with replicas(cluster) as (first, second):
        await asyncio.sleep(300)
        first.serve_buffers_that_may_not_be_read()
        await asyncio.sleep(100)
        assert "capacitybuffers" in first.service._not_ready()
        assert first.service.not_alive() == ""
        assert leaders(first, second) == [True, False]


async def test_a_server_that_does_not_know_buffers_yet_takes_none_of_a_pool_away() -> None:
    """One of several behind a balancer was just started: discovery is answered with 404."""
    cluster = LargeCluster(nodes=3)
    cluster.add_pool("other", **BUFFERED)
    async with replicas(cluster) as (first, _):
        first.serve_buffers_that_may_not_be_read()
        first.refused = set()
        await asyncio.sleep(100)
        pool = cluster.objects["balloonpools"]["b", "other"]
        before = pool["status"]["because"], cluster.lists_of("capacitybuffers"), cluster.lists_of("podtemplates")
        first.discovered = {}
        await asyncio.sleep(65)
        pool = cluster.objects["balloonpools"]["b", "other"]
        after = pool["status"]["because"], cluster.lists_of("capacitybuffers"), cluster.lists_of("podtemplates")
        assert before == after


async def test_buffers_that_nobody_uses_and_nobody_may_read_stop_no_pool() -> None:
    cluster = LargeCluster(nodes=3)
    cluster.add_pool()
    async with replicas(cluster) as (first, second):
        for replica in (first, second):
            replica.serve_buffers_that_may_not_be_read()
        await asyncio.sleep(300)
        assert leaders(first, second) == [True, False]
        assert first.service._not_ready() == ""
        cluster.add_pool("other", **BUFFERED)
        await asyncio.sleep(60)
        assert "may not" in first.service._not_ready(), "now they are used"


async def test_balloons_whose_crd_is_deleted_stay_while_it_is_gone() -> None:
    """A pool's would go after ten minutes; who cannot see pools must not take it that there are none."""
    cluster = LargeCluster(nodes=3)
    cluster.add_pool()
    async with replicas(cluster) as (first, second):
        cluster.control()
        ((key, made),) = cluster.objects["deployments"].items()
        first.unserved = second.unserved = {"balloonpools"}
        cluster.drop("balloonpools", ("b", "gpu"))
        cluster.forget_past("balloonpools")
        await asyncio.sleep(700)
        assert leaders(first, second) == [False, False]
        assert cluster.objects["deployments"][key]["metadata"]["uid"] == made["metadata"]["uid"]


async def test_nobody_waits_for_a_balloon_to_go_while_pods_are_not_seen() -> None:
    """It was released just before the view was lost: what keeps maxSize was put off for two minutes."""
    clock, index = asyncio.get_running_loop().time, Index()
    watches = Watches(cast(Any, None), index, Wake(clock), Metrics("test"), Preemptions(), clock=clock)
    index.change_pod(None, work("balloon", "n1"))
    assert not watches.is_complete
    assert not watches.has_pod("n1", "uid-balloon")


async def test_ages_go_by_the_clock_of_the_api_server_where_ours_is_wrong() -> None:
    """The node has been joining for a minute. A clock that was 20 minutes ahead took it for sick."""
    made = datetime(2026, 11, 22, 0, 0, tzinfo=UTC)
    cluster = LargeCluster(nodes=1)
    ((_, name),) = cluster.objects["nodes"]
    node = cluster.objects["nodes"]["", name]
    unready = {"type": "Ready", "status": "False", "lastTransitionTime": node["metadata"]["creationTimestamp"]}
    cluster.put("nodes", {**node, "status": {**node["status"], "conditions": [unready]}})
    cluster.add_pool()
    leader = Replica(cluster, "first", ServerClock(wall=lambda: made.timestamp() + 21 * 60))
    leader.date = format_datetime(made.replace(minute=1), usegmt=True)
    stop = asyncio.Event()
    running = asyncio.create_task(leader.service.run(stop))
    await asyncio.sleep(LEASE_S)
    stop.set()
    await running
    labels = {"namespace": "b", "pool": "gpu"}
    shown = [
        leader.metrics.registry.get_sample_value(f"kube_balloons_pool_{name}", labels)
        for name in ("nodes", "sick_nodes")
    ]
    assert shown == [1, 0]
