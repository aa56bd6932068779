"""What users are told of a throttle after one tick: its status, its conditions and its Events. Pure.

Ready, Reconciling and Stalled mean what kstatus makes of them. Ready says that the throttle can do its work, not that
it has none: a scale-up that is paced is no reason for Argo CD to wait. SignalsFresh and LeversConfirmed are always
there, and say which half is wrong; ForeignTrouble only while something is left out because joins have no part in it.

Events come when the phase changes, and when something is wrong. How often is limited by `EventLimit`. What an earlier
process told is known from the stored status, so a restart repeats nothing.
"""

import math
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from throttler.api.throttle import (
    API_VERSION,
    THROTTLE_KIND,
    LeverStatus,
    ServerStatus,
    ThrottleStatus,
)
from throttler.api.throttle_rules import RefusedThrottle, StoredThrottle
from throttler.kube.metadata import Condition
from throttler.kube.quantities_and_durations import count, plural
from throttler.kube.reasons_and_events import (
    MESSAGE_LIMIT,
    Because,
    EventAuthor,
    EventLimit,
    Sentence,
    because,
    conditions_since,
)
from throttler.law.law_memory import learned_status_of
from throttler.law.verdict import Phase, ThrottleReason, Verdict
from throttler.levers.lever_and_reasons import LeverDecision, LeverState
from throttler.service.decide_throttles import Findings, Turn
from throttler.signals.reading import fresh_for_s, is_fresh
from throttler.signals.servers import is_server, server_states


class StatusReason(Sentence):
    """Reason -> sentence; the braces name the detail's keys."""

    INVALID = "{message}"
    PAUSED = "paused: every lever is given back and nothing is held"
    NOT_DECIDED = "nothing has been decided yet"
    INCOMPLETE_VIEW = "the view is incomplete ({missing}): nothing is raised and nothing is lowered"
    VIEW_GIVEN_UP = "the view stays incomplete ({missing}): everything is given back, and growth is not paced"
    WRITE_FAILED = "{problem}"
    SERVERS_FRESH = "{fresh} of {servers:API server|API servers} gave a usable reading within {limit_s:.0f} s{also}"
    SERVERS_UNREAD = (
        "{fresh} of {servers:API server|API servers} gave a usable reading within {limit_s:.0f} s: {problems}"
    )
    NO_SERVER_READ = "no API server has been read: {problems}"
    NOT_OURS = "joins cause none of this: {sentences}"
    LEVERS_CONFIRMED = "{levers:lever is|levers are} in force or given back{also}"
    LEVERS_PENDING = "{names}: written, but the autoscaler has not confirmed it yet"
    LEVERS_BROKEN = "{sentences}"
    NO_LEVERS = "the throttle uses no lever{also}"


SERVER_LIMIT = 64
LEVER_LIMIT = 128
NAME_LIMIT = 253
LEVER_NAME_LIMIT = 317
VALUE_LIMIT = 256
"""All as in the CRD: one field too long would cost the whole status."""
HIGHEST_INDEX = 1e6
"""A server so far beyond its usual latency is beyond telling apart."""
LARGEST = 2**31 - 1
"""Counts are int32 in the CRD."""


def next_status(stored: StoredThrottle, findings: Findings, wall: datetime) -> ThrottleStatus | None:
    """What to write, or None when the stored status says the same already."""
    main = main_reason(stored, findings)
    wanted = msgspec.structs.replace(
        _figures(stored, findings, wall),
        observed_generation=stored.metadata.generation,
        phase=_phase(stored, findings),
        because=main.code,
        message=main.sentence[:MESSAGE_LIMIT],
        conditions=conditions(stored, findings, wall),
    )
    return None if wanted == stored.status else wanted


def _figures(stored: StoredThrottle, findings: Findings, wall: datetime) -> ThrottleStatus:
    """Servers and levers as seen now; counts too, unless nothing was decided: then nothing has been counted."""
    status = msgspec.structs.replace(
        stored.status,
        servers=tuple(_servers(findings))[:SERVER_LIMIT],
        levers=tuple(_levers(findings))[:LEVER_LIMIT],
    )
    if findings.verdict is None:
        return status
    return _counts(status, findings, findings.verdict, wall)


