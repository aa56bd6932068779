"""What each node is, and since when those on their way are.

Joining nodes become sick by time that passes, not by a wall clock that is set.
"""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from balloons.api.pool import BalloonPool, NotWarm, NotWarmCondition, NotWarmTaint, PoolNodes, Strategy
from balloons.balloon_manifest import ImageSettings
from balloons.decide.census import (
    CLOCKS_DIFFER_S,
    JOIN_LIMIT_S,
    NodeState,
    Rules,
    has_room,
    is_awaited,
    take_census,
    unready_since,
)
from balloons.decide.decide import decide
from balloons.decide.decision_and_reasons import Memory
from balloons.view.index_and_snapshot import Now
from balloons.view.node_load_and_devices import EMPTY, load_of
from tests.world import NOW, World, a_node, a_pool, daemon, later, nodes, work
from throttler.kube.metadata import ObjectKey, OwnerReference
from throttler.kube.node import KARPENTER_INITIALIZED_LABEL, KARPENTER_POOL_LABEL, Node
from throttler.kube.pod import Pod, PodKind
from throttler.kube.quantities_and_durations import parse_resources
from throttler.kube.selectors import LabelSelector
from throttler.kube.taints import JOINING_TAINTS, Taint, Toleration

WALL = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
NOT_READY = frozenset({("Ready", "False")})


def a_balloon(node: str = "n", **changes: Any) -> Pod:
    own: dict[str, Any] = {"kind": PodKind.BALLOON, "priority": -10, "pool": "gpu", "is_running": True, **changes}
    return work("balloon", node, **own)


def state_of(node: Node, *pods: Pod, pool: BalloonPool | None = None) -> NodeState:
    return Rules.of(pool or a_pool(), WALL.timestamp()).state_of(node, load_of(pods, -10))


def pool_with(**nodes_spec: Any) -> BalloonPool:
    return a_pool(nodes=PoolNodes(LabelSelector({"pool": "gpu"}), **nodes_spec))


def not_ready(age_s: float) -> Node:
    return a_node("n", is_ready=False, conditions=NOT_READY, created_s=WALL.timestamp() - age_s)


def test_a_node_without_pods_is_idle() -> None:
    assert state_of(a_node("n")) is NodeState.IDLE


def test_a_node_with_a_running_balloon_is_warm() -> None:
    assert state_of(a_node("n"), a_balloon()) is NodeState.WARM


def test_a_node_is_not_warm_before_its_balloon_runs() -> None:
    assert state_of(a_node("n"), a_balloon(is_running=False)) is NodeState.IDLE


def test_a_node_is_warm_with_any_balloon_that_runs() -> None:
    starting = msgspec.structs.replace(a_balloon(is_running=False), uid="uid-a", key=ObjectKey("jobs", "a"))
    assert state_of(a_node("n"), starting, a_balloon()) is NodeState.WARM
    assert state_of(a_node("n"), a_balloon(), starting) is NodeState.WARM


def test_a_leaving_balloon_holds_nothing() -> None:
    assert state_of(a_node("n"), a_balloon(is_terminating=True)) is NodeState.IDLE


@pytest.mark.parametrize("priority", [-9, 0, 1000])
def test_work_above_the_balloons_makes_a_node_busy(priority: int) -> None:
    assert state_of(a_node("n"), work("w", "n", priority=priority)) is NodeState.BUSY


def test_only_nodes_that_a_balloon_may_hold_tell_how_large_one_is() -> None:
    sick, idle = a_node("sick", conditions=frozenset({("Ready", "True"), ("Bad", "True")})), a_node("idle")
    pool = pool_with(not_warm=NotWarm(conditions=(NotWarmCondition("Bad", "True"),)))
    census = take_census([(sick, EMPTY), (idle, EMPTY)], Rules.of(pool, WALL.timestamp()))
    assert [node.name for pairs in census.measured.values() for node, _ in pairs] == ["idle"]


