"""How many nodes are wanted, and which are chosen.

How many nodes a pool wants warm. Which nodes are held, and what happens when a balloon sits on the wrong one.
"""

from collections import Counter
from dataclasses import fields, replace
from math import inf
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from balloons.api.pool import Mode, PoolNodes, PoolSpec, Schedule
from balloons.balloon_manifest import ImageSettings
from balloons.decide.decide import decide
from balloons.decide.decision_and_reasons import Memory, Reason, ReleaseBalloon
from balloons.decide.pool_view_and_schedule import percent_of, wanted_size
from balloons.decide.wanted_and_chosen_nodes import Supply, choose_nodes, target
from balloons.view.node_load_and_devices import load_of
from tests.world import NOW, SIZE, World, a_lane, a_node, a_pool, daemon, nodes, work
from throttler.kube.node import Node
from throttler.kube.pod import PodKind, Scheduling
from throttler.kube.selectors import LabelSelector

NODES = PoolNodes(LabelSelector({"pool": "gpu"}))
COUNTS = st.integers(0, 50)
SIZES = st.none() | COUNTS
ALLOWANCES = st.none() | COUNTS
SETTINGS = ImageSettings()


def hold(**spec: Any) -> PoolSpec:
    return PoolSpec(NODES, Mode.HOLD, **spec)


def headroom(**spec: Any) -> PoolSpec:
    return PoolSpec(NODES, Mode.HEADROOM, **{"size": 10, "max_size": 100, **spec})


@st.composite
def supplies(draw: st.DrawFn) -> Supply:
    parts = {name: draw(COUNTS) for name in ("busy", "holdable", "reserved", "joining", "preflight")}
    return supply_of(**parts, total=sum(parts.values()) + draw(COUNTS))


def supply_of(**counts: int) -> Supply:
    """So many nodes, and none of any other kind."""
    return Supply(**{**{each.name: 0 for each in fields(Supply)}, **counts})


def left_by(supply: Supply, most: int | None) -> float:
    """How many nodes work leaves of `most`."""
    return inf if most is None else max(0, most - supply.busy - supply.reserved)


@given(supplies(), SIZES, SIZES, COUNTS, ALLOWANCES)
def test_hold_never_aims_above_what_can_be_held(
    supply: Supply, size: int | None, most: int | None, asked: int, allowance: int | None
) -> None:
    aim = target(hold(size=size, max_size=most), None, supply, asked, allowance)
    assert aim.hold == aim.warm <= min(supply.holdable, left_by(supply, most))
    assert aim.wait == aim.starts == 0


@given(supplies(), COUNTS, COUNTS, COUNTS, ALLOWANCES)
def test_headroom_keeps_its_bounds(supply: Supply, size: int, most: int, asked: int, allowance: int | None) -> None:
    aim = target(headroom(size=size, max_size=most), None, supply, asked, allowance)
    new = max(0, aim.wait - supply.joining)
    assert 0 <= aim.hold <= min(aim.warm, supply.holdable)
    assert aim.warm <= min(size, left_by(supply, most))
    assert new == 0 or supply.total + new <= most, "unknown nodes count as present"
    assert aim.hold + aim.wait <= size
    assert allowance is None or aim.starts <= allowance
    assert aim.starts <= aim.wait


@given(supplies(), COUNTS, COUNTS, COUNTS)
def test_no_balloon_waits_for_a_node_that_work_takes_where_it_would_lead_beyond_max_size(
    supply: Supply, size: int, most: int, taken: int
) -> None:
    spec = headroom(size=size, max_size=most)
    plain, aim = (target(spec, None, replace(supply, taken=each), 0, None) for each in (0, taken))
    assert aim.wait <= max(0, supply.joining - taken) + max(0, most - supply.total)
    assert aim.wait == plain.wait or supply.total + plain.wait > most
    assert aim.starts == plain.starts


@given(supplies(), COUNTS, COUNTS, COUNTS)
def test_what_is_asked_for_is_asked_for_once(supply: Supply, size: int, most: int, allowance: int) -> None:
    spec = headroom(size=size, max_size=most)
    first = target(spec, None, supply, 0, allowance)
    again = target(spec, None, supply, first.wait, 0)
    assert again.wait == first.wait
    assert again.starts == 0


def test_headroom_asks_for_what_is_missing() -> None:
    aim = target(headroom(), None, supply_of(busy=3, holdable=4, total=7), 0, None)
    assert (aim.hold, aim.wait, aim.starts) == (4, 6, 6)
    assert aim.because is not None
    assert aim.because.reason is Reason.GROWING


