"""Which joins are under way, in cohorts that were let in together and end together."""

from collections import deque

import numpy as np
from numpy.typing import NDArray

from throttler.simulator.plant import JOIN

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]

_LATEST = 20
"""Joins whose mean duration a controller sees."""


class Cohorts:
    """Sizes and clocks, by number of the cohort."""

    def __init__(self, largest: int) -> None:
        self._largest = largest
        self.joined = 0
        self.joining = 0
        self.usable_s: list[float] = []
        self._sizes: list[int] = []
        self._since_s: list[float] = []
        self._lanes_left: list[int] = []
        self._oldest = 0
        self._latest: deque[float] = deque(maxlen=_LATEST)
        self.sizes: Floats = np.empty(0)

    def start(self, joins: int, now_s: float) -> Ints:
        """Numbers of the new cohorts that so many joins make."""
        first = len(self._sizes)
        whole, rest = divmod(joins, self._largest)
        new = [self._largest] * whole + [rest] * (rest > 0)
        self._sizes += new
        self._since_s += [now_s] * len(new)
        self._lanes_left += [len(JOIN.lanes)] * len(new)
        self.sizes = np.array(self._sizes, dtype=float)
        self.joining += joins
        return np.arange(first, first + len(new))

    def end(self, cohorts: Ints, ends_s: Floats) -> None:
        """Lanes have ended; a join is over with its last."""
        for cohort, end_s in sorted(zip(cohorts.tolist(), ends_s.tolist(), strict=True), key=lambda pair: pair[1]):
            self._lanes_left[cohort] -= 1
            if not self._lanes_left[cohort]:
                self._end_join(cohort, end_s)

    @property
    def join_s(self) -> float | None:
        """Mean duration of the latest joins; None before the first."""
        return sum(self._latest) / len(self._latest) if self._latest else None

    def oldest_s(self, now_s: float) -> float:
        """Age of the join that has been under way for longest; 0 when there is none."""
        while self._oldest < len(self._sizes) and not self._lanes_left[self._oldest]:
            self._oldest += 1
        return now_s - self._since_s[self._oldest] if self._oldest < len(self._sizes) else 0.0

    def _end_join(self, cohort: int, end_s: float) -> None:
        size = self._sizes[cohort]
        self.joining -= size
        self.joined += size
        self.usable_s += [end_s] * size
        self._latest.append(end_s - self._since_s[cohort])
