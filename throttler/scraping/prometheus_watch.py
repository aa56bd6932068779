"""The second source: an existing Prometheus, for readings where scraping is off or forbidden, and for alarms.

One instant query makes a sample per API server. It sums counters on the side of Prometheus and leaves windows to us
(`rate` would blur them a second time). Its parts are told apart by the label `figure` and grouped by `instance`, the
address Prometheus scrapes; as one query they are all of one moment.
"""

import asyncio
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import structlog

from throttler.scraping.promql_client import Point, PromqlClient
from throttler.scraping.settings_and_allowed_hosts import AlarmSetting
from throttler.signals.counted_requests import DEFAULT_LEVELS, FORWARDED, JOIN_RESOURCES, JOIN_SUBRESOURCES, JOIN_VERBS
from throttler.signals.metric_families import (
    CPU,
    CPU_LIMIT,
    DISPATCHED,
    LATENCY,
    MAX_VALUE,
    NOMINAL_LIMIT,
    QUEUE_WAIT,
    REJECTED,
    REQUESTS,
    SEAT_LIMIT,
    SEATS,
    SERVICE,
    STARTED,
    WEBHOOK_REFUSALS,
)
from throttler.signals.reading import (
    PROMETHEUS_INTERVAL_S,
    Alarm,
    Read,
    ReadError,
    ReadObserver,
    ReadOutcome,
    ignore_read,
)
from throttler.signals.sample import Sample, Totals
from throttler.signals.servers import Address, Servers


def _any(values: frozenset[str]) -> str:
    return "|".join(sorted(value for value in values if value))


_OWN = f'verb!="CONNECT",subresource!~"({_any(FORWARDED)})(/.*)?"'
_JOINS = (
    f'verb=~"{_any(JOIN_VERBS)}",dry_run="",subresource=~"({_any(JOIN_SUBRESOURCES)})?",'
    f'group=~"({_any(frozenset(group for group, _ in JOIN_RESOURCES))})?",'
    f'resource=~"{_any(frozenset(resource for _, resource in JOIN_RESOURCES))}"'
)
_LEVELS = f'priority_level=~"{_any(DEFAULT_LEVELS)}"'


def _sum(family: str, selector: str = "", by: str = "instance") -> str:
    """Of one job's series: two jobs may scrape the same server. Their sum would halve when a scrape of one fails, and
    at its next all that was ever counted would look new."""
    return f"max by ({by}) (sum by ({by}, job) ({family}{{{selector}}}))"


API_SERVERS = f'{REQUESTS.name}{{group="coordination.k8s.io",resource="leases"}}'
"""What only API servers have: extension servers and controllers export some of the same families."""

_PER_LEVEL = "instance, priority_level"


def _of_servers(family: str) -> str:
    """Of API servers only: each kubelet, node exporter and agent has these families, and thousands of nodes would make
    the answer longer than we read."""
    return f"max by (instance) ({family} and on (instance) {API_SERVERS})"


_FIGURES = {
    "servers": f"max by (instance) (timestamp({API_SERVERS}))",
    "started": _of_servers(STARTED.name),
    "requests": _sum(REQUESTS.name, _OWN),
    "failures": _sum(REQUESTS.name, f'{_JOINS},code=~"5.."'),
    "refusals": _sum(REQUESTS.name, f'{_JOINS},code="429"'),
    "rejected": _sum(REJECTED.name, _LEVELS),
    "all_failures": _sum(REQUESTS.name, f'{_OWN},code=~"5.."'),
    "away": _sum(REQUESTS.name, f'{_OWN},code="503",group=~"(.+[.])?metrics[.]k8s[.]io"'),
    "all_rejected": _sum(REJECTED.name),
    "webhooks": _sum(WEBHOOK_REFUSALS.name, 'rejection_code=~"5..|429"'),
    "dispatched": _sum(DISPATCHED.name),
    "latency_sum": _sum(f"{LATENCY.name}_sum", _JOINS),
    "latency_count": _sum(f"{LATENCY.name}_count", _JOINS),
    "service_sum": _sum(f"{SERVICE.name}_sum", _JOINS),
    "service_count": _sum(f"{SERVICE.name}_count", _JOINS),
    "cpu": _of_servers(CPU.name),
    "cpus": _of_servers(CPU_LIMIT.name),
    "wait_sum": _sum(f"{QUEUE_WAIT.name}_sum", _LEVELS, _PER_LEVEL),
    "wait_count": _sum(f"{QUEUE_WAIT.name}_count", _LEVELS, _PER_LEVEL),
    "seats": _sum(SEATS.name, _LEVELS, _PER_LEVEL),
    "seat_limit": f"{_sum(SEAT_LIMIT.name, _LEVELS, _PER_LEVEL)} or {_sum(NOMINAL_LIMIT.name, _LEVELS, _PER_LEVEL)}",
}

