from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.throttler.levers.pool_scene import room
from throttler.levers.ceiling import (
    ANSWERS,
    LONGEST_ANSWER_S,
    QUIET_S,
    STEPS,
    CeilingNeed,
    Contest,
    RoomSearch,
    Uptake,
)
from throttler.levers.lever import TURN_S, LeverBudget, by_autoscaler


@given(st.integers(0, 50), st.integers(0, 50), st.integers(0, 50), st.floats(0, 1e6))
def test_two_autoscalers_have_one_allowance(allowance: int, claims: int, groups: int, now_s: float) -> None:
    both = by_autoscaler(room(allowance, booting=claims + groups), groups, now_s)
    assert sum(both) == allowance
    assert min(both) >= 0


def test_the_autoscaler_that_orders_gets_the_most_and_a_single_place_is_given_in_turn() -> None:
    assert by_autoscaler(room(10, booting=8), 8, 0.0) == (9, 1)
    assert by_autoscaler(room(10, booting=8), 0, 0.0) == (1, 9)
    assert {by_autoscaler(room(1), 0, now_s) for now_s in (0.0, TURN_S)} == {(1, 0), (0, 1)}


def searched(*looks: tuple[float, float]) -> RoomSearch:
    """A pool with room that something waits for: (when, creation of its newest machine) of each look."""
    search = RoomSearch()
    for now_s, newest_order_s in looks:
        search = search.heard(newest_order_s, now_s).waited(now_s, is_unmet=True)
    return search


def test_room_grows_step_by_step_and_rests_when_all_was_in_vain() -> None:
    search = RoomSearch()
    found = []
    for second in range(0, 700, 10):
        search = search.heard(0.0, float(second)).waited(float(second), is_unmet=True)
        found.append(search.step(float(second)))
    assert found[: STEPS + 2] == [*range(STEPS + 1), 0]
    assert set(found[STEPS + 1 : 60]) == {0}
    assert found[60:63] == [0, 1, 2], "tried again after ten minutes"


def test_an_order_ends_the_search_for_more_room() -> None:
    assert searched((0.0, 0.0), (20.0, 0.0)).step(20.0) == 2
    assert searched((0.0, 0.0), (20.0, 0.0), (21.0, 1.0)).step(21.0) == 0
    assert searched((0.0, 0.0), (20.0, 7.0), (30.0, 7.0), (40.0, 7.0)).step(40.0) == 2, "one order ends it once"
    assert searched((0.0, 7.0), (10.0, 3.0), (20.0, 7.0)).step(20.0) == 2, "nor does one that is seen again"


def test_what_has_no_room_or_is_not_needed_is_no_reason_to_search() -> None:
    search = searched((0.0, 0.0), (100.0, 0.0))
    assert search.is_dry(100.0)
    assert not search.waited(100.0, is_unmet=False).is_dry(100.0)


def after_answers(*answers_s: float) -> tuple[RoomSearch, float]:
    """A pool that took so long for its last orders, and the time when it was given room again."""
    search, now_s = RoomSearch(), 0.0
    for number, answer_s in enumerate(answers_s, 1):
        search = search.heard(search.newest_order_s, now_s).waited(now_s, is_unmet=True)
        now_s += answer_s
        search = search.heard(float(number), now_s)
    return search.waited(now_s, is_unmet=True), now_s


def test_rounds_that_take_long_are_no_stock_out() -> None:
    """On a busy machine a round of Karpenter's took more than 15 s, and machines of a dearer pool were bought."""
    quick, quick_s = after_answers(3.0, 12.0)
    assert not quick.is_dry(quick_s + 29.0)
    assert quick.is_dry(quick_s + 30.0)
    slow, slow_s = after_answers(3.0, 25.0, 4.0)
    assert not slow.is_dry(slow_s + 49.0)
    assert slow.is_dry(slow_s + 50.0)


def test_slow_answers_are_forgotten_after_a_few_quick_ones() -> None:
    search, now_s = after_answers(25.0, *[3.0] * ANSWERS)
    assert search.is_dry(now_s + 30.0)


@given(st.lists(st.floats(0.0, 3600.0), max_size=20))
def test_stock_that_comes_back_late_is_no_answer_of_that_length(answers_s: list[float]) -> None:
    search, now_s = after_answers(*answers_s)
    assert search.is_dry(now_s + 2 * LONGEST_ANSWER_S + 1.0)
    late, late_s = after_answers(5.0, 3600.0)
    assert late.is_dry(late_s + 60.0)


def test_contest_lets_the_first_write_through() -> None:
    contest = Contest().wrote(0.0).heard(40.0, is_foreign=True)
    assert contest.may_write(40.0)
    assert contest.is_contested(129.9)
    assert not contest.wrote(40.0).may_write(69.0)
    assert contest.wrote(40.0).may_write(70.0)
    assert not contest.is_contested(130.0)


def test_a_view_that_is_lost_is_no_quiet_time() -> None:
    calm = LeverBudget(existing=1, booting=0, allowance=4, admit=0, waiting=0, may_move=True)
    blind = replace(calm, may_move=False)
    demand = CeilingNeed().looked(calm, 0.0).looked(blind, 1.0)
    assert not demand.is_over(blind, 3600.0)
    demand = demand.looked(calm, 3600.0)
    assert not demand.is_over(calm, 3601.0)
    assert demand.is_over(calm, 3600.0 + QUIET_S)


def test_more_room_is_given_two_seconds_after_the_last_write() -> None:
    assert Contest().may_raise(0.0)
    assert not Contest().wrote(10.0).may_raise(11.8)
    assert Contest().wrote(10.0).may_raise(12.0)


def test_what_is_not_taken_up_for_half_a_minute_is_late() -> None:
    uptake = Uptake().looked(10.0, is_taken_up=False).looked(39.9, is_taken_up=False)
    assert (uptake.is_late(39.9), uptake.is_late(40.0)) == (False, True)
    assert not uptake.looked(40.0, is_taken_up=True).is_late(99.0)


def test_no_time_passes_while_room_was_not_seen() -> None:
    search = searched((0.0, 0.0), (10.0, 0.0)).heard(0.0, 25.0, is_taken_up=False).waited(25.0, is_unmet=True)
    assert search.unmet_s(25.0) == 10.0
    assert search.heard(0.0, 40.0).unmet_s(40.0) == 25.0
    assert search.heard(0.0, 54.0, is_taken_up=False).unmet_s(54.0) == 10.0
    assert search.heard(0.0, 55.0, is_taken_up=False).unmet_s(55.0) == 0.0, "nothing can be too small by then"
