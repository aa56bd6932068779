"""`python -m benchmarks.fleet [--part PART] [--nodes N] [--pods N] [--pools N]`: one real service on a fleet's servers.

Three parts, each with a service of its own on the same control plane; one alone takes less than ten minutes. In `start`
and `arrivals` the service goes straight to the API server, as in a cluster: first decision, memory, cost of idleness, a
gang on warm nodes; and nodes that arrive. In `lists` it goes through a path of ours, which is what gives it a 410 and
sees when it was sent news: a gang during its first list, and one after a 410.

Faked: pods that fill the nodes are written into etcd as JSON, bound and Running; their DaemonSets do not exist, and the
garbage collector is off, which would remove them for that. There are no kubelets: nodes report their status every five
minutes as those do, renew no Leases, and the controller manager waits for them for a day.
"""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.fleet.figures import Measured, Sample, figures, lags, longest_gap
from benchmarks.fleet.filling import gang_spec, news_of_a_pod, start_fleet
from benchmarks.fleet.pod_path import PodPath
from benchmarks.fleet.population import Fleet
from benchmarks.fleet.service import RunningService
from benchmarks.paper_cluster import PaperCluster
from benchmarks.preempt.burst import run_burst
from benchmarks.report import Report, answer, parser_of, progress
from lab.demo.service import ACCOUNT, ACCOUNT_NAMESPACE, run_service
from throttler.kube.pod import POOL_LABEL

