"""Kubernetes Events about pools: when a reason changes, and never a flood of them. Pure.

At most one per minute for each pool and reason, and `TOTAL_PER_MIN` over all pools. What an earlier process told is
known from the pool's stored status, so a restart repeats nothing.
"""

from collections.abc import Collection
from datetime import UTC, datetime
from typing import Any

from balloons.api.pool import API_VERSION, POOL_KIND, BalloonPool
from balloons.decide.because import Because
from balloons.decide.plan import PoolDecision
from balloons.service.standing import Standing, standing
from balloons.view.index import RefusedPool
from throttler.kube.metadata import ObjectKey

PERIOD_S = 60.0
TOTAL_PER_MIN = 30
NOTE_LIMIT = 1000
"""The API refuses notes from 1 kB on."""
REPORTER = "kube-balloons.github.io/balloons"


class Announcer:
    """Knows what was told last of each pool; `now_s` is monotonic."""

    def __init__(self, instance: str) -> None:
        self._instance = instance[:128]
        self._last: dict[ObjectKey, str] = {}
        self._told: dict[tuple[ObjectKey, str], float] = {}
        self._noted: dict[ObjectKey, frozenset[str]] = {}

    def due(
        self, stored: BalloonPool | RefusedPool, decision: PoolDecision, now_s: float, wall: datetime
    ) -> list[dict[str, Any]]:
        """The Events to write now; they count as told."""
        return [
            self._event(stored, why, now_s, wall)
            for why in self._news(stored, decision)
            if self._may_tell((decision.pool, why.code), now_s)
        ]

    def forget(self, known: Collection[ObjectKey], now_s: float) -> None:
        """Drop what is about pools that are gone, and what is too old to matter."""
        self._told = {key: at_s for key, at_s in self._told.items() if now_s - at_s < PERIOD_S}
        self._last = {key: code for key, code in self._last.items() if key in known}
        self._noted = {key: codes for key, codes in self._noted.items() if key in known}

    def _news(self, stored: BalloonPool | RefusedPool, decision: PoolDecision) -> list[Because]:
        key, why = decision.pool, decision.because
        is_new = self._last.get(key, stored.status.because) != why.code
        self._last[key] = why.code
        seen = self._noted.get(key, frozenset())
        self._noted[key] = frozenset(note.code for note in decision.notes)
        return ([why] if is_new else []) + [note for note in decision.notes if note.code not in seen]

    def _may_tell(self, what: tuple[ObjectKey, str], now_s: float) -> bool:
        recent = [at_s for at_s in self._told.values() if now_s - at_s < PERIOD_S]
        is_repeated = now_s - self._told.get(what, float("-inf")) < PERIOD_S
        if is_repeated or len(recent) >= TOTAL_PER_MIN:
            return False
        self._told[what] = now_s
        return True

    def _event(self, stored: BalloonPool | RefusedPool, why: Because, now_s: float, wall: datetime) -> dict[str, Any]:
        metadata = stored.metadata
        warns = standing(why.reason) is Standing.STUCK
        return {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"generateName": f"{metadata.name[:200].rstrip('-.')}-", "namespace": metadata.namespace},
            "eventTime": wall.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "reportingController": REPORTER,
            "reportingInstance": self._instance,
            "action": "Decide",
            "reason": why.code,
            "type": "Warning" if warns else "Normal",
            "note": why.sentence[:NOTE_LIMIT],
            "regarding": {
                "apiVersion": API_VERSION,
                "kind": POOL_KIND,
                "name": metadata.name,
                "namespace": metadata.namespace,
                "uid": metadata.uid,
                "resourceVersion": metadata.resource_version,
            },
        }
