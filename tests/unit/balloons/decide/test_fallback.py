"""Headroom asks for another machine shape where one does not come."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from balloons.api.pool import Mode, PoolNodes, ShapeSpec, ShapeType, Strategy
from balloons.balloon_manifest import ImageSettings
from balloons.decide.decide import decide
from balloons.decide.decision_and_reasons import Memory, PoolDecision, Reason
from balloons.view.index_and_snapshot import Now
from tests.world import NOW, World, a_node, a_pool, daemon, later, nodes, work
from throttler.kube.metadata import ObjectKey
from throttler.kube.node import (
    HOST_LABEL,
    INSTANCE_TYPE_LABEL,
    KARPENTER_INITIALIZED_LABEL,
    KARPENTER_POOL_LABEL,
    Node,
)
from throttler.kube.pod import Scheduling
from throttler.kube.quantities_and_durations import parse_resources
from throttler.kube.selectors import LabelSelector, Requirement
from throttler.levers.lever_and_reasons import Lane

SMALL = parse_resources({"cpu": "8", "memory": "32Gi", "pods": "110"})
GPU = "nvidia.com/gpu"
SMALL_TYPE = {INSTANCE_TYPE_LABEL: "small"}
ANY_TYPE = ObjectKey("team-a", "gpu-any-type")
KARPENTERS = {KARPENTER_POOL_LABEL: "gpu", KARPENTER_INITIALIZED_LABEL: "true"}
OPEN, FULL = Lane(LabelSelector(), 0), Lane(LabelSelector(), 0, is_shut=True)
"""Lanes of a throttle that grants nothing more: machines are on their way, or none is and none may be ordered."""


def typed(count: int, kind: str, size: Mapping[str, str] | None = None) -> dict[str, Node]:
    """Nodes of one instance type."""
    given = {"allocatable": parse_resources({"pods": "110", **size})} if size else {}
    return nodes(count, kind, labels={INSTANCE_TYPE_LABEL: kind}, **given)


class Story:
    """Nodes (two of type `big` and one of `small`), a pool that wants two more, and an autoscaler that has none."""

    def __init__(self, found: Mapping[str, Node] | None = None, **spec: Any) -> None:
        small = nodes(1, "small", labels={INSTANCE_TYPE_LABEL: "small"}, allocatable=SMALL)
        found = found or {**typed(2, "big"), **small}
        pool = a_pool(mode=Mode.HEADROOM, size=len(found) + 2, max_size=9, **spec)
        self.world = World.of(pool, nodes=found)
        self.memory, self.now = Memory(), NOW
        self.run(30)

    def run(self, seconds: float, lane: Lane | None = None, **seen: Any) -> PoolDecision:
        """Decide every ten seconds; `lane` is the throttle's, `seen` what the view says of itself."""
        end: Now = later(self.now, seconds)
        while self.now.monotonic_s < end.monotonic_s:
            snapshot = self.world.snapshot(buffer_version="autoscaling.x-k8s.io/v1alpha1", **seen)
            lanes = (lane,) if lane is not None else None
            decided, self.memory = decide(snapshot, self.memory, ImageSettings(), self.now, lanes)
            self.world.apply(decided)
            self.world.settle()
            self.now = later(self.now, 10)
        return decided.pools[0]

    def held(self) -> dict[str, str]:
        """The shape of the balloon on each node."""
        return {balloon.node: balloon.shape for balloon in self.world.balloons() if balloon.node}

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


def test_a_next_shape_that_is_too_small_for_a_balloon_is_not_said_to_be_asked_for() -> None:
    story = Story(shape=ShapeSpec(slack={"cpu": "8"}))
    decision = story.run(300)
    assert story.waiting() == {}
    assert decision.because.reason is Reason.TOO_SMALL
    assert Reason.FALLBACK not in {note.reason for note in decision.notes}


@pytest.mark.parametrize(("kind", "after_s"), [("small", 10.0), ("big", 10.0), ("big", 400.0)])
def test_a_balloon_that_waits_for_a_node_on_its_way_fits_its_type(kind: str, after_s: float) -> None:
    """The autoscaler bought another node for one that did not, beyond maxSize; a slow join turned to the next shape."""
    story = Story()
    story.world.change_pool(max_size=4)
    created_s = story.now.wall.timestamp()
    story.world.nodes["x"] = a_node(
        "x", labels={INSTANCE_TYPE_LABEL: kind}, is_ready=False, conditions=frozenset(), created_s=created_s
    )
    decision = story.run(after_s)
    assert (story.waiting(), decision.notes) == ({kind: 1}, ())