def _counts(status: ThrottleStatus, findings: Findings, verdict: Verdict, wall: datetime) -> ThrottleStatus:
    joins = findings.joins
    return msgspec.structs.replace(
        status,
        window=_count(verdict.window),
        pace_per_minute=_count(verdict.pace_per_min),
        in_flight=_count(joins.in_flight),
        booting=_count(joins.booting),
        held=_count(joins.held),
        joining=_count(joins.joining),
        waiting=_count(joins.waiting),
        allowance=_count(verdict.allowance),
        index=_index(verdict),
        learned=learned_status_of(findings.learned, status.learned, wall),
    )


def _phase(stored: StoredThrottle, findings: Findings) -> str:
    if isinstance(stored, RefusedThrottle):
        return "Invalid"
    if stored.spec.paused:
        return "Paused"
    return findings.verdict.phase.value if findings.verdict else stored.status.phase


def _servers(findings: Findings) -> Iterator[ServerStatus]:
    """One entry per name, by name: the list is a map in the API, and a doubled key would cost the whole status."""
    by_name = {told.name[:NAME_LIMIT]: told for told in server_states(findings.signals, findings.now_s)}
    return (ServerStatus(name, told.state.value, told.message[:MESSAGE_LIMIT]) for name, told in by_name.items())


def _levers(findings: Findings) -> Iterator[LeverStatus]:
    by_name = {decision.name[:LEVER_NAME_LIMIT]: decision for decision in findings.levers}
    return (_lever(name, by_name[name]) for name in sorted(by_name))


def _lever(name: str, decision: LeverDecision) -> LeverStatus:
    return LeverStatus(
        name=name,
        state=decision.state.value,
        because=decision.because.code,
        ceiling=decision.ceiling[:VALUE_LIMIT],
        original=decision.original[:VALUE_LIMIT],
        message=decision.because.sentence[:MESSAGE_LIMIT],
    )


def _index(verdict: Verdict) -> str:
    """Empty while idle: it moves with every scrape, and a cluster at rest is to see no writes."""
    index = verdict.index
    if index is None or not math.isfinite(index) or verdict.phase is Phase.IDLE:
        return ""
    return f"{min(max(index, 0.0), HIGHEST_INDEX):.1f}"


def _count(figure: float) -> int:
    """Whole and within the CRD; what is not finite is told as 0 rather than costing the whole status."""
    return min(LARGEST, max(0, round(figure))) if math.isfinite(figure) else 0


_BROKEN = (LeverState.LOST, LeverState.REFUSED, LeverState.UNCONFIRMED, LeverState.CONTESTED)
"""Worst first: growth is not paced there, or somebody else changes the same field."""


@dataclass(frozen=True, slots=True)
class _Say:
    """One condition: type, status and why."""

    kind: str
    status: str
    why: Because


def conditions(stored: StoredThrottle, findings: Findings, wall: datetime) -> tuple[Condition, ...]:
    """All conditions; lastTransitionTime moves only when a condition's status does."""
    signals, levers = _signals(findings), _lever_condition(findings, _status_before(stored, "LeversConfirmed"))
    said = (*_readiness(stored, findings, levers), signals, levers, *_left_out(findings))
    told = (
        Condition(condition.kind, condition.status, condition.why.code, condition.why.sentence) for condition in said
    )
    return conditions_since(stored.status.conditions, told, wall, stored.metadata.generation)


def main_reason(stored: StoredThrottle, findings: Findings) -> Because:
    """Why things are as they are, in one reason: the law's own unless something keeps it from being followed."""
    if isinstance(stored, RefusedThrottle):
        return because(StatusReason.INVALID, message=stored.problem)
    if stored.spec.paused:
        return because(StatusReason.PAUSED)
    if findings.missing:
        reason = StatusReason.VIEW_GIVEN_UP if findings.is_given_up else StatusReason.INCOMPLETE_VIEW
        return because(reason, missing=_listed(findings.missing))
    return findings.verdict.because if findings.verdict else because(StatusReason.NOT_DECIDED)


