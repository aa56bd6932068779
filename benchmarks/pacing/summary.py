"""From runs to the figures of a policy: everything relative to the oracle in the same scenario and seed."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.pacing.contenders import ORACLE
from benchmarks.pacing.runs import Run

CLEAN_SHARE = 1e-4
"""Of 429 and 5xx among all requests: less is clean."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioRow:
    """One policy in one scenario, over its seeds."""

    scenario: str
    policy: str
    time_ratio: float
    """Median of the times over the oracle's."""
    worst_time_ratio: float
    error_share: float
    """Median."""
    worst_error_share: float
    p99_ratio: float
    """Median of the bystanders' p99 over the oracle's."""
    held_over_10min: int
    lost: int
    unfinished: int

    @property
    def is_clean(self) -> bool:
        """Clean at every seed."""
        return self.worst_error_share < CLEAN_SHARE


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyRow:
    """One policy over all scenarios."""

    policy: str
    scenarios: int
    time_median: float
    time_p90: float
    time_worst: float
    error_share_median: float
    error_share_worst: float
    """Of every scenario and seed."""
    clean: int
    held_over_10min: int
    lost: int
    unfinished: int
    p99_ratio_median: float
    p99_ratio_worst: float


def scenario_rows(runs: Sequence[Run], policy: str) -> list[ScenarioRow]:
    """One row per scenario, in the order of the runs."""
    oracle = {(run.scenario, run.seed): run for run in runs if run.policy == ORACLE}
    grouped: dict[str, list[Run]] = {}
    for run in runs:
        if run.policy == policy:
            grouped.setdefault(run.scenario, []).append(run)
    return [_scenario_row(group, oracle) for group in grouped.values()]


def _scenario_row(runs: Sequence[Run], oracle: Mapping[tuple[str, int], Run]) -> ScenarioRow:
    against = [oracle[run.scenario, run.seed] for run in runs]
    times = [run.time_s / best.time_s for run, best in zip(runs, against, strict=True)]
    p99s = [_ratio(run.bystander_p99_s, best.bystander_p99_s) for run, best in zip(runs, against, strict=True)]
    return ScenarioRow(
        scenario=runs[0].scenario,
        policy=runs[0].policy,
        time_ratio=statistics.median(times),
        worst_time_ratio=max(times),
        error_share=statistics.median(run.error_share for run in runs),
        worst_error_share=max(run.error_share for run in runs),
        p99_ratio=statistics.median(p99s),
        held_over_10min=sum(run.held_over_10min for run in runs),
        lost=sum(run.lost for run in runs),
        unfinished=sum(not run.is_finished for run in runs),
    )


def policy_row(rows: Sequence[ScenarioRow]) -> PolicyRow:
    """All scenarios of one policy together; ValueError when there are none."""
    times = sorted(row.time_ratio for row in rows)
    return PolicyRow(
        policy=rows[0].policy if rows else "",
        scenarios=len(rows),
        time_median=statistics.median(times),
        time_p90=times[min(len(times) - 1, int(0.9 * len(times)))],
        time_worst=max(times),
        error_share_median=statistics.median(row.error_share for row in rows),
        error_share_worst=max(row.worst_error_share for row in rows),
        clean=sum(row.is_clean for row in rows),
        held_over_10min=sum(row.held_over_10min for row in rows),
        lost=sum(row.lost for row in rows),
        unfinished=sum(row.unfinished for row in rows),
        p99_ratio_median=statistics.median(row.p99_ratio for row in rows),
        p99_ratio_worst=max(row.p99_ratio for row in rows),
    )


def clean_share(ours: Sequence[ScenarioRow], oracle: Sequence[ScenarioRow]) -> float:
    """Share of the rows that are clean among those of scenarios in which the oracle is clean; 1 when it never is."""
    possible = {row.scenario for row in oracle if row.is_clean}
    judged = [row.is_clean for row in ours if row.scenario in possible]
    return sum(judged) / len(judged) if judged else 1.0


def _ratio(value: float, best: float) -> float:
    return value / best if best > 0.0 else 1.0