def test_work_that_leaves_a_running_balloon_its_room_changes_nothing() -> None:
    assert state_of(a_node("n"), a_balloon(), work("w", "n", cpu="100m")) is NodeState.WARM
    assert state_of(a_node("n"), a_balloon(), work("w", "n", cpu="100m", priority=-100)) is NodeState.WARM
    whole = a_balloon(requests=parse_resources({"cpu": "14", "memory": "63Gi"}))
    assert state_of(a_node("n"), whole, work("w", "n", cpu="2")) is NodeState.WARM, "nothing is left over"


def test_work_without_room_beside_the_balloon_makes_the_node_busy() -> None:
    assert state_of(a_node("n"), a_balloon(), work("w", "n", cpu="8")) is NodeState.BUSY


def test_terminating_work_still_makes_a_node_busy() -> None:
    assert state_of(a_node("n"), work("w", "n", is_terminating=True)) is NodeState.BUSY


@pytest.mark.parametrize("priority", [-10, -11, -1000])
def test_work_that_balloons_do_not_preempt_scavenges_the_node(priority: int) -> None:
    assert state_of(a_node("n"), work("w", "n", priority=priority)) is NodeState.SCAVENGED


def test_daemonset_pods_do_not_make_a_node_busy() -> None:
    assert state_of(a_node("n"), daemon("d", "n")) is NodeState.IDLE


def test_mirror_pods_do_not_make_a_node_busy() -> None:
    assert state_of(a_node("n"), work("kube-proxy", "n", kind=PodKind.MIRROR, priority=2_000_001_000)) is NodeState.IDLE


def test_finished_pods_do_not_make_a_node_busy() -> None:
    assert state_of(a_node("n"), work("w", "n", is_finished=True)) is NodeState.IDLE


def test_a_pod_of_another_controller_is_work_and_no_daemon() -> None:
    owner = OwnerReference("ReplicaSet", "web", controller=True)
    assert state_of(a_node("n"), work("w", "n", owner=owner)) is NodeState.BUSY


def test_a_new_node_that_is_not_ready_is_joining() -> None:
    assert state_of(not_ready(age_s=JOIN_LIMIT_S - 1)) is NodeState.JOINING


def test_an_old_node_that_is_not_ready_is_sick() -> None:
    assert state_of(not_ready(age_s=JOIN_LIMIT_S)) is NodeState.SICK


def test_a_sick_node_with_work_is_busy() -> None:
    assert state_of(not_ready(age_s=86_400), work("w", "n")) is NodeState.BUSY


def test_a_node_that_karpenter_has_not_initialised_is_joining() -> None:
    assert state_of(a_node("n", labels={KARPENTER_POOL_LABEL: "default"})) is NodeState.JOINING


def test_a_node_that_karpenter_has_not_initialised_is_joining_whatever_its_taints() -> None:
    labels, taints = {KARPENTER_POOL_LABEL: "default"}, (Taint("node.cilium.io/agent-not-ready", "NoExecute"),)
    assert state_of(a_node("n", labels=labels, taints=taints)) is NodeState.JOINING
    assert state_of(a_node("n", labels={**labels, KARPENTER_INITIALIZED_LABEL: "true"}, taints=taints)) is (
        NodeState.CLOSED
    )


def test_a_node_that_karpenter_has_initialised_is_idle() -> None:
    labels = {KARPENTER_POOL_LABEL: "default", KARPENTER_INITIALIZED_LABEL: "true"}
    assert state_of(a_node("n", labels=labels)) is NodeState.IDLE


@pytest.mark.parametrize("key", [*sorted(JOINING_TAINTS), "startup-taint.cluster-autoscaler.kubernetes.io/cni"])
def test_a_startup_taint_says_joining(key: str) -> None:
    assert state_of(a_node("n", taints=(Taint(key, "NoSchedule"),))) is NodeState.JOINING


