"""Start-up and end of the service: makes the parts, runs them together, ends them in order."""

import asyncio
import signal
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import structlog

from balloons.service.clients import Clients, open_clients
from balloons.service.events import Announcer
from balloons.service.health import serve_health
from balloons.service.lag import measure_lag
from balloons.service.loop import DecisionLoop
from balloons.service.metrics import Metrics
from balloons.service.pacing import make_throttling
from balloons.service.pool_writes import PoolWrites
from balloons.service.preemptions import Preemptions
from balloons.service.report import Reporter
from balloons.service.settings import ServiceSettings, parse_address
from balloons.service.wake import Wake
from balloons.service.watches import Watches
from balloons.service.writer import Writer
from balloons.view.snapshot import Index
from throttler.kube.errors import ForbiddenError

log = structlog.get_logger()


async def serve(settings: ServiceSettings, version: str) -> bool:
    """Run until SIGTERM or SIGINT, or once; returns whether it ended well.

    Raises ConfigError and SettingsError when it cannot start as asked, ApiError when it is to look once and cannot.
    """
    stop = asyncio.Event()
    _stop_on_signals(stop)
    metrics = Metrics(version)
    async with open_clients(settings, metrics) as clients:
        service = Service(settings, metrics, clients)
        served = sorted(settings.tenancy.namespaces) or "all"
        log.info("starting", version=version, dry_run=settings.is_dry_run, namespaces=served)
        return await service.run(stop)


class Service:
    """The parts, wired."""

    def __init__(self, settings: ServiceSettings, metrics: Metrics, clients: Clients) -> None:
        clock = asyncio.get_running_loop().time
        wake, preemptions = Wake(clock), Preemptions()
        index = Index(settings.decide.priority_class, settings.tenancy)
        self._settings = settings
        self._metrics = metrics
        self._clock = clock
        self._elector = clients.elector
        self._reading = clients.reading
        self._is_stopping = False
        metrics.follow_leader(self._leads)
        self._watches = Watches(clients.reading, index, wake, metrics, preemptions, clock=clock)
        reporter = Reporter(clients.reporting, index.pool, Announcer(socket.gethostname()), metrics, clock)
        self._writes = PoolWrites(
            Writer(clients.writing, clients.urgent, clients.noting, clock),
            reporter,
            self._watches,
            metrics,
            preemptions,
            is_dry_run=settings.is_dry_run,
            clock=clock,
        )
        self._wake = wake
        self._throttling = make_throttling(clients, settings, metrics, wake.poke, clock)
        self._loop = DecisionLoop(
            index,
            self._watches,
            self._writes,
            wake,
            metrics,
            preemptions,
            settings.decide,
            interval_s=settings.interval_s,
            clock=clock,
            pacing=self._throttling,
            leads=self._leads,
        )

    async def run(self, stop: asyncio.Event) -> bool:
        """Serve, watch and decide until `stop`; background tasks end with the loop.

        Who looks once does not wait for a server that is not there: raises ApiError.
        """
        if self._settings.is_once:
            with suppress(ForbiddenError):
                await self._reading.get_raw("/version")
        async with self._health(), asyncio.TaskGroup() as group:
            background = [
                group.create_task(self._watches.run(), name="watches"),
                group.create_task(self._throttling.run(), name="throttle watches"),
                group.create_task(measure_lag(self._metrics.lag), name="lag"),
            ]
            if self._elector is not None:
                campaign = self._elector.run(self._is_deciding, lambda: self._wake.poke(0.0))
                background.append(group.create_task(campaign, name="election"))
            try:
                return await (self._once(stop) if self._settings.is_once else self._until(stop))
            finally:
                for task in background:
                    task.cancel()

    async def _until(self, stop: asyncio.Event) -> bool:
        await self._loop.run(stop)
        log.info("stopping")
        self._is_stopping = True
        await asyncio.gather(self._writes.drain(self._settings.shutdown_s), self._throttling.stop())
        if self._elector is not None:
            # The last act: from here on a successor writes (controller-runtime#1132).
            await self._elector.release()
        log.info("stopped")
        return True

    async def _once(self, stop: asyncio.Event) -> bool:
        deadline = self._clock() + self._settings.once_timeout_s
        while not (self._watches.is_complete and self._throttling.is_known) and not stop.is_set():
            if self._clock() > deadline:
                log.error("view incomplete", missing=self._watches.missing, waited_s=self._settings.once_timeout_s)
                return False
            await asyncio.sleep(0.05)
        self._loop.tick()
        await self._writes.drain(self._settings.once_timeout_s)
        await self._throttling.stop()
        return self._loop.decided_at is not None and not self._writes.problems

    @asynccontextmanager
    async def _health(self) -> AsyncIterator[None]:
        address = parse_address(self._settings.metrics_address)
        if address is None or self._settings.is_once:
            yield
            return
        checks = self.not_alive, self._not_ready, self.blind_in_words
        async with serve_health(address, self._metrics.registry, *checks, tls=self._settings.metrics_tls):
            yield

    def not_alive(self) -> str:
        """Alive means that decisions are made; a server that is away does not end them.

        A replica that is blind and holds the Lease all the same is not alive: the server answers it, and its caches do
        not recover. One that is blind and stands by is: a restart would begin a slow list anew.
        """
        if (blind := self.blind_in_words()) and self._elector is not None and self._elector.may_write():
            return f"leading without a complete view: {blind}"
        longest_s = max(60.0, 3 * self._settings.interval_s)
        decided_at = self._loop.decided_at
        if decided_at is None or self._clock() - decided_at <= longest_s:
            return ""
        return f"no decision for {self._clock() - decided_at:.0f} s"

    def blind_in_words(self) -> str:
        """What has not been seen for longer than a leader may go on without; empty where all is seen."""
        incomplete_s = self._watches.incomplete_s
        if incomplete_s <= self._settings.blind_s:
            return ""
        return f"view incomplete for {incomplete_s:.0f} s: {', '.join(self._watches.missing)}"

    def _is_deciding(self) -> bool:
        """Whether the loop's heart beats, and on what there is: what is held must be let go when it does not,
        and another replica may see what this one does not.

        On a stop, which ends by itself in seconds, what is held is being given back.
        """
        decided_at = self._loop.decided_at
        is_beating = decided_at is not None and self._clock() - decided_at <= 2 * self._settings.interval_s
        return (is_beating and not self.blind_in_words()) or self._is_stopping

    def _leads(self) -> bool:
        return self._elector is None or self._elector.is_alone or self._elector.may_write()

    def _not_ready(self) -> str:
        """Ready means that the view is complete, so that this replica could lead at once; not that it does."""
        if not self._watches.is_complete:
            return f"view incomplete: {', '.join(self._watches.missing)}"
        return "" if self._loop.decided_at is not None else "no decision yet"


def _stop_on_signals(stop: asyncio.Event) -> None:
    """The first signal ends the service in order, a second one at once."""
    loop = asyncio.get_running_loop()

    def handler_of(number: signal.Signals) -> Callable[[], None]:
        def handle() -> None:
            log.info("signal", name=number.name)
            stop.set()
            loop.remove_signal_handler(number)

        return handle

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, handler_of(number))
