"""`python -m benchmarks.preempt`: submit to bind on warm nodes, plain preemption against burst release."""

import asyncio
import itertools
import statistics
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from benchmarks.paper_cluster import PaperCluster, start_paper_cluster
from benchmarks.preempt.burst import Burst, run_burst
from benchmarks.report import Figure, Report, progress, run
from lab.demo.service import run_service
from lab.percentile import percentile

NODES, SINGLES, BURSTS, ROUNDS = 300, 20, (60, 100), 3
FAKED = (
    "Paper nodes: no kubelet. A bound pod becomes Running at once and a deleted one vanishes at once.",
    "API server, etcd (without fsync), controller manager and scheduler are real, with their default client limits.",
    "Every process shares the machine's cores, the load generator included.",
    "Submit to bind: from before the POST of a pod until one watch shows its node, on the clock of one process.",
    "Plain preemption: the same pool, paused for that burst, so that the service only looks on.",
)


def measure(is_quick: bool) -> Report:
    """Singles first, then bursts of each size, plain and with release by turns."""
    nodes, singles, sizes, rounds = (8, 2, (4,), 1) if is_quick else (NODES, SINGLES, BURSTS, ROUNDS)
    alone, bursts = asyncio.run(_measure(nodes, singles, sizes, rounds))
    return Report(
        name="preempt",
        figures=_figures(alone, bursts, sizes[-1]),
        faked=FAKED,
        behind={
            "nodes": nodes,
            "single_s": [burst.waits_s[0] for burst in alone],
            "summary": [_summary(bursts, size, is_release) for size in sizes for is_release in (False, True)],
            "bursts": msgspec.to_builtins(bursts),
        },
        is_quick=is_quick,
    )


async def _measure(nodes: int, singles: int, sizes: Sequence[int], rounds: int) -> tuple[list[Burst], list[Burst]]:
    async with start_paper_cluster(nodes) as cluster, run_service(cluster.plane):
        progress(f"{nodes} paper nodes are up; a pool in Hold warms them")
        await cluster.make_pool()
        await _warm(cluster, nodes)
        alone = []
        for number in range(singles):
            alone.append(await run_burst(cluster, f"single-{number}", 1, is_release=True))
            await _warm(cluster, nodes)
        progress(f"single pods: {statistics.median(b.waits_s[0] for b in alone) * 1000:.0f} ms median")
        turns = itertools.product(range(rounds), sizes, (False, True))
        bursts = [await _burst(cluster, f"burst-{n}", size, is_release, nodes) for n, size, is_release in turns]
        return alone, bursts


async def _burst(cluster: PaperCluster, name: str, size: int, is_release: bool, nodes: int) -> Burst:
    await cluster.patch_pool({"paused": not is_release}, because="Steady" if is_release else "Paused")
    way = "release" if is_release else "plain"
    burst = await run_burst(cluster, f"{name}-{size}-{way}", size, is_release=is_release)
    p50, p99 = (percentile(burst.waits_s, share) for share in (0.5, 0.99))
    progress(
        f"{name}: {size} pods, {way}: p50 {p50:.2f} s, p99 {p99:.2f} s; balloons preempted {burst.preempted}, "
        f"released {burst.released}, beyond need {burst.excess}"
    )
    await cluster.patch_pool({"paused": False})
    await _warm(cluster, nodes)
    return burst


async def _warm(cluster: PaperCluster, nodes: int) -> None:
    watch = cluster.watch
    await watch.until(lambda: len(watch.held_nodes()) == nodes == len(watch.pods), f"{nodes} nodes held and no work")


def _summary(bursts: Iterable[Burst], size: int, is_release: bool) -> dict[str, Any]:
    chosen = [burst for burst in bursts if (burst.size, burst.is_release) == (size, is_release)]
    waits = [wait for burst in chosen for wait in burst.waits_s]
    return {
        "size": size,
        "way": "release" if is_release else "plain",
        "p50_s": percentile(waits, 0.5),
        "p99_s": percentile(waits, 0.99),
        "max_s": max(waits),
        "beyond_need": sum(burst.excess for burst in chosen),
    }


def _figures(alone: Sequence[Burst], bursts: Sequence[Burst], largest: int) -> tuple[Figure, ...]:
    plain, release = (_summary(bursts, largest, is_release)["p99_s"] for is_release in (False, True))
    excess = sum(burst.excess for burst in bursts if burst.is_release)
    pods = sum(burst.size for burst in bursts if burst.is_release)
    return (
        Figure(
            name="single_p50_ms",
            what="one pod, submit to bind, median",
            value=statistics.median(burst.waits_s[0] for burst in alone) * 1000,
            unit="ms",
        ),
        Figure(
            name="burst100_plain_p99_s",
            what="burst of 100, the scheduler alone preempts, p99",
            value=plain,
            unit="s",
        ),
        Figure(
            name="burst100_release_p99_s",
            what="burst of 100, balloons released in bulk, p99",
            value=release,
            unit="s",
            peer=f"{plain:.2f} s",
        ),
        Figure(
            name="burst100_ratio",
            what="the same as a share of plain preemption",
            value=release / plain,
            unit="x",
            peer="1 x",
            goal=0.35,
        ),
        Figure(
            name="beyond_need",
            what="balloons removed beyond one per pod, share of pods released for",
            value=excess / pods,
            unit="",
        ),
    )


if __name__ == "__main__":
    sys.exit(run("preempt", measure))
