"""The figures of the issue, as counts of runs, and the table behind them."""

import statistics
from collections.abc import Iterator, Sequence

from benchmarks.report import Figure
from benchmarks.truth.trial import Trial

OF = 20
"""Bounds are stated for so many runs and hold in proportion for others."""


def figures(trials: Sequence[Trial]) -> Iterator[Figure]:
    """All of them."""
    runs = len(trials)
    yield Figure(name="runs", what="real scale-ups, each planned before", value=float(runs), unit="")
    within_10 = sum(trial.is_within(0.10) for trial in trials)
    yield _count("eta_within_10", "the last usable node came within 10 % of the predicted time", within_10, runs, 20)
    within_15 = sum(trial.is_within(0.15) for trial in trials)
    yield _count("eta_within_15", "... within 15 %", within_15, runs, 20, floor=20)
    covered = sum(trial.is_covered for trial in trials)
    yield _count("band_covers", "it came within the plan's band", covered, runs, 18, floor=16)
    right = sum(trial.is_binding_right for trial in trials)
    yield _count("binding_right", "the plan named the limit that held the last nodes", right, runs, 20, floor=18)
    if ends := [off for trial in trials for off in _ends_off(trial)]:
        what = f"wave ends: median error of {len(ends)} in all"
        yield Figure(name="wave_ends_off", what=what, value=100 * statistics.median(ends), unit="%")


def _count(name: str, what: str, value: int, runs: int, goal: int, floor: int | None = None) -> Figure:
    return Figure(
        name=name,
        what=what,
        value=float(value),
        unit=f"of {runs}",
        goal=goal * runs / OF,
        floor=None if floor is None else floor * runs / OF,
        is_higher_better=True,
    )


def _ends_off(trial: Trial) -> Iterator[float]:
    for wave in trial.waves:
        if wave.real_s is not None and wave.said_s:
            yield abs(wave.real_s / wave.said_s - 1.0)


def row(trial: Trial) -> str:
    """One line of the table."""
    said, happened = trial.said, trial.happened
    off = "other nodes" if trial.off_by is None else f"{100 * trial.off_by:+5.1f} %"
    band = f"{said.low_s or 0:3.0f}-{said.high_s or 0:3.0f}{' ' if trial.is_covered else '!'}"
    right = " " if trial.is_binding_right else "!"
    case = happened.case
    shared = " (shared)" if case.cores == 1 and not happened.is_served_first else ""
    return (
        f"{case.number:>2} {case.text}  said {said.eta_s or 0:5.1f} s [{band}] real {trial.real_s:5.1f} s "
        f"{off}  {said.limit}{right} ({' / '.join(trial.held_by)})  came {len(happened.lives)} of {said.nodes}  "
        f"server {100 * happened.server_busy:.0f} %{shared}, machine {100 * happened.machine_busy:.0f} %, load "
        f"{happened.load:.1f}"
    )
