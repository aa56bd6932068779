"""All sources as one: what the pacing law reads at each tick, by one watch for each set of settings that a throttle
names.

What our own requests meet is the third source, there even when nothing may be scraped. It is coarse (a few requests per
second, through one server at a time, the network included) and always on: its errors count, its latency is worth
something where there is no other.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from random import Random

import structlog

from throttler.api.throttle import JoinThrottle
from throttler.kube.connection import Connection
from throttler.kube.errors import ConfigError
from throttler.kube.kube_client import (
    CANCELLED,
    ERROR,
    TIMEOUT,
    Attempt,
    AttemptObserver,
    CeilingGate,
    KubeClient,
    ignore_attempt,
    open_client,
)
from throttler.kube.quantities_and_durations import QuantityError
from throttler.scraping.prometheus_watch import PrometheusWatch
from throttler.scraping.promql_client import PrometheusAccess, PromqlClient
from throttler.scraping.scrape_watch import METRICS_PATH, Scraper, ScrapeWatch
from throttler.scraping.settings_and_allowed_hosts import SourceSettings, is_loopback, source_settings
from throttler.signals.reading import LONGEST_WINDOW_S, Reading, ReadObserver, Signals, ignore_read
from throttler.signals.servers import OWN_REQUESTS, Servers

_SINGLE_OBJECT = frozenset({"get", "create", "apply", "patch", "delete"})


@dataclass(slots=True)
class _Counts:
    requests: int = 0
    errors: int = 0
    timed: int = 0
    seconds: float = 0.0


class OwnAttempts:
    """Counts attempts into windows of at least `window_s`; `observe` is an AttemptObserver for any client."""

    def __init__(self, window_s: float) -> None:
        self._window_s = window_s
        self._since_s: float | None = None
        self._counts = _Counts()
        self._last: Reading | None = None

    def observe(self, attempt: Attempt) -> None:
        """One attempt has ended; one that we gave up, or that a webhook spoilt, says nothing about the server."""
        if attempt.code == CANCELLED or attempt.is_of_webhook:
            return
        counts = self._counts
        counts.requests += 1
        counts.errors += _is_error(attempt)
        if attempt.verb in _SINGLE_OBJECT and attempt.code != ERROR:
            counts.timed += 1
            counts.seconds += attempt.seconds

    def reading(self, now_s: float) -> Reading | None:
        """The newest complete window, closing the open one when it is long enough; None before the first.

        One that nobody asked for, as while another replica led for days, says nothing about now.
        """
        since_s = now_s if self._since_s is None else self._since_s
        if self._since_s is None or now_s - since_s >= self._window_s:
            if 0 < now_s - since_s <= LONGEST_WINDOW_S:
                self._last = _reading(self._counts, since_s, now_s)
            self._counts, self._since_s = _Counts(), now_s
        return self._last


def _reading(counts: _Counts, since_s: float, now_s: float) -> Reading:
    return Reading(
        server=OWN_REQUESTS,
        ended_s=now_s,
        span_s=now_s - since_s,
        requests=float(counts.requests),
        errors=float(counts.errors),
        latency_s=counts.seconds / counts.timed if counts.timed else None,
    )


def _is_error(attempt: Attempt) -> bool:
    """429 and 5xx, and no answer at all."""
    return attempt.code in {TIMEOUT, ERROR, "429"} or attempt.code.startswith("5")


COMPONENT = "signals"


class SignalWatch:
    """Reads every source for as long as `run` runs; `signals` may be asked at any time.

    `own` is what the service's other clients report their attempts to (`own.observe`). `observer` counts reads,
    `attempts` the few API calls that find the servers. `access` is what the operator gives for one Prometheus. Raises
    ConfigError for addresses that cannot be used.
    """

    def __init__(
        self,
        connection: Connection,
        settings: SourceSettings,
        *,
        own: OwnAttempts | None = None,
        observer: ReadObserver = ignore_read,
        attempts: AttemptObserver = ignore_attempt,
        access: PrometheusAccess | None = None,
    ) -> None:
        self.own = own or OwnAttempts(settings.interval_s)
        self._connection = connection
        self._settings = settings
        self._attempts = attempts
        self._scraper = Scraper(connection, COMPONENT, observer=observer)
        self._scraping = ScrapeWatch(connection, settings, self._scraper, Random())
        self._prometheus = _prometheus(settings, connection, observer, access)

    async def run(self) -> None:
        """Runs until cancelled."""
        async with asyncio.TaskGroup() as group:
            if self._settings.scrapes:
                group.create_task(self._run_scrapes())
            if self._prometheus:
                group.create_task(self._prometheus.run())
            # Also where our own requests are the only source.
            await asyncio.get_running_loop().create_future()

    def signals(self, now_s: float) -> Signals:
        """The newest complete window of every server, as of `now_s` (the loop's time)."""
        servers, own = self._servers(), self.own.reading(now_s)
        return Signals(
            readings=(*servers.readings(), *([own] if own else [])),
            silent=servers.silent(now_s),
            alarms=self._prometheus.alarms(now_s) if self._prometheus else (),
            problems=self._problems(now_s),
        )

    def _servers(self) -> Servers:
        """Prometheus speaks for the servers where scraping is off, or where no server lets us scrape it."""
        can_scrape = self._settings.scrapes and not self._scraping.is_forbidden
        return self._scraping.servers if can_scrape or not self._prometheus else self._prometheus.servers

    def _problems(self, now_s: float) -> tuple[str, ...]:
        problems = self._scraping.problems(now_s)
        if self._scraping.is_forbidden:
            problems = (*problems, f"no right to read {METRICS_PATH} of any API server")
        return (*problems, *(self._prometheus.problems if self._prometheus else ()))

    async def _run_scrapes(self) -> None:
        with self._scraper:
            async with self._client() as client:
                await self._scraping.run(client)

    @asynccontextmanager
    async def _client(self) -> AsyncIterator[KubeClient]:
        gate = CeilingGate(1.0, burst=4)
        async with open_client(self._connection, COMPONENT, gate=gate, observer=self._attempts) as client:
            yield client


def _prometheus(
    settings: SourceSettings, connection: Connection, observer: ReadObserver, access: PrometheusAccess | None
) -> PrometheusWatch | None:
    if settings.prometheus_url is None:
        return None
    is_lab = is_loopback(connection.base_url)
    client = PromqlClient(settings.prometheus_url, access=access, allows_loopback=is_lab)
    return PrometheusWatch(client, settings.alarms, observer=observer)


log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class _Running:
    """A watch and its task."""

    watch: SignalWatch
    task: asyncio.Task[None]


class SignalWatches:
    """Begins and ends watches as throttles come and go; `own` is what the service's clients report to, `access` what
    the operator gives for one Prometheus."""

    def __init__(
        self,
        connection: Connection,
        own: OwnAttempts,
        observer: ReadObserver,
        attempts: AttemptObserver,
        access: PrometheusAccess | None = None,
    ) -> None:
        self._connection = connection
        self._own = own
        self._observer = observer
        self._attempts = attempts
        self._access = access
        self._running: dict[SourceSettings, _Running] = {}
        self._settings: dict[str, SourceSettings] = {}
        self._problems: dict[str, str] = {}

    def follow(self, throttles: Iterable[JoinThrottle]) -> None:
        """Run what these throttles name, and nothing else."""
        self._settings, self._problems = {}, {}
        for throttle in throttles:
            self._follow_one(throttle)
        for settings in self._running.keys() - self._settings.values():
            self._running.pop(settings).task.cancel()

    def by_throttle(self, now_s: float) -> dict[str, Signals]:
        """What each throttle's sources tell at `now_s` (monotonic)."""
        by_settings = {settings: running.watch.signals(now_s) for settings, running in self._running.items()}
        told = {name: by_settings[settings] for name, settings in self._settings.items()}
        return told | {name: Signals(problems=(problem,)) for name, problem in self._problems.items()}

    def distinct(self, now_s: float) -> list[Signals]:
        """The same without repetition, for metrics of servers."""
        return [running.watch.signals(now_s) for running in self._running.values()]

    def _follow_one(self, throttle: JoinThrottle) -> None:
        name = throttle.metadata.name
        try:
            settings = source_settings(throttle.spec.signals)
            if settings not in self._running or self._running[settings].task.done():
                self._running[settings] = self._begin(settings)
            self._settings[name] = settings
        except (ConfigError, QuantityError) as error:
            self._problems[name] = str(error)

    def _begin(self, settings: SourceSettings) -> _Running:
        watch = SignalWatch(
            self._connection,
            settings,
            own=self._own,
            observer=self._observer,
            attempts=self._attempts,
            access=self._access,
        )
        task = asyncio.create_task(watch.run(), name="signals")
        task.add_done_callback(_ended)
        return _Running(watch, task)


def _ended(task: asyncio.Task[None]) -> None:
    """A watch that failed is begun anew at the next tick."""
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("reading signals failed", exc_info=error)
