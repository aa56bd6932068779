"""When a kubelet's client repeats a request by itself (client-go, rest/with_retry.go), and its backoffs."""

from __future__ import annotations

from collections.abc import Iterator

MAX_RETRIES = 10
"""client-go, rest.Request: maxRetries."""

BROKEN = 0
"""The status of an attempt that got no answer."""


def wait_before_retry_s(method: str, status: int, retry_after: str | None, attempt: int) -> float | None:
    """Return how long to wait before the next attempt, or None when this answer is final.

    An overloaded server's answer (429 or 5xx) is repeated only when it names its Retry-After in whole seconds;
    a broken connection only for a GET. `attempt` counts from 0.
    """
    if attempt >= MAX_RETRIES:
        return None
    if status == BROKEN:
        return 0.0 if method == "GET" else None
    if (status == 429 or status >= 500) and retry_after is not None and retry_after.isdigit():
        return float(retry_after)
    return None


def growing_waits_s(first_s: float, factor: float, longest_s: float) -> Iterator[float]:
    """Yield `first_s`, then each time `factor` times as much, never above `longest_s`; without end."""
    wait_s = first_s
    while True:
        yield min(wait_s, longest_s)
        wait_s = min(wait_s * factor, longest_s)
