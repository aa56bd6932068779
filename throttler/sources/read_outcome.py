"""How one read of a source ended: what is counted, and what is raised when nothing usable came."""

import enum
from collections.abc import Callable
from dataclasses import dataclass


class ReadOutcome(enum.StrEnum):
    """Values of the metric label."""

    GOOD = "good"
    TIMEOUT = "timeout"
    UNREACHABLE = "unreachable"
    FORBIDDEN = "forbidden"
    REFUSED = "refused"
    """Any other status than 200, redirects among them."""
    TOO_LARGE = "too_large"
    UNREADABLE = "unreadable"
    """A body that is not what it should be, or figures that cannot be true."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """One scrape of a server, or one round of queries to Prometheus. `size_bytes` as sent, before inflating."""

    source: str
    """`scrape` or `prometheus`."""
    server: str
    outcome: ReadOutcome
    seconds: float
    size_bytes: int


ReadObserver = Callable[[Read], None]


class ReadError(Exception):
    """Nothing usable came; the message is in our words and repeats nothing of the body."""

    def __init__(self, outcome: ReadOutcome, problem: str) -> None:
        super().__init__(problem)
        self.outcome = outcome
        self.problem = problem


def ignore_read(read: Read) -> None:
    """For callers who do not count."""
