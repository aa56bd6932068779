"""Growth under an allowance: in lanes, and with balloons that were preempted and wait again."""

from hypothesis import given
from hypothesis import strategies as st

from balloons.api.pool import Mode, PoolNodes, PoolSpec
from balloons.balloon_manifest import ImageSettings
from balloons.decide.decide import Purse, decide
from balloons.decide.decision_and_reasons import Memory
from balloons.decide.wanted_and_chosen_nodes import target
from tests.unit.balloons.decide.test_wanted_and_chosen_nodes import supply_of
from tests.world import NOW, POOL_KEY, World, a_lane, a_node, a_pool, later, work
from throttler.kube.selectors import LabelSelector, Requirement
from throttler.levers.lever_and_reasons import Lane

GPU, CPU = LabelSelector({"pool": "gpu"}), LabelSelector({"pool": "cpu"})
SETTINGS = ImageSettings()
HEADROOM = PoolSpec(PoolNodes(GPU), Mode.HEADROOM, size=10, max_size=100)
COUNTS = st.integers(0, 50)


def test_pools_take_from_the_lane_that_paces_their_nodes() -> None:
    purse = Purse((Lane(GPU, 3), Lane(CPU, 5)))
    gpu, cpu = a_pool("gpu"), a_pool("cpu", nodes=PoolNodes(CPU))
    purse.take(gpu, 2)
    assert (purse.left(gpu), purse.left(cpu)) == (1, 5)


def test_a_pool_whose_nodes_nobody_paces_is_not_bounded() -> None:
    purse = Purse((Lane(CPU, 5), Lane(LabelSelector(match_expressions=(Requirement("pool", "In", ("web",)),)), 1)))
    assert purse.left(a_pool("gpu")) is None


def test_a_pool_whose_expressions_tell_takes_from_no_other_lane() -> None:
    """It was bounded by the throttle that came first, with whose nodes it has nothing to do."""
    both = LabelSelector(match_expressions=(Requirement("pool", "In", ("gpu", "tpu")),))
    assert Purse((Lane(CPU, 3), Lane(GPU, 5))).left(a_pool("gpu", nodes=PoolNodes(both))) == 5


def test_a_pool_is_paced_where_its_labels_do_not_tell() -> None:
    assert Purse((Lane(LabelSelector({"zone": "a"}), 4),)).left(a_pool("gpu")) == 4


def test_a_lane_without_a_number_bounds_nobody() -> None:
    purse = Purse((Lane(GPU, None, is_shut=True),))
    purse.take(a_pool("gpu"), 5)
    assert purse.left(a_pool("gpu")) is None
    assert purse.is_shut(a_pool("gpu"))
    assert not purse.is_shut(a_pool("cpu", nodes=PoolNodes(CPU)))


def test_preempted_balloons_that_wait_again_are_growth_like_any_other() -> None:
    aim = target(HEADROOM, None, supply_of(busy=8, holdable=0, total=8), asked=8, allowance=3, granted=0)
    assert (aim.wait, aim.starts, aim.granted, aim.lacking) == (3, 3, 3, 10)


def test_what_waited_before_anybody_paced_it_may_stay() -> None:
    aim = target(HEADROOM, None, supply_of(busy=0, holdable=2, total=2), asked=8, allowance=0, granted=None)
    assert (aim.wait, aim.starts, aim.granted) == (8, 0, 8)


@given(COUNTS, COUNTS, COUNTS, st.integers(0, 20))
def test_no_more_nodes_start_than_the_allowance_says(asked: int, granted: int, joining: int, allowance: int) -> None:
    supply = supply_of(busy=0, holdable=0, joining=joining, total=joining)
    aim = target(HEADROOM, None, supply, asked, allowance, granted)
    assert aim.starts <= allowance
    assert aim.granted is not None
    assert aim.granted <= granted + allowance
    assert aim.wait <= aim.lacking


def test_a_burst_that_preempts_balloons_does_not_make_the_cluster_grow_at_once() -> None:
    nodes = {name: a_node(name) for name in (f"n{i}" for i in range(6))}
    world = World.of(a_pool(mode=Mode.HEADROOM, size=6, max_size=50), nodes=nodes)
    decided, memory = decide(world.snapshot(), Memory(), SETTINGS, NOW, a_lane(0))
    world.apply(decided)
    world.settle()
    world.add(*(work(f"burst-{i}") for i in range(6)))
    world.settle()
    world.settle()
    waiting = world.snapshot().unbound[POOL_KEY]
    assert len(waiting) == 6, "the ReplicaSet has put new balloons in the place of those that were preempted"
    for seconds, replicas in ((1, 2), (2, 4), (3, 6), (4, 6)):
        decided, memory = decide(world.snapshot(), memory, SETTINGS, later(NOW, seconds), a_lane(2))
        world.apply(decided)
        world.settle()
        assert world.replicas() == replicas
