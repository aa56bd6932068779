"""When the next decision is due: soon after a change, at the latest after the interval."""

import asyncio
from collections.abc import Callable

REST_SHARE = 3.0
"""A decision that took t is followed by a rest of at least 3 t: a quarter of one core, whatever the churn."""


class Wake:
    """Collects calls for a decision; the earliest counts, and later ones do not put it off."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._due_at: float | None = None
        self._poked = asyncio.Event()

    def poke(self, within_s: float | None) -> None:
        """Ask for a decision within this time; None asks for nothing."""
        if within_s is None:
            return
        due_at = self._clock() + within_s
        if self._due_at is None or due_at < self._due_at:
            self._due_at = due_at
            self._poked.set()

    async def sleep(self, not_before_at: float, latest_at: float) -> None:
        """Returns when a decision is due; what was asked for until then is answered by it."""
        while (now := self._clock()) < (until := self._until(not_before_at, latest_at)):
            self._poked.clear()
            try:
                async with asyncio.timeout(until - now):
                    await self._poked.wait()
            except TimeoutError:
                continue
        self._due_at = None

    def _until(self, not_before_at: float, latest_at: float) -> float:
        due_at = latest_at if self._due_at is None else min(self._due_at, latest_at)
        return max(due_at, not_before_at)
