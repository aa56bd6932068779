"""The laws that ours is held against do what their names say."""

from dataclasses import replace

import pytest

from lab.simulator.by_cohort import simulate
from lab.simulator.scenarios import TWELVE
from throttler.joins.joins import Joins
from throttler.signals.reading import Reading, Signals
from throttler.simulator.fluid_server import CLOCK_START_S
from throttler.simulator.pacing_policies import (
    AimdOnErrors,
    AimdOnWindow,
    AtOnce,
    Drip,
    FixedRate,
    FixedWindow,
    FullKnowledge,
    Gradient2,
    Oracle,
    Stock,
)
from throttler.simulator.scenario import ScaleUp, Scenario, Slowdown

BUSY = Joins(waiting=1000, held=1000, joining=100, joined=10, join_s=80.0, boot_s=120.0)


def window(ended_s: float, latency_s: float = 0.01, errors: float = 0.0) -> Signals:
    reading = Reading(
        server="a", ended_s=ended_s, span_s=10.0, requests=1000, errors=errors, latency_s=latency_s, queue_wait_s=0.0
    )
    return Signals(readings=(reading,))


def test_at_once_takes_everything() -> None:
    permit = AtOnce().step(Signals(), Joins(waiting=7, held=3), 0.0)
    assert (permit.ask, permit.admit) == (7, 3)


def test_a_fixed_window_is_filled_and_not_exceeded() -> None:
    assert FixedWindow(20).step(Signals(), Joins(held=50, joining=12), 0.0).admit == 8
    assert FixedWindow(20).step(Signals(), Joins(held=50, joining=30), 0.0).admit == 0


def test_a_fixed_rate_lets_in_what_is_due() -> None:
    policy = FixedRate(0.5)
    admitted = sum(policy.step(Signals(), Joins(held=1000), now_s).admit for now_s in range(0, 101, 5))
    assert admitted == 50


def test_a_drip_does_not_save_up_more_than_a_burst() -> None:
    drip = Drip(burst_s=10.0)
    drip.due(2.0, 0.0)
    assert drip.due(2.0, 1000.0) == 20


def test_a_stock_lasts_for_a_boot_and_a_wait() -> None:
    stock = Stock(wait_s=150.0, kill_timer_s=900.0)
    assert stock.to_ask(Joins(waiting=10_000, boot_s=120.0), 1.0, 0.0) == 270
    assert stock.to_ask(Joins(waiting=10_000, booting=200, held=70, boot_s=120.0), 1.0, 0.0) == 0


def test_without_a_gate_machines_are_asked_for_at_the_pace_at_which_they_shall_join() -> None:
    stock = Stock(has_gate=False)
    asked = [stock.to_ask(Joins(waiting=10_000, boot_s=120.0), 1.0, now_s) for now_s in range(0, 60, 5)]
    assert asked == [0] + [5] * 11


@pytest.mark.parametrize("policy", [AimdOnWindow(), Gradient2()])
def test_windows_grow_on_calm_servers_and_shrink_on_slow_ones(policy: AimdOnWindow | Gradient2) -> None:
    for step in range(5):
        policy.step(window(10.0 * step), Joins(), 10.0 * step)
    start = policy.window
    for step in range(5, 15):
        policy.step(window(10.0 * step), replace(BUSY, joining=int(policy.window)), 10.0 * step)
    grown = policy.window
    for step in range(15, 25):
        policy.step(window(10.0 * step, latency_s=0.5), replace(BUSY, joining=int(policy.window)), 10.0 * step)
    assert start < grown
    assert policy.window < grown


def test_a_rate_grows_until_servers_reject() -> None:
    policy = AimdOnErrors(per_s=1.0)
    policy.step(window(10.0), BUSY, 10.0)
    assert policy.per_s == pytest.approx(1.05)
    policy.step(window(10.0, errors=900), BUSY, 15.0)
    assert policy.per_s == pytest.approx(1.05), "the same window is not counted twice"
    policy.step(window(20.0, errors=900), BUSY, 20.0)
    assert policy.per_s == pytest.approx(0.525)


def test_the_oracle_uses_its_share_of_what_is_free() -> None:
    oracle = FullKnowledge(TWELVE[0])
    assert isinstance(oracle, Oracle)
    joins = Joins(held=1000)
    admitted = sum(oracle.step_knowing(10.0, 5.0, joins, CLOCK_START_S + now_s).admit for now_s in range(0, 101, 5))
    assert admitted == 190


def test_the_oracle_asks_for_no_machine_that_a_known_slowdown_would_keep_waiting() -> None:
    calm = Scenario(name="calm", demands=(ScaleUp(at_s=0.0, nodes=9999),), servers=2, capacity=4, boot_s=120)
    slow = replace(calm, disturbances=(Slowdown(at_s=60, for_s=600, factor=0.5),))
    asked = [
        FullKnowledge(each).step_knowing(6.0, 5.0, Joins(waiting=9999), CLOCK_START_S).ask for each in (calm, slow)
    ]
    assert asked[1] < 0.7 * asked[0]


@pytest.mark.parametrize("scenario", [each for each in TWELVE if each.name[0] in "AEGIM"], ids=lambda each: each.name)
def test_the_oracle_is_clean_and_loses_no_machine(scenario: Scenario) -> None:
    found = simulate(scenario, FullKnowledge(scenario), 1)
    assert found.done_s is not None
    assert (found.lost, found.held_over_10min) == (0, 0)
    assert found.error_share < 1e-4
