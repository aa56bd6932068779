"""The two levers at the join: nodes wait for our startup taint to go, or for our label to come, oldest first.

The taint holds back DaemonSet pods and workloads, not the registration itself. cluster-autoscaler counts a node that
keeps a startup taint for 15 min as unready, and stops altogether above 45 % unready nodes.

DaemonSets may select our label instead: what costs the API servers most in a join is its DaemonSet pods; without the
label a node is Ready and has none of them. A node that has the label with another value is its owner's decision, and is
left alone.
"""

import math
from abc import abstractmethod
from collections.abc import Container, Iterable, Sequence
from dataclasses import replace
from typing import ClassVar, TypeVar

from throttler.api.throttle import LabelLever, TaintLever
from throttler.joins.joining_nodes import is_held
from throttler.joins.joins import JoinRules
from throttler.kube.metadata import KindNames, ObjectKey
from throttler.kube.node import Node
from throttler.kube.reasons_and_events import Because, because
from throttler.kube.selectors import matches
from throttler.levers.admission_queue import (
    AdmissionLever,
    AdmissionReason,
    Held,
    HeldSince,
    able_and_refused,
    admission,
    in_turn,
    let_in,
    why_let_in,
    without_elements,
)
from throttler.levers.lever_and_reasons import (
    ANY_TIME,
    EVERYTHING_BACK,
    Clocks,
    How,
    LeverBudget,
    LeverContext,
    LeverDecision,
    LeverState,
    LeverWrite,
)

LONGEST_TAINT_S = 570.0
"""Half a minute less than the 10 min that an autoscaler allows: for a tick, the write, and the caches that show it."""


NODE_NAMES = KindNames("", ("v1",), "nodes", "Node")

M = TypeVar("M", bound=TaintLever | LabelLever)


class NodeMark(AdmissionLever[M, HeldSince, Node]):
    """A mark by which nodes wait: one write takes it off a node, or puts it on, and that node is let in."""

    WRITES_ON = NODE_NAMES
    NAME: ClassVar[str]
    """As the status says it, before the mark's key."""
    LONGEST_S: ClassVar[float] = math.inf
    """No node is held for longer, whatever the throttle's `maxWait` is."""

    def fresh(self) -> HeldSince:
        """Nothing is known."""
        return HeldSince()

    def decide(self, context: LeverContext, memory: HeldSince) -> tuple[tuple[LeverDecision, ...], HeldSince]:
        """Which of the throttle's nodes are let in; told is also where the mark paces nothing."""
        settings, scene = self.stated(context), context.scene
        refused = frozenset(key.name for kind, key in scene.refused if kind == NODE_NAMES.kind)
        max_wait_s, rules = context.throttle.spec.max_wait_s, context.rules
        decision, memory = self.let_nodes_in(
            context.nodes, settings, max_wait_s, context.room, memory, scene.moment, refused, rules
        )
        decision = replace(decision, writes=(*decision.writes, *self.let_others_in(context)))
        if not (context.room.is_stopping or self.is_in_effect(rules)):
            why = because(AdmissionReason.KEEPS_NO_JOIN_BACK)
            decision = replace(decision, state=LeverState.REFUSED, because=why)
        return (decision,), memory

    def let_nodes_in(
        self,
        nodes: Iterable[Node],
        settings: M,
        max_wait_s: float,
        room: LeverBudget,
        since: HeldSince,
        moment: Clocks,
        refused: Container[str] = (),
        rules: JoinRules | None = None,
    ) -> tuple[LeverDecision, HeldSince]:
        """Which of the nodes are let in now; `room.admit` is in nodes.

        Nodes that are `refused`, by name, take nobody's place until they are tried again. Those that wait by another
        mark of the `rules` alone are in turn as well: each mark lets in the same nodes, not as many of its own.
        """
        limit_s = min(max_wait_s, self.LONGEST_S)
        there = [node for node in nodes if not node.is_deleting]
        ours = {node.name for node in there if self.waits(node, settings)}
        marked = (node for node in there if node.name in ours or (rules is not None and is_held(node, rules)))
        held = {node.name: node for node in marked}
        # By uid: a node that is made anew under the same name counts anew.
        created_s = {node.uid: node.created_s for node in held.values()}
        since = since.seen(created_s, moment, is_complete=room.may_move)
        waits = (
            Held(name, since.age_s(node.uid, moment.now_s), node.uid in since.let_go) for name, node in held.items()
        )
        able, resting = able_and_refused(in_turn(waits, limit_s), refused, room)
        chosen = let_in(able, room.admit, limit_s, room)
        let_go = since.let_go.difference(held[entry.id].uid for entry in resting)
        since = replace(since, let_go=let_go.union(held[entry.id].uid for entry in chosen))
        goes = (entry for entry in chosen if entry.id in ours)
        writes = tuple(self.write(held[entry.id], settings, why_let_in(entry, limit_s, room)) for entry in goes)
        stays = [entry for entry in (*able[len(chosen) :], *resting) if entry.id in ours]
        return admission(f"{self.NAME}/{settings.key}", stays, limit_s, room, writes), since

    def let_others_in(self, context: LeverContext) -> tuple[LeverWrite, ...]:
        """What lets in the throttle's nodes that are another's, which comes first and knows nothing of this mark.

        Nobody else takes it off: the throttle is paused, or tries things out, or is the younger one.
        """
        settings, nodes, rules = self.stated(context), context.throttle.spec.nodes, context.rules
        stated = ((older.spec.nodes, self.settings(older.spec.levers)) for older in context.older)
        marking = [selector for selector, own in stated if own is not None and own.key == settings.key]
        # Most nodes do not wait: there may be 100,000 of them.
        waiting = (node for node in context.scene.nodes.values() if self.waits(node, settings)) if context.older else ()
        others = [
            node
            for node in waiting
            if matches(nodes, node.labels)
            and not rules.selects(node.labels)
            and not any(matches(selector, node.labels) for selector in marking)
        ]
        return self.let_all_in(others, settings)

    def let_all_in(self, things: Sequence[Node], settings: M) -> tuple[LeverWrite, ...]:
        """Every node that waits is let in."""
        return self.let_nodes_in(things, settings, 0.0, EVERYTHING_BACK, HeldSince(), ANY_TIME)[0].writes

    @abstractmethod
    def waits(self, node: Node, settings: M) -> bool:
        """Whether the node waits by this mark."""

    @abstractmethod
    def write(self, node: Node, settings: M, because: Because) -> LeverWrite:
        """What lets the node in."""

    @abstractmethod
    def is_in_effect(self, rules: JoinRules) -> bool:
        """Whether something of a join waits for the mark."""


