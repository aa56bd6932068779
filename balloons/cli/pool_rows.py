"""Pools as rows of a table, and as machine-readable output. Pure."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from balloons.api.pool import GROUP, BalloonPool, PoolStatus
from balloons.cli.pause_reason import pause_reason
from balloons.cli.table import NONE
from balloons.view.snapshot import RefusedPool
from throttler.kube.metadata import Metadata

COLUMNS = ("NAME", "WARM", "WANT", "BUSY", "PENDING", "MAX", "MODE", "READY", "BECAUSE", "AGE")
WIDE = (*COLUMNS, "NODES", "IDLE", "SICK", "SCHEDULE", "MESSAGE")
FIRST_TO_GO = ("AGE", "MODE", "MAX", "PENDING", "BUSY", "READY")
"""Where there is no room: the reason stays to the last."""
API_VERSION = "balloons.kube-balloons.github.io/v1"

Pool = BalloonPool | RefusedPool


def row(pool: Pool, now: datetime, glyphs: Mapping[str, str]) -> dict[str, str]:
    """One pool's cells; `glyphs` are put before what Ready says."""
    status, spec = pool.status, pool.spec if isinstance(pool, BalloonPool) else None
    ready = ready_of(status)
    return {
        "NAMESPACE": pool.metadata.namespace,
        "NAME": pool.metadata.name,
        "WARM": str(status.warm),
        "WANT": str(status.target),
        "BUSY": str(status.busy),
        "PENDING": str(status.pending),
        "MAX": str(spec.max_size) if spec and spec.max_size is not None else NONE,
        "MODE": spec.mode.value if spec else NONE,
        "READY": f"{glyphs[ready]} {ready}" if ready in glyphs else ready,
        "BECAUSE": because_of(pool) or NONE,
        "AGE": age(pool.metadata, now),
        "NODES": str(status.nodes),
        "IDLE": str(status.idle),
        "SICK": str(status.sick),
        "SCHEDULE": status.active_schedule or NONE,
        "MESSAGE": _paused(pool) or status.message or (pool.problem if isinstance(pool, RefusedPool) else NONE),
    }


def _paused(pool: Pool) -> str | None:
    return pause_reason(pool.metadata, is_paused=isinstance(pool, BalloonPool) and pool.spec.paused)


def ready_of(status: PoolStatus) -> str:
    """What the Ready condition says; Unknown while nobody has written one."""
    return next((c.status for c in status.conditions if c.type == "Ready"), "Unknown")


def because_of(pool: Pool) -> str:
    """The reason last written; a pool that breaks a rule says so even before the service does."""
    return pool.status.because or ("Invalid" if isinstance(pool, RefusedPool) else "")


def age(metadata: Metadata, now: datetime) -> str:
    """Time since creation in kubectl's short form."""
    if metadata.creation_timestamp is None:
        return "<unknown>"
    total_s = max(0, int((now - metadata.creation_timestamp.astimezone(UTC)).total_seconds()))
    for below_s, (unit, unit_s), (small, small_s) in _AGES:
        if total_s < below_s:
            whole, rest = divmod(total_s, unit_s)
            return f"{whole}{unit}{rest // small_s}{small}" if small and rest // small_s else f"{whole}{unit}"
    return f"{total_s // _YEAR_S}y"


_MINUTE_S, _HOUR_S, _DAY_S, _YEAR_S = 60, 3600, 86_400, 31_536_000
_AGES = (
    (2 * _MINUTE_S, ("s", 1), ("", 1)),
    (10 * _MINUTE_S, ("m", _MINUTE_S), ("s", 1)),
    (3 * _HOUR_S, ("m", _MINUTE_S), ("", 1)),
    (8 * _HOUR_S, ("h", _HOUR_S), ("m", _MINUTE_S)),
    (2 * _DAY_S, ("h", _HOUR_S), ("", 1)),
    (8 * _DAY_S, ("d", _DAY_S), ("h", _HOUR_S)),
    (2 * _YEAR_S, ("d", _DAY_S), ("", 1)),
    (8 * _YEAR_S, ("y", _YEAR_S), ("d", _DAY_S)),
)
"""Below which age which unit is shown, and which smaller one beside it: k8s.io/apimachinery HumanDuration."""


def names(pools: Sequence[Pool]) -> list[str]:
    """As `kubectl get -o name` prints them."""
    return [f"balloonpool.{GROUP}/{pool.metadata.name}" for pool in pools]


def document(pools: Sequence[Pool]) -> dict[str, Any]:
    """For machines: a list that is there even when it is empty."""
    return {"apiVersion": API_VERSION, "kind": "PoolStatusList", "items": [_item(pool) for pool in pools]}


def _item(pool: Pool) -> dict[str, Any]:
    created = pool.metadata.creation_timestamp
    spec = pool.spec if isinstance(pool, BalloonPool) else None
    return {
        "namespace": pool.metadata.namespace,
        "name": pool.metadata.name,
        "createdAt": created.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if created else None,
        "mode": spec.mode.value if spec else None,
        "maxSize": spec.max_size if spec else None,
        "ready": ready_of(pool.status),
        "problem": pool.problem if isinstance(pool, RefusedPool) else None,
        "pauseReason": _paused(pool),
        "status": msgspec.to_builtins(pool.status),
    }
