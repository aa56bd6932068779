"""The one value type that every source of signals feeds, and how two samples of one server process become one.

Also how one read of a source ended: what is counted, and what is raised when nothing usable came.

Absent, stale, empty and zero are four different things: an absent figure is None, a stale reading has an old `ended_s`,
an empty window has `requests == 0`, and zero is a measured zero. A server that exists and did not answer is a
`SilentServer`, never a missing entry.
"""

import enum
from collections.abc import Callable
from dataclasses import dataclass, field

from throttler.signals.sample import Sample, Totals

INTERVAL_S = 5.0
"""Between two scrapes of one server, as in the runs on a real one; the law asks for a window every 5-10 s."""
PROMETHEUS_INTERVAL_S = 10.0
"""Between two questions to a Prometheus: it scrapes every 15 to 60 s itself, and asking more often brings nothing."""


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
    """Requests that ended in the window, false ones left out (see counted_requests.py)."""
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


SHORTEST_WINDOW_S = 0.5
LONGEST_WINDOW_S = 300.0
"""A window over more than this says nothing about now."""
MOST_PER_S = 1e6
"""Requests per second that no API server ends: what claims more is not a count."""
LONGEST_MEAN_S = 3600.0
MOST_CPU_SHARE = 4.0
"""The runtime's limit is a limit on Go code; system calls come on top, but not four times over."""
CLOCK_SKEW_S = 120.0
"""How far a server's clock may be off; a process that started later than this from now is no process."""


class Flaw(enum.Enum):
    """Why two samples make no window. `is_reset`: the newer one is sound and becomes the base of the next window."""

    RESTARTED = "the process started again"
    WENT_BACK = "its counters went backwards"
    FROZEN = "its counters do not move, although our own requests count"
    TOO_SHORT = "two samples at the same time"
    TOO_LONG = "the samples are too far apart"
    IMPLAUSIBLE = "its counters moved further than they can"
    FROM_THE_FUTURE = "it claims to have started in the future"

    @property
    def is_reset(self) -> bool:
        """Whether the next window starts at the newer sample."""
        return self in {Flaw.RESTARTED, Flaw.WENT_BACK, Flaw.TOO_LONG, Flaw.IMPLAUSIBLE}


@dataclass(frozen=True, slots=True)
class _Change:
    """Two samples of one process, the newer one with no counter below the older one's."""

    before: Sample
    after: Sample
    span_s: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "span_s", self.after.taken_s - self.before.taken_s)


def is_from_the_future(sample: Sample) -> bool:
    """Whether its process claims to start later than the server's own clock says it is."""
    if sample.started_at is None or sample.wall_s is None:
        return False
    return sample.started_at > sample.wall_s + CLOCK_SKEW_S


def reading_between(server: str, before: Sample, after: Sample) -> Reading | Flaw:
    """The window from `before` to `after`; every figure is finite and >= 0."""
    flaw = _flaw(before, after)
    if flaw is not None:
        return flaw
    change = _Change(before, after)
    requests = after.requests - before.requests
    # 429 and 5xx without a webhook's failures.
    failures = after.failures - before.failures - (after.webhook_failures - before.webhook_failures)
    errors = max(0.0, failures) + after.refusals - before.refusals
    reading = Reading(
        server=server,
        ended_s=after.asked_s,
        span_s=change.span_s,
        requests=requests,
        errors=min(requests, errors),
        others_errors=min(requests, after.others_errors - before.others_errors),
        latency_s=_mean(before.latency, after.latency),
        service_s=_mean(before.service, after.service),
        queue_wait_s=_worst_wait(before, after),
        seats_share=after.seats_share,
        cpu_share=_cpu_share(change),
        missing=after.missing,
    )
    return reading if _is_plausible(reading) else Flaw.IMPLAUSIBLE


def _flaw(before: Sample, after: Sample) -> Flaw | None:
    span_s = after.taken_s - before.taken_s
    if is_from_the_future(after):
        return Flaw.FROM_THE_FUTURE
    if before.started_at != after.started_at:
        return Flaw.RESTARTED
    if _went_back(before, after):
        return Flaw.WENT_BACK
    if after.pulse == before.pulse:
        return Flaw.FROZEN
    if span_s < SHORTEST_WINDOW_S:
        return Flaw.TOO_SHORT
    return Flaw.TOO_LONG if span_s > LONGEST_WINDOW_S else None


def _went_back(before: Sample, after: Sample) -> bool:
    return any(new < old for old, new in zip(_counters(before), _counters(after), strict=True))


def _counters(sample: Sample) -> tuple[float, ...]:
    """Counts of one process; a family may appear on the way, and none disappears."""
    errors = (sample.failures, sample.refusals, sample.others_errors, sample.webhook_failures)
    means = (sample.latency, sample.service)
    return (
        sample.requests,
        sample.pulse,
        sample.cpu_s or 0.0,
        *errors,
        *(figure for mean in means for figure in ((mean.sum_s, mean.count) if mean else (0.0, 0.0))),
    )


def _mean(before: Totals | None, after: Totals | None) -> float | None:
    """None when the family is away or nothing ended; a family that has just appeared started at zero."""
    if after is None:
        return None
    count = after.count - (before.count if before else 0.0)
    return (after.sum_s - (before.sum_s if before else 0.0)) / count if count > 0 else None


def _worst_wait(before: Sample, after: Sample) -> float | None:
    waits = (_mean(before.waits.get(level), totals) for level, totals in after.waits.items())
    return max((wait for wait in waits if wait is not None), default=None)


def _cpu_share(change: _Change) -> float | None:
    before, after = change.before, change.after
    if before.cpu_s is None or after.cpu_s is None or not after.cpus:
        return None
    return (after.cpu_s - before.cpu_s) / (after.cpus * change.span_s)


def _is_plausible(reading: Reading) -> bool:
    means = (reading.latency_s, reading.service_s, reading.queue_wait_s)
    return (
        reading.requests <= MOST_PER_S * reading.span_s
        and all(mean is None or 0 <= mean <= LONGEST_MEAN_S for mean in means)
        and (reading.cpu_share is None or reading.cpu_share <= MOST_CPU_SHARE)
    )


STALE_AFTER_S = 30.0
"""Metrics that stand still are noticed within this: six scrapes of ours ..."""
SPANS = 1.5
"""... and not before a source that looks every half minute, as a Prometheus may, could have looked again."""
LONGEST_FRESH_S = 90.0


def fresh_for_s(reading: Reading) -> float:
    """How old the window may become before it says nothing."""
    return min(max(STALE_AFTER_S, SPANS * reading.span_s), LONGEST_FRESH_S)


def is_fresh(reading: Reading, now_s: float) -> bool:
    """Whether the window ended recently enough to act on."""
    return now_s - reading.ended_s <= fresh_for_s(reading)


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