def _readiness(stored: StoredThrottle, findings: Findings, levers: _Say) -> tuple[_Say, ...]:
    """Ready, and Reconciling or Stalled only while they are true."""
    main = main_reason(stored, findings)
    if isinstance(stored, RefusedThrottle):
        return _stuck(main)
    if findings.problem:
        return _stuck(because(StatusReason.WRITE_FAILED, problem=findings.problem))
    if stored.spec.paused:
        return (_Say("Ready", "True", main),)
    if findings.is_given_up:
        return _stuck(main)
    if findings.verdict is None:
        return (_Say("Ready", "Unknown", main), _Say("Reconciling", "True", main))
    if levers.status == "False":
        return _stuck(levers.why)
    if findings.verdict.phase is Phase.STALE:
        return (_Say("Ready", "False", main), _Say("Reconciling", "True", main))
    return (_Say("Ready", "True", main),)


def _stuck(why: Because) -> tuple[_Say, ...]:
    return (_Say("Ready", "False", why), _Say("Stalled", "True", why))


def _signals(findings: Findings) -> _Say:
    silent, now_s = findings.signals.silent, findings.now_s
    all_readings = [*filter(is_server, findings.signals.readings)]
    # One that has fallen silent keeps its last reading for a while, and is one server all the same.
    names = {server.server for server in silent}
    readings = [reading for reading in all_readings if reading.server not in names]
    fresh = sum(is_fresh(reading, now_s) for reading in readings)
    old = (f"{reading.server}: no newer reading" for reading in readings if not is_fresh(reading, now_s))
    quiet = (f"{server.server}: {server.problem}" for server in silent)
    problems = [*quiet, *old, *findings.signals.problems, *_own_errors(findings)]
    if not all_readings:
        told = _listed(problems) or "nothing has answered yet"
        return _Say("SignalsFresh", "False", because(StatusReason.NO_SERVER_READ, problems=told))
    limit_s = max(map(fresh_for_s, all_readings))
    figures = {"fresh": fresh, "servers": len(readings) + len(silent), "limit_s": limit_s}
    if fresh == figures["servers"]:
        also = "".join(f"; {text}" for text in (*findings.signals.problems, *_own_errors(findings)))
        return _Say("SignalsFresh", "True", because(StatusReason.SERVERS_FRESH, **figures, also=also))
    return _Say("SignalsFresh", "False", because(StatusReason.SERVERS_UNREAD, **figures, problems=_listed(problems)))


def _own_errors(findings: Findings) -> Iterable[str]:
    """What our own requests met is no server's news, and worth a word only where it was bad."""
    own = [
        reading for reading in findings.signals.readings if not is_server(reading) and is_fresh(reading, findings.now_s)
    ]
    return [
        f"{reading.server}: {reading.errors:.0f} of {reading.requests:.0f} met 429 or 5xx"
        for reading in own
        if reading.errors
    ]


def _left_out(findings: Findings) -> tuple[_Say, ...]:
    """Only while it is true: trouble that joins have no part in stays trouble, and somebody's."""
    reasons = findings.verdict.left_out if findings.verdict else ()
    if not reasons:
        return ()
    why = because(StatusReason.NOT_OURS, sentences="; ".join(reason.sentence for reason in reasons))
    return (_Say("ForeignTrouble", "True", why if len(reasons) > 1 else reasons[0]),)


def _lever_condition(findings: Findings, before: str) -> _Say:
    """A lever that is only pending changes nothing: every move of a ceiling is pending for a moment."""
    levers = findings.levers
    if broken := [lever for state in _BROKEN for lever in levers if lever.state is state]:
        sentences = _listed(f"{lever.name} {lever.state.value}: {lever.because.sentence}" for lever in broken)
        return _Say("LeversConfirmed", "False", because(StatusReason.LEVERS_BROKEN, sentences=sentences))
    pending = [lever for lever in levers if lever.state is LeverState.PENDING]
    if pending and before != "True":
        why = because(StatusReason.LEVERS_PENDING, names=_listed(lever.name for lever in pending))
        return _Say("LeversConfirmed", "Unknown", why)
    reason = StatusReason.LEVERS_CONFIRMED if levers else StatusReason.NO_LEVERS
    return _Say("LeversConfirmed", "True", because(reason, levers=len(levers), also=_also(findings)))


