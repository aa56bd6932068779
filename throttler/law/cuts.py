"""Cuts of the window that do not help: where fewer joins leave the delay as it was, it is not of joins."""

from dataclasses import dataclass, replace

ENOUGH = 2
"""Cuts that must have had their time to show ..."""
FEWER = 0.85
"""... and joins in flight must have come down to this share: where servers queue, delay would have come down as far."""
HELPED = 0.95
"""Below this share of what it was delay has come down."""
MOVED = (0.75, 1.25)
"""Outside of these shares delay has moved by more than the cuts can tell: they count anew."""
BELIEVED_S = 300.0
"""After so long the window is cut on trial again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cuts:
    """The cuts in a row, and what was before the first."""

    count: int
    joining: int
    """Joins in flight."""
    delay_s: float
    """Delay of the worst server."""
    window: float
    useless_since_s: float | None = None
    """Since when they are known not to have helped; None while that is open."""

    def is_useless(self, delay_s: float | None, now_s: float) -> bool:
        """Whether the delay of now is one that cuts do not change."""
        if delay_s is None or self.useless_since_s is None or self.has_moved(delay_s):
            return False
        return now_s - self.useless_since_s <= BELIEVED_S

    def has_moved(self, delay_s: float) -> bool:
        """Whether delay is another one than at the first cut."""
        least, most = MOVED
        return not least * self.delay_s <= delay_s <= most * self.delay_s

    def judged(self, joining: int, delay_s: float, now_s: float, *, is_least: bool) -> "Cuts | None":
        """The latest cut has had its time; None: they helped. `is_least`: the window cannot get any smaller."""
        has_fewer = joining <= FEWER * self.joining or is_least
        if self.count < ENOUGH or not has_fewer:
            return self
        return replace(self, useless_since_s=now_s) if delay_s >= HELPED * self.delay_s else None
