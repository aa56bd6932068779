"""How long joins and boots take: the mean of the latest ones, all by the monotonic clock."""

import statistics
from collections.abc import Iterable
from dataclasses import dataclass

ENOUGH = 3
"""Durations from which their spread is told."""
KEPT = 20
"""A scale-up's first joins are slow and few: twenty are enough for a mean and soon replaced."""


@dataclass(frozen=True, slots=True)
class Durations:
    """The latest durations in seconds, oldest first."""

    latest: tuple[float, ...] = ()

    def and_then(self, seconds: Iterable[float]) -> "Durations":
        """With these behind; the oldest ones are forgotten."""
        more = tuple(max(0.0, each) for each in seconds)
        return Durations((*self.latest, *more)[-KEPT:]) if more else self

    @property
    def spread_s(self) -> float:
        """Standard deviation; 0 while fewer than three are known: a spread that is believed lets more be asked for."""
        return statistics.pstdev(self.latest) if len(self.latest) >= ENOUGH else 0.0

    @property
    def mean_s(self) -> float | None:
        """None before the first."""
        return sum(self.latest) / len(self.latest) if self.latest else None
