"""Machines that no gate holds back come in waves: those that one look of the autoscaler ordered, together."""

from dataclasses import replace

import pytest

from tests.unit.throttler.law.looks import Loop
from throttler.joins.joins import Joins
from throttler.law.flow import Flow, Point
from throttler.law.settings import LawSettings
from throttler.law.stock import Outlook, ungated_stock


def waves() -> Flow:
    """Every 20 s ten machines come, and join together within 5 s."""
    points = []
    for second in range(121):
        wave, since = divmod(second, 20)
        joined = 10 * (wave + (since >= 5))
        points.append(Point(float(second), 10 if since < 5 else 0, joined, ordered=10 * (wave + 1), arrived=joined))
    return Flow(points=tuple(points))


def test_gaps_between_waves_say_nothing_of_what_the_servers_can_do() -> None:
    assert waves().rate_per_s(100.0) == 0.5
    assert waves().busy_rate_per_s(100.0) == 2.0


def test_no_rate_is_known_of_a_longer_time_than_was_seen() -> None:
    assert waves().busy_rate_per_s(500.0) is None


def test_nothing_under_way_is_a_rate_of_none_and_no_error() -> None:
    quiet = tuple(Point(float(second), 0, 7, ordered=7, arrived=7) for second in range(100))
    assert Flow(points=quiet).busy_rate_per_s(60.0) == 0.0


def test_more_is_ordered_in_advance_where_the_autoscaler_looks_seldom() -> None:
    outlook = Outlook(window=20, pace_per_s=2.0, boot_s=5.0)
    at_once = ungated_stock(outlook, Joins(joining=20, order_s=0.0), asked_lately=0)
    seldom = ungated_stock(outlook, Joins(joining=20, order_s=10.0), asked_lately=0)
    assert (at_once, seldom) == (10.0, 20.0)


def test_no_more_than_a_window_is_ordered_for_one_look() -> None:
    outlook = Outlook(window=20, pace_per_s=50.0, boot_s=60.0)
    assert ungated_stock(outlook, Joins(joining=0, booting=20, order_s=10.0), asked_lately=20) == 20.0


def test_leave_comes_back_as_the_last_looks_machines_have_had_time_to_join() -> None:
    loop = Loop(settings=LawSettings(has_gate=False, window_initial=20, pacing=1.0))
    usual = Joins(joined=200, join_s=5.0, boot_s=10.0, order_s=7.0)
    loop.calm(usual, times=5)
    unused = replace(usual, waiting=900, booting=20, granted=20)
    assert loop.calm(unused).ask == 0, "the next look uses all of it"
    used = replace(unused, granted=0)
    assert [loop.calm(used).ask for _ in range(3)] == [0, 10, 20]


def test_a_steady_flow_of_orders_fills_as_much_of_the_window_as_it_has_in_flight() -> None:
    steady = Flow(points=tuple(Point(s / 10.0, 0, 0, ordered=s, arrived=0) for s in range(1001)))
    assert steady.not_through(join_s=4.0, now_s=100.0) == pytest.approx(10.0 * 4.0, rel=0.02)


def test_what_boots_when_a_new_leader_begins_to_count_was_ordered_just_now() -> None:
    begun = Flow(points=(Point(0.0, 3, 40, ordered=67, arrived=43),))
    assert begun.not_through(join_s=4.0, now_s=2.0) == 18.0
    assert Flow().not_through(join_s=4.0, now_s=2.0) == 0.0


def test_a_batch_is_through_after_twice_the_mean_of_its_joins() -> None:
    batch = Flow(points=(Point(0.0, 0, 0, ordered=0, arrived=0), Point(10.0, 0, 0, ordered=24, arrived=0)))
    assert [batch.not_through(join_s=4.0, now_s=at_s) for at_s in (10.0, 14.0, 18.0, 30.0)] == [24.0, 12.0, 0.0, 0.0]
