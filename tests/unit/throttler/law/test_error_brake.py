"""The emergency brake, and errors that are not ours, by numbers that can be checked by hand."""

from dataclasses import replace

import pytest

from tests.unit.throttler.law.looks import NOW_S, a_look, reading, with_errors
from throttler.joins.joins import Joins
from throttler.law import error_brake, window_control
from throttler.law.join_model import JoinFlow, with_counts
from throttler.law.server_health import error_share
from throttler.law.settings import LawSettings
from throttler.law.verdict import ThrottleReason

DEFAULTS = LawSettings()


def test_brake_takes_half_of_what_was_in_flight() -> None:
    assert error_brake.cut(100, 60, 0.5, DEFAULTS) == 30
    assert error_brake.cut(100, 300, 0.5, DEFAULTS) == 50


def test_brake_leaves_half_of_a_cold_start_where_next_to_nothing_was_in_flight() -> None:
    assert error_brake.cut(100, 2, 0.5, DEFAULTS) == 12
    assert error_brake.cut(8, 2, 0.5, DEFAULTS) == 4


def test_a_few_errors_cut_less() -> None:
    assert error_brake.cut(100, 100, 0.005, DEFAULTS) == 70


def test_brake_pauses_for_half_a_join_and_at_most_a_quarter_of_a_minute() -> None:
    pulled = error_brake.Brake(pulled_s=100.0)
    assert pulled.left_s(102.0, 10.0) == 3.0
    assert pulled.left_s(102.0, 80.0) == 13.0
    assert not pulled.may_pull(115.0, 10.0)
    assert pulled.may_pull(120.0, 10.0)
    assert not pulled.may_pull(120.0, 80.0)


def test_errors_of_idle_servers_are_their_mean_or_what_goes_on() -> None:
    rates = ((0.0, 0.0), (10.0, 6.0), (20.0, 6.0), (30.0, 6.0))
    assert error_brake.IdleErrors(samples=rates[:3]).per_s(99.0) == 4.0
    assert error_brake.IdleErrors(samples=rates).per_s(99.0) == 6.0, "three in a row go on"
    assert error_brake.IdleErrors(samples=rates).per_s(30.0) == 4.0, "what is being judged does not count"
    assert error_brake.IdleErrors().per_s(99.0) == 0.0


@pytest.mark.parametrize(("again_s", "pulls"), [(300.0, 2), (300.1, 1)])
def test_a_brake_is_in_a_row_for_ten_times_the_shortest_distance(again_s: float, pulls: int) -> None:
    first = error_brake.Brake().pulled(0.0, 90, 2.0)
    again = first.pulled(again_s, 40, 3.0)
    assert (again.pulls, again.joining) == (pulls, 90 if pulls == 2 else 40)


def test_errors_that_were_left_out_are_told_for_five_minutes() -> None:
    foreign = error_brake.ForeignErrors(left_out_s=0.0)
    assert (foreign.are_told(300.0), foreign.are_told(300.1)) == (True, False)
    assert not error_brake.ForeignErrors().are_told(0.0)


def test_a_brake_leaves_one_join_and_never_widens_the_window() -> None:
    assert error_brake.cut(1.5, 1, 0.5, DEFAULTS) == 1.0
    assert error_brake.cut(0.5, 1, 0.5, DEFAULTS) == 0.5


def test_what_was_never_pulled_or_long_ago_holds_nothing_back() -> None:
    assert error_brake.Brake().left_s(5.0, 80.0) == 0.0
    assert error_brake.Brake().may_pull(5.0, 80.0)
    assert error_brake.Brake(pulled_s=100.0).left_s(200.0, 80.0) == 0.0


@pytest.mark.parametrize(
    ("pulls", "joining", "per_s", "ago_s", "has_not_helped"),
    [
        (2, 50, 0.8, 300.0, True),
        (1, 50, 0.8, 300.0, False),
        (2, 51, 0.8, 300.0, False),
        (2, 50, 0.79, 300.0, False),
        (2, 50, 0.8, 300.1, False),
    ],
)
def test_two_pulls_half_of_the_joins_and_as_many_errors_prove_that_these_are_not_of_joins(
    pulls: int, joining: int, per_s: float, ago_s: float, *, has_not_helped: bool
) -> None:
    brake = error_brake.Brake(pulled_s=1000.0, pulls=pulls, joining=100, errors_per_s=1.0)
    assert brake.has_not_helped(1000.0 + ago_s, joining, per_s) is has_not_helped


