"""`python -m benchmarks.takeover`: two real replicas; their leader is killed, frozen and cut off, in turn."""

import argparse
import asyncio
import sys
from collections.abc import Iterator, Sequence

import msgspec

from benchmarks.percentile import percentile
from benchmarks.report import Figure, Report, as_json, as_table, progress
from benchmarks.takeover.replicas import open_replicas
from benchmarks.takeover.trial import SUDDEN, Fault, Ring, Trial, faults
from lab.controlplane import ControlPlaneSettings, start_control_plane

TRIALS, QUICK_TRIALS = 200, 3
SUDDEN_GOAL_S, ORDERLY_GOAL_S = 15.0, 3.0
FAKED = (
    "The nodes are objects; API server, etcd (without fsync), scheduler, controllers and both replicas are real.",
    "Each replica reaches the server through a small proxy of ours, which is what swallows Lease requests.",
    "A takeover ends when the server has done the first write of the new leader besides the Lease, by the audit log.",
    "Two writers: requests of one replica that reached the server after the other's Lease was written, by one clock.",
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; 1 when a figure is below its floor."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.takeover")
    parser.add_argument("--json", action="store_true", help="print one object of figures instead of a table")
    parser.add_argument("--quick", action="store_true", help="a small run that shows that it works, not how fast")
    parser.add_argument("--trials", type=int, default=TRIALS, help=f"sudden changes of leader (default {TRIALS})")
    asked = parser.parse_args(arguments)
    report = asyncio.run(_measure(QUICK_TRIALS if asked.quick else asked.trials, is_quick=asked.quick))
    print(as_json(report) if asked.json else as_table(report))
    return int(any(figure.is_below_floor for figure in report.figures) and not report.is_quick)


async def _measure(count: int, is_quick: bool) -> Report:
    async with start_control_plane(ControlPlaneSettings(audit=True)) as plane, open_replicas(plane) as replicas:
        ring, trials = Ring(plane, replicas), []
        for fault in faults(count):
            trials.append(await ring.run(fault))
            last = trials[-1]
            progress(f"{len(trials):>3} {fault:<10} leads {last.leads_s:5.1f} s  writes {last.writes_s:5.1f} s")
        wrong, writes = ring.two_writers, ring.writes
    return Report(
        name="takeover",
        figures=tuple(_figures(trials, len(wrong))),
        faked=FAKED,
        behind={
            "trials": msgspec.to_builtins(trials),
            "writes": writes,
            "second_writers": msgspec.to_builtins(wrong),
        },
        is_quick=is_quick,
    )


def _figures(trials: Sequence[Trial], wrong: int) -> Iterator[Figure]:
    sudden = [trial for trial in trials if trial.fault is not Fault.TERMINATED]
    orderly = [trial.writes_s for trial in trials if trial.fault is Fault.TERMINATED]
    yield Figure(
        name="trials", what="kills, freezes and stalls of the leader, in turn", value=float(len(sudden)), unit=""
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
        value=float(wrong),
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
