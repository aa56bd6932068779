"""A throttle's status from one tick's findings, as it is written. Pure."""

import math
from collections.abc import Iterator
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
from throttler.api.throttle_decode import RefusedThrottle, StoredThrottle
from throttler.law.verdict import Phase, Verdict
from throttler.levers.lever import LeverReport
from throttler.service.conditions import MESSAGE_LIMIT, conditions, main_reason
from throttler.service.findings import Findings
from throttler.service.learned_status import learned_status_of
from throttler.signals.servers import is_fresh, is_server

__all__ = ["Findings", "next_status", "status_manifest"]

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


def next_status(stored: StoredThrottle, found: Findings, wall: datetime) -> ThrottleStatus | None:
    """What to write, or None when the stored status says the same already."""
    main = main_reason(stored, found)
    wanted = msgspec.structs.replace(
        _figures(stored, found, wall),
        observed_generation=stored.metadata.generation,
        phase=_phase(stored, found),
        because=main.code,
        message=main.sentence[:MESSAGE_LIMIT],
        conditions=conditions(stored, found, wall),
    )
    return None if wanted == stored.status else wanted


def status_manifest(stored: StoredThrottle, status: ThrottleStatus) -> dict[str, Any]:
    """The body for server-side apply on /status; the uid makes sure that it is still the same throttle."""
    metadata = stored.metadata
    return {
        "apiVersion": API_VERSION,
        "kind": THROTTLE_KIND,
        "metadata": {"name": metadata.name, "uid": metadata.uid},
        "status": msgspec.to_builtins(status),
    }


def _figures(stored: StoredThrottle, found: Findings, wall: datetime) -> ThrottleStatus:
    """Servers and levers as seen now; counts too, unless nothing was decided: then nothing has been counted."""
    seen = msgspec.structs.replace(
        stored.status,
        servers=tuple(_servers(found))[:SERVER_LIMIT],
        levers=tuple(_levers(found))[:LEVER_LIMIT],
    )
    if isinstance(stored, RefusedThrottle) or found.verdict is None:
        return seen
    return _counts(seen, found, found.verdict, wall)


def _counts(seen: ThrottleStatus, found: Findings, verdict: Verdict, wall: datetime) -> ThrottleStatus:
    joins = found.joins
    return msgspec.structs.replace(
        seen,
        window=_count(verdict.window),
        pace_per_minute=_count(verdict.pace_per_min),
        in_flight=_count(joins.in_flight),
        booting=_count(joins.booting),
        held=_count(joins.held),
        joining=_count(joins.joining),
        waiting=_count(joins.waiting),
        allowance=_count(verdict.allowance),
        index=_index(verdict),
        learned=learned_status_of(found.learned, seen.learned, wall),
    )


def _phase(stored: StoredThrottle, found: Findings) -> str:
    if isinstance(stored, RefusedThrottle):
        return "Invalid"
    if stored.spec.paused:
        return "Paused"
    return found.verdict.phase.value if found.verdict else stored.status.phase


def _servers(found: Findings) -> Iterator[ServerStatus]:
    """One entry per name, by name: the list is a map in the API, and a doubled key would cost the whole status."""
    states: dict[str, ServerStatus] = {}
    for reading in filter(is_server, found.signals.readings):
        state = "Fresh" if is_fresh(reading, found.now_s) else "Stale"
        missing = f"does not export {', '.join(reading.missing)}" if reading.missing else ""
        name = reading.server[:NAME_LIMIT]
        states[name] = ServerStatus(name, state, missing[:MESSAGE_LIMIT])
    for silent in found.signals.silent:
        name = silent.server[:NAME_LIMIT]
        states[name] = ServerStatus(name, "Silent", silent.problem[:MESSAGE_LIMIT])
    return (states[name] for name in sorted(states))


def _levers(found: Findings) -> Iterator[LeverStatus]:
    by_name = {report.name[:LEVER_NAME_LIMIT]: report for report in found.levers}
    return (_lever(name, by_name[name]) for name in sorted(by_name))


def _lever(name: str, report: LeverReport) -> LeverStatus:
    return LeverStatus(
        name=name,
        state=report.state.value,
        because=report.because.code,
        ceiling=report.ceiling[:VALUE_LIMIT],
        original=report.original[:VALUE_LIMIT],
        message=report.because.sentence[:MESSAGE_LIMIT],
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
