"""Machines on their way to the gate."""

from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.throttler.simulator.small_plants import plant
from throttler.simulator.requests_and_machines import Machines
from throttler.simulator.scenario_and_faults import ScaleUp


def machines(nodes: int = 10, **changes: object) -> Machines:
    made = Machines(plant(nodes, **changes), np.random.default_rng(1))
    made.advance(0.0)
    return made


def test_nothing_is_wanted_before_its_demand() -> None:
    made = Machines(plant(0, demands=(ScaleUp(at_s=5.0, nodes=3),)), np.random.default_rng(1))
    made.advance(4.9)
    assert (made.waiting, made.next_s) == (0, 5.0)
    made.advance(5.0)
    assert made.waiting == 3


def test_machines_boot_and_are_held() -> None:
    made = machines(boot_s=100.0)
    made.ask(4, 0.0)
    assert (made.waiting, made.booting, made.held) == (6, 4, 0)
    assert made.advance(100.0) == 0
    assert (made.booting, made.held) == (0, 4)
    assert made.admit(3, 100.0) == 3
    assert made.held == 1


def test_without_a_gate_they_join_when_they_have_booted() -> None:
    made = machines(boot_s=100.0, has_gate=False)
    made.ask(4, 0.0)
    assert made.advance(99.0) == 0
    assert made.advance(100.0) == 4


def arrivals_of(made: Machines) -> list[float]:
    """When 4,000 machines came that were asked for at 0."""
    made.ask(4000, 0.0)
    arrivals = []
    while made.next_s < inf and made.booting:
        arrivals.append(made.next_s)
        made.advance(made.next_s)
    return arrivals


def test_boots_scatter_as_their_jitter_says() -> None:
    arrivals = arrivals_of(machines(4000, boot_s=200.0, boot_jitter=0.1))
    assert np.mean(arrivals) == pytest.approx(200.0, rel=0.01)
    assert np.std(arrivals) == pytest.approx(20.0, rel=0.05)


def test_the_kill_timer_counts_from_the_asking() -> None:
    made = machines(1, boot_s=100.0, kill_timer_s=300.0)
    made.ask(1, 0.0)
    made.advance(299.9)
    assert (made.held, made.lost) == (1, 0)
    made.advance(300.0)
    assert (made.held, made.lost, made.waiting) == (0, 1, 1)


def test_what_nears_its_kill_timer_goes_first() -> None:
    made = machines(2, boot_s=100.0, kill_timer_s=300.0)
    made.ask(1, 0.0)
    made.ask(1, 50.0)
    made.advance(200.0)
    made.admit(1, 200.0)
    assert made.next_s == 350.0


def test_machines_that_were_held_for_more_than_ten_minutes_are_counted() -> None:
    made = machines(2, boot_s=100.0)
    made.ask(2, 0.0)
    made.advance(100.0)
    made.admit(1, 700.0)
    assert made.held_long == 0
    made.admit(1, 700.1)
    assert made.held_long == 1


def test_no_more_is_asked_for_than_is_wanted_nor_let_in_than_is_held() -> None:
    made = machines(3)
    made.ask(100, 0.0)
    made.ask(-5, 0.0)
    assert made.booting == 3
    made.advance(50.0)
    assert made.admit(-1, 50.0) == 0
    assert made.admit(100, 50.0) == 3


def test_joins_say_what_a_controller_can_count() -> None:
    made = machines(5, boot_s=100.0)
    made.ask(2, 10.0)
    made.advance(110.0)
    made.ask(1, 120.0)
    joins = made.joins(joining=7, joined=2, join_s=80.0, oldest_joining_s=9.0, now_s=130.0)
    assert (joins.waiting, joins.booting, joins.held, joins.joining, joins.joined) == (2, 1, 2, 7, 2)
    assert (joins.oldest_booting_s, joins.oldest_held_s, joins.boot_s) == (10.0, 20.0, 100.0)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.floats(0, 200)), max_size=30))
def test_no_machine_is_lost_or_doubled(moves: list[tuple[int, int, float]]) -> None:
    made = machines(20, boot_s=60.0, boot_jitter=0.3, kill_timer_s=150.0)
    now_s, admitted = 0.0, 0
    for ask, admit, pause_s in moves:
        now_s += pause_s
        made.advance(now_s)
        made.ask(ask, now_s)
        admitted += made.admit(admit, now_s)
        assert made.waiting + made.booting + made.held + admitted == 20


@pytest.mark.parametrize("boot_is_skewed", [False, True])
def test_no_boot_takes_less_than_a_third_or_more_than_three_times_of_what_it_should(boot_is_skewed: bool) -> None:
    made = machines(200, boot_s=100.0, boot_jitter=9.0, boot_is_skewed=boot_is_skewed)
    made.ask(200, 0.0)
    made.advance(29.9)
    assert made.booting == 200
    made.advance(30.0)
    assert 0 < made.held < 200
    made.advance(299.9)
    assert made.booting > 0
    made.advance(300.0)
    assert made.booting == 0


def test_skewed_boots_scatter_by_factors() -> None:
    arrivals = arrivals_of(machines(4000, boot_s=200.0, boot_jitter=0.3, boot_is_skewed=True))
    assert np.median(arrivals) == pytest.approx(200.0, rel=0.02)
    assert np.std(np.log(arrivals)) == pytest.approx(0.3, rel=0.05)


def test_a_controller_goes_by_the_latest_twenty_boots() -> None:
    made = machines(60, boot_s=100.0, boot_jitter=0.2)
    boots_s = []
    for number in range(60):
        asked_s = 1000.0 * number
        made.advance(asked_s)
        made.ask(1, asked_s)
        boots_s.append(made.next_s - asked_s)
        made.advance(made.next_s)
        made.admit(1, asked_s + 500.0)
    joins = made.joins(joining=0, joined=0, join_s=None, oldest_joining_s=0.0, now_s=1e6)
    assert joins.boot_s == pytest.approx(np.mean(boots_s[-20:]))


def test_machines_that_are_held_for_long_when_the_run_ends_are_counted() -> None:
    made = machines(2, boot_s=100.0)
    made.ask(1, 0.0)
    made.ask(1, 50.0)
    made.advance(150.0)
    made.close(701.0)
    assert (made.held, made.held_long) == (0, 1)


def test_nothing_is_the_oldest_where_nothing_waits() -> None:
    made = machines(1, boot_s=100.0)
    made.ask(1, 0.0)
    made.advance(100.0)
    made.admit(1, 130.0)
    joins = made.joins(joining=1, joined=0, join_s=None, oldest_joining_s=0.0, now_s=150.0)
    assert (joins.oldest_booting_s, joins.oldest_held_s, joins.join_s) == (0.0, 0.0, None)
