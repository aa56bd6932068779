"""Levers that hold single objects: how long each has been held, who is let in next, and why; and two of them, at the
join.

An object is held from when it was made (a node from its registration, a pod from its creation). Ages are monotonic as
soon as an object has been seen: a step of the wall clock cannot make the whole queue overdue, nor hold it for ever.

At the join, nodes wait for our startup taint to go, or for our label to come, oldest first. The taint holds back
DaemonSet pods and workloads, not the registration itself. cluster-autoscaler counts a node that keeps a startup taint
for 15 min as unready, and stops altogether above 45 % unready nodes.

DaemonSets may select our label instead: what costs the API servers most in a join is its DaemonSet pods; without the
label a node is Ready and has none of them. A node that has the label with another value is its owner's decision, and is
left alone.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from throttler.api.throttle import LabelLever, TaintLever
from throttler.kube.because import Because, Sentence, because
from throttler.kube.metadata import KindNames, ObjectKey
from throttler.kube.node import Node
from throttler.levers.lever import Clocks, How, LeverBudget, LeverOutcome, LeverReport, LeverState, LeverWrite
from throttler.levers.lever_context import ANY_TIME, EVERYTHING_BACK, HoldLever, LeverContext


@dataclass(frozen=True, slots=True)
class HeldSince:
    """Memory: from which monotonic moment on each held object counts. Losing it costs nothing but wall-clock trust."""

    since_s: Mapping[str, float] = field(default_factory=dict)
    looked_at_s: float = -math.inf
    """When the view was last complete: what is new now cannot have been there before."""

    def seen(self, created_s: Mapping[str, float], moment: Clocks, *, is_complete: bool = True) -> "HeldSince":
        """The memory after a look at everything that is held: id -> creation, in seconds since the epoch."""
        longest_s = moment.now_s - self.looked_at_s
        since_s = {
            each: self.since_s.get(each, moment.now_s - _between(0.0, moment.wall_s - created, longest_s))
            for each, created in created_s.items()
        }
        return HeldSince(since_s, moment.now_s if is_complete else self.looked_at_s)

    def age_s(self, each: str, now_s: float) -> float:
        """Seconds for which it has been held; 0 for what has not been seen."""
        return now_s - self.since_s.get(each, now_s)


def _between(low: float, value: float, high: float) -> float:
    return low if not math.isfinite(value) else max(low, min(value, high))


@dataclass(frozen=True, slots=True)
class Held:
    """One object in the queue."""

    id: str
    age_s: float
    is_urgent: bool = False


def in_turn(held: Iterable[Held], limit_s: float) -> tuple[Held, ...]:
    """All in the order in which they are let in: those held for `limit_s` or longer, then urgent ones, then by age."""
    return tuple(sorted(held, key=lambda each: (each.age_s < limit_s, not each.is_urgent, -each.age_s, each.id)))


def let_in(held: Sequence[Held], places: int, limit_s: float, room: LeverBudget) -> Sequence[Held]:
    """Who goes now of those that are in turn: all when handing back, whoever is overdue in any case, others as there
    are places.

    Overdue ones take places as well. While nothing may be moved only they go: the one exception, because a
    machine that is held for too long is lost.
    """
    if room.is_stopping:
        return held
    overdue = sum(each.age_s >= limit_s for each in held)
    return held[: max(overdue, places if room.may_move else 0)]


class HoldReason(Sentence):
    """Why, in a sentence; the braces name the figures."""

    ADMITTED = "let in after {age_s:.0f} s: there is room for it now"
    HOLD_TIME_IS_UP = (
        "let in after {age_s:.0f} s: nothing is held for longer than {limit_s:.0f} s, whatever the signals say"
    )
    HOLD_HANDED_BACK = "let in: the throttle is stopping, paused or gone, and holds nothing back"
    NOTHING_HELD = "nothing is held back"
    HOLDING = "{held} held back, the oldest for {oldest_s:.0f} s; each is let in after {limit_s:.0f} s at the latest"
    HOLDING_BLIND = (
        "{held} held back: the view is incomplete or stale, so only those held for {limit_s:.0f} s are let in"
    )
    PODS_HELD = (
        "{held:pod is|pods are} held back, the oldest for {oldest_s:.0f} s: none is let go before nodes may start"
    )
    PODS_HELD_BLIND = "{held:pod is|pods are} held back: the view is incomplete or stale, so none is let go"


def why_let_in(held: Held, limit_s: float, room: LeverBudget) -> Because:
    """Why this one is let in."""
    if room.is_stopping:
        return because(HoldReason.HOLD_HANDED_BACK)
    if held.age_s >= limit_s:
        return because(HoldReason.HOLD_TIME_IS_UP, age_s=held.age_s, limit_s=limit_s)
    return because(HoldReason.ADMITTED, age_s=held.age_s)


def hold_report(name: str, stays: Sequence[Held], limit_s: float, room: LeverBudget) -> LeverReport:
    """What users see of a lever that holds objects: how many stay behind after this decision, and why.

    A hold needs no confirmation: an object that bears our mark is held by the fact.
    """
    if room.is_stopping:
        return LeverReport(name=name, state=LeverState.HANDED_BACK, because=because(HoldReason.HOLD_HANDED_BACK))
    if not stays:
        return LeverReport(name=name, state=LeverState.HANDED_BACK, because=because(HoldReason.NOTHING_HELD))
    reason = HoldReason.HOLDING if room.may_move else HoldReason.HOLDING_BLIND
    oldest_s = max(each.age_s for each in stays)
    why = because(reason, held=len(stays), oldest_s=oldest_s, limit_s=limit_s)
    return LeverReport(name=name, state=LeverState.CONFIRMED, because=why, ceiling=f"{len(stays)} held")


def without_elements(
    path: str, indices: Iterable[int], resource_version: str, marks: dict[str, str]
) -> list[dict[str, Any]]:
    """A JSON patch that removes the elements at `indices` of the list at `path`.

    The version is the precondition: on any other version the indices mean nothing, and the server answers 409.
    `marks` (field -> value) is tested on each element as well, so that an error of ours can only ever fail.
    """
    operations: list[dict[str, Any]] = [
        {"op": "replace", "path": "/metadata/resourceVersion", "value": resource_version}
    ]
    # From the back: removing an element moves those behind it.
    for index in sorted(indices, reverse=True):
        element = f"{path}/{index}"
        operations += [{"op": "test", "path": f"{element}/{key}", "value": value} for key, value in marks.items()]
        operations.append({"op": "remove", "path": element})
    return operations


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
    nodes: Iterable[Node], settings: TaintSettings, room: LeverBudget, since: HeldSince, moment: Clocks
) -> tuple[LeverOutcome, HeldSince]:
    """Which of the throttle's nodes lose the taint now; `room.admit` is in nodes."""
    held = {node.name: node for node in nodes if has_taint(node, settings.key) and not node.is_deleting}
    since = since.seen(created(held), moment, is_complete=room.may_move)
    queued = in_turn((Held(name, since.age_s(node.uid, moment.now_s)) for name, node in held.items()), settings.limit_s)
    chosen = let_in(queued, room.admit, settings.limit_s, room)
    writes = tuple(_untaint(held[each.id], each, settings, room) for each in chosen)
    report = hold_report(f"StartupTaint/{settings.key}", queued[len(chosen) :], settings.limit_s, room)
    return LeverOutcome(report=report, writes=writes), since


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
    nodes: Iterable[Node], settings: LabelSettings, room: LeverBudget, since: HeldSince, moment: Clocks
) -> tuple[LeverOutcome, HeldSince]:
    """Which of the throttle's nodes get the label now; `room.admit` is in nodes. Handing back labels every node."""
    held = {node.name: node for node in nodes if settings.key not in node.labels and not node.is_deleting}
    since = since.seen(created(held), moment, is_complete=room.may_move)
    waits = (Held(name, since.age_s(node.uid, moment.now_s)) for name, node in held.items())
    queued = in_turn(waits, settings.max_wait_s)
    chosen = let_in(queued, room.admit, settings.max_wait_s, room)
    writes = tuple(_label(held[each.id], each, settings, room) for each in chosen)
    report = hold_report(f"DaemonSetLabel/{settings.key}", queued[len(chosen) :], settings.max_wait_s, room)
    return LeverOutcome(report=report, writes=writes), since


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