def test_an_allowance_bounds_new_nodes_only() -> None:
    aim = target(headroom(), None, supply_of(busy=0, holdable=0, total=0), 4, 2)
    assert (aim.wait, aim.starts) == (6, 2)
    assert aim.because is not None
    assert aim.because.reason is Reason.ALLOWANCE


def test_joining_nodes_are_waited_for_and_not_asked_for_twice() -> None:
    aim = target(headroom(), None, supply_of(busy=0, holdable=4, joining=5, total=9), 0, None)
    assert (aim.wait, aim.starts) == (6, 1)


def test_preflight_nodes_are_neither_waited_for_nor_asked_for_twice() -> None:
    aim = target(headroom(), None, supply_of(busy=0, holdable=4, preflight=5, total=9), 0, None)
    assert (aim.wait, aim.starts) == (1, 1)


def test_reserved_nodes_are_replaced_only_once_they_are_taken() -> None:
    released = target(headroom(), None, supply_of(busy=0, holdable=6, reserved=4, total=10), 0, None)
    taken = target(headroom(), None, supply_of(busy=4, holdable=6, total=10), 0, None)
    assert (released.wait, taken.wait) == (0, 4)


def test_balloons_that_wait_already_are_not_taken_back_for_a_reservation() -> None:
    assert target(headroom(), None, supply_of(busy=0, holdable=3, reserved=4, total=7), 5, None).wait == 5


def test_sick_nodes_count_against_max_size_and_are_named() -> None:
    aim = target(headroom(max_size=10), None, supply_of(busy=0, holdable=4, total=10), 0, None)
    assert aim.wait == 0
    assert aim.because is not None
    assert aim.because.reason is Reason.MAX_SIZE


def test_busy_nodes_leave_less_to_hold() -> None:
    assert target(hold(max_size=10), None, supply_of(busy=8, holdable=5, total=13), 0, None).hold == 2


@pytest.mark.parametrize(
    ("size", "busy", "is_full"), [(4, 3, True), (None, 3, True), (4, 1, False), (None, 0, False), (0, 5, False)]
)
def test_hold_says_when_max_size_leaves_idle_nodes(size: int | None, busy: int, is_full: bool) -> None:
    """It said that no idle node was left, or that all was as wanted."""
    aim = target(hold(size=size, max_size=5), None, supply_of(busy=busy, holdable=5, total=busy + 6), 0, None)
    reason = aim.because.sentence if aim.because else ""
    assert reason == ("the pool has reached maxSize 5: 3 nodes are busy, 1 not available" if is_full else "")


def test_hold_says_when_there_are_too_few_nodes() -> None:
    aim = target(hold(size=5), None, supply_of(busy=0, holdable=3, total=3), 0, None)
    assert aim.because is not None
    assert aim.because.reason is Reason.TOO_FEW_NODES


def test_a_percent_is_of_max_size_and_rounds_up() -> None:
    assert wanted_size(headroom(size=None, size_percent=1, max_size=150), None) == 2
    assert percent_of(50, 3) == 2
    assert percent_of(0, 100) == 0


@given(st.integers(0, 100), st.integers(0, 100_000))
def test_a_percent_is_never_more_than_the_whole(percent: int, whole: int) -> None:
    assert percent * whole <= 100 * percent_of(percent, whole) < percent * whole + 100
    assert percent_of(percent, whole) <= whole


def test_min_size_is_the_least_whatever_scale_says() -> None:
    assert wanted_size(hold(size=1, min_size=3), None) == 3


def test_a_schedule_replaces_size_and_keeps_min_size() -> None:
    assert wanted_size(hold(size=1, min_size=3), Schedule("0 8 * * *", "8h", size=7)) == 7
    assert wanted_size(hold(size=9, min_size=3), Schedule("0 8 * * *", "8h", size=0)) == 3


def test_without_size_every_idle_node_is_held() -> None:
    assert target(hold(), None, supply_of(busy=2, holdable=7, total=9), 0, None).hold == 7


def zoned(zone: str, count: int) -> list[Node]:
    return list(nodes(count, zone, labels={"topology.kubernetes.io/zone": zone}).values())


def test_zones_are_balanced() -> None:
    chosen = choose_nodes([*zoned("a", 9), *zoned("b", 3), *zoned("c", 1)], {}, 6)
    assert Counter(node.zone for node in chosen) == {"a": 3, "b": 2, "c": 1}


