"""Which pods nodes take that balloons keep warm."""

from typing import Any

import msgspec
import pytest

from tests.unit.throttler.joins.cluster import RULES, SIZE, a_node, a_world, balloon_on, pending
from throttler.joins import warm_nodes
from throttler.joins.warm_nodes import placed, takes_balloons_place, warm_places
from throttler.kube.node import Node
from throttler.kube.pod import Pod, PodKind
from throttler.kube.taints import Taint, Toleration


def on(node: str, cpu: str, **changes: Any) -> Pod:
    pod = pending(f"there-{node}-{cpu}", cpu=cpu)
    return msgspec.structs.replace(pod, node=node, scheduling=None, is_running=True, **changes)


def taken_by(nodes: tuple[Node, ...], pods: tuple[Pod, ...], *waiting: Pod) -> list[str]:
    world = a_world(*nodes, pods=pods)
    return [pod.key.name for pod in placed(waiting, warm_places(world.nodes, world.pods, RULES))]


def test_each_warm_node_takes_one_whole_node_pod_in_their_order() -> None:
    nodes = a_node("a"), a_node("b"), a_node("c")
    pods = tuple(pending(name) for name in ("p0", "p1", "p2"))
    assert taken_by(nodes, (balloon_on("a"), balloon_on("c")), *pods) == ["p0", "p1"]


def test_small_pods_share_what_work_leaves_of_a_node() -> None:
    small = tuple(pending(f"p{number}", cpu="2") for number in range(4))
    assert taken_by((a_node("a"),), (balloon_on("a"), on("a", "4")), *small) == ["p0", "p1"]
    assert taken_by((a_node("a"),), (balloon_on("a"), on("a", "4", is_finished=True)), *small) == [
        pod.key.name for pod in small
    ]


def test_a_pod_that_fits_nowhere_leaves_the_place_to_smaller_ones() -> None:
    pods = pending("large", cpu="9"), pending("p0"), pending("late", cpu="2")
    assert taken_by((a_node("a"),), (balloon_on("a"),), *pods) == ["p0", "late"]


@pytest.mark.parametrize(
    "balloons",
    [
        (),
        (balloon_on("a", is_terminating=True),),
        (balloon_on("a", is_finished=True),),
        (msgspec.structs.replace(balloon_on("a"), is_running=False),),
        (on("a", "1"),),
    ],
    ids=["none", "leaving", "ended", "not yet", "work"],
)
def test_a_node_without_a_running_balloon_is_not_warm(balloons: tuple[Pod, ...]) -> None:
    assert taken_by((a_node("a"),), balloons, pending("p", cpu="1")) == []


@pytest.mark.parametrize(
    "change",
    [{"is_cordoned": True}, {"is_ready": False}, {"is_uninitialized": True}, {"taints": (Taint("gpu", "NoSchedule"),)}],
    ids=str,
)
def test_a_node_that_lets_the_pod_not_in_takes_nothing(change: dict[str, Any]) -> None:
    assert taken_by((a_node("a", **change),), (balloon_on("a"),), pending("p")) == []


@pytest.mark.parametrize(
    "change", [{"is_deleting": True}, {"taints": (Taint("karpenter.sh/disrupted", "NoSchedule"),)}], ids=str
)
def test_a_node_that_is_about_to_be_removed_takes_nobody_however_tolerant(change: dict[str, Any]) -> None:
    tolerant = pending("t", tolerations=(Toleration(operator="Exists"),))
    assert taken_by((a_node("a", **change),), (balloon_on("a"),), tolerant) == []


def test_labels_and_tolerations_say_which_node_takes_which_pod() -> None:
    nodes = a_node("a", taints=(Taint("gpu", "NoSchedule"),)), a_node("b", labels={"zone": "z"})
    balloons = balloon_on("a"), balloon_on("b")
    anywhere = pending("p", tolerations=(Toleration(operator="Exists"),), node_selector={"zone": "y"})
    assert taken_by(nodes, balloons, anywhere, pending("q", node_selector={"zone": "z"})) == ["q"]
    tolerant = pending("t", tolerations=(Toleration(operator="Exists"),))
    assert taken_by(nodes, balloons, tolerant, pending("p")) == ["t", "p"]


def test_pods_that_keep_apart_share_no_node() -> None:
    apart = tuple(pending(f"p{number}", cpu="1", is_one_per_node=True) for number in range(3))
    assert taken_by((a_node("a"), a_node("b")), (balloon_on("a"), balloon_on("b")), *apart) == ["p0", "p1"]
    larger = pending("of-the-next-version", cpu="2", is_one_per_node=True)
    assert taken_by((a_node("a"),), (balloon_on("a"),), *apart, larger) == ["p0"]
    too_large = pending("too-large", cpu="8")
    agent = on("a", "1", kind=PodKind.DAEMON)
    assert taken_by((a_node("a"),), (balloon_on("a"), agent), too_large, *apart) == ["p0"]


def test_beside_work_no_pod_goes_that_keeps_its_kind_off() -> None:
    """That work may be of its kind."""
    apart = pending("p", cpu="1", is_one_per_node=True)
    assert taken_by((a_node("a"),), (balloon_on("a"), on("a", "1")), apart, pending("q", cpu="1")) == ["q"]


@pytest.mark.parametrize(
    ("pod", "takes"),
    [
        (pending("p"), True),
        (pending("p", priority=-1), False),
        (pending("p", is_opaque=True), False),
        (pending("p", gang="job"), False),
        (pending("p", cannot_preempt=True), False),
    ],
    ids=["work", "below", "opaque", "gang", "never preempts"],
)
def test_only_whom_a_balloon_leaves_for_by_rules_that_are_judged_goes(pod: Pod, *, takes: bool) -> None:
    assert takes_balloons_place(pod) is takes


def test_kinds_without_end_are_not_all_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand kinds of pods and ten thousand warm nodes took most of a minute."""
    monkeypatch.setattr(warm_nodes, "MOST_LOOKS", 20)
    nodes = tuple(a_node(f"n{number}") for number in range(10))
    elsewhere = [pending(f"p{number}", node_selector={"zone": str(number)}) for number in range(5)]
    balloons = tuple(balloon_on(node.name) for node in nodes)
    assert taken_by(nodes, balloons, elsewhere[0], pending("p")) == ["p"]
    assert taken_by(nodes, balloons, *elsewhere, pending("p")) == []


def test_nodes_of_another_throttle_are_not_this_ones() -> None:
    assert taken_by((a_node("a", labels={"pool": "b"}),), (balloon_on("a"),), pending("p")) == []


def test_the_balloon_itself_takes_no_room() -> None:
    full = msgspec.structs.replace(balloon_on("a"), requests=SIZE)
    assert taken_by((a_node("a"),), (full,), pending("p", cpu="8")) == ["p"]
