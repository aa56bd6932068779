"""What one API server had counted at one moment, made of the rows of its /metrics."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from throttler.signals.counted_requests import (
    Labels,
    is_failure,
    is_forwarded,
    is_of_a_join,
    is_refusal,
    is_webhook_failure,
    join_levels,
)
from throttler.signals.metric_families import (
    CPU,
    CPU_LIMIT,
    DISPATCHED,
    FAMILIES,
    LATENCY,
    NOMINAL_LIMIT,
    QUEUE_WAIT,
    REJECTED,
    REQUESTS,
    SEAT_LIMIT,
    SEATS,
    SERVICE,
    STARTED,
    WEBHOOK_REFUSALS,
    BadTextError,
    Family,
    Row,
)


@dataclass(frozen=True, slots=True)
class Totals:
    """A sum of seconds and the number of things it was summed over, both only ever rising."""

    sum_s: float
    count: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What one server had counted by `taken_s`. None: not exported; counters start with the process.

    `asked_s` is when the sample was asked for (monotonic; how old the news is), `taken_s` when the server made it
    (monotonic; what spans are made of), `wall_s` the server's own clock then, `started_at` when the process
    started by that clock.
    """

    asked_s: float
    taken_s: float
    wall_s: float | None = None
    started_at: float | None = None
    requests: float
    failures: float
    """5xx of the requests that joins send, those that a webhook caused among them."""
    refusals: float = 0.0
    """429: what flow control refused in the priority levels that joins use. Where it is off, or has none of these
    levels: those of the requests that joins send."""
    others_errors: float = 0.0
    """5xx of other requests, and what flow control refused in other levels."""
    webhook_failures: float = 0.0
    latency: Totals | None = None
    service: Totals | None = None
    waits: Mapping[str, Totals] = field(default_factory=dict)
    """Time in queues of each priority level that joins use."""
    seats_share: float | None = None
    cpu_s: float | None = None
    cpus: float | None = None
    pulse: float = 0.0
    """Grows with every request, our own included: when it stands still, so do the metrics."""
    missing: tuple[str, ...] = ()


Rows = Mapping[str, tuple[Row, ...]]


def sample_from_rows(rows: Iterable[Row], *, asked_s: float, taken_s: float, wall_s: float | None) -> Sample:
    """The rows of one scrape as a sample; raises BadTextError when they are not an API server's."""
    by_name: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_name[row.name].append(row)
    named: Rows = {name: tuple(own) for name, own in by_name.items()}
    if not named.get(REQUESTS.name):
        raise BadTextError(f"no {REQUESTS.name}: this is not an API server")
    own = [row for row in named[REQUESTS.name] if not is_forwarded(row.labels)]
    levels = join_levels(row.labels for row in named.get(DISPATCHED.name, ()))
    failed = [row for row in own if is_failure(row.labels)]
    refused = [row for row in own if is_refusal(row.labels) and is_of_a_join(row.labels)]
    rejected = _by_level(named.get(REJECTED.name, ()))
    by_level = _has_levels(named, levels)
    return Sample(
        asked_s=asked_s,
        taken_s=taken_s,
        wall_s=wall_s,
        started_at=_single(named, STARTED),
        requests=_sum(own),
        failures=_sum(row for row in failed if is_of_a_join(row.labels)),
        refusals=sum(rejected.get(level, 0.0) for level in levels) if by_level else _sum(refused),
        others_errors=_sum(row for row in failed if not is_of_a_join(row.labels))
        + sum(count for level, count in rejected.items() if level not in levels),
        webhook_failures=_sum(row for row in named.get(WEBHOOK_REFUSALS.name, ()) if is_webhook_failure(row.labels)),
        latency=_totals(named, LATENCY, is_of_a_join),
        service=_totals(named, SERVICE, is_of_a_join),
        waits=_waits(named, levels),
        seats_share=_seats_share(named, levels),
        cpu_s=_single(named, CPU),
        cpus=_single(named, CPU_LIMIT),
        pulse=_pulse(named),
        missing=_missing(named, by_level=by_level),
    )


def _sum(rows: Iterable[Row]) -> float:
    return sum(row.value for row in rows)


def _single(named: Rows, family: Family) -> float | None:
    rows = named.get(family.name)
    return rows[0].value if rows else None


def _totals(named: Rows, family: Family, is_wanted: Callable[[Labels], bool]) -> Totals | None:
    """None when the family is not there at all; zero when it is and nothing of the wanted kind has ended."""
    sums, counts = (named.get(series) for series in family.series)
    if sums is None or counts is None:
        return None
    return Totals(
        _sum(row for row in sums if is_wanted(row.labels)), _sum(row for row in counts if is_wanted(row.labels))
    )


def _waits(named: Rows, levels: frozenset[str]) -> dict[str, Totals]:
    sums, counts = (_by_level(named.get(series, ())) for series in QUEUE_WAIT.series)
    return {level: Totals(sums.get(level, 0.0), counts[level]) for level in sorted(levels) if level in counts}


def _has_levels(named: Rows, levels: frozenset[str]) -> bool:
    """Whether flow control is on and has any of the levels; one that has refused nothing so far has no row there."""
    rows = (row for family in (DISPATCHED, SEAT_LIMIT, NOMINAL_LIMIT) for row in named.get(family.name, ()))
    return any(row.labels.get("priority_level") in levels for row in rows)


def _seats_share(named: Rows, levels: frozenset[str]) -> float | None:
    """Of the worst level; a level that has executed nothing so far has no row of seats."""
    used = _by_level(named.get(SEATS.name, ()))
    limits = _by_level(named.get(SEAT_LIMIT.name) or named.get(NOMINAL_LIMIT.name, ()))
    shares = [used.get(level, 0.0) / limits[level] for level in levels if limits.get(level)]
    return max(shares, default=None)


def _by_level(rows: Iterable[Row]) -> dict[str, float]:
    totals: dict[str, float] = defaultdict(float)
    for row in rows:
        totals[row.labels.get("priority_level", "")] += row.value
    return totals


def _pulse(named: Rows) -> float:
    """Counts of requests; the CPU stands in where flow control is off, as /metrics is no request of its own there."""
    dispatched = named.get(DISPATCHED.name) or named.get(CPU.name, ())
    return _sum(named[REQUESTS.name]) + _sum(dispatched)


def _missing(named: Rows, *, by_level: bool) -> tuple[str, ...]:
    """Also the refusals by level, where none of the levels that joins use is there: 429 are counted another way."""
    away = [
        family.name
        for family in FAMILIES
        if family.is_always_there and not all(series in named for series in family.series)
    ]
    return (*away, *(() if by_level else (REJECTED.name,)))
