"""When the autoscaler looks at pods that wait for nodes.

Both look every so often, 10 s by default. Karpenter counts them from when it last heard of the pods, and it hears of
all of them whenever the scheduler has tried them anew and tells other numbers: when a node registers, and when one gets
Ready. It then waits until it has heard of no other pod for a second (BATCH_IDLE_DURATION); who is heard of again does
not make it wait longer. Observed on 1.15: while a batch comes it looks 1.0 to 1.2 s after it first heard of the pods,
and again as soon as it has heard of them anew; its log tells only of looks that order something.
"""

from dataclasses import dataclass
from math import inf

IDLE_S = 1.0
"""Karpenter's default."""


@dataclass(slots=True)
class Looks:
    """`every_s` apart where nothing happens; those of an autoscaler that is not `is_prompted` hear of nothing."""

    every_s: float
    is_prompted: bool
    _first_s: float = inf
    """When it first heard of the pods since its last look; `inf` while it has not."""
    _heard_s: float = -inf
    """When it last heard of them."""

    @property
    def _idle_s(self) -> float:
        return IDLE_S if self.is_prompted else 0.0

    def expect(self, now_s: float) -> None:
        """There is new demand, and the autoscaler looks now: its reaction has been counted."""
        self._first_s = self._heard_s = now_s - self._idle_s

    def prompt(self, now_s: float) -> None:
        """A node has come or is Ready, so that pods that wait are tried anew."""
        if self.is_prompted:
            self._hear(now_s)

    def is_due(self, now_s: float) -> bool:
        """Whether it looks now; asked at least once a second, with pods waiting."""
        again_s = self._heard_s + self.every_s
        if now_s >= again_s:
            self._hear(again_s)
        if now_s < self._first_s + self._idle_s:
            return False
        self._first_s = inf
        return True

    def _hear(self, at_s: float) -> None:
        self._first_s = min(self._first_s, at_s)
        self._heard_s = max(self._heard_s, at_s)