FIGURE, INSTANCE, LEVEL = "figure", "instance", "priority_level"
SAMPLE_QUERY = " or ".join(f'label_replace({query}, "{FIGURE}", "{name}", "", "")' for name, query in _FIGURES.items())


@dataclass(slots=True)
class _Figures:
    """What one instance has, by figure, and by figure and level."""

    at_s: float = 0.0
    single: dict[str, float] = field(default_factory=dict)
    by_level: dict[str, dict[str, float]] = field(default_factory=lambda: defaultdict(dict))

    def sum(self, *names: str) -> float:
        return sum(self.single.get(name, 0.0) for name in names)

    def totals(self, name: str) -> Totals | None:
        count = self.single.get(f"{name}_count")
        return None if count is None else Totals(self.sum(f"{name}_sum"), count)


def samples_of(points: Iterable[Point], now_s: float) -> dict[str, Sample]:
    """A sample per API server, by `instance`; `now_s` is when the query was asked. Raises ReadError."""
    figures: dict[str, _Figures] = defaultdict(_Figures)
    for point in points:
        _take(figures[point.labels.get(INSTANCE, "")], point)
    # Controllers and extension servers have CPU and start times too; `servers` are API servers only.
    return {name: _sample(of_server, now_s) for name, of_server in figures.items() if "servers" in of_server.single}


def _take(figures: _Figures, point: Point) -> None:
    if not 0 <= point.value <= MAX_VALUE:
        raise ReadError(ReadOutcome.UNREADABLE, "Prometheus answered with a figure that is out of range")
    figures.at_s = point.at_s
    name, level = point.labels.get(FIGURE, ""), point.labels.get(LEVEL)
    if level is None:
        figures.single[name] = point.value
    else:
        figures.by_level[name][level] = point.value


def _sample(figures: _Figures, now_s: float) -> Sample:
    """Its age is the time since Prometheus itself scraped the server."""
    scraped_at_s = figures.single["servers"]
    by_level = bool(figures.by_level["seat_limit"])
    return Sample(
        asked_s=now_s - max(0.0, figures.at_s - scraped_at_s),
        taken_s=scraped_at_s,
        wall_s=scraped_at_s,
        started_at=figures.single.get("started"),
        requests=figures.sum("requests"),
        failures=figures.sum("failures"),
        refusals=figures.sum("rejected" if by_level else "refusals"),
        others_errors=max(
            0.0, figures.sum("all_failures", "all_rejected") - figures.sum("failures", "away", "rejected")
        ),
        webhook_failures=figures.sum("webhooks"),
        latency=figures.totals("latency"),
        service=figures.totals("service"),
        waits=_waits(figures),
        seats_share=_seats_share(figures),
        cpu_s=figures.single.get("cpu"),
        cpus=figures.single.get("cpus"),
        pulse=figures.sum("requests", "dispatched" if "dispatched" in figures.single else "cpu"),
        missing=_missing(figures, by_level=by_level),
    )


def _waits(figures: _Figures) -> dict[str, Totals]:
    sums, counts = figures.by_level["wait_sum"], figures.by_level["wait_count"]
    return {level: Totals(sums.get(level, 0.0), counts[level]) for level in sorted(counts)}


def _seats_share(figures: _Figures) -> float | None:
    used, limits = figures.by_level["seats"], figures.by_level["seat_limit"]
    return max((used.get(level, 0.0) / limit for level, limit in limits.items() if limit), default=None)


def _missing(figures: _Figures, *, by_level: bool) -> tuple[str, ...]:
    families = {"latency_count": LATENCY, "service_count": SERVICE}
    away = [family.name for figure, family in families.items() if figure not in figures.single]
    return (*away, *(() if by_level else (REJECTED.name,)))


HELD_S = 60.0
"""An alarm or a server that Prometheus has stopped speaking of is remembered for so long."""

AT_ONCE = 4
"""Alarms that are asked for at the same time. Sixteen slow queries, one after the other, would take two minutes: each
alarm would be forgotten before it was asked for again."""