@pytest.mark.parametrize(
    "closing",
    [
        {"is_cordoned": True},
        {"is_deleting": True},
        {"taints": (Taint("team", "NoSchedule", "b"),)},
        {"taints": (Taint("ToBeDeletedByClusterAutoscaler", "NoSchedule"),)},
    ],
)
def test_a_node_closed_to_balloons_is_closed(closing: dict[str, Any]) -> None:
    assert state_of(a_node("n", **closing)) is NodeState.CLOSED


def test_a_taint_that_balloons_tolerate_does_not_close_a_node() -> None:
    pool = pool_with(tolerations=(Toleration("team", "Equal", "a"),))
    assert state_of(a_node("n", taints=(Taint("team", "NoSchedule", "a"),)), pool=pool) is NodeState.IDLE
    assert state_of(a_node("n", taints=(Taint("team", "NoSchedule", "b"),)), pool=pool) is NodeState.CLOSED


def test_a_soft_taint_closes_nothing() -> None:
    assert state_of(a_node("n", taints=(Taint("spot", "PreferNoSchedule"),))) is NodeState.IDLE


@pytest.mark.parametrize("rule", [NotWarmTaint("preflight"), NotWarmTaint("preflight", "running", "NoSchedule")])
def test_a_preflight_taint_says_not_warm_yet_even_if_tolerated(rule: NotWarmTaint) -> None:
    pool = pool_with(tolerations=(Toleration(operator="Exists"),), not_warm=NotWarm((rule,)))
    for is_uninitialized in (False, True):  # as Karpenter sees it: a startup taint of its NodePool's is one
        node = a_node("n", taints=(Taint("preflight", "NoSchedule", "running"),), is_uninitialized=is_uninitialized)
        assert state_of(node, pool=pool) is NodeState.PREFLIGHT


def test_a_taint_with_another_value_is_no_preflight() -> None:
    pool = pool_with(tolerations=(Toleration(operator="Exists"),), not_warm=NotWarm((NotWarmTaint("gate", "shut"),)))
    assert state_of(a_node("n", taints=(Taint("gate", "NoSchedule", "open"),)), pool=pool) is NodeState.IDLE


def test_a_health_condition_makes_a_node_sick() -> None:
    pool = pool_with(not_warm=NotWarm((), (NotWarmCondition("GPUHealthy", "False"),)))
    ill = a_node("n", conditions=frozenset({("Ready", "True"), ("GPUHealthy", "False")}))
    well = a_node("n", conditions=frozenset({("Ready", "True"), ("GPUHealthy", "True")}))
    assert state_of(ill, a_balloon(), pool=pool) is NodeState.SICK
    assert state_of(well, a_balloon(), pool=pool) is NodeState.WARM


def test_with_annotations_a_kept_node_is_warm() -> None:
    pool = a_pool(strategy=Strategy.ANNOTATE)
    kept = a_node("n", annotations={"cluster-autoscaler.kubernetes.io/scale-down-disabled": "true"})
    assert state_of(kept, pool=pool) is NodeState.WARM
    assert state_of(a_node("n"), pool=pool) is NodeState.IDLE


def test_every_node_is_in_exactly_one_state() -> None:
    members = [a_node("a"), a_node("b", is_cordoned=True), not_ready(age_s=1), not_ready(age_s=9_999)]
    census = take_census([(node, EMPTY) for node in members], Rules.of(a_pool(), WALL.timestamp()))
    assert census.total == len(members)
    assert sum(census.count(state) for state in NodeState) == len(members)


def test_zones_are_counted_by_name() -> None:
    zoned = nodes(3, "a", labels={"topology.kubernetes.io/zone": "eu-1a"})
    zoned |= nodes(1, "b", labels={"topology.kubernetes.io/zone": "eu-1b"})
    zoned |= nodes(1, "c")
    loads = {"a000": load_of([work("w", "a000")], -10), "a001": load_of([a_balloon("a001")], -10)}
    census = take_census(
        [(node, loads.get(node.name, EMPTY)) for node in zoned.values()], Rules.of(a_pool(), WALL.timestamp())
    )
    assert [(z.zone, z.nodes, z.busy, z.warm) for z in census.zones()] == [
        ("", 1, 0, 0),
        ("eu-1a", 3, 1, 1),
        ("eu-1b", 1, 0, 0),
    ]


