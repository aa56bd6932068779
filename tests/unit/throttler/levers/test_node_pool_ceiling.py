"""Sizes of machines, and the room that Karpenter takes for one of them, by numbers that can be checked by hand."""

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.unit.throttler.levers.pool_scene import claim, claims, pool_body, room
from tests.unit.throttler.levers.test_node_pool_limits import Story
from throttler.kube.karpenter import NodeClaim, NodePool
from throttler.levers.lever_and_reasons import LeverReason
from throttler.levers.node_pool_ceiling import (
    Charge,
    PoolShare,
    Unheard,
    assumed_size,
    ceiling_of,
    has_users_room,
    size_of,
    sizes_seen,
    usage_of,
)


def a_pool(limits: dict[str, str] | None) -> NodePool:
    return msgspec.convert(pool_body(limits), NodePool)


@pytest.mark.parametrize(
    ("factor", "cores_milli", "within"),
    [(64, 8_000, 64), (256, 8_000, 128), (64, 192_000, 5), (64, 2_048_000, 1), (2000, 100, 1024), (2000, None, 1024)],
)
def test_no_room_is_given_for_machines_larger_than_any(factor: int, cores_milli: int | None, within: int) -> None:
    largest = {} if cores_milli is None else {"cpu": cores_milli}
    assert Charge(factor=factor).within(largest) == within


@pytest.mark.parametrize(
    ("offered", "ordered", "factor"),
    [(8, 1, 8), (8, 4, 8), (8, 5, 7), (8, 6, 4), (8, 8, 4), (8, 16, 2), (8, 64, 1), (2, 1, 4)],
)
def test_a_charge_is_learned_from_what_a_look_ordered_of_what_was_offered(
    offered: int, ordered: int, factor: int
) -> None:
    charge = Charge(factor=4).given(offered, offered, 0.0)
    charge = charge.looked({f"m{number}": False for number in range(ordered)}, 6.0)
    assert charge.looked(charge.coming, 8.9).factor == 4, "more of the same look may come"
    learned = charge.looked(charge.coming, 9.0)
    assert (learned.factor, learned.batch) == (factor, 0)


def test_machines_of_an_odd_day_do_not_count_for_ever() -> None:
    story, huge, ceilings = Story(), claim("huge", capacity={"cpu": "192", "memory": "768Gi"}), []
    story.look(room(allowance=2), (*claims(1), huge), 0.0)
    for hour in range(1, 30):
        story.look(room(allowance=2), claims(1), 3600.0 * hour)
        story.server.observed()
        ceilings.append((story.limits or {})["cpu"])
    assert ceilings == [*["392"] * 24, *["24"] * 5]


def test_what_was_there_at_the_last_look_adds_nothing_to_the_room() -> None:
    """Machines that were ordered together and never came are given up together."""
    story = Story()
    story.look(room(allowance=0), claims(3, stage=1), 0.0)
    story.look(room(allowance=0), claims(3, stage=1), 10.0)
    story.look(room(allowance=4), (), 20.0)
    assert (story.limits or {})["cpu"] == "32", "room for four, and not for those three besides"


def test_the_limit_that_is_told_is_the_one_that_stands() -> None:
    """Where ours stood in memory, the user's is written back there, as dropping it would remove it."""
    story = Story({"cpu": "32", "memory": "200Gi"})
    story.look(room(allowance=2), claims(3), 0.0)
    assert story.limits == {"cpu": "32", "memory": "176Gi"}
    assert story.look(room(allowance=2), claims(3), 5.0).because.sentence.startswith("written as 32 cores")
    decision = story.look(room(allowance=4), claims(3), 10.0)
    assert story.limits == {"cpu": "32", "memory": "200Gi"}
    assert decision.writes[0].because.detail["limit"] == "32"


@pytest.mark.parametrize(("looks", "machines", "is_overrun"), [(1, 9, False), (3, 9, False), (3, 10, True)])
def test_a_round_that_went_by_the_ceiling_before_is_no_overrun(looks: int, machines: int, *, is_overrun: bool) -> None:
    """It was under way when room for five more became room for one; its machines are seen some looks later."""
    story = Story()
    story.look(room(allowance=5), claims(3), 0.0)
    for number in range(looks):
        story.look(room(allowance=1), claims(3), 10.0 + number)
    assert (story.limits or {})["cpu"] == "32"
    decision = story.look(room(allowance=1), claims(machines), 20.0)
    assert (decision.because.reason is LeverReason.OVERRUN) is is_overrun


