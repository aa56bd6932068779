"""DaemonSet label: DaemonSets select our node label, which nodes get as joins are admitted, oldest first.

What costs the API servers most in a join is its DaemonSet pods; without the label a node is Ready and
has none of them. A node that has the label with another value is its owner's decision, and is left alone.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from throttler.kube.metadata import ObjectKey
from throttler.kube.node import Node
from throttler.levers.held import Clocks, Held, HeldSince, in_turn, let_in
from throttler.levers.hold_because import hold_report, why_let_in
from throttler.levers.lever import How, LeverOutcome, LeverWrite, Room
from throttler.levers.startup_taint import created


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelSettings:
    """Which label is ours, and the longest that a node waits for it."""

    key: str
    value: str
    max_wait_s: float


def put_labels(
    nodes: Iterable[Node], settings: LabelSettings, room: Room, since: HeldSince, moment: Clocks
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


def _label(node: Node, held: Held, settings: LabelSettings, room: Room) -> LeverWrite:
    metadata = {"resourceVersion": node.resource_version, "labels": {settings.key: settings.value}}
    return LeverWrite(
        api_version="v1",
        kind="Node",
        key=ObjectKey("", node.name),
        how=How.MERGE,
        body={"metadata": metadata},
        because=why_let_in(held, settings.max_wait_s, room),
    )
