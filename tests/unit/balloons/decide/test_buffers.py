"""A CapacityBuffer that is there: which nodes are warm by it, what changes it and what does not."""

from typing import Any

import pytest
from msgspec.structs import replace

from balloons.api.pool import Mode, Strategy
from balloons.balloon_manifest import ImageSettings
from balloons.decide.decide import decide
from balloons.decide.decision_and_reasons import Action, ApplyObject, Decision, DeleteObject, Memory, Reason
from balloons.decide.strategies import PoolBuffers, lowered_buffers_unseen
from balloons.view.index_and_snapshot import StoredObject
from tests.world import NOW, POOL_KEY, SIZE, World, a_lane, a_pool, daemon, later, nodes, work
from throttler.kube.metadata import Metadata
from throttler.kube.reasons_and_events import because

SETTINGS = ImageSettings()
BUFFERS: dict[str, Any] = {"buffer_version": "autoscaling.x-k8s.io/v1beta1"}


def buffering() -> World:
    return World.of(a_pool(strategy=Strategy.CAPACITY_BUFFER, mode=Mode.HEADROOM, size=5, max_size=9), nodes=nodes(3))


def step(world: World, memory: Memory, seconds: float = 0.0) -> tuple[Decision, Memory]:
    decided, memory = decide(world.snapshot(**BUFFERS), memory, SETTINGS, later(NOW, seconds))
    world.apply(decided)
    return decided, memory


def actions(decided: Decision) -> list[Action]:
    return list(decided.pools[0].actions)


def test_nodes_that_are_free_for_a_buffer_are_warm() -> None:
    assert step(buffering(), Memory())[0].pools[0].status.warm == 3


def test_nothing_is_written_where_the_server_has_no_buffers_any_more_and_nobody_sees_the_pods() -> None:
    world = buffering()
    _, memory = step(world, Memory())
    for seconds in (10.0, 20.0):
        world.nodes |= nodes(12, f"new-{seconds}-")
        decided, memory = decide(world.snapshot(missing=("pods",)), memory, SETTINGS, later(NOW, seconds))
        assert not actions(decided)


def test_nodes_that_are_missed_count_against_max_size() -> None:
    """They may be there all the same: the view of the pool is not believed."""
    world, busy = buffering(), nodes(3, "busy")
    world.change_pool(size=3, max_size=6)
    world.nodes |= busy
    world.add(*(work(name, name) for name in busy))
    _, memory = step(world, Memory())
    for name in busy:
        world.remove_node(name)
    world.add(work("job", "n000"))
    decided, _ = step(world, memory, 10.0)
    assert decided.pools[0].because.reason is Reason.SHRUNKEN_VIEW
    assert [stored.spec["replicas"] for stored in world.buffers.values()] == [2]


def test_a_daemon_that_grows_a_little_changes_no_unit() -> None:
    """Whoever changes the template makes the autoscaler count anew."""
    world = buffering()
    _, memory = step(world, Memory())
    world.add(*(replace(daemon(f"d-{name}", name), requests={"cpu": 50}) for name in world.nodes))
    assert not actions(step(world, memory, 10.0)[0])


def test_a_small_pod_that_leaves_a_unit_its_room_changes_nothing() -> None:
    """The node counted as busy, and the autoscaler took it for free: the pool waited for ever, and for any machine."""
    world = buffering()
    world.change_pool(size=3)
    _, memory = step(world, Memory())
    world.add(work("node-debugger", "n000", requests={"pods": 1000}))
    for second in range(10, 700, 60):
        decided, memory = step(world, memory, second)
        assert (actions(decided), decided.pools[0].because.reason) == ([], Reason.STEADY)
    assert (decided.pools[0].status.warm, decided.pools[0].status.busy) == (3, 0)


def test_no_unit_stands_for_a_node_that_is_short_of_devices() -> None:
    """It does not fit there, so the autoscaler would buy a node for it, beyond maxSize."""
    world = buffering()
    world.change_pool(max_size=3)
    for name in world.nodes:
        world.change_node(name, allocatable={**SIZE, "nvidia.com/gpu": 7_000 if name == "n000" else 8_000})
    _, memory = step(world, Memory())
    decided, _ = step(world, memory, 400.0)
    assert (decided.pools[0].status.warm, decided.pools[0].status.sick) == (2, 1)
    assert [stored.spec["replicas"] for stored in world.buffers.values()] == [2]


def test_units_that_a_throttle_let_out_stay_while_their_machines_come() -> None:
    """They were taken back at the next look and let out again at the one after that."""
    world, memory, units = buffering(), Memory(), []
    world.change_pool(size=8, max_size=20)
    for seconds, allowance in ((0.0, 2), (10.0, 0), (20.0, 0), (30.0, 1), (40.0, 0)):
        decided, memory = decide(world.snapshot(**BUFFERS), memory, SETTINGS, later(NOW, seconds), a_lane(allowance))
        world.apply(decided)
        units += [stored.spec["replicas"] for stored in world.buffers.values()]
    assert units == [5, 5, 5, 6, 6]
    assert memory.pools[POOL_KEY].granted == 3
    world.nodes = nodes(6)
    decided, memory = decide(world.snapshot(**BUFFERS), memory, SETTINGS, later(NOW, 50.0), a_lane(0))
    assert (actions(decided), memory.pools[POOL_KEY].granted) == ([], 0), "they have come, and let out nothing more"


