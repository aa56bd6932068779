"""Amounts that come due later: a ring of steps."""

from collections.abc import Iterable

LONGEST_S = 64.0
"""What comes due later than this counts as this: above the longest Retry-After and the longest wait together."""


class Ring:
    """Adds up rows of `width` numbers by the step in which they come due."""

    __slots__ = ("_at", "_rows", "_step_s", "_width")

    def __init__(self, width: int, step_s: float) -> None:
        self._width = width
        self._step_s = step_s
        self._rows: list[list[float]] = []
        self._at = 0
        self.clear()

    def put(self, amounts: Iterable[float], delay_s: float) -> None:
        """Add to what is due after this delay; 0 is the current step."""
        ahead = min(int(delay_s / self._step_s), len(self._rows) - 1)
        row = self._rows[(self._at + ahead) % len(self._rows)]
        for index, amount in enumerate(amounts):
            row[index] += amount

    def take(self) -> list[float]:
        """What is due in this step; the next one becomes the current."""
        due = self._rows[self._at]
        self._rows[self._at] = [0.0] * self._width
        self._at = (self._at + 1) % len(self._rows)
        return due

    def clear(self) -> None:
        """Forget all that was to come."""
        self._rows = [[0.0] * self._width for _ in range(int(LONGEST_S / self._step_s) + 2)]
