"""One placing: a control plane of its own, balloons of one spread onto paper nodes, unrelated pods meanwhile."""

import asyncio
import time
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from balloons.api.pool import BalloonPool, Mode, PoolNodes, PoolSpec, Spread
from balloons.balloon_manifest import DEFAULT_IMAGE, BalloonSpec, deployment
from balloons.view.shape_and_balloon_size import Shape
from benchmarks.paper_cluster import JOBS, NEVER_S, POOL, POOL_LABELS, PaperCluster, start_paper_cluster, work_pod
from lab.cloud.machines import PaperNode
from lab.controlplane.settings import ControllerManagerSettings, SchedulerSettings
from lab.demo.service import ACCOUNT_NAMESPACE
from throttler.kube.metadata import Metadata
from throttler.kube.quantities_and_durations import parse_resources
from throttler.kube.selectors import LabelSelector

BESIDE_LABELS = {"example.com/pool": "beside"}
BESIDE_NODES = 5
"""Nodes for the unrelated pods, which no balloon may use."""
PROBE_EVERY_S = 0.5
SMALL = {"cpu": "1", "memory": "1Gi"}
"""With this request only the spread keeps two balloons apart."""
LARGE = {"cpu": "64", "memory": "1Gi"}
"""Two thirds of a node: the request itself keeps them apart."""
MANAGER = ControllerManagerSettings(kube_api_qps=400, kube_api_burst=800, node_monitor_grace_period_s=NEVER_S)
"""Raised, so that the making of pods does not set the time."""
FAST_SCHEDULER = SchedulerSettings(kube_api_qps=1000, kube_api_burst=2000)
FAST_FROM = 2_000
"""From this size on the scheduler's own client is let loose too: its default of 50/s would hide every difference."""
DEADLINE_S = 600.0


@dataclass(frozen=True, slots=True)
class Placing:
    """Seconds from creating the Deployment until the last balloon was bound, and the waits of unrelated pods."""

    spread: str
    count: int
    place_s: float
    beside_s: tuple[float, ...]


async def place(count: int, spread: Spread) -> Placing:
    """Measure one combination; the result must be exactly one balloon per node."""
    scheduler = FAST_SCHEDULER if count >= FAST_FROM else SchedulerSettings()
    async with start_paper_cluster(count, MANAGER, scheduler, beside=_beside_nodes()) as cluster:
        probes = asyncio.create_task(_probe(cluster))
        started = time.monotonic()
        path = f"/apis/apps/v1/namespaces/{ACCOUNT_NAMESPACE}/deployments"
        await cluster.client.post(path, _deployment(count, spread))
        ended = await cluster.watch.until(lambda: _bound(cluster) == count, f"{count} balloons bound", DEADLINE_S)
        probes.cancel()
        await asyncio.gather(probes, return_exceptions=True)
        _check(cluster, count)
        return Placing(spread.value, count, ended - started, _waits(cluster, started))


def _bound(cluster: PaperCluster) -> int:
    return cluster.watch.bound_balloons


def _check(cluster: PaperCluster, count: int) -> None:
    balloons = Counter(pod.node for pod in cluster.watch.pods.values() if pod.is_balloon)
    assert len(balloons) == count, "not every node has a balloon"
    assert set(balloons.values()) == {1}, "a node has two balloons"


def _deployment(count: int, spread: Spread) -> dict[str, Any]:
    """What the service would apply, made by the same function."""
    metadata = Metadata(POOL, ACCOUNT_NAMESPACE, uid="uid", creation_timestamp=datetime.now(UTC))
    pool = BalloonPool(metadata, PoolSpec(PoolNodes(LabelSelector(POOL_LABELS)), Mode.HOLD, spread=spread))
    requests = parse_resources(LARGE if spread is Spread.EXCLUSIVE_REQUEST else SMALL)
    return deployment(pool, Shape("explicit", "", {}), BalloonSpec(requests, count, DEFAULT_IMAGE))


def _beside_nodes() -> list[PaperNode]:
    room = {"cpu": "96", "memory": "1100Gi", "pods": "1000"}
    return [PaperNode(name=f"beside-{n}", labels=BESIDE_LABELS, allocatable=room) for n in range(BESIDE_NODES)]


async def _probe(cluster: PaperCluster) -> None:
    """A small pod of somebody else, again and again, until cancelled."""
    number = 0
    while True:
        body = work_pod(f"beside-{number}", {"cpu": "10m", "memory": "16Mi"}, nodeSelector=BESIDE_LABELS)
        cluster.watch.expect((JOBS, f"beside-{number}"))
        await cluster.client.post(f"/api/v1/namespaces/{JOBS}/pods", body)
        number += 1
        await asyncio.sleep(PROBE_EVERY_S)


def _waits(cluster: PaperCluster, started: float) -> tuple[float, ...]:
    """Of the probes sent while balloons were placed; one that still waits has waited until now at least."""
    now = time.monotonic()
    pods = [pod for (namespace, _), pod in cluster.watch.pods.items() if namespace == JOBS]
    return tuple(
        (pod.bound_at or now) - pod.expected_at for pod in pods if pod.expected_at and pod.expected_at >= started
    )
