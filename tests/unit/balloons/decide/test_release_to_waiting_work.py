"""Burst release, and where waiting pods find room.

Burst release: warm nodes for pods that wait. Alike nodes are judged together, so that pods which fit nowhere cost
little however many nodes there are.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from balloons.api.pool import Mode, PoolNodes
from balloons.balloon_manifest import ImageSettings
from balloons.decide import release_to_waiting_work
from balloons.decide.decide import decide
from balloons.decide.decision_and_reasons import Action, ApplyObject, Decision, Memory, Reason, ReleaseBalloon
from balloons.decide.release_to_waiting_work import Places, PodClass, Reservations, admits, class_of, reserve
from tests.world import NOW, POOL_KEY, World, a_node, a_pool, later, nodes, work
from throttler.kube import selectors
from throttler.kube.metadata import OwnerReference
from throttler.kube.node import Node
from throttler.kube.pod import DEFAULT_SCHEDULER, Pod, Scheduling
from throttler.kube.selectors import LabelSelector, Requirement
from throttler.kube.taints import Taint, Toleration

SETTINGS = ImageSettings()


def warm_world(count: int = 6, *, size: int | None = None, mode: Mode = Mode.HOLD) -> World:
    world = World.of(a_pool(mode=mode, size=size, max_size=20 if size else None), nodes=nodes(count))
    world.apply(decide(world.snapshot(), Memory(), SETTINGS, NOW)[0])
    world.settle()
    return world


def gang(count: int, **scheduling: object) -> list[Pod]:
    how = Scheduling(**{"is_tried": True, **scheduling})  # type: ignore[arg-type]
    return [work(f"g{i:02}", scheduling=how) for i in range(count)]


def decided_for(world: World, pods: Iterable[Pod], memory: Memory | None = None, seconds: float = 0.0) -> Decision:
    world.add(*pods)
    return decide(world.snapshot(), memory or Memory(), SETTINGS, later(NOW, seconds))[0]


def actions(decided: Decision) -> list[Action]:
    return [action for decision in decided.pools for action in decision.actions]


def released(decided: Decision) -> list[ReleaseBalloon]:
    return [action for action in actions(decided) if isinstance(action, ReleaseBalloon)]


def test_a_gang_of_whole_node_pods_gets_one_node_each() -> None:
    decided = decided_for(warm_world(), gang(4))
    assert len({action.node for action in released(decided)}) == 4
    assert {a.because.sentence for a in released(decided)} == {"1 balloon gives way to 1 waiting pod"}
    assert decided.pools[0].because.reason is Reason.BURST_RELEASE


def test_replicas_are_lowered_before_balloons_are_deleted() -> None:
    for mode, size in ((Mode.HOLD, None), (Mode.HEADROOM, 6)):
        found = actions(decided_for(warm_world(size=size, mode=mode), gang(4)))
        assert isinstance(found[0], ApplyObject)
        assert found[0].replicas == 2
        assert all(isinstance(action, ReleaseBalloon) for action in found[1:])


def test_headroom_grows_back_after_the_pods_have_taken_their_nodes() -> None:
    world = warm_world(size=6, mode=Mode.HEADROOM)
    world.apply(decided_for(world, gang(4)))
    world.settle()
    assert all(pod.node for pod in world.pods.values() if pod.key.name.startswith("g"))
    world.apply(decide(world.snapshot(), Memory(), SETTINGS, NOW)[0])
    assert world.replicas() == 6


def test_small_pods_are_packed() -> None:
    small = [work(f"s{i}", cpu="4") for i in range(8)]
    assert len(released(decided_for(warm_world(), small))) == 2


def test_a_single_pod_is_left_to_the_scheduler() -> None:
    decided = decided_for(warm_world(), gang(1))
    assert not released(decided)
    assert decided.pools[0].because.reason is Reason.RESERVED


CLAIMS = {"is_opaque": True, "is_bound_by_claims": True}


@pytest.mark.parametrize(
    "how",
    [
        {"cannot_preempt": True},
        {"is_opaque": True, "is_bound_by_volumes": True},
        {**CLAIMS, "is_one_per_node": True, "cannot_preempt": True},
    ],
    ids=["never", "volumes", "never, and claims"],
)
def test_a_pod_that_nobody_makes_room_for_gets_a_node_even_alone(how: dict[str, bool]) -> None:
    decided = decided_for(warm_world(), gang(1, **how))
    assert len(released(decided)) == 1
    applied = [action for action in actions(decided) if isinstance(action, ApplyObject)]
    assert [action.replicas for action in applied] == [5]


def test_pods_with_claims_are_left_to_a_scheduler_that_preempts_for_them() -> None:
    assert not actions(decided_for(warm_world(), gang(4, **CLAIMS)))


def test_a_pod_that_did_not_take_its_node_is_tried_again_later() -> None:
    world = warm_world()
    world.add(*gang(1, cannot_preempt=True))
    _, memory = decide(world.snapshot(), Memory(), SETTINGS, NOW)
    assert not released(decide(world.snapshot(), memory, SETTINGS, later(NOW, 60))[0])
    assert not released(decide(world.snapshot(), memory, SETTINGS, later(NOW, 599))[0])
    assert released(decide(world.snapshot(), memory, SETTINGS, later(NOW, 601))[0])


def beside_work(seconds: float, **how: bool) -> list[ReleaseBalloon]:
    """What is released after so long for a small pod that seems to have room on a node that runs work."""
    world = warm_world()
    world.pods = {key: pod for key, pod in world.pods.items() if pod.node != "n000"}
    world.add(work("other", "n000", cpu="8"), work("w", cpu="4", scheduling=Scheduling(is_tried=True, **how)))
    memory = Memory()
    for looked_s in (0.0, 30.0):
        _, memory = decide(world.snapshot(), memory, SETTINGS, later(NOW, looked_s))
    return released(decide(world.snapshot(), memory, SETTINGS, later(NOW, seconds))[0])


@pytest.mark.parametrize(("seconds", "count"), [(59.0, 0), (60.0, 1)])
@pytest.mark.parametrize(
    "how",
    [{"cannot_preempt": True, "is_one_per_node": True}, {"is_opaque": True, "is_bound_by_volumes": True}],
    ids=["never", "volumes"],
)
def test_a_pod_that_nobody_makes_room_for_does_not_wait_for_room_beside_work(
    how: dict[str, bool], seconds: float, count: int
) -> None:
    """Another of its replicas runs there, or its volume is elsewhere: the scheduler takes that node for none of it."""
    assert len(beside_work(seconds, **how)) == count


@pytest.mark.parametrize(("gang", "count"), [("", 1), ("g", 2)], ids=["alone", "of its gang"])
def test_one_pod_that_is_kept_off_a_busy_node_closes_it_for_no_other(gang: str, count: int) -> None:
    """Another pod of its kind came later and finds room there: it took a warm node as well."""
    world = warm_world()
    world.pods = {key: pod for key, pod in world.pods.items() if pod.node != "n000"}
    how = Scheduling(is_tried=True, gang=gang, cannot_preempt=True)
    world.add(work("other", "n000", cpu="4"), work("first", cpu="10", scheduling=how))
    _, memory = decide(world.snapshot(), Memory(), SETTINGS, NOW)
    world.add(work("second", cpu="10", scheduling=how))
    _, memory = decide(world.snapshot(), memory, SETTINGS, later(NOW, 10.0))
    assert len(released(decide(world.snapshot(), memory, SETTINGS, later(NOW, 61.0))[0])) == count


def test_a_pod_that_preempts_by_itself_is_left_room_beside_work() -> None:
    assert not beside_work(600.0)


def test_gated_pods_are_ignored() -> None:
    assert not actions(decided_for(warm_world(), gang(4, is_gated=True)))


@pytest.mark.parametrize("change", [{"is_terminating": True}, {"is_finished": True}])
def test_pods_that_have_ended_or_are_about_to_are_ignored(change: dict[str, bool]) -> None:
    pods = [msgspec.structs.replace(pod, **change) for pod in gang(4)]
    assert not actions(decided_for(warm_world(), pods))


def test_a_reserved_node_without_a_balloon_has_none_to_give() -> None:
    decided = decided_for(warm_world(3, size=2), gang(3))
    assert len(released(decided)) == 2
    assert decided.pools[0].because.reason is Reason.BURST_RELEASE


def test_opaque_pods_are_ignored() -> None:
    assert not actions(decided_for(warm_world(), gang(4, is_opaque=True)))


def test_pods_the_scheduler_has_not_refused_are_ignored() -> None:
    assert not actions(decided_for(warm_world(), gang(4, is_tried=False)))


def test_one_refused_pod_speaks_for_its_class() -> None:
    pods = [*gang(1), *(work(f"h{i}", scheduling=Scheduling()) for i in range(3))]
    assert len(released(decided_for(warm_world(), pods))) == 4


def test_a_refused_pod_does_not_speak_for_pods_of_another_scheduler() -> None:
    """A scheduler that does not exist never refuses a pod, and never takes the node that is freed for it."""
    ghosts = [work(f"h{i}", scheduling=Scheduling(scheduler="nobody", cannot_preempt=True)) for i in range(3)]
    assert len(released(decided_for(warm_world(), [*gang(2), *ghosts]))) == 2


def test_pods_below_the_balloons_are_ignored() -> None:
    pods = [work(f"w{i}", priority=-10) for i in range(4)]
    assert not actions(decided_for(warm_world(), pods))


def test_a_named_gang_gets_all_or_nothing() -> None:
    assert not released(decided_for(warm_world(6), gang(7, gang="train")))
    assert len(released(decided_for(warm_world(7), gang(7, gang="train")))) == 7


@pytest.mark.parametrize(
    ("age_s", "more", "spec", "free"),
    [
        (899.0, {}, {}, 3),
        (900.0, {}, {}, 0),
        (0.0, {"gang": ""}, {"size": 9, "mode": Mode.HEADROOM, "max_size": 9}, 0),
        (0.0, {}, {"size": 9, "mode": Mode.HEADROOM, "max_size": 9}, 0),
        (0.0, {"node_selector": {"pool": "cpu"}}, {}, 0),
        (0.0, {"is_tried": False}, {}, 0),
        (0.0, {"is_gated": True}, {}, 0),
    ],
    ids=["new", "old", "none, Headroom", "Headroom", "for other nodes", "not tried", "gated"],
)
def test_hold_leaves_new_nodes_to_a_gang_that_is_not_whole(
    age_s: float, more: dict[str, Any], spec: dict[str, Any], free: int
) -> None:
    """It takes none before there are nodes for all of it, and the autoscaler counts on them: where a balloon takes one,
    it buys another, and Hold held that as well."""
    world = World.of(a_pool(**spec), nodes=nodes(3, created_s=NOW.wall.timestamp() - age_s))
    decided = decided_for(world, gang(4, **{"gang": "train", **more}))
    world.apply(decided)
    assert min(3, world.replicas()) == 3 - free
    if free:
        assert decided.pools[0].because.sentence == "3 nodes stay free for pods that will take them"


def test_hold_leaves_a_gang_no_more_new_nodes_than_it_lacks() -> None:
    world = World.of(a_pool(), nodes=nodes(9, created_s=NOW.wall.timestamp()))
    half = [msgspec.structs.replace(pod, requests={"cpu": 8000, "pods": 1000}) for pod in gang(19, gang="train")]
    world.apply(decided_for(world, half))
    assert world.replicas() == 0
    closed = [a_node(f"x{i}", created_s=NOW.wall.timestamp(), taints=(Taint("team", "NoSchedule"),)) for i in range(2)]
    team = PoolNodes(LabelSelector({"pool": "gpu"}), (Toleration(operator="Exists"),))
    world = World.of(a_pool(nodes=team), nodes={node.name: node for node in closed})
    world.apply(decided_for(world, gang(4, gang="train")))
    assert world.replicas() == 2, "it does not tolerate their taint"


VOLCANOS = {"scheduler": "volcano", "cannot_preempt": True}


def test_hold_leaves_new_nodes_to_what_another_scheduler_may_place_as_a_gang() -> None:
    """It bought ever more nodes: a minute after each had come a balloon took it, and the autoscaler ordered another."""
    world = World.of(a_pool(), nodes=nodes(3, created_s=NOW.wall.timestamp()))
    world.add(*gang(4, **VOLCANOS))
    memory = Memory()
    for seconds in (0.0, 100.0, 899.0):
        decided, memory = decide(world.snapshot(), memory, SETTINGS, later(NOW, seconds))
        world.apply(decided)
        assert world.replicas() == 0, seconds


def test_what_may_be_a_gang_is_tried_again_together() -> None:
    """Each of its pods had a minute of its own, and a scheduler that wants nodes for all never saw as many."""
    master = work("m", cpu="14", scheduling=Scheduling(is_tried=True, **VOLCANOS))  # type: ignore[arg-type]
    pods, found = [master, *gang(3, **VOLCANOS)], list(nodes(4).values())
    given = reserve(pods, (), found[:3], {}, Reservations(), -10, NOW)
    given = reserve(pods, (), found, {}, given, -10, later(NOW, 300))
    assert len(given.taker) == 1
    given = reserve(pods, (), found, {}, given, -10, later(NOW, 310))
    assert len(given.taker) == 4
    given = reserve(pods, (), found, {}, given, -10, later(NOW, 360))
    assert not given.taker, "nobody knows why they took none"
    assert len(reserve(pods, (), found, {}, given, -10, later(NOW, 900)).taker) == 4


def of(owner: str = "", **scheduling: Any) -> dict[str, Any]:
    """A pod's controller, by uid, and how it is scheduled."""
    made_by = OwnerReference("Job", owner, uid=owner, controller=True) if owner else None
    return {"owner": made_by, "scheduling": Scheduling(is_tried=True, **{**VOLCANOS, **scheduling})}


