"""The queue of nodes or pods that a lever lets in one by one: how long each has been held, who is next, and why.

An object is held from when it was made (a node from its registration, a pod from its creation). Ages are monotonic as
soon as an object has been seen: a step of the wall clock cannot make the whole queue overdue, nor hold it for ever.
"""

import math
from abc import abstractmethod
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from throttler.kube.reasons_and_events import Because, Sentence, because
from throttler.levers.lever_and_reasons import (
    Clocks,
    Lever,
    LeverBudget,
    LeverDecision,
    LeverState,
    LeverWrite,
    Remembered,
    Settings,
)

Thing = TypeVar("Thing")
"""What an admission lever lets in: nodes or pods."""


@dataclass(frozen=True, slots=True)
class HeldSince:
    """Memory: from which monotonic moment on each held object counts, by uid. Losing it costs wall-clock trust, and
    whose turn it was."""

    since_s: Mapping[str, float] = field(default_factory=dict)
    looked_at_s: float = -math.inf
    """When the view was last complete: what is new now cannot have been there before."""
    let_go: frozenset[str] = frozenset()
    """Nodes that were let in and still look held: the write is under way, its answer was lost, or the view has not
    heard of it. They come first, so that nobody is let in in their places."""

    def seen(self, created_s: Mapping[str, float], moment: Clocks, *, is_complete: bool = True) -> "HeldSince":
        """The memory after a look at everything that is held: id -> creation, in seconds since the epoch."""
        longest_s = moment.now_s - self.looked_at_s
        since_s = {
            uid: self.since_s.get(uid, moment.now_s - _between(0.0, moment.wall_s - created, longest_s))
            for uid, created in created_s.items()
        }
        looked_at_s = moment.now_s if is_complete else self.looked_at_s
        return HeldSince(since_s, looked_at_s, self.let_go.intersection(since_s))

    def age_s(self, uid: str, now_s: float) -> float:
        """Seconds for which it has been held; 0 for what has not been seen."""
        return now_s - self.since_s.get(uid, now_s)


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
    return tuple(sorted(held, key=lambda entry: (entry.age_s < limit_s, not entry.is_urgent, -entry.age_s, entry.id)))


def let_in(held: Sequence[Held], places: int, limit_s: float, room: LeverBudget) -> Sequence[Held]:
    """Who goes now of those that are in turn: all when handing back, whoever is overdue in any case, others as there
    are places.

    Overdue ones take places as well. While nothing may be moved only they go: the one exception, because a
    machine that is held for too long is lost.
    """
    if room.is_stopping:
        return held
    overdue = sum(entry.age_s >= limit_s for entry in held)
    return held[: max(overdue, places if room.may_move else 0)]


def able_and_refused(
    held: Sequence[Held], refused: Container[str], room: LeverBudget
) -> tuple[Sequence[Held], Sequence[Held]]:
    """Those that may be let in, and those of which the API server refused it a moment ago: they take nobody's place
    until they are tried again. Handing back asks for all of them."""
    if room.is_stopping:
        return held, ()
    return [entry for entry in held if entry.id not in refused], [entry for entry in held if entry.id in refused]


class AdmissionReason(Sentence):
    """Why, in a sentence; the braces name the figures."""

    ADMITTED = "let in after {age_s:.0f} s: there is room for it now"
    HOLD_TIME_IS_UP = (
        "let in after {age_s:.0f} s: nothing is held for longer than {limit_s:.0f} s, whatever the signals say"
    )
    HOLD_HANDED_BACK = "let in: the throttle is stopping, paused, gone or cannot see, and holds nothing back"
    NOTHING_HELD = "nothing is held back"
    HOLDING = "{held} held back, the oldest for {oldest_s:.0f} s; each is let in after {limit_s:.0f} s at the latest"
    HOLDING_BLIND = (
        "{held} held back: the view is incomplete or stale, so only those held for {limit_s:.0f} s are let in"
    )
    KEEPS_NO_JOIN_BACK = (
        "every DaemonSet tolerates the taint, or none selects the label: nothing of a join waits for it, so it goes at "
        "once and paces nothing"
    )
    PODS_HELD = (
        "{held:pod is|pods are} held back, the oldest for {oldest_s:.0f} s: none is let go before nodes may start"
    )
    PODS_HELD_BLIND = "{held:pod is|pods are} held back: the view is incomplete or stale, so none is let go"


def why_let_in(held: Held, limit_s: float, room: LeverBudget) -> Because:
    """Why this one is let in."""
    if room.is_stopping:
        return because(AdmissionReason.HOLD_HANDED_BACK)
    if held.age_s >= limit_s:
        return because(AdmissionReason.HOLD_TIME_IS_UP, age_s=held.age_s, limit_s=limit_s)
    return because(AdmissionReason.ADMITTED, age_s=held.age_s)


def admission(
    name: str, stays: Sequence[Held], limit_s: float, room: LeverBudget, writes: tuple[LeverWrite, ...] = ()
) -> LeverDecision:
    """The decision of a lever that lets objects in one by one: how many stay behind after these writes, and why.

    It needs no confirmation: an object that bears our mark is held by the fact.
    """
    state, ceiling = LeverState.HANDED_BACK, ""
    if room.is_stopping:
        why = because(AdmissionReason.HOLD_HANDED_BACK)
    elif not stays:
        why = because(AdmissionReason.NOTHING_HELD)
    else:
        state, ceiling = LeverState.CONFIRMED, f"{len(stays)} held"
        reason = AdmissionReason.HOLDING if room.may_move else AdmissionReason.HOLDING_BLIND
        oldest_s = max(held.age_s for held in stays)
        why = because(reason, held=len(stays), oldest_s=oldest_s, limit_s=limit_s)
    return LeverDecision(name=name, state=state, because=why, ceiling=ceiling, writes=writes)


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


class AdmissionLever(Lever[Settings, Remembered], Generic[Settings, Remembered, Thing]):
    """Keeps single objects waiting that bear, or lack, a mark of ours, and lets them in one by one."""

    @abstractmethod
    def let_all_in(self, things: Sequence[Thing], settings: Settings) -> tuple[LeverWrite, ...]:
        """What lets all of these go, whoever holds them: for the guard, which remembers nothing."""
