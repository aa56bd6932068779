"""The two levers at the join: nodes wait for our startup taint to go, or for our label to come, oldest first.

The taint holds back DaemonSet pods and workloads, not the registration itself. cluster-autoscaler counts a node that
keeps a startup taint for 15 min as unready, and stops altogether above 45 % unready nodes.

DaemonSets may select our label instead: what costs the API servers most in a join is its DaemonSet pods; without the
label a node is Ready and has none of them. A node that has the label with another value is its owner's decision, and is
left alone.
"""

from abc import abstractmethod
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from throttler.api.throttle import LabelLever, TaintLever
from throttler.kube.metadata import KindNames, ObjectKey
from throttler.kube.node import Node
from throttler.kube.selectors import matches
from throttler.levers.admission_queue import (
    AdmissionLever,
    Held,
    HeldSince,
    able_and_refused,
    admission,
    in_turn,
    let_in,
    told,
    why_let_in,
    without_elements,
)
from throttler.levers.lever import (
    ANY_TIME,
    EVERYTHING_BACK,
    Clocks,
    How,
    LeverBudget,
    LeverContext,
    LeverDecision,
    LeverWrite,
)

LONGEST_TAINT_S = 570.0
"""Half a minute less than the 10 min that an autoscaler allows: for a tick, the write, and the caches that show it."""


NODE_NAMES = KindNames("", ("v1",), "nodes", "Node")


@dataclass(frozen=True, slots=True, kw_only=True)
class TaintSettings:
    """Which taint is ours, and the longest that it may stay."""

    key: str
    max_wait_s: float

    @property
    def limit_s(self) -> float:
        """The longest that a node is held."""
        return min(self.max_wait_s, LONGEST_TAINT_S)


def release_taints(
    nodes: Iterable[Node],
    settings: TaintSettings,
    room: LeverBudget,
    since: HeldSince,
    moment: Clocks,
    refused: Container[str] = (),
) -> tuple[LeverDecision, HeldSince]:
    """Which of the throttle's nodes lose the taint now; `room.admit` is in nodes.

    Nodes that are `refused`, by name, take nobody's place until they are tried again.
    """
    held = {node.name: node for node in nodes if has_taint(node, settings.key) and not node.is_deleting}
    since = since.seen(created(held), moment, is_complete=room.may_move)
    waits = (Held(name, since.age_s(node.uid, moment.now_s)) for name, node in held.items())
    able, resting = able_and_refused(in_turn(waits, settings.limit_s), refused, room)
    chosen = let_in(able, room.admit, settings.limit_s, room)
    writes = tuple(_untaint(held[entry.id], entry, settings, room) for entry in chosen)
    stays = (*able[len(chosen) :], *resting)
    return admission(f"StartupTaint/{settings.key}", stays, settings.limit_s, room, writes), since


def has_taint(node: Node, key: str) -> bool:
    """Whether the node bears the taint, with whatever value and effect."""
    return any(taint.key == key for taint in node.taints)


def created(nodes: Mapping[str, Node]) -> dict[str, float]:
    """The creation of each node by its uid: a node that is made anew under the same name counts anew."""
    return {node.uid: node.created_s for node in nodes.values()}


