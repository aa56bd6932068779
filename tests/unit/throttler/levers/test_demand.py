from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.throttler.levers.owned_object import OwnedObject
from tests.unit.throttler.levers.pool_scene import claims, pool_body, room
from throttler.levers.contest import Contest
from throttler.levers.demand import QUIET_S, STEPS, Demand
from throttler.levers.lever import Room
from throttler.levers.replacements import replacements
from throttler.levers.shares import TURN_S, by_autoscaler, shares


@given(allowance=st.integers(0, 500), booting=st.dictionaries(st.text(max_size=3), st.integers(0, 100), min_size=1))
def test_shares_add_up_to_the_allowance(allowance: int, booting: dict[str, int]) -> None:
    found = shares(allowance, booting)
    assert found.keys() == booting.keys()
    assert sum(found.values()) == allowance
    assert all(share >= 0 for share in found.values())


@given(st.integers(0, 50), st.integers(0, 50), st.integers(0, 50), st.floats(0, 1e6))
def test_two_autoscalers_have_one_allowance(allowance: int, claims: int, groups: int, now_s: float) -> None:
    both = by_autoscaler(room(allowance, booting=claims + groups), groups, now_s)
    assert sum(both) == allowance
    assert min(both) >= 0


def test_the_autoscaler_that_orders_gets_the_most_and_a_single_place_is_given_in_turn() -> None:
    assert by_autoscaler(room(10, booting=8), 8, 0.0) == (9, 1)
    assert by_autoscaler(room(10, booting=8), 0, 0.0) == (1, 9)
    assert {by_autoscaler(room(1), 0, now_s) for now_s in (0.0, TURN_S)} == {(1, 0), (0, 1)}


def test_busy_pool_gets_the_last_of_the_allowance() -> None:
    assert shares(1, {"idle": 0, "busy": 7}) == {"idle": 0, "busy": 1}


def test_room_grows_step_by_step_and_rests_when_all_was_in_vain() -> None:
    demand = Demand()
    found = []
    for second in range(0, 700, 10):
        demand = demand.looked(room(), 0.0, float(second))
        found.append(demand.step(float(second)))
    assert found[: STEPS + 2] == [*range(STEPS + 1), 0]
    assert set(found[STEPS + 1 : 60]) == {0}
    assert found[60:63] == [0, 1, 2], "tried again after ten minutes"


def test_an_order_ends_the_search_for_more_room() -> None:
    demand = Demand().looked(room(), 0.0, 0.0).looked(room(), 0.0, 20.0)
    assert demand.step(20.0) == 2
    assert demand.looked(room(), 1.0, 21.0).step(21.0) == 0


@pytest.mark.parametrize(("allowance", "waiting"), [(0, 5), (5, 0)])
def test_no_room_or_no_demand_is_no_reason_to_search(allowance: int, waiting: int) -> None:
    demand = Demand()
    for second in (0.0, 100.0):
        demand = demand.looked(room(allowance, waiting), 0.0, second)
    assert demand.unmet_s(100.0) == 0.0


def test_contest_lets_the_first_write_through() -> None:
    contest = Contest().wrote(0.0).heard(40.0, is_foreign=True)
    assert contest.may_write(40.0)
    assert not contest.wrote(40.0).may_write(69.0)
    assert contest.wrote(40.0).may_write(70.0)
    assert not contest.is_contested(130.0)


@pytest.mark.parametrize(
    ("budgets", "wanted"),
    [
        ([{"nodes": "10%"}], 1),
        ([{"nodes": "100%"}], 4),
        ([{"nodes": "0"}], 0),
        ([{"nodes": "0", "schedule": "@daily", "duration": "8h"}, {"nodes": "2"}], 2),
        ([{"nodes": "many"}], 4),
        ([], 4),
    ],
)
def test_replacements_keep_to_the_budget(budgets: list[dict[str, str]], wanted: int) -> None:
    pool = OwnedObject(pool_body(disruption={"budgets": budgets})).pool()
    assert replacements(pool, (*claims(6), *claims(4, 2, is_drifted=True))) == wanted


def test_a_view_that_is_lost_is_no_quiet_time() -> None:
    calm = Room(existing=1, booting=0, allowance=4, admit=0, waiting=0, may_move=True)
    blind = replace(calm, may_move=False)
    demand = Demand().looked(calm, 0.0, 0.0).unseen()
    assert not demand.is_over(blind, 3600.0)
    demand = demand.looked(calm, 0.0, 3600.0)
    assert not demand.is_over(calm, 3601.0)
    assert demand.is_over(calm, 3600.0 + QUIET_S)