ACCOUNT_USER = f"system:serviceaccount:{ACCOUNT_NAMESPACE}:{ACCOUNT}"
WHOLE, QUICK = Fleet(nodes=5_000, pods=150_000, pools=50), Fleet(nodes=100, pods=2_000, pools=4)
IDLE_S, QUICK_IDLE_S = 120.0, 10.0
SETTLED_S = 35.0
"""After the last change, until every status has been written."""
TOLD_S = 65.0
"""The longest that an Event waits once fewer than thirty were told in a minute."""
ARRIVALS, QUICK_ARRIVALS = 5_940, 66
ARRIVALS_PER_S = 33.0
WARM_S = 300.0
PARTS = ("start", "lists", "arrivals")
FAKED = (
    "Pods that fill the nodes are written into etcd as JSON, bound and Running.",
    "The garbage collector, which would miss their DaemonSets, and the TTL controller, which annotates nodes, are off.",
    "Paper nodes: no kubelet. Each reports its status every five minutes; nobody renews or misses their Leases.",
    "API server, etcd (without fsync), controller manager, scheduler (default client limits) and the service are real.",
    "Every process shares the machine's cores, the load generator included.",
    "In the part `lists` the service goes through a proxy of ours: it gives the 410, and sees when it is sent news.",
    "Nodes arrive by a POST and the removal of the not-ready taint; the lag begins before the POST.",
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; 1 when a figure is below its floor."""
    parser = parser_of("fleet")
    parser.add_argument("--nodes", type=int, help=f"nodes (default {WHOLE.nodes})")
    parser.add_argument("--pods", type=int, help=f"pods that fill them (default {WHOLE.pods})")
    parser.add_argument("--pools", type=int, help=f"BalloonPools (default {WHOLE.pools})")
    parser.add_argument("--arrivals", type=int, help=f"nodes that arrive, 33 a second (default {ARRIVALS})")
    parser.add_argument("--idle", type=float, help=f"seconds that idleness is looked at (default {IDLE_S:.0f})")
    parser.add_argument("--part", choices=PARTS, help="only this part, on a control plane of its own (default all)")
    asked = parser.parse_args(arguments)
    usual = QUICK if asked.quick else WHOLE
    try:
        fleet = Fleet(nodes=asked.nodes or usual.nodes, pods=asked.pods or usual.pods, pools=asked.pools or usual.pools)
    except ValueError as error:
        parser.error(str(error))
    arrivals = asked.arrivals or (QUICK_ARRIVALS if asked.quick else ARRIVALS)
    idle_s = asked.idle or (QUICK_IDLE_S if asked.quick else IDLE_S)
    parts = (asked.part,) if asked.part else PARTS
    measured = asyncio.run(_measure(fleet, parts, arrivals, idle_s))
    report = Report(
        name="fleet",
        figures=tuple(figures(measured)),
        faked=FAKED,
        behind={"fleet": _sizes(fleet, arrivals, idle_s), "measured": msgspec.to_builtins(measured)},
        is_quick=asked.quick,
    )
    return answer(report, asked)


def _sizes(fleet: Fleet, arrivals: int, idle_s: float) -> dict[str, Any]:
    return {**msgspec.to_builtins(fleet), "gang": fleet.gang, "arrivals": arrivals, "idle_s": idle_s}


async def _measure(fleet: Fleet, parts: Sequence[str], arrivals: int, idle_s: float) -> Measured:
    measured = Measured()
    async with start_fleet(fleet) as cluster:
        if "start" in parts:
            measured = await _start(cluster, fleet, idle_s)
        if "lists" in parts:
            if "start" not in parts:
                async with _service(cluster):
                    await _until_warm(cluster, fleet)
            measured = await _lists(cluster, fleet, measured)
        if "arrivals" in parts:
            async with _service(cluster) as service:
                await service.until_ready()
                await _until_warm(cluster, fleet)
                measured = replace(measured, lags_s=await _arrivals(cluster, service, fleet, arrivals))
    return measured


async def _start(cluster: PaperCluster, fleet: Fleet, idle_s: float) -> Measured:
    """First decision, idleness, a gang on warm nodes, memory."""
    async with _service(cluster) as service:
        first_s = await _first_decision_s(cluster, service)
        progress(f"first decision after {first_s:.1f} s")
        await _until_warm(cluster, fleet)
        await _until_told(service, min(TOLD_S, idle_s))
        requests_per_s, cpu_share = await _idle(service, idle_s)
        progress(f"idle: {requests_per_s:.2f} requests/s, {cpu_share:.3f} of a core, {service.peak_mb():.0f} MB")
        gang = await _gang(cluster, fleet, "quiet")
        memory_mb = service.peak_mb()
        await _until_warm(cluster, fleet)
    return Measured(
        first_decision_s=first_s,
        gangs={"quiet": gang},
        memory_mb=memory_mb,
        requests_per_s=requests_per_s,
        cpu_share=cpu_share,
    )


async def _lists(cluster: PaperCluster, fleet: Fleet, before: Measured) -> Measured:
    """A gang while all pods are listed, for the first time and after a 410; and for how long nothing was heard."""
    path = PodPath(cluster.plane.access(ACCOUNT_USER, ()))
    busy = fleet.node(fleet.nodes - 1).name
    async with path.open(), news_of_a_pod(cluster, busy):
        kubeconfig = path.kubeconfig(cluster.plane.directory / "kubeconfigs" / "pod-path.yaml")
        async with _service(cluster, kubeconfig) as service:
            await path.list_begun.wait()
            first = await _gang(cluster, fleet, "first")
            await service.until_ready()
            hears_since = time.monotonic()
            await _until_warm(cluster, fleet)
            path.forget()
            await path.list_begun.wait()
            gone = await _gang(cluster, fleet, "gone")
            await _until_warm(cluster, fleet)
            deaf_s = longest_gap(path.news_at, hears_since, time.monotonic())
    return replace(before, gangs={**before.gangs, "first list": first, "410": gone}, deaf_s=deaf_s)


@asynccontextmanager
async def _service(cluster: PaperCluster, kubeconfig: Path | None = None) -> AsyncIterator[RunningService]:
    started_at = time.monotonic()
    async with (
        run_service(cluster.plane, kubeconfig=kubeconfig) as process,
        RunningService(cluster.plane, process, started_at) as service,
    ):
        yield service


async def _first_decision_s(cluster: PaperCluster, service: RunningService) -> float:
    """Until a Deployment of balloons is there: what the first decision of a new installation writes first."""
    async with asyncio.timeout(WARM_S):
        async for line in cluster.client.watch("/apis/apps/v1/deployments", labelSelector=POOL_LABEL):
            if b'"type":"ADDED"' in line:
                return time.monotonic() - service.started_at
    raise AssertionError("the watch ended without an event")


async def _until_warm(cluster: PaperCluster, fleet: Fleet) -> None:
    """Every node without work is held, and it has been told."""
    watch = cluster.watch
    await watch.until(lambda: len(watch.held_nodes()) == fleet.idle, f"{fleet.idle} nodes held", WARM_S)
    await asyncio.sleep(SETTLED_S)


async def _until_told(service: RunningService, quiet_s: float) -> None:
    """Nothing has been written for so long: Events tell of what happened minutes ago, thirty a minute."""
    written, since = -1.0, time.monotonic()
    async with asyncio.timeout(WARM_S):
        while time.monotonic() - since < quiet_s:
            if (now := await service.metric("kube_balloons_writes_total")) != written:
                written, since = now, time.monotonic()
            await asyncio.sleep(1)


async def _idle(service: RunningService, for_s: float) -> tuple[float, float]:
    """Requests per second, and the share of a core."""
    name = "kube_balloons_api_attempts_total"
    began_at, sent, cpu_s = time.monotonic(), await service.metric(name), service.cpu_s()
    await asyncio.sleep(for_s)
    took_s, used_s = time.monotonic() - began_at, service.cpu_s() - cpu_s
    return (await service.metric(name) - sent) / took_s, used_s / took_s


async def _gang(cluster: PaperCluster, fleet: Fleet, name: str) -> tuple[float, ...]:
    """How long each of its pods waited for its node."""
    burst = await run_burst(cluster, name, fleet.gang, is_release=True, **gang_spec(fleet))
    progress(f"gang {name}: {max(burst.waits_s):.2f} s; released {burst.released}, preempted {burst.preempted}")
    return burst.waits_s


async def _arrivals(cluster: PaperCluster, service: RunningService, fleet: Fleet, count: int) -> tuple[float, ...]:
    """The lag of each node, as many of which come evenly."""
    samples: list[Sample] = []
    arrived: list[float] = []
    counting = asyncio.create_task(service.count(samples))
    try:
        while not samples:
            await asyncio.sleep(0.1)
        async with asyncio.TaskGroup() as group:
            began_at = time.monotonic()
            for number in range(count):
                await asyncio.sleep(max(0.0, began_at + number / ARRIVALS_PER_S - time.monotonic()))
                arrived.append(time.monotonic())
                group.create_task(cluster.machines.add([fleet.node(fleet.nodes + number)]))
        progress(f"{count} nodes have arrived, in {time.monotonic() - began_at:.0f} s")
        deadline = time.monotonic() + WARM_S
        while samples[-1].count < samples[0].count + count:
            if counting.done():
                counting.result()
            if time.monotonic() > deadline:
                counted = samples[-1].count - samples[0].count
                raise TimeoutError(f"{counted} of {count} arrivals are counted; {await service.in_words()}")
            await asyncio.sleep(0.1)
    finally:
        counting.cancel()
        await asyncio.gather(counting, return_exceptions=True)
    return lags(arrived, samples)


if __name__ == "__main__":
    sys.exit(main())
