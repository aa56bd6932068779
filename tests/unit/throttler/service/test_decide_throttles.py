"""One tick of all throttles, on values."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from tests.unit.throttler.joins.cluster import (
    CNI,
    LOGS,
    UNREGISTERED,
    WALL_S,
    a_claim,
    a_node,
    a_world,
    daemons_on,
    pending,
)
from tests.unit.throttler.service.throttle_scene import QUOTAS_SERVED, a_pool, a_throttle, a_view, calm, refused
from throttler.api.throttle import LearnedStatus, ThrottleStatus
from throttler.api.throttle_rules import StoredThrottle
from throttler.joins.count_joins import count_joins
from throttler.joins.joins import Joins, JoinWorld
from throttler.kube.cluster_autoscaler import AutoscalerStatus, NodeGroup
from throttler.kube.karpenter import NodePool
from throttler.kube.selectors import LabelSelector, Requirement
from throttler.kube.taints import Taint, Toleration
from throttler.law.govern import govern
from throttler.law.verdict import Phase
from throttler.levers.lever_and_reasons import THROTTLE_LABEL, Lane, LeverState, PoolGrowth
from throttler.levers.saved_limits import ORIGINAL_ANNOTATION
from throttler.levers.scheduling_gate import PACED_GATE
from throttler.service.decide_throttles import LastJoins, Memories, PaceLeft, TickView, Turn, decide_throttles
from throttler.signals.reading import Signals

A, B = LabelSelector({"pool": "a"}), LabelSelector({"pool": "b"})
NOT_A = {"matchExpressions": [{"key": "pool", "operator": "NotIn", "values": ["a"]}]}
PODS = tuple(pending(f"p{i}") for i in range(60))
GATED = tuple(pending(f"g{at}", gates=(PACED_GATE,), is_gated=True, is_tried=False) for at in range(5))
LIMITS: dict[str, Any] = {
    "nodes": {"matchLabels": {"pool": "a"}},
    "levers": {"nodePoolLimits": {}},
    "window": {"initial": 8, "max": 8},
}


class Story:
    """Ticks one after the other; `wanted` are the throttles."""

    def __init__(self, *wanted: StoredThrottle) -> None:
        self.wanted, self.now_s = wanted, 1000.0
        self.memories: Memories = {}

    def after(self, seconds: float, view: TickView | None = None, **more: Any) -> tuple[Turn, ...]:
        self.now_s += seconds
        names = tuple(each.metadata.name for each in self.wanted)
        view = view or a_view(self.now_s, names=names, **more)
        turns, self.memories = decide_throttles(self.wanted, view, self.memories)
        return turns


def waiting(*claims: str, **more: Any) -> JoinWorld:
    there = a_node("old", age_s=9999)
    made = tuple(a_claim(name) for name in claims)
    given: dict[str, Any] = {"unplaced": PODS[: 60 - len(claims)], **more}
    return a_world(there, pods=daemons_on("old", CNI, LOGS), claims=made, **given)


def grown(story: Story) -> Turn:
    """A pool with one machine and much that waits: the first tick writes a ceiling."""
    story.after(0, world=waiting(unplaced=()), scene={"limited": (a_pool(),)})
    return story.after(10, world=waiting(), scene={"limited": (a_pool(),)})[0]


def test_what_waits_is_met_with_a_ceiling_at_once() -> None:
    turn = grown(Story(a_throttle(**LIMITS)))
    assert turn.findings.joins.waiting == 60
    assert turn.lever_writes
    assert turn.is_busy


def test_a_throttle_is_busy_for_as_long_as_machines_are_on_their_way() -> None:
    story = Story(a_throttle(**LIMITS))
    told = [story.after(10, world=waiting(*claims, unplaced=()))[0].is_busy for claims in ((), ("c1",), ())]
    assert told == [False, True, False]


PACED = "startup-taint.cluster-autoscaler.kubernetes.io/paced"
LABEL = {"key": "example.com/agents", "value": "yes"}
TOLERATES_ALL = tuple(
    msgspec.structs.replace(agent, tolerations=(Toleration(operator="Exists"),)) for agent in (CNI, LOGS)
)


@pytest.mark.parametrize(
    ("mark", "lever"),
    [({"startupTaint": {"key": PACED}}, "StartupTaint"), ({"daemonSetLabel": LABEL}, "DaemonSetLabel")],
)
def test_a_mark_that_every_daemon_set_ignores_holds_no_join_back_and_is_told(mark: dict[str, Any], lever: str) -> None:
    """Agents tolerate everything as a rule: their nodes counted as held and cost nothing, so all were asked for."""
    plain, story = (
        Story(a_throttle(**LIMITS)),
        Story(a_throttle(**{**LIMITS, "levers": {"nodePoolLimits": {}, **mark}})),
    )
    agents = {"daemon_sets": TOLERATES_ALL}
    asked = []
    for one in (plain, story):
        one.after(0, world=waiting(unplaced=(), **agents), scene={"limited": (a_pool(),)})
        verdict = one.after(10, world=waiting(**agents), scene={"limited": (a_pool(),)})[0].findings.verdict
        assert verdict is not None
        asked.append(verdict.allowance)
    assert asked[0] == asked[1] < 60, "no more than under the ceiling alone"
    new = a_node("new", is_ready=False, taints=(Taint(PACED, "NoSchedule"), UNREGISTERED))
    world = a_world(a_node("old", age_s=9999), new, pods=daemons_on("old", CNI, LOGS), unplaced=PODS, **agents)
    (turn,) = story.after(10, world=world, scene={"limited": (a_pool(),)})
    assert (turn.findings.joins.held, turn.findings.joins.joining) == (0, 1)
    (decision,) = [decision for decision in turn.findings.levers if decision.name.startswith(lever)]
    assert decision.state is LeverState.REFUSED
    assert decision.because.code == "KeepsNoJoinBack"
    assert "new" in {write.key.name for write in decision.writes}


def test_a_mark_that_one_daemon_set_minds_holds_nodes_back() -> None:
    story = Story(a_throttle(**{**LIMITS, "levers": {"nodePoolLimits": {}, "startupTaint": {"key": PACED}}}))
    agents = {"daemon_sets": (CNI, TOLERATES_ALL[1])}
    new = [a_node(f"new-{i}", taints=(Taint(PACED, "NoSchedule"),)) for i in range(30)]
    world = a_world(a_node("old", age_s=9999), *new, pods=daemons_on("old", CNI, LOGS), **agents)
    story.after(0, world=waiting(**agents), scene={"limited": (a_pool(),)})
    (turn,) = story.after(10, world=world, scene={"limited": (a_pool(),)})
    (decision,) = [decision for decision in turn.findings.levers if decision.name.startswith("StartupTaint")]
    assert turn.findings.joins.held == 30
    assert decision.state is LeverState.CONFIRMED
    assert 0 < len(decision.writes) < 30


def test_a_ceiling_is_open_for_pods_that_come_before_the_next_look() -> None:
    story = Story(a_throttle(**LIMITS))
    story.after(0, world=waiting(unplaced=()), scene={"limited": (a_pool(),)})
    (turn,) = story.after(10, world=waiting(unplaced=PODS[:1]), scene={"limited": (a_pool(),)})
    assert turn.findings.verdict is not None
    assert turn.findings.verdict.allowance == 1
    (write,) = turn.lever_writes
    nodes = int(msgspec.to_builtins(write.body)["spec"]["limits"]["cpu"]) // 8
    assert nodes == 1 + turn.findings.verdict.spare > 1


def test_leave_stands_until_the_autoscaler_has_used_it_and_is_not_given_twice() -> None:
    story = Story(a_throttle(**LIMITS))
    first = grown(story).findings.verdict
    assert first is not None
    asks = []
    for _ in range(4):
        verdict = story.after(1, world=waiting(), scene={"limited": (a_pool(),)})[0].findings.verdict
        assert verdict is not None
        asks.append(verdict.allowance)
    assert asks == sorted(asks), "a ceiling that was raised is not lowered before it can be used"
    assert 0 < asks[-1] <= 10
    ordered = tuple(f"c{i}" for i in range(asks[-1]))
    verdict = story.after(1, world=waiting(*ordered), scene={"limited": (a_pool(),)})[0].findings.verdict
    assert verdict is not None
    assert verdict.allowance <= 10


def test_nothing_moves_while_the_view_is_incomplete() -> None:
    story = Story(a_throttle(**LIMITS))
    grown(story)
    (turn,) = story.after(5, world=waiting(), scene={"limited": (a_pool(),)}, missing=("nodeclaims",))
    assert turn.findings.verdict is None
    assert turn.findings.missing == ("nodeclaims",)
    assert turn.findings.problem == ""
    assert not turn.lever_writes
    assert turn.lane is not None
    assert turn.lane.allowance == 0


@pytest.mark.parametrize(("age_s", "is_granted"), [(30.0, True), (31.0, False)])
def test_nothing_more_is_granted_on_an_old_view(age_s: float, *, is_granted: bool) -> None:
    story = Story(a_throttle(**LIMITS))
    story.after(0, world=waiting(unplaced=()), scene={"limited": (a_pool(),)})
    (turn,) = story.after(5, world=waiting(), scene={"limited": (a_pool(),)}, age_s=age_s)
    assert turn.findings.verdict is not None
    assert (turn.findings.verdict.allowance > 0) is is_granted


@pytest.mark.parametrize("how", ["paused", "dryRun"])
def test_a_throttle_that_is_paused_or_tries_things_out_gives_everything_back(how: str) -> None:
    story = Story(a_throttle(**{**LIMITS, how: True}))
    turn = grown(story)
    assert turn.findings.verdict is not None
    assert (turn.findings.verdict.allowance > 0) is (how == "dryRun"), "a dry run still shows what it would do"
    assert [lever.state for lever in turn.findings.levers] == [LeverState.HANDED_BACK]
    assert turn.lane is None


def test_headroom_grows_by_the_allowance_less_what_was_let_out() -> None:
    story = Story(a_throttle(nodes={"matchLabels": {"pool": "a"}}))
    there = waiting(unplaced=())
    story.after(0, world=there)
    pool = PoolGrowth(A, lacking=30, granted=0)
    (turn,) = story.after(5, world=there, growth=(pool,))
    assert turn.findings.joins.waiting == 30
    assert turn.lane is not None
    allowance = turn.lane.allowance
    assert allowance > 0
    out = PoolGrowth(A, lacking=30, granted=allowance)
    (turn,) = story.after(0.1, world=there, growth=(out,))
    assert turn.lane is not None
    assert turn.lane.allowance <= 1


@pytest.mark.parametrize("ceiling", [{}, {"nodePoolLimits": {}}])
def test_headroom_gets_what_gates_leave_of_the_allowance(ceiling: dict[str, Any]) -> None:
    """Both were given all of it, so that a window of 8 was filled with 16 machines at once."""
    story = Story(a_throttle(**{**LIMITS, "levers": {"schedulingGates": {}, **ceiling}}))
    more: dict[str, Any] = {"scene": {"limited": (a_pool(),)}, "growth": (PoolGrowth(A, 30, 0),)}
    story.after(0, world=waiting(unplaced=()))
    (turn,) = story.after(10, world=waiting(unplaced=GATED), **more)
    assert turn.findings.verdict is not None
    assert turn.lane is not None
    assert len([write for write in turn.lever_writes if write.kind == "Pod"]) == 5
    assert turn.lane.allowance == turn.findings.verdict.allowance - 5 > 0
    (turn,) = story.after(2, world=waiting(unplaced=tuple(pending(pod.key.name) for pod in GATED)), **more)
    assert turn.lane is not None
    assert turn.lane.allowance == 3, "they are not ordered yet"


def test_headroom_is_not_paced_where_the_throttle_says_so() -> None:
    story = Story(a_throttle(levers={"headroom": False}))
    assert story.after(0)[0].lane == Lane(LabelSelector(), None)


OTHER = {**LIMITS, "nodes": {"matchLabels": {"pool": "b"}}}
FULL = tuple(a_node(f"new{i}", age_s=-1000, is_ready=False, labels={"pool": "b"}) for i in range(30))
"""Nodes of another throttle join, more than the window holds."""


def lane_of(spec: dict[str, Any], world: JoinWorld, **more: Any) -> Lane | None:
    """The lane while a Headroom pool waits for machines that it was granted."""
    story = Story(a_throttle(**spec), a_throttle("other", **OTHER))
    more = {"scene": {"limited": (a_pool(),)}, "growth": (PoolGrowth(A, 5, 5),), **more}
    for _ in range(3):
        turn, _ = story.after(5, world=world, **more)
    return turn.lane


def test_a_lane_is_shut_while_nothing_may_be_ordered_and_no_machine_is_on_its_way() -> None:
    """A full window is no news of what is in stock; a machine that was ordered and does not come is."""
    lane = lane_of(LIMITS, a_world(*FULL))
    assert lane is not None
    assert (lane.allowance, lane.is_shut) == (0, True)
    for world in (a_world(), a_world(*FULL, claims=(a_claim("c1", age_s=-1000),))):
        lane = lane_of(LIMITS, world)
        assert lane is not None
        assert not lane.is_shut
    one = lane_of(LIMITS, a_world(), growth=(PoolGrowth(A, 1, 1),))
    assert one is not None
    assert not one.is_shut, "a ceiling stands open for more than the one that waits"


def test_a_lane_is_shut_while_ceilings_cannot_be_raised() -> None:
    for more in ({"missing": ("nodeclaims",)}, {"age_s": 31.0}):
        lane = lane_of(LIMITS, a_world(), **more)
        assert lane is not None
        assert (lane.allowance, lane.is_shut) == (0, True)


def test_where_nothing_bounds_the_autoscaler_no_lane_is_shut() -> None:
    lane = lane_of({**LIMITS, "levers": {"schedulingGates": {}}}, a_world(*FULL))
    assert lane is not None
    assert (lane.allowance, lane.is_shut) == (0, False)


def test_a_ceiling_shuts_also_where_balloons_are_not_paced() -> None:
    lane = lane_of({**LIMITS, "levers": {"nodePoolLimits": {}, "headroom": False}}, a_world(*FULL))
    assert lane is not None
    assert (lane.allowance, lane.is_shut) == (None, True)


def test_a_pool_grows_in_the_lane_of_the_oldest_throttle_that_paces_its_nodes() -> None:
    old = a_throttle("old", nodes={"matchLabels": {"pool": "a"}})
    other = a_throttle("other", nodes={"matchLabels": {"pool": "b"}})
    new = a_throttle("new", created="2026-02-01T00:00:00Z")
    story = Story(old, other, new)
    story.after(0)
    turns = story.after(5, growth=(PoolGrowth(A, 7, 0), PoolGrowth(LabelSelector({"pool": "c"}), 3, 0)))
    assert [turn.findings.joins.waiting for turn in turns] == [7, 0, 3]
    assert [turn.lane.nodes for turn in turns if turn.lane] == [A, B, LabelSelector()]


def test_a_pool_that_names_its_nodes_by_expressions_is_demand_of_the_throttle_that_paces_them() -> None:
    story = Story(a_throttle("old", nodes={"matchLabels": {"pool": "a"}}), a_throttle("new", nodes=NOT_A))
    story.after(0)
    either = LabelSelector({}, (Requirement("pool", "In", ("b", "c")),))
    turns = story.after(5, growth=(PoolGrowth(either, 7, 0),))
    assert [turn.findings.joins.waiting for turn in turns] == [0, 7]


def test_several_throttles_share_one_window() -> None:
    wanted = [a_throttle(name, nodes={"matchLabels": {"pool": name}}, window={"initial": 8, "max": 8}) for name in "ab"]
    story = Story(*wanted)
    growth = tuple(PoolGrowth(LabelSelector({"pool": name}), 30, 0) for name in "ab")
    total = 0
    for _ in range(8):
        turns = story.after(1, growth=growth)
        lanes = [turn.lane.allowance for turn in turns if turn.lane]
        total = max(total, sum(lanes))
    assert 2 <= total <= 10
    assert max(lanes) - min(lanes) <= 2


NAMED: dict[str, Any] = {"nodePoolLimits": {"names": ["pool-a"]}, "capacityQuota": {"name": "q"}}
OLD = a_throttle("old", nodes={"matchLabels": {"pool": "a"}}, levers=NAMED)
NEW = a_throttle("new", created="2026-02-01T00:00:00Z", levers=NAMED)


def held_by(throttle: str) -> NodePool:
    """A NodePool on which a throttle's ceiling stands."""
    mark = '{"original":{"cpu":"1000"},"ceiling":{"cpu":"24"}}'
    pool = a_pool(cpu="24")
    labels, annotations = {THROTTLE_LABEL: throttle}, {ORIGINAL_ANNOTATION: mark}
    metadata = msgspec.structs.replace(pool.metadata, labels=labels, annotations=annotations)
    return msgspec.structs.replace(pool, metadata=metadata)


