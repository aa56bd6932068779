"""`python -m benchmarks.removal`: the service is uninstalled in the middle of a ramp, again and again."""

import asyncio
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from benchmarks.removal.scene import open_hosts, open_scene
from benchmarks.removal.trial import Trial, run_trial
from benchmarks.removal.ways import TURNS
from benchmarks.report import Figure, Report, answer, parser_of, progress
from lab.controlplane import ControlPlaneSettings, start_control_plane

TRIALS, QUICK_TRIALS = 20, 1
FAKED = (
    "The pods of the service run as processes of this host, with the token, the arguments and the signals of a pod.",
    "Machines are objects; API server, etcd (without fsync), controllers, Karpenter, Helm and kubectl are real.",
    "No cluster-autoscaler runs: its quota is made, moved and given back, and confirmed by nobody.",
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run and print; 1 when anything was left behind."""
    parser = parser_of("removal")
    parser.add_argument("--trials", type=int, default=TRIALS, help=f"removals (default {TRIALS})")
    parser.add_argument("--seed", type=int, default=0, help="of the moments at which it is removed (default 0)")
    parser.add_argument("--first", type=int, default=1, help="number of the first trial, to go on with a run")
    asked = parser.parse_args(arguments)
    count = QUICK_TRIALS if asked.quick else asked.trials
    numbers = range(asked.first, asked.first + count)
    report = asyncio.run(_measure(numbers, asked.seed, is_quick=asked.quick))
    return answer(report, asked)


async def _measure(numbers: range, seed: int, is_quick: bool) -> Report:
    trials = list[Trial]()
    with tempfile.TemporaryDirectory(prefix="removal-") as folder:
        async with (
            start_control_plane(ControlPlaneSettings(audit=True)) as plane,
            open_hosts(plane) as hosts,
            open_scene(plane, Path(folder)) as scene,
        ):
            for number in numbers:
                way, chance = TURNS[(number - 1) % len(TURNS)], random.Random(f"{seed}-{number}")
                trials.append(await run_trial(scene, hosts, way, chance, has_quota=number % 2 == 1))
                progress(_line(trials[-1], number))
    return Report(
        name="removal",
        figures=tuple(_figures(trials)),
        faked=FAKED,
        behind={"trials": msgspec.to_builtins(trials), "ways": Counter(trial.way for trial in trials)},
        is_quick=is_quick,
    )


def _line(trial: Trial, number: int) -> str:
    at_joins = f"{trial.gates} gates, {trial.taints} taints, {trial.unlabelled} unlabelled"
    held = f"{trial.ceilings} ceilings, {at_joins}, {trial.kept} kept"
    end = "as before" if trial.is_restored else "; ".join(trial.wrong)
    return f"{number:>3} {trial.way:<46} {held}; {trial.removal_s:5.1f} s: {end}"


def _figures(trials: Sequence[Trial]) -> Iterator[Figure]:
    restored = sum(trial.is_restored for trial in trials)
    yield Figure(name="trials", what="removals in the middle of a ramp", value=float(len(trials)), unit="")
    yield Figure(
        name="restored",
        what="after which every object of the user's was as before",
        value=float(restored),
        unit="",
        floor=float(len(trials)),
        goal=float(len(trials)),
        is_higher_better=True,
    )
    yield Figure(
        name="objects",
        what="objects of users that our accounts had written, over all trials",
        value=float(sum(trial.objects for trial in trials)),
        unit="",
    )
    yield Figure(name="removal_s", what="the longest removal", value=max(t.removal_s for t in trials), unit="s")


if __name__ == "__main__":
    sys.exit(main())
