"""Startup taints: only ours goes, oldest first, in time, and all of them on hand-back."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.throttler.levers.json_patch import RefusedError, apply_patch
from tests.unit.throttler.service.throttle_scene import a_throttle
from tests.world import a_node
from throttler.api.throttle import TaintLever
from throttler.joins.joins import JoinRules, Joins
from throttler.kube.node import Node
from throttler.kube.selectors import LabelSelector
from throttler.kube.taints import Taint
from throttler.levers.admission_queue import HeldSince
from throttler.levers.lever_and_reasons import (
    Clocks,
    How,
    LeverBudget,
    LeverContext,
    LeverDecision,
    LeverScene,
    LeverState,
)
from throttler.levers.taint_and_label import DAEMON_SET_LABEL, LONGEST_TAINT_S, STARTUP_TAINT, NodeMark

KEY = "startup-taint.cluster-autoscaler.kubernetes.io/kube-balloons"
LEVER = TaintLever(KEY)
MAX_WAIT_S = 600.0
OURS = Taint(KEY, "NoSchedule", "true")
OTHERS = (
    Taint("node.kubernetes.io/not-ready", "NoExecute"),
    Taint("team", "NoSchedule", "a"),
    Taint(KEY + "-2", "NoSchedule"),
)


def room(admit: int = 0, *, may_move: bool = True, is_stopping: bool = False) -> LeverBudget:
    return LeverBudget(
        existing=3, booting=0, allowance=0, admit=admit, waiting=9, may_move=may_move, is_stopping=is_stopping
    )


def tainted(count: int, *taints: Taint) -> list[Node]:
    return [a_node(f"n{i:02}", taints=taints or (OURS,), created_s=float(i)) for i in range(count)]


def decide(nodes: list[Node], how: LeverBudget, now_s: float = 100.0, max_wait_s: float = MAX_WAIT_S) -> LeverDecision:
    return STARTUP_TAINT.let_nodes_in(nodes, LEVER, max_wait_s, how, HeldSince(), Clocks(now_s, now_s))[0]


def names(decision: LeverDecision) -> list[str]:
    return [write.key.name for write in decision.writes]


def as_stored(node: Node) -> dict[str, Any]:
    """With what our caches do not hold of a taint."""
    taints = [
        {"key": t.key, "effect": t.effect, "value": t.value, "timeAdded": f"t{i}"} for i, t in enumerate(node.taints)
    ]
    return {"metadata": {"name": node.name, "resourceVersion": node.resource_version}, "spec": {"taints": taints}}


def test_oldest_node_goes_first() -> None:
    assert names(decide(list(reversed(tainted(5))), room(admit=2))) == ["n00", "n01"]


@pytest.mark.parametrize("now_s", [100.0, 9_000.0], ids=["in time", "overdue"])
def test_nodes_that_may_not_be_let_in_take_nobodys_place(now_s: float) -> None:
    moment = Clocks(now_s, now_s)
    decision, _ = STARTUP_TAINT.let_nodes_in(
        tainted(4), LEVER, MAX_WAIT_S, room(admit=2), HeldSince(), moment, {"n00", "n01"}
    )
    assert names(decision) == ["n02", "n03"]
    assert decision.ceiling == "2 held"


def test_who_was_let_in_keeps_its_place_until_that_is_seen() -> None:
    """The two oldest could not be let in, and can again before the view has heard that two others were."""
    nodes, since = tainted(4), HeldSince()
    for at_s, shown, refused, let_in in (
        (100.0, nodes, {"n00", "n01"}, ["n02", "n03"]),
        (112.0, nodes, set(), ["n02", "n03"]),
        (114.0, nodes, {"n03"}, ["n02", "n00"]),
        (130.0, nodes[:2], set(), ["n00", "n01"]),
    ):
        decision, since = STARTUP_TAINT.let_nodes_in(
            shown, LEVER, MAX_WAIT_S, room(admit=2), since, Clocks(at_s, at_s), refused
        )
        assert names(decision) == let_in


def test_taint_and_label_let_in_the_same_nodes() -> None:
    """Some wait by one of them alone, and as many may be let in as if all waited by both."""
    both = {"startupTaint": {"key": KEY}, "daemonSetLabel": {"key": "agents", "value": "yes"}}
    labelled = [a_node(f"t{i}", taints=(OURS,), labels={"agents": "yes"}, created_s=float(i)) for i in (0, 2, 4)]
    clean = [a_node(f"l{i}", created_s=float(i)) for i in (1, 3, 5)]
    throttle = a_throttle(levers=both)
    context = LeverContext(
        throttle=throttle,
        rules=JoinRules.of(throttle, ""),
        scene=LeverScene(moment=Clocks(9.0, 9.0), nodes={node.name: node for node in (*labelled, *clean)}),
        room=room(admit=3),
        joins=Joins(),
        machines=(),
    )
    (taint,), _ = STARTUP_TAINT.decide(context, STARTUP_TAINT.fresh())
    (label,), _ = DAEMON_SET_LABEL.decide(context, DAEMON_SET_LABEL.fresh())
    assert (names(taint), names(label)) == (["t0", "t2"], ["l1"])
    assert (taint.ceiling, label.ceiling) == ("1 held", "2 held")


def test_nodes_without_our_taint_are_nobody_to_wait_for() -> None:
    decision = decide(tainted(3, *OTHERS), room(is_stopping=True))
    assert (decision.writes, decision.state) == ((), LeverState.HANDED_BACK)


def test_node_that_is_leaving_is_left_alone() -> None:
    assert decide([a_node("n", taints=(OURS,), is_deleting=True)], room(admit=1)).writes == ()


def test_taint_goes_within_ten_minutes() -> None:
    assert LONGEST_TAINT_S < 600.0
    for how in (room(), room(may_move=False)):
        assert names(decide(tainted(1), how, LONGEST_TAINT_S - 1)) == []
        assert names(decide(tainted(1), how, LONGEST_TAINT_S)) == ["n00"]


def test_shorter_wait_of_the_user_counts() -> None:
    assert names(decide(tainted(1), room(), 60.0, max_wait_s=60.0)) == ["n00"]


def test_node_made_anew_under_the_same_name_counts_anew() -> None:
    before = a_node("n", uid="u1", taints=(OURS,))
    since = STARTUP_TAINT.let_nodes_in([before], LEVER, MAX_WAIT_S, room(), HeldSince(), Clocks(0.0, 0.0))[1]
    again = a_node("n", uid="u2", taints=(OURS,), created_s=590.0)
    decision, _ = STARTUP_TAINT.let_nodes_in([again], LEVER, MAX_WAIT_S, room(), since, Clocks(600.0, 600.0))
    assert decision.writes == ()


def test_report_names_lever_and_how_many_wait() -> None:
    decision = decide(tainted(5), room(admit=2))
    assert (decision.name, decision.state, decision.ceiling) == (f"StartupTaint/{KEY}", LeverState.CONFIRMED, "3 held")


@given(st.permutations([OURS, Taint(KEY, "NoExecute"), *OTHERS]))
def test_nothing_but_our_taint_changes(taints: list[Taint]) -> None:
    node = a_node("n", taints=tuple(taints), resource_version="7")
    write = decide([node], room(admit=1)).writes[0]
    before = as_stored(node)
    after = apply_patch(before, write.body)
    assert write.how is How.JSON
    kept = [each for each in before["spec"]["taints"] if each["key"] != KEY]
    assert after == {**before, "spec": {"taints": kept}}


def test_patch_fails_on_another_version_and_on_another_element() -> None:
    node = a_node("n", taints=(OTHERS[0], OURS), resource_version="7")
    body = decide([node], room(admit=1)).writes[0].body
    newer = as_stored(node) | {"metadata": {"name": "n", "resourceVersion": "8"}}
    moved = as_stored(node) | {"spec": {"taints": list(reversed(as_stored(node)["spec"]["taints"]))}}
    for other in (newer, moved):
        with pytest.raises(RefusedError):
            apply_patch(other, body)


@given(st.lists(st.booleans(), max_size=30), st.booleans(), st.integers(0, 30))
def test_hand_back_frees_every_node_and_then_has_nothing_to_do(marks: list[bool], may_move: bool, admit: int) -> None:
    nodes = [a_node(f"n{i}", taints=(OURS,) if mark else OTHERS) for i, mark in enumerate(marks)]
    freed = names(decide(nodes, room(admit, may_move=may_move, is_stopping=True)))
    assert set(freed) == {node.name for node in nodes if STARTUP_TAINT.waits(node, LEVER)}
    rest = [a_node(node.name, taints=OTHERS) if node.name in freed else node for node in nodes]
    assert decide(rest, room(admit, may_move=may_move, is_stopping=True)).writes == ()


@pytest.mark.parametrize("lever", [STARTUP_TAINT, DAEMON_SET_LABEL])
@pytest.mark.parametrize(
    ("is_minded", "is_stopping", "state"),
    [
        (True, False, LeverState.HANDED_BACK),
        (False, False, LeverState.REFUSED),
        (True, True, LeverState.HANDED_BACK),
        (False, True, LeverState.HANDED_BACK),
    ],
)
def test_a_mark_is_of_no_use_only_where_no_daemon_set_minds_it(
    lever: NodeMark[Any], *, is_minded: bool, is_stopping: bool, state: LeverState
) -> None:
    throttle = a_throttle(levers={"startupTaint": {"key": KEY}, "daemonSetLabel": {"key": "agents", "value": "yes"}})
    rules = JoinRules(nodes=LabelSelector(), taint_key=KEY, label=throttle.spec.levers.daemon_set_label)
    context = LeverContext(
        throttle=throttle,
        rules=rules if is_minded else JoinRules(nodes=LabelSelector()),
        scene=LeverScene(moment=Clocks(100.0, 100.0)),
        room=room(is_stopping=is_stopping),
        joins=Joins(),
        machines=(),
    )
    (decision,), _ = lever.decide(context, lever.fresh())
    assert decision.state is state


@pytest.mark.parametrize(("older_key", "let_in"), [(KEY, []), (KEY + "-2", ["n00", "n01"]), ("", ["n00", "n01"])])
def test_nodes_of_an_older_throttle_are_let_in_unless_that_has_the_same_mark(older_key: str, let_in: list[str]) -> None:
    """Who knows nothing of the mark never takes it off; who has it too lets them in as its own budget allows."""
    younger = a_throttle(levers={"startupTaint": {"key": KEY}})
    older = a_throttle("older", levers={"startupTaint": {"key": older_key}} if older_key else {"headroom": True})
    rules = JoinRules.of(younger, "", [older])
    scene = LeverScene(moment=Clocks(100.0, 100.0), nodes={node.name: node for node in tainted(2)})
    context = LeverContext(
        throttle=younger, rules=rules, scene=scene, room=room(), joins=Joins(), machines=(), older=(older,)
    )
    (decision,), _ = STARTUP_TAINT.decide(context, STARTUP_TAINT.fresh())
    assert names(decision) == let_in
