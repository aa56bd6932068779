"""The Retry-After that a server sends with its 429s."""

from throttler.simulator.plant import SERVER, ServerRules


class RetryAfter:
    """Doubles once per its own length while rejections go on, halves once per its own length while they do not."""

    __slots__ = ("_had_rejection", "_rules", "_since_s", "value_s")

    def __init__(self, rules: ServerRules = SERVER) -> None:
        self.value_s = rules.retry_after_min_s
        self._rules = rules
        self._since_s = float("-inf")
        self._had_rejection = False

    def on_rejection(self, now_s: float) -> float:
        """What the client is told that is rejected now."""
        while now_s - self._since_s >= self.value_s:
            self._turn(now_s)
        self._had_rejection = True
        return self.value_s

    def _turn(self, now_s: float) -> None:
        if self._had_rejection:
            self._since_s += self.value_s
            self.value_s = min(2.0 * self.value_s, self._rules.retry_after_max_s)
        elif self.value_s > self._rules.retry_after_min_s:
            self._since_s += self.value_s
            self.value_s = max(0.5 * self.value_s, self._rules.retry_after_min_s)
        else:
            self._since_s = now_s
        self._had_rejection = False
