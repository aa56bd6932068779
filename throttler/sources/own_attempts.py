"""What our own requests meet: the third source, there even when nothing may be scraped.

It is coarse (a few requests per second, through one server at a time, the network included) and always on: its errors
count, its latency is worth something where there is no other.
"""

from dataclasses import dataclass

from throttler.kube.caller import CANCELLED, ERROR, TIMEOUT, Attempt
from throttler.signals.reading import Reading
from throttler.signals.servers import OWN_REQUESTS

_SINGLE_OBJECT = frozenset({"get", "create", "apply", "patch", "update", "delete"})


@dataclass(slots=True)
class _Counts:
    requests: int = 0
    errors: int = 0
    timed: int = 0
    seconds: float = 0.0


class OwnAttempts:
    """Counts attempts into windows of at least `window_s`; `observe` is an AttemptObserver for any client."""

    def __init__(self, window_s: float = 5.0) -> None:
        self._window_s = window_s
        self._since_s: float | None = None
        self._counts = _Counts()
        self._last: Reading | None = None

    def observe(self, attempt: Attempt) -> None:
        """One attempt has ended; one that we gave up says nothing about the server."""
        if attempt.code == CANCELLED:
            return
        counts = self._counts
        counts.requests += 1
        counts.errors += _is_error(attempt)
        if attempt.verb in _SINGLE_OBJECT and attempt.code != ERROR:
            counts.timed += 1
            counts.seconds += attempt.seconds

    def reading(self, now_s: float) -> Reading | None:
        """The newest complete window, closing the open one when it is long enough; None before the first."""
        since_s = now_s if self._since_s is None else self._since_s
        if self._since_s is None or now_s - since_s >= self._window_s:
            if now_s > since_s:
                self._last = _reading(self._counts, since_s, now_s)
            self._counts, self._since_s = _Counts(), now_s
        return self._last


def _reading(counts: _Counts, since_s: float, now_s: float) -> Reading:
    return Reading(
        server=OWN_REQUESTS,
        ended_s=now_s,
        span_s=now_s - since_s,
        requests=float(counts.requests),
        errors=float(counts.errors),
        latency_s=counts.seconds / counts.timed if counts.timed else None,
    )


def _is_error(attempt: Attempt) -> bool:
    """429 and 5xx, and no answer at all; an eviction's 429 is a disruption budget speaking."""
    if attempt.code in {TIMEOUT, ERROR}:
        return True
    is_refusal = attempt.code == "429" and not attempt.resource.endswith("/eviction")
    return is_refusal or attempt.code.startswith("5")