def test_room_counts_as_offered_once_it_has_stood_for_a_look() -> None:
    charge = Charge().given(2, 2, 0.0).given(9, 9, 5.0)
    assert charge.looked({"a": False}, 5.5).offered == 2
    assert charge.given(9, 9, 6.0).looked({"a": False}, 6.0).offered == 2
    assert charge.given(9, 9, 6.5).looked({"a": False}, 7.0).offered == 9
    assert charge.given(9, 9, 10.0).looked({"a": False}, 10.0).offered == 9
    assert Charge().given(2, 2, 5.0).given(9, 9, 10.0).looked({"a": False}, 10.0).offered == 2
    assert Charge().looked({"a": False}, 1.0).offered == 0, "nothing was offered yet"


@given(cores=st.integers(0, 1024))
@example(cores=1024)
def test_a_machine_that_nobody_saw_is_a_power_of_two_that_holds_the_largest_pod(cores: int) -> None:
    size = assumed_size({"cpu": 1000 * cores})["cpu"] // 1000
    assert size & (size - 1) == 0
    assert size > cores or size == 1024
    assert size // 2 <= cores or size == 1
    assert (assumed_size({}), assumed_size({"cpu": 5_000_000})) == ({"cpu": 1_000}, {"cpu": 1_024_000})


def test_tries_double_the_room_as_far_as_machines_go() -> None:
    largest, usage = {"cpu": 8_000, "memory": 32_000_000, "pods": 110_000}, {"cpu": 4_000}
    assert ceiling_of(usage, largest, PoolShare(nodes=0)) == {"cpu": 4_000, "memory": 0}
    assert ceiling_of(usage, largest, PoolShare(nodes=2)) == {"cpu": 20_000, "memory": 80_000_000}
    assert ceiling_of(usage, largest, PoolShare(nodes=2, charge=3))["cpu"] == 52_000
    assert ceiling_of(usage, largest, PoolShare(nodes=2, doublings=3))["cpu"] == 132_000
    for doublings in (59, 60):
        assert ceiling_of(usage, largest, PoolShare(nodes=2, doublings=doublings))["cpu"] == 4_000 + 1_024_000
    assert ceiling_of(usage, largest, PoolShare(nodes=100, doublings=1))["cpu"] == 4_000 + 800_000


@pytest.mark.parametrize(
    ("limits", "has_room"),
    [
        (None, True),
        ({}, True),
        ({"cpu": "24"}, True),
        ({"cpu": "23"}, False),
        ({"nodes": "3"}, True),
        ({"nodes": "2"}, False),
        ({"memory": "95Gi", "cpu": "100"}, False),
        ({"example.com/other": "0"}, True),
        ({"cpu": "what"}, True),
    ],
)
def test_the_users_limits_leave_room_for_one_more_of_the_smallest_machine(
    limits: dict[str, str] | None, has_room: bool
) -> None:
    """Two machines of 8 cores and 32 GiB are there; the pool once had one of 64 cores, too."""
    pool = a_pool(limits)
    sizes = ({"cpu": 64_000, "memory": 64 * 2**30 * 1000}, {"cpu": 8_000, "memory": 32 * 2**30 * 1000})
    assert has_users_room(pool, claims(2), sizes) is has_room
    assert has_users_room(pool, (*claims(2), claim("old", is_deleting=True)), sizes) is has_room


def test_without_a_machine_seen_any_room_is_room_for_one() -> None:
    assert has_users_room(a_pool({"cpu": "1m"}), (), ())
    assert not has_users_room(a_pool({"cpu": "0"}), (), ())
    assert not has_users_room(a_pool({"nodes": "0"}), (), ())


def test_a_claim_counts_by_what_is_known_of_its_machine() -> None:
    largest = {"cpu": 64_000}
    pool = a_pool(None)
    assert usage_of(pool, [claim("ordered", 0)], largest)["cpu"] == 64_000
    assert usage_of(pool, [claim("launched", 1)], largest)["cpu"] == 8_000
    assert usage_of(pool, [claim("there", 3), claim("ordered", 0)], largest)["cpu"] == 72_000


def counted(resources: dict[str, str]) -> NodePool:
    return msgspec.convert({**pool_body(), "status": {"resources": resources}}, NodePool)


GIB = 2**30 * 1000
EIGHT = {"cpu": 8_000, "memory": 32 * GIB}


