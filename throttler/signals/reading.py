"""The one value type that every source of signals feeds.

Absent, stale, empty and zero are four different things: an absent figure is None, a stale
reading has an old `ended_s`, an empty window has `requests == 0`, and zero is a measured zero. A server that exists and
did not answer is a `SilentServer`, never a missing entry.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What one API server went through during one complete window of counts. Every number is finite and >= 0."""

    server: str
    """Which server: its address, or its start time where one address hides several."""
    ended_s: float
    """Monotonic time at which the window's last sample was asked for."""
    span_s: float
    """Length of the window."""
    requests: float
    """Requests that ended in the window, false ones left out (`false_errors`)."""
    errors: float
    """429 in the priority levels that joins use, and 5xx of the requests that joins send: what may be their doing."""
    others_errors: float = 0.0
    """429 and 5xx that joins have no part in: other levels, other resources."""
    latency_s: float | None = None
    """Mean latency of the request classes that joins use, as their clients see it; None when none ended."""
    service_s: float | None = None
    """The same without queues and webhooks: what the server itself takes."""
    queue_wait_s: float | None = None
    """Mean wait in API Priority and Fairness queues, of the worst priority level that joins use."""
    seats_share: float | None = None
    """Executing seats over their limit, of the worst of those levels."""
    cpu_share: float | None = None
    """The server's own CPU over what its runtime may use (GOMAXPROCS)."""
    missing: tuple[str, ...] = ()
    """Families of metrics that this server does not export; normal, but worth saying."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SilentServer:
    """A server that exists and gives no usable reading: ill health, never "no load"."""

    server: str
    problem: str
    """In words: `no answer within 8 s`, `seen in the Leases and never scraped`."""
    since_s: float
    """Monotonic time since when."""
    was_seen: bool = True
    """False: it never answered, or is known by its identity Lease only. It may never show."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarm:
    """An extra PromQL signal with its threshold (CNI, registry, a cloud API's quota)."""

    name: str
    value: float
    threshold: float

    @property
    def is_on(self) -> bool:
        """Whether the threshold is reached."""
        return self.value >= self.threshold


@dataclass(frozen=True, slots=True, kw_only=True)
class Signals:
    """Everything known about the API servers at one moment: the newest complete window of each."""

    readings: tuple[Reading, ...] = ()
    silent: tuple[SilentServer, ...] = ()
    alarms: tuple[Alarm, ...] = ()
    problems: tuple[str, ...] = field(default=())
    """Sources that cannot be used, in words; they do not count as load."""
