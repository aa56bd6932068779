"""A gang takes no node before there is one for all of it, and a small window lets it have them in parts."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from tests.unit.throttler.joins.cluster import CNI, LOGS, RULES, WALL_S, a_claim, a_node, a_world, daemons_on, pending
from tests.unit.throttler.service.throttle_scene import a_throttle, a_view
from throttler.joins.count_joins import count_joins
from throttler.joins.join_memory import JoinMemory
from throttler.joins.joins import JoinRules, Joins
from throttler.kube.node import Node
from throttler.kube.pod import Pod
from throttler.kube.quantities_and_durations import parse_resources
from throttler.kube.taints import Taint
from throttler.levers.lever_and_reasons import LeverContext
from throttler.service.decide_throttles import decide_throttles

GATE = "example.com/gate"
AGENTS = (*daemons_on("a", CNI, LOGS), *daemons_on("b", CNI, LOGS))


def of_two(gang: str, *nodes: Node, pods: tuple[Pod, ...] = (), **rules: Any) -> Joins:
    """Two pods of four were let go, and two machines ordered for them; forty seconds later these nodes are there."""
    out = tuple(pending(f"p{number}", gang=gang) for number in range(2))
    held = tuple(pending(f"h{number}", gang=gang, is_gated=True, is_tried=False, gates=(GATE,)) for number in range(2))
    ordered = a_world(unplaced=(*out, *held), claims=(a_claim("c0"), a_claim("c1")), released={"uid-p0", "uid-p1"})
    there = a_world(*nodes, pods=(*AGENTS, *pods), unplaced=(*out, *held))
    with_gate = JoinRules(nodes=RULES.nodes, gate=GATE, **rules)
    _, memory = count_joins(ordered, JoinMemory(), with_gate, 1000.0)
    joins, _ = count_joins(replace(there, wall_s=WALL_S + 40), memory, with_gate, 1040.0)
    return joins


def two(**changes: Any) -> tuple[Node, Node]:
    return a_node("a", age_s=-10, **changes), a_node("b", age_s=-10, **changes)


@pytest.mark.parametrize(("gang", "released"), [("", 2), ("job", 0)])
@pytest.mark.parametrize("has_ceiling", [False, True])
def test_nodes_that_have_come_for_a_part_of_a_gang_leave_its_place_to_the_rest(
    gang: str, released: int, *, has_ceiling: bool
) -> None:
    """Pods that were let go and take no node filled a window of two for ever, and the other two never came out."""
    joins = of_two(gang, *two(), has_ceiling=has_ceiling)
    assert (joins.released, joins.booting) == (released, 0 if has_ceiling else released)
    if gang:
        assert joins.waiting == 2


@pytest.mark.parametrize(
    "nodes",
    [
        two(allocatable=parse_resources({"cpu": "4", "pods": "110"})),
        two(is_cordoned=True),
        two(is_deleting=True),
        two(taints=(Taint("team", "NoSchedule"),)),
        two(labels={"pool": "b"}),
    ],
    ids=["too small", "cordoned", "about to be removed", "tainted", "another throttle's"],
)
def test_nodes_that_it_cannot_take_have_come_for_others(nodes: tuple[Node, ...]) -> None:
    assert of_two("job", *nodes).released == 2


def test_a_node_that_somebody_has_taken_has_come_for_others() -> None:
    taken = msgspec.structs.replace(pending("work"), node="a")
    assert of_two("job", *two(), pods=(taken,)).released == 1
    ended = msgspec.structs.replace(taken, is_finished=True)
    assert of_two("job", *two(), pods=(ended,)).released == 0


def test_no_more_have_come_for_it_than_it_has_pods_that_were_let_go() -> None:
    more = (a_node(name, age_s=-10) for name in "cd")
    agents = (*daemons_on("c", CNI, LOGS), *daemons_on("d", CNI, LOGS))
    assert of_two("job", *two(), *more, pods=agents).waiting == 2


GANG = tuple(pending(f"p{number}", gang="job") for number in range(5))


@pytest.mark.parametrize(
    ("change", "waiting", "served"),
    [
        ({}, 1, 2),
        ({"gang": ""}, 3, 0),
        ({"is_opaque": True}, 3, 0),
        ({"nominated_node": "a"}, 0, 0),
        ({"node_selector": {"pool": "b"}}, 0, 0),
    ],
    ids=["gang", "none", "opaque", "nominated", "for others"],
)
def test_a_gang_waits_for_no_more_machines_than_it_lacks(change: dict[str, Any], waiting: int, served: int) -> None:
    """Five pods, two nodes that have come for them and two on their way. While those booted a pool seemed to have room
    that nobody uses: it counted as out of stock, and its room was doubled again and again."""
    pods = tuple(
        msgspec.structs.replace(pod, scheduling=msgspec.structs.replace(pod.scheduling, **change))
        for pod in GANG
        if pod.scheduling is not None
    )
    coming = (a_claim("c0"), a_claim("c1"))
    world = a_world(*two(), pods=AGENTS, unplaced=pods, claims=coming)
    _, memory = count_joins(world, JoinMemory(), RULES, 1000.0)
    joins, memory = count_joins(world, memory, RULES, 1010.0)
    assert (joins.waiting, len(memory.served)) == (waiting, served)


def test_what_agents_take_of_an_idle_node_is_not_free_for_a_gang() -> None:
    large = tuple(msgspec.structs.replace(agent, requests=parse_resources({"cpu": "3"})) for agent in AGENTS)
    world = a_world(*two(), pods=large, unplaced=GANG)
    _, memory = count_joins(world, JoinMemory(), RULES, 1000.0)
    assert not memory.served


def test_small_pods_of_a_gang_share_idle_nodes() -> None:
    small = tuple(pending(f"s{number}", cpu="2", gang="job") for number in range(9))
    world = a_world(*two(), pods=AGENTS, unplaced=small)
    joins, memory = count_joins(world, JoinMemory(), RULES, 1000.0)
    assert (joins.waiting, len(memory.served)) == (1, 8)


def test_levers_see_of_a_gang_what_lacks_a_node(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def note(context: LeverContext, memory: Any) -> Any:
        seen.extend(pod.key.name for pod in context.scene.unplaced)
        return (), memory

    monkeypatch.setattr("throttler.service.decide_throttles.decide_levers", note)
    world = a_world(*two(), pods=AGENTS, unplaced=GANG)
    decide_throttles((a_throttle(nodes={"matchLabels": {"pool": "a"}}),), a_view(10.0, world), {})
    assert seen == ["p2", "p3", "p4"]