@pytest.mark.parametrize(
    ("one", "other", "is_together"),
    [
        (of("job-a"), of("job-a"), True),
        (of("job-a"), of("job-b"), False),
        (of("job-a", gang="train"), of("job-b", gang="train"), True),
        (of("job-a", gang="train"), of("job-a", gang="serve"), False),
        (of(), of(), True),
        (of("job-a", scheduler=DEFAULT_SCHEDULER), of("job-a", scheduler=DEFAULT_SCHEDULER), False),
    ],
    ids=["one controller", "two controllers", "one gang", "two gangs", "one namespace", "placed singly"],
)
def test_what_is_tried_again_together_is_one_gang_or_one_controllers(
    one: dict[str, Any], other: dict[str, Any], *, is_together: bool
) -> None:
    """One that is given its first node lets those begin again that have passed over theirs."""
    pods, found = [work("m", cpu="14", **one), *(work(f"g{at}", **other) for at in range(3))], list(nodes(4).values())
    given = reserve(pods[1:], (), found[:3], {}, Reservations(), -10, NOW)
    given = reserve(pods, (), found, {}, given, -10, later(NOW, 300))
    assert len(given.taker) == 1
    assert len(reserve(pods, (), found, {}, given, -10, later(NOW, 310)).taker) == (4 if is_together else 1)


