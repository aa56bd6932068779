"""Two pools of one name in two namespaces: each keeps what is its own, and nothing of the other's."""

from typing import Any

import msgspec
import pytest

from balloons.api.pool import Mode, PoolNodes, Strategy
from balloons.balloon_manifest import ImageSettings
from balloons.decide.decide import decide
from balloons.decide.decision_and_reasons import ApplyObject, Decision, DeleteObject, Memory
from balloons.decide.deleted_pools import SWEEP_AFTER_S
from balloons.view.node_load_and_devices import load_of
from balloons.view.tenancy_and_claim import Bound, Refusal
from tests.world import NOW, POOL_KEY, World, a_node, a_pool, claim_nodes, later, nodes, work
from throttler.kube.metadata import ObjectKey
from throttler.kube.node import HELD_BY_ANNOTATION
from throttler.kube.pod import PodKind
from throttler.kube.selectors import LabelSelector

SETTINGS = ImageSettings()
THEIRS = ObjectKey("team-b", POOL_KEY.name)
B = {"pool": "b"}


def two_pools(**spec: Any) -> World:
    """team-a/gpu has two nodes, team-b/gpu three others."""
    other = a_pool(THEIRS.name, namespace=THEIRS.namespace, nodes=PoolNodes(LabelSelector(B)), **spec)
    return World.of(a_pool(**spec), other, nodes={**nodes(2, "a"), **nodes(3, "b", labels=B)})


def step(world: World, memory: Memory, seconds: float = 0.0, **changes: Any) -> tuple[Decision, Memory]:
    decided, memory = decide(world.snapshot(**changes), memory, SETTINGS, later(NOW, seconds))
    world.apply(decided)
    world.settle()
    return decided, memory


def held(world: World) -> dict[str, set[str]]:
    """Namespace -> nodes with a balloon from there."""
    found: dict[str, set[str]] = {}
    for balloon in world.balloons():
        if balloon.node:
            found.setdefault(balloon.key.namespace, set()).add(balloon.node)
    return found


def wanted(world: World) -> dict[str, int]:
    """Namespace -> balloons that its Deployments want."""
    found: dict[str, int] = {}
    for key, deployment in world.deployments.items():
        found[key.namespace] = found.get(key.namespace, 0) + deployment.replicas
    return found


A_NODES, B_NODES = {"a000", "a001"}, {"b000", "b001", "b002"}


def warm(**spec: Any) -> tuple[World, Memory]:
    world = two_pools(**spec)
    _, memory = step(world, Memory())
    _, memory = step(world, memory, 10)
    return world, memory


def test_each_holds_its_own_nodes_and_is_content() -> None:
    world, memory = warm()
    assert held(world) == {"team-a": A_NODES, "team-b": B_NODES}
    decided, _ = step(world, memory, 20)
    assert [action for decision in decided.pools for action in decision.actions] == []
    counts = {decision.pool: (decision.status.nodes, decision.status.warm) for decision in decided.pools}
    assert counts == {POOL_KEY: (2, 2), THEIRS: (3, 3)}


@pytest.mark.parametrize(("key", "left"), [(POOL_KEY, {"team-b": 3}), (THEIRS, {"team-a": 2})])
def test_the_one_that_shrinks_takes_nothing_of_the_other(key: ObjectKey, left: dict[str, int]) -> None:
    world, memory = warm()
    world.change_pool(key, size=0)
    for seconds in (20, 30, 40):
        decided, memory = step(world, memory, seconds)
        touched = [action for decision in decided.pools for action in decision.actions]
        assert {each.key.namespace for each in touched if isinstance(each, (ApplyObject, DeleteObject))} <= {
            key.namespace
        }
    assert {name: count for name, count in wanted(world).items() if count} == left


def test_what_is_left_of_one_that_is_gone_is_swept_and_the_others_stays() -> None:
    world, memory = warm()
    del world.pools[THEIRS]
    _, memory = step(world, memory, 20)
    decided, _ = step(world, memory, 20 + SWEEP_AFTER_S)
    assert {action.key.namespace for action in decided.sweeps if isinstance(action, DeleteObject)} == {"team-b"}
    assert held(world) == {"team-a": A_NODES}