@pytest.mark.parametrize(
    ("errors", "requests", "share", "alarms"),
    [(5.0, 4999.0, 5 / 4999, True), (5.0, 5000.0, 0.001, False), (4.9, 10.0, 0.49, False), (20.0, 10.0, 1.0, True)],
)
def test_five_errors_alarm_that_are_more_than_one_in_a_thousand(
    errors: float, requests: float, share: float, *, alarms: bool
) -> None:
    told = reading(9.0, requests=requests, errors=0.0)
    assert error_share(told, errors) == pytest.approx(share)
    assert error_brake.is_alarming(told, errors) is alarms


def test_a_window_without_requests_has_no_share_of_errors() -> None:
    assert error_share(reading(9.0, requests=0.0, errors=3.0)) == 0.0


def idled(foreign: error_brake.ForeignErrors, now_s: float, *rates: tuple[float, float]) -> error_brake.ForeignErrors:
    """After idle readings of these errors and spans."""
    told = tuple(reading(now_s, server=str(number), errors=e, span_s=s) for number, (e, s) in enumerate(rates))
    health = replace(a_look().health, fresh=told, new=told)
    return error_brake.observed(foreign, health, now_s, DEFAULTS, is_idle=True)


@pytest.mark.parametrize(
    ("errors", "others", "expected_per_s", "server"),
    [(20.0, 0.0, 0.0, ""), (20.0, 0.0, 2.0, "a"), (0.0, 20.0, 0.0, "a")],
)
def test_errors_are_told_as_left_out_that_would_have_pulled_the_brake_alone(
    errors: float, others: float, expected_per_s: float, server: str
) -> None:
    told = reading(NOW_S, errors=errors, others_errors=others)
    known = error_brake.IdleErrors(samples=((0.0, expected_per_s),))
    health = replace(a_look().health, fresh=(told,), new=(told,))
    foreign = error_brake.ForeignErrors(servers=known)
    after = error_brake.observed(foreign, health, NOW_S, DEFAULTS, is_idle=False)
    assert (after.server, after.left_out_s) == (server, NOW_S if server else None)


def test_of_idle_servers_the_worst_counts_and_a_window_of_no_length_tells_nothing() -> None:
    foreign = idled(error_brake.ForeignErrors(), 10.0, (20.0, 10.0), (30.0, 10.0), (5.0, 0.0))
    assert foreign.servers.samples == ((10.0, 3.0),)
    assert idled(foreign, 20.0, (5.0, 0.0)).servers == foreign.servers


def test_errors_of_idle_servers_are_forgotten_after_three_minutes_and_the_128_newest_are_kept() -> None:
    known = tuple((float(at_s), 1.0) for at_s in range(200))
    foreign = error_brake.ForeignErrors(servers=error_brake.IdleErrors(samples=known))
    assert [at_s for at_s, _ in idled(foreign, 199.0, (0.0, 10.0)).servers.samples] == [*range(73, 200), 199.0]
    assert [at_s for at_s, _ in idled(foreign, 377.0, (0.0, 10.0)).servers.samples] == [197.0, 198.0, 199.0, 377.0]
    assert [at_s for at_s, _ in idled(foreign, 5.0, (0.0, 10.0)).servers.samples] == [*range(6), 5.0], "not from later"


@pytest.mark.parametrize(
    ("then", "now", "reason"), [(90, 0, ThrottleReason.ERRORS), (0, 90, ThrottleReason.IDLE_ERRORS)]
)
def test_errors_are_of_the_joins_that_were_there_while_they_were_counted(
    then: int, now: int, reason: ThrottleReason
) -> None:
    flow = with_counts(JoinFlow(), Joins(joining=then), NOW_S - 5.0)
    after = window_control.braked(with_errors(a_look(joining=now, flow=flow), 10.0))
    assert after is not None
    assert after.because.reason is reason
