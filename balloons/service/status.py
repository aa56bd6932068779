"""A pool's status from its decision, as it is written. Pure.

Conditions mean what kstatus makes of them, so that `kubectl wait`, Argo CD and Flux understand a pool: Ready always,
Reconciling and Stalled only while they are true. lastTransitionTime moves only when a condition's status does.
"""

from datetime import UTC, datetime
from typing import Any

import msgspec

from balloons.api.pool import API_VERSION, POOL_KIND, BalloonPool, PoolStatus
from balloons.decide.plan import Because, PoolDecision, Reason
from balloons.service.standing import TURNED_AWAY, Standing, standing
from balloons.view.snapshot import RefusedPool
from throttler.kube.metadata import Condition

WRITE_FAILED = "WriteFailed"
"""Condition reason when the API server refuses, or does not answer, what was decided."""
MESSAGE_LIMIT = 1024
ZONE_LIMIT = 64
"""Both as in the CRD: one field too long would cost the whole status."""

StoredPool = BalloonPool | RefusedPool


def next_status(stored: StoredPool, decision: PoolDecision, problem: str, wall: datetime) -> PoolStatus | None:
    """What to write, or None when the stored status says the same already.

    `problem` is what went wrong when this decision or the last was written, empty if nothing did.
    """
    wanted = msgspec.structs.replace(
        _counts(stored, decision),
        observed_generation=stored.metadata.generation,
        because=decision.because.code,
        message=decision.because.sentence[:MESSAGE_LIMIT],
        conditions=_conditions(stored, decision, problem, wall),
    )
    if decision.because.reason in TURNED_AWAY and _tells_the_same(stored.status, wanted):
        return None
    return None if wanted == stored.status else wanted


def _tells_the_same(stored: PoolStatus, wanted: PoolStatus) -> bool:
    """Whether a pool that is not served has been told so: editing it on and on must not make us write on and on."""
    return (stored.because, stored.message) == (wanted.because, wanted.message)


def status_manifest(stored: StoredPool, status: PoolStatus) -> dict[str, Any]:
    """The body for server-side apply on /status; the uid makes sure that it is still the same pool."""
    metadata = stored.metadata
    return {
        "apiVersion": API_VERSION,
        "kind": POOL_KIND,
        "metadata": {"name": metadata.name, "namespace": metadata.namespace, "uid": metadata.uid},
        "status": msgspec.to_builtins(status),
    }


def _counts(stored: StoredPool, decision: PoolDecision) -> PoolStatus:
    """A pool that cannot be read keeps the figures it had: nothing of it has been counted."""
    if decision.because.reason is Reason.INVALID:
        return stored.status
    return msgspec.structs.replace(decision.status, zones=decision.status.zones[:ZONE_LIMIT])


def _conditions(stored: StoredPool, decision: PoolDecision, problem: str, wall: datetime) -> tuple[Condition, ...]:
    state = standing(decision.because.reason)
    why, text = decision.because.code, _text(decision.because, decision.notes)
    if problem:
        state, why, text = Standing.STUCK, WRITE_FAILED, problem
    ready = {Standing.SETTLED: "True", Standing.BLIND: "Unknown"}.get(state, "False")
    found = [("Ready", ready)]
    found += [("Reconciling", "True")] if state in (Standing.MOVING, Standing.BLIND) else []
    found += [("Stalled", "True")] if state is Standing.STUCK else []
    since = {(c.type, c.status): c.last_transition_time for c in stored.status.conditions}
    return tuple(
        Condition(
            type=kind,
            status=value,
            reason=why,
            message=text[:MESSAGE_LIMIT],
            last_transition_time=since.get((kind, value)) or _rfc3339(wall),
            observed_generation=stored.metadata.generation,
        )
        for kind, value in found
    )


def _text(main: Because, notes: tuple[Because, ...]) -> str:
    return "; ".join(each.sentence for each in (main, *notes))


def _rfc3339(wall: datetime) -> str:
    return wall.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
