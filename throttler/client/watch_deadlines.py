"""When an open watch counts as caught up, and when as dead; `now` is monotonic seconds. Pure."""

import math

SILENCE_S = 70.0
"""Servers send a bookmark about once a minute; kopf's limit after years of deaf watches (1.44)."""
QUIET_S = 1.0
"""After a broken watch was resumed: no event for so long means that the missed ones are in."""
CATCH_UP_S = 5.0
"""The longest wait for that quiet, where events never stop."""


class WatchDeadlines:
    """What the reader of one watch waits for besides the next event."""

    def __init__(self, now: float, *, is_catching_up: bool) -> None:
        self._caught_up_by = now + CATCH_UP_S if is_catching_up else math.inf
        self.heard(now)

    def heard(self, now: float) -> None:
        """Whole events arrived; bytes that complete none do not count."""
        self._silent_at = now + SILENCE_S
        self._quiet_at = now + QUIET_S

    @property
    def next_at(self) -> float:
        """The first moment at which one of the questions below changes its answer."""
        return min(self._silent_at, self._caught_up_at)

    def is_silent(self, now: float) -> bool:
        """Whether the watch must be given up as dead."""
        return now >= self._silent_at

    def has_caught_up(self, now: float) -> bool:
        """True once: when the events missed while the watch was broken have been taken in."""
        if now < self._caught_up_at:
            return False
        self._caught_up_by = math.inf
        return True

    @property
    def _caught_up_at(self) -> float:
        return math.inf if math.isinf(self._caught_up_by) else min(self._caught_up_by, self._quiet_at)