class StartupTaint(NodeMark[TaintLever]):
    """`levers.startupTaint`."""

    FIELD = "startup_taint"
    NAME = "StartupTaint"
    LONGEST_S = LONGEST_TAINT_S

    def waits(self, node: Node, settings: TaintLever) -> bool:
        """While it bears the taint, with whatever value and effect."""
        return any(taint.key == settings.key for taint in node.taints)

    def write(self, node: Node, settings: TaintLever, because: Because) -> LeverWrite:
        """The taint goes; all others stay as they are."""
        ours = [index for index, taint in enumerate(node.taints) if taint.key == settings.key]
        return LeverWrite(
            api_version="v1",
            kind="Node",
            key=ObjectKey("", node.name),
            how=How.JSON,
            body=without_elements("/spec/taints", ours, node.resource_version, {"key": settings.key}),
            because=because,
        )

    def is_in_effect(self, rules: JoinRules) -> bool:
        """Some DaemonSet does not tolerate the taint."""
        return bool(rules.taint_key)


class DaemonSetLabel(NodeMark[LabelLever]):
    """`levers.daemonSetLabel`."""

    FIELD = "daemon_set_label"
    NAME = "DaemonSetLabel"

    def waits(self, node: Node, settings: LabelLever) -> bool:
        """While it lacks the label."""
        return settings.key not in node.labels

    def write(self, node: Node, settings: LabelLever, because: Because) -> LeverWrite:
        """The node gets the label."""
        metadata = {"resourceVersion": node.resource_version, "labels": {settings.key: settings.value}}
        return LeverWrite(
            api_version="v1",
            kind="Node",
            key=ObjectKey("", node.name),
            how=How.MERGE,
            body={"metadata": metadata},
            because=because,
        )

    def is_in_effect(self, rules: JoinRules) -> bool:
        """Some DaemonSet selects the label."""
        return rules.label is not None


STARTUP_TAINT, DAEMON_SET_LABEL = StartupTaint(), DaemonSetLabel()
