"""Kubernetes Events about throttles: when the phase changes, and when something is wrong. Pure.

How often is limited by `throttler.kube.because`. What an earlier process told is known from the stored status, so a
restart repeats nothing.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from throttler.api.throttle import API_VERSION, THROTTLE_KIND, ThrottleStatus
from throttler.kube.because import Because, EventAuthor, EventLimit
from throttler.law.verdict import ThrottleReason
from throttler.levers.lever import LeverState
from throttler.service.tick_view import Turn

REPORTER = "kube-balloons.github.io/throttler"
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
_BROKEN = (LeverState.UNCONFIRMED, LeverState.CONTESTED, LeverState.LOST, LeverState.REFUSED)


class ThrottleAnnouncer:
    """Knows what was told last of each throttle; `now_s` is monotonic."""

    def __init__(self, instance: str) -> None:
        self._author = EventAuthor(
            reporter=REPORTER, instance=instance, action="Pace", api_version=API_VERSION, kind=THROTTLE_KIND
        )
        self._limit = EventLimit()
        self._phase: dict[str, str] = {}
        self._levers: dict[str, frozenset[tuple[str, str]]] = {}

    def due(self, turn: Turn, before: ThrottleStatus, now_s: float, wall: datetime) -> list[dict[str, Any]]:
        """The Events to write now; they count as told. `before` is the status as stored."""
        news = list(self._news(turn, before))
        return [
            self._author.event(turn.stored.metadata, why, wall, is_warning=is_warning)
            for why, is_warning in news
            if self._limit.may_tell((turn.name, why.code), now_s)
        ]

    def _news(self, turn: Turn, before: ThrottleStatus) -> Iterator[tuple[Because, bool]]:
        verdict = turn.findings.verdict
        if verdict is not None:
            is_warning = verdict.because.reason in _WARNINGS
            if self._phase.get(turn.name, before.phase) != verdict.phase.value or is_warning:
                yield verdict.because, is_warning
            self._phase[turn.name] = verdict.phase.value
        known = self._levers.get(turn.name)
        if known is None:
            known = frozenset((lever.name, lever.state) for lever in before.levers)
        states = frozenset((report.name, report.state.value) for report in turn.findings.levers)
        for report in turn.findings.levers:
            if report.state in _BROKEN and (report.name, report.state.value) not in known:
                yield report.because, True
        self._levers[turn.name] = states
