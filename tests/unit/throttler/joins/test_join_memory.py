"""Machines that are late: told, and not reckoned with; slowness of all makes nobody late."""

from dataclasses import replace

import pytest

from tests.unit.throttler.joins.cluster import CNI, LOGS, RULES, a_claim, a_node, a_world, daemons_on
from tests.unit.throttler.joins.test_count_joins import Story
from throttler.joins.join_memory import NONE_YET, Durations, JoinMemory, Usual, learned
from throttler.joins.joins import Joins, JoinWorld
from throttler.kube.node import KARPENTER_POOL_LABEL
from throttler.kube.taints import Taint

MOST_POOLS = 2000
"""As it is today: a figure that a test imports may change unnoticed."""


def ordered(*names: str, came: tuple[str, ...] = (), at: tuple[float, ...] = ()) -> JoinWorld:
    """Claims by name, made `at` seconds after the story's beginning; `came` have registered and are usable nodes."""
    times = dict(zip(names, at or (0.0,) * len(names), strict=True))
    claims = tuple(a_claim(name, age_s=-times[name], is_registered=name in came) for name in names)
    nodes = [a_node(name, age_s=-1.0, labels={KARPENTER_POOL_LABEL: "a"}) for name in came]
    return a_world(*nodes, pods=[pod for name in came for pod in daemons_on(name, CNI, LOGS)], claims=claims)


def with_dead(seconds: float, boot_s: float = 60.0) -> Joins:
    """Two of three machines never register; the third and one that was ordered later take as long as usual to boot."""
    story, first = Story(), ("dead-1", "dead-2", "good-1")
    story.after(0, a_world())
    story.after(10, ordered(*first, at=(10, 10, 10)))
    at = (10, 10, 10, 10 + boot_s)
    story.after(boot_s, ordered(*first, "good-2", came=("good-1",), at=at))
    world = ordered(*first, "good-2", came=("good-1", "good-2"), at=at)
    story.after(boot_s, world)
    return story.after(seconds, world)


@pytest.mark.parametrize(("boot_s", "after_s"), [(20.0, 120.0), (60.0, 120.0), (90.0, 180.0)])
def test_a_machine_that_later_ones_have_passed_is_late_after_two_boots_and_two_minutes(
    boot_s: float, after_s: float
) -> None:
    waited_s = after_s - 2 * boot_s
    assert with_dead(waited_s, boot_s).late == 0
    joins = with_dead(waited_s + 1, boot_s)
    assert (joins.booting, joins.late_booting, joins.in_flight, joins.oldest_booting_s) == (2, 2, 2, 0.0)


def test_a_machine_that_boots_at_the_first_look_is_an_order() -> None:
    story = Story()
    story.after(0, ordered("a"))
    assert story.memory.ordered_s == story.now_s


def test_machines_that_never_come_do_not_lengthen_the_boots_of_those_that_do() -> None:
    assert with_dead(120).boot_s == 60.0


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


@pytest.mark.parametrize(("join_s", "after_s"), [(30, 180), (60, 300)])
def test_a_node_that_never_gets_ready_is_late_after_five_joins_and_three_minutes(join_s: float, after_s: float) -> None:
    story = Story()
    story.after(0, a_world())
    broken = a_node("broken", is_ready=False)
    story.after(10, a_world(broken))
    story.after(10, a_world(broken, a_node("good", is_ready=False)))
    joined = a_world(broken, a_node("good"), pods=daemons_on("good", CNI, LOGS))
    assert story.after(join_s - 10, joined).late == 0
    assert story.after(after_s - join_s - 10, joined).late == 0
    joins = story.after(1, joined)
    assert (joins.joining, joins.late_joining, joins.joined, joins.oldest_joining_s) == (1, 1, 1, 0.0)
    joins = story.after(900, joined)
    assert (joins.joining, joins.late, joins.lost) == (0, 0, 1)


def test_late_joins_do_not_hide_what_the_others_wait_for() -> None:
    """Three of three wait for pods that are not made; the five that are late never get Ready."""
    story = Story()
    story.after(0, a_world())
    broken = [a_node(f"broken-{number}", is_ready=False) for number in range(5)]
    story.after(10, a_world(*broken))
    story.after(10, a_world(*broken, a_node("good", is_ready=False)))
    there = [*broken, a_node("good")], daemons_on("good", CNI, LOGS)
    story.after(20, a_world(*there[0], pods=there[1]))
    bare = [a_node(f"bare-{number}", age_s=-220.0) for number in range(3)]
    joins = story.after(180, a_world(*there[0], *bare, pods=there[1], index=1.0))
    assert (joins.joining, joins.late_joining) == (8, 5)
    assert story.after(6, a_world(*there[0], *bare, pods=there[1], index=1.0)).is_controller_bound


def test_on_servers_that_stand_still_no_join_is_late() -> None:
    story = Story()
    story.after(0, a_world())
    story.after(10, a_world(a_node("good", is_ready=False)))
    nodes = [a_node(f"n{i}", is_ready=False) for i in range(5)]
    joined = a_world(a_node("good"), *nodes, pods=daemons_on("good", CNI, LOGS))
    story.after(20, joined)
    assert story.after(600, joined).late == 0


@pytest.mark.parametrize(
    ("began_s", "now_s", "is_late"),
    [(9.0, 129.0, False), (9.0, 129.1, True), (10.0, 999.0, False), (11.0, 999.0, False)],
)
def test_late_is_what_began_before_one_that_came_and_takes_twice_as_long_and_more_than_the_least(
    began_s: float, now_s: float, *, is_late: bool
) -> None:
    quick = Usual(Durations((30.0,)), newest_s=10.0)
    assert quick.is_late(began_s, now_s, 2.0, 120.0) is is_late