def test_one_that_fits_nowhere_gives_the_others_of_its_job_no_more_time() -> None:
    """Nodes would be kept free for ever for a Job that cannot start."""
    pods = [work("m", cpu="999", **of("job")), *(work(f"g{at}", **of("job")) for at in range(3))]
    given, kept = Reservations(), []
    for seconds in (0, 30, 59, 60, 90):
        given = reserve(pods, (), list(nodes(4).values()), {}, given, -10, later(NOW, seconds))
        kept.append(len(given.taker))
    assert kept == [3, 3, 3, 0, 0]


def test_pods_without_a_gang_get_what_is_there() -> None:
    assert len(released(decided_for(warm_world(6), gang(7)))) == 6


def test_pods_that_select_other_nodes_release_nothing() -> None:
    assert not actions(decided_for(warm_world(), gang(4, node_selector={"pool": "cpu"})))


def test_room_on_busy_nodes_is_used_first() -> None:
    world = warm_world(3)
    world.nodes["busy"] = a_node("busy")
    world.add(work("old", "busy", cpu="4"))
    assert not released(decided_for(world, [work(f"s{i}", cpu="4") for i in range(3)]))


def test_a_reservation_ends() -> None:
    world = warm_world()
    world.add(*gang(4, node_selector={"pool": "gpu"}))
    _, memory = decide(world.snapshot(), Memory(), SETTINGS, NOW)
    assert len(released(decide(world.snapshot(), memory, SETTINGS, later(NOW, 59))[0])) == 4
    assert not released(decide(world.snapshot(), memory, SETTINGS, later(NOW, 60))[0])