class StartupTaint(HoldLever[TaintLever, HeldSince, Node]):
    """`levers.startupTaint`."""

    FIELD = "startup_taint"
    WRITES_ON = NODE_NAMES

    def fresh(self) -> HeldSince:
        """Nothing is known."""
        return HeldSince()

    def plan(self, context: LeverContext, memory: HeldSince) -> tuple[tuple[LeverOutcome, ...], HeldSince]:
        """Which of the throttle's nodes lose the taint."""
        settings = TaintSettings(key=self.stated(context).key, max_wait_s=context.throttle.spec.max_wait_s)
        outcome, memory = release_taints(context.nodes, settings, context.room, memory, context.scene.moment)
        return (outcome,), memory

    def let_all_in(self, things: Sequence[Node], settings: TaintLever) -> tuple[LeverWrite, ...]:
        """Every node that bears the taint loses it."""
        taint = TaintSettings(key=settings.key, max_wait_s=0.0)
        return release_taints(things, taint, EVERYTHING_BACK, HeldSince(), ANY_TIME)[0].writes


class DaemonSetLabel(HoldLever[LabelLever, HeldSince, Node]):
    """`levers.daemonSetLabel`."""

    FIELD = "daemon_set_label"
    WRITES_ON = NODE_NAMES

    def fresh(self) -> HeldSince:
        """Nothing is known."""
        return HeldSince()

    def plan(self, context: LeverContext, memory: HeldSince) -> tuple[tuple[LeverOutcome, ...], HeldSince]:
        """Which of the throttle's nodes get the label."""
        stated = self.stated(context)
        settings = LabelSettings(key=stated.key, value=stated.value, max_wait_s=context.throttle.spec.max_wait_s)
        outcome, memory = put_labels(context.nodes, settings, context.room, memory, context.scene.moment)
        return (outcome,), memory

    def let_all_in(self, things: Sequence[Node], settings: LabelLever) -> tuple[LeverWrite, ...]:
        """Every node gets the label."""
        label = LabelSettings(key=settings.key, value=settings.value, max_wait_s=0.0)
        return put_labels(things, label, EVERYTHING_BACK, HeldSince(), ANY_TIME)[0].writes


STARTUP_TAINT, DAEMON_SET_LABEL = StartupTaint(), DaemonSetLabel()
