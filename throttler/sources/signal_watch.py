"""All sources as one: what the pacing law reads at each tick."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

from throttler.kube.caller import AttemptObserver, CeilingGate, ignore_attempt
from throttler.kube.connection import Connection
from throttler.kube.kube_client import KubeClient, open_client
from throttler.signals.reading import Signals
from throttler.signals.servers import Servers
from throttler.sources.allowed_hosts import is_loopback
from throttler.sources.outcome import ReadObserver, ignore_read
from throttler.sources.own_attempts import OwnAttempts
from throttler.sources.prometheus_access import PrometheusAccess
from throttler.sources.promql import PrometheusWatch
from throttler.sources.promql_client import PromqlClient
from throttler.sources.scrape_watch import ScrapeWatch
from throttler.sources.scraper import METRICS_PATH, Scraper
from throttler.sources.settings import SourceSettings

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
        random: Random | None = None,
    ) -> None:
        self.own = own or OwnAttempts(settings.interval_s)
        self._connection = connection
        self._settings = settings
        self._attempts = attempts
        self._scraper = Scraper(connection, COMPONENT, observer=observer)
        self._scraping = ScrapeWatch(connection, settings, self._scraper, random or Random())
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