def test_late_goes_by_the_usual_time_where_that_is_long_and_nobody_is_late_before_the_first() -> None:
    slow = Usual(Durations((90.0, 110.0)), newest_s=10.0)
    assert [slow.is_late(0.0, now_s, 2.0, 120.0) for now_s in (200.0, 200.1)] == [False, True]
    assert not NONE_YET.is_late(-1e9, 1e9, 2.0, 120.0)
    assert Usual(newest_s=10.0).is_late(0.0, 120.1, 2.0, 120.0), "how long the others took is not known"


def test_what_came_is_learned_by_pool_and_an_older_one_makes_none_younger() -> None:
    found = learned({}, [("a", 50.0, 10.0), ("b", 70.0, 30.0), ("a", 40.0, 20.0)])
    assert found == {"a": Usual(Durations((10.0, 20.0)), 50.0), "b": Usual(Durations((30.0,)), 70.0)}
    assert learned(found, [("b", 80.0, 50.0)])["b"] == Usual(Durations((30.0, 50.0)), 80.0)
    assert learned(found, []) == found


def test_of_durations_the_latest_twenty_count_and_none_is_below_nothing() -> None:
    times = Durations().and_then([-5.0, *map(float, range(1, 21))])
    assert (len(times.latest), times.latest[0], times.mean_s) == (20, 1.0, 10.5)
    assert Durations().and_then([-5.0]).latest == (0.0,)
    assert times.and_then([]) is times
    assert Durations().mean_s is None


@pytest.mark.parametrize(("latest", "spread_s"), [((), 0.0), ((1.0, 9.0), 0.0), ((1.0, 1.0, 7.0), 8**0.5)])
def test_a_spread_is_told_from_three_on(latest: tuple[float, ...], spread_s: float) -> None:
    assert Durations(latest).spread_s == pytest.approx(spread_s)


@pytest.mark.parametrize(
    ("created_s", "first_s"), [(95.0, 1045.0), (50.0, 1000.0), (49.0, 1000.0), (100.0, 1050.0), (1e9, 1050.0)]
)
def test_what_is_new_began_no_sooner_than_the_last_count_and_no_later_than_now(
    created_s: float, first_s: float
) -> None:
    """It is second 1050 of the one clock and 100 of the other; the last count was 50 s ago."""
    assert JoinMemory(counted_s=1000.0).first_s(created_s, 100.0, 1050.0) == first_s
    assert JoinMemory().first_s(-900.0, 100.0, 1050.0) == 50.0


def test_at_its_timer_a_machine_still_boots_and_just_after_it_is_lost() -> None:
    story = Story()
    story.after(0, a_world())
    world = a_world(claims=(a_claim("c"),))
    assert [story.after(seconds, world).booting for seconds in (10, 890, 0.1)] == [1, 1, 0]
    assert story.after(10, world).lost == 1


@pytest.mark.parametrize(("seconds", "lost"), [(840, 0), (840.1, 1)])
def test_a_machine_that_goes_in_the_last_minute_before_its_timer_was_given_up(seconds: float, lost: int) -> None:
    story = Story()
    story.after(0, a_world())
    story.after(0, a_world(claims=(a_claim("c"),)))
    assert story.after(seconds, a_world()).lost == lost


def test_at_its_timer_a_node_still_joins_and_just_after_it_is_lost() -> None:
    story = Story()
    story.after(0, a_world())
    world = a_world(a_node("a", age_s=-10, is_ready=False))
    assert [story.after(seconds, world).joining for seconds in (10, 900, 0.1)] == [1, 1, 0]
    assert story.after(10, world).lost == 1


def test_a_node_whose_daemon_pods_do_not_start_joins_for_five_minutes() -> None:
    story = Story()
    story.after(0, a_world())
    stuck = a_world(a_node("a"), pods=[*daemons_on("a", CNI), *daemons_on("a", LOGS, is_running=False)])
    assert [story.after(seconds, stuck).joining for seconds in (10, 300, 0.1)] == [1, 1, 0]


@pytest.mark.parametrize(("age_s", "joining"), [(900, 1), (900.1, 0)])
def test_a_node_that_a_start_finds_older_than_its_timer_is_no_join(age_s: float, joining: int) -> None:
    found = Story().after(0, a_world(a_node("a", age_s=age_s, is_ready=False)))
    assert (found.joining, found.registered, found.lost) == (joining, 1, 0)


def test_a_node_that_a_start_finds_held_for_longer_than_its_timer_is_held_still() -> None:
    rules = replace(RULES, taint_key="example.com/paced")
    paced = a_node("a", age_s=5000, taints=(Taint("example.com/paced", "NoSchedule"),))
    assert Story(rules).after(0, a_world(paced)).held == 1
    assert Story(RULES).after(0, a_world(paced)).registered == 1


@pytest.mark.parametrize(("seconds", "registered"), [(59.9, 1), (60.0, 0)])
def test_labels_of_nodes_that_have_joined_are_read_again_after_a_minute(seconds: float, registered: int) -> None:
    story, pods = Story(), daemons_on("a", CNI, LOGS)
    story.after(0, a_world(a_node("a"), pods=pods))
    assert story.after(seconds, a_world(a_node("a", labels={"pool": "b"}), pods=pods)).registered == registered


def test_node_pools_without_end_do_not_fill_the_memory() -> None:
    """Some clusters have a NodePool for each job, which is deleted with it."""
    usual: dict[str, Usual] = {}
    for number in range(MOST_POOLS + 50):
        usual = learned(usual, [(f"job-{number}", float(number), 10.0), ("lasting", float(number), 20.0)])
    assert len(usual) == MOST_POOLS
    assert usual.keys() >= {"lasting", f"job-{MOST_POOLS + 49}"}
    assert "job-0" not in usual