def test_only_balloons_of_the_pool_are_ever_released() -> None:
    world = warm_world()
    decided = decided_for(world, gang(6))
    own = {balloon.key for balloon in world.balloons("gpu")}
    assert {action.key for action in released(decided)} <= own


def test_a_paused_pool_gives_nothing() -> None:
    world = warm_world()
    world.change_pool(paused=True)
    assert not actions(decided_for(world, gang(4)))


ANY_IMAGE = {"image": "registry.example/pause:1"}
"""An image that is not on the service's list."""


@pytest.mark.parametrize(
    "still", [{"paused": True}, {"dry_run": True}, ANY_IMAGE], ids=["paused", "dry run", "image not allowed"]
)
def test_a_pool_that_gives_nothing_keeps_no_other_from_giving(still: dict[str, Any]) -> None:
    """Pods that cannot preempt waited in front of the warm nodes of both."""
    pools = [a_pool(), a_pool("other", created_s=1.0, nodes=PoolNodes(LabelSelector({"pool": "other"})))]
    members = nodes(4) | nodes(4, "x", labels={"pool": "other"})
    world = World.of(*pools, nodes=members)
    world.apply(decide(world.snapshot(), Memory(), SETTINGS, NOW)[0])
    world.settle()
    world.change_pool(**still)
    decided = decided_for(world, gang(2, cannot_preempt=True))
    reasons = {decision.pool.name: decision.because.reason for decision in decided.pools}
    assert reasons["other"] is Reason.BURST_RELEASE
    assert {action.node[0] for action in released(decided)} == {"x"}


