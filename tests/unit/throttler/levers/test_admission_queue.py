"""The queue of held objects: ages that no wall clock moves, everybody out in time, nobody out without room."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from throttler.levers.admission_queue import (
    AdmissionReason,
    Held,
    HeldSince,
    admission,
    in_turn,
    let_in,
    why_let_in,
)
from throttler.levers.lever_and_reasons import Clocks, LeverBudget, LeverState

LIMIT_S = 100.0
AGES = st.lists(st.floats(0, 300), max_size=40)


def room(*, may_move: bool = True, is_stopping: bool = False) -> LeverBudget:
    return LeverBudget(
        existing=0, booting=0, allowance=0, admit=0, waiting=1, may_move=may_move, is_stopping=is_stopping
    )


def held(ages: list[float]) -> list[Held]:
    return [Held(f"h{i:02}", age) for i, age in enumerate(ages)]


def test_age_of_what_was_there_at_the_start_comes_from_its_creation() -> None:
    since = HeldSince().seen({"a": 40.0}, Clocks(1000.0, 100.0))
    assert since.age_s("a", 1000.0) == 60.0
    assert since.age_s("a", 1005.0) == 65.0


@pytest.mark.parametrize("step_s", [-1e9, -3600.0, 3600.0, 1e9])
def test_step_of_the_wall_clock_moves_no_age_of_what_was_seen(step_s: float) -> None:
    since = HeldSince().seen({"a": 100.0}, Clocks(1000.0, 100.0))
    since = since.seen({"a": 100.0, "new": 100.0 + step_s}, Clocks(1010.0, 110.0 + step_s))
    assert since.age_s("a", 1010.0) == 10.0
    assert 0.0 <= since.age_s("new", 1010.0) <= 10.0


def test_new_object_is_no_older_than_the_last_complete_look() -> None:
    since = HeldSince().seen({}, Clocks(1000.0, 100.0)).seen({}, Clocks(1050.0, 150.0), is_complete=False)
    assert since.seen({"a": -9e9}, Clocks(1060.0, 160.0)).age_s("a", 1060.0) == 60.0


def test_what_is_gone_is_forgotten() -> None:
    since = HeldSince().seen({"a": 0.0}, Clocks(1000.0, 0.0)).seen({}, Clocks(1010.0, 10.0))
    assert since.since_s == {}


@given(st.floats(), st.floats(-1e12, 1e12), st.floats(0, 1e9))
def test_no_number_makes_an_age_negative_or_unbounded(created_s: float, wall_s: float, gap_s: float) -> None:
    since = HeldSince().seen({}, Clocks(0.0, 0.0)).seen({"a": created_s}, Clocks(gap_s, wall_s))
    assert 0.0 <= since.age_s("a", gap_s) <= gap_s


@pytest.mark.parametrize("created_s", [math.inf, -math.inf, math.nan])
def test_a_creation_time_without_an_end_makes_nobody_wait_longer_or_go_earlier(created_s: float) -> None:
    """It counts from the first look on, as what is made just now does."""
    since = HeldSince().seen({"a": created_s, "b": 100.0}, Clocks(1000.0, 100.0))
    assert since.age_s("a", 1000.0) == since.age_s("b", 1000.0) == 0.0
    assert since.seen({"a": created_s}, Clocks(1010.0, 110.0)).age_s("a", 1010.0) == 10.0


def test_what_was_never_seen_has_no_age() -> None:
    assert HeldSince().age_s("a", 1000.0) == 0.0


@given(AGES, st.integers(0, 50), st.booleans())
def test_handing_back_lets_everybody_in(ages: list[float], places: int, may_move: bool) -> None:
    queued = in_turn(held(ages), LIMIT_S)
    assert len(let_in(queued, places, LIMIT_S, room(may_move=may_move, is_stopping=True))) == len(ages)


@given(AGES, st.integers(-5, 50), st.booleans())
def test_nobody_is_held_past_the_limit_whatever_the_signals_say(ages: list[float], places: int, may_move: bool) -> None:
    queued = in_turn(held(ages), LIMIT_S)
    chosen = {each.id for each in let_in(queued, places, LIMIT_S, room(may_move=may_move))}
    assert all(each.id in chosen for each in held(ages) if each.age_s >= LIMIT_S)


def test_limit_itself_is_over() -> None:
    queued = in_turn(held([LIMIT_S - 0.001, LIMIT_S]), LIMIT_S)
    assert [each.id for each in let_in(queued, 0, LIMIT_S, room())] == ["h01"]


@given(AGES, st.integers(-5, 50))
def test_places_bound_all_but_the_overdue(ages: list[float], places: int) -> None:
    chosen = let_in(in_turn(held(ages), LIMIT_S), places, LIMIT_S, room())
    overdue = sum(age >= LIMIT_S for age in ages)
    assert len(chosen) == max(overdue, min(len(ages), places))


@given(AGES, st.integers(0, 50))
def test_only_the_overdue_go_while_nothing_may_move(ages: list[float], places: int) -> None:
    chosen = let_in(in_turn(held(ages), LIMIT_S), places, LIMIT_S, room(may_move=False))
    assert {each.id for each in chosen} == {each.id for each in held(ages) if each.age_s >= LIMIT_S}


@given(AGES, st.integers(0, 50))
def test_nobody_is_overtaken_by_somebody_younger(ages: list[float], places: int) -> None:
    chosen = {each.id for each in let_in(in_turn(held(ages), LIMIT_S), places, LIMIT_S, room())}
    left = [each.age_s for each in held(ages) if each.id not in chosen]
    assert max(left, default=-math.inf) <= min((e.age_s for e in held(ages) if e.id in chosen), default=math.inf)


def test_urgent_ones_go_before_older_ones() -> None:
    queued = in_turn([Held("old", 50.0), Held("urgent", 1.0, is_urgent=True)], LIMIT_S)
    assert [each.id for each in let_in(queued, 1, LIMIT_S, room())] == ["urgent"]


def test_whoever_is_held_for_the_limit_goes_before_urgent_ones() -> None:
    queued = in_turn([Held("urgent", 99.9, is_urgent=True), Held("due", LIMIT_S)], LIMIT_S)
    assert [each.id for each in let_in(queued, 1, LIMIT_S, room())] == ["due"]


def test_report_counts_who_stays() -> None:
    stays = in_turn(held([30.0, 20.0]), LIMIT_S)
    decision = admission("x", stays, LIMIT_S, room())
    assert (decision.state, decision.ceiling) == (LeverState.CONFIRMED, "2 held")
    assert decision.because.reason is AdmissionReason.HOLDING
    assert decision.because.detail["oldest_s"] == 30.0
    assert admission("x", stays, LIMIT_S, room(may_move=False)).because.reason is AdmissionReason.HOLDING_BLIND
    assert admission("x", (), LIMIT_S, room()).state is LeverState.HANDED_BACK
    stopping = admission("x", stays, LIMIT_S, room(is_stopping=True))
    assert stopping.because.reason is AdmissionReason.HOLD_HANDED_BACK


def test_every_way_in_has_its_reason() -> None:
    assert why_let_in(Held("a", 3.0), LIMIT_S, room()).reason is AdmissionReason.ADMITTED
    assert why_let_in(Held("a", 100.0), LIMIT_S, room()).reason is AdmissionReason.HOLD_TIME_IS_UP
    assert why_let_in(Held("a", 100.0), LIMIT_S, room(is_stopping=True)).reason is AdmissionReason.HOLD_HANDED_BACK
    assert "after 100 s" in why_let_in(Held("a", 100.0), LIMIT_S, room()).sentence
