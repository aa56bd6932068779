"""What users are told of a pool: its status and Events, from its decision. Pure.

What each reason means for whoever waits on a pool: settled, on its way, blind, or in need of a person.

Conditions mean what kstatus makes of them, so that `kubectl wait`, Argo CD and Flux understand a pool: Ready always,
Reconciling and Stalled only while they are true. lastTransitionTime moves only when a condition's status does.

Kubernetes Events about pools: when a reason changes or a note appears, however briefly, and never a flood of them. How
often is limited by `EventLimit`; what may not be told yet waits. What an earlier process told is known from
the pool's stored status, so a restart repeats nothing.
"""

import enum
from collections.abc import Collection
from datetime import datetime
from typing import Any

import msgspec

from balloons.api.pool import API_VERSION, POOL_KIND, PoolStatus
from balloons.decide.decision_and_reasons import PoolDecision, Reason
from balloons.view.index_and_snapshot import StoredPool
from throttler.kube.metadata import Condition, ObjectKey
from throttler.kube.reasons_and_events import MESSAGE_LIMIT, EventAuthor, EventLimit, Sentence, conditions_since

_MOVING = {
    Reason.WARMING,
    Reason.GROWING,
    Reason.FALLBACK,
    Reason.ALLOWANCE,
    Reason.SHRINKING,
    Reason.LEAVING,
    Reason.SHRINK_LIMITED,
    Reason.BURST_RELEASE,
    Reason.RESERVED,
    Reason.POOL_GONE,
}
_BLIND = {Reason.INCOMPLETE_VIEW, Reason.STALE_VIEW, Reason.SHRUNKEN_VIEW}
_STUCK = {
    Reason.INVALID,
    Reason.NOT_SERVED,
    Reason.BOUND,
    Reason.OUTRANKING,
    Reason.REFUSED,
    Reason.GATED,
    Reason.ENLARGED,
    Reason.NOT_STARTED,
    Reason.CONFLICT,
    Reason.NO_PRIORITY_CLASS,
    Reason.NO_SHAPE,
    Reason.TOO_SMALL,
    Reason.NODES_REFUSE,
    Reason.ENDLESS,
    Reason.COPIED,
    Reason.SHAPES_ALIKE,
    Reason.IMAGE_NOT_ALLOWED,
    Reason.NO_IMAGE_VOLUMES,
    Reason.NO_BUFFERS,
    Reason.FAILED,
}
TURNED_AWAY = frozenset({Reason.NOT_SERVED, Reason.BOUND})
"""Pools that are not ours to serve: whoever makes thousands of them costs the others neither series nor Events."""
WITHOUT_EVENT = frozenset({Reason.SHARED_NODES})
"""Notes that only the conditions tell: nothing is wrong, and such pods come and go all day."""
HELD_UP = (
    _BLIND
    | _STUCK
    | {
        Reason.PAUSED,
        Reason.TOO_FEW_NODES,
        Reason.MAX_SIZE,
        Reason.ALLOWANCE,
        Reason.SHRINK_LIMITED,
        Reason.RESERVED,
    }
)
"""Reasons that hold a pool up: less was done than it asks for. The labels of holds_total."""
WRITE_FAILED = "WriteFailed"
"""Condition reason when the API server refuses, or does not answer, what was decided."""
ZONE_LIMIT = 64
"""As in the CRD: one field too long would cost the whole status."""
CONTROLLER = "kube-balloons.github.io/balloons"


class Standing(enum.Enum):
    """The four answers that conditions, Events and metrics distinguish."""

    SETTLED = "as wanted, or as near to it as the rules allow"
    MOVING = "on its way"
    BLIND = "unknown: the view cannot be trusted now"
    STUCK = "needs a person: nothing changes until somebody changes something"


def standing(reason: Sentence, *, is_dry_run: bool = False) -> Standing:
    """The standing of a pool that was decided for this reason: in a dry run nothing is on its way, as while paused."""
    if reason in _STUCK:
        return Standing.STUCK
    if reason in _BLIND:
        return Standing.BLIND
    return Standing.MOVING if reason in _MOVING and not is_dry_run else Standing.SETTLED


