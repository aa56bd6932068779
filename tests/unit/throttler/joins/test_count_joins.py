"""Counting joins over time: each test tells a short story tick by tick."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.throttler.joins.cluster import (
    CNI,
    LOGS,
    RULES,
    UNREGISTERED,
    WALL_S,
    a_claim,
    a_node,
    a_world,
    daemons_on,
    pending,
)
from throttler.joins.count_joins import count_joins, is_controller_bound
from throttler.joins.join_memory import JoinMemory
from throttler.joins.joins import JoinRules, Joins, JoinWorld
from throttler.kube.cluster_autoscaler import AutoscalerStatus, NodeGroup
from throttler.kube.node import INSTANCE_TYPE_LABEL, KARPENTER_POOL_LABEL, Node
from throttler.kube.pod import Pod, PodKind
from throttler.kube.quantities_and_durations import parse_resources
from throttler.kube.selectors import LabelSelector
from throttler.kube.taints import Taint

WITH_TAINT = JoinRules(nodes=RULES.nodes, taint_key="example.com/paced")
GATE = "example.com/gate"
PACED = Taint("example.com/paced", "NoSchedule")
STUCK_S, VAIN_S = 300.0, 1800.0


class Story:
    """Worlds one after the other, on both clocks."""

    def __init__(self, rules: JoinRules = RULES) -> None:
        self.rules, self.memory, self.now_s = rules, JoinMemory(), 1000.0

    def after(self, seconds: float, world: JoinWorld) -> Joins:
        self.now_s += seconds
        world = replace(world, wall_s=WALL_S + self.now_s - 1000.0)
        joins, self.memory = count_joins(world, self.memory, self.rules, self.now_s)
        return joins


def a_status(target: int, registered: int = 0, *, lost: int = 0, at_s: float = 0.0) -> AutoscalerStatus:
    """cluster-autoscaler with one node group."""
    return AutoscalerStatus((NodeGroup("group", target, registered, lost),), at_s)


def usable(*names: str, **changes: Any) -> dict[str, Any]:
    return {
        "nodes": [a_node(n, **changes) for n in names],
        "pods": [p for n in names for p in daemons_on(n, CNI, LOGS)],
    }


def test_how_long_joins_took_that_ended_while_nothing_was_seen_is_not_guessed() -> None:
    story, hour_s = Story(), 3600.0
    claim, old = a_claim("c1"), a_node("old", age_s=9999)
    story.after(0, a_world(old, claims=(claim,)))
    story.after(5, a_world(old, a_node("n1", age_s=-5), claims=(claim,)))
    there = usable("old", "n1")
    joins = story.after(10, a_world(*there["nodes"], pods=there["pods"], claims=(claim,)))
    assert (joins.joined, joins.join_s) == (1, 10.0)
    there = usable("old", "n1", *(f"spot-{at}" for at in range(20)), age_s=-60)
    come = (a_claim("c1", is_registered=True),)
    joins = story.after(hour_s, a_world(*there["nodes"], pods=there["pods"], claims=come))
    assert (joins.joined, joins.join_s, joins.boot_s) == (21, 10.0, None)


def test_a_daemon_set_whose_pods_do_not_come_is_waited_for_once_on_each_kind_of_node() -> None:
    """Its pods do not fit on small nodes, or a quota refuses them: each such join would hold its place for a quarter of
    an hour, and then count as a machine that was lost."""
    story = Story()

    def joins_of(*names: str, **pods: Any) -> Joins:
        nodes = [a_node(name, age_s=-story.now_s + 1000.0) for name in names]
        return story.after(0, a_world(*nodes, pods=[p for n in names for p in daemons_on(n, CNI, **pods)]))

    story.after(0, a_world())
    assert joins_of("n1").joining == 1
    story.now_s += STUCK_S - 1
    assert joins_of("n1").joining == 1
    story.now_s += 2
    joins = joins_of("n1")
    assert (joins.joining, joins.joined, joins.lost) == (0, 1, 0)
    assert joins.unawaited == ("kube-system/logs",)
    joins = joins_of("n1", "n2", "n3")
    assert (joins.joining, joins.joined) == (0, 3), "the next ones do not wait for it"
    large = a_node("n4", labels={INSTANCE_TYPE_LABEL: "large"}, instance_type="large", age_s=-story.now_s + 1000.0)
    assert story.after(0, a_world(large, pods=daemons_on("n4", CNI))).joining == 1, "it may fit there"
    story.now_s += VAIN_S - 1
    assert joins_of("n5").joining == 0
    story.now_s += 1
    assert joins_of("n6").joining == 1, "it is tried again"


def test_nodes_that_run_no_daemon_pod_at_all_do_not_join_for_ever() -> None:
    """As those that stand for a single pod (Fargate), for agents that tolerate everything."""
    story = Story()
    odd = a_node("odd", labels={INSTANCE_TYPE_LABEL: "virtual"}, instance_type="virtual")
    story.after(0, a_world())
    assert story.after(1, a_world(odd)).joining == 1
    made_s = WALL_S + story.now_s + STUCK_S - 1000.0
    others = [msgspec.structs.replace(pod, created_s=made_s) for pod in daemons_on("n1", CNI)]
    assert story.after(STUCK_S, a_world(odd, a_node("n1"), pods=others)).joining == 2
    joins = story.after(10, a_world(odd, a_node("n1"), pods=others))
    assert (joins.joining, joins.joined, joins.lost) == (1, 1, 0)


def test_a_daemon_set_that_makes_its_pods_slowly_is_waited_for() -> None:
    """The controller manager sends twenty requests a second, and there may be hundreds of nodes and ten DaemonSets."""
    story = Story()
    story.after(0, a_world())
    names = [f"n{number}" for number in range(1, 9)]
    for done in range(9):
        made_s = WALL_S + story.now_s - 1000.0
        late = [msgspec.structs.replace(pod, created_s=made_s) for n in names[:done] for pod in daemons_on(n, LOGS)]
        world = a_world(*map(a_node, names), pods=[*late, *(p for n in names for p in daemons_on(n, CNI))])
        assert story.after(100, world).joining == 8 - done


def test_where_no_daemon_pod_comes_at_all_the_controller_manager_is_waited_for() -> None:
    """It may be away, and will make all of them at once when it is back. Pods of others show nothing of that."""
    story = Story()
    story.after(0, a_world())
    work = msgspec.structs.replace(pending("work"), created_s=WALL_S + STUCK_S, node="n1", kind=PodKind.WORK)
    story.after(1, a_world(a_node("n1"), pods=[work]))
    story.after(100, a_world(a_node("n1"), pods=[work]))
    assert story.after(STUCK_S - 99, a_world(a_node("n1"), pods=[work])).joining == 1
    assert story.after(1, a_world(a_node("n1"), a_node("n2"))).joining == 2


def test_nodes_that_were_there_before_are_no_joins() -> None:
    there = usable("a", "b", age_s=5000)
    broken = a_node("c", age_s=5000, is_ready=False)
    joins = Story().after(0, a_world(*there["nodes"], broken, pods=there["pods"]))
    assert (joins.joining, joins.joined, joins.registered, joins.lost) == (0, 0, 3, 0)


def test_a_join_lasts_from_registration_until_the_daemon_pods_run() -> None:
    story = Story()
    story.after(0, a_world())
    assert story.after(10, a_world(a_node("a", age_s=-8, is_ready=False))).joining == 1
    assert story.after(10, a_world(a_node("a", age_s=-8))).joining == 1
    joins = story.after(10, a_world(a_node("a", age_s=-8), pods=daemons_on("a", CNI, LOGS)))
    assert (joins.joining, joins.joined, joins.join_s) == (0, 1, 22.0)


def test_a_join_that_began_before_a_restart_is_found_again() -> None:
    story = Story()
    joins = story.after(0, a_world(a_node("a", age_s=30, is_ready=False)))
    assert (joins.joining, joins.oldest_joining_s) == (1, 30.0)


def test_a_node_that_breaks_after_its_join_is_no_join() -> None:
    story = Story()
    story.after(0, a_world(*usable("a")["nodes"], pods=daemons_on("a", CNI, LOGS)))
    assert story.after(10, a_world(a_node("a", is_ready=False))).joining == 0


def test_a_node_of_the_same_name_that_comes_later_is_a_new_join() -> None:
    story = Story()
    story.after(0, a_world(*usable("a")["nodes"], pods=daemons_on("a", CNI, LOGS)))
    again = msgspec.structs.replace(a_node("a", age_s=-10, is_ready=False), uid="another")
    joins = story.after(10, a_world(again))
    assert (joins.joining, joins.registered) == (1, 1)


def test_a_node_that_never_gets_ready_leaves_by_the_kill_timer() -> None:
    story = Story()
    story.after(0, a_world())
    never = a_world(a_node("a", is_ready=False))
    assert story.after(10, never).joining == 1
    for seconds in (900, 10):
        joins = story.after(seconds, never)
        assert (joins.joining, joins.lost, joins.joined, joins.registered) == (0, 1, 0, 1)


def test_a_daemon_pod_that_never_starts_does_not_hold_a_place_for_long() -> None:
    story = Story()
    story.after(0, a_world())
    stuck = a_world(a_node("a"), pods=[*daemons_on("a", CNI), *daemons_on("a", LOGS, is_running=False)])
    assert story.after(20, stuck).joining == 1
    assert story.after(290, stuck).joining == 1
    joins = story.after(20, stuck)
    assert (joins.joining, joins.joined, joins.join_s) == (0, 1, 20.0)
    assert story.memory.usual_joins == {}, "it says nothing of how long joins take"


def test_a_node_on_which_no_daemon_pod_is_made_joins_until_its_kill_timer() -> None:
    story = Story()
    story.after(0, a_world())
    bare = a_world(a_node("a"))
    assert [story.after(seconds, bare).joining for seconds in (10, 400, 490, 1)] == [1, 1, 1, 0]


def test_a_node_that_is_being_deleted_joins_no_more() -> None:
    story = Story()
    story.after(0, a_world())
    joins = story.after(10, a_world(a_node("a", is_ready=False, is_deleting=True)))
    assert (joins.joining, joins.registered, joins.joined) == (0, 1, 0)


def test_a_node_that_got_ready_late_has_all_the_time_for_its_daemon_pods() -> None:
    story = Story()
    story.after(0, a_world())
    story.after(10, a_world(a_node("a", is_ready=False)))
    starting = a_world(a_node("a"), pods=daemons_on("a", CNI, LOGS, is_running=False))
    assert [story.after(seconds, starting).joining for seconds in (400, 300, 1)] == [1, 1, 0]


def test_a_held_node_joins_from_its_release_on() -> None:
    story = Story(WITH_TAINT)
    story.after(0, a_world())
    held = a_node("a", is_ready=False, taints=(PACED,))
    joins = story.after(10, a_world(held))
    assert (joins.held, joins.joining, joins.oldest_held_s) == (1, 0, 10.0)
    joins = story.after(100, a_world(a_node("a", is_ready=False)))
    assert (joins.held, joins.joining, joins.oldest_joining_s) == (0, 1, 0.0)
    joins = story.after(30, a_world(a_node("a"), pods=daemons_on("a", CNI, LOGS)))
    assert joins.join_s == 30.0


@pytest.mark.parametrize("order", [(-10.0, -20.0), (-20.0, -10.0)])
def test_of_several_nodes_the_one_that_came_first_is_told(order: tuple[float, float]) -> None:
    for rules, taints, oldest in ((RULES, (), "oldest_joining_s"), (WITH_TAINT, (PACED,), "oldest_held_s")):
        story = Story(rules)
        story.after(0, a_world())
        nodes = [a_node(f"n{-age_s:g}", age_s=age_s, is_ready=False, taints=taints) for age_s in order]
        assert getattr(story.after(30, a_world(*nodes)), oldest) == 20.0


def test_machines_of_karpenter_boot_until_their_node_is_there() -> None:
    story = Story()
    story.after(0, a_world())
    claims = (a_claim("c1", age_s=-5), a_claim("c2", age_s=-6))
    going = a_claim("c3", age_s=-5)
    going = msgspec.structs.replace(
        going, metadata=msgspec.structs.replace(going.metadata, deletion_timestamp=datetime.now(UTC))
    )
    others = (going, a_claim("c4", age_s=-5, pool="b"))
    joins = story.after(10, a_world(claims=(*claims, *others)))
    assert (joins.booting, joins.in_flight, joins.oldest_booting_s) == (2, 2, 5.0)
    node = a_node("n1", age_s=-40, is_ready=False, taints=(UNREGISTERED,))
    joins = story.after(30, a_world(node, claims=claims))
    assert (joins.booting, joins.joining, joins.boot_s) == (1, 1, None)
    registered = (a_claim("c1", age_s=-5, is_registered=True), claims[1])
    joins = story.after(1, a_world(a_node("n1", age_s=-40, is_ready=False), claims=registered))
    assert (joins.booting, joins.joining) == (1, 1)


def test_a_machine_of_karpenter_that_never_arrives_leaves_by_its_timer_and_counts_once() -> None:
    story = Story()
    story.after(0, a_world())
    claims = (a_claim("c1"),)
    assert story.after(10, a_world(claims=claims)).booting == 1
    joins = story.after(900, a_world(claims=claims))
    assert (joins.booting, joins.lost) == (0, 1)
    assert story.after(10, a_world()).lost == 1


def test_a_machine_that_the_autoscaler_gives_up_at_its_timer_is_lost_and_one_cancelled_is_not() -> None:
    story = Story()
    story.after(0, a_world())
    story.after(1, a_world(claims=(a_claim("late"),)))
    story.after(800, a_world(claims=(a_claim("late"), a_claim("early", age_s=-800))))
    assert story.after(60, a_world()).lost == 1


def test_a_machine_that_registers_just_before_its_timer_is_not_lost() -> None:
    story = Story()
    story.after(0, a_world())
    story.after(1, a_world(claims=(a_claim("c"),)))
    came = a_world(a_node("n", age_s=-850, is_ready=False), claims=(a_claim("c", is_registered=True),))
    joins = story.after(850, came)
    assert (joins.booting, joins.joining, joins.lost) == (0, 1, 0)


def test_cluster_autoscaler_tells_what_boots_and_what_registered_since_is_taken_off() -> None:
    story = Story()
    story.after(0, a_world())
    status = a_status(5, at_s=WALL_S + 10)
    assert story.after(10, a_world(autoscaler=status)).booting == 5
    fresh = [a_node(n, age_s=-15, is_ready=False) for n in ("a", "b")]
    karpenters = a_node("c", age_s=-15, is_ready=False, labels={KARPENTER_POOL_LABEL: "p"})
    later = [a_node(name, age_s=-at_s, is_ready=False) for name, at_s in (("before", 9), ("in the same second", 10))]
    joins = story.after(10, a_world(*fresh, karpenters, autoscaler=status))
    assert (joins.booting, joins.joining, joins.boot_s) == (3, 3, 10.0)
    assert story.after(1, a_world(*fresh, karpenters, *later, autoscaler=status)).booting == 2


def test_nothing_is_taken_off_what_cluster_autoscaler_says_without_a_time() -> None:
    story = Story()
    story.after(0, a_world())
    assert story.after(10, a_world(autoscaler=a_status(5))).booting == 5
    assert story.after(10, a_world(a_node("a", age_s=-15, is_ready=False), autoscaler=a_status(5))).booting == 5


def test_what_has_even_become_usable_since_cluster_autoscaler_looked_is_taken_off() -> None:
    story = Story()
    story.after(0, a_world())
    status = a_status(5, at_s=WALL_S + 10)
    story.after(10, a_world(autoscaler=status))
    quick = a_node("a", age_s=-15)
    story.after(10, a_world(quick, autoscaler=status))
    joins = story.after(1, a_world(quick, pods=daemons_on("a", CNI, LOGS), autoscaler=status))
    assert (joins.booting, joins.joining, joins.joined) == (4, 0, 1)
    later = a_status(5, 1, at_s=WALL_S + 25)
    joins = story.after(5, a_world(quick, pods=daemons_on("a", CNI, LOGS), autoscaler=later))
    assert joins.booting == 4


def test_a_node_that_an_older_throttle_selects_is_not_counted() -> None:
    rules = JoinRules(nodes=LabelSelector(), older=(LabelSelector({"pool": "a"}),))
    nodes = [a_node("a", is_ready=False), a_node("b", is_ready=False, labels={"pool": "b"})]
    assert Story(rules).after(0, a_world(*nodes)).joining == 1


def test_a_machine_of_cluster_autoscaler_that_goes_at_its_timer_is_lost() -> None:
    story = Story()
    story.after(0, a_world(autoscaler=a_status(3)))
    joins = story.after(890, a_world(autoscaler=a_status(3, lost=3)))
    assert (joins.booting, joins.lost) == (0, 3)


def test_a_machine_that_cluster_autoscaler_never_gives_up_leaves_by_its_timer_and_counts_once() -> None:
    story = Story()
    story.after(0, a_world(autoscaler=a_status(3)))
    assert story.after(900, a_world(autoscaler=a_status(3))).booting == 3
    joins = story.after(10, a_world(autoscaler=a_status(5)))
    assert (joins.booting, joins.booting_by_groups, joins.lost) == (2, 2, 3)
    joins = story.after(10, a_world(autoscaler=a_status(5, lost=3)))
    assert (joins.booting, joins.lost) == (2, 3)


def test_what_cluster_autoscaler_said_last_is_not_believed_for_ever() -> None:
    said = a_status(5, at_s=WALL_S - 600)
    story = Story()
    assert story.after(0, a_world(autoscaler=said)).booting == 5
    assert story.after(299, a_world(autoscaler=said)).booting == 5
    assert story.after(2, a_world(autoscaler=said)).booting == 0


def test_a_status_that_an_autoscaler_left_behind_days_ago_counts_nothing_after_a_restart_either() -> None:
    assert Story().after(0, a_world(autoscaler=a_status(5, at_s=WALL_S - 86_400))).booting == 0


def test_nodes_of_others_do_not_count_and_one_that_turns_out_to_be_ours_does() -> None:
    story = Story()
    other = a_node("a", is_ready=False, labels={"pool": "b"})
    assert story.after(0, a_world(other)).in_flight == 0
    assert story.after(10, a_world(a_node("a", is_ready=False))).joining == 1
    foreign = msgspec.structs.replace(other, is_ready=True)
    assert story.after(10, a_world(foreign)).registered == 0


def test_a_ready_node_that_is_still_tainted_may_turn_out_to_be_ours() -> None:
    """Karpenter adds labels when it matches Node and NodeClaim, and takes its taint away with it."""
    story = Story()
    assert story.after(0, a_world(a_node("a", labels={"pool": "b"}, taints=(UNREGISTERED,)))).in_flight == 0
    assert story.memory.foreign == frozenset()
    assert story.after(1, a_world(a_node("a", taints=(UNREGISTERED,)))).joining == 1


def test_a_node_whose_labels_change_after_its_join_changes_sides_and_does_not_join_again() -> None:
    story = Story()
    pods = [*daemons_on("a", CNI, LOGS), *daemons_on("b", CNI, LOGS)]
    story.after(0, a_world(a_node("a"), a_node("b", labels={"pool": "b"}), pods=pods))
    story.after(1, a_world(a_node("a"), a_node("b", labels={"pool": "b"}), pods=pods))
    assert (story.memory.settled, story.memory.foreign) == ({"uid-a"}, {"uid-b"})
    swapped = a_world(a_node("a", labels={"pool": "b"}), a_node("b"), pods=pods)
    joins = story.after(60, swapped)
    assert [*story.memory.settled, *story.memory.foreign] == ["uid-b", "uid-a"]
    assert (joins.registered, joins.joining, joins.joined, joins.lost) == (1, 0, 0, 0)
    both = a_world(a_node("a"), a_node("b"), pods=pods)
    assert story.after(60, both).registered == 2


def test_waiting_pods_become_nodes_less_the_machines_that_come_for_them() -> None:
    story = Story()
    there = usable("a", age_s=5000)
    pods = tuple(pending(f"p{i}") for i in range(10))
    world = a_world(*there["nodes"], pods=there["pods"], unplaced=pods, claims=(a_claim("c1"),))
    joins = story.after(0, world)
    assert (joins.waiting, joins.booting, joins.urgent) == (9, 1, 0)


def test_a_joining_node_that_has_its_work_already_comes_for_nobody_else() -> None:
    work = pending("taken")
    bound = msgspec.structs.replace(work, node="a", kind=PodKind.WORK)
    pods = tuple(pending(f"p{i}") for i in range(10))
    joining = a_node("a"), a_node("b")
    assert Story().after(0, a_world(*joining, unplaced=pods)).waiting == 8
    assert Story().after(0, a_world(*joining, pods=[bound], unplaced=pods)).waiting == 9


def test_a_node_that_has_joined_without_its_devices_still_comes_for_the_pods_that_wait() -> None:
    """A kubelet tells what a device plugin brings up to ten seconds after that runs."""
    story = Story(JoinRules(nodes=RULES.nodes, gate=GATE))
    pods = tuple(pending(f"p{i}") for i in range(3))
    story.after(0, a_world(unplaced=pods, claims=[a_claim(f"c{i}") for i in range(3)]))
    story.after(5, a_world(a_node("a", age_s=-5, is_ready=False), unplaced=pods))
    there = usable("a", age_s=-5, is_uninitialized=True)
    joined = story.after(5, a_world(*there["nodes"], pods=there["pods"], unplaced=pods))
    assert (joined.joining, joined.joined, joined.released) == (0, 1, 2), "two machines are still to be ordered"
    whole = usable("a", age_s=-5)
    closed = usable("a", age_s=-5, is_uninitialized=True, is_cordoned=True)
    broken = usable("a", age_s=-5, is_uninitialized=True, is_ready=False)
    for other in (whole, closed, broken):
        assert story.after(1, a_world(*other["nodes"], pods=there["pods"], unplaced=pods)).released == 3
    assert story.after(26.5, a_world(*there["nodes"], pods=there["pods"], unplaced=pods)).released == 2
    assert story.after(0.5, a_world(*there["nodes"], pods=there["pods"], unplaced=pods)).released == 3, "half a minute"
    bound = msgspec.structs.replace(pods[0], node="a", kind=PodKind.WORK)
    assert story.after(5, a_world(*there["nodes"], pods=[*there["pods"], bound], unplaced=pods[1:])).released == 2


def test_small_pods_share_nodes_and_gated_ones_count_where_the_gate_is_ours() -> None:
    there = usable("a", age_s=5000)
    small = tuple(pending(f"p{i}", cpu="2") for i in range(9))
    gated = (pending("g", is_gated=True, is_tried=False, gates=(GATE,)),)
    world = a_world(*there["nodes"], pods=there["pods"], unplaced=small + gated)
    assert Story().after(0, world).waiting == 3
    with_gates = JoinRules(nodes=RULES.nodes, gate=GATE)
    assert Story(replace(with_gates, has_ceiling=True)).after(0, world).waiting == 4
    # Without a ceiling what is not held back gets its machines: it is as good as ordered.
    alone = Story(with_gates).after(0, world)
    assert (alone.waiting, alone.booting, alone.released) == (1, 3, 3)


def test_the_first_node_tells_at_once_how_many_pods_share_one() -> None:
    story = Story()
    pods = tuple(pending(f"p{i}", cpu="2") for i in range(9))
    assert story.after(0, a_world(unplaced=pods)).waiting == 9, "every pod a node while no size is known"
    first = usable("a")
    story.after(5, a_world(*first["nodes"], pods=first["pods"], unplaced=pods))
    assert story.after(5, a_world(*first["nodes"], pods=first["pods"], unplaced=pods)).waiting == 3


def sized(name: str, cores: int) -> Node:
    return a_node(name, age_s=5000, allocatable=parse_resources({"cpu": str(cores), "pods": "110"}))


@pytest.mark.parametrize(
    ("waited", "seconds", "waiting"), [(True, 59.5, 4), (True, 60.0, 2), (False, 1.0, 2), (False, 60.0, 2)]
)
def test_a_larger_node_is_seen_a_minute_after_the_last_look_for_one(
    seconds: float, waiting: int, *, waited: bool
) -> None:
    """Eight pods of four cores: two share a node of 8 cores, four one of 16. Nobody looks before a pod waits."""
    story, pods = Story(), tuple(pending(f"p{number}", cpu="4") for number in range(8))
    daemons = [*daemons_on("small", CNI, LOGS), *daemons_on("large", CNI, LOGS)]
    story.after(0, a_world(sized("small", 8), pods=daemons, unplaced=pods if waited else ()))
    both = a_world(sized("small", 8), sized("large", 16), pods=daemons, unplaced=pods)
    assert story.after(seconds, both).waiting == waiting


@pytest.mark.parametrize(("is_first", "released"), [(True, 1), (False, 0)])
def test_only_a_new_leader_takes_a_pod_without_the_gate_for_one_that_was_let_go(
    released: int, *, is_first: bool
) -> None:
    story = Story(JoinRules(nodes=RULES.nodes, gate=GATE, has_ceiling=True))
    if not is_first:
        story.after(0, a_world())
    assert story.after(5, a_world(unplaced=(pending("p"),))).released == released


def test_pods_for_other_nodes_or_about_to_be_placed_want_no_node() -> None:
    pods = (
        pending("elsewhere", node_selector={"pool": "b"}),
        pending("nominated", nominated_node="a"),
        pending("new", is_tried=False),
    )
    assert Story().after(0, a_world(unplaced=pods)).waiting == 0


def test_a_small_or_important_demand_is_urgent_beside_a_large_one() -> None:
    there = usable("a", age_s=5000)
    batch = tuple(pending(f"p{i}") for i in range(50))
    service = (pending("s1", owner="web"), pending("s2", owner="web"))
    world = a_world(*there["nodes"], pods=there["pods"], unplaced=batch + service)
    joins = Story().after(0, world)
    assert (joins.waiting, joins.urgent) == (52, 2)


def test_headroom_that_was_not_asked_for_waits_too() -> None:
    assert Story().after(0, a_world(balloons_wanted=7)).waiting == 7


@pytest.mark.parametrize(("balloons", "hopeless"), [(0, 0), (1, 1), (2, 1)])
def test_a_machine_on_its_way_may_be_for_headroom_as_well_as_for_a_pod_that_fits_nowhere(
    balloons: int, hopeless: int
) -> None:
    """With one machine for one pod nothing is lacking; where Headroom wants one too, somebody waits in vain."""
    story = Story()
    machine = (a_claim("c1", age_s=-10),)
    stuck = {"unplaced": (pending("stuck"),), "claims": machine, "room": 4, "balloons_wanted": balloons}
    story.after(0, a_world())
    for _ in range(8):
        assert story.after(25, a_world(**stuck)).hopeless_pods == 0
    assert story.after(25, a_world(**stuck)).hopeless_pods == hopeless


def looks(story: Story, until_s: float, pods: str, claims: tuple[str, ...] = (), room: int = 0) -> Joins:
    """The same cluster every 25 s until so long after the beginning."""
    machines = tuple(a_claim(name, age_s=-10) for name in claims)
    world = a_world(unplaced=tuple(pending(name) for name in pods), claims=machines, room=room)
    joins = story.after(0, world)
    while story.now_s - 1000.0 < until_s:
        joins = story.after(25, world)
    return joins


@pytest.mark.parametrize(("has_ceiling", "hopeless"), [(False, 1), (True, 0)])
def test_without_a_ceiling_there_is_room_for_all_as_soon_as_orders_show_that_the_autoscaler_is_there(
    *, has_ceiling: bool, hopeless: int
) -> None:
    """Two machines come for three pods; under a ceiling that leaves no room the third only waits for its turn."""
    story = Story(JoinRules(nodes=RULES.nodes, gate=GATE, has_ceiling=has_ceiling))
    looks(story, 0, "abc")
    assert looks(story, 200, "abc", ("c1",)).hopeless_pods == 0, "no order since"
    assert looks(story, 275, "abc", ("c1", "c2")).hopeless_pods == hopeless


def test_an_order_begins_the_search_anew() -> None:
    story = Story()
    looks(story, 100, "abc", room=1)
    assert looks(story, 275, "abc", ("c1",), room=1).hopeless_pods == 0
    assert looks(story, 300, "abc", ("c1",), room=1).hopeless_pods == 2


def test_the_controller_managers_own_limit_is_recognised_only_while_the_servers_are_well() -> None:
    story = Story()
    nodes = [a_node(f"n{i}", age_s=-1) for i in range(5)]
    story.after(0, a_world())
    assert not story.after(5, a_world(*nodes, index=1.1)).is_controller_bound
    assert story.after(6, a_world(*nodes, index=1.1)).is_controller_bound
    assert not story.after(1, a_world(*nodes, index=5.0)).is_controller_bound
    assert not story.after(1, a_world(*nodes, index=None)).is_controller_bound
    starting = [pod for node in nodes for pod in daemons_on(node.name, CNI, LOGS, is_running=False)]
    assert not story.after(1, a_world(*nodes, pods=starting, index=1.0)).is_controller_bound


def test_an_order_is_a_machine_more_or_a_node_that_came_unannounced_and_no_arrival() -> None:
    story = Story()
    story.after(0, a_world())
    story.after(10, a_world(claims=(a_claim("a"),)))
    ordered_s = story.now_s
    assert story.memory.ordered_s == ordered_s
    story.after(10, a_world(claims=(a_claim("a", age_s=10),)))
    assert story.memory.ordered_s == ordered_s, "it still boots"
    story.after(10, a_world(a_node("a", age_s=-30, is_ready=False)))
    assert story.memory.ordered_s == ordered_s, "it has come"
    story.after(10, a_world(a_node("a", age_s=-30, is_ready=False), a_node("b", age_s=-40, is_ready=False)))
    assert story.memory.ordered_s == story.now_s, "nobody had heard of it before"


def test_a_step_of_the_wall_clock_makes_no_join_older_than_the_last_count() -> None:
    rules, memory = RULES, JoinMemory()
    _, memory = count_joins(replace(a_world(), wall_s=WALL_S), memory, rules, 1000.0)
    stepped = replace(a_world(a_node("a", is_ready=False)), wall_s=WALL_S + 86_400)
    joins, _ = count_joins(stepped, memory, rules, 1010.0)
    assert (joins.joining, joins.oldest_joining_s, joins.lost) == (1, 10.0, 0)


def test_another_selector_begins_anew() -> None:
    story = Story()
    there = usable("a", age_s=5000)
    story.after(0, a_world(*there["nodes"], pods=there["pods"]))
    story.rules = JoinRules(nodes=LabelSelector({"pool": "b"}))
    assert story.after(10, a_world(*there["nodes"], pods=there["pods"])).registered == 0


# --- whatever the cluster looks like ---

some_nodes = st.dictionaries(
    st.sampled_from([f"n{i}" for i in range(8)]),
    st.tuples(
        st.booleans(),  # is Ready
        st.sampled_from([(), (PACED,), (UNREGISTERED,)]),
        st.sampled_from([(), (CNI,), (CNI, LOGS)]),
        st.booleans(),  # its DaemonSet pods run
        st.floats(-50, 3000),  # age
        st.sampled_from(["a", "b"]),
    ),
)


def built(drawn: dict[str, Any], claims: int) -> JoinWorld:
    nodes: list[Node] = []
    pods: list[Pod] = []
    for name, (is_ready, taints, sets, are_running, age_s, pool) in drawn.items():
        nodes.append(a_node(name, is_ready=is_ready, taints=taints, age_s=age_s, labels={"pool": pool}))
        pods += daemons_on(name, *sets, is_running=are_running)
    return a_world(*nodes, pods=pods, claims=tuple(a_claim(f"c{i}") for i in range(claims)))


@given(st.lists(st.tuples(st.floats(0, 400), some_nodes, st.integers(0, 4)), max_size=6))
def test_every_node_of_the_throttle_is_in_exactly_one_stage(ticks: list[tuple[float, dict[str, Any], int]]) -> None:
    story, joined, lost = Story(WITH_TAINT), 0, 0
    for seconds, drawn, claims in ticks:
        world = built(drawn, claims)
        joins = story.after(seconds, world)
        ours = {node.uid for node in world.nodes.values() if RULES.selects(node.labels)}
        memory = story.memory
        open_nodes = set(memory.created_s)
        assert not open_nodes & memory.settled
        assert not memory.foreign & memory.settled
        assert open_nodes <= ours
        assert joins.held + joins.joining == len(open_nodes)
        assert joins.registered == len(open_nodes | memory.settled)
        assert memory.settled | memory.foreign | open_nodes <= {node.uid for node in world.nodes.values()}
        assert joins.joined >= joined
        assert joins.lost >= lost
        assert 0 <= joins.booting <= claims
        joined, lost = joins.joined, joins.lost


@given(some_nodes, st.integers(0, 4))
def test_counting_again_at_once_changes_nothing(drawn: dict[str, Any], claims: int) -> None:
    story = Story(WITH_TAINT)
    story.after(0, a_world())
    first = story.after(10, built(drawn, claims))
    assert story.after(0, built(drawn, claims)) == first


@pytest.mark.parametrize(
    ("waiting_s", "joining", "index", "is_bound"),
    [
        ((5.0, 5.0, 5.0), 6, 1.9, True),
        ((5.0, 5.0, 4.9), 3, 1.9, False),
        ((5.0, 5.0, 5.0), 7, 1.9, False),
        ((5.0, 5.0, 5.0), 6, 2.0, False),
        ((5.0, 5.0, 5.0), 6, None, False),
        ((9.0,) * 4, 8, 0.0, True),
        ((), 0, 1.0, False),
    ],
)
def test_joins_wait_for_the_controller_manager_where_most_lack_their_pods_and_servers_are_calm(
    waiting_s: tuple[float, ...], joining: int, index: float | None, *, is_bound: bool
) -> None:
    assert is_controller_bound(waiting_s, joining, index) is is_bound
