"""Machines that no gate holds back come in waves: those that one look of the autoscaler ordered, together."""

from throttler.joins.joins import Joins
from throttler.law.flow import Flow, Point
from throttler.law.stock import Outlook, ungated_stock


def waves() -> Flow:
    """Every 20 s ten machines come, and join together within 5 s."""
    points = []
    for second in range(121):
        wave, since = divmod(second, 20)
        joined = 10 * (wave + (since >= 5))
        points.append(Point(float(second), 10 if since < 5 else 0, joined, asked=10 * (wave + 1), arrived=joined))
    return Flow(points=tuple(points))


def test_gaps_between_waves_say_nothing_of_what_the_servers_can_do() -> None:
    assert waves().rate_per_s(100.0) == 0.5
    assert waves().busy_rate_per_s(100.0) == 2.0


def test_no_rate_is_known_of_a_longer_time_than_was_seen() -> None:
    assert waves().busy_rate_per_s(500.0) is None


def test_nothing_under_way_is_a_rate_of_none_and_no_error() -> None:
    quiet = tuple(Point(float(second), 0, 7, asked=7, arrived=7) for second in range(100))
    assert Flow(points=quiet).busy_rate_per_s(60.0) == 0.0


def test_more_is_ordered_in_advance_where_the_autoscaler_looks_seldom() -> None:
    outlook = Outlook(window=20, pace_per_s=2.0, boot_s=5.0)
    at_once = ungated_stock(outlook, Joins(joining=20, order_s=0.0), asked_lately=0)
    seldom = ungated_stock(outlook, Joins(joining=20, order_s=10.0), asked_lately=0)
    assert (at_once, seldom) == (10.0, 20.0)


def test_no_more_than_a_window_is_ordered_for_one_look() -> None:
    outlook = Outlook(window=20, pace_per_s=50.0, boot_s=60.0)
    assert ungated_stock(outlook, Joins(joining=0, booting=20, order_s=10.0), asked_lately=20) == 20.0
