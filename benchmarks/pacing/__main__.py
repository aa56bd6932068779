"""`python -m benchmarks.pacing`: the law against an oracle and other laws, in simulation."""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace

from benchmarks.pacing import foreign_trouble, needless_pacing
from benchmarks.pacing.contenders import COLD, ORACLE, WARM, names
from benchmarks.pacing.runs import Job, Run, run_all
from benchmarks.pacing.summary import CLEAN_SHARE, ScenarioRow, clean_share, policy_row, scenario_rows
from benchmarks.pacing.tables import not_ours_table, policy_table, scenario_table
from benchmarks.report import Figure, Report, answer, parser_of, progress
from lab.simulator.study_scenarios import TWELVE, random_scenario
from throttler.simulator.scenario_and_faults import Scenario

GROUPS = ("twelve", "ceiling", "random", "not_ours", "room")
SEEDS = (1, 2, 3, 4, 5)
NOT_OURS_SEEDS = (1,)
LIMIT_S = 7200.0
"""A run that has not finished by then has failed: the oracle needs less than 4,000 s in every scenario."""
TEACHING_SEED = 101
"""Added to the seed of a warm run for the cold run that it learns from."""
FAKED = (
    "Everything is simulated, by cohort: throttler/simulator says how; a test holds it to the simulation by request.",
    "The gate holds a machine before its kubelet registers. No lever does, so the law's bound on what registers before "
    "it is held is off here.",
    "Times are relative to an oracle that lets in what fits into 95 % of the true spare capacity, known at any time.",
    "A scenario's time is the median over its seeds; medians and worst are then over scenarios. Error shares are those "
    "of every seed.",
    "Trouble that is not ours is errors, latency and silence without any load: the servers bear what they bore.",
    "Ours warm starts with what a cold run of the same scenario with another seed left behind.",
    "The other laws are our own few lines, each with one set of constants for all scenarios, taken from what the study "
    "found and not searched further; all of them ask for machines by the same rule (pacing_policies.py).",
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; the exit code is 1 when a figure is below its floor."""
    asked = _asked(arguments)
    groups = asked.group or GROUPS
    twelve, random = _scenarios(asked)
    policies = (ORACLE, *(name for name in names()[1:] if not asked.policy or name in asked.policy))
    runs = measure(twelve, (1,) if asked.quick else SEEDS, policies) if "twelve" in groups else []
    ours = tuple(name for name in (WARM, COLD) if name in policies)
    random_runs = measure(random, (asked.seed,), (ORACLE, *ours)) if random and "random" in groups else []
    foreign_runs = _disturbed(ours, is_quick=asked.quick) if "not_ours" in groups and ours else []
    ungated = [replace(scenario, has_gate=False) for scenario in twelve]
    own = (ORACLE, *ours)
    ceiling_runs = measure(ungated, (1,) if asked.quick else SEEDS, own) if "ceiling" in groups and ours else []
    paid = needless_pacing.price() if "room" in groups else None
    report = report_of(runs, random_runs, ours, foreign_runs, ceiling_runs, paid, is_quick=asked.quick)
    return answer(report, asked, _tables(runs, random_runs, foreign_runs, ceiling_runs, policies))


def _asked(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = parser_of("pacing")
    parser.add_argument("--random", type=int, default=60, metavar="N", help="so many random scenarios beside (60)")
    parser.add_argument("--seed", type=int, default=1, help="which random scenarios (1)")
    parser.add_argument(
        "--policy", action="append", choices=names(), help="only this one beside the oracle; repeatable"
    )
    parser.add_argument("--group", action="append", choices=GROUPS, help="only this group of scenarios; repeatable")
    return parser.parse_args(arguments)


def _disturbed(ours: Sequence[str], *, is_quick: bool) -> list[Run]:
    jobs = foreign_trouble.jobs((1,) if is_quick else NOT_OURS_SEEDS, ours)
    jobs = jobs[: 2 * len(ours)] if is_quick else jobs
    return [run for run, _ in run_all(jobs, _tell(len(jobs)))]


def _random(count: int, seed: int) -> tuple[Scenario, ...]:
    return tuple(random_scenario(1000 * seed + number) for number in range(count))


def _scenarios(asked: argparse.Namespace) -> tuple[tuple[Scenario, ...], tuple[Scenario, ...]]:
    if asked.quick:
        small = tuple(scenario for scenario in TWELVE if scenario.name.startswith("E"))
        return small, _random(min(asked.random, 2), asked.seed)
    return TWELVE, _random(asked.random, asked.seed)


def measure(scenarios: Sequence[Scenario], seeds: Sequence[int], policies: Sequence[str]) -> list[Run]:
    """Every policy in every scenario at every seed; the warm ones after the cold ones that they learn from."""
    scenarios = [replace(scenario, limit_s=LIMIT_S) for scenario in scenarios]
    jobs = [Job(scenario, seed, name) for name in policies if name != WARM for scenario in scenarios for seed in seeds]
    runs = [run for run, _ in run_all(jobs, _tell(len(jobs)))]
    if WARM not in policies:
        return runs
    teachers = [Job(scenario, TEACHING_SEED + seed, COLD) for scenario in scenarios for seed in seeds]
    taught = run_all(teachers, _tell(len(teachers)))
    pupils = [
        replace(job, policy=WARM, seed=job.seed - TEACHING_SEED, learned=learned)
        for job, (_, learned) in zip(teachers, taught, strict=True)
    ]
    return runs + [run for run, _ in run_all(pupils, _tell(len(pupils)))]


def _tell(total: int) -> Callable[[int, Run], None]:
    def tell(number: int, run: Run) -> None:
        if number % 20 == 0:
            progress(f"{number + 1} of {total}: {run.policy}, {run.scenario}, seed {run.seed}: {run.time_s:.0f} s")

    return tell


def report_of(
    runs: Sequence[Run],
    random_runs: Sequence[Run],
    ours: Sequence[str],
    foreign_runs: Sequence[Run] = (),
    ceiling_runs: Sequence[Run] = (),
    paid: needless_pacing.Price | None = None,
    *,
    is_quick: bool,
) -> Report:
    """The named figures, as far as they were measured, and everything behind them."""
    rows = {name: scenario_rows(runs, name) for name in dict.fromkeys(run.policy for run in runs)}
    random_rows = {name: scenario_rows(random_runs, name) for name in dict.fromkeys(run.policy for run in random_runs)}
    figures = [figure for name in ours if runs for figure in _times(name, rows[name])]
    figures += _harm([row for name in ours for row in rows[name]]) if ours and runs else []
    if random_rows and ours:
        figures.append(_random_clean(random_rows, ours))
    figures += foreign_trouble.figures(foreign_runs) if foreign_runs else []
    ceiling_rows = {name: scenario_rows(ceiling_runs, name) for name in dict.fromkeys(r.policy for r in ceiling_runs)}
    figures += [_of_ceiling(name, ceiling_rows[name]) for name in ours if ceiling_runs]
    figures += needless_pacing.figures(paid) if paid else []
    behind = {
        "policies": [asdict(policy_row(runs_of)) for runs_of in rows.values()],
        "scenarios": [asdict(row) for runs_of in rows.values() for row in runs_of],
        "random_policies": [asdict(policy_row(runs_of)) for runs_of in random_rows.values()],
        "random_scenarios": [asdict(row) for runs_of in random_rows.values() for row in runs_of],
        "ceiling_scenarios": [asdict(row) for runs_of in ceiling_rows.values() for row in runs_of],
        "not_ours": foreign_trouble.ratios(foreign_runs),
        "runs": [asdict(run) for run in (*runs, *random_runs, *ceiling_runs)],
    }
    return Report(name="pacing", figures=tuple(figures), faked=FAKED, behind=behind, is_quick=is_quick)


_TIME_BOUNDS = {WARM: ((1.05, 1.10), (1.25, 1.40)), COLD: ((1.10, 1.20), (1.5, 1.95))}
"""Goal and floor of the median, then of the worst scenario."""


def _times(name: str, rows: Sequence[ScenarioRow]) -> list[Figure]:
    kind, policy = name.split()[-1], policy_row(rows)
    (median_goal, median_floor), (worst_goal, worst_floor) = _TIME_BOUNDS[name]
    worst = max(rows, key=lambda row: row.time_ratio)
    median = Figure(
        name=f"{kind}_median",
        what=f"time over the oracle's, {kind}, median of {len(rows)} scenarios",
        value=policy.time_median,
        unit="x",
        goal=median_goal,
        floor=median_floor,
    )
    return [
        median,
        Figure(
            name=f"{kind}_worst",
            what=f"the same, worst scenario ({worst.scenario})",
            value=policy.time_worst,
            unit="x",
            goal=worst_goal,
            floor=worst_floor,
        ),
    ]


_CEILING_BOUNDS = {WARM: (1.10, 1.20), COLD: (1.20, 1.35)}
"""Goal and floor of the median."""


def _of_ceiling(name: str, rows: Sequence[ScenarioRow]) -> Figure:
    kind, clean = name.split()[-1], sum(row.is_clean for row in rows)
    goal, floor = _CEILING_BOUNDS[name]
    return Figure(
        name=f"ceiling_{kind}_median",
        what=f"the same where nothing holds machines back once they are ordered; {clean} of {len(rows)} clean, {kind}",
        value=policy_row(rows).time_median,
        unit="x",
        goal=goal,
        floor=floor,
    )


def _harm(rows: Sequence[ScenarioRow]) -> list[Figure]:
    worst = max(rows, key=lambda row: row.worst_error_share)
    return [
        Figure(
            name="worst_error_share",
            what=f"429 and 5xx of all requests, any scenario and seed, cold and warm ({worst.scenario})",
            value=worst.worst_error_share,
            unit="",
            goal=CLEAN_SHARE,
            floor=CLEAN_SHARE,
        ),
        Figure(
            name="over_10min",
            what="machines held for over 10 min, cold and warm",
            value=sum(row.held_over_10min for row in rows),
            unit="",
            goal=0,
            floor=0,
        ),
        Figure(
            name="lost",
            what="machines lost to a kill timer, cold and warm",
            value=sum(row.lost for row in rows),
            unit="",
            goal=0,
            floor=0,
        ),
    ]


def _random_clean(rows: Mapping[str, Sequence[ScenarioRow]], ours: Sequence[str]) -> Figure:
    return Figure(
        name="random_clean_share",
        what=f"of {len(rows[ORACLE])} random scenarios where the oracle is clean: ours too, cold and warm",
        value=clean_share([row for name in ours for row in rows[name]], rows[ORACLE]),
        unit="",
        goal=1.0,
        floor=0.9,
        is_higher_better=True,
    )


def _tables(
    runs: Sequence[Run],
    random_runs: Sequence[Run],
    foreign_runs: Sequence[Run],
    ceiling_runs: Sequence[Run],
    policies: Sequence[str],
) -> list[str]:
    rows = {name: scenario_rows(runs, name) for name in policies} if runs else {}
    parts = []
    if rows:
        parts.append(
            policy_table("Twelve scenarios, relative to the oracle", [policy_row(runs_of) for runs_of in rows.values()])
        )
        shown = [name for name in policies if name in (WARM, COLD)] or [name for name in policies if name != ORACLE][:1]
        pairs = zip(*(rows[name] for name in shown), strict=True)
        parts.append(scenario_table("Scenario by scenario", [row for pair in pairs for row in pair]))
    if ceiling_runs:
        own = [scenario_rows(ceiling_runs, name) for name in dict.fromkeys(run.policy for run in ceiling_runs)]
        parts.append(policy_table("The twelve with a ceiling as the only lever", [policy_row(rows) for rows in own]))
        pairs = zip(*own[1:], strict=True)
        parts.append(scenario_table("Scenario by scenario, ceiling only", [row for pair in pairs for row in pair]))
    if random_runs:
        random_rows = [
            policy_row(scenario_rows(random_runs, name)) for name in dict.fromkeys(r.policy for r in random_runs)
        ]
        parts.append(policy_table("Random scenarios, one seed each", random_rows))
    if foreign_runs:
        parts.append(
            not_ours_table("Trouble that is not ours, over the same run without", foreign_trouble.ratios(foreign_runs))
        )
    return parts


if __name__ == "__main__":
    sys.exit(main())
