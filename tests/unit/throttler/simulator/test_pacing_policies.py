"""The laws that ours is held against do what their names say."""

from dataclasses import dataclass, replace

import pytest

from lab.simulator.by_cohort import simulate
from lab.simulator.study_scenarios import TWELVE
from tests.unit.throttler.simulator.small_plants import plant
from throttler.joins.joins import Joins
from throttler.law.govern import govern
from throttler.law.law_memory import LawMemory, Learned, learned_of
from throttler.law.settings import LawSettings
from throttler.signals.reading import Reading, Signals
from throttler.simulator.pacing_policies import (
    AimdOnErrors,
    AimdOnWindow,
    AtOnce,
    Drip,
    FixedRate,
    FixedWindow,
    FullKnowledge,
    Gradient2,
    LawPolicy,
    Oracle,
    Permit,
    Stock,
    WorstServer,
    in_window,
    pace_of,
    permit,
)
from throttler.simulator.requests_and_machines import JOIN
from throttler.simulator.scenario_and_faults import ScaleUp, Scenario, Slowdown
from throttler.simulator.simulated_scrape import CLOCK_START_S

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
        permit = policy.step(window(10.0 * step), replace(BUSY, joining=int(policy.window)), 10.0 * step)
        assert permit.window == policy.window
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
    slow = replace(calm, faults=(Slowdown(at_s=60, for_s=600, factor=0.5),))
    asked = [
        FullKnowledge(each).step_knowing(6.0, 5.0, Joins(waiting=9999), CLOCK_START_S).ask for each in (calm, slow)
    ]
    assert asked[1] < 0.7 * asked[0]


@pytest.mark.whole
@pytest.mark.parametrize("scenario", [each for each in TWELVE if each.name[0] in "AEGIM"], ids=lambda each: each.name)
def test_the_oracle_is_clean_and_loses_no_machine(scenario: Scenario) -> None:
    found = simulate(scenario, FullKnowledge(scenario), 1)
    assert found.done_s is not None
    assert (found.lost, found.held_over_10min) == (0, 0)
    assert found.error_share < 1e-4


@pytest.mark.parametrize(
    ("stock", "joins", "boot_s", "ask"),
    [
        (Stock(), Joins(waiting=9999, boot_s=120.0), None, 270),
        (Stock(), Joins(waiting=9999), None, 330),
        (Stock(), Joins(waiting=9999, boot_s=120.0), 60.0, 210),
        (Stock(), Joins(waiting=9999, boot_s=500.0), None, 550),
        (Stock(kill_timer_s=400.0), Joins(waiting=9999, boot_s=120.0), None, 240),
        (Stock(kill_timer_s=100.0), Joins(waiting=9999, boot_s=120.0), None, 132),
        (Stock(), Joins(waiting=9999, booting=100, held=70, boot_s=120.0), None, 100),
        (Stock(), Joins(waiting=5, boot_s=120.0), None, 5),
        (Stock(), Joins(waiting=9999, booting=300, boot_s=120.0), None, 0),
    ],
)
def test_a_stock_is_what_a_boot_and_a_wait_let_in_within_the_kill_timer(
    stock: Stock, joins: Joins, boot_s: float | None, ask: int
) -> None:
    """At one join a second; a boot is taken for 180 s until one is known."""
    assert stock.to_ask(joins, 1.0, 0.0, boot_s) == ask


def test_at_the_slowest_pace_four_machines_may_be_on_their_way() -> None:
    assert Stock().to_ask(Joins(waiting=9, boot_s=120.0), 0.0, 0.0) == 4
    assert Stock().to_ask(Joins(waiting=9, booting=3, boot_s=120.0), 0.0, 0.0) == 1


def test_a_stock_is_that_of_the_clusters_operator() -> None:
    found = Stock.of(Scenario(name="x", demands=(), servers=1, capacity=1.0, kill_timer_s=500.0, has_gate=False))
    assert (found.kill_timer_s, found.has_gate, found.wait_s) == (500.0, False, 150.0)


def test_without_a_gate_no_more_are_on_their_way_than_a_boot_and_a_bit_let_in() -> None:
    stock = Stock(has_gate=False)
    stock.to_ask(Joins(waiting=99, boot_s=100.0), 1.0, 0.0)
    assert stock.to_ask(Joins(waiting=99, booting=128, boot_s=100.0), 1.0, 10.0) == 2


def test_a_drip_gives_whole_ones_and_keeps_the_rest() -> None:
    drip = Drip(burst_s=10.0)
    assert [drip.due(0.3, now_s) for now_s in (0.0, 2.0, 4.0, 6.0, 8.0)] == [0, 0, 1, 0, 1]
    slow = Drip(burst_s=10.0)
    assert [slow.due(0.01, now_s) for now_s in (0.0, 1000.0, 1001.0)] == [0, 1, 0]


