"""Burst release: free warm nodes in bulk for pods that wait.

The scheduler preempts one balloon in milliseconds, but a hundred take seconds: every preemption spends several
of its API calls, and each victim comes back Pending. Lowering the Deployment and deleting that many balloons
is faster. Which pod goes where stays the scheduler's choice; here it is only counted how many nodes they need.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from balloons.decide.fit import PodClass, class_of
from balloons.decide.places import Places
from balloons.decide.settings import DecideSettings
from balloons.view.load import EMPTY, NodeLoad
from balloons.view.snapshot import Now
from throttler.kube.node import Node
from throttler.kube.pod import Pod

MOST_CLASSES = 64
"""Different kinds of pods looked at per decision; the others wait for the next one."""


@dataclass(frozen=True, slots=True)
class Reservations:
    """`taker` names, per reserved node, the waiting pod it is meant for; `since_s` remembers when each pod (uid) was
    first given a node. Nodes that hold a balloon must be released, the others just kept free."""

    taker: Mapping[str, str] = field(default_factory=dict)
    since_s: Mapping[str, float] = field(default_factory=dict)


def reserve(
    waiting: Iterable[Pod],
    open_nodes: Sequence[Node],
    holdable: Sequence[Node],
    loads: Mapping[str, NodeLoad],
    since_s: Mapping[str, float],
    settings: DecideSettings,
    balloon_priority: int,
    now: Now,
) -> Reservations:
    """Give waiting pods nodes: room on `open_nodes` first (busy ones of the pools), then holdable nodes without a
    balloon, then warm ones. Pods that did not take their node within `reservation_s` are passed over, so that a
    pod that cannot be judged here never keeps nodes without a balloon for ever."""
    now_s = now.monotonic_s
    pods = [p for p in waiting if _may_take(p, balloon_priority)]
    classes = _classes(p for p in pods if now_s - since_s.get(p.uid, now_s) < settings.reservation_s)
    given = _give(classes, Places(open_nodes, holdable, loads, now.wall.timestamp())) if classes else []
    is_holdable = {node.name for node in holdable} if given else set()
    taker: dict[str, str] = {}
    placed: dict[str, float] = {}
    for pod, node in given:
        if node.name in is_holdable:
            taker.setdefault(node.name, str(pod.key))
            placed[pod.uid] = since_s.get(pod.uid, now_s)
    expired = {p.uid: since_s[p.uid] for p in pods if p.uid in since_s and p.uid not in placed}
    return Reservations(taker, {**placed, **expired})


def _give(classes: Iterable[tuple[PodClass, list[Pod]]], places: Places) -> list[tuple[Pod, Node]]:
    """A node for as many pods as there is room for; a gang whole or not at all."""
    given: list[tuple[Pod, Node]] = []
    for wanted, members in classes:
        spots = places.spots(wanted, len(members))
        if wanted.gang and len(spots) < len(members):
            continue
        for pod, node in zip(members, spots, strict=False):
            places.take(node, wanted)
            given.append((pod, node))
    return given


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


def releases(reserved: Reservations, loads: Mapping[str, NodeLoad], settings: DecideSettings) -> list[tuple[Pod, str]]:
    """The balloons to delete, each with the pod it gives way to; none for fewer than make a burst."""
    found = [
        (load.balloons[0], taker)
        for name, taker in sorted(reserved.taker.items())
        if (load := loads.get(name) or EMPTY).balloons
    ]
    return found if len(found) >= settings.burst_at_least else []
