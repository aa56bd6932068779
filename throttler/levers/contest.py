"""How often a ceiling may be written: raised, and when somebody else writes it too. Times are monotonic seconds."""

from dataclasses import dataclass, replace
from typing import Self

CONTESTED_WRITE_EVERY_S = 30.0
"""A field that somebody else writes is written at most this often."""
CONTESTED_FOR_S = 3 * CONTESTED_WRITE_EVERY_S
"""So long without a change by others after our write, and the field counts as ours alone again."""

RAISE_EVERY_S = 1.9
"""More room is given at every other tick of a ramp (they come once a second): each write is a request, and a third of
them met a Conflict, because Karpenter updates a busy NodePool's status several times a second (observed, 1.15.0, 150
nodes)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contest:
    """What is remembered of one object; losing it costs one early write."""

    foreign_s: float | None = None
    """When a value of somebody else was last found where ours had been."""
    written_s: float | None = None
    """When we last wrote."""

    def heard(self, now_s: float, *, is_foreign: bool) -> Self:
        """After a look at the object."""
        return replace(self, foreign_s=now_s) if is_foreign else self

    def wrote(self, now_s: float) -> Self:
        """After a write was planned."""
        return replace(self, written_s=now_s)

    def may_raise(self, now_s: float) -> bool:
        """Whether the last write, be it one that met a conflict, was long enough ago to give more room."""
        return self.written_s is None or now_s - self.written_s >= RAISE_EVERY_S

    def is_contested(self, now_s: float) -> bool:
        """Whether somebody else wrote it of late."""
        return self.foreign_s is not None and now_s - self.foreign_s < CONTESTED_FOR_S

    def may_write(self, now_s: float) -> bool:
        """Whether another write would be no fight."""
        is_recent = self.written_s is not None and now_s - self.written_s < CONTESTED_WRITE_EVERY_S
        return not (self.is_contested(now_s) and is_recent)