def both(pool: NodePool) -> tuple[Turn, ...]:
    """Much waits for both of two throttles that name one NodePool and one quota."""
    story = Story(OLD, NEW)
    scene = {"limited": (pool,), "versions": QUOTAS_SERVED}
    story.after(0, world=waiting(unplaced=()), scene=scene)
    return story.after(10, world=waiting(), scene=scene)


def test_an_object_that_two_throttles_name_is_the_older_ones() -> None:
    old, new = both(a_pool())
    assert {write.kind for write in old.lever_writes} == {"NodePool", "CapacityQuota"}
    assert not new.lever_writes
    told = [(lever.name, lever.state, lever.because.code) for lever in new.findings.levers]
    assert told == [
        ("CapacityQuota/q", LeverState.REFUSED, "OtherThrottle"),
        ("NodePool/pool-a", LeverState.REFUSED, "OtherThrottle"),
    ]
    assert all("JoinThrottle old " in lever.because.sentence for lever in new.findings.levers)


def test_two_ceilings_of_one_throttle_do_not_both_give_all_of_the_allowance() -> None:
    story = Story(a_throttle(nodes={"matchLabels": {"pool": "a"}}, levers=NAMED))
    scene = {"limited": (a_pool(),), "versions": QUOTAS_SERVED}
    story.after(0, world=waiting(unplaced=()), scene=scene)
    (turn,) = story.after(10, world=waiting("c1", "c2"), scene=scene)
    assert turn.findings.verdict is not None
    quota, pool = (msgspec.to_builtins(write.body)["spec"]["limits"] for write in turn.lever_writes)
    # One node exists, and the two machines that boot are Karpenter's; each has room for one pod of 6 cores.
    by_groups, by_pools = int(quota["resources"]["nodes"]) - 1, int(pool["cpu"]) // 8
    assert by_groups + by_pools == turn.findings.verdict.allowance + turn.findings.verdict.spare
    assert 0 < by_groups < by_pools, "Karpenter has machines on their way"


