"""Sizes of machines, and the room that Karpenter takes for one of them, by numbers that can be checked by hand."""

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.unit.throttler.levers.pool_scene import claim, claims, pool_body
from throttler.kube.karpenter import NodePool
from throttler.levers.node_pool_ceiling import Charge, PoolRoom, assumed_size, ceiling_of, has_users_room, usage_of


def a_pool(limits: dict[str, str] | None) -> NodePool:
    return msgspec.convert(pool_body(limits), NodePool)


@pytest.mark.parametrize(
    ("factor", "cores_milli", "within"),
    [(64, 8_000, 64), (256, 8_000, 128), (64, 192_000, 5), (64, 2_048_000, 1), (2000, 100, 1024), (2000, None, 1024)],
)
def test_no_room_is_given_for_machines_larger_than_any(factor: int, cores_milli: int | None, within: int) -> None:
    largest = {} if cores_milli is None else {"cpu": cores_milli}
    assert Charge(factor=factor).within(largest) == within


@pytest.mark.parametrize(("offered", "ordered", "factor"), [(8, 1, 8), (8, 4, 8), (8, 6, 4), (8, 8, 4), (8, 16, 2)])
def test_a_charge_is_learned_from_what_a_look_ordered_of_what_was_offered(
    offered: int, ordered: int, factor: int
) -> None:
    charge = Charge(factor=4).given(offered, 0.0)
    charge = charge.looked(frozenset(f"m{number}" for number in range(ordered)), 6.0)
    assert charge.looked(charge.coming, 8.9).factor == 4, "more of the same look may come"
    learned = charge.looked(charge.coming, 9.0)
    assert (learned.factor, learned.batch) == (factor, 0)


def test_room_counts_as_offered_once_it_has_stood_for_a_look() -> None:
    charge = Charge().given(2, 0.0).given(9, 5.0)
    assert charge.looked(frozenset({"a"}), 5.5).offered == 2
    assert charge.given(9, 6.0).looked(frozenset({"a"}), 6.0).offered == 2
    assert charge.given(9, 6.5).looked(frozenset({"a"}), 7.0).offered == 9
    assert Charge().looked(frozenset({"a"}), 1.0).offered == 0, "nothing was offered yet"


@given(cores=st.integers(0, 1024))
@example(cores=1024)
def test_a_machine_that_nobody_saw_is_a_power_of_two_that_holds_the_largest_pod(cores: int) -> None:
    size = assumed_size({"cpu": 1000 * cores})["cpu"] // 1000
    assert size & (size - 1) == 0
    assert size > cores or size == 1024
    assert size // 2 <= cores or size == 1


def test_tries_double_the_room_as_far_as_machines_go() -> None:
    largest, usage = {"cpu": 8_000, "memory": 32_000_000, "pods": 110_000}, {"cpu": 4_000}
    assert ceiling_of(usage, largest, PoolRoom(share=0)) == {"cpu": 4_000, "memory": 0}
    assert ceiling_of(usage, largest, PoolRoom(share=2)) == {"cpu": 20_000, "memory": 80_000_000}
    assert ceiling_of(usage, largest, PoolRoom(share=2, charge=3))["cpu"] == 52_000
    assert ceiling_of(usage, largest, PoolRoom(share=2, doublings=3))["cpu"] == 132_000
    assert ceiling_of(usage, largest, PoolRoom(share=2, doublings=60))["cpu"] == 4_000 + 1_024_000


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
