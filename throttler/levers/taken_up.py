"""Whether an autoscaler has seen what was written: a ceiling that nobody reads paces nothing."""

from dataclasses import dataclass
from typing import Self

from throttler.kube.karpenter import NodePool

CONFIRM_WITHIN_S = 30.0
"""Both autoscalers take up a changed object within about a second (observed: Karpenter 1.15.0, CA 1.36.1)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Uptake:
    """Since when a written object has not been taken up; None while it has. Times are monotonic seconds."""

    waiting_since_s: float | None = None

    def looked(self, now_s: float, *, is_taken_up: bool) -> Self:
        """After a look at the object."""
        since = now_s if self.waiting_since_s is None else self.waiting_since_s
        return type(self)(waiting_since_s=None if is_taken_up else since)

    def waited_s(self, now_s: float) -> float:
        """For how long it has not been taken up."""
        return 0.0 if self.waiting_since_s is None else now_s - self.waiting_since_s

    def is_late(self, now_s: float) -> bool:
        """Whether it is to be reported as not confirmed."""
        return self.waited_s(now_s) >= CONFIRM_WITHIN_S


def is_pool_taken_up(pool: NodePool) -> bool:
    """Whether Karpenter has looked at this very generation: it puts it on each of its conditions."""
    conditions = pool.status.conditions or ()
    return bool(conditions) and all(c.observed_generation >= pool.metadata.generation for c in conditions)