@pytest.mark.parametrize(
    ("resources", "mean"),
    [
        ({"nodes": "3", "cpu": "12", "memory": "48Gi", "pods": "330"}, {"cpu": 4_000, "memory": 16 * GIB}),
        ({"nodes": "0", "cpu": "12"}, {}),
        ({"nodes": "900m", "cpu": "12"}, {}),
        ({"nodes": "1500m", "cpu": "12"}, {"cpu": 12_000}),
        ({"nodes": "many", "cpu": "12"}, {}),
        ({"nodes": "-1", "cpu": "12"}, {}),
        ({"cpu": "12"}, {}),
        ({"nodes": "2", "cpu": "some"}, {}),
        ({}, {}),
    ],
)
def test_karpenters_own_count_tells_the_mean_machine(resources: dict[str, str], mean: dict[str, int]) -> None:
    assert sizes_seen(counted(resources), ()) == ((mean,) if mean else ())


def test_sizes_are_those_of_launched_machines_once_each() -> None:
    pool = counted({"nodes": "2", "cpu": "16", "memory": "64Gi"})
    small = claim("small", 1, capacity={"cpu": "2"})
    assert sizes_seen(pool, [*claims(3), claim("ordered", 0), small]) == ({"cpu": 2_000}, EIGHT)


@pytest.mark.parametrize(
    ("capacity", "labels", "size"),
    [
        ({"cpu": "7", "memory": "32Gi"}, {"karpenter.k8s.aws/instance-cpu": "8"}, EIGHT),
        ({"cpu": "9"}, {"karpenter.k8s.aws/instance-cpu": "8"}, {"cpu": 9_000}),
        ({"cpu": "8", "memory": "32Gi"}, {"example.com/instance-cpus": "64", "instance-cpu": "64"}, EIGHT),
        ({"cpu": "8", "memory": "32Gi"}, {"karpenter.k8s.aws/instance-cpu": "many"}, EIGHT),
        ({"memory": "1Gi"}, {"a/instance-cpu": "2", "b/instance-cpu": "4"}, {"cpu": 4_000, "memory": GIB}),
        ({"cpu": "-8", "memory": "0", "nvidia.com/gpu": "1", "example.com/x": "9"}, {}, {"nvidia.com/gpu": 1_000}),
    ],
)
def test_a_machine_is_as_large_as_its_capacity_and_its_label_of_cores_say(
    capacity: dict[str, str], labels: dict[str, str], size: dict[str, int]
) -> None:
    assert size_of(claim("c", capacity=capacity, labels=labels)) == size


def test_usage_is_what_claims_promise_and_no_less_than_karpenters_count() -> None:
    pool = counted({"nodes": "9", "cpu": "20", "memory": "1Gi"})
    assert usage_of(pool, claims(2), {}) == {"cpu": 20_000, "memory": 64 * GIB}
    estimated = {"cpu": "7", "memory": "30Gi"}
    label = {"karpenter.k8s.aws/instance-cpu": "8"}
    assert [
        usage_of(a_pool(None), [claim("c", stage, capacity=estimated, labels=label)], EIGHT) for stage in (0, 1, 2)
    ] == [EIGHT, {"cpu": 7_000, "memory": 30 * GIB}, {"cpu": 8_000, "memory": 30 * GIB}]


def test_room_for_machines_in_memory_has_half_a_machine_to_spare() -> None:
    assert ceiling_of(EIGHT, EIGHT, PoolShare(nodes=2)) == {"cpu": 24_000, "memory": 112 * GIB}
    assert ceiling_of({}, {"cpu": 0, "memory": GIB, "pods": 110_000}, PoolShare(nodes=1)) == {"memory": 1.5 * GIB}


def test_the_users_own_values_count_where_ours_stand() -> None:
    """A ceiling of 16 cores is ours, and the user has 64: there is room for one more machine of eight."""
    body = pool_body({"cpu": "16", "memory": "1Ti"})
    mark = '{"original":{"cpu":"%s"},"ceiling":{"cpu":"16"}}'
    for theirs, has_room in (("64", True), ("16", False), ("24", True), ("23", False)):
        body["metadata"]["annotations"] = {"kube-balloons.github.io/original": mark % theirs}
        assert has_users_room(msgspec.convert(body, NodePool), claims(2), [EIGHT]) is has_room
    body["metadata"]["annotations"] = {
        "kube-balloons.github.io/original": '{"original":{"cpu":null},"ceiling":{"cpu":"16"}}'
    }
    assert has_users_room(msgspec.convert(body, NodePool), claims(2), [EIGHT])
    body["spec"]["limits"]["memory"] = "64Gi"
    assert not has_users_room(msgspec.convert(body, NodePool), claims(2), [EIGHT]), "nor is there memory for a third"


