"""The service's own metrics: one registry, one prefix, no series per node.

Label values that are known beforehand are there from the start with 0, so that rates and alerts never meet a gap.
docs/metrics.md is written from this registry (metrics_page.py).
"""

import platform
from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, disable_created_metrics

from balloons.decide.plan import PoolDecision
from balloons.service.arrivals import Found
from balloons.service.preemptions import GaveWay, Leaving, Taken
from balloons.service.standing import HOLDS, TURNED_AWAY, Standing, standing
from balloons.service.write_outcome import ActionKind, PoolWriteOutcome
from balloons.view.claim import Bound
from throttler.kube.caller import Attempt
from throttler.kube.metadata import ObjectKey
from throttler.kube.store import CacheEvent
from throttler.service.throttle_metrics import ThrottleMetrics

PREFIX = "kube_balloons"
TICK_OUTCOMES = ("decided", "failed", "stood_by")
FAILED_BALLOONS = "failed balloons"
"""The second watch of pods, by the name that metrics and messages give it."""
WATCHED = (
    *(
        "nodes",
        "pods",
        FAILED_BALLOONS,
        "balloonpools",
        "deployments",
        "priorityclasses",
        "podtemplates",
        "capacitybuffers",
    ),
    *("jointhrottles", "daemonsets", "configmaps", "nodepools", "nodeclaims", "capacityquotas"),
)
BIND_BUCKETS = (0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""Seconds: a preempted warm node is taken in milliseconds to seconds, a cold one in minutes."""
SHORT_BUCKETS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Seconds: from an idle loop to one that would lose a lease."""
_POOL = ("namespace", "pool")


class Metrics:
    """Every metric of the service. Methods are told what happened and know which series that concerns."""

    def __init__(self, version: str) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry(auto_describe=True)
        self.labels: dict[str, tuple[str, ...]] = {f"{PREFIX}_build": ("version", "python")}
        """The label names of each family that has any."""
        self._leads: Callable[[], bool] = lambda: True
        self._make_pool_gauges()
        self._make_decision_metrics()
        self._make_api_metrics()
        self.throttle = ThrottleMetrics(self.registry, self.labels)
        info = Info(f"{PREFIX}_build", "Version of the service and of Python.", registry=self.registry)
        info.info({"version": version, "python": platform.python_version()})
        self._shown: set[ObjectKey] = set()
        self._reasons: dict[ObjectKey, str] = {}

    def follow_leader(self, leads: Callable[[], bool]) -> None:
        """Ask at each scrape whether this replica leads; one that does not counts nothing that the leader counts."""
        self._leads = leads
        self._leader.set_function(lambda: float(leads()))

    # --- told by the loop ---

    def show(self, decisions: Iterable[PoolDecision]) -> None:
        """The pools as they were decided; series of pools that are gone end."""
        shown, refused = set(), dict.fromkeys(Bound, 0)
        for decision in decisions:
            if decision.because.reason in TURNED_AWAY:
                refused[Bound(decision.because.detail["bound"])] += 1
                continue
            shown.add(decision.pool)
            self._show_pool(decision)
        for gone in self._shown - shown:
            self._reasons.pop(gone, None)
            for family in (*self._pool_gauges.values(), self._standing, self._bound):
                family.remove_by_labels(_labels_of(gone))
        self._shown = shown
        for bound, count in refused.items():
            self._refused.labels(bound.value).set(count)

    def tick(self, outcome: str, seconds: float) -> None:
        """One decision was made, or failed."""
        self._ticks.labels(outcome).inc()
        self._tick_seconds.observe(seconds)

    def lag(self, seconds: float) -> None:
        """How late the event loop woke a timer."""
        self._loop_lag.observe(seconds)

    def wrote(self, kind: ActionKind, outcome: PoolWriteOutcome) -> None:
        """One write has ended."""
        self._writes.labels(kind.value, outcome.value).inc()

    def gave_way(self, seen: GaveWay | Taken) -> None:
        """A balloon left its node for real work, or real work took such a node: all replicas see it, one counts."""
        if not self._leads():
            return
        if isinstance(seen, GaveWay):
            self._preemptions.labels(seen.how.value).inc()
        else:
            self._preempt_to_bind.observe(seen.seconds)

    def bound(self, pool: ObjectKey, found: Found) -> None:
        """Real work was bound on a node of the pool: all replicas see it, one counts."""
        if self._leads():
            self._bound.labels(pool.namespace, pool.name, found.value).inc()

    # --- told by the client and the caches ---

    def attempt(self, attempt: Attempt) -> None:
        """One request went over the wire."""
        self._attempts.labels(attempt.verb, attempt.resource, attempt.code).inc()

    def cache_event(self, plural: str, event: CacheEvent) -> None:
        """Something happened to a watch cache."""
        self._cache_events.labels(plural, event.value).inc()

    def watch(self, plural: str, age_s: float, is_complete: bool, unreadable: int) -> None:
        """The state of one watch cache."""
        self._watch_age.labels(plural).set(age_s)
        self._watch_complete.labels(plural).set(is_complete)
        self._unreadable.labels(plural).set(unreadable)

    def unwatch(self, plural: str) -> None:
        """The resource is no longer served, and so no longer watched."""
        for gauge in (self._watch_age, self._watch_complete, self._unreadable):
            gauge.remove(plural)

    # --- what they are ---

    def _show_pool(self, decision: PoolDecision) -> None:
        key, status, reason = decision.pool, decision.status, decision.because.reason
        for name, gauge in self._pool_gauges.items():
            gauge.labels(key.namespace, key.name).set(getattr(status, name))
        for each in Standing:
            self._standing.labels(key.namespace, key.name, each.name.lower()).set(standing(reason) is each)
        for found in Found:
            self._bound.labels(key.namespace, key.name, found.value)
        if reason in HOLDS and self._reasons.get(key) != decision.because.code:
            self._holds.labels(decision.because.code).inc()
        self._reasons[key] = decision.because.code

    def _make_pool_gauges(self) -> None:
        texts = {
            "nodes": ("nodes", "Nodes that belong to the pool."),
            "busy": ("busy_nodes", "Nodes that run work that leaves no room for a balloon."),
            "warm": ("warm_nodes", "Nodes that are Ready, healthy, free of work and held."),
            "idle": ("idle_nodes", "Nodes that could be held and are not, or whose balloon does not run yet."),
            "sick": ("sick_nodes", "Nodes that are not Ready, or that a health condition calls sick."),
            "pending": ("pending_balloons", "Balloons without a node."),
            "target": ("target_nodes", "Warm nodes wanted now."),
        }
        self._pool_gauges = {field: self._gauge(f"pool_{name}", text, *_POOL) for field, (name, text) in texts.items()}
        self._standing = self._gauge(
            "pool_standing",
            "1 for how the pool stands: settled, moving, blind or stuck.",
            *_POOL,
            "standing",
        )
        self._refused = self._gauge(
            "refused_pools",
            "Pools that are not served, by the bound that they break: namespaces, or one of the operator's `bounds`.",
            "bound",
        )
        for bound in Bound:
            self._refused.labels(bound.value)
        self._bound = self._counter(
            "pool_bound_pods",
            "Real pods bound on the pool's nodes: warm where the node was there first, cold where the pod was.",
            *_POOL,
            "found",
        )

    def _make_decision_metrics(self) -> None:
        self._leader = self._gauge("leader", "Whether this replica leads and may write (1) or stands by (0).")
        self._ticks = self._counter(
            "ticks", "Decisions, by whether they were made, failed, or left to the leader.", "outcome"
        )
        self._tick_seconds = self._histogram("tick_seconds", "Time to take a snapshot and decide on it.", SHORT_BUCKETS)
        self._loop_lag = self._histogram(
            "loop_lag_seconds", "How late the event loop woke a timer, sampled once a second.", SHORT_BUCKETS
        )
        self._holds = self._counter(
            "holds", "Times a pool began to get less than it asks for, by reason (docs/runbook.md).", "reason"
        )
        self._preemptions = self._counter("preemptions", "Balloons that gave way to real work.", "how")
        self._preempt_to_bind = self._histogram(
            "preempt_to_bind_seconds",
            "From a balloon leaving its node for real work to the first real pod bound there.",
            BIND_BUCKETS,
        )
        self._writes = self._counter("writes", "Writes by what they do and how they ended.", "action", "outcome")
        _start(self._ticks, TICK_OUTCOMES)
        _start(self._holds, sorted(reason.code for reason in HOLDS))
        _start(self._preemptions, Leaving)
        for kind in ActionKind:
            for outcome in PoolWriteOutcome:
                self._writes.labels(kind.value, outcome.value)

    def _make_api_metrics(self) -> None:
        self._attempts = self._counter(
            "api_attempts",
            "Requests sent, retries included; code is the HTTP status, timeout, error or cancelled.",
            "verb",
            "resource",
            "code",
        )
        self._cache_events = self._counter("cache_events", "What happened to the watch caches.", "resource", "event")
        self._watch_age = self._gauge(
            "watch_age_seconds",
            "Time since the server last spoke of a resource; a minute is normal on a quiet one.",
            "resource",
        )
        self._watch_complete = self._gauge(
            "watch_complete", "Whether the cache shows everything (1) or not (0).", "resource"
        )
        self._unreadable = self._gauge(
            "unreadable_objects", "Objects that exist and cannot be read; they are skipped.", "resource"
        )
        for plural in WATCHED:
            for event in CacheEvent:
                self._cache_events.labels(plural, event.value)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        self.labels[f"{PREFIX}_{name}"] = labels
        return Counter(f"{PREFIX}_{name}_total", text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        self.labels[f"{PREFIX}_{name}"] = labels
        return Gauge(f"{PREFIX}_{name}", text, labels, registry=self.registry)

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(f"{PREFIX}_{name}", text, buckets=buckets, registry=self.registry)


def _labels_of(pool: ObjectKey) -> dict[str, str]:
    return {"namespace": pool.namespace, "pool": pool.name}


def _start(counter: Counter, values: Iterable[str]) -> None:
    for value in values:
        counter.labels(value)
