"""Pools of Headroom without a node: what they still know, and that they grow again."""

from typing import Any

from balloons.api.pool import Mode
from balloons.balloon_manifest import ImageSettings
from balloons.decide.decide import decide
from balloons.decide.decision_and_reasons import Decision, Memory, Reason
from tests.unit.balloons.decide.test_refusing import HEADROOM, KARPENTER, Story
from tests.world import NOW, World, a_pool, later, nodes

SETTINGS = ImageSettings()
P5: dict[str, Any] = {"labels": {"node.kubernetes.io/instance-type": "p5"}, "instance_type": "p5"}


def step(world: World, memory: Memory, seconds: float = 0.0) -> tuple[Decision, Memory]:
    decided, memory = decide(world.snapshot(), memory, SETTINGS, later(NOW, seconds))
    world.apply(decided)
    world.settle()
    return decided, memory


def sizes(world: World) -> dict[str, int]:
    return {key.name: stored.replicas for key, stored in world.deployments.items()}


def overnight(**changes: Any) -> tuple[World, Memory]:
    """A pool that wants nothing, once its last node has gone."""
    world = World.of(a_pool(mode=Mode.HEADROOM, size=2, max_size=9), nodes=nodes(2, **P5))
    _, memory = step(world, Memory())
    world.change_pool(size=0, **changes)
    _, memory = step(world, memory, 10.0)
    world.nodes = {}
    _, memory = step(world, memory, 20.0)
    return world, memory


def test_headroom_that_wants_nodes_after_it_had_none_knows_how_large_they_are() -> None:
    """Office hours with size 0 at night: in the morning it said NoShape, until somebody else brought a node."""
    world, memory = overnight()
    assert sizes(world) == {"gpu-p5": 0}
    decided, memory = step(world, memory, 30.0)
    assert decided.pools[0].actions == ()
    world.change_pool(size=3)
    decided, _ = step(world, memory, 40.0)
    assert (decided.pools[0].because.reason, sizes(world)) == (Reason.GROWING, {"gpu-p5": 3})


def test_a_pool_that_never_grows_remembers_no_machines() -> None:
    assert sizes(overnight(mode=Mode.HOLD)[0]) == {}


def test_balloons_that_wait_when_nothing_is_wanted_any_more_go_at_once() -> None:
    """No machine came for them; what is known of their size stays."""
    world, memory = overnight()
    world.change_pool(size=3)
    _, memory = step(world, memory, 30.0)
    world.change_pool(size=0)
    step(world, memory, 40.0)
    assert (sizes(world), world.balloons()) == ({"gpu-p5": 0}, [])


def test_of_balloons_of_any_type_nothing_is_remembered() -> None:
    """Which types they leave out, and how large they are, was said for what was asked for then."""
    world, memory = overnight()
    world.change_pool(size=3)
    for seconds in (30.0, 331.0):
        _, memory = step(world, memory, seconds)
    assert sizes(world) == {"gpu-p5": 0, "gpu-any-type": 3}
    world.change_pool(size=0)
    step(world, memory, 340.0)
    assert sizes(world) == {"gpu-p5": 0}


def test_headroom_on_karpenter_grows_again_after_its_last_node_refused_and_went() -> None:
    """Somebody deleted it. Nothing tells any more who makes the nodes, and the name keeps Karpenter off."""
    story = Story(a_pool(**{**HEADROOM, "size": 1}), count=1, labels=KARPENTER)
    story.refuse("n000")
    story.run(60)
    assert story.left_out() == ["n000"]
    story.world.remove_node("n000")
    decision = story.run(20)
    assert (decision.because.reason, story.world.replicas(), story.left_out()) == (Reason.GROWING, 1, [])
