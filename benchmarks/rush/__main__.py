"""`python -m benchmarks.rush`: the demo's rush by turns, on a real control plane with a real Karpenter.

`--way NAME` (repeatable) measures some of the ways, `--setting N` one of the two settings, `--work` prints where the
work went. A run of all ways and five rounds takes about four hours; nothing may run beside it. With `--results FOLDER`
each rush is kept there and not run again, and `--minutes N` begins no other one after that time: so it can be made in
parts.
"""

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.report import Report, answer, parser_of, progress
from benchmarks.rush.figures import all_s, errors, figures, mean_s, p99_ms
from benchmarks.rush.trial import Trial, keep, kept
from benchmarks.rush.ways import HALF_A_CORE, WAYS, Setting, Way, settings_of
from benchmarks.rush.work import Work, work_so_far
from lab.binaries import find_binaries
from lab.binaries.catalogue import ALL_BINARIES
from lab.demo.rush import run_rush
from lab.demo.rush_scene import open_rush, wait_for_throttle

NODES, ROUNDS = 150, 5
THROTTLES_PATH = "/apis/kube-balloons.github.io/v1alpha1/jointhrottles"
FAKED = (
    "Machines are joiners: all requests of a kubelet and of 8 DaemonSets' pods, no kubelet; boots take 5 s +/- 30 %.",
    "API server (one core, 30 seats), etcd (without fsync), controller manager, scheduler and Karpenter are real.",
    "All processes share the machine's cores, the machines' requests included: compare within one run only.",
    "In the second setting a cgroup holds the API server to part of a core; a machine that allows none leaves it out.",
)

TrialsBySetting = dict[str, dict[str, list[Trial]]]
"""By setting, then by way."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; 1 when a figure is below its floor."""
    parser = parser_of("rush")
    parser.add_argument("--way", action="append", choices=tuple(WAYS), help="measure this way, not all; repeatable")
    parser.add_argument("--setting", type=int, choices=(1, 2), help="only shared cores, or only a held API server")
    parser.add_argument(
        "--cores",
        type=float,
        default=HALF_A_CORE,
        help=f"so much of a core for a held API server (default {HALF_A_CORE}; make demo says what is as little here)",
    )
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"so many rounds (default {ROUNDS})")
    parser.add_argument("--nodes", type=int, default=NODES, help=f"so many whole nodes (default {NODES})")
    parser.add_argument("--work", action="store_true", help="also print where the work of each way went")
    parser.add_argument("--results", type=Path, help="keep each rush in this folder, and run none that is there")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no other rush after this time")
    asked = parser.parse_args(arguments)
    for name in asked.way or ():
        if (teacher := WAYS[name].teacher) and teacher not in asked.way:
            parser.error(f"--way {name!r} begins with what {teacher!r} learned: measure that, too")
    find_binaries(binary.name for binary in ALL_BINARIES)
    with tempfile.TemporaryDirectory(prefix="kb-rush-") as folder:
        by_setting = asyncio.run(_measure(asked, asked.results or Path(folder)))
    settings = reversed(settings_of(asked.cores))
    judged = next((by_setting[setting.name] for setting in settings if by_setting.get(setting.name)), {})
    report = Report(
        name="rush",
        figures=figures(judged),
        faked=FAKED,
        behind={
            name: [asdict(trial) for trials in ways.values() for trial in trials] for name, ways in by_setting.items()
        },
        is_quick=asked.quick,
    )
    tables = [table for name, ways in by_setting.items() for table in _tables(name, ways, has_work=asked.work)]
    return answer(report, asked, tables)


async def _measure(asked: argparse.Namespace, results: Path) -> TrialsBySetting:
    until_s = time.monotonic() + 60 * asked.minutes
    nodes, rounds = (12, 1) if asked.quick else (asked.nodes, asked.rounds)
    wanted = [way for way in WAYS.values() if not asked.way or way.name in asked.way]
    both = enumerate(settings_of(asked.cores), 1)
    settings = [setting for number, setting in both if asked.setting in (None, number)]
    by_setting: TrialsBySetting = {}
    for number in range(rounds):
        for setting in settings:
            taught: dict[str, Trial] = {}
            for way in wanted:
                trial = kept(results, setting.name, way.name, number, nodes)
                if trial is None and time.monotonic() < until_s:
                    trial = await _trial(setting, way, number, nodes, taught.get(way.teacher))
                if trial is not None:
                    keep(trial, results)
                    taught[way.name] = trial
                    by_setting.setdefault(setting.name, {}).setdefault(way.name, []).append(trial)
    return by_setting