def test_a_window_means_as_many_joins_a_second_as_end_in_it() -> None:
    assert pace_of(80.0, Joins(join_s=40.0)) == 2.0
    assert pace_of(80.0, Joins()) == 1.0, "a join is taken for 80 s until one has ended"


def test_a_full_window_without_a_gate_asks_for_nothing() -> None:
    joins = Joins(waiting=99, held=5, joining=10, join_s=80.0, boot_s=100.0)
    assert in_window(10.9, Stock(), joins, 0.0) == Permit(ask=29, admit=0, window=10.9)
    open_to_all = Stock(has_gate=False)
    in_window(10.0, open_to_all, joins, 0.0)
    assert in_window(10.0, open_to_all, joins, 100.0).ask == 0
    assert in_window(12.0, open_to_all, joins, 200.0) == Permit(ask=1, admit=2, window=12.0)


def test_the_worst_of_all_servers_counts_once() -> None:
    worst = WorstServer()
    slow = Reading(server="a", ended_s=10.0, span_s=10.0, requests=100, errors=1, latency_s=0.02, queue_wait_s=0.01)
    failing = replace(slow, server="b", ended_s=11.0, errors=5, latency_s=None, queue_wait_s=None)
    found = worst.fresh(Signals(readings=(slow, failing)), Joins())
    assert found is not None
    assert (found.error_share, found.index) == (0.05, 1.0)
    assert worst.fresh(Signals(readings=(slow, failing)), Joins()) is None
    again = worst.fresh(Signals(readings=(replace(slow, ended_s=11.5, latency_s=0.05),)), Joins(joining=1))
    assert again is not None
    assert again.index == pytest.approx(2.0)
    nothing = worst.fresh(Signals(readings=(replace(slow, ended_s=12.0, requests=0),)), Joins(joining=1))
    assert nothing is not None
    assert nothing.error_share == 0.0
    assert WorstServer().baseline_s == 0.004, "no idle server answers sooner"


@pytest.mark.parametrize(
    ("index", "error_share", "joining", "after"),
    [
        (5.0, 0.001, 60, 102.0),
        (5.0, 0.001, 59, 100.0),
        (5.1, 0.0, 60, 80.0),
        (1.0, 0.0011, 60, 80.0),
        (1.0, 0.0011, 0, 80.0),
    ],
)
def test_a_window_by_steps_rises_by_two_and_falls_by_a_fifth(
    index: float, error_share: float, joining: int, after: float
) -> None:
    assert AimdOnWindow(window=100.0).next_window(index, error_share, joining) == after
    assert AimdOnWindow(window=2.1).next_window(9.0, 0.0, 2) == 2.0


@pytest.mark.parametrize(
    ("index", "error_share", "after"),
    [(1.0, 0.0, 108.0), (4.0, 0.0, 108.0), (5.0, 0.0, 104.0), (8.0, 0.0, 98.0), (99.0, 0.0, 98.0), (1.0, 0.002, 98.0),
     (0.0, 0.001, 108.0)],
)  # fmt: skip
def test_a_gradient_rises_by_the_queues_share_and_falls_by_half_of_that_at_most(
    index: float, error_share: float, after: float
) -> None:
    assert Gradient2(window=100.0).next_window(index, error_share) == pytest.approx(after)
    assert Gradient2(window=2.0).next_window(99.0, 0.0) == 2.0


@pytest.mark.parametrize(("joining", "window_after"), [(8, 17.28), (7, 16.0)])
def test_a_gradient_does_not_move_a_window_that_is_not_half_used(joining: int, window_after: float) -> None:
    policy = Gradient2()
    policy.step(window(10.0), replace(BUSY, joining=joining), 10.0)
    assert policy.window == pytest.approx(window_after)


def test_a_rate_is_halved_down_to_its_least_and_grows_only_while_anything_joins() -> None:
    policy = AimdOnErrors(per_s=0.08)
    policy.step(window(10.0, errors=11), BUSY, 10.0)
    assert policy.per_s == 0.05
    policy.step(window(20.0, errors=10), BUSY, 20.0)
    assert policy.per_s == pytest.approx(0.1), "one in a hundred is not too many"
    policy.step(window(30.0), replace(BUSY, joining=0), 30.0)
    assert policy.per_s == pytest.approx(0.1)


