"""The estimate by utilisation, over time."""

from dataclasses import replace

from throttler.joins.joins import Joins
from throttler.law.govern import govern
from throttler.law.join_load import Load, idled
from throttler.law.law_memory import LawMemory, Learned
from throttler.law.settings import LawSettings
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
    assert idled(Load(), 0.2, [usual]).per_request == ()
    assert idled(Load(), 0.2, [busy]).per_request == (0.005,)