def _untaint(node: Node, held: Held, settings: TaintSettings, room: LeverBudget) -> LeverWrite:
    ours = [index for index, taint in enumerate(node.taints) if taint.key == settings.key]
    return LeverWrite(
        api_version="v1",
        kind="Node",
        key=ObjectKey("", node.name),
        how=How.JSON,
        body=without_elements("/spec/taints", ours, node.resource_version, {"key": settings.key}),
        because=why_let_in(held, settings.limit_s, room),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelSettings:
    """Which label is ours, and the longest that a node waits for it."""

    key: str
    value: str
    max_wait_s: float


def put_labels(
    nodes: Iterable[Node],
    settings: LabelSettings,
    room: LeverBudget,
    since: HeldSince,
    moment: Clocks,
    refused: Container[str] = (),
) -> tuple[LeverDecision, HeldSince]:
    """Which of the throttle's nodes get the label now; `room.admit` is in nodes. Handing back labels every node.

    `refused` is as of `release_taints`.
    """
    held = {node.name: node for node in nodes if settings.key not in node.labels and not node.is_deleting}
    since = since.seen(created(held), moment, is_complete=room.may_move)
    waits = (Held(name, since.age_s(node.uid, moment.now_s)) for name, node in held.items())
    able, resting = able_and_refused(in_turn(waits, settings.max_wait_s), refused, room)
    chosen = let_in(able, room.admit, settings.max_wait_s, room)
    writes = tuple(_label(held[entry.id], entry, settings, room) for entry in chosen)
    stays = (*able[len(chosen) :], *resting)
    return admission(f"DaemonSetLabel/{settings.key}", stays, settings.max_wait_s, room, writes), since


def _label(node: Node, held: Held, settings: LabelSettings, room: LeverBudget) -> LeverWrite:
    metadata = {"resourceVersion": node.resource_version, "labels": {settings.key: settings.value}}
    return LeverWrite(
        api_version="v1",
        kind="Node",
        key=ObjectKey("", node.name),
        how=How.MERGE,
        body={"metadata": metadata},
        because=why_let_in(held, settings.max_wait_s, room),
    )


def _refused(places: Iterable[tuple[str, ObjectKey]]) -> frozenset[str]:
    return frozenset(key.name for kind, key in places if kind == NODE_NAMES.kind)


M = TypeVar("M", TaintLever, LabelLever)


class _NodeMark(AdmissionLever[M, HeldSince, Node]):
    """A mark by which nodes wait."""

    WRITES_ON = NODE_NAMES

    def fresh(self) -> HeldSince:
        """Nothing is known."""
        return HeldSince()

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

    @abstractmethod
    def waits(self, node: Node, settings: M) -> bool:
        """Whether the node waits by this mark."""


class StartupTaint(_NodeMark[TaintLever]):
    """`levers.startupTaint`."""

    FIELD = "startup_taint"

    def decide(self, context: LeverContext, memory: HeldSince) -> tuple[tuple[LeverDecision, ...], HeldSince]:
        """Which of the throttle's nodes lose the taint."""
        settings = TaintSettings(key=self.stated(context).key, max_wait_s=context.throttle.spec.max_wait_s)
        scene = context.scene
        decision, memory = release_taints(
            context.nodes, settings, context.room, memory, scene.moment, _refused(scene.refused)
        )
        decision = replace(decision, writes=(*decision.writes, *self.let_others_in(context)))
        return (told(decision, context, context.rules.taint_key),), memory

    def waits(self, node: Node, settings: TaintLever) -> bool:
        """While it bears the taint."""
        return has_taint(node, settings.key)

    def let_all_in(self, things: Sequence[Node], settings: TaintLever) -> tuple[LeverWrite, ...]:
        """Every node that bears the taint loses it."""
        taint = TaintSettings(key=settings.key, max_wait_s=0.0)
        return release_taints(things, taint, EVERYTHING_BACK, HeldSince(), ANY_TIME)[0].writes


class DaemonSetLabel(_NodeMark[LabelLever]):
    """`levers.daemonSetLabel`."""

    FIELD = "daemon_set_label"

    def decide(self, context: LeverContext, memory: HeldSince) -> tuple[tuple[LeverDecision, ...], HeldSince]:
        """Which of the throttle's nodes get the label."""
        stated = self.stated(context)
        settings = LabelSettings(key=stated.key, value=stated.value, max_wait_s=context.throttle.spec.max_wait_s)
        scene = context.scene
        decision, memory = put_labels(
            context.nodes, settings, context.room, memory, scene.moment, _refused(scene.refused)
        )
        decision = replace(decision, writes=(*decision.writes, *self.let_others_in(context)))
        return (told(decision, context, context.rules.label),), memory

    def waits(self, node: Node, settings: LabelLever) -> bool:
        """While it lacks the label."""
        return settings.key not in node.labels

    def let_all_in(self, things: Sequence[Node], settings: LabelLever) -> tuple[LeverWrite, ...]:
        """Every node gets the label."""
        label = LabelSettings(key=settings.key, value=settings.value, max_wait_s=0.0)
        return put_labels(things, label, EVERYTHING_BACK, HeldSince(), ANY_TIME)[0].writes


STARTUP_TAINT, DAEMON_SET_LABEL = StartupTaint(), DaemonSetLabel()
