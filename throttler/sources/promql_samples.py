"""Points of the sample query to one sample per API server."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from throttler.signals.metrics_text import LATENCY, MAX_VALUE, REJECTED, SERVICE
from throttler.signals.sample import Sample, Totals
from throttler.sources.outcome import ReadError, ReadOutcome
from throttler.sources.promql_client import Point
from throttler.sources.promql_queries import FIGURE, INSTANCE, LEVEL


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
    return {name: _sample(found, now_s) for name, found in figures.items() if "servers" in found.single}


def _take(figures: _Figures, point: Point) -> None:
    if not 0 <= point.value <= MAX_VALUE:
        raise ReadError(ReadOutcome.UNREADABLE, "Prometheus answered with a figure that is out of range")
    figures.at_s = point.at_s
    name, level = point.labels.get(FIGURE, ""), point.labels.get(LEVEL)
    if level is None:
        figures.single[name] = point.value
    else:
        figures.by_level[name][level] = point.value


def _sample(found: _Figures, now_s: float) -> Sample:
    """Its age is the time since Prometheus itself scraped the server."""
    scraped_at_s = found.single["servers"]
    by_level = bool(found.by_level["seat_limit"])
    return Sample(
        asked_s=now_s - max(0.0, found.at_s - scraped_at_s),
        taken_s=scraped_at_s,
        wall_s=scraped_at_s,
        started_at=found.single.get("started"),
        requests=found.sum("requests"),
        failures=found.sum("failures"),
        refusals=found.sum("rejected" if by_level else "refusals"),
        others_errors=max(0.0, found.sum("all_failures", "all_rejected") - found.sum("failures", "away", "rejected")),
        webhook_failures=found.sum("webhooks"),
        latency=found.totals("latency"),
        service=found.totals("service"),
        waits=_waits(found),
        seats_share=_seats_share(found),
        cpu_s=found.single.get("cpu"),
        cpus=found.single.get("cpus"),
        pulse=found.sum("requests", "dispatched" if "dispatched" in found.single else "cpu"),
        missing=_missing(found, by_level=by_level),
    )


def _waits(found: _Figures) -> dict[str, Totals]:
    sums, counts = found.by_level["wait_sum"], found.by_level["wait_count"]
    return {level: Totals(sums.get(level, 0.0), counts[level]) for level in sorted(counts)}


def _seats_share(found: _Figures) -> float | None:
    used, limits = found.by_level["seats"], found.by_level["seat_limit"]
    return max((used.get(level, 0.0) / limit for level, limit in limits.items() if limit), default=None)


def _missing(found: _Figures, *, by_level: bool) -> tuple[str, ...]:
    families = {"latency_count": LATENCY, "service_count": SERVICE}
    away = [family.name for figure, family in families.items() if figure not in found.single]
    return (*away, *(() if by_level else (REJECTED.name,)))