def test_the_oracle_lets_in_no_more_than_the_servers_can_have_under_way() -> None:
    calm = Scenario(name="calm", demands=(ScaleUp(at_s=0.0, nodes=9999),), servers=2, capacity=4, boot_s=120)
    oracle = FullKnowledge(calm)
    oracle.step_knowing(10.0, 5.0, Joins(held=1000), CLOCK_START_S)
    full = oracle.step_knowing(10.0, 5.0, Joins(held=1000, joining=10_000), CLOCK_START_S + 5.0)
    assert full.admit == 0
    ungated = FullKnowledge(replace(calm, has_gate=False))
    ungated.step_knowing(10.0, 5.0, Joins(waiting=99), CLOCK_START_S)
    assert ungated.step_knowing(10.0, 5.0, Joins(waiting=99, joining=10_000), CLOCK_START_S + 5.0).ask == 0
    assert ungated.step_knowing(10.0, 5.0, Joins(waiting=99), CLOCK_START_S + 10.0).ask > 0


@dataclass
class PolicyThatListens:
    heard: tuple[object, ...] = ()

    def step(self, signals: Signals, joins: Joins, now_s: float) -> Permit:
        self.heard = (signals, joins, now_s)
        return Permit(ask=1, admit=2)


@dataclass
class OracleThatListens(Oracle):
    heard: tuple[object, ...] = ()

    def step_knowing(self, spare: float, join_cost: float, joins: Joins, now_s: float) -> Permit:
        self.heard = (spare, join_cost, joins, now_s)
        return Permit(ask=3, admit=4)


def test_only_an_oracle_is_told_what_is_free_and_what_a_join_costs() -> None:
    scenario, policy, oracle = plant(nodes_before=1000), PolicyThatListens(), OracleThatListens()
    signals, joins = window(10.0), Joins(joining=3000, joined=1000)
    assert permit(policy, scenario, signals, joins, 0.25, 7.0) == Permit(ask=1, admit=2)
    assert policy.heard == (signals, joins, CLOCK_START_S + 7.0)
    assert permit(oracle, scenario, signals, joins, 0.25, 7.0) == Permit(ask=3, admit=4)
    free = pytest.approx(16.0 - 4.0 - 1.5)
    assert oracle.heard == (free, JOIN.cost_at(5000), joins, CLOCK_START_S + 7.0)


@pytest.mark.parametrize("policy", [AimdOnErrors(), AimdOnWindow(), Gradient2()])
def test_without_a_new_window_of_counts_every_law_stays_as_it_is(
    policy: AimdOnErrors | AimdOnWindow | Gradient2,
) -> None:
    before = replace(policy)
    policy.step(Signals(), BUSY, 10.0)
    figures = [(law.per_s if isinstance(law, AimdOnErrors) else law.window) for law in (before, policy)]
    assert figures[0] == figures[1]


def test_the_baseline_is_what_idle_servers_did_in_the_latest_eighteen_windows() -> None:
    worst = WorstServer()
    for number in range(21 + 18):
        worst.fresh(window(10.0 * number, latency_s=0.1 if number < 21 else 0.02), Joins())
    assert worst.baseline_s == 0.02


ONE_A_SECOND = 0.95 * 16.0
"""What a join costs when one a second fits into the oracle's share of two idle servers of capacity 8."""


def oracle_of(**changes: object) -> FullKnowledge:
    return FullKnowledge(plant(**({"background": 0.0, "boot_s": 120.0} | changes)))


@pytest.mark.parametrize(
    ("changes", "joins", "ask"),
    [
        ({}, Joins(waiting=9999), 180),
        ({"boot_s": 500.0}, Joins(waiting=9999), 560),
        ({"boot_s": 700.0}, Joins(waiting=9999), 770),
        ({"kill_timer_s": 200.0}, Joins(waiting=9999), 150),
        ({}, Joins(waiting=9999, booting=100, held=70), 10),
        ({}, Joins(waiting=5), 5),
        ({}, Joins(waiting=9999, booting=300), 0),
        ({"capacity": 0.01}, Joins(waiting=9999), 4),
    ],
)
def test_the_oracle_asks_for_what_a_boot_and_a_minute_let_in_within_the_kill_timer(
    changes: dict[str, object], joins: Joins, ask: int
) -> None:
    """A tenth more than a boot at least: what is asked for now is there when those before it have been let in."""
    assert oracle_of(**changes).step_knowing(16.0, ONE_A_SECOND, joins, CLOCK_START_S).ask == ask


@pytest.mark.parametrize(("now_s", "ask"), [(0.0, 20 * 3 + 10 * 6), (20.0, 20 * 2 + 10 * 7), (60.0, 90), (800.0, 180)])
def test_the_oracle_looks_ahead_in_steps_of_twenty_seconds(now_s: float, ask: int) -> None:
    oracle = oracle_of(faults=(Slowdown(at_s=60.0, for_s=600.0, factor=0.5),))
    assert oracle.step_knowing(16.0, ONE_A_SECOND, Joins(waiting=9999), CLOCK_START_S + now_s).ask == ask