def sick_count(world: World, memory: Memory, now: Now) -> tuple[int, Memory]:
    decided, memory = decide(world.snapshot(), memory, ImageSettings(), now)
    return decided.pools[0].status.sick, memory


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


@pytest.mark.parametrize(("is_first", "age_s"), [(True, 3600.0 - CLOCKS_DIFFER_S), (False, 0.0)])
def test_only_a_first_decision_asks_a_condition_since_when_a_node_is_not_ready(*, is_first: bool, age_s: float) -> None:
    """What was Ready at the last look has stopped since, whatever its date says."""
    node = a_node("n", is_ready=False, unready_s=NOW.wall.timestamp() - 3600.0)
    assert unready_since([node], {}, NOW, is_first=is_first)[node.uid].seen_s == NOW.monotonic_s - age_s


def test_a_node_that_was_made_anew_under_the_same_name_begins_to_join_anew() -> None:
    """As clouds do with machines of a group; nobody may have seen the old one go."""
    world = a_world_with_a_joining_node()
    _, memory = sick_count(world, Memory(), NOW)
    moment = later(NOW, JOIN_LIMIT_S)
    assert sick_count(world, memory, moment)[0] == 1
    world.change_node("new", uid="another", created_s=moment.wall.timestamp())
    assert sick_count(world, memory, moment)[0] == 0


def test_a_node_from_the_future_is_joining() -> None:
    node = a_node("new", is_ready=False, conditions=frozenset(), created_s=NOW.wall.timestamp() + 3600)
    assert sick_count(World.of(a_pool(), nodes={"new": node}), Memory(), NOW)[0] == 0


def test_what_is_remembered_of_a_node_goes_with_its_readiness() -> None:
    world = a_world_with_a_joining_node()
    _, memory = sick_count(world, Memory(), NOW)
    world.change_node("new", is_ready=True)
    _, memory = sick_count(world, memory, later(NOW, 5))
    assert memory.unready_since_s == {}


@pytest.mark.parametrize(("cpu", "fits"), [("10", True), ("10001m", False)])
def test_daemons_and_work_leave_the_rest_of_a_node(cpu: str, *, fits: bool) -> None:
    """Of 16 cores a DaemonSet takes one and work five."""
    load = load_of((daemon("d", "n", cpu="1"), work("w", "n", cpu="5")), -10)
    assert has_room(a_node("n"), load, parse_resources({"cpu": cpu})) is fits
    assert not has_room(a_node("n"), load, parse_resources({"nvidia.com/gpu": "1000"}))


def test_an_empty_node_has_room_for_all_that_it_has() -> None:
    assert has_room(a_node("n"), EMPTY, a_node("n").allocatable)


def test_of_two_balloons_on_a_node_one_is_too_many() -> None:
    pods = (a_balloon(), msgspec.structs.replace(a_balloon(), uid="second"))
    rules = Rules.of(a_pool(), WALL.timestamp())
    assert len(take_census([(a_node("n"), load_of(pods, -10))], rules).doubled) == 1
    assert take_census([(a_node("n"), load_of(pods[:1], -10))], rules).doubled == []


def test_one_startup_taint_among_others_is_waited_for() -> None:
    joining, other = Taint(next(iter(JOINING_TAINTS)), "", "NoSchedule"), Taint("mine", "", "NoSchedule")
    assert is_awaited(a_node("n", taints=(other, joining)))
    assert not is_awaited(a_node("n", taints=(other,)))
    assert not is_awaited(a_node("n"))
