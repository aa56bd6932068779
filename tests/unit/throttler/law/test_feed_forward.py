"""The estimate by utilisation, over time."""

from dataclasses import replace

import pytest

from throttler.joins.joins import Joins
from throttler.law.govern import govern, observed
from throttler.law.join_model import Baseline, JoinFlow, JoinTime, Load, with_counts, with_idle_cpu
from throttler.law.law_memory import LawMemory, Learned
from throttler.law.server_health import ServerTrace, examine
from throttler.law.settings import LawSettings
from throttler.law.window_formulas import Knee
from throttler.signals.reading import Reading, Signals


def test_joins_that_began_within_a_window_do_not_seem_to_cost_nothing() -> None:
    """Real: 47 joins were let in 3 s before a scrape of an idle window ended, and the window jumped to 282."""
    memory, settings = (
        LawMemory.start(Learned(window=47.0, baseline_s=0.004, join_s=2.0, load_per_join=0.013)),
        LawSettings(),
    )
    joining = 0
    for second in range(1000, 1019):
        idle = Reading(
            server="a",
            ended_s=second // 5 * 5.0,
            span_s=5.0,
            requests=500.0,
            errors=0.0,
            latency_s=0.004,
            cpu_share=0.1,
        )
        held = 400 - joining if second >= 1012 else 0
        joins = Joins(held=held, joining=joining)
        verdict, memory = govern(Signals(readings=(idle,)), joins, memory, settings, float(second))
        joining += verdict.admit
    assert joining <= 60
    assert verdict.window <= 60


def test_a_server_that_hardly_answers_does_not_tell_what_a_request_costs() -> None:
    usual = Reading(server="a", ended_s=10.0, span_s=10.0, requests=30.0, errors=0.0, cpu_share=0.2)
    busy = replace(usual, requests=400.0)
    assert with_idle_cpu(Load(), 0.2, [usual]).per_request == ()
    assert with_idle_cpu(Load(), 0.2, [busy]).per_request == (0.005,)


def test_a_joins_cost_is_that_of_the_joins_of_a_fifth_of_a_join_ago() -> None:
    """Utilisation now is of joins that were let in 16 s ago: 60 were in flight then, and 100 are now."""
    flow = JoinFlow()
    for second in range(900, 1001, 5):
        flow = with_counts(flow, Joins(joining=100 if second > 984 else 60), float(second))
    memory = LawMemory(flow=flow, join_time=JoinTime(now_s=80.0), looked_s=995.0, load=Load(idle=(0.1,)))
    memory = replace(memory, baseline=Baseline(remembered_s=0.04), knee=Knee(at_s=0.0))
    busy = Reading(server="a", ended_s=1000.0, span_s=10.0, requests=500.0, errors=0.0, latency_s=0.04, cpu_share=0.7)
    settings, joins = LawSettings(), Joins(joining=100, held=50, join_s=80.0)
    after = observed(memory, examine(Signals(readings=(busy,)), (), 1000.0), joins, settings, 1000.0)
    assert after.load.per_join == pytest.approx(0.6 / 60)


@pytest.mark.parametrize("changed", [{"cpu_share": 0.98}, {"latency_s": 0.7}, {"cpu_share": None}])
def test_a_full_a_slow_and_a_silent_server_do_not_tell_what_a_join_costs(changed: dict[str, float | None]) -> None:
    memory = LawMemory(
        flow=with_counts(with_counts(JoinFlow(), Joins(joining=60), 900.0), Joins(joining=60), 980.0),
        join_time=JoinTime(now_s=80.0),
        looked_s=995.0,
        load=Load(idle=(0.1,)),
        baseline=Baseline(remembered_s=0.04),
        traces=(ServerTrace(server="a", ended_s=990.0, delay_s=0.7),),
    )
    usual = Reading(server="a", ended_s=1000.0, span_s=10.0, requests=500.0, errors=0.0, latency_s=0.04, cpu_share=0.96)
    settings, joins = LawSettings(), Joins(joining=60, held=50, join_s=80.0)
    costs = []
    for reading in (usual, replace(usual, **changed)):  # type: ignore[arg-type]
        health = examine(Signals(readings=(reading,)), memory.traces, 1000.0)
        costs.append(observed(memory, health, joins, settings, 1000.0).load.per_join)
    assert costs == [pytest.approx(0.86 / 60), None]
