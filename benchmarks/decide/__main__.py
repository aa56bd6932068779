"""`python -m benchmarks.decide`: a full decision, a tick where 1 % has changed, and the memory of the view."""

import sys
from typing import Any

from benchmarks.fresh_process import answer_of
from benchmarks.report import Figure, Report, progress, run

SIZES = (1_000, 7_500, 100_000)
PENDING_SHARE = 0.5
"""Waiting pods per node in the measurement of memory: 50,000 beside 100,000 nodes."""
ROUNDS = 7
FAKED = (
    "No server: nodes and pods are JSON made here, read by the real decoder into the service's own index.",
    "The cluster is in the state in which nothing is left to do; a full decision remembers nothing from before.",
    "A tick is: change 1 % of the nodes and of the pods in the index, take a snapshot, decide. Writing is not in it.",
    "Memory is the whole process: Python, our code, caches, index and one snapshot; no HTTP buffers.",
)


def measure(is_quick: bool) -> Report:
    """Each size in a process of its own, then the memory of the largest."""
    sizes, rounds = ((40, 200), 2) if is_quick else (SIZES, ROUNDS)
    times = {size: _times(size, rounds) for size in sizes}
    largest = sizes[-1]
    progress(f"memory with {largest:,} nodes, {largest:,} balloons and half as many waiting pods")
    module, pending = "benchmarks.decide.held_memory", round(largest * PENDING_SHARE)
    memory = answer_of(module, str(largest), str(pending))
    return Report(
        name="decide",
        figures=_figures(times[largest], memory),
        faked=FAKED,
        behind={"times": list(times.values()), "memory": memory},
        is_quick=is_quick,
    )


def _times(size: int, rounds: int) -> dict[str, Any]:
    times: dict[str, Any] = answer_of("benchmarks.decide.timing", str(size), str(rounds))
    progress(f"{size:>7,} nodes: full {times['full_ms']:.1f} ms, tick {times['tick_ms']:.1f} ms")
    return times


def _figures(times: dict[str, Any], memory: dict[str, float]) -> tuple[Figure, ...]:
    return (
        Figure(
            name="full_ms_100k",
            what="one decision over 100,000 nodes, nothing remembered",
            value=times["full_ms"],
            unit="ms",
            goal=250,
        ),
        Figure(
            name="tick_ms_100k",
            what="1 % changed: index, snapshot and decision",
            value=times["tick_ms"],
            unit="ms",
            goal=250,
        ),
        Figure(
            name="memory_mb_100k",
            what="process with 100,000 nodes, 100,000 balloons, 50,000 waiting pods",
            value=memory["resident_bytes"] / 1e6,
            unit="MB",
            goal=1_000,
        ),
    )


if __name__ == "__main__":
    sys.exit(run("decide", measure))
