"""Kubernetes Events about pools: when a reason changes, and never a flood of them. Pure.

How often is limited by `throttler.kube.because`. What an earlier process told is known from the pool's stored status,
so a restart repeats nothing.
"""

from collections.abc import Collection
from datetime import datetime
from typing import Any

from balloons.api.pool import API_VERSION, POOL_KIND, BalloonPool
from balloons.decide.plan import Because, PoolDecision
from balloons.service.standing import TURNED_AWAY, Standing, standing
from balloons.view.snapshot import RefusedPool
from throttler.kube.because import EventAuthor, EventLimit
from throttler.kube.metadata import ObjectKey

REPORTER = "kube-balloons.github.io/balloons"


class Announcer:
    """Knows what was told last of each pool; `now_s` is monotonic."""

    def __init__(self, instance: str) -> None:
        self._author = EventAuthor(
            reporter=REPORTER, instance=instance, action="Decide", api_version=API_VERSION, kind=POOL_KIND
        )
        self._limit = EventLimit()
        self._last: dict[ObjectKey, str] = {}
        self._noted: dict[ObjectKey, frozenset[str]] = {}

    def due(
        self, stored: BalloonPool | RefusedPool, decision: PoolDecision, now_s: float, wall: datetime
    ) -> list[dict[str, Any]]:
        """The Events to write now; they count as told."""
        return [
            self._author.event(stored.metadata, why, wall, is_warning=standing(why.reason) is Standing.STUCK)
            for why in self._news(stored, decision)
            if self._limit.may_tell((decision.pool, why.code), now_s)
        ]

    def forget(self, known: Collection[ObjectKey]) -> None:
        """Drop what is about pools that are gone."""
        self._last = {key: code for key, code in self._last.items() if key in known}
        self._noted = {key: codes for key, codes in self._noted.items() if key in known}

    def _news(self, stored: BalloonPool | RefusedPool, decision: PoolDecision) -> list[Because]:
        key, why = decision.pool, decision.because
        if why.reason in TURNED_AWAY:
            return []
        is_new = self._last.get(key, stored.status.because) != why.code
        self._last[key] = why.code
        seen = self._noted.get(key, frozenset())
        self._noted[key] = frozenset(note.code for note in decision.notes)
        return ([why] if is_new else []) + [note for note in decision.notes if note.code not in seen]
