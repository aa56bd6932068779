"""Alike nodes are judged together, so that pods which fit nowhere cost little however many nodes there are."""

import msgspec
import pytest

from balloons.decide import places
from balloons.decide.decide import decide
from balloons.decide.fit import PodClass, admits
from balloons.decide.memory import Memory
from balloons.decide.plan import ReleaseBalloon
from balloons.decide.settings import DecideSettings
from tests.world import NOW, World, a_pool, later, nodes, work
from throttler.kube.node import Node


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


def test_looking_stops_at_the_budget_and_goes_on_next_time(
    looked_at: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "MOST_LOOKS", 5)
    world = World.of(a_pool(), nodes=nodes(10))
    for i in range(10):
        world.add(work(f"job-{i}"))
    plan, memory = decide(world.snapshot(), Memory(), DecideSettings(), NOW)
    assert len(looked_at) == 5
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
