"""One attempt at one call, as it went over the wire: what metrics and the throttle's own signal count."""

from collections.abc import Callable
from dataclasses import dataclass

TIMEOUT = "timeout"
ERROR = "error"
CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Attempt:
    """What happened to one request, seen below the retry layer.

    `verb` is the Kubernetes verb (get, list, watch, create, apply, patch, delete); `resource` the plural
    with its subresource (`pods`, `deployments/scale`); `code` the HTTP status as text, or `timeout` (no
    answer in time), `error` (no answer at all), `cancelled` (we gave up: says nothing about the server).
    `seconds` runs from sending to the last byte (for a watch: to the response headers) and leaves out the
    wait in our own gate. `size_bytes` is the answer's body after decompression.
    """

    verb: str
    resource: str
    code: str
    seconds: float
    size_bytes: int


AttemptObserver = Callable[[Attempt], None]


def ignore_attempt(attempt: Attempt) -> None:
    """For callers who do not count."""
