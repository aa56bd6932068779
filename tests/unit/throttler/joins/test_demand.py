"""What waiting pods need, whose they are, and which of them were searched a node for in vain."""

from dataclasses import fields, replace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.throttler.joins.cluster import CNI, LOGS, MACHINES, RULES, a_claim, a_node, a_world, daemons_on, pending
from tests.unit.throttler.joins.test_count_joins import Story
from throttler.api.throttle import Reserved
from throttler.joins.demand import Search, count_demand, held_in_vain, is_loose, may_use, nodes_of, waiting_crowds
from throttler.joins.joins import JoinRules, Joins, JoinWorld
from throttler.kube.metadata import OwnerReference
from throttler.kube.pod import Pod, PodKind
from throttler.kube.quantities_and_durations import parse_resources
from throttler.kube.selectors import LabelSelector, Requirement
from throttler.kube.taints import Taint, Toleration

IN_A, IN_B = Requirement("pool", "In", ("a",)), Requirement("pool", "In", ("b",))
ELSEWHERE = Requirement("zone", "In", ("z1",))


@pytest.mark.parametrize(
    ("terms", "is_possible"),
    [
        ((), True),
        (((IN_A,),), True),
        (((IN_B,),), False),
        (((ELSEWHERE,),), True),
        (((IN_A, ELSEWHERE),), True),
        (((IN_A, IN_B),), False),
        (((IN_B,), (IN_A,)), True),
    ],
)
def test_one_term_of_an_affinity_has_to_be_met_as_far_as_the_selector_tells(
    terms: tuple[tuple[Requirement, ...], ...], is_possible: bool
) -> None:
    assert may_use(pending("p", node_terms=terms), RULES) is is_possible


@pytest.mark.parametrize(("term", "is_possible"), [(IN_A, True), (IN_B, False), (ELSEWHERE, True)])
def test_a_throttle_that_names_its_nodes_by_expressions_is_judged_so(term: Requirement, *, is_possible: bool) -> None:
    """Pods for the nodes of one throttle took half of the window from those of another."""
    rules = JoinRules(nodes=LabelSelector({}, (Requirement("pool", "In", ("a", "c")),)))
    assert may_use(pending("p", node_terms=((term,),)), rules) is is_possible


def test_a_node_selector_that_contradicts_the_throttles_rules_its_nodes_out() -> None:
    assert may_use(pending("p", node_selector={"pool": "a", "zone": "z"}), RULES)
    assert not may_use(pending("p", node_selector={"pool": "b"}), RULES)


