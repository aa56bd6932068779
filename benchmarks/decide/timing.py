"""Times of one cluster size, in a fresh process: `python -m benchmarks.decide.timing NODES ROUNDS`."""

import gc
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from balloons.decide.decision_and_reasons import Memory
from benchmarks.decide.cluster import Cluster, targets
from benchmarks.decide.population import BUSY_EVERY

CHANGED_SHARE = 0.01
T = TypeVar("T")


def main(count: int, rounds: int) -> dict[str, Any]:
    """Milliseconds of the parts of a tick, each with all its rounds."""
    cluster = Cluster(count)
    cluster.fill()
    first_snapshot_ms, snapshot = timed(cluster.snapshot)
    decided, cluster.memory = cluster.decide(snapshot, Memory())
    written = cluster.apply(decided)
    busy = sum(nodes[1] for nodes in targets(decided).values())
    assert busy == count // BUSY_EVERY, "the decision has not seen what runs where"
    fulls = [_full(cluster) for _ in range(rounds)]
    ticks = [_tick(cluster, run) for run in range(1, rounds + 1)]
    return {
        "nodes": count,
        "deployments": written,
        "first_snapshot_ms": first_snapshot_ms,
        "full_ms": statistics.median(fulls),
        "full_rounds_ms": fulls,
        "tick_ms": statistics.median(sum(parts.values()) for parts in ticks),
        "tick_rounds_ms": ticks,
    }


def _full(cluster: Cluster) -> float:
    """A decision that remembers nothing; nothing may be left to do, as the objects are there already."""
    gc.collect()
    snapshot = cluster.snapshot()
    taken, (decided, _) = timed(lambda: cluster.decide(snapshot, Memory()))
    assert not any(decision.actions for decision in decided.pools), (
        "a second decision on the applied result is not empty"
    )
    return taken


def _tick(cluster: Cluster, run: int) -> dict[str, float]:
    gc.collect()
    index_ms, changed = timed(lambda: cluster.change(CHANGED_SHARE, run))
    assert changed >= 2 * int(CHANGED_SHARE * cluster.count)
    snapshot_ms, snapshot = timed(cluster.snapshot)
    decide_ms, (decided, cluster.memory) = timed(lambda: cluster.decide(snapshot, cluster.memory))
    cluster.apply(decided)
    return {"index_ms": index_ms, "snapshot_ms": snapshot_ms, "decide_ms": decide_ms}


def timed(work: Callable[[], T]) -> tuple[float, T]:
    """Milliseconds of wall time, and what came of it."""
    started = time.perf_counter()
    done = work()
    return (time.perf_counter() - started) * 1000, done


if __name__ == "__main__":
    sys.stdout.buffer.write(msgspec.json.encode(main(int(sys.argv[1]), int(sys.argv[2]))))
