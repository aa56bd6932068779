"""Machines of a static NodePool come for nobody who waits."""

from dataclasses import replace

import msgspec
import pytest

from tests.unit.throttler.joins.cluster import RULES, a_claim, a_node, a_world, pending
from tests.unit.throttler.service.throttle_scene import a_pool, a_throttle, a_view
from throttler.joins.count_joins import count_joins
from throttler.joins.join_memory import JoinMemory
from throttler.joins.joins import JoinWorld
from throttler.kube.node import KARPENTER_POOL_LABEL
from throttler.service.decide_throttles import decide_throttles

STATIC = {KARPENTER_POOL_LABEL: "fixed"}
PODS = tuple(pending(f"p{number}") for number in range(5))


@pytest.mark.parametrize(
    ("world", "waiting", "in_flight"),
    [
        (a_world(unplaced=PODS, claims=[a_claim(f"c{at}") for at in range(3)]), 2, 3),
        (a_world(unplaced=PODS, claims=[a_claim(f"c{at}", **STATIC) for at in range(3)]), 5, 3),
        (a_world(unplaced=PODS, claims=[a_claim("c0"), *(a_claim(f"f{at}", **STATIC) for at in range(3))]), 4, 4),
        (a_world(a_node("n"), unplaced=PODS, claims=[a_claim("c", is_registered=True, **STATIC)]), 5, 1),
        (a_world(unplaced=PODS, claims=[a_claim("c0"), a_claim("f", pool="b", **STATIC)]), 4, 1),
    ],
    ids=["dynamic", "static", "both", "registered", "another throttle's"],
)
def test_pods_wait_for_other_machines_than_those_of_a_static_pool(
    world: JoinWorld, waiting: int, in_flight: int
) -> None:
    """Its user raised the replicas: nothing seemed to wait, and the ceilings on all other pools were given back."""
    found, _ = count_joins(replace(world, static_pools=frozenset({"fixed"})), JoinMemory(), RULES, 1000.0)
    assert (found.waiting, found.in_flight) == (waiting, in_flight)


@pytest.mark.parametrize(("replicas", "waiting"), [(None, 2), (3, 5)])
def test_a_tick_knows_a_static_pool_by_its_replicas(replicas: int | None, waiting: int) -> None:
    pool = a_pool("fixed")
    pool = msgspec.structs.replace(pool, spec=msgspec.structs.replace(pool.spec, replicas=replicas))
    world = a_world(unplaced=PODS, claims=[a_claim(f"c{at}", **STATIC) for at in range(3)])
    turns, _ = decide_throttles((a_throttle(),), a_view(10.0, world, scene={"limited": (pool,)}), {})
    assert turns[0].findings.joins.waiting == waiting
