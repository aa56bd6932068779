"""Percentiles by nearest rank: always a value that was measured."""

import math
from collections.abc import Iterable


def percentile(values: Iterable[float], share: float) -> float:
    """The smallest value that at least this share of all values does not exceed; ValueError when there are none."""
    ordered = sorted(values)
    if not ordered:
        raise ValueError("no values")
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]
