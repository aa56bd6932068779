"""Start-up and end of the service: makes the parts and their clients, runs them together, ends them in order.

The ceilings of its clients are apart, and so are their connections. How late the event loop is (`measure_lag`) is the
first thing to look at when a lease or a watch is lost.
"""

import asyncio
import signal
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass

import structlog

from balloons.service.action_calls_and_pool_status import PoolStatusWriter, Writer
from balloons.service.loop import DecisionLoop, Wake
from balloons.service.metrics import Metrics, serve_health
from balloons.service.pool_status_and_events import Announcer
from balloons.service.pool_write_queue import PoolWrites
from balloons.service.preemptions_and_warm_hits import Preemptions
from balloons.service.settings import ServiceSettings
from balloons.service.watches import Watches
from balloons.view.index_and_snapshot import Index
from throttler.kube.connection import Connection, ConnectionOptions, load_connection
from throttler.kube.errors import ForbiddenError
from throttler.kube.kube_client import MOST_PER_S, Attempt, CeilingGate, KubeClient, open_client
from throttler.kube.lease import Elector, ElectorSettings, open_lease_client
from throttler.kube.transport import MaySend, always
from throttler.scraping.signal_watch import OwnAttempts, SignalWatches
from throttler.service.lever_calls import LeverWriter
from throttler.service.restore_all import InForce
from throttler.service.throttle_status import ThrottleAnnouncer
from throttler.service.throttle_watches import ThrottleWatches
from throttler.service.throttle_write_queue import ThrottleStatusWriter, ThrottleWrites
from throttler.service.throttling import Throttling

PERIOD_S = 1.0
READS_PER_S, READ_BURST = 20.0, 25
"""Lists, watches and discovery: a handful at the start, then one now and then. They never queue behind writes. Pages of
a list come one after the other, in 70 ms each: at 5 a second, 150,000 pods took a minute, most of it spent waiting."""
BURST_S = 60.0
"""The ceiling on writes is an average over this long."""
URGENT_TIMES, URGENT_BURST = 10.0, 300
"""What gives nodes back to work may come so many times as often as other writes, and so many at once: at the default 50
a second, which is what a scheduler binds. A gang of 1,000 has its nodes after 18 s, one of 300 at once."""
STATUS_SHARE, STATUS_BURST_S = 0.5, 30.0
"""Status and Events, on top of the writes they tell of: 100 pools whose figures move need 4 a second at the most."""
NOTES_BURST_S = 1.0
"""Annotations of nodes go out evenly: there may be thousands, and none is in a hurry."""
ONCE_TIMEOUT_S = 60.0
"""How long `--once` waits for the view to be complete."""
MOST_BLIND_S = 180.0
"""How long a leader may go on without a complete view before it leaves the Lease to another replica: longer than an API
server takes to restart (a minute), or a busy one to list 150,000 pods in pages (30 s)."""
SHUTDOWN_S = 1.0
"""How long writes under way may take to finish when the service is told to end."""
OWN_WINDOW_S = 5.0
"""What our own requests meet is told as windows of this length, as scrapes are."""
log = structlog.get_logger()


async def measure_lag(tell: Callable[[float], None]) -> None:
    """Once a second, tell how much later than asked a timer fired; until cancelled."""
    clock = asyncio.get_running_loop().time
    while True:
        asked_at = clock()
        await asyncio.sleep(PERIOD_S)
        tell(max(0.0, clock() - asked_at - PERIOD_S))


@dataclass(frozen=True, slots=True, kw_only=True)
class Clients:
    """Who reads, who writes for pools (what may wait, what is urgent, notes on nodes, status and Events), who moves
    ceilings, and who releases what is held one by one; `own` is what they all meet. None waits for another's ceiling of
    calls.

    With `max_calls_per_s` of 5, all of them together send at most 92.5 requests a second while a release lasts, and
    42.5 otherwise: reads 20, writes 5, notes 5, status 2.5, ceilings 5, what is held 5; releases and deletes 50.

    `elector` holds the Lease that the writers are fenced by; None where no Lease is held, in a dry run for one.
    """

    connection: Connection
    reading: KubeClient
    writing: KubeClient
    urgent: KubeClient
    noting: KubeClient
    telling: KubeClient
    pulling: KubeClient
    releasing: KubeClient
    elector: Elector | None
    own: OwnAttempts


@asynccontextmanager
async def open_clients(settings: ServiceSettings, metrics: Metrics) -> AsyncIterator[Clients]:
    """All of them, on one connection's credentials. Raises ConfigError."""
    connection = await load_connection(ConnectionOptions(kubeconfig=settings.kubeconfig, context=settings.context))
    own = OwnAttempts(OWN_WINDOW_S)

    def observe(attempt: Attempt) -> None:
        metrics.attempt(attempt)
        own.observe(attempt)

    async with AsyncExitStack() as stack:
        leasing = await stack.enter_async_context(open_lease_client(connection, observer=metrics.attempt))
        elector = _elector(settings, leasing)
        may_pull = elector.may_write if elector is not None else always
        # A single replica may keep pools without a Lease; the guard needs a Lease that moves all the same.
        may_write = always if settings.is_alone else may_pull

        async def opened(component: str, gate: CeilingGate, may_send: MaySend = always) -> KubeClient:
            client = open_client(connection, component, gate=gate, observer=observe, may_send=may_send)
            return await stack.enter_async_context(client)

        yield Clients(
            connection=connection,
            reading=await opened("watch", CeilingGate(READS_PER_S, burst=READ_BURST)),
            writing=await opened("service", gate_of(settings), may_write),
            urgent=await opened("urgent", urgent_gate_of(settings), may_write),
            noting=await opened("notes", gate_of(settings, 1.0, NOTES_BURST_S), may_write),
            telling=await opened("status", gate_of(settings, STATUS_SHARE, STATUS_BURST_S), may_write),
            pulling=await opened("throttle", gate_of(settings), may_pull),
            releasing=await opened("release", gate_of(settings), may_pull),
            elector=elector,
            own=own,
        )