def test_new_nodes_come_from_the_zone_that_holds_fewest() -> None:
    held = load_of([work("b", "a000", kind=PodKind.BALLOON, pool="gpu")], -10)
    chosen = choose_nodes([*zoned("a", 3), *zoned("b", 3)], {"a000": held, "a001": held}, 4)
    assert Counter(node.zone for node in chosen) == {"a": 2, "b": 2}
    assert {"a000", "a001"} <= {node.name for node in chosen}


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=12), st.integers(0, 14))
def test_nodes_that_are_held_are_chosen_first_and_none_twice(made: list[tuple[str, bool]], wanted: int) -> None:
    there = [a_node(f"n{at}", labels={"topology.kubernetes.io/zone": zone}) for at, (zone, _) in enumerate(made)]
    load = load_of([work("b", "n", kind=PodKind.BALLOON, pool="gpu")], -10)
    held = {node.name: load for node, (_, is_held) in zip(there, made, strict=True) if is_held}
    chosen = {node.name for node in choose_nodes(there, held, wanted)}
    assert len(chosen) == len(choose_nodes(there, held, wanted)) == min(wanted, len(there))
    assert chosen <= held.keys() or held.keys() <= chosen


def test_a_balloon_beside_work_is_moved_although_the_size_stays() -> None:
    world = World.of(a_pool(size=1), nodes=nodes(1), pods=[daemon("d", "n000")])
    world.apply(decide(world.snapshot(), Memory(), SETTINGS, NOW)[0])
    world.settle()
    world.add(work("tiny", "n000", cpu="50m"))
    world.nodes["n001"] = a_node("n001")
    decided, _ = decide(world.snapshot(), Memory(), SETTINGS, NOW)
    assert [type(action) for action in decided.pools[0].actions] == [ReleaseBalloon]
    world.apply(decided)
    world.settle()
    assert [balloon.node for balloon in world.balloons()] == ["n001"]


def test_the_allowance_is_shared_by_all_pools_oldest_first() -> None:
    pools = [
        a_pool(
            name,
            created_s=at,
            nodes=PoolNodes(LabelSelector({"pool": name})),
            mode=Mode.HEADROOM,
            size=5,
            max_size=9,
        )
        for name, at in (("old", 1.0), ("new", 2.0))
    ]
    made = {name: a_node(name, labels={"pool": name}) for name in ("old", "new")}
    world = World.of(*pools, nodes=made)
    world.apply(decide(world.snapshot(), Memory(), SETTINGS, NOW, a_lane(5))[0])
    assert {key.name.split("-")[0]: d.replicas for key, d in world.deployments.items()} == {"old": 5, "new": 2}


@pytest.mark.parametrize(
    ("supply", "others"),
    [
        (supply_of(busy=0, holdable=4, total=10), 6),
        (supply_of(busy=0, holdable=4, preflight=5, total=10), 6),
        (supply_of(busy=0, holdable=4, preflight=5, joining=1, total=10), None),
        (supply_of(busy=0, holdable=4, joining=5, total=10), 6),
        (supply_of(busy=2, holdable=3, reserved=1, total=10), 4),
        (supply_of(busy=4, holdable=6, total=10), 0),
        (supply_of(busy=0, holdable=10, total=10), None),
        (supply_of(busy=0, holdable=4, total=9), None),
    ],
)
def test_a_pool_at_max_size_says_how_many_nodes_are_of_no_use(supply: Supply, others: int | None) -> None:
    """A node that comes or is being looked at will be of use; with nine in all one more is asked for."""
    aim = target(headroom(max_size=10), None, supply, 0, None)
    reason = aim.because.reason if aim.because else None
    assert (reason is Reason.MAX_SIZE) is (others is not None)
    if others is not None:
        assert aim.because is not None
        assert (aim.because.detail["busy"], aim.because.detail["others"]) == (supply.busy, others)


def test_without_max_size_nothing_is_full() -> None:
    aim = target(headroom(max_size=None), None, supply_of(busy=9, holdable=4, total=200), 0, 0)
    assert aim.because is not None
    assert aim.because.reason is Reason.ALLOWANCE
    enough = target(headroom(max_size=None), None, supply_of(busy=9, holdable=10, total=19), 0, None)
    assert (enough.hold, enough.wait, enough.because) == (10, 0, None)