@pytest.mark.parametrize("holder", ["old", "new", "gone"])
def test_the_older_throttle_takes_over_what_another_one_held(holder: str) -> None:
    """The younger one gave it back first: what waited could all be ordered until the older one had written its own."""
    old, new = both(held_by(holder))
    (write,) = [write for write in old.lever_writes if write.kind == "NodePool"]
    body = msgspec.to_builtins(write.body)
    assert int(body["spec"]["limits"]["cpu"]) < 1000
    assert json.loads(body["metadata"]["annotations"][ORIGINAL_ANNOTATION])["original"]["cpu"] == "1000"
    assert body["metadata"]["labels"] == {THROTTLE_LABEL: "old"}
    assert not new.lever_writes


def test_a_throttle_that_cannot_be_read_changes_nothing_for_others() -> None:
    alone = grown(Story(a_throttle(**LIMITS)))
    story = Story(refused(), a_throttle(**LIMITS))
    story.after(0, world=waiting(unplaced=()), scene={"limited": (a_pool(),)})
    turns = story.after(10, world=waiting(), scene={"limited": (a_pool(),)})
    assert turns[0].findings.verdict is None
    assert turns[0].lane is None
    assert turns[1] == alone


@pytest.mark.parametrize("step", [count_joins, govern])
def test_a_throttle_whose_decision_fails_stands_still_and_says_so(
    step: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fragile(*given: Any) -> Any:
        if getattr(given[2], "nodes", None) == B or getattr(given[3], "window_max", None) == 3:
            raise ValueError("odd figure")
        return step(*given)

    monkeypatch.setattr(f"throttler.service.decide_throttles.{step.__name__}", fragile)
    story = Story(a_throttle("odd", window={"max": 3}, nodes={"matchLabels": {"pool": "b"}}), a_throttle(**LIMITS))
    story.after(0, world=waiting(unplaced=()), scene={"limited": (a_pool(),)})
    turns = story.after(10, world=waiting(), scene={"limited": (a_pool(),)})
    assert "odd figure" in turns[0].findings.problem
    assert turns[0].lane == Lane(B, 0)
    assert turns[1].lever_writes


def test_joins_of_a_throttle_that_cannot_be_counted_take_part_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    count = count_joins

    def fragile(*given: Any) -> Any:
        if is_broken and given[2].nodes == LabelSelector({"pool": "a"}):
            raise ValueError("odd node")
        return count(*given)

    is_broken = False
    seen: list[tuple[int, int, int]] = []

    def told(*given: Any) -> Any:
        seen.append((given[1].in_flight, given[1].waiting, given[1].urgent))
        return govern(*given)

    monkeypatch.setattr("throttler.service.decide_throttles.count_joins", fragile)
    monkeypatch.setattr("throttler.service.decide_throttles.govern", told)
    story = Story(a_throttle("odd", nodes={"matchLabels": {"pool": "a"}}), a_throttle("sound"))
    more: dict[str, Any] = {"growth": (PoolGrowth(A, 4, 0),)}
    story.after(0, world=waiting(unplaced=()))
    story.after(10, world=waiting("c1", "c2", "c3", unplaced=()), **more)
    assert seen[-1] == (3, 1, 0)
    is_broken = True
    for seconds in (10, 290):
        story.after(seconds, world=waiting("c1", "c2", "c3", unplaced=()), **more)
        assert seen[-1] == (3, 0, 0), "it waits for nothing: nobody knows for what"
    story.after(1, world=waiting("c1", "c2", "c3", unplaced=()), **more)
    assert seen[-1] == (0, 0, 0)


def test_a_throttle_that_tries_things_out_shows_what_it_would_allow_and_takes_nothing_from_others() -> None:
    tries = a_throttle("tries", dryRun=True, **LIMITS)
    turn = grown(Story(tries))
    assert turn.findings.verdict is not None
    assert turn.findings.verdict.allowance > 0
    growth = tuple(PoolGrowth(LabelSelector({"pool": name}), 30, 0) for name in "ab")
    other = a_throttle("b", nodes={"matchLabels": {"pool": "b"}}, window={"initial": 8, "max": 8})

    def lanes(*wanted: StoredThrottle) -> list[int]:
        story = Story(*wanted)
        ticks = [story.after(1, growth=growth)[-1].lane for _ in range(6)]
        return [lane.allowance for lane in ticks if lane]

    assert lanes(tries, other) == lanes(other)


@pytest.mark.parametrize("how", ["paused", "dryRun"])
def test_a_throttle_that_acts_keeps_what_an_older_one_names_that_does_not(how: str) -> None:
    """Its objects, its nodes and its pods: a dry run changes nothing for others."""
    acting = a_throttle("acting", **LIMITS)
    alone, beside = Story(acting), Story(a_throttle("older", **{**LIMITS, how: True}), acting)
    for story in (alone, beside):
        story.after(0, world=waiting(unplaced=()), scene={"limited": (a_pool(),)})
    (expected,) = alone.after(5, world=waiting(), scene={"limited": (a_pool(),)})
    older, turn = beside.after(5, world=waiting(), scene={"limited": (a_pool(),)})
    assert turn.findings.levers == expected.findings.levers
    assert turn.lever_writes
    assert turn.findings.joins == expected.findings.joins
    assert [lever.because.code for lever in older.findings.levers] == ["OtherThrottle"]


def test_machines_of_one_node_group_boot_for_one_throttle() -> None:
    story = Story(*(a_throttle(name, nodes={"matchLabels": {"pool": name}}) for name in "ab"))
    there = [a_node(name, age_s=9999, labels={"pool": name, "group": f"asg-{name}"}) for name in "ab"]
    groups = (NodeGroup("asg-a", target=3, registered=1), NodeGroup("asg-b", target=21, registered=1))
    turns = story.after(0, world=a_world(*there, autoscaler=AutoscalerStatus(groups, WALL_S + 1000)))
    assert [turn.findings.joins.booting for turn in turns] == [2, 20]
    assert [turn.findings.guessed_groups for turn in turns] == [(), ()]
    unknown = AutoscalerStatus((NodeGroup("new", target=5),), WALL_S + 1001)
    turns = story.after(1, world=a_world(*there, autoscaler=unknown))
    assert [turn.findings.joins.booting for turn in turns] == [5, 0]
    assert [turn.findings.guessed_groups for turn in turns] == [("new",), ()]
    turns = story.after(1, world=a_world(autoscaler=unknown), missing=("nodes",))
    assert [turn.findings.guessed_groups for turn in turns] == [(), ()], "nobody knows before all nodes are seen"


def test_machines_of_a_node_group_boot_for_a_later_throttle_of_these_nodes_as_well() -> None:
    """It counted none of them, so that its bounds bound nothing."""
    first, later = a_throttle("first"), a_throttle("later", nodes={"matchLabels": {"pool": "a"}}, maxInFlight=8)
    there = [a_node(name, age_s=9999, labels={"pool": name, "group": f"asg-{name}"}) for name in "ab"]
    groups = (NodeGroup("asg-a", target=8, registered=1), NodeGroup("asg-b", target=21, registered=1))
    world = a_world(*there, autoscaler=AutoscalerStatus(groups, WALL_S + 1000), unplaced=PODS)
    all_of_them, own = (turn.findings for turn in Story(first, later).after(0, world=world))
    assert (all_of_them.joins.booting, own.joins.booting) == (27, 7)
    assert (all_of_them.covered_by, own.covered_by) == ("", "first")
    assert own.verdict is not None
    assert own.verdict.allowance <= 1


def test_an_autoscaler_is_silent_only_while_its_machines_count() -> None:
    story = Story(a_throttle())
    status = AutoscalerStatus((NodeGroup("asg", target=5),), WALL_S + 1000)
    told = [
        story.after(seconds, world=a_world(autoscaler=status))[0].findings.is_autoscaler_silent
        for seconds in (0, 119, 2, 779, 1)
    ]
    assert told == [False, False, True, True, False]


def test_what_the_last_process_learned_is_where_the_next_one_begins() -> None:
    learned = {"window": 40, "joinMilliseconds": 20_000, "learnedAt": "2023-11-14T22:00:00Z"}
    status = ThrottleStatus(learned=msgspec.convert(learned, LearnedStatus))
    throttle = msgspec.structs.replace(a_throttle(), status=status)
    story = Story(throttle)
    story.after(0)
    (turn,) = story.after(5, growth=(PoolGrowth(LabelSelector({}), 100, 0),))
    assert turn.findings.verdict is not None
    assert turn.findings.verdict.window > 16


def test_what_one_throttle_has_in_flight_uses_up_no_other_ones_bound() -> None:
    """Its own machines are few and dear; during a large scale-up elsewhere it got none of them."""
    few = a_throttle("few", nodes={"matchLabels": {"pool": "a"}}, maxInFlight=4, levers={"nodePoolLimits": {}})
    many = a_throttle("many", nodes={"matchLabels": {"pool": "b"}}, levers={"nodePoolLimits": {}})
    coming = [a_node(f"b{at}", labels={"pool": "b"}, age_s=5, is_ready=False) for at in range(12)]
    world = a_world(a_node("old", age_s=9999), *coming, pods=daemons_on("old", CNI, LOGS))
    growth = (PoolGrowth(A, 10, 0), PoolGrowth(B, 30, 0))
    story = Story(few, many)
    story.after(0)
    for _ in range(3):
        turns = story.after(2, world=world, growth=growth)
    own, others = (turn.findings for turn in turns)
    assert (own.joins.in_flight, others.joins.in_flight) == (0, 12)
    assert own.verdict is not None
    assert 0 < own.verdict.allowance <= 4
    assert own.verdict.allowance + own.verdict.spare <= 4


BEFORE = Joins(booting=5, held=4, joining=3, joined=2, lost=1)


@pytest.mark.parametrize(
    ("changes", "ordered", "let_in"),
    [
        ({}, 0, 0),
        ({"booting": 7}, 2, 0),
        ({"booting": 4, "held": 5}, 0, 0),
        ({"held": 3, "joining": 4}, 0, 1),
        ({"joining": 1, "joined": 4}, 0, 0),
        ({"booting": 7, "lost": 3}, 4, 0),
        ({"booting": 4, "lost": 2}, 0, 0),
        ({"booting": 2, "joining": 1}, 0, 0),
        ({"booting": 50, "joining": 50}, 10, 4),
    ],
)
def test_a_pace_pays_for_what_was_ordered_and_let_in_since_the_last_look(
    changes: dict[str, int], ordered: int, let_in: int
) -> None:
    """A machine that was ordered and lost between two looks was ordered all the same."""
    left = PaceLeft(10.0, 4.0).after(60, LastJoins(BEFORE, 100.0), replace(BEFORE, **changes), 100.0)
    assert left == PaceLeft(10.0 - ordered, 4.0 - let_in)


@pytest.mark.parametrize(("per_minute", "most"), [(60, PaceLeft(15.0, 5.0)), (3, PaceLeft(1.0, 1.0))])
def test_a_pace_collects_until_the_autoscaler_looks_and_no_longer(per_minute: int, most: PaceLeft) -> None:
    last = LastJoins(Joins(), 100.0)
    assert PaceLeft().after(per_minute, last, Joins(), 100.0) == most
    assert PaceLeft(0.0, 0.0).after(per_minute, last, Joins(), 200.0) == most
    per_s = per_minute / 60
    assert PaceLeft(0.0, 0.0).after(per_minute, last, Joins(), 101.0) == PaceLeft(per_s, per_s)


def test_machines_that_were_seen_before_a_gap_in_the_view_are_not_paid_for_again() -> None:
    story = Story(a_throttle("slow", pace={"maxPerMinute": 60}, **LIMITS), a_throttle("other", **OTHER))
    world = waiting(*(f"c{at}" for at in range(4)))
    told = []
    for missing in ((), (), ("nodes",), ()):
        verdict = story.after(1, world=world, missing=missing)[0].findings.verdict
        told.append(verdict.allowance if verdict else 0)
    assert told[3] >= told[1] > 0


def test_a_dry_run_alone_shows_what_the_throttle_would_allow_if_it_acted() -> None:
    asked = []
    for how in ({}, {"dryRun": True}):
        story = Story(a_throttle(pace={"maxPerMinute": 6}, **{**LIMITS, **how}))
        verdicts = [
            story.after(5, world=waiting(*claims))[0].findings.verdict
            for claims in ((), (), ("c1", "c2"), ("c1", "c2"))
        ]
        asked.append([verdict.allowance for verdict in verdicts if verdict])
    assert asked[0] == asked[1]
    assert min(asked[0]) == 0 < max(asked[0])


def test_a_throttle_whose_servers_refuse_requests_orders_nothing_though_others_see_calm_ones() -> None:
    """Each names its own sources."""
    story = Story(a_throttle("default", **LIMITS), a_throttle("other", **OTHER))
    for _ in range(4):
        now_s = story.now_s + 5
        (reading,) = calm(now_s).readings
        signals = {"default": Signals(readings=(replace(reading, errors=100.0),)), "other": calm(now_s)}
        more: dict[str, Any] = {"signals": signals, "growth": (PoolGrowth(A, 30, 0), PoolGrowth(B, 30, 0))}
        braked, other = (turn.findings.verdict for turn in story.after(5, world=a_world(*FULL[:4]), **more))
    assert braked is not None
    assert other is not None
    assert (braked.phase, braked.allowance) == (Phase.BRAKE, 0)
    assert other.allowance > 0


CEILING_OF_A = {"nodes": {"matchLabels": {"pool": "a"}}, "levers": {"nodePoolLimits": {}}}


@pytest.mark.parametrize(
    ("other", "has_ceiling"),
    [
        (CEILING_OF_A, True),
        ({**CEILING_OF_A, "dryRun": True}, False),
        ({**CEILING_OF_A, "nodes": {"matchLabels": {"pool": "b"}}}, False),
        ({"nodes": {"matchLabels": {"pool": "a"}}}, False),
    ],
    ids=["a ceiling", "a dry run", "of other nodes", "no ceiling"],
)
def test_pods_that_gates_let_go_are_in_flight_where_no_ceiling_bounds_them(
    other: dict[str, Any], *, has_ceiling: bool
) -> None:
    gates = a_throttle("default", nodes={"matchLabels": {"pool": "a"}}, levers={"schedulingGates": {}})
    story = Story(gates, a_throttle("other", **other))
    story.after(0, world=waiting(unplaced=()))
    turn, _ = story.after(10, world=waiting(unplaced=GATED))
    assert len(turn.lever_writes) == 5
    turn, _ = story.after(2, world=waiting(unplaced=tuple(pending(pod.key.name) for pod in GATED)))
    assert turn.findings.joins.in_flight == (0 if has_ceiling else 5)


def test_pods_that_a_later_throttle_of_the_same_nodes_lets_go_fill_the_window_of_all() -> None:
    window = {"initial": 5, "min": 5, "max": 5}
    later = a_throttle("default", nodes={"matchLabels": {"pool": "a"}}, levers={"schedulingGates": {}}, window=window)
    story = Story(a_throttle("first", window=window), later)
    story.after(0, world=waiting(unplaced=()))
    _, turn = story.after(10, world=waiting(unplaced=GATED))
    assert len(turn.lever_writes) == 5
    world = waiting(unplaced=tuple(pending(pod.key.name) for pod in GATED))
    first, _ = story.after(2, world=world, growth=(PoolGrowth(B, 10, 0),))
    assert first.lane is not None
    assert first.lane.allowance == 0


@pytest.mark.parametrize("how", [{}, {"dryRun": True}, {"paused": True}])
@pytest.mark.parametrize(("beside", "unpaced"), [({}, ()), ({"dryRun": True}, ("pool-b",))])
def test_a_pool_is_unpaced_that_no_throttle_moves_or_would_move_if_this_one_acted(
    how: dict[str, bool], beside: dict[str, bool], unpaced: tuple[str, ...]
) -> None:
    nodes = {"matchLabels": {"pool": "a"}}
    own, other = ({"nodePoolLimits": {"names": [name]}} for name in ("pool-a", "pool-b"))
    story = Story(a_throttle(nodes=nodes, levers=own, **how), a_throttle("other", nodes=nodes, levers=other, **beside))
    turn, _ = story.after(0, scene={"limited": (a_pool(), a_pool("pool-b"))})
    assert turn.findings.unpaced_pools == unpaced
