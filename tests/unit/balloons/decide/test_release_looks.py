"""Pods that wait, by single looks: what they take of nodes on their way, and how many nodes are looked at for them."""

from collections.abc import Iterator
from math import ceil
from typing import Any

import pytest

from balloons.decide.release_to_waiting_work import Reservations, class_of, reserve, taken_on_their_way
from tests.world import NOW, SIZE, a_node, nodes, work
from throttler.kube.node import Node
from throttler.kube.pod import Scheduling
from throttler.kube.selectors import Requirement
from throttler.kube.taints import Taint


def to_come(name: str, instance_type: str = "", cpu: int = 16, **changes: Any) -> Node:
    """A node that has no more than its type yet, as it registers."""
    return a_node(name, instance_type=instance_type, allocatable={**SIZE, "cpu": 1000 * cpu}, **changes)


NOT_READY, TEAM = Taint("node.kubernetes.io/not-ready", "NoSchedule"), Taint("team", "NoSchedule")


@pytest.mark.parametrize(
    ("there", "cpu", "pods", "taken"),
    [
        ([to_come("a"), to_come("b")], "12", 1, 1),
        ([to_come("a"), to_come("b")], "12", 2, 2),
        ([to_come("a"), to_come("b")], "12", 9, 2),
        ([to_come("a"), to_come("b")], "8", 2, 1),
        ([to_come("a"), to_come("b")], "8", 3, 2),
        ([to_come("a"), to_come("b")], "20", 1, 1),
        ([to_come("a", taints=(NOT_READY,)), to_come("b", taints=(TEAM,))], "12", 1, 1),
        ([to_come("a", taints=(TEAM,)), to_come("b", taints=(TEAM,))], "12", 1, 0),
        ([to_come("a", "small", 8), to_come("b", "large", 32)], "8", 2, 2),
        ([to_come("a", "large", 32), to_come("b", "small", 8)], "8", 2, 2),
        ([to_come("a", "large", 32), to_come("b", "small", 8, taints=(TEAM,))], "8", 2, 1),
        ([], "8", 2, 0),
    ],
)
def test_waiting_work_takes_as_many_nodes_on_their_way_as_it_needs_of_the_smallest(
    there: list[Node], cpu: str, pods: int, taken: int
) -> None:
    """For these no balloon waits."""
    pod = work("job", cpu=cpu)
    assert pod.scheduling is not None
    unplaced = [(class_of(pod, pod.scheduling), pods)]
    assert taken_on_their_way(there, lambda _: {}, unplaced) == taken
    assert taken_on_their_way(there, lambda _: {"cpu": 64_000}, unplaced) == min(taken, ceil(pods * int(cpu) / 64))


class Unread(list[Node]):
    """Nodes that nobody may look at."""

    def __iter__(self) -> Iterator[Node]:
        raise AssertionError("there may be thousands")


def test_where_nobody_waits_no_node_is_looked_at() -> None:
    assert reserve([], Unread(), Unread(), {}, Reservations(), -10, NOW) == Reservations()


def test_a_decision_looks_at_two_hundred_thousand_nodes_one_by_one_and_no_more() -> None:
    """A rule about host names is judged node by node."""
    here = Requirement("kubernetes.io/hostname", "In", ("nowhere",))
    pods = [
        work(f"w{at:02}", scheduling=Scheduling(is_tried=True, node_terms=((here,),), gang=f"g{at}"))
        for at in range(51)
    ]
    found = reserve(pods, list(nodes(4_000).values()), [], {}, Reservations(), -10, NOW)
    assert len(found.looked) == 50
