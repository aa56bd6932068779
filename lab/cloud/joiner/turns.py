"""The rate limit that a kubelet's client puts on itself: a token bucket."""

from __future__ import annotations


class Turns:
    """`burst` requests at once, `qps` per second in the long run; who comes later waits its turn."""

    def __init__(self, qps: float, burst: int, now: float) -> None:
        self._interval_s = 1.0 / qps
        self._credit_s = burst * self._interval_s
        self._free_at = now - self._credit_s

    def take(self, now: float) -> float:
        """Take the next turn and return in how many seconds it comes."""
        self._free_at = max(self._free_at, now - self._credit_s) + self._interval_s
        return max(0.0, self._free_at - now)
