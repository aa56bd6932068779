"""Four times the pools: a decision is about four times the work. Work is counted, not timed."""

from collections.abc import Callable

import pytest

from balloons.api.pool import BalloonPool, Mode, PoolNodes
from balloons.balloon_manifest import ImageSettings
from balloons.decide.decide import decide
from balloons.decide.decision_and_reasons import Decision, Memory
from balloons.view.tenancy_and_claim import Selectors
from tests.counted_work import counting
from tests.world import NOW, World, a_node, a_pool
from throttler.kube.node import ZONE_LABEL
from throttler.kube.selectors import LabelSelector, Requirement

FEW, MANY = 20, 80
NODES = 3
"""Per pool, each in a zone of its own."""


def on_own_nodes(number: int) -> BalloonPool:
    selector = LabelSelector({"team": f"t{number}"})
    return a_pool(f"p{number}", created_s=number, nodes=PoolNodes(selector), mode=Mode.HEADROOM, size=1, max_size=9)


def beside_an_older_one(number: int) -> BalloonPool:
    """The first one takes a node of each of the others, whose balloons keep off its zone."""
    first = LabelSelector({ZONE_LABEL: "zone-0"})
    return on_own_nodes(number) if number else a_pool("p0", nodes=PoolNodes(first))


def a_world(pools: int, make: Callable[[int], BalloonPool]) -> World:
    labels = [({"team": f"t{pool}", ZONE_LABEL: f"zone-{node}"}) for pool in range(pools) for node in range(NODES)]
    nodes = {f"n{i}": a_node(f"n{i}", labels=own) for i, own in enumerate(labels)}
    return World.of(*map(make, range(pools)), nodes=nodes)


def work_of(pools: int, make: Callable[[int], BalloonPool], *, is_blind: bool) -> tuple[Decision, int]:
    """The second decision, once the balloons of the first are there; blind, as all nodes stop being Ready."""
    world, found = a_world(pools, make), dict[str, int]()
    decided, memory = decide(world.snapshot(), Memory(), ImageSettings(), NOW)
    world.apply(decided)
    if is_blind:
        for name in world.nodes:
            world.change_node(name, is_ready=False)
    snapshot = world.snapshot(missing=("pods",) if is_blind else ())
    with counting(found, "a decision"):
        decided, _ = decide(snapshot, memory, ImageSettings(), NOW)
    assert len(decided.pools) == pools
    return decided, found["a decision"]


@pytest.mark.whole
@pytest.mark.parametrize("make", [on_own_nodes, beside_an_older_one])
@pytest.mark.parametrize("is_blind", [False, True], ids=["seeing", "blind"])
def test_four_times_the_pools_are_about_four_times_the_work(
    make: Callable[[int], BalloonPool], *, is_blind: bool
) -> None:
    """With 1,000 pools that an older one took nodes from, a decision took 30 s; blind with all nodes not Ready, 9 s."""
    (_, few), (_, many) = (work_of(pools, make, is_blind=is_blind) for pools in (FEW, MANY))
    assert many / few <= 5


def test_whose_nodes_they_are_is_found_in_proportion_to_the_pools() -> None:
    """With 1,000 pools every change of one of them cost half a second, by expressions a second and a half."""
    found: dict[str, int] = {}
    for number in (FEW, MANY):
        teams = [LabelSelector({"gpu": "yes"}, (Requirement("team", "In", (f"t{at}",)),)) for at in range(number)]
        pools = [a_pool(f"p{at}", created_s=at, nodes=PoolNodes(team)) for at, team in enumerate(teams)]
        labels = [{"gpu": "yes", "team": f"t{at}"} for at in range(number)]
        with counting(found, str(number)):
            selectors = Selectors(pools)
            owners = [selectors.of(own) for own in labels]
        assert owners == [(pool.key,) for pool in pools]
    assert found[str(MANY)] / found[str(FEW)] <= 5