@pytest.mark.parametrize(
    ("asked", "granted", "allowance", "wait", "starts"),
    [
        (0, None, None, 6, 6),
        (4, None, 0, 4, 0),
        (4, 2, 0, 2, 0),
        (4, 2, 1, 3, 1),
        (4, 9, 1, 5, 1),
        (9, 9, 5, 6, 0),
    ],
)
def test_what_was_granted_may_wait_and_the_rest_is_growth(
    asked: int, granted: int | None, allowance: int | None, wait: int, starts: int
) -> None:
    """Six of ten are missing."""
    aim = target(headroom(), None, supply_of(busy=0, holdable=4, total=4), asked, allowance, granted)
    assert (aim.wait, aim.starts, aim.lacking) == (wait, starts, 6)
    assert aim.granted == (None if allowance is None else wait)


@pytest.mark.parametrize(("carried", "wait"), [(0, 6), (2, 4), (5, 1), (7, 1)])
def test_a_balloon_that_a_joining_node_carries_is_not_asked_for(carried: int, wait: int) -> None:
    supply = supply_of(busy=0, holdable=4, joining=5, carried=carried, total=9)
    assert target(headroom(), None, supply, 0, None).wait == wait


def test_of_two_joining_nodes_one_with_a_balloon_and_one_for_work_none_is_left_for_a_balloon() -> None:
    supply = supply_of(busy=2, holdable=0, joining=2, carried=1, taken=1, total=4)
    assert target(headroom(max_size=4), None, supply, 0, None).wait == 0


JOINING = {"is_ready": False, "conditions": frozenset({("Ready", "False")}), "created_s": NOW.wall.timestamp()}


@pytest.mark.parametrize(
    ("pods", "how", "waits"),
    [
        (0, {}, 2),
        (2, {}, 1),
        (2, {"is_opaque": True}, 1),
        (2, {"is_gated": True}, 2),
        (2, {"is_tried": False}, 2),
        (2, {"node_selector": {"team": "b"}}, 2),
    ],
    ids=["none", "work waits", "with other rules", "gated", "not tried yet", "for other nodes"],
)
def test_nodes_on_their_way_that_waiting_work_will_take_are_none_for_balloons(
    pods: int, how: dict[str, Any], waits: int
) -> None:
    """Jobs that came while Headroom was near its maxSize: it bought as many nodes more as it wanted warm."""
    pool = a_pool(mode=Mode.HEADROOM, size=2, max_size=6)
    jobs = (work(f"job-{i}", scheduling=Scheduling(**{"is_tried": True, **how})) for i in range(pods))
    used = (work(f"busy-{i}", f"b{i:03}", cpu="15") for i in range(3))
    world = World.of(pool, nodes={**nodes(3, "b"), **nodes(2, "j", **JOINING)}, pods=[*used, *jobs])
    world.apply(decide(world.snapshot(), Memory(), SETTINGS, NOW)[0])
    assert world.replicas() == waits


def test_small_pods_that_wait_take_one_node_together() -> None:
    pool = a_pool(mode=Mode.HEADROOM, size=2, max_size=5)
    jobs = [work(f"job-{i}", cpu="4") for i in range(3)]
    used = (work(f"busy-{i}", f"b{i:03}", cpu="15") for i in range(3))
    world = World.of(pool, nodes={**nodes(3, "b"), **nodes(2, "j", **JOINING)}, pods=[*used, *jobs])
    world.apply(decide(world.snapshot(), Memory(), SETTINGS, NOW)[0])
    assert world.replicas() == 1


def test_pods_take_together_a_node_that_does_not_name_its_gpus_yet() -> None:
    gpus = {"allocatable": {**SIZE, "nvidia.com/gpu": 8_000}}
    pool = a_pool(mode=Mode.HEADROOM, size=2, max_size=5)
    jobs = [work(f"job-{i}", requests={"cpu": 4_000, "nvidia.com/gpu": 4_000}) for i in range(2)]
    used = (work(f"busy-{i}", f"b{i:03}", cpu="15") for i in range(3))
    there = {**nodes(3, "b", instance_type="g5", **gpus), **nodes(2, "j", instance_type="g5", **JOINING)}
    world = World.of(pool, nodes=there, pods=[*used, *jobs])
    world.apply(decide(world.snapshot(), Memory(), SETTINGS, NOW)[0])
    assert world.replicas() == 1


def test_a_pool_whose_nodes_are_too_small_for_a_balloon_says_so_while_others_join() -> None:
    small = {"allocatable": {**SIZE, "cpu": 100}}
    pool = a_pool(mode=Mode.HEADROOM, size=2, max_size=5)
    there = {**nodes(1, "b", **small), **nodes(1, "j", **small, **JOINING)}
    world = World.of(pool, nodes=there, pods=[work("job")])
    decided, _ = decide(world.snapshot(), Memory(), SETTINGS, NOW)
    assert decided.pools[0].because.reason is Reason.TOO_SMALL