def test_nodes_that_one_annotated_are_let_go_when_it_is_gone_and_the_others_are_not() -> None:
    world, memory = warm(strategy=Strategy.ANNOTATE)
    told = {name: node.annotations[HELD_BY_ANNOTATION] for name, node in world.nodes.items()}
    assert told == {**dict.fromkeys(A_NODES, "team-a/gpu"), **dict.fromkeys(B_NODES, "team-b/gpu")}
    del world.pools[POOL_KEY]
    _, memory = step(world, memory, 20)
    step(world, memory, 20 + SWEEP_AFTER_S)
    assert {name for name, node in world.nodes.items() if HELD_BY_ANNOTATION in node.annotations} == B_NODES


def test_nodes_that_one_annotated_stay_annotated_where_another_service_serves_it() -> None:
    """Two services with a namespace each see all nodes: each took off what the other put on, every ten minutes."""
    world, memory = warm(strategy=Strategy.ANNOTATE)
    theirs = world.pools.pop(THEIRS)
    refused = {theirs.key: Refusal(Bound.NAMESPACES, "namespace team-b is not served; served: team-a")}
    for seconds in (20, 30 + SWEEP_AFTER_S):
        decided, memory = step(world, memory, seconds, refused=refused)
        assert decided.sweeps == ()
    assert {name for name, node in world.nodes.items() if HELD_BY_ANNOTATION in node.annotations} == A_NODES | B_NODES


def test_a_node_that_changes_sides_is_held_by_its_new_pool_alone() -> None:
    """The other pool's balloon on it is none of its own, though it bears the same name."""
    world, memory = warm()
    world.nodes["b000"] = a_node("b000")
    for seconds in (20, 30, 40, 50):
        _, memory = step(world, memory, seconds)
    assert held(world) == {"team-a": A_NODES | {"b000"}, "team-b": B_NODES - {"b000"}}
    assert wanted(world) == {"team-a": 3, "team-b": 2}


def test_each_has_a_buffer_of_its_own() -> None:
    world = two_pools(strategy=Strategy.CAPACITY_BUFFER, mode=Mode.HEADROOM, size=1, max_size=4)
    memory = Memory()
    for seconds in (0, 10, 20):
        decided, memory = decide(
            world.snapshot(buffer_version="autoscaling.x-k8s.io/v1beta1"), memory, SETTINGS, later(NOW, seconds)
        )
        for decision in decided.pools:
            made = {action.key.namespace for action in decision.actions if isinstance(action, ApplyObject)}
            assert made <= {decision.pool.namespace}
        world.apply(decided)
    assert (
        {key.namespace for key in world.buffers} == {key.namespace for key in world.templates} == {"team-a", "team-b"}
    )


def test_a_balloon_of_the_other_is_a_stray_and_no_load_of_ones_own() -> None:
    pools = two_pools().pools.values()
    node = a_node("a000")
    balloon = work("b", "a000", kind=PodKind.BALLOON, pool=POOL_KEY.name)
    foreign = msgspec.structs.replace(balloon, key=ObjectKey(THEIRS.namespace, "b"))
    claims = claim_nodes(pools, {node.name: node}, {node.name: load_of([foreign], -10)})
    ((_, load),) = claims[POOL_KEY].nodes
    assert (load.balloons, claims[THEIRS].strays, claims[POOL_KEY].strays) == ((), [foreign], [])
    own = msgspec.structs.replace(balloon, key=ObjectKey(POOL_KEY.namespace, "b"))
    claims = claim_nodes(pools, {node.name: node}, {node.name: load_of([own], -10)})
    ((_, load),) = claims[POOL_KEY].nodes
    assert (load.balloons, claims[POOL_KEY].strays, claims[THEIRS].strays) == ((own,), [], [])
