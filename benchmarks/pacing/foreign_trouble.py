"""Trouble that joins have no part in: how much longer the same scale-up takes with it."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from benchmarks.pacing.contenders import WARM
from benchmarks.pacing.runs import Job, Run
from benchmarks.report import Figure
from throttler.law.law_memory import Learned
from throttler.simulator.scenario_and_faults import ErrorsOfOthers, ScaleUp, Scenario, SlowWebhook

STALL_S = 300.0
"""So long no node became usable, beyond the boot, while nodes were waited for: growth stood still."""
UNDISTURBED = Scenario(
    name="undisturbed",
    demands=(ScaleUp(at_s=0.0, nodes=1000),),
    servers=3,
    capacity=6,
    boot_s=90,
    nodes_before=300,
    limit_s=7200.0,
)
FAULTS: dict[str, dict[str, Any]] = {
    "429 of others, all servers": {"faults": (ErrorsOfOthers(per_s=2.0),)},
    "429 of others, one server": {"faults": (ErrorsOfOthers(per_s=5.0, server=0),)},
    "5xx of other resources": {"faults": (ErrorsOfOthers(per_s=20.0, looks_like_joins=False),)},
    "5xx of other resources from the middle on": {
        "faults": (ErrorsOfOthers(at_s=150.0, per_s=100.0, looks_like_joins=False),)
    },
    "errors just before, nothing in flight": {"faults": (ErrorsOfOthers(at_s=-10.0, for_s=9.0, per_s=5.0),)},
    "errors for 6 s as it begins": {"faults": (ErrorsOfOthers(at_s=0.0, for_s=6.0, per_s=50.0),)},
    "errors for 6 s while machines boot": {"faults": (ErrorsOfOthers(at_s=60.0, for_s=6.0, per_s=50.0),)},
    "errors for 6 s in the middle": {"faults": (ErrorsOfOthers(at_s=250.0, for_s=6.0, per_s=50.0),)},
    "errors from just before on": {"faults": (ErrorsOfOthers(at_s=-30.0, per_s=5.0),)},
    "errors from the middle on": {"faults": (ErrorsOfOthers(at_s=250.0, per_s=20.0),)},
    "slow webhook": {"faults": (SlowWebhook(seconds=3.0),)},
    "webhook slow from the middle on": {"faults": (SlowWebhook(at_s=150.0, seconds=3.0),)},
    "one server never seen": {"never_seen": 1},
    "three servers never seen": {"never_seen": 3},
    "scrapes every 30 s": {"scrape_s": 30.0},
    "scrapes every 30 s, a tenth missing": {"scrape_s": 30.0, "scrape_missing": 0.1},
}


def scenarios() -> tuple[Scenario, ...]:
    """The one without a fault first, then each fault; all of it with and without a gate."""
    disturbed = [replace(UNDISTURBED, name=name, **changes) for name, changes in FAULTS.items()]
    return tuple(
        replace(scenario, name=scenario.name if has_gate else f"{scenario.name}, no gate", has_gate=has_gate)
        for has_gate in (True, False)
        for scenario in (UNDISTURBED, *disturbed)
    )


def jobs(seeds: Sequence[int], policies: Sequence[str]) -> list[Job]:
    """Each scenario under each of ours; what a warm run has learned does not depend on the fault."""
    learned = Learned(window=120.0, is_proven=True, baseline_s=0.02, join_s=70.0, boot_s=90.0, age_s=3600.0)
    return [
        Job(scenario, seed, policy, learned if policy == WARM else None)
        for scenario in scenarios()
        for seed in seeds
        for policy in policies
    ]


def ratios(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Each run with a fault over the one without, of the same gate, policy and seed."""
    calm = {_key(run): run.time_s for run in runs if run.scenario.startswith(UNDISTURBED.name)}
    return [
        {**asdict(run), "ratio": run.time_s / calm[_key(run)], "is_stalled": is_stalled(run)}
        for run in runs
        if not run.scenario.startswith(UNDISTURBED.name)
    ]


def is_stalled(run: Run) -> bool:
    """Whether growth stood still, or never ended."""
    return not run.is_finished or run.longest_gap_s > UNDISTURBED.boot_s + STALL_S


def figures(runs: Sequence[Run]) -> list[Figure]:
    """How bad it gets."""
    by_policy = ratios(runs)
    worst = max(by_policy, key=lambda row: row["ratio"])
    return [
        Figure(
            name="not_ours_worst",
            what=f"time with trouble of others over time without, worst of {len(by_policy)} runs ({worst['scenario']})",
            value=worst["ratio"],
            unit="x",
            goal=1.3,
            floor=2.0,
        ),
        Figure(
            name="stalls",
            what=f"of these runs: none usable for {STALL_S:.0f} s beyond the boot, or never done",
            value=sum(row["is_stalled"] for row in by_policy),
            unit="",
            goal=0,
            floor=0,
        ),
    ]


def _key(run: Run) -> tuple[bool, str, int]:
    return run.scenario.endswith("no gate"), run.policy, run.seed