def test_orders_that_come_in_two_looks_of_one_batch_are_counted_together() -> None:
    charge = Charge(factor=8).given(4, 4, 0.0)
    first = charge.looked(dict.fromkeys("ab", False), 6.0).given(9, 9, 6.0)
    both = first.looked(dict.fromkeys("abc", False), 8.0)
    assert (both.batch, both.offered, both.ordered_s) == (3, 4, 8.0)
    assert both.looked(dict.fromkeys("abc", False), 10.9).batch == 3
    assert both.looked(dict.fromkeys("bc", False), 11.0).factor == 8, "three of four are not short by two"
    assert first.looked(dict.fromkeys("ab", False), 9.0).factor == 16, "two of four are"


def test_room_for_a_machine_that_can_be_of_one_type_only_is_its_size_however_few_are_in_stock() -> None:
    def after(*types: bool, factor: int = 1) -> int:
        charge, coming = Charge(factor=factor).given(6, 6, 0.0), dict[str, bool]()
        for at, is_of_one_type in enumerate(types):
            coming = {**coming, f"m{at}": is_of_one_type}
            charge = charge.looked(coming, 6.0 + at)
        return charge.looked(coming, 20.0).factor

    assert after(True, True) == 1, "two of six were in stock"
    assert after(False, False) == 2, "or two were as much as six"
    assert after(True, False) == after(False, True) == 2
    assert after(True, True, factor=4) == 1, "it had more types before"
    two = Charge().given(6, 6, 0.0).looked({"a": False}, 6.0).looked({"a": False}, 9.0)
    one = two.given(12, 12, 10.0).looked({"a": False, "b": True}, 16.0)
    assert one.looked({"a": False, "b": True}, 19.0).factor == 1, "a batch is judged by its own"


@pytest.mark.parametrize(("cores", "within"), [(1, 1000), (2, 512), (1024, 1), (4096, 1)])
def test_a_charge_keeps_within_the_largest_machine_that_can_be_rented(cores: int, within: int) -> None:
    assert Charge(factor=1000).within({"cpu": 1000 * cores}) == within


def looked(before: Unheard, count: int, there: tuple[NodeClaim, ...], now_s: float) -> Unheard:
    """After a look at so many nodes that Karpenter counts, and at these claims."""
    return before.looked(counted({"nodes": str(count)}), there, now_s)


def test_what_karpenter_counts_and_no_claim_tells_of_is_unheard_for_half_a_minute_after_the_count_rose() -> None:
    first = looked(Unheard(), 5, claims(3), 0.0)
    assert first.machines == 2
    assert looked(first, 5, claims(5), 2.0).machines == 0
    assert looked(first, 5, (*claims(3), claim("going", is_deleting=True)), 2.0).machines == 2, "it counts in neither"
    assert looked(first, 5, claims(3), 30.0).machines == 2
    wrong = looked(first, 5, claims(3), 31.0)
    assert wrong.machines == 0, "nodes whose claims are gone"
    more = looked(wrong, 8, claims(4), 40.0)
    assert (more.machines, looked(more, 8, claims(6), 60.0).machines) == (2, 0)
    assert looked(Unheard(), 0, claims(3), 0.0).machines == 0, "a count that is behind, or none"


def test_a_count_from_before_machines_went_tells_of_none_in_flight_and_of_none_that_is_used() -> None:
    def told(state: Unheard) -> tuple[int, int]:
        return state.machines, state.gone

    usual = looked(Unheard(), 9, claims(9), 0.0)
    fewer = looked(usual, 9, claims(4), 40.0)
    assert told(fewer) == (0, 5)
    assert told(looked(fewer, 4, claims(4), 45.0)) == (0, 0)
    assert told(looked(fewer, 9, claims(3), 69.0)) == (0, 6)
    assert told(looked(fewer, 9, claims(4), 71.0)) == (0, 0), "it goes by that count for good"
    risen = looked(fewer, 10, claims(4), 44.0)
    assert told(risen) == (6, 0), "one or all of them may be in flight"
    nine = counted({"nodes": "9", "cpu": "72", "memory": "288Gi"})
    assert [usage_of(nine, claims(4), EIGHT, gone)["cpu"] for gone in (0, 2, 5, 9)] == [72_000, 56_000, 32_000, 32_000]
