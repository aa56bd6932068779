"""One burst: pods submitted at once, the moment each is bound, and what it cost in balloons."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.paper_cluster import JOBS, PaperCluster, work_pod
from benchmarks.pod_watch import SeenPod

SETTLE_S = 3.0
"""How long after the last bind balloons may still be lost to the burst."""
PODS = f"/api/v1/namespaces/{JOBS}/pods"


@dataclass(frozen=True, slots=True)
class Burst:
    """What came of a burst.

    `waits_s` are the times from submitting each pod until it was bound. Of the balloons that had a node,
    `preempted` were removed by the scheduler and `released` by others; `excess` are those removed beyond one per pod.
    """

    size: int
    is_release: bool
    waits_s: tuple[float, ...]
    preempted: int
    released: int
    excess: int


async def run_burst(cluster: PaperCluster, name: str, size: int, *, is_release: bool, **spec: Any) -> Burst:
    """Submit, wait until all are bound, count what happened to the balloons, and clear the work away.

    `spec` is what the pods say besides what they request.
    """
    watch = cluster.watch
    names = [f"{name}-{number}" for number in range(size)]
    before = len(watch.gone)
    await asyncio.gather(*(_submit(cluster, pod, spec) for pod in names))
    await watch.until(lambda: all(watch.pods[JOBS, pod].node for pod in names), f"{name}: all pods bound")
    await asyncio.sleep(SETTLE_S if size > 1 else 0.0)
    lost = [pod for pod in watch.gone[before:] if pod.is_balloon and pod.node]
    preempted = sum(pod.is_preempted for pod in lost)
    waits = tuple(_wait_s(watch.pods[JOBS, pod]) for pod in names)
    await asyncio.gather(*(cluster.client.delete(f"{PODS}/{pod}") for pod in names))
    return Burst(size, is_release, waits, preempted, len(lost) - preempted, max(0, len(lost) - size))


async def _submit(cluster: PaperCluster, name: str, spec: Mapping[str, Any]) -> None:
    cluster.watch.expect((JOBS, name))
    await cluster.client.post(PODS, work_pod(name, **spec))


def _wait_s(pod: SeenPod) -> float:
    assert pod.bound_at is not None
    assert pod.expected_at is not None
    return pod.bound_at - pod.expected_at
