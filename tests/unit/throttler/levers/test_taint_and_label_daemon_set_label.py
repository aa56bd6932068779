"""The DaemonSet label: put on as joins are admitted, never taken off, never overwritten."""

from hypothesis import given
from hypothesis import strategies as st

from tests.world import a_node
from throttler.api.throttle import LabelLever
from throttler.kube.node import Node
from throttler.levers.admission_queue import HeldSince
from throttler.levers.lever_and_reasons import Clocks, How, LeverBudget, LeverDecision, LeverState
from throttler.levers.taint_and_label import DAEMON_SET_LABEL

KEY = "example.com/daemons"
LEVER = LabelLever(KEY)
MAX_WAIT_S = 600.0


def room(admit: int = 0, *, may_move: bool = True, is_stopping: bool = False) -> LeverBudget:
    return LeverBudget(
        existing=3, booting=0, allowance=0, admit=admit, waiting=9, may_move=may_move, is_stopping=is_stopping
    )


def decide(nodes: list[Node], how: LeverBudget, now_s: float = 100.0) -> LeverDecision:
    return DAEMON_SET_LABEL.let_nodes_in(nodes, LEVER, MAX_WAIT_S, how, HeldSince(), Clocks(now_s, now_s))[0]


def names(decision: LeverDecision) -> list[str]:
    return [write.key.name for write in decision.writes]


def test_oldest_node_is_labelled_first() -> None:
    nodes = [a_node(f"n{i}", created_s=float(9 - i)) for i in range(5)]
    assert names(decide(nodes, room(admit=2))) == ["n4", "n3"]


def test_nodes_that_may_not_be_labelled_take_nobodys_place() -> None:
    nodes = [a_node(f"n{i}", created_s=float(i)) for i in range(3)]
    moment = Clocks(100.0, 100.0)
    assert names(
        DAEMON_SET_LABEL.let_nodes_in(nodes, LEVER, MAX_WAIT_S, room(admit=1), HeldSince(), moment, {"n0"})[0]
    ) == ["n1"]
    back = DAEMON_SET_LABEL.let_nodes_in(nodes, LEVER, MAX_WAIT_S, room(is_stopping=True), HeldSince(), moment, {"n0"})[
        0
    ]
    assert len(back.writes) == 3


def test_write_sets_one_label_under_the_version_that_was_decided_on() -> None:
    write = decide([a_node("n", resource_version="7")], room(admit=1)).writes[0]
    assert write.how is How.MERGE
    assert write.body == {"metadata": {"resourceVersion": "7", "labels": {KEY: "true"}}}


def test_label_with_another_value_is_its_owners_decision() -> None:
    nodes = [a_node("n", labels={KEY: "false"}), a_node("m", labels={KEY: "true"})]
    for how in (room(admit=9), room(is_stopping=True)):
        decision = decide(nodes, how, 10_000.0)
        assert (decision.writes, decision.state) == ((), LeverState.HANDED_BACK)


def test_nodes_that_were_there_long_before_are_labelled_at_once() -> None:
    assert names(decide([a_node("n")], room(may_move=False), 600.0)) == ["n"]


def test_node_that_is_leaving_is_left_alone() -> None:
    assert decide([a_node("n", is_deleting=True)], room(is_stopping=True)).writes == ()


@given(st.lists(st.booleans(), max_size=30), st.booleans())
def test_hand_back_labels_every_node(marks: list[bool], may_move: bool) -> None:
    nodes = [a_node(f"n{i}", labels={KEY: "true"} if mark else {}) for i, mark in enumerate(marks)]
    found = names(decide(nodes, room(may_move=may_move, is_stopping=True)))
    assert set(found) == {node.name for node in nodes if KEY not in node.labels}
