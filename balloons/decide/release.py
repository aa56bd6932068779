"""Burst release: free warm nodes in bulk for pods that wait.

The scheduler preempts one balloon in milliseconds, but a hundred take seconds: every preemption spends several
of its API calls, and each victim comes back Pending. Lowering the Deployment and deleting that many balloons
is faster. Which pod goes where stays the scheduler's choice; here it is only counted how many nodes they need.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from balloons.decide.fit import PodClass, admits, class_of, how_many, room_without_balloon
from balloons.decide.settings import DecideSettings
from balloons.view.load import EMPTY, NodeLoad
from throttler.kube.node import Node
from throttler.kube.pod import Pod
from throttler.kube.resources import Resources, minus

MOST_CLASSES = 64
"""Different kinds of pods looked at per decision; the others wait for the next one."""


@dataclass(frozen=True, slots=True)
class Reservations:
    """`taker` names, per reserved node, the waiting pod it is meant for; `since_s` remembers when each pod (uid) was
    first given a node. Nodes that hold a balloon must be released, the others just kept free."""

    taker: Mapping[str, str] = field(default_factory=dict)
    since_s: Mapping[str, float] = field(default_factory=dict)


@dataclass(slots=True)
class _Room:
    """What is still free on the nodes that were given out in this decision."""

    loads: Mapping[str, NodeLoad]
    left: dict[str, Resources] = field(default_factory=dict)

    def on(self, node: Node) -> Resources:
        found = self.left.get(node.name)
        return room_without_balloon(node, self.loads.get(node.name) or EMPTY) if found is None else found


def reserve(
    waiting: Iterable[Pod],
    open_nodes: Sequence[Node],
    holdable: Sequence[Node],
    loads: Mapping[str, NodeLoad],
    since_s: Mapping[str, float],
    settings: DecideSettings,
    balloon_priority: int,
    now_s: float,
) -> Reservations:
    """Give waiting pods nodes: room on `open_nodes` first (busy ones of the pools), then holdable nodes without a
    balloon, then warm ones. Pods that did not take their node within `reservation_s` are passed over, so that a
    pod that cannot be judged here never keeps nodes without a balloon for ever."""
    pods = [p for p in waiting if _may_take(p, balloon_priority)]
    if not pods:
        return Reservations()
    fresh = [p for p in pods if now_s - since_s.get(p.uid, now_s) < settings.reservation_s]
    order = [*open_nodes, *sorted(holdable, key=lambda node: bool((loads.get(node.name) or EMPTY).balloons))]
    room, taker, placed = _Room(loads), dict[str, str](), dict[str, float]()
    is_holdable = {node.name for node in holdable}
    for wanted, members in _classes(fresh):
        spots = _spots(wanted, len(members), order, room)
        if wanted.gang and len(spots) < len(members):
            continue
        for pod, node in zip(members, spots, strict=False):
            room.left[node.name] = minus(room.on(node), wanted.requests)
            if node.name in is_holdable:
                taker.setdefault(node.name, str(pod.key))
                placed[pod.uid] = since_s.get(pod.uid, now_s)
    expired = {p.uid: since_s[p.uid] for p in pods if p.uid in since_s and p.uid not in placed}
    return Reservations(taker, {**placed, **expired})


def _may_take(pod: Pod, balloon_priority: int) -> bool:
    how = pod.scheduling
    return (
        how is not None
        and pod.priority > balloon_priority
        and not (how.is_gated or how.is_opaque or pod.is_terminating or pod.is_finished)
    )


def _classes(pods: Iterable[Pod]) -> list[tuple[PodClass, list[Pod]]]:
    """Pods by class, highest priority and oldest pod first; only classes the scheduler has found no room for.

    One refused member speaks for its class: those behind it in the scheduler's queue will be refused as well.
    """
    found: dict[tuple[object, ...], tuple[PodClass, list[Pod]]] = {}
    for pod in sorted(pods, key=lambda p: (-p.priority, p.created_s, p.key)):
        if pod.scheduling is not None:
            wanted = class_of(pod, pod.scheduling)
            found.setdefault((pod.priority, wanted.key), (wanted, []))[1].append(pod)
    refused = (c for c in found.values() if any(p.scheduling and p.scheduling.is_tried for p in c[1]))
    return list(islice(refused, MOST_CLASSES))


def _spots(wanted: PodClass, count: int, nodes: Sequence[Node], room: _Room) -> list[Node]:
    """Up to `count` places for pods of one class: a node appears once per pod it takes."""
    spots: list[Node] = []
    for node in nodes:
        if len(spots) >= count:
            break
        if admits(node, wanted):
            spots += [node] * min(how_many(wanted, room.on(node)), count - len(spots))
    return spots


def releases(reserved: Reservations, loads: Mapping[str, NodeLoad], settings: DecideSettings) -> list[tuple[Pod, str]]:
    """The balloons to delete, each with the pod it gives way to; none for fewer than make a burst."""
    found = [
        (load.balloons[0], taker)
        for name, taker in sorted(reserved.taker.items())
        if (load := loads.get(name) or EMPTY).balloons
    ]
    return found if len(found) >= settings.burst_at_least else []
