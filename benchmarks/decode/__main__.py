"""`python -m benchmarks.decode`: the list path of our watch caches against the official typed client."""

import gc
import statistics
import sys
import time
from collections.abc import Sequence

from benchmarks.decode.memory import SIDES
from benchmarks.decode.node_list import node_pages
from benchmarks.decode.sides import Side, check_same, official, ours
from benchmarks.fresh_process import answer_of
from benchmarks.report import Figure, Report, progress, run

NODES = 2_000
ROUNDS = 7
REPEATS = {"ours": 5, "official": 1}
"""Runs per round, of which the median counts: ours takes so short that anything else on the machine would show."""
FAKED = (
    "The answers are synthetic Node objects in memory (17 kB each: labels, annotations, managedFields, images, "
    "conditions); no server and no network.",
    "bytes_per_node is what the allocator holds for the decoded list; the answers themselves are not counted.",
)


def measure(is_quick: bool) -> Report:
    """Rounds of both sides by turns over the same bytes, then the memory of each in a process of its own."""
    count, rounds = (20, 1) if is_quick else (NODES, ROUNDS)
    pages = node_pages(count)
    check_same(ours(pages), official(pages))
    seconds = _rounds(pages, rounds)
    rates = {side: count / statistics.median(times) for side, times in seconds.items()}
    progress("memory of each side in a fresh process")
    memory = {side: answer_of("benchmarks.decode.memory", side, str(count)) for side in SIDES}
    return Report(
        name="decode",
        figures=_figures(rates, _ratio(seconds), memory),
        faked=FAKED,
        behind={
            "nodes": count,
            "bytes_per_node_on_the_wire": sum(map(len, pages)) / count,
            "seconds": seconds,
            "nodes_per_s": rates,
            "memory": memory,
        },
        is_quick=is_quick,
    )


def _rounds(pages: Sequence[bytes], rounds: int) -> dict[str, list[float]]:
    seconds: dict[str, list[float]] = {side: [] for side in SIDES}
    for number in range(rounds):
        for side, read in SIDES.items():
            seconds[side].append(statistics.median(_seconds(read, pages) for _ in range(REPEATS[side])))
        progress(f"round {number + 1} of {rounds}: " + ", ".join(f"{s} {t[-1]:.3f} s" for s, t in seconds.items()))
    return seconds


def _seconds(read: Side, pages: Sequence[bytes]) -> float:
    gc.collect()
    started = time.perf_counter()
    held = read(pages)
    taken = time.perf_counter() - started
    del held
    return taken


def _ratio(seconds: dict[str, list[float]]) -> float:
    """The median over the rounds: both sides of a round ran within seconds of each other."""
    return statistics.median(peer / own for own, peer in zip(seconds["ours"], seconds["official"], strict=True))


def _figures(rates: dict[str, float], ratio: float, memory: dict[str, dict[str, float]]) -> tuple[Figure, ...]:
    own, peer = rates["ours"], rates["official"]
    own_bytes, peer_bytes = (memory[side]["traced_bytes_per_node"] for side in ("ours", "official"))
    return (
        Figure(
            name="ratio",
            what=f"nodes decoded per second, ours {own:,.0f} over the client's {peer:,.0f}",
            value=ratio,
            unit="x",
            peer="1 x",
            floor=20,
            goal=40,
            is_higher_better=True,
        ),
        Figure(
            name="bytes_per_node",
            what="memory held per decoded node",
            value=own_bytes,
            unit="B",
            peer=f"{peer_bytes:,.0f} B",
            floor=8_000,
            goal=4_000,
        ),
    )


if __name__ == "__main__":
    sys.exit(run("decode", measure))