def test_the_oracle_looks_once_where_the_kill_timer_leaves_it_no_step() -> None:
    oracle = oracle_of(boot_s=5.0, kill_timer_s=10.0, faults=(Slowdown(at_s=60.0, for_s=600.0, factor=0.5),))
    assert oracle.step_knowing(16.0, ONE_A_SECOND, Joins(waiting=9999), CLOCK_START_S).ask == 7


@pytest.mark.parametrize(("later_s", "ask"), [(-10.0, 10), (0.0, 5), (10.0, 10), (20.0, 5), (40.0, 5), (60.0, 10)])
def test_without_a_gate_the_oracle_asks_for_what_fits_when_it_has_booted_and_soon_after(
    later_s: float, ask: int
) -> None:
    slowdown = Slowdown(at_s=10.0 + 120.0 + later_s - 1.0, for_s=2.0, factor=0.5)
    oracle = oracle_of(has_gate=False, faults=(slowdown,))
    oracle.step_knowing(16.0, ONE_A_SECOND, Joins(waiting=9999), CLOCK_START_S)
    assert oracle.step_knowing(16.0, ONE_A_SECOND, Joins(waiting=9999), CLOCK_START_S + 10.0).ask == ask


@pytest.mark.parametrize(("room", "held", "admit"), [(0, 99, 0), (-1, 99, 0), (1, 99, 1), (50, 2, 2), (50, 99, 10)])
def test_the_oracle_lets_joins_take_a_fifth_longer_than_alone(room: int, held: int, admit: int) -> None:
    oracle, full = oracle_of(), int(1.2 * JOIN.alone_s)
    oracle.step_knowing(16.0, ONE_A_SECOND, Joins(), CLOCK_START_S)
    joins = Joins(held=held, joining=full - room)
    assert oracle.step_knowing(16.0, ONE_A_SECOND, joins, CLOCK_START_S + 10.0).admit == admit


def test_a_rate_that_was_not_used_for_long_lets_ten_seconds_of_it_in_at_once() -> None:
    policy = FixedRate(2.0)
    assert [policy.step(Signals(), Joins(held=1000), now_s).admit for now_s in (0.0, 1000.0, 1001.0)] == [0, 20, 2]


def test_a_rate_by_errors_begins_at_one_join_in_five_seconds() -> None:
    policy = AimdOnErrors()
    policy.step(window(10.0), BUSY, 10.0)
    assert policy.per_s == pytest.approx(0.25)


def test_a_rate_by_errors_lets_in_what_is_due_and_held_and_keeps_a_stock() -> None:
    joins = Joins(waiting=999, held=1, joining=2, boot_s=100.0)
    policy = AimdOnErrors()
    permits = [policy.step(Signals(), joins, now_s) for now_s in (0.0, 5.0)]
    assert permits == [Permit(ask=49, admit=0), Permit(ask=49, admit=1)]
    assert policy.step(Signals(), replace(joins, held=9), 15.0).admit == 2


def test_a_window_by_steps_begins_at_eight_and_never_ends_below_two() -> None:
    assert AimdOnWindow().next_window(1.0, 0.0, 8) == 10.0
    assert AimdOnWindow(window=2.1).next_window(99.0, 0.0, 8) == 2.0


def test_a_window_by_steps_is_filled_and_its_stock_asked_for() -> None:
    joins = Joins(waiting=999, held=5, joining=2, join_s=80.0, boot_s=100.0)
    assert AimdOnWindow().step(Signals(), joins, 10.0) == Permit(ask=20, admit=5, window=8.0)


def test_the_law_is_asked_as_the_service_asks_it_with_the_clusters_gate_and_kill_timer() -> None:
    scenario, start = plant(has_gate=False, kill_timer_s=500.0), Learned(window=40.0, age_s=60.0)
    settings = LawSettings(has_gate=False, kill_timer_s=500.0)
    signals, joins = window(1010.0), Joins(waiting=500, booting=3, joining=20, boot_s=120.0, join_s=80.0)
    policy = LawPolicy(scenario, start)
    verdict, memory = govern(signals, joins, LawMemory.start(start), settings, 1015.0)
    assert policy.step(signals, joins, 1015.0) == Permit(verdict.allowance, verdict.admit, verdict.window)
    assert (policy.verdict, policy.learned) == (verdict, learned_of(memory, 1015.0))
    gated = LawPolicy(scenario, start, LawSettings(has_gate=True))
    assert gated.step(signals, joins, 1015.0) != Permit(verdict.allowance, verdict.admit, verdict.window)