def next_status(stored: StoredPool, decision: PoolDecision, problem: str, wall: datetime) -> PoolStatus | None:
    """What to write, or None when the stored status says the same already.

    `problem` is what went wrong when this decision or the last was written, empty if nothing did. The status is of the
    generation that was decided on: while slow writes were under way somebody may have changed the pool.
    """
    generation = decision.status.observed_generation or stored.metadata.generation
    if decision.because.reason is Reason.INVALID:
        # Nothing has been counted of a pool that cannot be read: it keeps the figures that it had.
        counts = stored.status
    else:
        counts = msgspec.structs.replace(decision.status, zones=decision.status.zones[:ZONE_LIMIT])
    wanted = msgspec.structs.replace(
        counts,
        observed_generation=generation,
        because=decision.because.code,
        message=decision.because.sentence[:MESSAGE_LIMIT],
        conditions=_conditions(stored, decision, problem, wall, generation),
    )
    has_been_told = (wanted.because, wanted.message) == (stored.status.because, stored.status.message)
    if has_been_told and decision.because.reason in TURNED_AWAY:
        # Editing a pool that is not served, on and on, must not make us write on and on.
        return None
    return None if wanted == stored.status else wanted


def _conditions(
    stored: StoredPool, decision: PoolDecision, problem: str, wall: datetime, generation: int
) -> tuple[Condition, ...]:
    state = standing(decision.because.reason, is_dry_run=decision.is_dry_run)
    sentences = dict.fromkeys(reason.sentence for reason in (decision.because, *decision.notes))
    why, text = decision.because.code, "; ".join(sentences)
    if problem:
        state, why, text = Standing.STUCK, WRITE_FAILED, problem
    ready = {Standing.SETTLED: "True", Standing.BLIND: "Unknown"}.get(state, "False")
    told = [("Ready", ready)]
    told += [("Reconciling", "True")] if state in (Standing.MOVING, Standing.BLIND) else []
    told += [("Stalled", "True")] if state is Standing.STUCK else []
    said = (Condition(kind, value, why, text) for kind, value in told)
    return conditions_since(stored.status.conditions, said, wall, generation)


class Announcer:
    """Knows what was told last of each pool, and which Events wait; `now_s` is monotonic.

    Of one reason of a pool the newest waits, and of its states the present one. Warnings go before what is merely news.
    """

    def __init__(self, instance: str) -> None:
        self._author = EventAuthor(
            controller=CONTROLLER, instance=instance, action="Decide", api_version=API_VERSION, kind=POOL_KIND
        )
        self._limit = EventLimit()
        self._last: dict[ObjectKey, str] = {}
        self._noted: dict[ObjectKey, frozenset[str]] = {}
        self._waiting: dict[tuple[ObjectKey, str], dict[str, Any]] = {}

    def notice(self, stored: StoredPool, decision: PoolDecision, wall: datetime) -> None:
        """A decision was made at `wall`; whatever is new about it waits to be told."""
        pool, why = decision.pool, decision.because
        if why.reason in TURNED_AWAY:
            return
        before, noted = self._last.get(pool, ""), self._noted.get(pool, frozenset())
        if before != why.code and self._waiting.get((pool, before), {}).get("type") == "Normal":
            # Late news of a state that is over would mislead.
            del self._waiting[pool, before]
        notes = [note for note in decision.notes if note.reason not in WITHOUT_EVENT]
        self._last[pool], self._noted[pool] = why.code, frozenset(note.code for note in notes)
        news = [why] if why.code != (before or stored.status.because) else []
        for reason in (*news, *(note for note in notes if note.code not in noted)):
            is_warning = standing(reason.reason) is Standing.STUCK
            self._waiting[pool, reason.code] = self._author.event(stored.metadata, reason, wall, is_warning=is_warning)

    def due(self, now_s: float) -> list[tuple[ObjectKey, dict[str, Any]]]:
        """The Events to write now; they count as told."""
        in_order = sorted(self._waiting, key=lambda key: self._waiting[key]["type"] == "Normal")
        return [(key[0], self._waiting.pop(key)) for key in in_order if self._limit.may_tell(key, now_s)]

    def tell_again(self, pool: ObjectKey, event: dict[str, Any]) -> None:
        """The Event could not be written: it waits for the next time that its reason may be told."""
        self._waiting.setdefault((pool, event["reason"]), event)

    def forget(self, known: Collection[ObjectKey]) -> None:
        """Drop what is about pools that are gone."""
        self._last = {key: code for key, code in self._last.items() if key in known}
        self._noted = {key: codes for key, codes in self._noted.items() if key in known}
        self._waiting = {key: event for key, event in self._waiting.items() if key[0] in known}