_ROUND, _SERVERS = "round", "servers"
"""What a problem is about, beside the alarms, each of which has its own."""
log = structlog.get_logger()


class PrometheusWatch:
    """Asks in rounds and remembers; `servers` is what is known of each API server through Prometheus."""

    def __init__(
        self, client: PromqlClient, alarms: tuple[AlarmSetting, ...], *, observer: ReadObserver = ignore_read
    ) -> None:
        self.servers = Servers()
        self._client = client
        self._settings = alarms
        self._observer = observer
        self._alarms: dict[str, tuple[Alarm, float]] = {}
        self._problems: dict[str, str] = {}

    def alarms(self, now_s: float) -> tuple[Alarm, ...]:
        """The alarms whose value is known; the others are in `problems`."""
        return tuple(alarm for alarm, at_s in self._alarms.values() if now_s - at_s <= HELD_S)

    @property
    def problems(self) -> tuple[str, ...]:
        """In words, what Prometheus did not tell."""
        return tuple(self._problems[name] for name in sorted(self._problems))

    async def run(self) -> None:
        """Runs until cancelled."""
        while True:
            started_s = _now_s()
            try:
                await self.round()
                self._problems.pop(_ROUND, None)
            except Exception:  # one bad round must not end those to come
                log.exception("a round of queries to Prometheus failed unexpectedly")
                self._problems[_ROUND] = "a round of queries to Prometheus failed unexpectedly"
            await asyncio.sleep(max(0.0, started_s + PROMETHEUS_INTERVAL_S - _now_s()))

    async def round(self) -> None:
        """One round: all API servers, and every alarm. What was wrong is told until it has been asked for again."""
        room = asyncio.Semaphore(AT_ONCE)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._read_servers())
            for setting in self._settings:
                group.create_task(self._read_alarm(setting, room))

    async def _read_servers(self) -> None:
        asked_s, size_bytes, outcome = _now_s(), 0, ReadOutcome.GOOD
        try:
            points, size_bytes = await self._client.query(SAMPLE_QUERY)
            self._take(samples_of(points, asked_s), asked_s)
        except ReadError as error:
            outcome = error.outcome
            self._problems[_SERVERS] = error.problem
        read = Read(
            source="prometheus",
            server=self._client.name,
            outcome=outcome,
            seconds=_now_s() - asked_s,
            size_bytes=size_bytes,
        )
        self._observer(read)

    def _take(self, samples: Mapping[str, Sample], now_s: float) -> None:
        self._problems.pop(_SERVERS, None)
        if not samples:
            self._problems[_SERVERS] = "Prometheus knows no API server (an empty answer is not zero load)"
        known = {name: address for name, address in self.servers.addresses.items() if _is_remembered(address, now_s)}
        self.servers = self.servers.found({**known, **samples}, 0, now_s)
        for name, address in self.servers.addresses.items():
            self.servers = self.servers.with_address(_updated(address, samples.get(name), now_s), now_s)

    async def _read_alarm(self, setting: AlarmSetting, room: asyncio.Semaphore) -> None:
        """The largest value counts where the query gives several; one that gives none leaves the alarm unknown.

        A share of nothing is no value: one idle instance must not hide what all others say.
        """
        name = f"alarm {setting.name}"
        try:
            async with room:
                points, _ = await self._client.query(setting.query)
        except ReadError as error:
            self._problems[name] = f"{name}: {error.problem}"
            return
        values = [point.value for point in points if not math.isnan(point.value)]
        if not values:
            self._problems[name] = f"{name}: the query gives no value, which is not zero"
            return
        self._problems.pop(name, None)
        value = max(-MAX_VALUE, min(max(values), MAX_VALUE))
        self._alarms[setting.name] = (Alarm(name=setting.name, value=value, threshold=setting.threshold), _now_s())


def _updated(address: Address, sample: Sample | None, now_s: float) -> Address:
    """A sample that Prometheus has given before brings nothing: it has not scraped since, and ages by itself."""
    if sample is None:
        return address.failed("Prometheus has no figures of it", now_s)
    is_known = any(process.latest.taken_s >= sample.taken_s for process in address.processes)
    return address if is_known else address.answered(sample)


def _is_remembered(address: Address, now_s: float) -> bool:
    return address.failing_since_s is None or now_s - address.failing_since_s <= HELD_S


def _now_s() -> float:
    return asyncio.get_running_loop().time()
