"""Runs of the simulator, several at a time."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from multiprocessing import get_context
from os import cpu_count

from benchmarks.pacing.contenders import contender
from lab.simulator.by_cohort import simulate
from lab.simulator.result import Result
from throttler.law.law_memory import Learned
from throttler.simulator.pacing_policies import LawPolicy
from throttler.simulator.scenario_and_faults import Scenario


@dataclass(frozen=True, slots=True)
class Job:
    """One run that is to be made."""

    scenario: Scenario
    seed: int
    policy: str
    learned: Learned | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run that was made: what the tables are computed from."""

    scenario: str
    seed: int
    policy: str
    time_s: float
    """From each demand to its last usable node, all demands together; up to the limit where that never came."""
    is_finished: bool
    mean_usable_s: float | None
    """Mean time from the scenario's beginning to a usable node."""
    requests: float
    errors: float
    error_share: float
    bystander_p50_s: float
    bystander_p99_s: float
    held_over_10min: int
    lost: int
    longest_gap_s: float = 0.0
    """The longest time in which no node became usable, from the scenario's beginning on."""


def run_all(jobs: Iterable[Job], done: Callable[[int, Run], None]) -> list[tuple[Run, Learned | None]]:
    """Make all runs on all cores; `done` hears of each with its number. Answers come in the order of the jobs."""
    runs = []
    for number, (run, learned) in enumerate(_processes().map(_make, jobs)):
        done(number, run)
        runs.append((run, learned))
    return runs


@cache
def _processes() -> ProcessPoolExecutor:
    """One for each core, kept for all groups of scenarios: to import everything takes a process longer than a run."""
    return ProcessPoolExecutor(cpu_count() or 1, mp_context=get_context("spawn"))


def _make(job: Job) -> tuple[Run, Learned | None]:
    policy = contender(job.policy, job.scenario, job.learned)
    run = run_of(job, simulate(job.scenario, policy, job.seed))
    return run, policy.learned if isinstance(policy, LawPolicy) else None


def run_of(job: Job, result: Result) -> Run:
    """What is kept of a result."""
    usable = result.usable_s
    return Run(
        scenario=job.scenario.name,
        seed=job.seed,
        policy=job.policy,
        time_s=sum(scale_up_times(job.scenario, result)),
        is_finished=result.done_s is not None,
        mean_usable_s=sum(usable) / len(usable) if usable else None,
        requests=result.requests,
        errors=result.errors,
        error_share=result.error_share,
        bystander_p50_s=result.bystander_p50_s,
        bystander_p99_s=result.bystander_p99_s,
        held_over_10min=result.held_over_10min,
        lost=result.lost,
        longest_gap_s=max((later - before for before, later in pairwise((0.0, *usable))), default=0.0),
    )


def scale_up_times(scenario: Scenario, result: Result) -> Iterator[float]:
    """How long each demand took from being made to its last node, those before it served first."""
    wanted = 0
    for demand in sorted(scenario.demands, key=lambda demand: demand.at_s):
        wanted += demand.nodes
        is_met = len(result.usable_s) >= wanted
        yield (result.usable_s[wanted - 1] if is_met else scenario.limit_s) - demand.at_s
