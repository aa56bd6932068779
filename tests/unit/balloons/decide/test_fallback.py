"""Headroom asks for another machine shape where one does not come."""

from typing import Any

from balloons.api.pool import Mode
from balloons.decide.decide import decide
from balloons.decide.plan import Memory, PoolDecision, Reason
from balloons.decide.settings import DecideSettings
from balloons.view.snapshot import Now
from tests.world import NOW, World, a_node, a_pool, later, nodes
from throttler.kube.node import INSTANCE_TYPE_LABEL
from throttler.kube.quantities_and_durations import parse_resources

SMALL = parse_resources({"cpu": "8", "memory": "32Gi", "pods": "110"})


class Story:
    """Two nodes of type `big` and one of `small`, a pool that wants two more, and an autoscaler that has none."""

    def __init__(self, **spec: Any) -> None:
        big = nodes(2, "big", labels={INSTANCE_TYPE_LABEL: "big"})
        small = nodes(1, "small", labels={INSTANCE_TYPE_LABEL: "small"}, allocatable=SMALL)
        pool = a_pool(mode=Mode.HEADROOM, size=5, max_size=9, **spec)
        self.world = World.of(pool, nodes={**big, **small})
        self.memory, self.now = Memory(), NOW
        self.run(30)

    def run(self, seconds: float) -> PoolDecision:
        """Decide every ten seconds."""
        end: Now = later(self.now, seconds)
        while self.now.monotonic_s < end.monotonic_s:
            plan, self.memory = decide(self.world.snapshot(), self.memory, DecideSettings(), self.now)
            self.world.apply(plan)
            self.world.settle()
            self.now = later(self.now, 10)
        return plan.pools[0]

    def waiting(self) -> dict[str, int]:
        found = [balloon.shape for balloon in self.world.balloons() if not balloon.node]
        return {shape: found.count(shape) for shape in found}


def test_a_shape_that_does_not_come_is_followed_by_the_next() -> None:
    story = Story()
    assert story.waiting() == {"big": 2}
    story.run(240)
    assert story.waiting() == {"big": 2}
    decision = story.run(60)
    assert story.waiting() == {"small": 2}
    assert [note.reason for note in decision.notes] == [Reason.FALLBACK]
    assert decision.notes[0].sentence == "no node of shape big came within 5m: the pool asks for shape small"


def test_shapes_take_turns() -> None:
    story = Story()
    story.run(600)
    assert story.waiting() == {"big": 2}


def test_a_node_that_comes_gives_the_shape_its_time_anew() -> None:
    story = Story()
    story.run(200)
    story.world.nodes["big900"] = a_node("big900", labels={INSTANCE_TYPE_LABEL: "big"})
    story.run(200)
    assert story.waiting() == {"big": 1}
    story.run(120)
    assert story.waiting() == {"small": 1}


def test_what_is_wanted_later_begins_with_the_main_shape_again() -> None:
    story = Story()
    story.run(300)
    story.world.change_pool(size=3)
    story.run(30)
    assert story.waiting() == {}
    story.world.change_pool(size=4)
    story.run(30)
    assert story.waiting() == {"big": 1}


def test_the_time_is_the_pools() -> None:
    story = Story(fallback_after="1m")
    story.run(60)
    assert story.waiting() == {"small": 2}


def test_no_more_is_asked_for_in_all() -> None:
    story = Story()
    for _ in range(20):
        story.run(60)
        assert sum(story.waiting().values()) == 2
