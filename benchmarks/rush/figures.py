"""The figures of the rushes: medians over the rounds, each over the herd's of the same rounds."""

import statistics
from collections.abc import Iterator, Mapping, Sequence

from benchmarks.report import Figure
from benchmarks.rush.trial import Trial
from benchmarks.rush.ways import BOUND, HERD, WINDOWS

Trials = Mapping[str, Sequence[Trial]]
"""By the name of the way, in the order of the rounds."""


def all_s(trials: Sequence[Trial]) -> float:
    """When the last node was usable: median."""
    return statistics.median(trial.record.all_usable_s for trial in trials)


def mean_s(trials: Sequence[Trial]) -> float:
    """How long a node took on average: median of the means."""
    return statistics.median(trial.record.mean_usable_s for trial in trials)


def p99_ms(trials: Sequence[Trial]) -> float:
    """The innocent client's p99: median."""
    return statistics.median(trial.record.bystander_p99_ms for trial in trials)


def errors(trials: Sequence[Trial]) -> float:
    """429 and 5xx: median."""
    return statistics.median(trial.record.errors for trial in trials)


_BOUNDS = {
    "cold_over_herd": ("ceiling, cold", all_s, 1.10, 1.35),
    "warm_over_herd": ("ceiling, remembered", all_s, 1.0, 1.15),
    "warm_mean_over_herd": ("ceiling, remembered", mean_s, 0.85, 1.0),
    "warm_p99_over_herd": ("ceiling, remembered", p99_ms, 0.1, 0.2),
    "warm_errors_over_herd": ("ceiling, remembered", errors, 0.0, 0.02),
    "gated_cold_over_herd": ("gates, cold", all_s, 1.0, 1.2),
    "gated_warm_over_herd": ("gates, remembered", all_s, 0.9, 1.05),
    "gated_warm_mean_over_herd": ("gates, remembered", mean_s, 0.75, 0.92),
    "gated_warm_p99_over_herd": ("gates, remembered", p99_ms, 0.08, 0.15),
    "gated_warm_errors_over_herd": ("gates, remembered", errors, 0.0, 0.01),
}
"""Name -> the way, what of it, goal and floor, all over the herd's."""


def figures(trials: Trials) -> tuple[Figure, ...]:
    """Those whose ways were measured."""
    return (*_over_herd(trials), *_over_best(trials), *_over_bound(trials))


def _over_herd(trials: Trials) -> Iterator[Figure]:
    if HERD not in trials:
        return
    for name, (way, of, goal, floor) in _BOUNDS.items():
        theirs = of(trials[HERD])
        if way in trials and theirs:
            what = f"{way}: {(of.__doc__ or '').partition(':')[0].lower().rstrip('.')}, over that of the herd"
            value = of(trials[way]) / theirs
            yield Figure(name=name, what=what, value=value, unit="x", peer=f"{theirs:.1f}", goal=goal, floor=floor)


def _over_best(trials: Trials) -> Iterator[Figure]:
    windows = [name for name in (f"ceiling, window {window}" for window in WINDOWS) if name in trials]
    if windows and "ceiling, remembered" in trials:
        best = min(windows, key=lambda name: all_s(trials[name]))
        yield Figure(
            name="warm_over_best_window",
            what="ceiling, remembered: time over the best fixed window's",
            value=all_s(trials["ceiling, remembered"]) / all_s(trials[best]),
            unit="x",
            peer=f"{best}: {all_s(trials[best]):.1f} s",
            goal=1.05,
            floor=1.12,
        )


def _over_bound(trials: Trials) -> Iterator[Figure]:
    bounded = [trial for name, runs in trials.items() if name.endswith(f"at most {BOUND}") for trial in runs]
    if bounded:
        yield Figure(
            name="most_over_max_in_flight",
            what=f"machines in flight above `maxInFlight: {BOUND}`, by the audit log, worst of all runs",
            value=max(0, max(trial.record.most_in_flight for trial in bounded) - BOUND),
            unit="machines",
            goal=0,
            floor=0,
        )
