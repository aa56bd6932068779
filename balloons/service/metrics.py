"""The service's own metrics, and the small HTTP server for them: /metrics, /healthz and /readyz.

One registry, one prefix, no series per node. Label values that are known beforehand are
there from the start with 0, so that rates and alerts never meet a gap. docs/metrics.md is written from this registry
(tools/metrics_page.py).

With a certificate it speaks TLS only. Kubelets ask without a certificate of their own and check none, so probes stay
open where metrics ask for one.
"""

import asyncio
import enum
import math
import os
import platform
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from functools import partial

import structlog
from aiohttp import web
from prometheus_client import CollectorRegistry, Counter, Info, disable_created_metrics
from prometheus_client.exposition import choose_encoder

from balloons.decide.decision_and_reasons import PoolDecision
from balloons.service.pool_status_and_events import HELD_UP, TURNED_AWAY, Standing, standing
from balloons.service.preemptions_and_warm_hits import Found, GaveWay, Leaving, Taken
from balloons.service.settings import ListenAddress, MetricsTls, SettingsError
from balloons.view.tenancy_and_claim import Bound
from throttler.kube.kube_client import Attempt
from throttler.kube.metadata import ObjectKey
from throttler.kube.store import CacheEvent
from throttler.kube.watch_set import CacheState
from throttler.service.throttle_metrics import MetricMaker, ThrottleMetrics

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
    *("jointhrottles", "daemonsets", "configmaps", "nodepools", "nodeclaims", "capacityquotas", "machinedeployments"),
)
BIND_BUCKETS = (0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""Seconds: a preempted warm node is taken in milliseconds to seconds, a cold one in minutes."""
SHORT_BUCKETS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Seconds: from an idle loop to one that would lose a lease."""
_POOL = ("namespace", "pool")
OPEN_METRICS = "application/openmetrics-text; version=1.0.0"
PAGE_S = 1.0
"""How long one page of metrics is given to everybody who asks."""
MOST_CONNECTIONS = 128
"""Open at the same time; kubelets and a few Prometheus servers need a handful."""
HANDSHAKE_S = 10.0
"""How long a client may take to agree on TLS."""
Check = Callable[[], str]
"""Returns what is wrong, empty if nothing is."""
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
log = structlog.get_logger()


class ActionKind(enum.StrEnum):
    """The kinds of writes: a label of writes_total."""

    APPLY = "apply"
    DELETE = "delete"
    MARK = "mark"
    RELEASE = "release"
    ANNOTATE = "annotate"
    REMOVE = "remove"
    STATUS = "status"
    EVENT = "event"


class PoolWriteOutcome(enum.StrEnum):
    """How a write ended: a label of writes_total.

    Coarser than a lever's: whatever the cause, the whole pool rests, and users read the server's words in its status.
    """

    DONE = "done"
    GONE = "gone"
    """The object is not there any more: nothing left to do."""
    CONFLICT = "conflict"
    """Somebody changed the object since it was decided on: decide anew."""
    REFUSED = "refused"
    """The server will not have it: rights, admission, a webhook, quota, or a rule."""
    BUSY = "busy"
    """The server asks us to come back later."""
    UNKNOWN = "unknown"
    """No answer, or none that tells: it may have been done."""
    FENCED = "fenced"
    """Not sent: we do not lead, or not for sure."""


class Metrics:
    """Every metric of the service. Methods are told what happened and know which series that concerns.

    In a dry run of the whole service each pool stands as in one of its own: nothing is on its way.
    """

    def __init__(self, version: str, *, is_dry_run: bool = False) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry(auto_describe=True)
        self.labels: dict[str, tuple[str, ...]] = {f"{PREFIX}_build": ("version", "python")}
        """The label names of each family."""
        self._make = MetricMaker(PREFIX, self.registry, self.labels)
        self._leads: Callable[[], bool] = lambda: True
        self._is_dry_run = is_dry_run
        self._make_pool_gauges()
        self._make_decision_metrics()
        self._make_api_metrics()
        self.throttle = ThrottleMetrics(self.registry, self.labels, partial(self.watches, "throttles"))
        info = Info(f"{PREFIX}_build", "Version of the service and of Python.", registry=self.registry)
        info.info({"version": version, "python": platform.python_version()})
        self._shown: set[ObjectKey] = set()
        self._reasons: dict[ObjectKey, str] = {}
        self._watched: dict[str, frozenset[str]] = {}

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
                family.remove_by_labels({"namespace": gone.namespace, "pool": gone.name})
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

    def gave_way(self, event: GaveWay | Taken) -> None:
        """A balloon left its node for real work, or real work took such a node: all replicas see it, one counts."""
        if not self._leads():
            return
        if isinstance(event, GaveWay):
            self._preemptions.labels(event.how.value).inc()
        else:
            self._preempt_to_bind.observe(event.seconds)

    def bound(self, pool: ObjectKey, warmth: Found) -> None:
        """Real work was bound on a node of the pool: all replicas see it, one counts."""
        if self._leads():
            self._bound.labels(pool.namespace, pool.name, warmth.value).inc()

    # --- told by the client and the caches ---

    def attempt(self, attempt: Attempt) -> None:
        """One request went over the wire."""
        self._attempts.labels(attempt.verb, attempt.resource, attempt.code).inc()

    def cache_event(self, plural: str, event: CacheEvent) -> None:
        """Something happened to a watch cache."""
        self._cache_events.labels(plural, event.value).inc()

    def watches(self, half: str, states: Mapping[str, CacheState]) -> None:
        """How the watch caches of one half of the service stand; series of those that are no longer followed end."""
        for name, state in states.items():
            self._watch_age.labels(name).set(state.age_s)
            self._watch_complete.labels(name).set(state.is_complete)
            self._unreadable.labels(name).set(state.unreadable)
        for gone in self._watched.get(half, frozenset()) - states.keys():
            for gauge in (self._watch_age, self._watch_complete, self._unreadable):
                gauge.remove(gone)
        self._watched[half] = frozenset(states)

    # --- what they are ---

    def _show_pool(self, decision: PoolDecision) -> None:
        key, status, reason = decision.pool, decision.status, decision.because.reason
        for name, gauge in self._pool_gauges.items():
            gauge.labels(key.namespace, key.name).set(getattr(status, name))
        present = standing(reason, is_dry_run=self._is_dry_run or decision.is_dry_run)
        for state in Standing:
            self._standing.labels(key.namespace, key.name, state.name.lower()).set(present is state)
        for warmth in Found:
            self._bound.labels(key.namespace, key.name, warmth.value)
        if reason in HELD_UP and self._reasons.get(key) != decision.because.code:
            self._held_up.labels(decision.because.code).inc()
        self._reasons[key] = decision.because.code

    def _make_pool_gauges(self) -> None:
        texts = {
            "nodes": ("nodes", "Nodes that belong to the pool."),
            "busy": ("busy_nodes", "Nodes with so much work that no balloon fits beside it."),
            "warm": ("warm_nodes", "Nodes that are Ready, healthy, not busy and held."),
            "idle": (
                "idle_nodes",
                "Nodes that a balloon could hold and none holds yet, or whose balloon does not run yet.",
            ),
            "sick": ("sick_nodes", "Nodes that are not Ready, or that a health condition calls sick."),
            "pending": ("pending_balloons", "Balloons without a node."),
            "target": ("target_nodes", "Warm nodes wanted now."),
        }
        self._pool_gauges = {
            field: self._make.gauge(f"pool_{name}", text, *_POOL) for field, (name, text) in texts.items()
        }
        self._standing = self._make.gauge(
            "pool_standing",
            "1 for the present state of the pool: settled, moving, blind or stuck.",
            *_POOL,
            "standing",
        )
        self._refused = self._make.gauge(
            "refused_pools",
            "Pools that are not served, by the bound that they break: namespaces, or one of the operator's `bounds`.",
            "bound",
        )
        for bound in Bound:
            self._refused.labels(bound.value)
        self._bound = self._make.counter(
            "pool_bound_pods",
            "Real pods bound on the pool's nodes: warm if the node was there before the pod, else cold.",
            *_POOL,
            "found",
        )

    def _make_decision_metrics(self) -> None:
        self._leader = self._make.gauge("leader", "Whether this replica leads and may write (1) or stands by (0).")
        self._ticks = self._make.counter(
            "ticks", "Decisions, by whether they were made, failed, or left to the leader.", "outcome"
        )
        self._tick_seconds = self._make.histogram(
            "tick_seconds", "Time to take a snapshot and decide on it.", SHORT_BUCKETS
        )
        self._loop_lag = self._make.histogram(
            "loop_lag_seconds", "How late the event loop woke a timer, sampled once a second.", SHORT_BUCKETS
        )
        self._held_up = self._make.counter(
            "holds", "Times that a pool began to get less than it asks for, by reason (docs/pool-reasons.md).", "reason"
        )
        self._preemptions = self._make.counter("preemptions", "Balloons that gave way to real work.", "how")
        self._preempt_to_bind = self._make.histogram(
            "preempt_to_bind_seconds",
            "Time from a balloon's leaving its node for real work until the first real pod is bound there.",
            BIND_BUCKETS,
        )
        self._writes = self._make.counter("writes", "Writes, by what they do and how they ended.", "action", "outcome")
        _start(self._ticks, TICK_OUTCOMES)
        _start(self._held_up, sorted(reason.code for reason in HELD_UP))
        _start(self._preemptions, Leaving)
        for kind in ActionKind:
            for outcome in PoolWriteOutcome:
                self._writes.labels(kind.value, outcome.value)

    def _make_api_metrics(self) -> None:
        self._attempts = self._make.counter(
            "api_attempts",
            "Requests sent, retries included; code is the HTTP status, timeout, error or cancelled.",
            "verb",
            "resource",
            "code",
        )
        self._cache_events = self._make.counter(
            "cache_events", "Events of the watch caches, by kind.", "resource", "event"
        )
        self._watch_age = self._make.gauge(
            "watch_age_seconds",
            "Time since the server last sent something about a resource. A minute is normal where nothing changes.",
            "resource",
        )
        self._watch_complete = self._make.gauge(
            "watch_complete", "Whether the cache shows everything (1) or not (0).", "resource"
        )
        self._unreadable = self._make.gauge(
            "unreadable_objects", "Objects that exist, cannot be read, and are skipped.", "resource"
        )
        for plural in WATCHED:
            for event in CacheEvent:
                self._cache_events.labels(plural, event.value)


def _start(counter: Counter, values: Iterable[str]) -> None:
    for value in values:
        counter.labels(value)


@asynccontextmanager
async def serve_health(
    address: ListenAddress,
    registry: CollectorRegistry,
    is_alive: Check,
    is_ready: Check,
    remark: Check = lambda: "",
    *,
    tls: MetricsTls | None = None,
) -> AsyncIterator[ListenAddress]:
    """Serve until the block ends; gives the address in use. Raises SettingsError where it cannot.

    `remark` is what /healthz adds while it is well: what is wrong and a restart would not repair.
    """
    app = web.Application()
    page = Page(registry, asyncio.get_running_loop().time).answer
    app.router.add_get("/metrics", _to_known_clients(page) if tls and tls.client_ca_file else page)
    app.router.add_get("/healthz", _answer(is_alive, remark))
    app.router.add_get("/readyz", _answer(is_ready, lambda: ""))
    context = Certificate(tls).context if tls else None
    runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=0.5)
    await runner.setup()
    listening = await _listen(runner, address, context)
    try:
        host, port = listening.sockets[0].getsockname()[:2]
        served = ListenAddress(host, port)
        log.info("serving", address=str(served), paths=["/metrics", "/healthz", "/readyz"], is_tls=tls is not None)
        yield served
    finally:
        listening.close()
        await runner.cleanup()


