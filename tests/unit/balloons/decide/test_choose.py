"""Which nodes are held, and what happens when a balloon sits on the wrong one."""

from collections import Counter

from balloons.api.pool import Mode, PoolNodes
from balloons.decide.choose import choose_nodes
from balloons.decide.decide import decide
from balloons.decide.memory import Memory
from balloons.decide.plan import ReleaseBalloon
from balloons.decide.settings import DecideSettings
from balloons.view.node_load import load_of
from tests.world import NOW, World, a_node, a_pool, daemon, nodes, work
from throttler.kube.node import Node
from throttler.kube.pod import PodKind
from throttler.kube.selectors import LabelSelector

SETTINGS = DecideSettings()


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


def test_a_balloon_beside_work_is_moved_although_the_size_stays() -> None:
    world = World.of(a_pool(size=1), nodes=nodes(1), pods=[daemon("d", "n000")])
    world.apply(decide(world.snapshot(), Memory(), SETTINGS, NOW)[0])
    world.settle()
    world.add(work("tiny", "n000", cpu="50m"))
    world.nodes["n001"] = a_node("n001")
    plan, _ = decide(world.snapshot(), Memory(), SETTINGS, NOW)
    assert [type(action) for action in plan.pools[0].actions] == [ReleaseBalloon]
    world.apply(plan)
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
    world.apply(decide(world.snapshot(), Memory(), SETTINGS, NOW, allowance=5)[0])
    assert {key.name.split("-")[0]: d.replicas for key, d in world.deployments.items()} == {"old": 5, "new": 2}
