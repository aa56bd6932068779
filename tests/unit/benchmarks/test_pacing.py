"""The pacing benchmark: from runs to figures, and a small run of all of it."""

import json
from dataclasses import replace

import pytest

from benchmarks.pacing import foreign_trouble
from benchmarks.pacing.__main__ import main
from benchmarks.pacing.contenders import ORACLE, contender, names
from benchmarks.pacing.runs import Job, Run, run_of, scale_up_times
from benchmarks.pacing.summary import clean_share, policy_row, scenario_rows
from benchmarks.pacing.tables import policy_table, scenario_table
from lab.simulator.result import Result
from lab.simulator.study_scenarios import TWELVE
from throttler.simulator.scenario_and_faults import ScaleUp, Scenario

pytestmark = pytest.mark.whole


def run(scenario: str, policy: str, time_s: float, *, seed: int = 1, error_share: float = 0.0, lost: int = 0) -> Run:
    return Run(
        scenario=scenario,
        seed=seed,
        policy=policy,
        time_s=time_s,
        is_finished=True,
        mean_usable_s=time_s / 2,
        requests=1000,
        errors=1000 * error_share,
        error_share=error_share,
        bystander_p50_s=0.01,
        bystander_p99_s=0.1,
        held_over_10min=0,
        lost=lost,
    )


def result(*usable_s: float) -> Result:
    return Result(
        done_s=usable_s[-1],
        usable_s=usable_s,
        requests=10,
        errors=1,
        bystander_p50_s=0.0,
        bystander_p99_s=0.0,
        held_over_10min=0,
        lost=0,
        moments=(),
    )


def test_times_are_relative_to_the_oracle_of_the_same_seed() -> None:
    runs = [
        run("A", ORACLE, 100, seed=1),
        run("A", ORACLE, 200, seed=2),
        run("A", "x", 150),
        run("A", "x", 220, seed=2),
    ]
    (row,) = scenario_rows(runs, "x")
    assert (row.time_ratio, row.worst_time_ratio) == (1.3, 1.5)


def test_trouble_of_others_is_held_against_the_run_without() -> None:
    runs = [run("undisturbed", "x", 100), run("slow", "x", 150), run("slow, no gate", "x", 600)]
    runs = [*runs, run("undisturbed, no gate", "x", 200), replace(run("stuck", "x", 110), longest_gap_s=900.0)]
    found = {row["scenario"]: (row["ratio"], row["is_stalled"]) for row in foreign_trouble.ratios(runs)}
    assert found == {"slow": (1.5, False), "slow, no gate": (3.0, False), "stuck": (1.1, True)}
    assert [figure.value for figure in foreign_trouble.figures(runs)] == [3.0, 1]


def test_one_dirty_seed_makes_a_scenario_dirty() -> None:
    runs = [run("A", ORACLE, 1, seed=seed) for seed in (1, 2, 3)]
    runs += [run("A", "x", 1, seed=seed, error_share=0.01 * (seed == 2), lost=seed) for seed in (1, 2, 3)]
    (row,) = scenario_rows(runs, "x")
    assert not row.is_clean
    assert row.error_share == 0.0
    assert policy_row([row]).error_share_worst == 0.01
    assert policy_row([row]).lost == 6


def test_only_scenarios_where_the_oracle_is_clean_are_judged() -> None:
    runs = [run("A", ORACLE, 1), run("B", ORACLE, 1, error_share=0.1), run("C", ORACLE, 1)]
    runs += [run("A", "x", 1), run("B", "x", 1, error_share=0.1), run("C", "x", 1, error_share=0.1)]
    assert clean_share(scenario_rows(runs, "x"), scenario_rows(runs, ORACLE)) == 0.5


def test_repeated_demands_count_from_when_each_was_made() -> None:
    scenario = Scenario(
        name="F", demands=(ScaleUp(at_s=0, nodes=1), ScaleUp(at_s=100, nodes=2)), servers=1, capacity=1, limit_s=999
    )
    assert list(scale_up_times(scenario, result(40, 120, 150))) == [40, 50]
    assert list(scale_up_times(scenario, result(40, 120))) == [40, 899]
    assert run_of(Job(scenario, 1, "x"), result(40, 120, 150)).time_s == 90


@pytest.mark.parametrize("name", names())
def test_every_contender_can_be_made(name: str) -> None:
    assert contender(name, TWELVE[0], None) is not contender(name, TWELVE[0], None)


def test_tables_name_every_row() -> None:
    rows = scenario_rows([run("A", ORACLE, 1), run("A", "x", 2, error_share=0.5)], "x")
    assert all(part in scenario_table("t", rows) for part in ("A", "x", "2.00", "50.0%"))
    assert "0 of 1" in policy_table("t", [policy_row(rows)])


def test_a_quick_run_prints_all_named_figures(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--quick", "--json", "--random", "1", "--seed", "3", "--policy", "ours cold", "--policy", "ours warm"])
    found = json.loads(capsys.readouterr().out)
    figures = {"warm_median", "warm_worst", "cold_median", "cold_worst", "worst_error_share", "over_10min", "lost"}
    figures |= {"ceiling_warm_median", "ceiling_cold_median", "price_with_room_cold", "price_with_room_warm"}
    assert figures | {"random_clean_share", "not_ours_worst", "stalls"} <= found.keys()
    behind = found["behind"]
    assert {row["policy"] for row in behind["policies"]} == {"oracle", "ours cold", "ours warm"}
    gated, ungated = behind["scenarios"], behind["ceiling_scenarios"]
    assert [row["scenario"] for row in gated] == [row["scenario"] for row in ungated]
    assert gated != ungated, "a ceiling alone, as README recommends it, is another run than a gate"