@pytest.mark.parametrize(("max_size", "waiting"), [(5, {"big": 1}), (9, {"big": 2})])
def test_no_balloon_is_cut_for_a_node_that_work_will_take(max_size: int, waiting: dict[str, int]) -> None:
    """The autoscaler bought one more of that type for it, beside those that it had ordered for the pool."""
    story = Story()
    created_s = story.now.wall.timestamp()
    story.world.nodes["x"] = a_node("x", labels=SMALL_TYPE, is_ready=False, conditions=frozenset(), created_s=created_s)
    story.world.change_pool(max_size=max_size)
    story.world.add(
        work("job", cpu="6", scheduling=Scheduling(is_tried=True, node_selector={**SMALL_TYPE, HOST_LABEL: "x"}))
    )
    story.run(10)
    assert story.waiting() == waiting


def test_work_takes_no_more_of_a_small_node_than_that_has() -> None:
    """Two of its pods were counted for each, as on a node of the pool's main type: a balloon waited beyond maxSize."""
    story = Story()
    created_s = story.now.wall.timestamp()
    for name in ("x", "y"):
        story.world.nodes[name] = a_node(
            name, labels=SMALL_TYPE, allocatable=SMALL, is_ready=False, created_s=created_s
        )
    story.world.change_pool(max_size=5)
    how = Scheduling(is_tried=True, node_selector={**SMALL_TYPE, "zone": ""})
    for name in ("x", "y"):
        story.world.change_node(name, labels={**story.world.nodes[name].labels, "zone": ""})
        story.world.add(work(name, cpu="6", scheduling=how))
    story.run(10)
    assert not story.waiting()


def test_a_node_that_does_not_name_its_type_yet_may_be_of_the_one_that_is_asked_for() -> None:
    story = Story()
    story.world.change_pool(max_size=4)
    story.world.nodes["x"] = a_node("x", is_ready=False, created_s=story.now.wall.timestamp())
    story.run(10)
    assert story.waiting() == {"big": 1}


def test_no_balloon_waits_for_a_node_of_a_type_that_the_pool_does_not_know() -> None:
    story = Story()
    story.world.change_pool(max_size=4)
    story.world.nodes["x"] = a_node(
        "x", labels={INSTANCE_TYPE_LABEL: "other"}, is_ready=False, created_s=story.now.wall.timestamp()
    )
    story.run(10)
    assert not story.waiting()


def test_shapes_take_turns_and_then_any_type_has_one() -> None:
    story = Story()
    story.run(600)
    assert story.waiting() == {"any-type": 2}
    story.run(300)
    assert story.waiting() == {"big": 2}
    assert ANY_TYPE not in story.world.deployments