def test_a_pool_whose_writes_fail_keeps_no_other_from_giving() -> None:
    """The pods were given to it again and again, at each try."""
    pools = [a_pool(), a_pool("other", created_s=1.0, nodes=PoolNodes(LabelSelector({"pool": "other"})))]
    world = World.of(*pools, nodes=nodes(4) | nodes(4, "x", labels={"pool": "other"}))
    world.apply(decide(world.snapshot(), Memory(), SETTINGS, NOW)[0])
    world.settle()
    world.add(*gang(2, cannot_preempt=True))
    decided, memory = decide(world.snapshot(), Memory(), SETTINGS, NOW)
    assert {action.node[0] for action in released(decided)} == {"n"}
    decided, _ = decide(world.snapshot(resting=frozenset({POOL_KEY})), memory, SETTINGS, later(NOW, 1))
    assert {action.node[0] for action in released(decided)} == {"x"}


def test_a_pool_whose_view_is_not_believed_keeps_no_other_from_giving() -> None:
    pools = [a_pool(), a_pool("other", created_s=1.0, nodes=PoolNodes(LabelSelector({"pool": "other"})))]
    world = World.of(*pools, nodes=nodes(8) | nodes(4, "x", labels={"pool": "other"}))
    world.apply(decide(world.snapshot(), Memory(), SETTINGS, NOW)[0])
    world.settle()
    _, memory = decide(world.snapshot(), Memory(), SETTINGS, NOW)
    for name in sorted(world.nodes)[:4]:
        world.remove_node(name)
    decided = decided_for(world, gang(2, cannot_preempt=True), memory)
    assert [decision.because.reason for decision in decided.pools] == [Reason.SHRUNKEN_VIEW, Reason.BURST_RELEASE]
    assert len(released(decided)) == 2


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the nodes that were looked at one by one."""
    names: list[str] = []

    def spy(node: Node, wanted: PodClass) -> bool:
        names.append(node.name)
        return admits(node, wanted)

    monkeypatch.setattr(release_to_waiting_work, "admits", spy)
    return names


def test_no_node_is_looked_at_for_pods_larger_than_all_of_them(looked_at: list[str]) -> None:
    world = World.of(a_pool(), nodes=nodes(400))
    for i in range(64):
        world.add(work(f"huge-{i}", cpu=str(100 + i)))
    decide(world.snapshot(), Memory(), ImageSettings(), NOW)
    assert looked_at == []


def test_classes_of_others_cost_one_look_per_group_of_nodes(looked_at: list[str]) -> None:
    """30 classes that select other teams' nodes used up every look at 7,500 nodes, at each decision."""
    world = World.of(a_pool(), nodes=nodes(400))
    for i in range(30):
        elsewhere = Scheduling(is_tried=True, node_selector={"team": f"t{i}"})
        world.add(work(f"other-{i}", cpu="8", priority=5, scheduling=elsewhere))
    world.add(*(work(f"own-{i}") for i in range(4)))
    _, memory = decide(world.snapshot(), Memory(), ImageSettings(), NOW)
    assert len(looked_at) == 31
    assert memory.reserved is not None
    assert len(memory.reserved.since_s) == 4


