"""The throttle's metrics, beside the others of the service in one registry. No series per node; one per API server.

Series of known label values are there from the start, those of a throttle begin and end with it.
"""

from collections.abc import Callable, Iterable, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from throttler.api.throttle_rules import RefusedThrottle
from throttler.kube.quantities_and_durations import QuantityError, parse_quantity
from throttler.kube.watch_set import CacheState
from throttler.law.verdict import Phase, ThrottleReason
from throttler.levers.lever_and_reasons import LeverDecision, LeverState
from throttler.service.decide_throttles import Findings, Turn
from throttler.service.lever_calls import WRITTEN, LeverWriteOutcome
from throttler.signals.reading import Read, ReadOutcome, Signals
from throttler.signals.servers import State, server_states

PREFIX = "kube_balloons_throttle"
SOURCES = ("scrape", "prometheus")
STAGES = ("hopeless", "waiting", "urgent", "booting", "held", "joining", "late", "in_flight", "registered")
READ_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Seconds: a scrape of a small server to one that is given up."""
_FIGURES = {
    "window": ("window_joins", "Joins that may load the API servers at the same time."),
    "pace": ("pace_joins_per_minute", "Joins per minute, at the present window and duration of joins."),
    "allowance": ("allowance_nodes", "How many more nodes may be asked for now."),
    "admit": ("admit_nodes", "How many held nodes may be let in now."),
    "index": ("index", "Latency and queue wait of the worst API server over their baseline; 0 while unknown."),
    "error_share": ("error_ratio", "429 and 5xx over all requests, of the worst API server."),
    "learned": ("learned_window_joins", "The window that the last scale-up taught; 0 while never learned."),
    "join_s": ("join_seconds", "Mean duration of the latest joins; 0 before the first."),
    "boot_s": ("boot_seconds", "Mean time from asking for a machine to hearing of it; 0 before the first."),
    "controller": ("is_controller_bound", "Whether joins wait for the controller manager's own limit (1) or not (0)."),
}


class MetricMaker:
    """Makes the metrics of one registry, under one prefix; `labels` collects the label names of each family."""

    def __init__(self, prefix: str, registry: CollectorRegistry, labels: dict[str, tuple[str, ...]]) -> None:
        self._prefix = prefix
        self._registry = registry
        self._labels = labels

    def counter(self, name: str, text: str, *labels: str) -> Counter:
        """Its series end in `_total`."""
        return Counter(f"{self._named(name, labels)}_total", text, labels, registry=self._registry)

    def gauge(self, name: str, text: str, *labels: str) -> Gauge:
        """Goes up and down."""
        return Gauge(self._named(name, labels), text, labels, registry=self._registry)

    def histogram(self, name: str, text: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
        """Counts what is at most as large as each of the buckets."""
        return Histogram(self._named(name, labels), text, labels, registry=self._registry, buckets=buckets)

    def _named(self, name: str, labels: tuple[str, ...]) -> str:
        self._labels[f"{self._prefix}_{name}"] = labels
        return f"{self._prefix}_{name}"


class ThrottleMetrics:
    """Told what was decided, read and written; knows which series that concerns. `labels` collects label names.

    `watches` is told how the watch caches stand, by name: their series are the pools' too.
    """

    def __init__(
        self,
        registry: CollectorRegistry,
        labels: dict[str, tuple[str, ...]],
        watches: Callable[[Mapping[str, CacheState]], None],
    ) -> None:
        self._make = MetricMaker(PREFIX, registry, labels)
        self.watches = watches
        self._figures = {key: self._make.gauge(name, text, "throttle") for key, (name, text) in _FIGURES.items()}
        self._nodes = self._make.gauge("nodes", "Nodes on their way to being usable, by stage.", "throttle", "stage")
        self._because = self._make.gauge("because", "1 for the present reason of the window.", "throttle", "reason")
        self._phase = self._make.gauge("phase", "1 for the present phase of the pacing law.", "throttle", "phase")
        self._forbidden = self._make.gauge(
            "is_forbidden", "Whether the service may not read JoinThrottles, and so paces nothing (1), or may (0)."
        )
        self._joined = self._make.counter("joined", "Joins that ended.", "throttle")
        self._lost = self._make.counter("lost", "Machines that never arrived and were given up.", "throttle")
        self._make_lever_metrics()
        self._make_source_metrics()
        self._shown: dict[str, tuple[int, int]] = {}
        self._levers: dict[str, set[tuple[str, ...]]] = {}
        self._servers: set[str] = set()

    # --- told by the loop ---

    def show(self, turns: Iterable[Turn], signals: Iterable[Signals], now_s: float) -> None:
        """The throttles as they were decided; series of throttles, levers and servers that are gone end."""
        shown = {turn.name: turn for turn in turns}
        for name, turn in shown.items():
            if isinstance(turn.stored, RefusedThrottle) or turn.findings.is_given_up:
                # Nothing is decided for it, and for long: what it last showed would seem to stand.
                for gauge in (*self._figures.values(), self._nodes):
                    gauge.remove_by_labels({"throttle": name})
            self._show_figures(name, turn.findings)
            self._show_reason(name, turn)
            self._show_levers(name, turn.findings.levers if turn.moves_levers else ())
        for name in self._shown.keys() - shown.keys():
            self._forget(name)
        self._show_servers(signals, now_s)

    def forbidden(self, is_forbidden: bool) -> None:
        """Whether JoinThrottles may not be read."""
        self._forbidden.set(is_forbidden)

    def read(self, read: Read) -> None:
        """One scrape, or one round of queries, has ended."""
        self._reads.labels(read.source, read.outcome.value).inc()
        self._read_seconds.labels(read.source).observe(read.seconds)
        self._read_bytes.labels(read.source).inc(read.size_bytes)

    def wrote(self, kind: str, outcome: LeverWriteOutcome) -> None:
        """One write of a lever has ended."""
        self._writes.labels(kind, outcome.value).inc()

    # --- one throttle ---

    def _show_figures(self, name: str, findings: Findings) -> None:
        joins, verdict = findings.joins, findings.verdict
        if verdict is None:
            self._shown.setdefault(name, (0, 0))
            return
        figures: Mapping[str, float] = {
            "window": verdict.window,
            "pace": verdict.pace_per_min,
            "allowance": verdict.allowance,
            "admit": verdict.admit,
            "index": verdict.index or 0.0,
            "error_share": verdict.error_share,
            "learned": findings.learned.window or 0.0,
            "join_s": joins.join_s or 0.0,
            "boot_s": joins.boot_s or 0.0,
            "controller": float(joins.is_controller_bound),
        }
        for key, value in figures.items():
            self._figures[key].labels(name).set(value)
        for stage in STAGES:
            self._nodes.labels(name, stage).set(getattr(joins, stage))
        joined, lost = self._shown.get(name, (0, 0))
        # A throttle whose selector changed is counted anew, from 0.
        self._joined.labels(name).inc(max(0, joins.joined - joined))
        self._lost.labels(name).inc(max(0, joins.lost - lost))
        self._shown[name] = joins.joined, joins.lost

    def _show_reason(self, name: str, turn: Turn) -> None:
        """All are 0 where nothing could be decided, and there are none where nothing is to be."""
        verdict = turn.verdict_followed
        if verdict is None and turn.findings.verdict is not None:
            for gauge in (self._because, self._phase):
                gauge.remove_by_labels({"throttle": name})
            return
        for reason in ThrottleReason:
            self._because.labels(name, reason.code).set(verdict is not None and verdict.because.reason is reason)
        for phase in Phase:
            self._phase.labels(name, phase.value).set(verdict is not None and verdict.phase is phase)

    def _show_levers(self, name: str, levers: tuple[LeverDecision, ...]) -> None:
        known = self._levers.setdefault(name, set())
        shown: set[tuple[str, ...]] = set()
        for lever in levers:
            for state in LeverState:
                shown.add((lever.name, state.value))
                self._lever_state.labels(name, lever.name, state.value).set(lever.state is state)
            for resource, amount in ceiling_figures(lever.ceiling).items():
                shown.add((lever.name, "ceiling", resource))
                self._lever_ceiling.labels(name, lever.name, resource).set(amount)
        for gone in known - shown:
            gauge = self._lever_state if len(gone) == 2 else self._lever_ceiling
            gauge.remove(name, gone[0], gone[-1])
        self._levers[name] = shown

    def _forget(self, name: str) -> None:
        self._shown.pop(name, None)
        self._show_levers(name, ())
        self._levers.pop(name, None)
        for gauge in (*self._figures.values(), self._nodes, self._because, self._phase, self._joined, self._lost):
            gauge.remove_by_labels({"throttle": name})

    def _show_servers(self, signals: Iterable[Signals], now_s: float) -> None:
        states = {state.name: state for of_throttle in signals for state in server_states(of_throttle, now_s)}
        for server, state in states.items():
            self._server_age.labels(server).set(state.age_s if state.age_s is not None else float("inf"))
            self._server_fresh.labels(server).set(state.state is State.FRESH)
        for gone in self._servers - states.keys():
            self._server_age.remove(gone)
            self._server_fresh.remove(gone)
        self._servers = set(states)

    # --- what they are ---

    def _make_lever_metrics(self) -> None:
        self._lever_state = self._make.gauge(
            "lever_state",
            "1 for the present state of a lever; none of a throttle that is paused or in a dry run.",
            "throttle",
            "lever",
            "state",
        )
        self._lever_ceiling = self._make.gauge(
            "lever_ceiling",
            "What a lever enforces now, in units of the resource (bytes, cores, nodes, objects held).",
            "throttle",
            "lever",
            "resource",
        )
        self._writes = self._make.counter("lever_writes", "Writes of levers, by how they ended.", "kind", "outcome")
        for kind in WRITTEN:
            for outcome in LeverWriteOutcome:
                self._writes.labels(kind, outcome.value)

    def _make_source_metrics(self) -> None:
        self._server_age = self._make.gauge(
            "server_reading_age_seconds", "Age of the newest complete window of counts of an API server.", "server"
        )
        self._server_fresh = self._make.gauge(
            "server_is_fresh", "Whether an API server's figures may be acted on (1) or not (0).", "server"
        )
        self._reads = self._make.counter(
            "reads", "Scrapes and rounds of queries, by how they ended.", "source", "outcome"
        )
        self._read_bytes = self._make.counter("read_bytes", "Bytes of answers as sent, before inflating.", "source")
        self._read_seconds = self._make.histogram(
            "read_seconds", "Time that a scrape or a round of queries took.", READ_BUCKETS, "source"
        )
        for source in SOURCES:
            self._read_bytes.labels(source)
            self._read_seconds.labels(source)
            for outcome in ReadOutcome:
                self._reads.labels(source, outcome.value)


def ceiling_figures(ceiling: str) -> dict[str, float]:
    """The figures of a ceiling in words: `cpu 24, memory 96Gi`, or `5 held`; what is no figure is left out."""
    figures: dict[str, float] = {}
    for part in filter(None, ceiling.split(", ")):
        first, _, second = part.partition(" ")
        name, text = (second, first) if second == "held" else (first, second)
        try:
            figures[name] = parse_quantity(text) / 1000
        except QuantityError:
            continue
    return figures