@given(st.integers(1, 40), st.integers(1, 16))
def test_as_many_pods_share_a_node_as_fit(count: int, cpu: int) -> None:
    pods = [pending(f"p{number}", cpu=str(cpu)) for number in range(count)]
    on_one = max(1, 8 // cpu)
    assert nodes_of(pods, MACHINES) == -(-count // on_one)
    assert nodes_of(pods, ()) == count, "every pod a node while no machine is known"
    alone = [pending(f"p{number}", cpu=str(cpu), is_one_per_node=True) for number in range(count)]
    assert nodes_of(alone, MACHINES) == count


CORES, GPUS = (parse_resources({"cpu": cpu, "memory": "1Ti", "pods": "110"}) for cpu in ("16", "192"))
TAINTED, VIRTUAL = Taint("nvidia.com/gpu", "NoSchedule"), Taint("virtual-kubelet.io/provider", "NoSchedule", "azure")
WITHOUT_END = parse_resources({"cpu": "10000", "memory": "4Ti", "pods": "5000"})
MIXED = (
    a_node("virtual", allocatable=WITHOUT_END, taints=(VIRTUAL,)),
    a_node("gpus", allocatable={**GPUS, "nvidia.com/gpu": 8000}, taints=(TAINTED,), labels={"kind": "gpu"}),
    a_node("cores", allocatable=CORES, labels={"kind": "cpu"}),
)
TOLERATES_GPUS = (Toleration("nvidia.com/gpu", "Exists"),)


@pytest.mark.parametrize(
    ("cpu", "device", "how", "nodes"),
    [
        ("4", 0, {}, 12),
        ("4", 1000, {"tolerations": TOLERATES_GPUS}, 6),
        ("4", 0, {"tolerations": TOLERATES_GPUS}, 1),
        ("4", 0, {"tolerations": TOLERATES_GPUS, "node_selector": {"kind": "cpu"}}, 12),
        ("4", 0, {"tolerations": TOLERATES_GPUS, "node_terms": ((Requirement("kind", "NotIn", ("gpu",)),),)}, 12),
        ("4", 0, {"node_selector": {"zone": "another"}}, 12),
        ("32", 0, {}, 48),
    ],
)
def test_pods_share_the_largest_machine_that_lets_them_in(
    cpu: str, device: int, how: dict[str, Any], nodes: int
) -> None:
    """In a cluster with a virtual kubelet and two kinds of machines, of which those with GPUs are tainted."""
    asked = {**parse_resources({"cpu": cpu, "pods": "1"}), **({"nvidia.com/gpu": device} if device else {})}
    pods = [msgspec.structs.replace(pending(f"p{number}", **how), requests=asked) for number in range(48)]
    assert nodes_of(pods, MIXED) == nodes
    assert count_demand(pods, RULES, MIXED).nodes == nodes


def test_one_usable_node_of_each_kind_tells_the_sizes_of_machines() -> None:
    story = Story()
    gone = a_node("gone", allocatable=GPUS, is_ready=False)
    nodes = [msgspec.structs.replace(node, allocatable=CORES) for node in (a_node("one"), a_node("other"))]
    pods = [pod for node in (MIXED[-1], *nodes) for pod in daemons_on(node.name, CNI, LOGS)]
    story.after(0, a_world(*MIXED, *nodes, gone, pods=pods, unplaced=(pending("p"),)))
    assert [node.name for node in story.memory.machines][:2] == ["virtual", "gpus"]
    assert len(story.memory.machines) == 3


def test_of_machines_that_differ_in_their_memory_alone_the_largest_is_kept_and_a_broken_one_beside_it() -> None:
    """Each node of a cloud has some KiB more or less than the next: thousands of kinds, looked through for each pod."""
    story = Story()
    whole = [{**GPUS, "nvidia.com/gpu": 8000, "memory": GPUS["memory"] + number} for number in range(20)]
    broken = {**GPUS, "nvidia.com/gpu": 7000, "memory": GPUS["memory"] + 99}
    nodes = [a_node(f"n{number}", allocatable=size) for number, size in enumerate((*whole, broken))]
    pods = [pod for node in nodes for pod in daemons_on(node.name, CNI, LOGS)]
    story.after(0, a_world(*nodes, pods=pods, unplaced=(pending("p"),)))
    assert [node.allocatable for node in story.memory.machines] == [whole[-1], broken]


def test_pods_of_several_owners_share_no_fraction_but_their_sum_is_whole() -> None:
    thirds = [pending(f"p{number}", cpu="2.6", owner=f"o{number}") for number in range(3)]
    assert count_demand(thirds, RULES, MACHINES).nodes == 1


def test_of_what_a_pod_asks_none_of_any_node_has_enough() -> None:
    assert nodes_of([pending(f"p{number}", cpu="0") for number in range(3)], MACHINES) == 1


SEARCH_S, LONGEST_LOOK_S, ORDERS_ALL_S = 180.0, 30.0, 60.0
"""As they are today: a figure that a test imports may change unnoticed."""


def looked(
    search: Search, pods: str, unserved: int, room: int | None, seconds: float, *, orders: bool = False
) -> Search:
    """Looks of half a minute; in the first of them a machine is ordered, where one is."""
    while seconds > 0:
        search = search.looked(list(pods), unserved, room, "offer", min(seconds, LONGEST_LOOK_S), is_ordered=orders)
        seconds, orders = seconds - LONGEST_LOOK_S, False
    return search


def begun(pods: str, unserved: int, room: int | None = 4) -> Search:
    """After a first look, which begins anew, and one that is told how many machines are lacking."""
    search = Search()
    for _ in range(2):
        search = search.looked(list(pods), unserved, room, "offer", 0.0, is_ordered=False)
    return replace(search, waiting=unserved)


def test_pods_that_no_machine_is_ordered_for_in_all_the_time_of_a_search_are_given_up() -> None:
    search = looked(begun("abc", 3), "abc", 3, 4, SEARCH_S - 1)
    assert search.hopeless == frozenset()
    assert looked(search, "abc", 3, 4, 1).hopeless == {"a", "b", "c"}


def test_no_more_are_given_up_than_machines_are_lacking_and_the_first_comers_first() -> None:
    search = looked(begun("b", 1), "b", 1, 4, 30)
    assert looked(search, "ab", 1, 4, SEARCH_S).hopeless == {"b"}


def test_a_pod_that_stayed_behind_a_gate_in_vain_begins_a_search_of_its_own_when_it_is_let_go() -> None:
    """By a pause, or a user's hand: it was counted among the hopeless ones, and nobody had looked for a node for it."""
    search = looked(begun("a", 1), "a", 1, 4, SEARCH_S)
    search = replace(search, hopeless=search.hopeless | {"held"})
    search = search.looked(["a", "held"], 1, 4, "offer", 5.0, is_ordered=False)
    assert search.hopeless == {"a"}


def test_without_room_nothing_was_searched_for() -> None:
    search = looked(begun("ab", 2, 0), "ab", 2, 0, 10 * SEARCH_S)
    assert (search.hopeless, search.unused_s, search.for_all_s) == (frozenset(), 0.0, 0.0)


def test_time_in_which_no_machine_was_lacking_is_no_search() -> None:
    served = looked(begun("a", 0), "a", 0, 4, SEARCH_S)
    assert looked(served, "a", 1, 4, LONGEST_LOOK_S).hopeless == frozenset()


@pytest.mark.parametrize(("room", "is_ordered", "hopeless"), [
    (1, True, ""), (2, True, "ab"), (2, False, "ab"), (None, True, "ab"), (None, False, ""),
])  # fmt: skip
def test_pods_that_wait_where_there_is_room_for_all_are_given_up_though_others_are_served(
    room: int | None, hopeless: str, *, is_ordered: bool
) -> None:
    """A machine is ordered at the first look; where nothing bounds the autoscaler, only the last order tells of it, and
    only once there was time to order for the others."""
    search = looked(begun("ab", 1, room), "ab", 2, room, SEARCH_S - 1, orders=True)
    assert search.hopeless == frozenset()
    search = looked(search, "ab", 2, room, 1, orders=is_ordered)
    assert search.hopeless == set(hopeless if room else "")
    assert looked(search, "ab", 2, room, ORDERS_ALL_S).hopeless == set(hopeless)


def test_no_more_are_given_up_beside_others_than_were_lacking_all_the_time() -> None:
    search = begun("ab", 2)
    for unserved, hopeless in ((1, ""), (2, ""), (2, ""), (2, ""), (2, ""), (2, "a"), (2, "ab")):
        search = looked(search, "ab", unserved, 4, LONGEST_LOOK_S, orders=True)
        assert search.hopeless == set(hopeless), "three minutes ago no more than one was"


def test_a_pause_of_the_service_is_no_search() -> None:
    search = begun("ab", 2).looked(["a", "b"], 2, 4, "offer", 10 * SEARCH_S, is_ordered=False)
    assert search.unused_s == LONGEST_LOOK_S
    first = Search().looked(["a"], 1, 4, "offer", 5.0, is_ordered=False)
    assert looked(first, "a", 1, 4, LONGEST_LOOK_S).unused_s == 0.0, "what was lacking before is not known"


@pytest.mark.parametrize(
    ("how", "claims", "hopeless"),
    [
        ({}, (), 1),
        ({"is_gated": True, "gates": ("gate",), "is_tried": False}, (), 0),
        ({"node_selector": {"pool": "b"}}, (), 0),
        ({}, ("unseen",), 0),
    ],
    ids=["lacks a machine", "behind our gate", "for other nodes", "its node is not in the view yet"],
)
def test_only_pods_that_an_autoscaler_sees_and_that_lack_a_machine_of_ours_are_given_up(
    how: dict[str, Any], claims: tuple[str, ...], hopeless: int
) -> None:
    story = Story(replace(RULES, gate="gate", has_ceiling=True))
    registered = [a_claim(name, is_registered=True) for name in claims]
    come = [msgspec.structs.replace(c, status=msgspec.structs.replace(c.status, node_name="n")) for c in registered]
    for _ in range(11):
        joins = story.after(25, a_world(unplaced=(pending("p", **how),), claims=tuple(come), room=4))
    assert joins.hopeless_pods == hopeless


def test_a_machine_that_is_ordered_begins_the_search_anew_for_those_that_it_may_be_for() -> None:
    search = looked(begun("ab", 2), "ab", 2, 1, SEARCH_S - 30)
    search = looked(search, "ab", 2, 1, SEARCH_S - 30, orders=True)
    assert search.hopeless == frozenset()
    assert looked(search, "ab", 2, 1, 60).hopeless == {"a", "b"}


def test_other_machines_on_offer_and_an_order_beside_nothing_that_waits_give_new_hope() -> None:
    given_up = replace(looked(begun("ab", 2), "ab", 2, 4, SEARCH_S), waiting=0)
    assert given_up.hopeless == {"a", "b"}
    assert given_up.looked(["a", "b"], 0, 4, "another", 5.0, is_ordered=False).hopeless == frozenset()
    assert given_up.looked(["a", "b"], 0, 4, "offer", 5.0, is_ordered=True).hopeless == frozenset()
    others = replace(given_up, waiting=3)
    assert others.looked(["a", "b"], 0, 4, "offer", 5.0, is_ordered=True).hopeless == {"a", "b"}
    assert given_up.looked(["b"], 0, 4, "offer", 5.0, is_ordered=False).hopeless == {"b"}, "the other is gone"


def test_pods_that_fit_nowhere_are_given_up_also_where_node_pools_come_and_go() -> None:
    """With a NodePool for each job, or spot nodes that differ by some KiB, there are others on offer every minute."""
    search, given_up = Search(), []
    for look in range(240):
        search = search.looked(["a"], 1, 4, f"offer {look // 2}", LONGEST_LOOK_S, is_ordered=False)
        given_up.append("a" in search.hopeless)
    assert sum(given_up) >= 0.6 * len(given_up)
    assert not all(given_up[-40:]), "what comes may be for them"


def test_what_goes_on_as_it_was_is_remembered_once() -> None:
    assert len(looked(begun("ab", 2, 0), "ab", 2, 0, 20 * SEARCH_S).unserved) == 1


def test_hopeless_pods_are_told_and_do_not_wait() -> None:
    story = Story()
    pods: tuple[Pod, ...] = tuple(pending(name, owner=name) for name in "abc")
    world = a_world(a_node("old", age_s=9999), unplaced=pods)
    assert story.after(5, world).waiting == 3
    search = replace(story.memory.search, hopeless=frozenset({"uid-a"}))
    story.memory = replace(story.memory, search=search)
    joins = story.after(5, world)
    assert (joins.waiting, joins.hopeless, joins.hopeless_pods) == (2, 1, 1)


@pytest.mark.parametrize(
    ("node_name", "is_deleting", "is_registered", "waiting"),
    [("new", False, True, 2), ("new", True, True, 3), ("", False, True, 3), ("old", False, True, 3),
     ("new", False, False, 2)],
)  # fmt: skip
def test_a_machine_that_has_registered_comes_for_pods_before_its_node_is_seen(
    node_name: str, waiting: int, *, is_deleting: bool, is_registered: bool
) -> None:
    """One that has not boots, and comes for one pod as well."""
    old, pods = a_node("old", age_s=9999), tuple(pending(name, owner=name) for name in "abc")
    claim = a_claim("new", is_registered=is_registered)
    leaving = claim.metadata.creation_timestamp if is_deleting else None
    claim = msgspec.structs.replace(
        claim,
        status=msgspec.structs.replace(claim.status, node_name=node_name),
        metadata=msgspec.structs.replace(claim.metadata, deletion_timestamp=leaving),
    )
    assert Story().after(5, a_world(old, unplaced=pods, claims=(claim,))).waiting == waiting


def test_a_node_with_work_on_it_that_is_not_seen_yet_comes_for_pods_that_wait() -> None:
    old, pods = a_node("old", age_s=9999), tuple(pending(name, owner=name) for name in "abc")
    work = Pod(pods[0].key, "uid-w", "1", "new", 0, {}, kind=PodKind.WORK)
    assert Story().after(5, a_world(old, pods=[work], unplaced=pods)).waiting == 2
    assert Story().after(5, a_world(old, pods=daemons_on("new", CNI), unplaced=pods)).waiting == 3


@pytest.mark.parametrize(
    ("on_it", "is_deleting", "waiting"),
    [({}, False, 3), ({"is_finished": True}, False, 2), ({"is_terminating": True}, False, 2),
     ({"kind": PodKind.BALLOON}, False, 2), ({}, True, 2)],
    ids=str,
)  # fmt: skip
def test_the_replacement_of_a_busy_node_comes_for_no_pod_that_waits(
    on_it: dict[str, Any], waiting: int, *, is_deleting: bool
) -> None:
    """While an image is rolled out there are always some on their way: a smaller job would wait until it is done."""
    pods = tuple(pending(name, owner=name, is_gated=True, gates=("gate",)) for name in "abc")
    claim = a_claim("old", age_s=9999, is_registered=True)
    marked = msgspec.convert({"conditions": [{"type": "DisruptionReason", "status": "True"}]}, type(claim.status))
    status = msgspec.structs.replace(
        claim.status, node_name="old", conditions=(*claim.status.conditions, *marked.conditions)
    )
    leaving = claim.metadata.creation_timestamp if is_deleting else None
    metadata = msgspec.structs.replace(claim.metadata, deletion_timestamp=leaving)
    claim = msgspec.structs.replace(claim, status=status, metadata=metadata)
    work = msgspec.structs.replace(Pod(pods[0].key, "uid-w", "1", "old", 0, {}, is_running=True), **on_it)
    world = a_world(a_node("old", age_s=9999), pods=[work], unplaced=pods, claims=(claim, a_claim("new")))
    assert Story(replace(RULES, gate="gate")).after(5, world).waiting == waiting


@pytest.mark.parametrize("change", [{"is_running": True}, {"is_terminating": True}, {"is_finished": True}], ids=str)
def test_a_node_that_is_gone_before_its_pods_comes_for_nobody(change: dict[str, bool]) -> None:
    """As after an outage of a zone: pods are collected a minute after their node, and others wait already."""
    old, pods = a_node("old", age_s=9999), tuple(pending(name, owner=name) for name in "abc")
    left = msgspec.structs.replace(Pod(pods[0].key, "uid-w", "1", "gone", 0, {}), **change)
    joins = Story().after(5, a_world(old, pods=[left], unplaced=pods))
    assert (joins.waiting, joins.in_flight) == (3, 0)


def test_machines_that_were_late_before_the_first_count_are_no_losses_of_ours() -> None:
    story = Story()
    assert story.after(0, a_world(claims=(a_claim("dead", age_s=1000),))).lost == 0
    assert story.after(5, a_world()).lost == 0


def test_a_count_of_nothing_is_nothing() -> None:
    joins = Joins()
    assert (joins.coming, joins.in_flight, joins.late, joins.boot_spread_s) == (0, 0, 0, 0.0)


@pytest.mark.parametrize(
    ("change", "wants"), [({}, 1), ({"is_terminating": True}, 0), ({"is_finished": True}, 0)], ids=str
)
def test_pods_that_leave_or_have_ended_want_no_node(change: dict[str, bool], wants: int) -> None:
    pod = msgspec.structs.replace(pending("p"), **change)
    assert count_demand([pod], RULES, MACHINES).nodes == wants
    assert is_loose(pod, RULES) is bool(wants)
    assert is_loose(pending("p", is_gated=True), RULES) is False
    assert is_loose(pending("p", node_selector={"pool": "b"}), RULES) is False
    assert is_loose(msgspec.structs.replace(pod, kind=PodKind.DAEMON), RULES) is False


def test_a_pod_that_was_let_go_wants_a_node_before_the_scheduler_has_tried_it() -> None:
    pod = pending("p", is_tried=False)
    assert [count_demand([pod], RULES, MACHINES, let_go).nodes for let_go in ((), ("another",), (pod.uid,))] == [
        0,
        0,
        1,
    ]


def test_pods_of_an_owner_without_a_uid_are_one_crowd_with_those_of_none() -> None:
    def owned(name: str, owner: OwnerReference | None) -> Pod:
        return msgspec.structs.replace(pending(name), owner=owner)

    nameless = owned("a", OwnerReference("ReplicaSet", "x", "", controller=True))
    crowds = waiting_crowds([nameless, owned("b", None)], RULES, MACHINES)
    assert {crowd.owner for crowd in crowds} == {"jobs/"}
    (crowd,) = waiting_crowds([pending(name, owner=name, gang="train") for name in "abc"], RULES, MACHINES)
    assert crowd.owner == "jobs/train", "a gang asks as one, whoever owns its pods"


def test_what_is_not_said_of_joins_and_of_a_cluster_is_none() -> None:
    for value in (Joins(), JoinWorld()):
        told = [getattr(value, field.name) for field in fields(value)]
        assert not any(told), told


def test_a_pod_that_has_its_node_may_use_no_other() -> None:
    placed = msgspec.structs.replace(pending("p"), scheduling=None)
    assert (may_use(placed, RULES), is_loose(placed, RULES)) == (False, False)
    assert (count_demand([placed], RULES, MACHINES).nodes, nodes_of([placed], MACHINES)) == (0, 0)


@pytest.mark.parametrize(("least", "urgent"), [(None, 0), (1000, 6), (1001, 0), (999, 6)])
def test_many_pods_are_urgent_by_their_priority_alone(least: int | None, urgent: int) -> None:
    rules = replace(RULES, reserved=Reserved(demand_at_most=2, priority_at_least=least))
    pods = [pending(f"p{number}", priority=1000, is_one_per_node=True) for number in range(6)]
    assert count_demand(pods, rules, MACHINES).urgent == urgent


@pytest.mark.parametrize("priorities", [(1000, 999), (999, 1000)])
def test_pods_of_one_owner_are_as_urgent_as_the_least_urgent_of_them(priorities: tuple[int, int]) -> None:
    rules = replace(RULES, reserved=Reserved(demand_at_most=1, priority_at_least=1000))
    pods = [pending(f"p{priority}", priority=priority) for priority in priorities]
    assert count_demand(pods, rules, MACHINES).urgent == 0


def test_held_in_vain_is_what_asks_the_same_as_pods_that_were_given_up_and_is_judged_here() -> None:
    rules = replace(RULES, gate="paced")
    held: dict[str, Any] = {"is_gated": True, "is_tried": False, "gates": (rules.gate,)}
    pods = [
        *(pending(f"up{number}") for number in range(3)),
        pending("same", **held),
        pending("of another owner", owner="other", **held),
        pending("larger", cpu="7", **held),
        pending("elsewhere", **held, node_selector={"zone": "b"}),
        pending("of another scheduler", **held, scheduler="mine"),
        pending("with a volume", **held, is_opaque=True),
        pending("in a gang", **held, gang="g"),
        pending("of Kueue", **held | {"gates": ("kueue", rules.gate)}),
        pending("let go"),
    ]

    def found(*given_up: str, at_a_time: float = 6) -> frozenset[str]:
        return held_in_vain(pods, {f"uid-{name}" for name in given_up}, at_a_time, rules, MACHINES)

    assert found("up0", "up1", "up2") == {"uid-same", "uid-of another owner"}
    assert found("up0", "up1", "up2", at_a_time=7) == frozenset(), "three of seven may have another reason"
    assert found("with a volume", "in a gang", "gone", at_a_time=1) == frozenset()
    assert found("up0", at_a_time=2) == frozenset(), (
        "one alone may have another reason, however little may be in flight"
    )
    assert found("up0", "up1", at_a_time=1) == {"uid-same", "uid-of another owner"}


def test_in_vain_says_nothing_of_pods_that_may_take_the_place_of_others_or_share_a_node() -> None:
    """A type is out of stock, and an urgent pod of the same size comes: it may preempt what runs there."""
    rules = replace(RULES, gate="paced")
    held: dict[str, Any] = {"is_gated": True, "is_tried": False, "gates": (rules.gate,)}
    pods = [
        *(pending(f"up{number}", priority=priority) for number, priority in enumerate((0, 0, 5))),
        pending("less urgent", priority=-1, **held),
        pending("same", **held),
        pending("as urgent as one alone", priority=5, **held),
        pending("more urgent", priority=9, **held),
        *(pending(f"apart{number}", cpu="3", is_one_per_node=True) for number in range(3)),
        pending("apart", cpu="3", is_one_per_node=True, **held),
        pending("beside others", cpu="3", **held),
        *(pending(f"polite{number}", cpu="2", is_one_per_node=True, cannot_preempt=True) for number in range(3)),
        pending("preempts", cpu="2", is_one_per_node=True, **held),
    ]
    given_up = {pod.uid for pod in pods if not pod.scheduling or not pod.scheduling.is_gated}
    found = held_in_vain(pods, given_up, 6, rules, MACHINES)
    assert found == {"uid-less urgent", "uid-same", "uid-apart"}
