"""`python -m benchmarks.truth`: real scale-ups on a real control plane, each planned before, and how true the plan was.

Twenty take about half an hour. With `--results FOLDER` each is kept there (what the plan saw, the plan, what happened)
and not run again, and `--minutes N` begins no other one after that time: a long run can be made in parts. `--replan`
judges plans that are made anew of the kept clusters, and runs nothing. `--calibrate FOLDER...` runs nothing either: of
the runs of several seeds it tells how wide a band must be, and whether the others' band holds each that is left out.
"""

import asyncio
import itertools
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from benchmarks.report import Report, answer, parser_of, progress
from benchmarks.truth.case import HISTORY, Case, cases
from benchmarks.truth.figures import figures, row
from benchmarks.truth.run import kept_trial, replan, run_trial
from benchmarks.truth.trial import Trial
from benchmarks.truth.undrawn_spread import calibration

RUNS, QUICK_RUNS, SEED = 20, 2, 1
FAKED = (
    "Machines are joiners: all requests of a kubelet, no kubelet. Boot times, the cloud's capacity and its launch rate "
    "are simulated; control plane, Karpenter and `balloons run` are real.",
    f"Each cluster has a history of {HISTORY} nodes, seconds old. Boots differ by 3-9 % (standard deviation).",
    "Stated to the plan, because no pod shows it here: cores of the API server (its part of a machine that everybody "
    "shares) and its usual load, what a join of the history cost it (CPU counters; with a JoinThrottle that is "
    "learned), client limits of the controller manager and the scheduler, and what only a cloud knows (--max-nodes, "
    "--launch-rate).",
    "Every process shares the machine's cores, the machines' requests included; the busy share stands beside each run. "
    "An API server of one core has it before all others, where the machine allows a cgroup (else the row says shared).",
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; 1 when a figure is below its floor."""
    parser = parser_of("truth")
    parser.add_argument("--runs", type=int, default=RUNS, help=f"scale-ups (default {RUNS})")
    parser.add_argument(
        "--seed", type=drawn_seed, default=SEED, help=f"what they are drawn from: a number or clock (default {SEED})"
    )
    parser.add_argument(
        "--results", type=Path, help="keep each run in this folder, and do not run those that are there"
    )
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no other run after this time")
    parser.add_argument("--replan", action="store_true", help="judge new plans of the kept runs; run nothing")
    parser.add_argument(
        "--calibrate",
        type=Path,
        nargs="+",
        metavar="FOLDER",
        help="how wide a band must be, by all runs kept in these folders; run nothing",
    )
    asked = parser.parse_args(arguments)
    progress(f"seed {asked.seed}" if not asked.calibrate else "every kept run, of whatever seed")
    if asked.calibrate:
        trials = list(_everything_kept(asked.calibrate, is_anew=asked.replan))
    else:
        wanted = list(itertools.islice(cases(asked.seed, asked.quick), QUICK_RUNS if asked.quick else asked.runs))
        with tempfile.TemporaryDirectory(prefix="kb-truth-") as folder:
            results = asked.results or Path(folder)
            trials = list(_replanned(wanted, results) if asked.replan else _measured(wanted, results, asked.minutes))
    report = Report(
        name="truth",
        figures=tuple(calibration(trials) if asked.calibrate else figures(trials)),
        faked=FAKED,
        behind={"seed": asked.seed, "trials": msgspec.to_builtins(trials)},
        is_quick=asked.quick,
    )
    return answer(report, asked, ["\n".join(map(row, trials))])


def drawn_seed(text: str) -> int:
    """A seed that nobody can have tuned to for `clock`, else the number; raises ValueError."""
    return int(time.time()) if text == "clock" else int(text)


def _measured(wanted: Sequence[Case], results: Path, minutes: float) -> Iterator[Trial]:
    """Every wanted case that was run already or that there is time for."""
    until_s = time.monotonic() + 60 * minutes
    for case in wanted:
        folder = results / f"{case.number:02}"
        folder.mkdir(parents=True, exist_ok=True)
        trial = kept_trial(case, folder)
        if trial is None and time.monotonic() < until_s:
            trial = asyncio.run(run_trial(case, folder))
            progress(row(trial))
        if trial is not None:
            yield trial


def _replanned(wanted: Sequence[Case], results: Path) -> Iterator[Trial]:
    for case in wanted:
        if (trial := asyncio.run(replan(case, results / f"{case.number:02}"))) is not None:
            yield trial


def _everything_kept(results: Iterable[Path], *, is_anew: bool) -> Iterator[Trial]:
    for folder in sorted(path for result in results for path in result.iterdir() if path.is_dir()):
        trial = asyncio.run(replan(None, folder)) if is_anew else kept_trial(None, folder)
        if trial is not None:
            yield trial


if __name__ == "__main__":
    sys.exit(main())
