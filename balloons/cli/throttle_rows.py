"""Throttles as rows of a table, and as machine-readable output. Pure."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from balloons.cli.pause_reason import pause_reason
from balloons.cli.pool_rows import age
from balloons.cli.table import NONE
from throttler.api.throttle import GROUP, JoinThrottle, ThrottleStatus
from throttler.api.throttle_decode import RefusedThrottle, StoredThrottle

COLUMNS = ("NAME", "PACE", "WINDOW", "INFLIGHT", "WAITING", "PHASE", "READY", "BECAUSE", "AGE")
WIDE = (*COLUMNS, "ALLOWANCE", "INDEX", "LEARNED", "SERVERS", "LEVERS", "MESSAGE")
FIRST_TO_GO = ("AGE", "PHASE", "PACE", "READY")
"""Where there is no room: the reason stays to the last."""


def row(throttle: StoredThrottle, now: datetime, glyphs: Mapping[str, str]) -> dict[str, str]:
    """One throttle's cells; `glyphs` are put before what Ready says. Counts are nodes, PACE is joins per minute."""
    status, ready = throttle.status, ready_of(throttle.status)
    return {
        "NAME": throttle.metadata.name,
        "PACE": str(status.pace_per_minute),
        "WINDOW": str(status.window),
        "INFLIGHT": str(status.in_flight),
        "WAITING": str(status.waiting),
        "PHASE": _phase(throttle) or NONE,
        "READY": f"{glyphs[ready]} {ready}" if ready in glyphs else ready,
        "BECAUSE": status.because or _phase(throttle) or NONE,
        "AGE": age(throttle.metadata, now),
        "ALLOWANCE": str(status.allowance),
        "INDEX": status.index or NONE,
        "LEARNED": str(status.learned.window) if status.learned.window else NONE,
        "SERVERS": _share(sum(each.state == "Fresh" for each in status.servers), len(status.servers)),
        "LEVERS": " ".join(f"{each.name}={each.state}" for each in status.levers) or NONE,
        "MESSAGE": _message(throttle) or NONE,
    }


def _message(throttle: StoredThrottle) -> str:
    problem = throttle.problem if isinstance(throttle, RefusedThrottle) else ""
    return _paused(throttle) or throttle.status.message or problem


def _paused(throttle: StoredThrottle) -> str | None:
    return pause_reason(throttle.metadata, is_paused=isinstance(throttle, JoinThrottle) and throttle.spec.paused)


def ready_of(status: ThrottleStatus) -> str:
    """What the Ready condition says; Unknown while nobody has written one."""
    return next((each.status for each in status.conditions if each.type == "Ready"), "Unknown")


def names(throttles: Sequence[StoredThrottle]) -> list[str]:
    """As `kubectl get -o name` prints them."""
    return [f"jointhrottle.{GROUP}/{throttle.metadata.name}" for throttle in throttles]


def item(throttle: StoredThrottle) -> dict[str, Any]:
    """For machines."""
    created = throttle.metadata.creation_timestamp
    return {
        "name": throttle.metadata.name,
        "createdAt": created.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if created else None,
        "ready": ready_of(throttle.status),
        "problem": throttle.problem if isinstance(throttle, RefusedThrottle) else None,
        "pauseReason": _paused(throttle),
        "status": msgspec.to_builtins(throttle.status),
    }


def _phase(throttle: StoredThrottle) -> str:
    """A throttle that breaks a rule says so even before the service does."""
    return throttle.status.phase or ("Invalid" if isinstance(throttle, RefusedThrottle) else "")


def _share(part: int, whole: int) -> str:
    return f"{part}/{whole}" if whole else NONE
