"""Joining nodes become sick by time that passes, not by a wall clock that is set."""

from dataclasses import replace
from datetime import timedelta

import pytest

from balloons.decide.census import JOIN_LIMIT_S
from balloons.decide.decide import decide
from balloons.decide.memory import Memory
from balloons.decide.settings import DecideSettings
from balloons.view.snapshot import Now
from tests.world import NOW, World, a_node, a_pool, later


def sick_count(world: World, memory: Memory, now: Now) -> tuple[int, Memory]:
    plan, memory = decide(world.snapshot(), memory, DecideSettings(), now)
    return plan.pools[0].status.sick, memory


def a_world_with_a_joining_node() -> World:
    node = a_node("new", is_ready=False, conditions=frozenset(), created_s=NOW.wall.timestamp() - 60)
    return World.of(a_pool(), nodes={"new": node})


@pytest.mark.parametrize("step", [timedelta(hours=1), timedelta(days=-1), timedelta(days=4000)])
def test_a_step_of_the_wall_clock_makes_no_joining_node_sick(step: timedelta) -> None:
    world = a_world_with_a_joining_node()
    sick, memory = sick_count(world, Memory(), NOW)
    assert sick == 0
    sick, _ = sick_count(world, memory, replace(later(NOW, 10), wall=NOW.wall + step))
    assert sick == 0


def test_a_node_that_does_not_become_ready_in_time_is_sick() -> None:
    world = a_world_with_a_joining_node()
    _, memory = sick_count(world, Memory(), NOW)
    assert sick_count(world, memory, later(NOW, JOIN_LIMIT_S - 61))[0] == 0
    assert sick_count(world, memory, later(NOW, JOIN_LIMIT_S - 60))[0] == 1


def test_a_node_from_the_future_is_joining() -> None:
    node = a_node("new", is_ready=False, conditions=frozenset(), created_s=NOW.wall.timestamp() + 3600)
    assert sick_count(World.of(a_pool(), nodes={"new": node}), Memory(), NOW)[0] == 0


def test_what_is_remembered_of_a_node_goes_with_its_readiness() -> None:
    world = a_world_with_a_joining_node()
    _, memory = sick_count(world, Memory(), NOW)
    world.change_node("new", is_ready=True)
    _, memory = sick_count(world, memory, later(NOW, 5))
    assert memory.unready_since_s == {}
