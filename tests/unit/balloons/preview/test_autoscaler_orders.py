"""When the autoscaler looks at what waits, what it may order then, and how fast the cloud starts that."""

from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise

import pytest

from balloons.preview.autoscaler_orders import GATHER_S, Looks, Orders
from balloons.preview.possible_worlds import World
from tests.unit.balloons.preview.small_worlds import ROOMY, world


def looks_at_s(looks: Looks, until_s: float, prompts: Iterable[float] = ()) -> list[float]:
    """When it looks, asked every quarter of a second, with demand at 0."""
    told = sorted(prompts)
    looks.expect(0.0)
    at_s: list[float] = []
    for step in range(int(4 * until_s) + 1):
        now_s = step / 4
        while told and told[0] <= now_s:
            looks.prompt(told.pop(0))
        at_s += [now_s] if looks.is_due(now_s) else []
    return at_s


def test_both_look_every_so_often() -> None:
    assert looks_at_s(Looks(10.0, is_prompted=False), 35) == [0, 10, 20, 30]
    assert looks_at_s(Looks(10.0, is_prompted=True), 35) == [0, 10, 20, 30]


def test_karpenter_looks_a_second_after_a_node_has_come_and_ten_after_the_last() -> None:
    assert looks_at_s(Looks(10.0, is_prompted=True), 25, prompts=[6.0, 6.5, 7.25]) == [0, 7, 8.25, 18.25]
    assert looks_at_s(Looks(10.0, is_prompted=False), 25, prompts=[6.0, 6.5, 7.25]) == [0, 10, 20]


def test_karpenter_looks_every_second_while_nodes_keep_coming() -> None:
    steady = [3.0 + step / 2 for step in range(8)]
    assert looks_at_s(Looks(10.0, is_prompted=True), 20, prompts=steady) == [0, 4, 5.5, 7, 17.5]


def test_a_batch_takes_longer_while_it_hears_of_pods_that_are_new_to_it() -> None:
    assert looks_at_s(Looks(10.0, is_prompted=True, rhythm=0.99), 9, prompts=[6.0, 6.5, 7.25]) == [0, 8.25]
    # The first batch may hear of new ones for half of GATHER_S: of what comes later it has heard already.
    assert looks_at_s(Looks(10.0, is_prompted=True, rhythm=0.5), 7.75, prompts=[6.0, 6.5, 7.25]) == [0, 7.5]


def test_no_batch_takes_longer_than_its_pods_are_new() -> None:
    steady = [3.0 + step / 4 for step in range(40)]
    at_s = looks_at_s(Looks(10.0, is_prompted=True, rhythm=1.0), 13, prompts=steady)
    apart = [after - before for before, after in pairwise(at_s[1:])]
    assert len(apart) > 1
    assert all(1.0 < seconds <= GATHER_S + 1.25 for seconds in apart)


def ordered_ten(of: World, *, has_lever: bool = True) -> Orders:
    """Orders of a scale-up whose first ten machines were ordered at 0: that look finds its ceiling in place."""
    orders = Orders(of, 0.0, has_lever=has_lever)
    orders.allow(10, 0.0)
    orders.expect_look(0.0)
    orders.look(1000, 0.0)
    assert orders.start(0.0) == 10
    return orders


@pytest.mark.parametrize(("has_lever", "ordered"), [(True, 1), (False, 9)])
def test_a_ceiling_is_raised_only_so_often(*, has_lever: bool, ordered: int) -> None:
    """Leave for nine that comes a second after leave for one is written a second later: a look before finds one."""
    orders = ordered_ten(world(raise_every_s=1.9, look_s=6.5), has_lever=has_lever)
    orders.allow(1, 5.0)
    orders.allow(9, 6.0)
    orders.look(1000, 6.5)
    assert orders.start(6.5) == ordered
    orders.allow(9 - ordered, 7.0)
    orders.look(1000, 13.0)
    assert orders.start(13.0) == 9 - ordered


def test_a_ceiling_is_lowered_at_once() -> None:
    orders = ordered_ten(world(raise_every_s=1.9, look_s=6.5))
    orders.allow(9, 5.0)
    orders.allow(2, 6.0)
    orders.look(1000, 6.5)
    assert orders.start(6.5) == 2


@pytest.mark.parametrize(("moved", "after_s", "ordered"), [(5, 0.25, 0), (5, 0.5, 5), (0, 0.25, 0)])
def test_a_look_just_after_a_ceiling_has_moved_orders_nothing(moved: int, after_s: float, ordered: int) -> None:
    orders = ordered_ten(world(taken_up_s=0.5, is_look_prompted=True))
    orders.allow(moved, 7.0)
    orders.prompt_look(6.0 + after_s)
    orders.look(1000, 7.0 + after_s)
    assert orders.start(7.0 + after_s) == ordered


def test_machines_that_were_ordered_are_part_of_the_ceiling() -> None:
    orders = ordered_ten(world(raise_every_s=1.9))
    orders.allow(0, 9.5)
    orders.allow(4, 10.0)
    orders.look(1000, 10.0)
    assert orders.start(10.0) == 4


def test_a_ceiling_that_is_told_again_has_not_moved() -> None:
    orders = ordered_ten(world(taken_up_s=0.4))
    orders.allow(5, 7.0)
    orders.allow(5, 10.0)
    orders.look(1000, 10.0)
    assert orders.start(10.0) == 5