async def _trial(setting: Setting, way: Way, number: int, nodes: int, teacher: Trial | None) -> Trial | None:
    pacing = way.remembering(None if teacher is None else teacher.learned)
    learned: Mapping[str, Any] = {}
    async with open_rush(pacing) as scene:
        with scene.server_held_to(setting.server_cores) as is_held:
            if not is_held:
                progress(f"{setting.name}: not on this machine, which allows no cgroup")
                return None
            if way.pacing is not None:
                await wait_for_throttle(scene)
            before = await work_so_far(scene)
            record = await run_rush(scene, nodes)
            work = (await work_so_far(scene)).since(before)
        if way.pacing is not None:
            (throttle,) = await scene.api.items(THROTTLES_PATH)
            learned = throttle.get("status", {}).get("learned", {})
    progress(
        f"round {number + 1}, {setting.name}, {way.name}: {record.all_usable_s:.1f} s, innocent p99 "
        f"{record.bystander_p99_ms:.0f} ms, {record.errors} errors, {record.most_in_flight} in flight at most"
    )
    return Trial(setting=setting.name, way=way.name, round=number, record=record, work=work, learned=learned)


def _tables(setting: str, ways: Mapping[str, Sequence[Trial]], *, has_work: bool) -> Iterator[str]:
    head = ("way", "all usable s", "range", "mean s", "settled s", "p99 ms", "errors", "in flight", "machine busy")
    yield _table(setting, [head, *(_row(name, trials) for name, trials in ways.items())])
    if has_work:
        names = tuple(dict.fromkeys(name for trials in ways.values() for trial in trials for name in trial.work.cpu_s))
        first = ("per node", *(f"{name} CPU ms" for name in names), "writes", "reads", "attempts", "rounds in all")
        yield _table(f"{setting}: work", [first, *(_work_row(name, trials, names) for name, trials in ways.items())])
        yield _table(f"{setting}: writes per node", list(_write_rows(ways)))


def _row(name: str, trials: Sequence[Trial]) -> tuple[str, ...]:
    times = [trial.record.all_usable_s for trial in trials]
    busy = statistics.median(trial.work.busy_share for trial in trials)
    most = max(trial.record.most_in_flight for trial in trials)
    settled_s = statistics.median(trial.record.settled_s for trial in trials)
    spans = (all_s(trials), mean_s(trials), settled_s)
    cells = (f"{spans[0]:.1f}", f"{min(times):.1f}-{max(times):.1f}", *(f"{span_s:.1f}" for span_s in spans[1:]))
    return name, *cells, f"{p99_ms(trials):,.0f}", f"{errors(trials):,.0f}", str(most), f"{busy:.0%}"


def _per_node(trials: Sequence[Trial], figure: Callable[[Work], float]) -> float:
    return statistics.median(figure(trial.work) / len(trial.record.usable_s) for trial in trials)


def _work_row(name: str, trials: Sequence[Trial], names: Sequence[str]) -> tuple[str, ...]:
    cpu = [f"{1000 * _per_node(trials, partial(_cpu_s, who)):.0f}" for who in names]
    counts = [
        _per_node(trials, lambda work: sum(work.writes.values())),
        _per_node(trials, lambda work: work.reads),
        _per_node(trials, lambda work: work.attempts),
    ]
    rounds = statistics.median(trial.work.rounds for trial in trials)
    return name, *cpu, *(f"{count:.1f}" for count in counts), f"{rounds:.0f}"


def _cpu_s(who: str, work: Work) -> float:
    return work.cpu_s.get(who, 0.0)


def _writes(kind: str, work: Work) -> float:
    return work.writes.get(kind, 0)


def _write_rows(ways: Mapping[str, Sequence[Trial]]) -> Iterator[tuple[str, ...]]:
    yield ("who, what", *ways)
    kinds = {kind for trials in ways.values() for trial in trials for kind in trial.work.writes}
    counts = {kind: [_per_node(trials, partial(_writes, kind)) for trials in ways.values()] for kind in kinds}
    for kind in sorted(counts, key=lambda kind: -max(counts[kind]))[:24]:
        yield kind, *(f"{count:.1f}" for count in counts[kind])


def _table(title: str, rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([title, "", *lines])


if __name__ == "__main__":
    sys.exit(main())
