from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.throttler.levers.owned_object import OwnedObject
from tests.unit.throttler.levers.pool_scene import claims, pool_body, room
from throttler.kube.karpenter import NodePool
from throttler.levers.ceiling import (
    CeilingNeed,
    Contest,
    RoomSearch,
    Uptake,
    is_pool_taken_up,
)
from throttler.levers.lever_and_reasons import (
    TURN_S,
    Holder,
    LeverBudget,
    LeverDecision,
    LeverReason,
    LeverState,
    by_autoscaler,
)
from throttler.levers.node_pool_limits import NodePoolMemory, NodePoolView, decide_node_pools
from throttler.levers.pool_shares import WaitingWork


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
    assert found[:9] == [*range(8), 0]
    assert set(found[8:60]) == {0}
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
    search, now_s = after_answers(25.0, *[3.0] * 5)
    assert search.is_dry(now_s + 30.0)


@given(st.lists(st.floats(0.0, 3600.0), max_size=20))
def test_stock_that_comes_back_late_is_no_answer_of_that_length(answers_s: list[float]) -> None:
    search, now_s = after_answers(*answers_s)
    assert search.is_dry(now_s + 121.0)
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
    assert demand.is_over(calm, 3630.0)


def test_more_room_is_given_two_seconds_after_the_last_write() -> None:
    assert Contest().may_raise(0.0)
    assert not Contest().wrote(10.0).may_raise(11.8)
    assert Contest().wrote(10.0).may_raise(12.0)


def test_the_moment_itself_is_late_enough() -> None:
    assert Contest().wrote(0.0).may_raise(1.9)


@pytest.mark.parametrize(("waiting", "is_over"), [(0, True), (-1, True), (1, False)])
def test_a_single_node_that_is_waited_for_keeps_ceilings_in_force(waiting: int, *, is_over: bool) -> None:
    now = room(waiting=waiting)
    assert CeilingNeed().looked(now, 0.0).is_over(now, 30.0) is is_over


def test_what_is_not_taken_up_for_half_a_minute_is_late() -> None:
    assert Uptake().waited_s(50.0) == 0.0
    uptake = Uptake().looked(10.0, is_taken_up=False).looked(39.9, is_taken_up=False)
    assert (uptake.is_late(39.9), uptake.is_late(40.0)) == (False, True)
    assert not uptake.looked(40.0, is_taken_up=True).is_late(99.0)


def test_no_time_passes_while_room_was_not_seen() -> None:
    search = searched((0.0, 0.0), (10.0, 0.0)).heard(0.0, 25.0, is_taken_up=False).waited(25.0, is_unmet=True)
    assert search.unmet_s(25.0) == 10.0
    assert search.heard(0.0, 40.0).unmet_s(40.0) == 25.0
    assert search.heard(0.0, 54.0, is_taken_up=False).unmet_s(54.0) == 10.0
    assert search.heard(0.0, 55.0, is_taken_up=False).unmet_s(55.0) == 0.0, "nothing can be too small by then"
    first = RoomSearch().waited(0.0, is_unmet=True).heard(0.0, 5.0, is_taken_up=False)
    assert first.unmet_s(5.0) == 5.0, "since when it was not seen is not known"


@pytest.mark.parametrize(
    ("generations", "is_taken_up"),
    [(None, False), ((), False), ((4,), True), ((3,), False), ((4, 3), False), ((4, 5), True), ((0, 0), True)],
)
def test_a_pool_is_taken_up_when_every_condition_that_names_one_is_of_this_generation(
    generations: tuple[int, ...] | None, *, is_taken_up: bool
) -> None:
    conditions = (
        None
        if generations is None
        else [
            {"type": f"C{number}", "status": "True", "observedGeneration": generation}
            for number, generation in enumerate(generations)
        ]
    )
    body = {**pool_body(), "status": {"conditions": conditions}}
    body["metadata"] |= {"generation": 4}
    assert is_pool_taken_up(msgspec.convert(body, NodePool)) is is_taken_up


class Pool:
    """A NodePool with three machines, which a user and we both write."""

    def __init__(self, limits: dict[str, Any] | None) -> None:
        self.server, self.memory = OwnedObject(pool_body(limits)), NodePoolMemory()

    def look(self, now_s: float, *, throttle: str = "default", **budget: Any) -> LeverDecision:
        seen = NodePoolView(pool=self.server.pool(), claims=claims(3))
        holder = Holder(throttle=throttle, epoch=3)
        (decision,), self.memory = decide_node_pools(
            [seen], room(**{"allowance": 4, **budget}), WaitingWork(), holder, self.memory, now_s
        )
        for write in decision.writes:
            self.server.carry_out(write)
        return decision

    @property
    def cores(self) -> Any:
        return (self.server.pool().spec.limits or {}).get("cpu")

    def edit(self, **fields: Any) -> None:
        body = self.server.body
        assert body is not None
        for name, value in fields.items():
            body[name] = {key: field for key, field in {**body[name], **value}.items() if field is not None}