@pytest.mark.parametrize(("has_gate", "has_lever", "ordered"), [(False, False, 12), (True, False, 3), (False, True, 3)])
def test_what_a_pace_allows_adds_up_until_the_next_look(*, has_gate: bool, has_lever: bool, ordered: int) -> None:
    """It allows a few each time that it is asked; the law, and a stock at a gate, say each time how many in all."""
    for waiting in (1000, 2):
        orders = Orders(world(replace(ROOMY, has_gate=has_gate)), 0.0, has_lever=has_lever)
        orders.expect_look(0.0)
        orders.look(waiting, 0.0)
        for at_s in (2.0, 4.0, 6.0, 8.0):
            orders.allow(3, at_s)
        orders.look(waiting, 10.0)
        assert orders.start(10.0) == min(waiting, ordered)


def asking(machines: int, **cloud: object) -> Orders:
    """The autoscaler has asked for so many at 0."""
    orders = Orders(world(**cloud), 0.0, has_lever=False)
    orders.allow(machines, 0.0)
    orders.expect_look(0.0)
    orders.look(1000, 0.0)
    return orders


def test_a_cloud_without_a_rate_of_its_own_starts_all_at_once() -> None:
    orders = asking(1000)
    assert orders.is_launch_bound
    assert [orders.start(at_s) for at_s in (0.0, 5.0)] == [1000, 0]
    assert not orders.is_launch_bound


def test_a_clouds_burst_is_spent_and_saved_up_anew() -> None:
    orders = asking(20, launches_per_s=2.0, launch_burst=5)
    assert [orders.start(at_s) for at_s in (0.0, 0.0, 1.0, 1.25, 1.5, 60.0)] == [5, 0, 2, 0, 1, 5]
    assert orders.is_launch_bound
    assert [orders.start(at_s) for at_s in (63.5, 64.0, 65.0)] == [5, 1, 1]
    assert not orders.is_launch_bound


def test_a_cloud_without_a_burst_starts_one_at_a_time() -> None:
    orders = asking(9, launches_per_s=0.5)
    assert [orders.start(at_s) for at_s in (0.0, 1.5, 2.0, 3.0, 4.0, 40.0)] == [0, 0, 1, 0, 1, 1]


def test_nothing_is_asked_for_while_nobody_waits_or_nothing_is_allowed() -> None:
    orders = Orders(world(), 0.0, has_lever=False)
    orders.expect_look(0.0)
    orders.look(1000, 0.0)
    assert (orders.start(0.0), orders.is_launch_bound) == (0, False)
    orders.allow(7, 1.0)
    orders.look(0, 20.0)
    assert orders.start(20.0) == 0
    orders.look(1000, 20.0)
    assert orders.start(20.0) == 7
    orders.look(1000, 30.0)
    assert orders.start(30.0) == 0, "what was allowed is used up"


def new_orders(**changes: object) -> Orders:
    return Orders(world(**changes), 0.0, has_lever=True)


def test_what_is_allowed_is_asked_for_at_the_next_look_and_started_once() -> None:
    made = new_orders()
    made.allow(5, 0.0)
    assert (made.start(0.0), made.is_launch_bound) == (0, False), "nobody has looked"
    made.look(0, 0.0)
    assert made.start(0.0) == 0, "nobody waits"
    made.expect_look(0.0)
    made.look(1000, 0.0)
    assert made.is_launch_bound
    assert (made.start(0.0), made.start(0.0), made.is_launch_bound) == (5, 0, False)
    made.look(1000, 10.0)
    assert made.start(10.0) == 0, "what was started is not allowed again"
    made.allow(3, 0.0)
    made.look(1000, 15.0)
    assert made.start(15.0) == 0, "the next look is at 20"
    made.look(1000, 20.0)
    assert made.start(20.0) == 3


def test_a_cloud_starts_its_burst_and_then_so_many_a_second() -> None:
    made = new_orders(launches_per_s=2.0, launch_burst=3)
    made.allow(30, 0.0)
    made.expect_look(0.0)
    made.look(1000, 0.0)
    assert [made.start(now_s) for now_s in (0.0, 0.25, 0.5, 1.0, 2.5, 12.5)] == [3, 0, 1, 1, 3, 3]
    assert made.is_launch_bound
    made.allow(0, 0.0)
    made.look(1000, 12.5)
    assert (made.start(13.0), made.is_launch_bound) == (0, False)
    slow = new_orders(launches_per_s=0.1, launch_burst=0)
    slow.allow(9, 0.0)
    slow.expect_look(0.0)
    slow.look(1000, 0.0)
    assert [slow.start(now_s) for now_s in (0.0, 9.0, 10.0, 40.0)] == [0, 0, 1, 1]


def test_karpenter_orders_a_second_after_a_node_has_come() -> None:
    made = new_orders(is_look_prompted=True)
    made.allow(2, 0.0)
    made.prompt_look(3.0)
    for now_s in (3.0, 3.75):
        made.look(1000, now_s)
        assert made.start(now_s) == 0
    made.look(1000, 4.0)
    assert made.start(4.0) == 2
    deaf = new_orders(is_look_prompted=False)
    deaf.allow(2, 0.0)
    deaf.expect_look(0.0)
    deaf.look(1000, 0.0)
    deaf.start(0.0)
    deaf.allow(2, 0.0)
    deaf.prompt_look(3.0)
    deaf.look(1000, 4.0)
    assert deaf.start(4.0) == 0


def test_an_earlier_word_does_not_put_off_a_later_one() -> None:
    looks = Looks(10.0, is_prompted=True)
    looks.prompt(5.0)
    looks.prompt(4.0)
    assert not looks.is_due(4.75)
    assert looks.is_due(5.0), "a second after the first that it heard of"
    assert not looks.is_due(14.75)
    assert not looks.is_due(15.0), "ten after the last, it hears of them anew"
    assert looks.is_due(16.0)
