"""A figure and how we come to know it: a preview is as good as what went into it, so it says where each came from."""

import enum
from dataclasses import dataclass, replace
from math import exp
from typing import Self


class Source(enum.Enum):
    """Where a figure comes from, the best first."""

    STATED = "stated"
    """The user said so, or an object of the cluster does."""
    LEARNED = "learned"
    """Measured in this cluster."""
    ASSUMED = "assumed"
    """Neither: a usual value."""


SPREAD = {Source.STATED: 0.0, Source.LEARNED: 0.05, Source.ASSUMED: 0.2}
"""Standard deviation of a figure's logarithm where nothing better is known (chosen): it becomes the plan's band."""


@dataclass(frozen=True, slots=True)
class Known:
    """A number with its origin. `spread` is the standard deviation of its logarithm; 0 is certain."""

    value: float
    source: Source
    detail: str = ""
    """In words: `24 nodes of the last 24 h`, `--boot`, `cluster-autoscaler scans every 10 s`."""
    spread: float = 0.0

    @classmethod
    def stated(cls, value: float, by: str) -> Self:
        """`by` names the option, the file or the object."""
        return cls(value, Source.STATED, by, SPREAD[Source.STATED])

    @classmethod
    def learned(cls, value: float, from_what: str, spread: float | None = None) -> Self:
        """Measured; `spread` is that of the mean, where it is known."""
        return cls(value, Source.LEARNED, from_what, SPREAD[Source.LEARNED] if spread is None else spread)

    @classmethod
    def assumed(cls, value: float, why: str, spread: float | None = None) -> Self:
        """A usual value; `why` names where it was seen."""
        return cls(value, Source.ASSUMED, why, SPREAD[Source.ASSUMED] if spread is None else spread)

    def at(self, deviations: float) -> float:
        """The value that many standard deviations off: what one of several possible worlds has."""
        return self.value * exp(self.spread * deviations)

    def but(self, value: float) -> Self:
        """Another value of the same origin."""
        return replace(self, value=value)
