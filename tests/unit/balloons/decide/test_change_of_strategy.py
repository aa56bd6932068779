"""A pool whose strategy is changed: what the former one made holds nodes until the new one can, and asks for none."""

from typing import Any

import pytest
from msgspec.structs import replace

from balloons.api.pool import Mode, Strategy
from balloons.balloon_manifest import ImageSettings
from balloons.decide.decide import decide
from balloons.decide.decision_and_reasons import ApplyObject, Decision, Memory, Reason
from tests.world import NOW, POOL_KEY, World, a_lane, a_pool, later, nodes, work
from throttler.kube.reasons_and_events import because

SETTINGS = ImageSettings()
BUFFERS: dict[str, Any] = {"buffer_version": "autoscaling.x-k8s.io/v1beta1"}


def step(world: World, memory: Memory, seconds: float = 0.0) -> tuple[Decision, Memory]:
    decided, memory = decide(world.snapshot(**BUFFERS), memory, SETTINGS, later(NOW, seconds))
    world.apply(decided)
    return decided, memory


BALLOON = {"strategy": Strategy.BALLOON}
BUFFER = {"strategy": Strategy.CAPACITY_BUFFER}
ANNOTATE = {"strategy": Strategy.ANNOTATE, "mode": Mode.HOLD}


@pytest.mark.parametrize(
    ("before", "after"),
    [(BALLOON, BUFFER), (BUFFER, BALLOON), (BALLOON, ANNOTATE), (BUFFER, ANNOTATE)],
    ids=["to a buffer", "to balloons", "from balloons to none", "from a buffer to none"],
)
def test_no_node_is_asked_for_twice_while_the_strategy_changes(before: dict[str, Any], after: dict[str, Any]) -> None:
    """For ten minutes both a balloon and a unit stood for each node, so the autoscaler bought as many once more."""
    world, memory = World.of(a_pool(mode=Mode.HEADROOM, size=3, max_size=4, **before), nodes=nodes(3)), Memory()
    for second in range(0, 700, 10):
        if second == 20:
            world.change_pool(**after)
        if second == 60:
            world.add(work("job"))
            world.settle()
        _, memory = step(world, memory, second)
        world.settle()
        free = len(world.nodes) - len({pod.node for pod in world.pods.values() if pod.node})
        waiting = sum(not balloon.node for balloon in world.balloons())
        units = sum(stored.spec["replicas"] for stored in world.buffers.values())
        is_growing = after["strategy"] is not Strategy.ANNOTATE and second >= 60
        assert waiting + max(0, units - free) <= is_growing or second in (20, 60), second
    assert (len(world.balloons()), units) == {
        Strategy.BALLOON: (3, 0),
        Strategy.CAPACITY_BUFFER: (0, 3),
        Strategy.ANNOTATE: (0, 0),
    }[after["strategy"]]


def test_no_unit_stands_for_a_balloon_that_stays_beside_claimed_devices() -> None:
    world, memory = World.of(a_pool(size=3, **BALLOON), nodes=nodes(3)), Memory()
    for second, how in ((0, BALLOON), (10, BALLOON), (20, BUFFER), (30, BUFFER)):
        world.change_pool(**how)
        _, memory = step(world, memory, second)
        world.settle()
        world.pods |= {pod.key: pod for pod in [work("notebook", "n000", cpu="0", claims_devices=True)]}
        units = sum(stored.spec["replicas"] for stored in world.buffers.values())
        assert (len(world.balloons()), units) == (3, 0)


def test_units_stay_on_the_nodes_that_no_balloon_holds_yet() -> None:
    world = World.of(a_pool(mode=Mode.HEADROOM, size=3, max_size=4, **BUFFER), nodes=nodes(3))
    _, memory = step(world, Memory())
    world.change_pool(**BALLOON)
    _, memory = step(world, memory, 10.0)
    assert [stored.spec["replicas"] for stored in world.buffers.values()] == [3]
    world.settle()
    world.nodes |= nodes(1, "new")
    decided, _ = step(world, memory, 20.0)
    assert [stored.spec["replicas"] for stored in world.buffers.values()] == [1]
    (why,) = [action.because for action in decided.pools[0].actions if isinstance(action, ApplyObject)]
    assert why == because(Reason.SHRINKING, surplus=2)


