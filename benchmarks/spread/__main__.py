"""`python -m benchmarks.spread`: balloons onto as many nodes, under the three spreads."""

import asyncio
import sys
from collections.abc import Sequence

import msgspec

from balloons.api.pool import Spread
from benchmarks.report import Figure, Report, progress, run
from benchmarks.spread.placing import Placing, place
from lab.percentile import percentile

SIZES = (1_000, 5_000)
FAKED = (
    "Paper nodes: no kubelet; a bound pod becomes Running at once. API server, etcd (without fsync), controller "
    "manager and scheduler are real and share the machine's cores with everything else.",
    "The controller manager's client limits are raised to 400/s, burst 800, for every spread and size.",
    "With 1,000 balloons the scheduler's limits are its defaults (50/s); with 5,000 they are raised to 1,000/s.",
    "The Deployment is what our service renders for explicit requests, created without the service: 1 core where the "
    "spread keeps balloons apart, 64 of 96 cores where the request does.",
    "Unrelated pods: one each half second onto nodes that no balloon may use, submit to bind.",
)


def measure(is_quick: bool) -> Report:
    """Each size under each spread, on a control plane of its own."""
    sizes = (10,) if is_quick else SIZES
    return report_of([_place(size, spread) for size in sizes for spread in Spread], is_quick=is_quick)


def _place(size: int, spread: Spread) -> Placing:
    progress(f"{size:,} balloons, {spread.value}")
    placing = asyncio.run(place(size, spread))
    progress(f"placed in {placing.place_s:.1f} s; unrelated pods: {_beside(placing)}")
    return placing


def report_of(placings: Sequence[Placing], *, is_quick: bool) -> Report:
    """One figure per size and spread."""
    return Report(
        name="spread",
        figures=tuple(_figure(placing) for placing in placings),
        faked=FAKED,
        behind={"placings": msgspec.to_builtins(placings)},
        is_quick=is_quick,
    )


def _figure(placing: Placing) -> Figure:
    what = f"balloons placed; unrelated pods: {_beside(placing)}"
    return Figure(name=f"place_s_{placing.count}", case=placing.spread, what=what, value=placing.place_s, unit="s")


def _beside(placing: Placing) -> str:
    if not placing.beside_s:
        return "none"
    p50, p99 = (percentile(placing.beside_s, share) * 1000 for share in (0.5, 0.99))
    return f"p50 {p50:.0f} ms, p99 {p99:.0f} ms of {len(placing.beside_s)}"


if __name__ == "__main__":
    sys.exit(run("spread", measure))
