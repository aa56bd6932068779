"""One API server's counters at one moment, summed to what windows need."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from throttler.signals.classes import is_of_a_join, is_of_one_object
from throttler.signals.false_errors import is_error, is_forwarded, is_webhook_failure, may_be_start_up
from throttler.signals.families import (
    CPU,
    CPU_LIMIT,
    DISPATCHED,
    ETCD,
    FAMILIES,
    LATENCY,
    NOMINAL_LIMIT,
    OLD_SEATS,
    QUEUE_WAIT,
    QUEUED,
    REJECTED,
    REQUESTS,
    SEAT_LIMIT,
    SEATS,
    SERVICE,
    STARTED,
    WEBHOOK_REFUSALS,
    Family,
)
from throttler.signals.priority_levels import join_levels
from throttler.signals.text import BadTextError, Row

Labels = Mapping[str, str]


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
    errors: float
    cache_refusals: float = 0.0
    """429s of lists and watches, not in `errors`: of a cache that is not there yet, or of flow control."""
    rejected: float | None = None
    """Requests that flow control refused; None where flow control is off."""
    webhook_failures: float = 0.0
    latency: Totals | None = None
    service: Totals | None = None
    waits: Mapping[str, Totals] = field(default_factory=dict)
    """Time in queues of each priority level that joins use."""
    queued: float | None = None
    seats_share: float | None = None
    cpu_s: float | None = None
    cpus: float | None = None
    etcd: Totals | None = None
    pulse: float = 0.0
    """Grows with every request, our own included: when it stands still, so do the metrics."""
    missing: tuple[str, ...] = ()


Rows = Mapping[str, tuple[Row, ...]]


def sample_from_rows(rows: Iterable[Row], *, asked_s: float, taken_s: float, wall_s: float | None) -> Sample:
    """The rows of one scrape as a sample; raises BadTextError when they are not an API server's."""
    named = _by_name(rows)
    if not named.get(REQUESTS.name):
        raise BadTextError(f"no {REQUESTS.name}: this is not an API server")
    own = [row for row in named[REQUESTS.name] if not is_forwarded(row.labels)]
    has_flow_control = any(named.get(family.name) for family in (DISPATCHED, SEAT_LIMIT, NOMINAL_LIMIT))
    rejected = _sum(named.get(REJECTED.name, ())) if has_flow_control else None
    levels = join_levels((*named.get(DISPATCHED.name, ()), *named.get(QUEUED.name, ())))
    return Sample(
        asked_s=asked_s,
        taken_s=taken_s,
        wall_s=wall_s,
        started_at=_single(named, STARTED),
        requests=_sum(own),
        errors=_sum(row for row in own if is_error(row.labels) and not may_be_start_up(row.labels)),
        cache_refusals=_sum(row for row in own if may_be_start_up(row.labels)),
        rejected=rejected,
        webhook_failures=_sum(row for row in named.get(WEBHOOK_REFUSALS.name, ()) if is_webhook_failure(row.labels)),
        latency=_totals(named, LATENCY, is_of_a_join),
        service=_totals(named, SERVICE, is_of_a_join),
        waits=_waits(named, levels),
        queued=_queued(named, levels, has_flow_control=has_flow_control),
        seats_share=_seats_share(named, levels),
        cpu_s=_single(named, CPU),
        cpus=_single(named, CPU_LIMIT),
        etcd=_totals(named, ETCD, is_of_one_object),
        pulse=_pulse(named),
        missing=_missing(named),
    )


def _by_name(rows: Iterable[Row]) -> Rows:
    named: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        named[row.name].append(row)
    return {name: tuple(found) for name, found in named.items()}


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


def _queued(named: Rows, levels: frozenset[str], *, has_flow_control: bool) -> float | None:
    """A level that has queued nothing so far has no row."""
    found = _by_level(named.get(QUEUED.name, ()))
    return sum(found.get(level, 0.0) for level in sorted(levels)) if has_flow_control else None


def _seats_share(named: Rows, levels: frozenset[str]) -> float | None:
    """Of the worst level; a level that has executed nothing so far has no row of seats."""
    used = _by_level(named.get(SEATS.name) or named.get(OLD_SEATS.name, ()))
    limits = _by_level(named.get(SEAT_LIMIT.name) or named.get(NOMINAL_LIMIT.name, ()))
    shares = [used.get(level, 0.0) / limits[level] for level in levels if limits.get(level)]
    return max(shares, default=None)


def _by_level(rows: Iterable[Row]) -> dict[str, float]:
    found: dict[str, float] = defaultdict(float)
    for row in rows:
        found[row.labels.get("priority_level", "")] += row.value
    return found


def _pulse(named: Rows) -> float:
    """Counts of requests; the CPU stands in where flow control is off, as /metrics is no request of its own there."""
    dispatched = named.get(DISPATCHED.name) or named.get(CPU.name, ())
    return _sum(named[REQUESTS.name]) + _sum(dispatched)


def _missing(named: Rows) -> tuple[str, ...]:
    return tuple(
        family.name
        for family in FAMILIES
        if family.is_always_there and not all(series in named for series in family.series)
    )