class Page:
    """The metrics as text, written at most once a second: anybody may ask, and writing takes the decisions' time."""

    def __init__(self, registry: CollectorRegistry, clock: Callable[[], float]) -> None:
        self._registry = registry
        self._clock = clock
        self._written: dict[str, tuple[float, bytes]] = {}

    async def answer(self, request: web.Request) -> web.Response:
        """The page as of this second, in the format that was asked for."""
        kind, text = self.text(request.headers.get("Accept", ""))
        return web.Response(body=text, headers={"Content-Type": kind})

    def text(self, accept: str) -> tuple[str, bytes]:
        """Its content type and its text."""
        # Two formats and no more: each that is asked for would be a page of its own, under a name of the client's.
        encoder, kind = choose_encoder(OPEN_METRICS if OPEN_METRICS.partition(";")[0] in accept else "")
        now_s = self._clock()
        at_s, text = self._written.get(kind, (-math.inf, b""))
        if now_s - at_s >= PAGE_S:
            text = encoder(self._registry)
            self._written[kind] = now_s, text
        return kind, text


class Certificate:
    """What is in the files at each handshake: a Secret that is mounted may be rotated at any time.

    Raises SettingsError if they cannot be used at the start; later what was read last goes on.
    """

    def __init__(self, files: MetricsTls) -> None:
        self._files = files
        self._stamps = _stamps(files)
        self._newest = _server_context(files)
        self.context = _server_context(files)
        self.context.sni_callback = self._use_newest

    def _use_newest(self, connection: ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> None:
        # Asked of every client, whether it names a server or not.
        try:
            stamps = _stamps(self._files)
            if stamps != self._stamps:
                self._stamps = stamps
                self._newest = _server_context(self._files)
        except SettingsError as error:
            log.warning("metrics certificate could not be read again, the old one stays", problem=str(error))
        connection.context = self._newest


def _stamps(files: MetricsTls) -> tuple[tuple[int, int], ...]:
    """What differs once a file was written or replaced."""
    paths = filter(None, (files.cert_file, files.key_file, files.client_ca_file))
    try:
        return tuple((stat.st_ino, stat.st_mtime_ns) for stat in map(os.stat, paths))
    except OSError as error:
        raise _unusable(files, error.strerror or "", error.filename) from error


def _server_context(files: MetricsTls) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    path = files.cert_file
    try:
        # A password would be asked for on the terminal.
        context.load_cert_chain(files.cert_file, files.key_file, password="")
        if files.client_ca_file is not None:
            path = files.client_ca_file
            context.load_verify_locations(path)
            context.verify_mode = ssl.CERT_OPTIONAL
    except (OSError, ValueError) as error:
        raise _unusable(files, getattr(error, "reason", None) or "no PEM", path) from error
    return context


def _unusable(files: MetricsTls, problem: str, path: str) -> SettingsError:
    option = "--metrics-client-ca-file" if path == files.client_ca_file else "--metrics-cert-file, --metrics-key-file"
    return SettingsError(f"{option} {path!r}: {problem}; accepted are PEM files, and the key that belongs to it")


def _to_known_clients(handler: Handler) -> Handler:
    async def answer(request: web.Request) -> web.StreamResponse:
        # The handshake has refused certificates of other authorities.
        if request.transport is None or not request.transport.get_extra_info("peercert"):
            return web.Response(text="metrics are read with a client certificate only\n", status=403)
        return await handler(request)

    return answer


async def _listen(runner: web.AppRunner, address: ListenAddress, context: ssl.SSLContext | None) -> asyncio.Server:
    timeout_s = HANDSHAKE_S if context else None
    try:
        return await asyncio.get_running_loop().create_server(
            _with_room(runner), address.host, address.port, ssl=context, ssl_handshake_timeout=timeout_s
        )
    except OSError as error:
        await runner.cleanup()
        raise SettingsError(
            f"metrics address {address}: {error.strerror}; accepted is an address that is free here, port 0 takes any"
        ) from error


def _with_room(runner: web.AppRunner) -> Callable[[], asyncio.Protocol]:
    """Makes the handler of a connection; the oldest ones go where there are too many, as probes are over at once."""
    server = runner.server
    if server is None:
        raise RuntimeError("the server is not set up")

    def handler() -> asyncio.Protocol:
        open_now = server.connections
        for oldest in open_now[: max(0, len(open_now) + 1 - MOST_CONNECTIONS)]:
            oldest.force_close()
        return server()

    return handler


def _answer(check: Check, remark: Check) -> Handler:
    async def answer(request: web.Request) -> web.Response:
        problem = check()
        text = problem or "; ".join(filter(None, ("ok", remark())))
        return web.Response(text=f"{text}\n", status=503 if problem else 200)

    return answer