def test_a_ceiling_is_written_in_the_version_in_which_the_object_was_read() -> None:
    pool = Pool(None)
    pool.edit(metadata={}, spec={})
    (pool.server.body or {})["apiVersion"] = "karpenter.sh/v1beta1"
    (write,) = pool.look(0.0).writes
    assert (write.api_version, write.kind, write.key.name) == ("karpenter.sh/v1beta1", "NodePool", "default")
    assert isinstance(write.body, dict)
    assert write.body["apiVersion"] == "karpenter.sh/v1beta1"


def test_while_nobody_sees_the_ceiling_that_stands_is_shown() -> None:
    pool = Pool({"cpu": "400"})
    pool.server.observed()
    assert pool.look(0.0).ceiling == "cpu 56, memory 240Gi"
    blind = pool.look(5.0, allowance=9, may_move=False)
    assert (blind.ceiling, blind.original) == ("cpu 56, memory 240Gi", "cpu 400, memory none")
    assert blind.writes == ()
    assert pool.look(60.0).state is LeverState.PENDING, "that it is not taken up nobody could see before"


def test_limits_that_somebody_took_off_with_our_annotation_are_gone_for_good() -> None:
    """What we remember is not put back over his decision: it becomes the new value to restore, which is none."""
    pool = Pool({"cpu": "400"})
    pool.look(0.0)
    pool.edit(metadata={"annotations": {}, "labels": {}}, spec={"limits": None})
    decision = pool.look(5.0)
    assert (pool.cores, decision.original) == ("56", "cpu none, memory none")


def test_limits_that_somebody_took_off_alone_are_contested() -> None:
    pool = Pool({"cpu": "400"})
    pool.look(0.0)
    pool.edit(spec={"limits": None})
    assert pool.look(40.0).state is LeverState.CONTESTED
    assert pool.cores == "56", "his limit is none from then on, and ours is written again"
    unlimited = Pool(None)
    unlimited.look(0.0)
    unlimited.edit(spec={"limits": None})
    unlimited.look(40.0)
    assert unlimited.cores == "56", "also where there was none before, so that the mark says the same"


def test_an_annotation_that_somebody_took_off_under_our_value_goes_back_on() -> None:
    pool = Pool({"cpu": "400"})
    pool.look(0.0)
    pool.edit(metadata={"annotations": {}, "labels": {}})
    assert pool.look(40.0).original == "cpu 400, memory none"
    pool.look(50.0, is_stopping=True)
    assert pool.cores == "400"


def test_what_another_throttle_left_is_taken_over_as_it_stands_and_the_users_value_given_back() -> None:
    """Given back first, all that waited could be ordered before the next ceiling stood."""
    pool = Pool({"cpu": "400"})
    pool.look(0.0, throttle="other")
    decision = pool.look(10.0)
    assert (decision.original, pool.cores) == ("cpu 400, memory none", "56")
    pool.look(20.0, is_stopping=True)
    assert pool.cores == "400"


@pytest.mark.parametrize(
    ("budget", "reason"), [({"is_stopping": True}, LeverReason.STOPPING), ({"waiting": 0}, LeverReason.NOTHING_WAITS)]
)
def test_why_a_ceiling_is_handed_back(budget: dict[str, Any], reason: LeverReason) -> None:
    pool = Pool({"cpu": "400"})
    pool.look(0.0)
    pool.look(10.0, **budget)
    decision = pool.look(50.0, **budget)
    assert (decision.state, decision.because.reason, pool.cores) == (LeverState.HANDED_BACK, reason, "400")


@pytest.mark.parametrize(("limit", "is_readable"), [("many", False), (True, False), (400, True)])
def test_a_users_limit_that_cannot_be_read_is_left_alone(limit: Any, *, is_readable: bool) -> None:
    pool = Pool({"cpu": limit})
    decision = pool.look(0.0)
    assert (decision.because.reason is LeverReason.LIMIT_UNREADABLE, decision.state is LeverState.REFUSED) == (
        not is_readable,
        not is_readable,
    )
    assert pool.cores == ("56" if is_readable else limit)
