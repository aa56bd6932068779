"""Views that are not believed, and removals that are limited."""

from balloons.decide.decide import decide
from balloons.decide.memory import Memory
from balloons.decide.plan import Action, ApplyObject, MarkBalloon, Plan
from balloons.decide.pool_reasons import Reason
from balloons.decide.settings import DecideSettings
from tests.world import NOW, World, a_pool, later, nodes

SETTINGS = DecideSettings()


def held(count: int, size: int | None = None) -> tuple[World, Memory]:
    """A world at rest with that many held nodes."""
    world, memory = World.of(a_pool(size=size), nodes=nodes(count)), Memory()
    for _ in range(2):
        plan, memory = decide(world.snapshot(), memory, SETTINGS, NOW)
        world.apply(plan)
        world.settle()
    return world, memory


def actions(plan: Plan) -> list[Action]:
    return [action for decision in plan.pools for action in decision.actions]


def why(plan: Plan) -> Reason:
    return plan.pools[0].because.reason


def lose(world: World, count: int) -> None:
    for name in sorted(world.nodes)[:count]:
        world.remove_node(name)


def test_an_incomplete_view_freezes_every_pool() -> None:
    world, memory = held(5)
    plan, after = decide(world.snapshot(missing=("nodes",)), memory, SETTINGS, NOW)
    assert (why(plan), actions(plan), after) == (Reason.INCOMPLETE_VIEW, [], memory)


def test_a_stale_view_freezes_every_pool() -> None:
    world, memory = held(5)
    world.change_pool(size=1)
    assert why(decide(world.snapshot(age_s=75.1), memory, SETTINGS, NOW)[0]) is Reason.STALE_VIEW
    assert actions(decide(world.snapshot(age_s=75.0), memory, SETTINGS, NOW)[0])


def test_a_pool_that_loses_too_many_held_nodes_is_frozen() -> None:
    world, memory = held(10)
    lose(world, 3)
    plan, _ = decide(world.snapshot(), memory, SETTINGS, NOW)
    assert (why(plan), actions(plan)) == (Reason.SHRUNKEN_VIEW, [])


def test_a_fifth_may_go_without_a_freeze() -> None:
    world, memory = held(15)
    lose(world, 3)
    assert why(decide(world.snapshot(), memory, SETTINGS, NOW)[0]) is not Reason.SHRUNKEN_VIEW


def test_small_pools_may_lose_two_nodes() -> None:
    world, memory = held(3)
    lose(world, 2)
    assert why(decide(world.snapshot(), memory, SETTINGS, NOW)[0]) is not Reason.SHRUNKEN_VIEW


def test_a_freeze_ends_when_the_nodes_return() -> None:
    world, memory = held(10)
    gone = dict(world.nodes), dict(world.pods)
    lose(world, 5)
    _, memory = decide(world.snapshot(), memory, SETTINGS, NOW)
    world.nodes, world.pods = gone
    plan, memory = decide(world.snapshot(), memory, SETTINGS, later(NOW, 1))
    assert (why(plan), memory.pools[world.pools.copy().popitem()[0]].shrunken_since_s) == (Reason.STEADY, None)


def test_a_view_that_lasts_is_believed() -> None:
    world, memory = held(10)
    lose(world, 5)
    _, memory = decide(world.snapshot(), memory, SETTINGS, NOW)
    assert why(decide(world.snapshot(), memory, SETTINGS, later(NOW, 299))[0]) is Reason.SHRUNKEN_VIEW
    assert actions(decide(world.snapshot(), memory, SETTINGS, later(NOW, 300))[0])


def test_sick_nodes_count_as_gone() -> None:
    world, memory = held(10)
    for name in sorted(world.nodes)[:3]:
        world.change_node(name, is_ready=False, created_s=0.0)
    assert why(decide(world.snapshot(), memory, SETTINGS, NOW)[0]) is Reason.SHRUNKEN_VIEW


def test_idle_nodes_that_nobody_held_may_go_in_bulk() -> None:
    world, memory = held(20, size=2)
    for name in [name for name in world.nodes if not any(b.node == name for b in world.balloons())]:
        world.remove_node(name)
    assert why(decide(world.snapshot(), memory, SETTINGS, NOW)[0]) is Reason.STEADY


def test_a_tick_removes_ten_balloons_of_few() -> None:
    world, memory = held(30)
    world.change_pool(size=0)
    plan, _ = decide(world.snapshot(), memory, SETTINGS, NOW)
    assert sum(isinstance(action, MarkBalloon) for action in actions(plan)) == 10
    assert why(plan) is Reason.SHRINK_LIMITED


def test_a_tick_removes_a_fifth_of_many() -> None:
    world, memory = held(60)
    world.change_pool(size=0)
    plan, _ = decide(world.snapshot(), memory, SETTINGS, NOW)
    assert [action.replicas for action in actions(plan) if isinstance(action, ApplyObject)] == [48]


def test_fast_ticks_remove_no_more_than_slow_ones() -> None:
    world, memory = held(30)
    world.change_pool(size=0)
    for tick in range(10):
        plan, memory = decide(world.snapshot(), memory, SETTINGS, later(NOW, tick))
        world.apply(plan)
        world.settle()
    assert len(world.balloons()) == 20
    plan, memory = decide(world.snapshot(), memory, SETTINGS, later(NOW, 10))
    world.apply(plan)
    assert world.replicas() == 10


def test_a_slow_replicaset_never_makes_the_size_rise_again() -> None:
    world, memory = held(100)
    world.change_pool(size=60)
    sizes = []
    for tick in range(25):
        plan, memory = decide(world.snapshot(), memory, SETTINGS, later(NOW, tick))
        world.apply(plan)
        sizes.append(world.replicas())
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[9] == 80, "one period's share, though nothing has gone yet"


def test_victims_are_marked_before_the_size_is_lowered() -> None:
    world, memory = held(5)
    world.change_pool(size=3)
    kinds = [type(action) for action in actions(decide(world.snapshot(), memory, SETTINGS, NOW)[0])]
    assert kinds == [MarkBalloon, MarkBalloon, ApplyObject]


def test_a_mark_goes_when_the_balloon_is_wanted_again() -> None:
    world, memory = held(5)
    world.change_pool(size=3)
    plan, memory = decide(world.snapshot(), memory, SETTINGS, NOW)
    world.apply(plan)
    world.change_pool(size=5)
    plan, memory = decide(world.snapshot(), memory, SETTINGS, NOW)
    assert [a.cost for a in actions(plan) if isinstance(a, MarkBalloon)] == [0, 0]
    world.apply(plan)
    assert not actions(decide(world.snapshot(), memory, SETTINGS, NOW)[0])