def test_a_pool_without_nodes_has_the_units_that_it_wants() -> None:
    """Its buffer stayed as it was, with units that nobody wanted any more or without those that were wanted again."""
    world = buffering()
    world.change_pool(size=3)
    _, memory = step(world, Memory())
    ((key, before),) = world.templates.items()
    world.nodes = {}
    for size, reason in ((3, Reason.GROWING), (0, Reason.NO_NODES), (0, Reason.NO_NODES), (2, Reason.GROWING)):
        world.change_pool(size=size)
        decided, memory = step(world, memory, 10.0)
        assert decided.pools[0].because.reason is reason
        assert [stored.spec["replicas"] for stored in world.buffers.values()] == [size]
    assert world.templates == {key: before}


def test_a_pool_that_changes_to_buffers_without_a_node_knows_the_size_of_its_balloons() -> None:
    world = World.of(a_pool(mode=Mode.HEADROOM, size=2, max_size=9), nodes=nodes(2))
    _, memory = step(world, Memory())
    world.nodes = {}
    world.change_pool(strategy=Strategy.CAPACITY_BUFFER)
    step(world, memory, 10.0)
    assert [stored.spec["replicas"] for stored in world.buffers.values()] == [2]


def test_a_label_that_somebody_took_off_a_buffer_comes_back() -> None:
    world = buffering()
    _, memory = step(world, Memory())
    ((key, stored),) = world.buffers.items()
    bare = replace(stored, metadata=replace(stored.metadata, labels={}))
    decided, _ = decide(world.snapshot(buffers={key: bare}, **BUFFERS), memory, SETTINGS, NOW)
    assert [action.kind for action in actions(decided) if isinstance(action, ApplyObject)] == ["CapacityBuffer"]


def test_what_is_deleted_already_is_not_deleted_again() -> None:
    """A finalizer may keep it for a while."""
    world = buffering()
    step(world, Memory())
    world.nodes = nodes(3, "m", labels={"node.kubernetes.io/instance-type": "m5"}, instance_type="m5")
    for gone_at, kinds in ((None, ["CapacityBuffer", "PodTemplate"]), (NOW.wall, [])):
        for stored in (world.buffers, world.templates):
            for key, one in stored.items():
                stored[key] = replace(one, metadata=replace(one.metadata, deletion_timestamp=gone_at))
        decided, _ = decide(world.snapshot(**BUFFERS), Memory(), SETTINGS, NOW)
        assert [action.kind for action in actions(decided) if isinstance(action, DeleteObject)] == kinds


def test_a_buffer_says_why_it_has_its_size() -> None:
    world = buffering()
    for size, reason in ((3, Reason.WARMING), (5, Reason.GROWING)):
        world.change_pool(size=size)
        decided, _ = step(world, Memory())
        assert {action.because.reason for action in actions(decided)} == {reason}


def test_a_buffer_without_a_max_size_stays_while_nobody_sees_its_pods() -> None:
    world = buffering()
    world.change_pool(max_size=None)
    _, memory = step(world, Memory())
    for seconds in (10.0, 20.0):
        seen = world.snapshot(**BUFFERS, missing=("pods",))
        decided, memory = decide(seen, memory, SETTINGS, later(NOW, seconds))
        assert not actions(decided)
        world.nodes |= nodes(9, "new")


@pytest.mark.parametrize(
    ("count", "left"),
    [(9, {}), (11, {"gpu-a": 1}), (14, {"gpu-a": 0, "gpu-b": 1}), (99, {"gpu-a": 0, "gpu-b": 0})],
)
def test_each_node_beyond_max_size_takes_one_unit_of_one_of_the_buffers(count: int, left: dict[str, int]) -> None:
    own = PoolBuffers({shape: StoredObject(Metadata(f"gpu-{shape}", "team-a"), {"replicas": 3}) for shape in "ab"})
    before, _ = lowered_buffers_unseen(9, own, "v1beta1", None, 9, because(Reason.PAUSED))
    _, lowered = lowered_buffers_unseen(9, own, "v1beta1", before, count, because(Reason.PAUSED))
    assert {action.key.name: action.replicas for action in lowered} == left


def test_a_buffer_of_a_paused_pool_without_a_max_size_stays() -> None:
    world = buffering()
    _, memory = step(world, Memory())
    world.add(*(work(f"job-{name}", name) for name in world.nodes))
    world.change_pool(paused=True, max_size=None)
    decided, _ = step(world, memory, 10.0)
    assert (decided.pools[0].because.reason, actions(decided)) == (Reason.PAUSED, [])


@pytest.mark.parametrize(("spec", "units"), [({}, 0), ({"replicas": None}, 0), ({"replicas": 3}, 3)])
def test_a_buffer_that_says_no_number_has_no_units(spec: dict[str, Any], units: int) -> None:
    """Such as one whose size somebody gave as a percentage."""
    assert PoolBuffers({"a": StoredObject(Metadata("gpu-a", "team-a"), spec)}).units == units