def _elector(settings: ServiceSettings, leasing: KubeClient) -> Elector | None:
    """None for who writes nothing, and for who would not be there to renew what he took."""
    if settings.is_dry_run or settings.is_once:
        return None
    return Elector(leasing, ElectorSettings(namespace=settings.lease_namespace, is_alone=settings.is_alone))


def gate_of(settings: ServiceSettings, share: float = 1.0, burst_s: float = BURST_S) -> CeilingGate:
    """The ceiling of one kind of calls: a share of the setting, averaged over `burst_s`."""
    calls_per_s = settings.max_calls_per_s * share
    return CeilingGate(calls_per_s, burst=max(1, int(calls_per_s * burst_s)))


def urgent_gate_of(settings: ServiceSettings) -> CeilingGate:
    """The ceiling of what gives nodes back to work."""
    return CeilingGate(min(MOST_PER_S, settings.max_calls_per_s * URGENT_TIMES), burst=URGENT_BURST)


def make_throttling(
    clients: Clients,
    settings: ServiceSettings,
    metrics: Metrics,
    poke: Callable[[float], None],
    clock: Callable[[], float],
) -> Throttling:
    """All parts. One decision (`--once`) holds nothing, because nobody would renew what it held."""
    is_dry_run = settings.is_dry_run or settings.is_once
    return Throttling(
        ThrottleWatches(clients.reading, poke, metrics.cache_event),
        SignalWatches(clients.connection, clients.own, metrics.throttle.read, metrics.attempt, settings.prometheus),
        ThrottleWrites(
            LeverWriter(clients.pulling),
            LeverWriter(clients.releasing),
            ThrottleStatusWriter(clients.pulling, ThrottleAnnouncer(socket.gethostname()), clock),
            metrics.throttle,
            clock,
            is_dry_run=is_dry_run,
        ),
        InForce(clients.connection, clients.elector, settings.deployment),
        metrics.throttle,
        clock,
        clients.reading.now_s,
    )


async def serve(settings: ServiceSettings, version: str) -> bool:
    """Run until SIGTERM or SIGINT, or once; returns whether it ended well.

    Raises ConfigError and SettingsError when it cannot start as asked, ApiError when it is to look once and cannot.
    """
    stop = stop_on_signals(lambda name: log.info("signal", name=name))
    metrics = Metrics(version, is_dry_run=settings.is_dry_run)
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
        index = Index(settings.tenancy)
        self._settings = settings
        self._metrics = metrics
        self._clock = clock
        self._elector = clients.elector
        self._reading = clients.reading
        self._is_stopping = False
        metrics.follow_leader(self._leads)
        self._watches = Watches(clients.reading, index, wake, metrics, preemptions, clock=clock)
        status_writer = PoolStatusWriter(clients.telling, index.pool, Announcer(socket.gethostname()), metrics, clock)
        self._writes = PoolWrites(
            Writer(clients.writing, clients.urgent, clients.noting, clock),
            status_writer,
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
            settings.images,
            interval_s=settings.interval_s,
            clock=clock,
            wall_s=clients.reading.now_s,
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
        # One after the other: a leader that hands over writes nothing from then on.
        await self._writes.drain(SHUTDOWN_S)
        await self._throttling.stop()
        if self._elector is not None:
            # The last act: from here on a successor writes (controller-runtime#1132).
            await self._elector.release()
        log.info("stopped")
        return True

    async def _once(self, stop: asyncio.Event) -> bool:
        deadline = self._clock() + ONCE_TIMEOUT_S
        while not (self._watches.is_complete and self._throttling.is_known) and not stop.is_set():
            if self._clock() > deadline:
                log.error("view incomplete", missing=self._watches.missing, waited_s=ONCE_TIMEOUT_S)
                return False
            await asyncio.sleep(0.05)
        self._loop.tick()
        await self._writes.drain(ONCE_TIMEOUT_S)
        await self._throttling.stop()
        return self._loop.decided_at is not None and not self._writes.problems

    @asynccontextmanager
    async def _health(self) -> AsyncIterator[None]:
        address = self._settings.metrics_address
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
        if incomplete_s <= MOST_BLIND_S:
            return ""
        return f"view incomplete for {incomplete_s:.0f} s: {', '.join(self._watches.missing)}"

    def _is_deciding(self) -> bool:
        """Whether the loop's heart beats, and on what there is: what is held must be let go when it does not,
        and another replica may see what this one does not.

        On a stop, which ends by itself in seconds, what is held is being handed over or given back.
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


def stop_on_signals(heard: Callable[[str], None] | None = None) -> asyncio.Event:
    """Set by SIGTERM or SIGINT from now on, whose name `heard` is told; inside a running loop.

    The first signal lets what is under way end in order, a second one ends all at once: where a server does not answer,
    order takes minutes.
    """
    stop, loop, before = asyncio.Event(), asyncio.get_running_loop(), signal.getsignal(signal.SIGTERM)

    def handle(name: str) -> None:
        if heard is not None:
            heard(name)
        stop.set()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
        signal.signal(signal.SIGTERM, before)  # of a container's first process (`balloons.__main__`)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, handle, number.name)
    return stop
