"""Alike nodes are judged together, so that pods which fit nowhere cost little however many nodes there are."""

from collections.abc import Mapping

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from balloons.decide import places, release
from balloons.decide.decide import decide
from balloons.decide.fit import PodClass, admits
from balloons.decide.memory import Memory
from balloons.decide.plan import ReleaseBalloon
from balloons.decide.release import reserve
from balloons.decide.settings import DecideSettings
from tests.world import NOW, World, a_pool, later, nodes, work
from throttler.kube.node import Node
from throttler.kube.pod import Scheduling
from throttler.kube.selectors import Taint


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the nodes that were looked at one by one."""
    names: list[str] = []

    def spy(node: Node, wanted: PodClass) -> bool:
        names.append(node.name)
        return admits(node, wanted)

    monkeypatch.setattr(places, "admits", spy)
    return names


def test_no_node_is_looked_at_for_pods_larger_than_all_of_them(looked_at: list[str]) -> None:
    world = World.of(a_pool(), nodes=nodes(400))
    for i in range(64):
        world.add(work(f"huge-{i}", cpu=str(100 + i)))
    decide(world.snapshot(), Memory(), DecideSettings(), NOW)
    assert looked_at == []


def test_classes_of_others_cost_one_look_per_group_of_nodes(looked_at: list[str]) -> None:
    """30 classes that select other teams' nodes used up every look at 7,500 nodes, at each decision."""
    world = World.of(a_pool(), nodes=nodes(400))
    for i in range(30):
        elsewhere = Scheduling(is_tried=True, node_selector={"team": f"t{i}"})
        world.add(work(f"other-{i}", cpu="8", priority=5, scheduling=elsewhere))
    world.add(*(work(f"own-{i}") for i in range(4)))
    _, memory = decide(world.snapshot(), Memory(), DecideSettings(), NOW)
    assert len(looked_at) == 31
    assert len(memory.reserved_since_s) == 4


def test_a_class_that_names_its_host_gets_that_one() -> None:
    world = World.of(a_pool(), nodes=nodes(5))
    here = Scheduling(is_tried=True, node_selector={"kubernetes.io/hostname": "n003"})
    found = reserve([work("w", scheduling=here)], [], list(world.nodes.values()), {}, {}, DecideSettings(), -10, NOW)
    assert set(found.taker) == {"n003"}


def test_nodes_with_other_taints_are_no_group_of_the_clean_ones() -> None:
    members = nodes(2)
    members["n000"] = msgspec.structs.replace(members["n000"], taints=(Taint("team", "NoSchedule"),))
    found = reserve([work("w")], [], list(members.values()), {}, {}, DecideSettings(), -10, NOW)
    assert set(found.taker) == {"n001"}


@given(
    blockers=st.integers(0, 9),
    fitting=st.integers(1, 5),
    most=st.integers(1, 4),
)
def test_every_class_is_looked_at_in_turn(blockers: int, fitting: int, most: int) -> None:
    """Gangs that fit nowhere hid the 65th, which fits, for ever."""
    pods = []
    for i in range(blockers):
        how = Scheduling(is_tried=True, gang=f"big-{i}")
        pods += [work(f"big-{i}-{k}", priority=5, scheduling=how) for k in range(fitting + 1)]
    pods += [work(f"own-{k}", scheduling=Scheduling(is_tried=True, gang="own")) for k in range(fitting)]
    members, limits = list(nodes(fitting).values()), DecideSettings()
    since_s: Mapping[str, float] = {}
    looked: frozenset[tuple[object, ...]] = frozenset()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(release, "MOST_CLASSES", most)
        for second in range(blockers // most + 1):
            found = reserve(pods, [], members, {}, since_s, limits, -10, later(NOW, second), looked)
            since_s, looked = found.since_s, found.looked
        assert len(found.taker) == fitting
        for second in range(20, 25):
            found = reserve(pods, [], members, {}, since_s, limits, -10, later(NOW, second), looked)
            since_s, looked = found.since_s, found.looked
            assert len(found.taker) == fitting, "a class that was given nodes keeps them"


def test_looking_stops_at_the_budget_and_goes_on_next_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "MOST_LOOKS", 5)
    world = World.of(a_pool(), nodes=nodes(10))
    for i in range(10):
        world.add(work(f"job-{i}"))
    plan, memory = decide(world.snapshot(), Memory(), DecideSettings(), NOW)
    assert len(memory.reserved_since_s) == 5
    world.apply(plan)
    world.settle()
    assert sum(1 for pod in world.pods.values() if pod.node and pod.key.namespace == "jobs") == 10


def test_balloons_are_released_in_the_order_in_which_their_replicaset_would_remove_them() -> None:
    """Otherwise the ReplicaSet, lowered just before, removes others, and twice as many go."""
    world = World.of(a_pool(), nodes=nodes(6))
    plan, memory = decide(world.snapshot(), Memory(), DecideSettings(), NOW)
    world.apply(plan)
    world.settle()
    born = {b.key: msgspec.structs.replace(b, created_s=NOW.wall.timestamp() - 5000) for b in world.balloons()}
    young = sorted(born)[-1]
    born[young] = msgspec.structs.replace(born[young], created_s=NOW.wall.timestamp() - 100)
    world.add(*born.values())
    world.add(*(work(f"job-{i}") for i in range(3)))
    plan, _ = decide(world.snapshot(), memory, DecideSettings(), later(NOW, 1))
    released = [a.uid for a in plan.pools[0].actions if isinstance(a, ReleaseBalloon)]
    oldest = sorted(b.uid for key, b in born.items() if key != young)
    assert set(released) == {born[young].uid, *oldest[:2]}
