"""A throttle's conditions from what was found. Pure.

Ready, Reconciling and Stalled mean what kstatus makes of them. Ready says that the throttle can do its work, not that
it has none: a scale-up that is paced is no reason for Argo CD to wait. SignalsFresh and LeversConfirmed are always
there, and say which half is wrong; ForeignTrouble only while something is left out because joins have no part in it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from throttler.api.throttle_decode import RefusedThrottle, StoredThrottle
from throttler.kube.because import Because, because
from throttler.kube.metadata import Condition
from throttler.law.verdict import Phase
from throttler.levers.lever import LeverState
from throttler.service.findings import Findings
from throttler.service.status_because import StatusReason
from throttler.signals.servers import fresh_for_s, is_fresh, is_server

MESSAGE_LIMIT = 1024
"""As in the CRD: one field too long would cost the whole status."""
_BROKEN = (LeverState.LOST, LeverState.REFUSED, LeverState.UNCONFIRMED, LeverState.CONTESTED)
"""Worst first: growth is not paced there, or somebody else changes the same field."""


@dataclass(frozen=True, slots=True)
class _Say:
    """One condition: type, status and why."""

    kind: str
    status: str
    why: Because


def conditions(stored: StoredThrottle, found: Findings, wall: datetime) -> tuple[Condition, ...]:
    """All conditions; lastTransitionTime moves only when a condition's status does."""
    signals, levers = _signals(found), _levers(found, _status_before(stored, "LeversConfirmed"))
    said = (*_standing(stored, found, levers), signals, levers, *_left_out(found))
    since = {(each.type, each.status): each.last_transition_time for each in stored.status.conditions}
    return tuple(
        Condition(
            type=each.kind,
            status=each.status,
            reason=each.why.code,
            message=each.why.sentence[:MESSAGE_LIMIT],
            last_transition_time=since.get((each.kind, each.status)) or _rfc3339(wall),
            observed_generation=stored.metadata.generation,
        )
        for each in said
    )


def main_reason(stored: StoredThrottle, found: Findings) -> Because:
    """Why things are as they are, in one reason: the law's own unless something keeps it from being followed."""
    if isinstance(stored, RefusedThrottle):
        return because(StatusReason.INVALID, message=stored.problem)
    if stored.spec.paused:
        return because(StatusReason.PAUSED)
    if found.missing:
        return because(StatusReason.INCOMPLETE_VIEW, missing=_listed(found.missing))
    return found.verdict.because if found.verdict else because(StatusReason.NOT_DECIDED)


def _standing(stored: StoredThrottle, found: Findings, levers: _Say) -> tuple[_Say, ...]:
    """Ready, and Reconciling or Stalled only while they are true."""
    main = main_reason(stored, found)
    if isinstance(stored, RefusedThrottle):
        return _stuck(main)
    if found.problem:
        return _stuck(because(StatusReason.WRITE_FAILED, problem=found.problem))
    if stored.spec.paused:
        return (_Say("Ready", "True", main),)
    if found.missing or found.verdict is None:
        return (_Say("Ready", "Unknown", main), _Say("Reconciling", "True", main))
    if levers.status == "False":
        return _stuck(levers.why)
    if found.verdict.phase is Phase.STALE:
        return (_Say("Ready", "False", main), _Say("Reconciling", "True", main))
    return (_Say("Ready", "True", main),)


def _stuck(why: Because) -> tuple[_Say, ...]:
    return (_Say("Ready", "False", why), _Say("Stalled", "True", why))


def _signals(found: Findings) -> _Say:
    readings, silent = [*filter(is_server, found.signals.readings)], found.signals.silent
    fresh = sum(is_fresh(reading, found.now_s) for reading in readings)
    old = (f"{each.server}: no newer reading" for each in readings if not is_fresh(each, found.now_s))
    quiet = (f"{each.server}: {each.problem}" for each in silent)
    problems = [*quiet, *old, *found.signals.problems, *_own_errors(found)]
    if not readings:
        told = _listed(problems) or "nothing has answered yet"
        return _Say("SignalsFresh", "False", because(StatusReason.NO_SERVER_READ, problems=told))
    limit_s = max(map(fresh_for_s, readings))
    figures = {"fresh": fresh, "servers": len(readings) + len(silent), "limit_s": limit_s}
    if fresh == figures["servers"]:
        also = "".join(f"; {text}" for text in _own_errors(found))
        return _Say("SignalsFresh", "True", because(StatusReason.SERVERS_FRESH, **figures, also=also))
    return _Say("SignalsFresh", "False", because(StatusReason.SERVERS_UNREAD, **figures, problems=_listed(problems)))


def _own_errors(found: Findings) -> Iterable[str]:
    """What our own requests met is no server's news, and worth a word only where it was bad."""
    own = [each for each in found.signals.readings if not is_server(each) and is_fresh(each, found.now_s)]
    return [f"{each.server}: {each.errors:.0f} of {each.requests:.0f} met 429 or 5xx" for each in own if each.errors]


def _left_out(found: Findings) -> tuple[_Say, ...]:
    """Only while it is true: trouble that joins have no part in stays trouble, and somebody's."""
    reasons = found.verdict.left_out if found.verdict else ()
    if not reasons:
        return ()
    why = because(StatusReason.NOT_OURS, sentences="; ".join(each.sentence for each in reasons))
    return (_Say("ForeignTrouble", "True", why if len(reasons) > 1 else reasons[0]),)


def _levers(found: Findings, before: str) -> _Say:
    """A lever that is only pending changes nothing: every move of a ceiling is pending for a moment."""
    reports = found.levers
    if broken := [each for state in _BROKEN for each in reports if each.state is state]:
        sentences = _listed(f"{each.name} {each.state.value}: {each.because.sentence}" for each in broken)
        return _Say("LeversConfirmed", "False", because(StatusReason.LEVERS_BROKEN, sentences=sentences))
    pending = [each for each in reports if each.state is LeverState.PENDING]
    if pending and before != "True":
        why = because(StatusReason.LEVERS_PENDING, names=_listed(each.name for each in pending))
        return _Say("LeversConfirmed", "Unknown", why)
    reason = StatusReason.LEVERS_CONFIRMED if reports else StatusReason.NO_LEVERS
    return _Say("LeversConfirmed", "True", because(reason, levers=len(reports), also=_also(found)))


def _also(found: Findings) -> str:
    """Where the count of booting machines is a guess: it goes into ceilings."""
    said = ""
    if names := [each.rpartition("/")[2] for each in found.guessed_groups]:
        said += f"; no label tells whose nodes the groups {_listed(names)} make: machines that boot there count here"
    if found.left_out:
        said += f"; the lever leaves out NodePool {_listed(found.left_out)}, where growth is not paced"
    if found.is_autoscaler_silent:
        said += "; cluster-autoscaler is silent: machines that it asked for count until they are given up"
    if pods := found.joins.hopeless_pods:
        said += f"; {pods} pods fit nowhere and are not counted"
    if late := found.joins.late:
        said += f"; {late} machines are late and use no place in the window until they come"
    return said


def _status_before(stored: StoredThrottle, kind: str) -> str:
    return next((each.status for each in stored.status.conditions if each.type == kind), "")


def _listed(texts: Iterable[str]) -> str:
    return ", ".join(texts)


def _rfc3339(wall: datetime) -> str:
    return wall.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
