"""One API server's counters at one moment, and which requests are counted in them: those that tell how a server serves
joining nodes, and of their errors those that say something about its load.

A join is about a hundred requests of a kubelet and of the controllers that act for its node. Their mean latency is what
the pacing law looks at, and their 5xx are what brakes it: a broken conversion webhook or an aggregated API that is away
fails the requests of others. Lists and watches are left out: they last as long as there is data, not as long as the
server is slow.

Some 429 and 5xx say nothing about the load on a server. Told by their labels: an eviction that a disruption budget
refuses (429), an aggregated metrics API that is away (503), and everything that the server only forwards (proxy, log,
exec, attach, portforward). Told by another counter, in reading.py: a webhook that failed. Since 1.34 a storage that is
still (re)initializing answers lists and watches with 429; it is no refusal of flow control, and joins are not judged by
lists.

Of the priority levels of API Priority and Fairness, node and lease writes are in `node-high`, a kubelet's other calls
in `system`, DaemonSet pods, bindings and kube-system agents in `workload-high`. `global-default` is left out although
certificate requests go there: kubelets that wait for a certificate send refused requests into it, and a slow approver
is no busy server.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from throttler.signals.metric_families import (
    CPU,
    CPU_LIMIT,
    DISPATCHED,
    FAMILIES,
    JOIN_RESOURCES,
    LATENCY,
    NOMINAL_LIMIT,
    OLD_SEATS,
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

Labels = Mapping[str, str]
JOIN_SUBRESOURCES = frozenset({"", "status", "binding", "token"})
JOIN_VERBS = frozenset({"GET", "POST", "PUT", "PATCH", "APPLY"})


def is_of_a_join(labels: Labels) -> bool:
    """Whether a series counts requests of the kind that joins send."""
    return (
        labels.get("verb") in JOIN_VERBS
        and (labels.get("group", ""), labels.get("resource", "")) in JOIN_RESOURCES
        and labels.get("subresource", "") in JOIN_SUBRESOURCES
        and not labels.get("dry_run")
    )


FORWARDED = frozenset({"proxy", "log", "exec", "attach", "portforward"})
WEBHOOK_ERRORS = frozenset({"calling_webhook_error", "apiserver_internal_error"})


def is_forwarded(labels: Labels) -> bool:
    """Whether the server only passes these requests on: neither they nor their errors are its own."""
    return labels.get("verb") == "CONNECT" or labels.get("subresource", "").split("/")[0] in FORWARDED


def is_failure(labels: Labels) -> bool:
    """Whether these answers were 5xx, and not of the kinds above."""
    code = labels.get("code", "")
    is_5xx = len(code) == 3 and code.startswith("5")
    return is_5xx and not (code == "503" and _is_metrics_api(labels.get("group", "")))


def is_refusal(labels: Labels) -> bool:
    """Whether these answers were 429, and not of the kinds above."""
    return labels.get("code") == "429" and labels.get("subresource") != "eviction"


def is_webhook_failure(labels: Labels) -> bool:
    """Whether a webhook's rejection reached the client as 429 or 5xx."""
    code = labels.get("rejection_code", "")
    return code == "429" or code.startswith("5") or labels.get("error_type") in WEBHOOK_ERRORS


def _is_metrics_api(group: str) -> bool:
    return group == "metrics.k8s.io" or group.endswith(".metrics.k8s.io")


DEFAULT_LEVELS = frozenset({"node-high", "system", "workload-high"})
JOIN_SCHEMAS = frozenset(
    {
        "system-nodes",
        "system-node-high",
        "kube-scheduler",
        "kube-controller-manager",
        "kube-system-service-accounts",
    }
)


def join_levels(rows: Iterable[Row]) -> frozenset[str]:
    """The default levels, and those to which this cluster's flow schemas lead the requests of joins."""
    led_to = (row.labels.get("priority_level", "") for row in rows if row.labels.get("flow_schema") in JOIN_SCHEMAS)
    return DEFAULT_LEVELS | {level for level in led_to if level}


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
    levels = join_levels(named.get(DISPATCHED.name, ()))
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
    used = _by_level(named.get(SEATS.name) or named.get(OLD_SEATS.name, ()))
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
