"""Whole joins out of a rate."""

from dataclasses import dataclass


@dataclass
class Drip:
    """Adds up what a rate allows; what is not used within `burst_s` seconds is gone."""

    burst_s: float = 10.0
    credit: float = 0.0
    last_s: float | None = None

    def due(self, per_s: float, now_s: float) -> int:
        """How many whole ones have become due since the call before; at most one burst."""
        passed_s = 0.0 if self.last_s is None else now_s - self.last_s
        self.last_s = now_s
        self.credit = min(self.credit + per_s * passed_s, max(1.0, per_s * self.burst_s))
        whole = int(self.credit)
        self.credit -= whole
        return whole
