"""Scheduling gates: released in order as nodes may start, only our gate, all of them in time or on hand-back."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.throttler.joins.cluster import pending
from tests.unit.throttler.levers.json_patch import apply_patch
from tests.unit.throttler.service.throttle_scene import a_throttle
from tests.world import a_node, work
from throttler.joins.demand import Sizes, count_demand
from throttler.joins.joins import JoinRules, Joins
from throttler.kube.metadata import ObjectKey, OwnerReference
from throttler.kube.node import Node
from throttler.kube.pod import Pod, Scheduling
from throttler.kube.quantities_and_durations import parse_resources
from throttler.kube.selectors import LabelSelector
from throttler.kube.taints import Taint, Toleration
from throttler.levers.admission_queue import AdmissionReason
from throttler.levers.lever_and_reasons import (
    Clocks,
    How,
    LeverBudget,
    LeverContext,
    LeverDecision,
    LeverScene,
    LeverState,
)
from throttler.levers.scheduling_gate import (
    APART_S,
    PACED_GATE,
    SCHEDULING_GATES,
    GatedDemand,
    GateMemory,
    GateSettings,
    is_held,
    is_ours_alone,
    nodes_for,
    release_gates,
)

SETTINGS, AT = GateSettings(max_wait_s=600.0), Clocks(100.0, 100.0)
OTHER = "kueue.x-k8s.io/admission"
MACHINES = (a_node("machine"),)
BY_CORES = {cores: parse_resources({"cpu": cores, "memory": "1Ti", "pods": "110"}) for cores in ("16", "192")}


def room(allowance: int = 0, *, may_move: bool = True, is_stopping: bool = False) -> LeverBudget:
    return LeverBudget(
        existing=3, booting=0, allowance=allowance, admit=0, waiting=9, may_move=may_move, is_stopping=is_stopping
    )


def gated(name: str, *gates: str, cpu: str = "12", gang: str = "", **changes: Any) -> Pod:
    gates = gates or (PACED_GATE,)
    return work(name, cpu=cpu, scheduling=Scheduling(is_gated=True, gates=gates, gang=gang), **changes)


def row(count: int, **changes: Any) -> list[Pod]:
    return [gated(f"p{i:02}", **{"created_s": float(i), **changes}) for i in range(count)]


def decide(
    pods: list[Pod],
    how: LeverBudget,
    now_s: float = 100.0,
    *,
    settings: GateSettings = SETTINGS,
    released: int = 0,
    machines: tuple[Node, ...] = MACHINES,
) -> LeverDecision:
    demand = GatedDemand(pods=pods, machines=machines, released=released)
    return release_gates(demand, settings, how, GateMemory(), Clocks(now_s, now_s))[0]


def names(decision: LeverDecision) -> list[str]:
    return [write.key.name for write in decision.writes]


def test_oldest_pods_go_first_one_per_node() -> None:
    assert names(decide(list(reversed(row(5))), room(allowance=2))) == ["p00", "p01"]


def test_pods_that_share_a_node_go_together() -> None:
    assert names(decide(row(10, cpu="4"), room(allowance=2))) == [f"p{i:02}" for i in range(8)]


def test_pod_slots_bound_how_many_share_a_node() -> None:
    few = a_node("few", allocatable=parse_resources({"cpu": "16", "memory": "64Gi", "pods": "3"}))
    assert len(decide(row(10, cpu="100m"), room(allowance=2), machines=(few,)).writes) == 6


def test_each_pod_counts_as_a_node_while_no_node_was_seen() -> None:
    assert len(decide(row(10, cpu="1"), room(allowance=2), machines=()).writes) == 2


def test_pod_larger_than_any_node_counts_as_one() -> None:
    assert len(decide(row(3, cpu="99"), room(allowance=2)).writes) == 2


def test_pods_that_keep_apart_count_as_one_node_each() -> None:
    alone = Scheduling(is_gated=True, gates=(PACED_GATE,), is_one_per_node=True)
    pods = [work(f"p{i}", cpu="1", scheduling=alone) for i in range(5)]
    assert len(decide(pods, room(allowance=2)).writes) == 2


def test_nodes_that_released_pods_still_ask_for_come_off_the_allowance() -> None:
    assert len(decide(row(9), room(allowance=6), released=4).writes) == 2
    assert decide(row(9), room(allowance=6), released=9).writes == ()


def looks(
    pods: list[Pod], *allowances: int, memory: GateMemory | None = None, apart_s: float = APART_S
) -> list[list[str]]:
    """Which pods are let go at one look after the other, while the view hears of none of it."""
    memory, found = memory or GateMemory(), []
    for number, allowance in enumerate(allowances):
        now_s = 100.0 + number * apart_s
        demand, moment = GatedDemand(pods=pods, machines=MACHINES), Clocks(now_s, now_s)
        decision, memory = release_gates(demand, SETTINGS, room(allowance), memory, moment)
        found.append(names(decision))
    return found


def test_what_was_let_go_is_let_go_again_until_the_view_has_heard_of_it() -> None:
    assert looks(row(5), 2, 0, 0) == [["p00", "p01"]] * 3


def test_what_was_let_go_takes_no_place_of_what_may_go_now() -> None:
    assert looks(row(5), 2, 1) == [["p00", "p01"], ["p00", "p01", "p02"]]


def test_pods_go_together_and_not_in_a_trickle() -> None:
    """Karpenter orders once no new pod has come for a second: a pod a second would wait for ten of them."""
    counts = [len(pods) for pods in looks(row(9), 2, 2, 2, 2, 2, 2, apart_s=1.0)]
    assert counts == [2, 2, 2, 4, 4, 4], "what was let go before is let go again"


@pytest.mark.parametrize(("back", "goes_on"), [([], False), (["p00"], False), (["p02"], True)])
def test_only_a_release_that_was_never_begun_is_made_up_for_at_once(back: list[str], goes_on: bool) -> None:
    """Two had been let go before and are let go again, with two more; writes that wait still are taken back."""
    pods = row(9)
    demand = GatedDemand(pods=pods, machines=MACHINES)
    _, before = release_gates(demand, SETTINGS, room(2), GateMemory(), AT)
    _, after = release_gates(demand, SETTINGS, room(2), before, Clocks(100.0 + APART_S, 100.0))
    uids = [pod.uid for pod in pods if pod.key.name in back]
    memory = SCHEDULING_GATES.not_begun(uids, after, before)
    assert memory.released == after.released - ({*uids} - before.released)
    decision, _ = release_gates(demand, SETTINGS, room(3), memory, Clocks(101.0 + APART_S, 101.0))
    fresh = {write.key.name for write in decision.writes} - {pod.key.name for pod in pods if pod.uid in memory.released}
    assert bool(fresh) is goes_on


def test_urgent_pods_that_come_later_take_only_places_of_their_own() -> None:
    memory = release_gates(GatedDemand(pods=row(5), machines=MACHINES), SETTINGS, room(2), GateMemory(), AT)[1]
    late = gated("late", priority=1000, created_s=99.0)
    settings = GateSettings(max_wait_s=600.0, urgent_priority=1000)
    demand = GatedDemand(pods=[*row(5), late], machines=MACHINES)
    decision, after = release_gates(demand, settings, room(0), memory, Clocks(101.0, 101.0))
    assert names(decision) == ["p00", "p01"]
    assert after.released == memory.released


def test_pods_that_may_not_be_let_go_take_nobodys_place() -> None:
    pods = row(6)
    memory = release_gates(GatedDemand(pods=pods, machines=MACHINES), SETTINGS, room(2), GateMemory(), AT)[1]
    stuck = frozenset(pod.uid for pod in pods[:2])
    demand = GatedDemand(pods=pods, machines=MACHINES, refused=stuck)
    decision, memory = release_gates(demand, SETTINGS, room(2), memory, Clocks(103.0, 103.0))
    assert names(decision) == ["p02", "p03"]
    assert memory.released == {pod.uid for pod in pods[2:4]}
    assert decision.ceiling == "4 held", "they are held all the same"
    left = GatedDemand(pods=[*pods[:2], *pods[4:]], machines=MACHINES)
    decision, _ = release_gates(left, SETTINGS, room(2), memory, Clocks(133.0, 133.0))
    assert names(decision) == ["p04", "p05"], "who was refused is in turn after all that came before"


def test_handing_back_asks_for_all_whoever_was_refused() -> None:
    demand = GatedDemand(pods=row(3), machines=MACHINES, refused=frozenset(pod.uid for pod in row(3)))
    back, _ = release_gates(demand, SETTINGS, room(is_stopping=True), GateMemory(), AT)
    assert len(back.writes) == 3


def test_a_pod_that_the_view_shows_without_the_gate_is_forgotten() -> None:
    pods = row(2)
    memory = release_gates(GatedDemand(pods=pods, machines=MACHINES), SETTINGS, room(2), GateMemory(), AT)[1]
    assert memory.released == {pod.uid for pod in pods}
    seen = [work("p00"), pods[1]]
    assert release_gates(GatedDemand(pods=seen, machines=MACHINES), SETTINGS, room(0), memory, Clocks(101.0, 101.0))[
        1
    ].released == {pods[1].uid}


def test_an_incomplete_view_lets_nothing_go_that_was_not_let_go_before() -> None:
    memory = release_gates(GatedDemand(pods=row(5), machines=MACHINES), SETTINGS, room(2), GateMemory(), AT)[1]
    demand = GatedDemand(pods=row(5), machines=MACHINES)
    decision, _ = release_gates(demand, SETTINGS, room(9, may_move=False), memory, Clocks(9_000.0, 9_000.0))
    assert names(decision) == ["p00", "p01"]


def test_urgent_priority_goes_before_age() -> None:
    pods = [*row(3), gated("urgent", created_s=50.0, priority=1000)]
    settings = GateSettings(max_wait_s=600.0, urgent_priority=1000)
    assert names(decide(pods, room(allowance=1), settings=settings)) == ["urgent"]


def test_small_demand_does_not_queue_behind_a_large_batch() -> None:
    batch, service = (OwnerReference("Job", kind, uid=kind, controller=True) for kind in ("batch", "service"))
    pods = [*row(30, owner=batch), *(gated(f"s{i}", created_s=50.0 + i, owner=service) for i in range(2))]
    settings = GateSettings(max_wait_s=600.0, small_nodes=2)
    assert names(decide(pods, room(allowance=3), settings=settings)) == ["s0", "s1", "p00"]


def test_gang_is_one_demand_however_many_owners_it_has() -> None:
    pods = [gated(f"g{i}", gang="train", created_s=0.0) for i in range(5)] + [gated("single", created_s=50.0)]
    settings = GateSettings(max_wait_s=600.0, small_nodes=2)
    assert names(decide(pods, room(allowance=1), settings=settings)) == ["single"]
    small = gated("small", gang="test", created_s=60.0)
    assert names(decide([*pods[:5], small], room(allowance=1), settings=settings)) == ["small"], "gangs are told apart"
    elsewhere = msgspec.structs.replace(gated("one", gang="train", created_s=60.0), key=ObjectKey("elsewhere", "one"))
    assert names(decide([*pods[:5], elsewhere], room(allowance=1), settings=settings)) == ["one"], "and namespaces"


def test_pod_that_others_hold_too_is_not_ours_to_release_yet() -> None:
    pods = [gated("both", OTHER, PACED_GATE), gated("theirs", OTHER)]
    assert decide(pods, room(allowance=9), 10_000.0).writes == ()
    assert names(decide(pods, room(is_stopping=True))) == ["both"]


def test_pods_that_are_leaving_are_left_alone() -> None:
    pods = [gated("going", is_terminating=True), gated("done", is_finished=True)]
    assert decide(pods, room(is_stopping=True)).writes == ()


def test_pods_past_the_longest_wait_go_first_and_no_further_than_the_allowance() -> None:
    old, young = gated("old", created_s=0.0), gated("young", created_s=650.0, priority=1000)
    settings = GateSettings(max_wait_s=600.0, urgent_priority=1000)
    assert names(decide([young, old], room(allowance=1), 700.0, settings=settings)) == ["old"]
    for how in (room(), room(may_move=False)):
        assert names(decide([old, young], how, 10_000.0)) == []


@pytest.mark.parametrize("crowd", [8, 500])
def test_the_reserved_places_are_for_small_jobs_however_long_the_crowd_has_waited(crowd: int) -> None:
    """A small job came after thousands of pods that were held for longer than `maxWait`."""
    batch, service = (OwnerReference("Job", kind, uid=kind, controller=True) for kind in ("batch", "service"))
    small = [gated(f"s{i}", created_s=650.0 + i, owner=service) for i in range(3)]
    settings = GateSettings(max_wait_s=600.0, small_nodes=3, reserved_nodes=2)
    pods = [*row(crowd, owner=batch), *small]
    assert names(decide(pods, room(allowance=2), 700.0, settings=settings)) == ["s0", "s1"]
    assert names(decide(pods, room(allowance=4), 700.0, settings=settings)) == ["s0", "s1", "p00", "p01"]


def test_report_counts_pods() -> None:
    decision = decide(row(5), room(allowance=2))
    assert (decision.name, decision.state, decision.ceiling) == (
        f"SchedulingGate/{PACED_GATE}",
        LeverState.CONFIRMED,
        "3 held",
    )
    assert "the oldest for 98 s" in decision.because.sentence, "made at 2 s, and it is 100 s"


@given(st.permutations([PACED_GATE, OTHER, "example.com/third"]))
def test_nothing_but_our_gate_changes(gates: list[str]) -> None:
    pod = gated("p", *gates, resource_version="7")
    write = decide([pod], room(is_stopping=True)).writes[0]
    before = {"metadata": {"resourceVersion": "7"}, "spec": {"schedulingGates": [{"name": each} for each in gates]}}
    kept = [{"name": each} for each in gates if each != PACED_GATE]
    assert (write.how, write.kind, write.key) == (How.JSON, "Pod", pod.key)
    assert apply_patch(before, write.body) == {**before, "spec": {"schedulingGates": kept}}


@given(
    st.lists(st.sampled_from(["100m", "1", "4", "9", "16", "20"]), max_size=30), st.integers(0, 12), st.integers(0, 5)
)
def test_released_pods_never_need_more_nodes_than_allowed(sizes: list[str], allowance: int, loose: int) -> None:
    pods = [gated(f"p{i:02}", cpu=cpu, created_s=float(i)) for i, cpu in enumerate(sizes)]
    chosen = names(decide(pods, room(allowance=allowance), released=loose))
    released = [pod for pod in pods if pod.key.name in chosen]
    assert nodes_for(released, Sizes(MACHINES)) <= max(0, allowance - loose)
    assert chosen == [pod.key.name for pod in pods[: len(chosen)]]


@given(st.lists(st.lists(st.sampled_from([PACED_GATE, OTHER]), min_size=1, unique=True), max_size=20), st.booleans())
def test_hand_back_releases_every_pod(gates: list[list[str]], may_move: bool) -> None:
    pods = [gated(f"p{i}", *names) for i, names in enumerate(gates)]
    freed = names(decide(pods, room(may_move=may_move, is_stopping=True)))
    assert set(freed) == {pod.key.name for pod in pods if is_held(pod)}


@pytest.mark.parametrize(("cpu", "count", "nodes"), [("16", 7, 7), ("8", 7, 4), ("5", 7, 3), ("99", 2, 2)])
def test_nodes_are_counted_from_requests(cpu: str, count: int, nodes: int) -> None:
    assert nodes_for(row(count, cpu=cpu), Sizes(MACHINES)) == nodes


@given(st.integers(1, 40_000), st.sampled_from(["", "nvidia.com/gpu", "example.com/unknown"]), st.integers(0, 60))
def test_the_law_and_the_lever_take_pods_that_are_alike_for_as_many_nodes(milli: int, device: str, count: int) -> None:
    requests = {"cpu": milli, "memory": 5 * 2**30 * 1000, **({device: 1000} if device else {})}
    pods = [msgspec.structs.replace(pod, requests=requests) for pod in row(count)]
    rules = JoinRules(nodes=LabelSelector(), gate=PACED_GATE)
    assert count_demand(pods, rules, MACHINES).nodes == nodes_for(pods, Sizes(MACHINES))


def test_pods_of_two_kinds_of_machines_are_counted_each_on_its_own() -> None:
    """A GPU machine of 192 cores, tainted, has no room for pods that do not tolerate it: 16 cores are all they get."""
    taint = Taint("nvidia.com/gpu", "NoSchedule")
    large = a_node("gpus", allocatable={**BY_CORES["192"], "nvidia.com/gpu": 8000}, taints=(taint,))
    machines = (large, a_node("cores", allocatable=BY_CORES["16"]))
    cores = row(64, cpu="8")
    assert len(decide(cores, room(allowance=4), machines=machines).writes) == 8
    tolerant = Scheduling(is_gated=True, gates=(PACED_GATE,), tolerations=(Toleration("nvidia.com/gpu", "Exists"),))
    asked = {**parse_resources({"cpu": "20", "pods": "1"}), "nvidia.com/gpu": 1000}
    training = [work(f"t{i:02}", scheduling=tolerant, requests=asked, created_s=float(i)) for i in range(64)]
    assert len(decide(training, room(allowance=4), machines=machines).writes) == 32
    in_turns = [pod for pair in zip(cores, training, strict=True) for pod in pair]
    assert nodes_for(in_turns[:32], Sizes(machines)) == 8 + 2, "16 pods in pairs, and 16 by eights"


def test_a_pod_larger_than_any_node_shares_its_node_with_nobody() -> None:
    large, small = gated("large", cpu="99"), gated("small", cpu="0")
    alone = Scheduling(is_gated=True, gates=(PACED_GATE,), is_one_per_node=True)
    apart = work("apart", cpu="0", scheduling=alone)
    assert [nodes_for([other, small], Sizes(MACHINES)) for other in (large, apart, small)] == [2, 2, 1]
    assert nodes_for([small, apart], Sizes(MACHINES)) == 2


def test_a_pod_that_has_its_node_is_held_by_nobody() -> None:
    placed = msgspec.structs.replace(gated("p"), scheduling=None)
    assert (is_held(placed), is_ours_alone(placed), nodes_for([placed], Sizes(MACHINES))) == (False, False, 1)


def test_a_report_counts_who_stays_and_nobody_when_all_is_given_back() -> None:
    pods = row(3)
    assert decide(pods, room(allowance=1)).ceiling == "2 held"
    assert decide(pods, room(allowance=1, may_move=False)).ceiling == "3 held"
    assert decide(pods, room(allowance=9)).ceiling == ""
    assert decide(pods, room(is_stopping=True)).ceiling == ""


def test_what_is_told_of_pods_that_stay_and_of_those_that_go() -> None:
    decision = decide(row(3), room(allowance=1))
    assert (decision.because.reason, decision.because.detail["held"]) == (AdmissionReason.PODS_HELD, 2)
    assert [write.because.reason for write in decision.writes] == [AdmissionReason.ADMITTED]
    blind = decide(row(3), room(allowance=1, may_move=False))
    assert (blind.state, blind.because.reason) == (LeverState.CONFIRMED, AdmissionReason.PODS_HELD_BLIND)
    back = decide(row(3), room(is_stopping=True))
    assert (back.state, back.because.reason) == (LeverState.HANDED_BACK, AdmissionReason.HOLD_HANDED_BACK)
    assert {write.because.reason for write in back.writes} == {AdmissionReason.HOLD_HANDED_BACK}
    none = decide([], room(allowance=1))
    assert (none.state, none.because.reason) == (LeverState.HANDED_BACK, AdmissionReason.NOTHING_HELD)


@pytest.mark.parametrize(("priority", "small_nodes", "first"), [(999, 0, "p00"), (1000, 0, "late"), (0, 1, "late")])
def test_urgent_is_a_priority_from_the_bound_on_or_a_demand_up_to_it(
    priority: int, small_nodes: int, first: str
) -> None:
    batch = OwnerReference("Job", "batch", uid="batch", controller=True)
    pods = [*row(3, owner=batch), gated("late", created_s=99.0, priority=priority)]
    settings = GateSettings(max_wait_s=600.0, urgent_priority=1000, small_nodes=small_nodes)
    assert names(decide(pods, room(allowance=1), settings=settings)) == [first]


def test_pods_of_an_owner_that_has_no_uid_ask_for_themselves() -> None:
    nameless = OwnerReference("Job", "batch", uid="", controller=True)
    pods = [*row(3, owner=nameless, priority=0), gated("late", created_s=99.0)]
    settings = GateSettings(max_wait_s=600.0, small_nodes=1)
    assert names(decide(pods, room(allowance=1), settings=settings)) == ["p00"], "all are small, and it is the oldest"


class OfAThrottle:
    """The lever as a throttle uses it."""

    def __init__(self, *pods: Pod, enabled: bool = True, ceiling: bool = False) -> None:
        levers: dict[str, Any] = {"schedulingGates": {"enabled": enabled}}
        levers |= {"capacityQuota": {"name": "q"}} if ceiling else {}
        spec = {"maxWait": "5m", "reserved": {"priorityAtLeast": 1000, "demandAtMost": 1}}
        self.throttle, self.pods = a_throttle(nodes={"matchLabels": {"pool": "gpu"}}, levers=levers, **spec), pods

    def context(self, allowance: int, released: int = 0) -> LeverContext:
        return LeverContext(
            throttle=self.throttle,
            rules=JoinRules.of(self.throttle, PACED_GATE),
            scene=LeverScene(moment=AT, unplaced=self.pods),
            room=room(allowance=allowance),
            joins=Joins(released=released),
            machines=MACHINES,
        )

    def let_go(self, allowance: int, released: int = 0) -> list[str]:
        (decision,), memory = SCHEDULING_GATES.decide(self.context(allowance, released), SCHEDULING_GATES.fresh())
        assert len(memory.released) == len(decision.writes)
        return names(decision)


@pytest.mark.parametrize(("ceiling", "gone"), [(True, ["p00"]), (False, ["p00", "p01", "p02"])])
def test_released_pods_ask_for_nodes_of_the_allowance_only_under_a_ceiling(*, ceiling: bool, gone: list[str]) -> None:
    """Without one their machines are as good as ordered, and the allowance leaves them out."""
    batch = OwnerReference("Job", "batch", uid="batch", controller=True)
    assert OfAThrottle(*row(9, owner=batch), ceiling=ceiling).let_go(3, released=2) == gone


def test_a_throttle_says_who_passes_first_and_whose_pods_are_its_own() -> None:
    batch = OwnerReference("Job", "batch", uid="batch", controller=True)
    urgent = gated("urgent", created_s=99.0, priority=1000, owner=batch)
    elsewhere = Scheduling(is_gated=True, gates=(PACED_GATE,), node_selector={"pool": "cpu"})
    other = work("other", scheduling=elsewhere, created_s=-50.0)
    assert OfAThrottle(other, *row(3, owner=batch), urgent).let_go(2) == ["urgent", "p00"]
    small = gated("small", created_s=99.0)
    assert OfAThrottle(*row(3, owner=batch), small).let_go(1) == ["small"]
    overdue = row(3, owner=batch, created_s=-200.0)
    assert OfAThrottle(*overdue, small).let_go(1) == ["small"], "two places are reserved for it"
    last = gated("urgent last", created_s=99.5, priority=1000, owner=batch)
    assert OfAThrottle(*overdue, small, urgent, last).let_go(3) == ["small", "urgent", "p00"], "held for five minutes"


def test_a_lever_that_is_off_is_none() -> None:
    on, off = (OfAThrottle(enabled=enabled).throttle.spec.levers for enabled in (True, False))
    assert SCHEDULING_GATES.settings(on) is not None
    assert SCHEDULING_GATES.settings(off) is None
    assert SCHEDULING_GATES.settings(a_throttle().spec.levers) is None


def test_the_guard_takes_every_gate_of_ours_off() -> None:
    pods = [gated("both", OTHER, PACED_GATE), gated("theirs", OTHER), *row(2)]
    assert [write.key.name for write in SCHEDULING_GATES.let_all_in(pods)] == ["both", "p00", "p01"]


RULES = JoinRules(nodes=LabelSelector(), gate=PACED_GATE)


def waiting(name: str, created_s: float = 0.0, *gates: str, **changes: Any) -> Pod:
    held = {"is_gated": True, "is_tried": False, "gates": gates or (PACED_GATE,)}
    return msgspec.structs.replace(pending(name, **{"owner": name, **held, **changes}), created_s=created_s)


def pilot(*held: Pod, pilots: frozenset[str] = frozenset(), refused: tuple[Pod, ...] = ()) -> str:
    """Beside a pod of the Job `lost` that was let go."""
    out = pending("out", owner="lost")
    places = frozenset(("Pod", pod.key) for pod in refused)
    scene = LeverScene(moment=AT, unplaced=(out, *held), refused=places)
    return SCHEDULING_GATES.pilot(RULES, scene, GateMemory(pilots=pilots), {out.uid, *pilots})


def test_a_pilot_is_another_jobs_and_asks_for_something_else_where_it_can() -> None:
    same, alike = waiting("same", owner="lost"), waiting("alike", 1.0)
    gang, other = waiting("gang", 2.0, cpu="7", gang="g"), waiting("other", 3.0, cpu="7")
    assert pilot(same, alike, gang, other) == other.uid
    assert pilot(same, alike, gang) == gang.uid
    assert pilot(same, alike) == alike.uid
    assert pilot(same) == ""


def test_a_pilot_asks_for_something_else_than_what_is_about_to_be_let_go() -> None:
    going, alike, other = waiting("going", cpu="7"), waiting("alike", 1.0, cpu="7"), waiting("other", 2.0, cpu="3")
    scene = LeverScene(moment=AT, unplaced=(going, alike, other))
    assert SCHEDULING_GATES.pilot(RULES, scene, GateMemory(released=frozenset({going.uid})), set()) == other.uid


def test_a_pilot_is_one_that_the_api_server_and_all_others_let_go() -> None:
    first, later = waiting("first"), waiting("later", 9.0)
    assert pilot(first, later, refused=(first,)) == later.uid
    assert pilot(waiting("kept", 0.0, PACED_GATE, OTHER)) == ""


def test_no_more_pilots_wait_in_vain_than_the_reserve_has_places() -> None:
    sent, held = [pending(f"sent{number}", owner=f"s{number}") for number in range(2)], waiting("held")
    assert pilot(*sent, held, pilots=frozenset({sent[0].uid})) == held.uid
    assert pilot(*sent, held, pilots=frozenset(pod.uid for pod in sent)) == ""