def test_units_that_wait_stay_beside_balloons_while_a_throttle_lets_no_more_out() -> None:
    """They have been asked for already."""
    world, memory = World.of(a_pool(mode=Mode.HEADROOM, size=5, max_size=9), nodes=nodes(3)), Memory()
    for second, how, allowance in ((0, BALLOON, 2), (10, BUFFER, 2), (20, BUFFER, 0), (30, BUFFER, 0)):
        world.change_pool(**how)
        decided, memory = decide(world.snapshot(**BUFFERS), memory, SETTINGS, later(NOW, second), a_lane(allowance))
        world.apply(decided)
        world.settle()
    assert len(world.balloons()) == 3
    assert [stored.spec["replicas"] for stored in world.buffers.values()] == [2]


def test_a_pool_that_only_tries_another_strategy_keeps_what_it_has() -> None:
    world = World.of(a_pool(), nodes=nodes(3))
    _, memory = step(world, Memory())
    world.change_pool(**ANNOTATE, dry_run=True)
    for second in (10, 620):
        decided, memory = step(world, memory, second)
        assert not decided.sweeps


def test_balloons_that_all_wait_when_their_pool_is_gone_are_wanted_no_more() -> None:
    world = World.of(a_pool(), nodes=nodes(3))
    _, memory = step(world, Memory())
    del world.pools[POOL_KEY]
    _, memory = step(world, memory, 10.0)
    world.nodes = {}
    world.settle()
    decided, _ = step(world, memory, 40.0)
    (lowered,) = (action for action in decided.sweeps if isinstance(action, ApplyObject))
    assert (lowered.replicas, lowered.because) == (0, because(Reason.POOL_GONE, gone=30.0))


def test_what_waits_when_its_pool_is_gone_is_taken_away_once() -> None:
    """The Deployment is seen lowered before its pod is seen gone: one more would be taken off a node."""
    world = World.of(a_pool(), nodes=nodes(3))
    _, memory = step(world, Memory())
    world.settle()
    del world.pools[POOL_KEY]
    world.remove_node("n000")
    world.settle()
    ((key, stored),) = world.deployments.items()
    status = replace(stored.status, replicas=3)
    for replicas, sizes in ((3, [2]), (2, [])):
        world.deployments = {key: replace(stored, spec={**stored.spec, "replicas": replicas}, status=status)}
        decided, memory = decide(world.snapshot(), memory, SETTINGS, later(NOW, 10.0))
        assert [action.replicas for action in decided.sweeps if isinstance(action, ApplyObject)] == sizes


@pytest.mark.parametrize("cannot", ["not served", "no PriorityClass", "writes fail", "paused"])
def test_what_a_former_strategy_holds_stays_while_the_new_one_cannot_be_used(cannot: str) -> None:
    """After ten minutes all balloons, or annotations, were gone, and the pool said only that it needs a person."""
    former = Strategy.ANNOTATE if cannot == "no PriorityClass" else Strategy.BALLOON
    world = World.of(a_pool(strategy=former), nodes=nodes(3))
    _, memory = step(world, Memory())
    changes: dict[str, Any] = {
        "not served": {},
        "no PriorityClass": {"priority_classes": {}},
        "writes fail": {"resting": frozenset({POOL_KEY}), **BUFFERS},
        "paused": BUFFERS,
    }[cannot]
    new = Strategy.BALLOON if cannot == "no PriorityClass" else Strategy.CAPACITY_BUFFER
    mode = Mode.HOLD if new is Strategy.BALLOON else Mode.HEADROOM
    world.change_pool(strategy=new, mode=mode, size=3, max_size=9, paused=cannot == "paused")
    for second in (1, 601, 1201):
        decided, memory = decide(world.snapshot(**changes), memory, SETTINGS, later(NOW, second))
        assert not decided.sweeps
