"""Burst release: free warm nodes in bulk for pods that wait.

The scheduler preempts one balloon in milliseconds, but a hundred take seconds: every preemption spends several
of its API calls, and each victim comes back Pending. Lowering the Deployment and deleting that many balloons
is faster. Which pod goes where stays the scheduler's choice; here it is only counted how many nodes they need.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from balloons.decide.fit import PodClass, class_of, keys_of
from balloons.decide.places import Places
from balloons.decide.settings import DecideSettings
from balloons.view.node_load import EMPTY, NodeLoad
from balloons.view.snapshot import Now
from throttler.kube.node import Node
from throttler.kube.pod import Pod

MOST_CLASSES = 64
"""Different kinds of pods looked at per decision; the others have their turn in the next ones."""
RETRY = 10
"""A pod that did not take the node it was given is tried again after so many times the reservation."""

ClassKey = tuple[object, ...]
_Class = tuple[ClassKey, PodClass, list[Pod]]


@dataclass(frozen=True, slots=True)
class Reservations:
    """`taker` names, per reserved node, the waiting pod it is meant for; `since_s` remembers when each pod (uid) was
    first given a node. Nodes that hold a balloon must be released, the others just kept free.

    Nodes in `at_once` are for pods that the scheduler makes no room for. `looked` are the classes that have had their
    turn while others wait for theirs; empty once all had it.
    """

    taker: Mapping[str, str] = field(default_factory=dict)
    since_s: Mapping[str, float] = field(default_factory=dict)
    at_once: frozenset[str] = frozenset()
    looked: frozenset[ClassKey] = frozenset()


def reserve(
    waiting: Iterable[Pod],
    open_nodes: Sequence[Node],
    holdable: Sequence[Node],
    loads: Mapping[str, NodeLoad],
    since_s: Mapping[str, float],
    settings: DecideSettings,
    balloon_priority: int,
    now: Now,
    looked: frozenset[ClassKey] = frozenset(),
) -> Reservations:
    """Give waiting pods nodes: room on `open_nodes` first (busy ones of the pools), then holdable nodes without a
    balloon, then warm ones. Pods that did not take their node within `reservation_s` are passed over, so that a
    pod that cannot be judged here never keeps nodes without a balloon for ever; after `RETRY` times as long they are
    tried again."""
    now_s, window_s = now.monotonic_s, settings.reservation_s
    pods = [p for p in waiting if _may_take(p, balloon_priority)]
    classes = _classes(p for p in pods if _has_turn(now_s - since_s.get(p.uid, now_s), window_s))
    given: list[tuple[Pod, Node]] = []
    done: set[ClassKey] = set()
    if classes:
        places = Places(
            open_nodes, holdable, loads, now.wall.timestamp(), keys_of([wanted for _, wanted, _ in classes])
        )
        given, done = _give(_in_turn(classes, since_s, looked), places)
    present = {key for key, _, _ in classes}
    had_turn = (looked & present) | done
    is_holdable = {node.name for node in holdable} if given else set()
    at_once = {node.name for pod, node in given if _needs_help(pod)}
    taker: dict[str, str] = {}
    placed: dict[str, float] = {}
    for pod, node in given:
        if node.name in is_holdable:
            taker.setdefault(node.name, str(pod.key))
            placed[pod.uid] = since_s.get(pod.uid, now_s)
    expired = {p.uid: since_s[p.uid] for p in pods if p.uid in since_s and p.uid not in placed}
    still_waits = frozenset() if had_turn >= present else frozenset(had_turn)
    return Reservations(taker, {**placed, **expired}, frozenset(at_once), still_waits)


def _has_turn(age_s: float, window_s: float) -> bool:
    return window_s > 0 and age_s % (RETRY * window_s) < window_s


def _in_turn(classes: Sequence[_Class], since_s: Mapping[str, float], looked: frozenset[ClassKey]) -> list[_Class]:
    """Classes that have been given nodes keep them, those that had no turn yet come next; else by priority."""

    def rank(each: _Class) -> int:
        key, _, members = each
        return 0 if any(pod.uid in since_s for pod in members) else 1 + (key in looked)

    return sorted(classes, key=rank)


def _give(classes: Sequence[_Class], places: Places) -> tuple[list[tuple[Pod, Node]], set[ClassKey]]:
    """A node for as many pods as there is room for, a gang whole or not at all; and the classes that had their turn."""
    given: list[tuple[Pod, Node]] = []
    done: set[ClassKey] = set()
    for key, wanted, members in classes[:MOST_CLASSES]:
        if places.is_tired:
            break
        done.add(key)
        spots = places.spots(wanted, len(members))
        if wanted.gang and len(spots) < len(members):
            continue
        for pod, node in zip(members, spots, strict=False):
            places.take(node, wanted)
            given.append((pod, node))
    return given, done


def _may_take(pod: Pod, balloon_priority: int) -> bool:
    how = pod.scheduling
    return (
        how is not None
        and pod.priority > balloon_priority
        and (not how.is_opaque or how.is_bound_by_volumes)
        and not (how.is_gated or pod.is_terminating or pod.is_finished)
    )


def _needs_help(pod: Pod) -> bool:
    """Whether the pod gets a node released even alone: nobody preempts for it, or its volumes leave it few nodes."""
    how = pod.scheduling
    return how is not None and (how.cannot_preempt or how.is_bound_by_volumes)


def _classes(pods: Iterable[Pod]) -> list[_Class]:
    """Pods by class, highest priority and oldest pod first; only classes the scheduler has found no room for.

    One refused member speaks for its class: those behind it in the scheduler's queue will be refused as well.
    """
    found: dict[ClassKey, tuple[PodClass, list[Pod]]] = {}
    for pod in sorted(pods, key=lambda p: (-p.priority, p.created_s, p.key)):
        if pod.scheduling is not None:
            wanted = class_of(pod, pod.scheduling)
            found.setdefault((pod.priority, wanted.key), (wanted, []))[1].append(pod)
    return [
        (key, wanted, members)
        for key, (wanted, members) in found.items()
        if any(p.scheduling and p.scheduling.is_tried for p in members)
    ]


def releases(reserved: Reservations, loads: Mapping[str, NodeLoad], settings: DecideSettings) -> list[tuple[Pod, str]]:
    """The balloons to delete, each with the pod it gives way to; of fewer than make a burst only those `at_once`."""
    found = [
        (load.balloons[0], taker)
        for name, taker in sorted(reserved.taker.items())
        if (load := loads.get(name) or EMPTY).balloons
    ]
    if len(found) >= settings.burst_at_least:
        return found
    return [(balloon, taker) for balloon, taker in found if balloon.node in reserved.at_once]
