"""Machines that are late: told, and not reckoned with; slowness of all makes nobody late."""

from tests.unit.throttler.joins.cluster import CNI, LOGS, a_claim, a_node, a_world, daemons_on
from tests.unit.throttler.joins.test_count_joins import Story
from throttler.joins.joining_nodes import LEAST_JOIN_S
from throttler.joins.joins import Joins, JoinWorld
from throttler.joins.requested_machines import LEAST_BOOT_S
from throttler.kube.node import KARPENTER_POOL_LABEL


def ordered(*names: str, came: tuple[str, ...] = (), at: tuple[float, ...] = ()) -> JoinWorld:
    """Claims by name, made `at` seconds after the story's beginning; `came` have registered and are usable nodes."""
    times = dict(zip(names, at or (0.0,) * len(names), strict=True))
    claims = tuple(a_claim(name, age_s=-times[name], is_registered=name in came) for name in names)
    nodes = [a_node(name, age_s=-1.0, labels={KARPENTER_POOL_LABEL: "a"}) for name in came]
    return a_world(*nodes, pods=[pod for name in came for pod in daemons_on(name, CNI, LOGS)], claims=claims)


def with_dead(seconds: float) -> Joins:
    """Two of three machines never register; the third and one that was ordered later boot for a minute each."""
    story, first = Story(), ("dead-1", "dead-2", "good-1")
    story.after(0, a_world())
    story.after(10, ordered(*first, at=(10, 10, 10)))
    story.after(60, ordered(*first, "good-2", came=("good-1",), at=(10, 10, 10, 70)))
    world = ordered(*first, "good-2", came=("good-1", "good-2"), at=(10, 10, 10, 70))
    story.after(60, world)
    return story.after(seconds, world)


def test_a_machine_that_later_ones_have_passed_is_late_after_three_boots() -> None:
    assert with_dead(LEAST_BOOT_S - 130).late == 0
    joins = with_dead(LEAST_BOOT_S)
    assert (joins.booting, joins.late_booting, joins.in_flight, joins.oldest_booting_s) == (2, 2, 2, 0.0)


def test_machines_that_never_come_do_not_lengthen_the_boots_of_those_that_do() -> None:
    assert with_dead(LEAST_BOOT_S).boot_s == 60.0


def test_a_late_machine_is_lost_at_its_timer() -> None:
    joins = with_dead(900)
    assert (joins.late, joins.booting, joins.lost) == (0, 0, 2)


def test_where_all_are_slow_nobody_is_late() -> None:
    story = Story()
    story.after(0, a_world())
    story.after(10, ordered("a", at=(10,)))
    story.after(60, ordered("a", came=("a",), at=(10,)))
    slow = ordered("a", "b", "c", came=("a",), at=(10, 70, 75))
    story.after(10, slow)
    assert story.after(600, slow).late == 0


def test_before_the_first_has_come_nobody_is_late() -> None:
    story = Story()
    story.after(0, a_world())
    assert [story.after(300, ordered("a", "b")).late for _ in range(2)] == [0, 0]


def test_another_pool_may_boot_for_longer() -> None:
    story = Story()
    story.after(0, a_world())
    gpu = a_claim("gpu", age_s=-10.0, **{KARPENTER_POOL_LABEL: "gpu"})
    for seconds, came in ((10, ()), (60, ("a",))):
        world = ordered("a", came=came, at=(20,))
        story.after(seconds, JoinWorld(**{**fields_of(world), "claims": (*world.claims, gpu)}))
    assert story.after(600, JoinWorld(**{**fields_of(world), "claims": (*world.claims, gpu)})).late == 0


def fields_of(world: JoinWorld) -> dict[str, object]:
    return {name: getattr(world, name) for name in JoinWorld.__dataclass_fields__}


def test_a_node_that_never_gets_ready_is_late_after_five_joins() -> None:
    story = Story()
    story.after(0, a_world())
    broken = a_node("broken", is_ready=False)
    story.after(10, a_world(broken))
    story.after(10, a_world(broken, a_node("good", is_ready=False)))
    joined = a_world(broken, a_node("good"), pods=daemons_on("good", CNI, LOGS))
    assert story.after(20, joined).late == 0
    joins = story.after(LEAST_JOIN_S, joined)
    assert (joins.joining, joins.late_joining, joins.joined, joins.oldest_joining_s) == (1, 1, 1, 0.0)
    joins = story.after(900, joined)
    assert (joins.joining, joins.late, joins.lost) == (0, 0, 1)


def test_on_servers_that_stand_still_no_join_is_late() -> None:
    story = Story()
    story.after(0, a_world())
    story.after(10, a_world(a_node("good", is_ready=False)))
    nodes = [a_node(f"n{i}", is_ready=False) for i in range(5)]
    joined = a_world(a_node("good"), *nodes, pods=daemons_on("good", CNI, LOGS))
    story.after(20, joined)
    assert story.after(600, joined).late == 0