def test_a_pool_of_one_type_asks_for_any_other_that_is_as_large() -> None:
    """The autoscaler knows the sizes of types that no node shows."""
    story = Story(typed(2, "big"))
    decision = story.run(300)
    assert story.waiting() == {"any-type": 2}
    assert decision.notes[0].sentence == "no node of shape big came within 5m: the pool asks for shape any-type"
    template = story.world.deployments[ANY_TYPE].spec["template"]["spec"]
    (term,) = template["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]
    assert term["matchExpressions"] == [
        {"key": "pool", "operator": "In", "values": ["gpu"]},
        {"key": INSTANCE_TYPE_LABEL, "operator": "NotIn", "values": ["big"]},
    ]
    # Of big ones 15.8 cores are asked for. Karpenter takes a type that it never ran for smaller than it is.
    assert template["containers"][0]["resources"]["requests"]["cpu"] == "14220m"


def test_on_karpenter_any_type_may_be_the_main_one_again() -> None:
    """It gives up an order without stock at once, so what comes back into stock meanwhile is taken."""
    story = Story(nodes(2, "big", labels={INSTANCE_TYPE_LABEL: "big", **KARPENTERS}))
    story.run(300)
    assert story.waiting() == {"any-type": 2}
    story.world.nodes |= nodes(1, "more", labels={INSTANCE_TYPE_LABEL: "big", **KARPENTERS})
    story.world.settle()
    assert story.held()["more000"] == "any-type"


def test_a_balloon_for_any_type_goes_on_waiting_while_its_machine_joins() -> None:
    story = Story(typed(2, "big"))
    story.run(300)
    joining = {"is_ready": False, "conditions": frozenset[Any](), "created_s": story.now.wall.timestamp()}
    story.world.nodes["x"] = a_node("x", labels={INSTANCE_TYPE_LABEL: "new"}, **joining)
    story.run(10)
    assert story.waiting() == {"any-type": 2}


def test_what_waits_for_any_type_keeps_its_size_while_machines_may_be_on_their_way_to_it() -> None:
    story = Story(typed(2, "big"))
    story.run(300)
    asked = story.world.deployments[ANY_TYPE].spec["template"]
    story.world.add(*(daemon(f"d-{name}", name, cpu="4") for name in story.world.nodes))
    story.run(30)
    assert story.waiting() == {"any-type": 2}
    assert story.world.deployments[ANY_TYPE].spec["template"] == asked


def test_a_pool_that_has_had_all_types_that_it_names_asks_for_no_other() -> None:
    named = Requirement(INSTANCE_TYPE_LABEL, "In", ("big", "small"))
    story = Story(nodes=PoolNodes(LabelSelector({"pool": "gpu"}, (named,))))
    story.run(600)
    assert story.waiting() == {"big": 2}, "of two shapes the first has its turn again"


def test_a_pool_that_names_its_types_keeps_its_deployments() -> None:
    """The first one was taken for the type of each, so every decision made Deployments of other names."""
    named = Requirement(INSTANCE_TYPE_LABEL, "In", ("big", "small"))
    story = Story(nodes=PoolNodes(LabelSelector({"pool": "gpu"}, (named,))))
    assert story.run(10).actions == ()
    assert story.held() == {"big000": "big", "big001": "big", "small000": "small"}


@pytest.mark.parametrize(
    "change",
    [
        {"mode": Mode.HOLD},
        {"nodes": PoolNodes(LabelSelector({"pool": "gpu"}, (Requirement(INSTANCE_TYPE_LABEL, "In", ("big", "new")),)))},
    ],
    ids=["Hold", "other types never"],
)
def test_balloons_of_any_type_are_exchanged_where_the_pool_asks_for_it_no_more(change: dict[str, Any]) -> None:
    """More than may go at once were never let go: the others were kept, and their Deployment was not lowered."""
    story = Story(typed(2, "big"))
    story.world.change_pool(size=17, max_size=20)
    story.run(310)
    asked = story.world.deployments[ANY_TYPE].spec["template"]
    story.world.nodes |= typed(15, "new", {"cpu": "48", "memory": "192Gi"})
    story.world.settle()
    story.world.change_pool(**change)
    story.run(10)
    left = story.world.deployments[ANY_TYPE]
    assert (left.replicas, left.spec["template"]) == (5, asked), "a new template would replace those that stay"
    story.now = later(story.now, -5)
    assert left.key not in {getattr(action, "key", None) for action in story.run(5).actions}, "no more may go yet"
    story.run(20)
    assert Counter(story.held().values()) == {"big": 2, "new": 15}
    assert ANY_TYPE not in story.world.deployments


def test_types_that_the_pool_never_takes_are_not_ruled_out_twice() -> None:
    never = Requirement(INSTANCE_TYPE_LABEL, "NotIn", ("tiny",))
    story = Story(typed(2, "big"), nodes=PoolNodes(LabelSelector({"pool": "gpu"}, (never,))))
    story.run(300)
    asked = story.world.deployments[ANY_TYPE].spec["template"]
    story.run(200)
    assert story.waiting() == {"any-type": 2}
    assert story.world.deployments[ANY_TYPE].spec["template"] == asked


def test_a_type_with_as_many_devices_may_have_fewer_cores() -> None:
    size = {"cpu": "192", "memory": "2Ti", GPU: "8"}
    story = Story(typed(2, "p5", size))
    story.run(300)
    (container,) = story.world.deployments[ANY_TYPE].spec["template"]["spec"]["containers"]
    asked = container["resources"]["requests"]
    assert (asked["cpu"], asked[GPU], container["resources"]["limits"]) == ("47950m", "8", {GPU: "8"})


def test_a_node_of_a_type_never_had_gets_a_balloon_of_its_own_size() -> None:
    story = Story(typed(2, "big"))
    story.run(300)
    story.world.nodes |= typed(1, "new", {"cpu": "48", "memory": "192Gi"})
    story.run(30)
    assert story.held() == {"big000": "big", "big001": "big", "new000": "any-type"}, "the other would take its place"
    assert story.waiting() == {"any-type": 1}
    story.world.nodes |= typed(2, "new", {"cpu": "48", "memory": "192Gi"})
    story.run(30)
    assert story.held() == {"big000": "big", "big001": "big", "new000": "new", "new001": "new"}
    assert story.waiting() == {}


def test_while_nodes_come_one_by_one_never_more_is_asked_for() -> None:
    story = Story(typed(2, "big"))
    story.run(300)
    asked = story.world.deployments[ANY_TYPE].spec["template"]
    for name, node in typed(2, "new", {"cpu": "48", "memory": "192Gi"}).items():
        story.world.nodes[name] = node
        for _ in range(4):
            story.run(10)
            assert len(story.world.balloons()) == 4
        if ANY_TYPE in story.world.deployments:
            assert story.world.deployments[ANY_TYPE].spec["template"] == asked
    assert story.waiting() == {}
    assert ANY_TYPE not in story.world.deployments


@pytest.mark.parametrize(
    "spec",
    [
        {"nodes": PoolNodes(LabelSelector({"pool": "gpu", INSTANCE_TYPE_LABEL: "big"}))},
        {"shape": ShapeSpec(ShapeType.EXPLICIT, {"cpu": "15", "memory": "60Gi"})},
    ],
)
def test_a_pool_that_asks_for_one_type_or_for_any_has_no_other_question(spec: dict[str, Any]) -> None:
    story = Story(typed(2, "big"), **spec)
    before = story.waiting()
    assert not story.run(600).notes
    assert story.waiting() == before


def test_a_pool_without_instance_types_names_none_anyway() -> None:
    story = Story(nodes(2, "big"))
    assert not story.run(600).notes
    assert story.waiting() == {"16cpu-64gi": 2}


def test_a_buffer_asks_for_any_type_too() -> None:
    story = Story(typed(2, "big"), strategy=Strategy.CAPACITY_BUFFER)

    def units() -> dict[str, int]:
        return {key.name: found.spec["replicas"] for key, found in story.world.buffers.items()}

    story.run(30)
    assert units() == {"gpu-big": 4}
    story.run(300)
    assert units() == {"gpu-big": 2, "gpu-any-type": 2}
    template = story.world.templates[ObjectKey("team-a", "gpu-any-type")].template
    assert INSTANCE_TYPE_LABEL not in str(template), "a change of it would rule out machines that are on their way"
    story.run(300)
    assert units() == {"gpu-big": 4}
    assert set(story.world.templates) == {ObjectKey("team-a", "gpu-big")}


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


def test_while_the_throttle_lets_nothing_be_ordered_no_time_passes() -> None:
    """What we ourselves hold back says nothing of what is in stock."""
    story = Story()
    story.run(100, OPEN)
    story.run(1000, FULL)
    assert story.waiting() == {"big": 2}
    story.run(160, OPEN)
    assert story.waiting() == {"big": 2}, "300 s have not passed without the time that was paced"
    story.run(30, OPEN)
    assert story.waiting() == {"small": 2}


def test_what_has_its_turn_keeps_it_while_nothing_may_be_ordered() -> None:
    story = Story()
    story.run(300)
    story.run(1000, FULL)
    assert story.waiting() == {"small": 2}
    story.run(310, OPEN)
    assert story.waiting() == {"any-type": 2}


def test_time_that_nobody_saw_counts_as_it_began() -> None:
    story = Story()
    story.run(10, FULL)
    story.run(600, FULL, missing=("pods",))
    story.run(20, OPEN)
    assert story.waiting() == {"big": 2}, "the ceiling stood all that time"
    story.run(600, OPEN, missing=("pods",))
    story.run(20, OPEN)
    assert story.waiting() == {"small": 2}


def test_a_throttle_may_say_that_nothing_can_be_ordered_and_pace_no_balloons() -> None:
    story = Story()
    story.run(600, Lane(LabelSelector(), None, is_shut=True))
    assert story.waiting() == {"big": 2}
    story.world.change_pool(size=9)
    story.run(10, Lane(LabelSelector(), None, is_shut=True))
    assert story.waiting() == {"big": 6}


def test_no_more_is_asked_for_in_all() -> None:
    story = Story()
    for _ in range(20):
        story.run(60)
        assert sum(story.waiting().values()) == 2
