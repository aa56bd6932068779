"""How long a broken watch waits before it tries again: doubling steps, each drawn at random."""

from random import Random

SHORTEST_S = 0.8
LONGEST_S = 30.0
"""0.8 to 30 s are the bounds of client-go's reflector (tools/cache, backoffManager)."""


class Backoff:
    """Waits drawn evenly from [0.8 s, a bound that doubles from 1.6 s to 30 s]: no herd after an outage."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._failures = 0

    def next_s(self, at_least_s: float | None = None) -> float:
        """The next wait; a server's Retry-After (`at_least_s`) is a minimum."""
        self._failures = min(self._failures + 1, 10)
        bound_s = min(LONGEST_S, SHORTEST_S * 2**self._failures)
        return max(self._random.uniform(SHORTEST_S, bound_s), at_least_s or 0.0)

    def reset(self) -> None:
        """Start small again: something worked."""
        self._failures = 0
