"""Tells users about a throttle: its status through /status when it changes, and Events.

Figures move with every scrape in a ramp: they are written at most every `COUNTS_PERIOD_S`; a new reason or condition
goes out at once. A status that the cache does not show yet is not written again.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import msgspec
import structlog

from throttler.api.throttle import ThrottleStatus
from throttler.kube.because import EVENT_NAMESPACE
from throttler.kube.errors import ApiError
from throttler.kube.kube_client import KubeClient, decode
from throttler.kube.requests import Resource
from throttler.levers.lever import LeverState
from throttler.service.throttle_status import ThrottleAnnouncer, next_status, status_manifest
from throttler.service.throttle_watches import THROTTLES
from throttler.service.tick_view import Turn

FIELD_MANAGER = "kube-balloons"
EVENTS = Resource("events.k8s.io", "v1", "events", "Event")
COUNTS_PERIOD_S = 5.0
"""Between two writes of one status that differ in figures only: the servers are read that often. At 2 s this was the
service's most frequent request of all (a ramp of 60 nodes in 84 s: 61 of 195)."""
FAILED_REST_S = 10.0
"""After a write that failed."""

_SETTLED = {LeverState.PENDING.value: LeverState.CONFIRMED.value}
log = structlog.get_logger()


@dataclass(slots=True)
class _Told:
    """When the status was written last, as which version, and until when nothing is tried."""

    at_s: float = float("-inf")
    version: int = 0
    rest_until_s: float = 0.0


class _Meta(msgspec.Struct, rename="camel"):
    resource_version: str = ""


class _Answer(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)


class ThrottleReport:
    """Writes status and Events; failures are logged, and never stop the levers' own writes."""

    def __init__(self, client: KubeClient, announcer: ThrottleAnnouncer, clock: Callable[[], float]) -> None:
        self._client = client
        self._announcer = announcer
        self._clock = clock
        self._told: dict[str, _Told] = {}

    def due(self, turn: Turn, problem: str) -> ThrottleStatus | None:
        """The status to write now; None: the stored one says it already, or it was written a moment ago."""
        findings = turn.findings if turn.findings.problem else replace(turn.findings, problem=problem)
        status = next_status(turn.stored, findings, datetime.now(UTC))
        return status if status is not None and self._may_write(turn, status) else None

    async def report(self, turn: Turn, status: ThrottleStatus | None) -> None:
        """Write the status if there is one to write, and what there is to announce."""
        events = self._announcer.due(turn, turn.stored.status, self._clock(), datetime.now(UTC))
        if status is not None:
            await self._write_status(turn, status)
        for event in events:
            try:
                await self._client.create(EVENTS, event, EVENT_NAMESPACE)
            except ApiError as error:
                log.warning("event not written", throttle=turn.name, problem=error.message)

    def _may_write(self, turn: Turn, status: ThrottleStatus) -> bool:
        told, now_s = self._told.get(turn.name), self._clock()
        if told is None:
            return True
        version = turn.stored.metadata.resource_version
        is_seen = not version.isdecimal() or int(version) >= told.version
        is_soon = now_s - told.at_s < COUNTS_PERIOD_S and _meaning(turn.stored.status) == _meaning(status)
        return is_seen and not is_soon and now_s >= told.rest_until_s

    async def _write_status(self, turn: Turn, status: ThrottleStatus) -> None:
        told = self._told.setdefault(turn.name, _Told())
        told.at_s = self._clock()
        body = status_manifest(turn.stored, status)
        try:
            answer = await self._client.apply(
                THROTTLES, body, turn.name, field_manager=FIELD_MANAGER, force=True, subresource="status"
            )
        except ApiError as error:
            told.rest_until_s = self._clock() + max(FAILED_REST_S, error.retry_after_s or 0.0)
            log.warning("status not written", throttle=turn.name, problem=error.message)
            return
        version = decode(answer, _Answer).metadata.resource_version
        told.version = int(version) if version.isdecimal() else 0


def _meaning(status: ThrottleStatus) -> tuple[object, ...]:
    """What a reader would call news: the phase, the conditions, the levers' states, and which spec they are about.

    The law's reason is not among them: in a ramp it changes with every scrape. Nor is a lever that is pending for a
    moment after every move of its ceiling.
    """
    told = tuple((c.type, c.status, c.reason) for c in status.conditions if c.type != "Ready" or c.status != "True")
    levers = tuple((each.name, _SETTLED.get(each.state, each.state)) for each in status.levers)
    return status.phase, status.observed_generation, told, levers
