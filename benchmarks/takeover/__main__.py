"""`python -m benchmarks.takeover`: pairs of real replicas; their leaders are killed, frozen and cut off, in turn."""

import asyncio
import sys
from collections.abc import Iterator, Sequence

import msgspec

from benchmarks.report import Figure, Report, answer, parser_of, progress
from benchmarks.takeover.judge import Write
from benchmarks.takeover.pair import open_pairs
from benchmarks.takeover.trial import SUDDEN, Fault, Ring, Trial, faults
from lab.controlplane import ControlPlaneSettings, start_control_plane
from lab.percentile import percentile

TRIALS, QUICK_TRIALS = 200, 3
AT_ONCE = 6
SUDDEN_GOAL_S, ORDERLY_GOAL_S = 15.0, 3.0
FAKED = (
    "The nodes are objects; API server, etcd (without fsync), scheduler, controllers and all replicas are real.",
    "The pairs share the server and the machine, and nothing else: each has its own namespace, Lease, pool and nodes.",
    "Each replica reaches the server through a small proxy of ours, which is what swallows Lease requests.",
    "A takeover ends when the server has done the first write of the new leader besides the Lease, by the audit log.",
    "Two writers: requests of one replica that reached the server after the other's Lease was written, by one clock.",
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; 1 when a figure is below its floor."""
    parser = parser_of("takeover")
    parser.add_argument("--trials", type=int, default=TRIALS, help=f"sudden changes of leader (default {TRIALS})")
    parser.add_argument("--at-once", type=int, default=AT_ONCE, help=f"pairs side by side (default {AT_ONCE})")
    asked = parser.parse_args(arguments)
    count = QUICK_TRIALS if asked.quick else asked.trials
    report = asyncio.run(_measure(count, min(asked.at_once, count), is_quick=asked.quick))
    return answer(report, asked)


async def _measure(count: int, at_once: int, is_quick: bool) -> Report:
    trials: list[Trial] = []
    async with start_control_plane(ControlPlaneSettings(audit=True)) as plane, open_pairs(plane, at_once) as pairs:
        rings = [Ring(pair, plane.audit_logs[0], seed) for seed, pair in enumerate(pairs)]
        waiting = faults(count)
        async with asyncio.TaskGroup() as group:
            for ring in rings:
                group.create_task(_run(ring, waiting, trials))
        wrong = [write for ring in rings for write in ring.two_writers]
        writes = sum(ring.writes for ring in rings)
    return Report(
        name="takeover",
        figures=tuple(_figures(trials, wrong)),
        faked=FAKED,
        behind={
            "at_once": at_once,
            "trials": msgspec.to_builtins(trials),
            "writes": writes,
            "second_writers": msgspec.to_builtins(wrong),
        },
        is_quick=is_quick,
    )


async def _run(ring: Ring, waiting: Iterator[Fault], trials: list[Trial]) -> None:
    """Trial after trial on one pair, for as long as any are waiting."""
    for fault in waiting:
        trial = await ring.run(fault)
        trials.append(trial)
        took = f"leads {trial.leads_s:5.1f} s  writes {trial.writes_s:5.1f} s"
        progress(f"{len(trials):>3} {ring.pair.namespace:<14} {fault:<10} {took}")


def _figures(trials: Sequence[Trial], wrong: Sequence[Write]) -> Iterator[Figure]:
    sudden = [trial for trial in trials if trial.fault is not Fault.TERMINATED]
    orderly = [trial.writes_s for trial in trials if trial.fault is Fault.TERMINATED]
    yield Figure(
        name="trials", what="kills, freezes and stalls of a leader, in turn", value=float(len(sudden)), unit=""
    )
    yield Figure(
        name="p100_s",
        what="the longest until another leader has written",
        value=max(trial.writes_s for trial in sudden),
        unit="s",
        floor=SUDDEN_GOAL_S,
        goal=SUDDEN_GOAL_S,
    )
    for fault in SUDDEN:
        times = [trial.writes_s for trial in sudden if trial.fault is fault]
        what = f"the same, where the leader was {fault}: half of them"
        yield Figure(name="p50_s", case=fault, what=what, value=percentile(times, 0.5), unit="s")
    yield Figure(
        name="two_writers",
        what="writes that arrived while the other replica led",
        value=float(len(wrong)),
        unit="",
        floor=0.0,
        goal=0.0,
    )
    yield Figure(
        name="sigterm_s",
        what="after SIGTERM, the longest until another leader has written",
        value=max(orderly),
        unit="s",
        floor=2 * ORDERLY_GOAL_S,
        goal=ORDERLY_GOAL_S,
    )


if __name__ == "__main__":
    sys.exit(main())
