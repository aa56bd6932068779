"""Leave to ask for machines that nobody has used yet.

The law gives leave step by step, and takes each step for asked for. A ceiling that was raised is used seconds later,
when the autoscaler looks again: until then the leave stands, counts as in flight for the law, and keeps the ceiling up.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from throttler.joins.joins import Joins

KEPT_S = 30.0
"""Both autoscalers look at least every ten seconds. Leave that is not used by then goes back to the law."""
DELAY_KEPT = 0.75
"""Share of the longest wait that is kept when orders come sooner."""


@dataclass(frozen=True, slots=True)
class Grants:
    """`steps` are (when, machines), oldest first, in monotonic seconds; `ordered` is the count of orders so far."""

    steps: tuple[tuple[float, int], ...] = ()
    ordered: int = 0
    delay_s: float = 0.0
    """How long leave waits for the autoscaler's next look: the longest lately. What is given meanwhile is used together
    at that look. 0 while unknown."""

    @property
    def left(self) -> int:
        """Machines that may still be ordered by leave given before."""
        return sum(count for _, count in self.steps)

    def looked(self, ordered: int, waiting: int, now_s: float) -> "Grants":
        """After a count: orders use up the oldest leave, old leave ends, and none is left for what waits no more."""
        used = max(0, ordered - self.ordered)
        fresh = [(at_s, count) for at_s, count in _without(self.steps, used) if now_s - at_s < KEPT_S]
        surplus = max(0, sum(count for _, count in fresh) - waiting)
        return Grants(tuple(_without(fresh, surplus)), ordered, self._delayed(used, now_s))

    def _delayed(self, used: int, now_s: float) -> float:
        if not used or not self.steps:
            return self.delay_s
        return max(now_s - self.steps[0][0], DELAY_KEPT * self.delay_s)

    def and_also(self, count: int, now_s: float) -> "Grants":
        """With leave for so many more."""
        return replace(self, steps=(*self.steps, (now_s, count))) if count > 0 else self


def as_asked(joins: Joins, grants: Grants) -> Joins:
    """The joins as the law takes them: machines that may be ordered by leave given before are asked for."""
    moved = min(grants.left, joins.waiting)
    return replace(
        joins, waiting=joins.waiting - moved, booting=joins.booting + moved, granted=moved, order_s=grants.delay_s
    )


def _without(steps: Iterable[tuple[float, int]], used: int) -> Iterator[tuple[float, int]]:
    for at_s, count in steps:
        taken = min(used, count)
        used -= taken
        if count > taken:
            yield at_s, count - taken