def _also(findings: Findings) -> str:
    """Where the count of booting machines is a guess: it goes into ceilings."""
    said = ""
    if other := findings.covered_by:
        said += f"; JoinThrottle {other} comes first on all of these nodes: they count for both"
    if names := [group.rpartition("/")[2] for group in findings.guessed_groups]:
        said += f"; no label tells whose nodes the groups {_listed(names)} make: machines that boot there count here"
    if findings.unpaced_pools:
        said += f"; the lever leaves out NodePool {_listed(findings.unpaced_pools)}, where growth is not paced"
    if findings.is_autoscaler_silent:
        said += "; cluster-autoscaler is silent: machines that it asked for count until they are given up"
    if pods := findings.joins.hopeless_pods:
        said += f"; {count(pods, 'pod fits nowhere and is', 'pods fit nowhere and are')} not counted"
    if daemon_sets := findings.joins.unawaited:
        said += f"; joins waited in vain for pods of DaemonSet {_listed(daemon_sets)}, and wait for them no more"
    if late := findings.joins.late:
        said += (
            f"; {count(late, 'machine is late and uses', 'machines are late and use')} no place in the window until "
        )
        said += plural(late, "it comes", "they come")
    return said


def _status_before(stored: StoredThrottle, kind: str) -> str:
    return next((condition.status for condition in stored.status.conditions if condition.type == kind), "")


def _listed(texts: Iterable[str]) -> str:
    return ", ".join(texts)


CONTROLLER = "kube-balloons.github.io/throttler"
_WARNINGS = {
    ThrottleReason.ERRORS,
    ThrottleReason.IDLE_ERRORS,
    ThrottleReason.FLOOR_PACE,
    ThrottleReason.DELAY_NOT_OURS,
    ThrottleReason.SIGNALS_LOST,
    ThrottleReason.SIGNALS_STALE,
    ThrottleReason.SERVER_SILENT,
    ThrottleReason.ALARM,
    ThrottleReason.DEADLINE,
}


class ThrottleAnnouncer:
    """Knows what was told last of each throttle; `now_s` is monotonic."""

    def __init__(self, instance: str) -> None:
        self._author = EventAuthor(
            controller=CONTROLLER, instance=instance, action="Pace", api_version=API_VERSION, kind=THROTTLE_KIND
        )
        self._limit = EventLimit()
        self._phase: dict[str, str] = {}
        self._levers: dict[str, frozenset[tuple[str, str]]] = {}

    def due(self, turn: Turn, before: ThrottleStatus, now_s: float, wall: datetime) -> list[dict[str, Any]]:
        """The Events to write now; they count as told. `before` is the status as stored."""
        news = list(self._news(turn, before))
        return [
            self._author.event(turn.stored.metadata, why, wall, is_warning=is_warning, names=names)
            for why, is_warning, names in news
            if self._limit.may_tell((turn.name, why.code), now_s)
        ]

    def forget(self, known: Collection[str]) -> None:
        """Drop what is about throttles that are gone."""
        self._phase = {name: phase for name, phase in self._phase.items() if name in known}
        self._levers = {name: states for name, states in self._levers.items() if name in known}

    def _news(self, turn: Turn, before: ThrottleStatus) -> Iterator[tuple[Because, bool, str]]:
        """Each with whether it is a warning, and the levers that it is about."""
        verdict = turn.verdict_followed
        if verdict is not None:
            is_warning = verdict.because.reason in _WARNINGS
            if self._phase.get(turn.name, before.phase) != verdict.phase.value or is_warning:
                yield verdict.because, is_warning, ""
            self._phase[turn.name] = verdict.phase.value
        known = self._levers.get(turn.name)
        if known is None:
            known = frozenset((lever.name, lever.state) for lever in before.levers)
        states = frozenset((lever.name, lever.state.value) for lever in turn.findings.levers)
        broken: dict[str, list[LeverDecision]] = {}
        for lever in turn.findings.levers:
            if lever.state in _BROKEN and (lever.name, lever.state.value) not in known:
                broken.setdefault(lever.because.code, []).append(lever)
        for alike in broken.values():
            yield alike[0].because, True, _listed(lever.name for lever in alike)
        self._levers[turn.name] = states