def test_a_class_that_names_its_host_gets_that_one() -> None:
    world = World.of(a_pool(), nodes=nodes(5))
    here = Scheduling(is_tried=True, node_selector={"kubernetes.io/hostname": "n003"})
    found = reserve([work("w", scheduling=here)], [], list(world.nodes.values()), {}, Reservations(), -10, NOW)
    assert set(found.taker) == {"n003"}


@pytest.mark.parametrize(
    "change",
    [{"taints": (Taint("team", "NoSchedule"),)}, {"is_cordoned": True}, {"is_deleting": True}, {"is_ready": False}],
    ids=lambda change: next(iter(change)),
)
def test_nodes_that_are_closed_are_no_group_of_the_open_ones(change: dict[str, Any]) -> None:
    members = nodes(2)
    members["n000"] = msgspec.structs.replace(members["n000"], **change)
    found = reserve([work("w")], [], list(members.values()), {}, Reservations(), -10, NOW)
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
    members = list(nodes(fitting).values())
    found = Reservations()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(release_to_waiting_work, "MOST_CLASSES", most)
        for second in range(blockers // most + 1):
            found = reserve(pods, [], members, {}, found, -10, later(NOW, second))
        assert len(found.taker) == fitting
        for second in range(20, 25):
            found = reserve(pods, [], members, {}, found, -10, later(NOW, second))
            assert len(found.taker) == fitting, "a class that was given nodes keeps them"


def test_looking_stops_at_the_budget_and_goes_on_next_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(release_to_waiting_work, "MOST_LOOKS", 5)
    world = World.of(a_pool(), nodes=nodes(10))
    for i in range(10):
        world.add(work(f"job-{i}"))
    decided, memory = decide(world.snapshot(), Memory(), ImageSettings(), NOW)
    assert memory.reserved is not None
    assert len(memory.reserved.since_s) == 5
    world.apply(decided)
    world.settle()
    assert sum(1 for pod in world.pods.values() if pod.node and pod.key.namespace == "jobs") == 10


def test_a_class_that_was_not_reached_comes_first_next_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A gang that fits nowhere used up what may be looked at."""
    monkeypatch.setattr(release_to_waiting_work, "MOST_LOOKS", 5)
    large = [work(f"big-{i}", priority=5, scheduling=Scheduling(is_tried=True, gang="big")) for i in range(11)]
    members = list(nodes(10).values())
    first = reserve([*large, work("own")], [], members, {}, Reservations(), -10, NOW)
    assert first.taker == {}
    found = reserve([*large, work("own")], [], members, {}, first, -10, later(NOW, 1.0))
    assert set(found.taker.values()) == {"jobs/own"}


def test_balloons_are_released_in_the_order_in_which_their_replicaset_would_remove_them() -> None:
    """Otherwise the ReplicaSet, lowered just before, removes others, and twice as many go."""
    world = World.of(a_pool(), nodes=nodes(6))
    decided, memory = decide(world.snapshot(), Memory(), ImageSettings(), NOW)
    world.apply(decided)
    world.settle()
    born = {b.key: msgspec.structs.replace(b, created_s=NOW.wall.timestamp() - 5000) for b in world.balloons()}
    young = sorted(born)[-1]
    born[young] = msgspec.structs.replace(born[young], created_s=NOW.wall.timestamp() - 100)
    world.add(*born.values())
    world.add(*(work(f"job-{i}") for i in range(3)))
    decided, _ = decide(world.snapshot(), memory, ImageSettings(), later(NOW, 1))
    released = [a.uid for a in decided.pools[0].actions if isinstance(a, ReleaseBalloon)]
    oldest = sorted(b.uid for key, b in born.items() if key != young)
    assert set(released) == {born[young].uid, *oldest[:2]}


@pytest.mark.parametrize(
    ("goes", "stays"),
    [
        # Preempted once, it waited for its node: it is as old as the other one, and was the last to be Ready.
        ({"created_s": 14, "ready_s": 3}, {"created_s": 14, "ready_s": 14}),
        ({"created_s": 5000, "ready_s": 100}, {"created_s": 200, "ready_s": 200}),
        # The ReplicaSet counts in powers of two of nanoseconds: 66 s are fewer, 70 s are more than 2**36.
        ({"created_s": 66, "ready_s": 66}, {"created_s": 70, "ready_s": 70}),
        # Ready since the same second: the younger goes, in powers of two again.
        ({"created_s": 200, "ready_s": 100}, {"created_s": 5000, "ready_s": 100}),
        ({"created_s": 66, "ready_s": 60}, {"created_s": 70, "ready_s": 60}),
        ({"created_s": 5000, "is_ready": False}, {"created_s": 5, "ready_s": 5}),
        ({"created_s": 5000, "ready_s": 5000, "deletion_cost": -1000}, {"created_s": 5, "ready_s": 5}),
    ],
)
def test_the_balloon_that_its_replicaset_would_remove_gives_way(goes: dict[str, int], stays: dict[str, int]) -> None:
    world = World.of(a_pool(), nodes=nodes(4))
    decided, memory = decide(world.snapshot(), Memory(), ImageSettings(), NOW)
    world.apply(decided)
    world.settle()
    wall_s = NOW.wall.timestamp()
    # By uid alone those that stay would go.
    for number, (balloon, said) in enumerate(zip(world.balloons(), (stays, stays, goes, goes), strict=True)):
        times = {name: wall_s - age for name, age in said.items() if name in ("created_s", "ready_s")}
        facts = {"is_ready": True, "uid": f"uid-{number}", **said, **times}
        world.add(msgspec.structs.replace(balloon, **facts))
    world.add(work("job-0"), work("job-1"))
    decided, _ = decide(world.snapshot(), memory, ImageSettings(), NOW)
    assert {a.uid for a in decided.pools[0].actions if isinstance(a, ReleaseBalloon)} == {"uid-2", "uid-3"}


@pytest.mark.parametrize(
    "change", [{"is_cordoned": True}, {"is_deleting": True}, {"is_ready": False}], ids=lambda change: next(iter(change))
)
def test_a_node_that_is_not_to_be_used_admits_nobody(change: dict[str, bool]) -> None:
    (pod,) = gang(1)
    assert pod.scheduling is not None
    wanted = class_of(pod, pod.scheduling)
    assert admits(a_node("n"), wanted)
    assert not admits(a_node("n", **change), wanted)


def small_pods() -> PodClass:
    """Four of them fit a node of 16 cores."""
    pod = work("s", cpu="4", scheduling=Scheduling(is_tried=True))
    assert pod.scheduling is not None
    return class_of(pod, pod.scheduling)


@pytest.mark.parametrize(("count", "taken"), [(1, [1]), (4, [4]), (5, [4, 1]), (8, [4, 4]), (9, [4, 4])])
def test_places_are_taken_for_as_many_pods_as_there_are_and_are_gone_then(count: int, taken: list[int]) -> None:
    places = Places(nodes(2).values(), (), {}, NOW.wall.timestamp(), ())
    wanted = small_pods()
    found = places.take(wanted, count)
    assert sorted(Counter(node.name for node in found).values(), reverse=True) == taken
    assert len(places.take(wanted, 99)) == 8 - sum(taken)


def test_no_balloon_gives_way_while_a_node_of_another_size_is_idle() -> None:
    world = warm_world(1)
    alike = {"allocatable": world.nodes["n000"].allocatable}
    other = {"allocatable": {**world.nodes["n000"].allocatable, "cpu": 32_000}}
    world.nodes |= {**nodes(1, "a", **alike), **nodes(1, "b", **other)}
    given = reserve(gang(2), (), list(world.nodes.values()), world.snapshot().loads, Reservations(), -10, NOW)
    assert set(given.taker) == {"a000", "b000"}


def test_what_a_pod_asks_none_of_needs_no_room() -> None:
    """A chart that writes `nvidia.com/gpu: 0` for those who have none."""
    wanted = replace(small_pods(), requests={**small_pods().requests, "nvidia.com/gpu": 0})
    assert len(Places(nodes(1).values(), (), {}, NOW.wall.timestamp(), ()).take(wanted, 9)) == 4


def test_a_gang_takes_all_of_its_places_or_none() -> None:
    wanted = replace(small_pods(), gang="ml/train")
    places = Places(nodes(2).values(), (), {}, NOW.wall.timestamp(), ())
    assert places.take(wanted, 9) == []
    assert len(places.take(wanted, 8)) == 8


@pytest.mark.parametrize(
    ("labels", "is_selected"),
    [({"zone": "a"}, True), ({"zone": "b"}, False), ({"zone": "b", "type": "x"}, True), ({"zone": "c"}, False)],
)
def test_of_the_terms_of_an_affinity_one_must_hold_whole(labels: dict[str, str], is_selected: bool) -> None:
    in_a, in_b = (Requirement("zone", "In", (zone,)) for zone in "ab")
    terms = ((in_a,), (in_b, Requirement("type", "In", ("x",))))
    pod = work("p", scheduling=Scheduling(is_tried=True, node_terms=terms))
    assert pod.scheduling is not None
    wanted = class_of(pod, pod.scheduling)
    assert selectors.is_selected(labels, wanted.node_selector, wanted.node_terms) is is_selected
