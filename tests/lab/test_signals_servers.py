"""Signals of four real API servers on one etcd: the worst one is named, whatever is wrong with it."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit

import aiohttp
import pytest

from lab.controlplane import ApiServerSettings, ControlPlane, ControlPlaneSettings
from throttler.kube.connection import ConnectionOptions, load_connection
from throttler.kube.transport import EndingConnector
from throttler.scraping.settings_and_allowed_hosts import SourceSettings
from throttler.scraping.signal_watch import SignalWatch
from throttler.signals.reading import STALE_AFTER_S, Reading, Signals
from throttler.signals.servers import State, server_states

pytestmark = pytest.mark.lab

SERVERS, SMALL = 4, 3
FLOODERS = 40
PATIENCE_S = 180.0


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """Four servers, one of them with a few seats only; nothing else runs."""
    servers = [ApiServerSettings(gomaxprocs=1)] * SERVERS
    servers[SMALL] = ApiServerSettings(gomaxprocs=1, max_requests_inflight=4, max_mutating_requests_inflight=2)
    plane = ControlPlane(ControlPlaneSettings(api_servers=tuple(servers), controller_manager=None, scheduler=None))
    try:
        with asyncio.Runner() as runner:
            runner.run(plane.start())
        yield plane
    finally:
        plane.close()


class Watched:
    """A running watch, asked as of now."""

    def __init__(self, watch: SignalWatch) -> None:
        self._watch = watch

    @property
    def signals(self) -> Signals:
        return self._watch.signals(now_s())

    @property
    def readings(self) -> dict[str, Reading]:
        return {reading.server: reading for reading in self.signals.readings}

    def state(self, name: str) -> State | None:
        return next((state.state for state in server_states(self.signals, now_s()) if state.name == name), None)

    def are_all_fresh(self, names: set[str]) -> bool:
        return all(self.state(name) is State.FRESH for name in names)


@asynccontextmanager
async def watching(plane: ControlPlane, urls: tuple[str, ...], interval_s: float = 5.0) -> AsyncIterator[Watched]:
    connection = await load_connection(ConnectionOptions(kubeconfig=str(plane.kubeconfig())))
    watch = SignalWatch(connection, SourceSettings(servers=urls, interval_s=interval_s))
    task = asyncio.create_task(watch.run())
    try:
        yield Watched(watch)
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def now_s() -> float:
    return asyncio.get_running_loop().time()


def name_of(url: str) -> str:
    return urlsplit(url).netloc


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not holds():
            await asyncio.sleep(0.1)


@asynccontextmanager
async def flood(plane: ControlPlane, server: int) -> AsyncIterator[None]:
    """Many clients at once ask one server for a node, as kubelets do."""
    access = plane.access("system:node:flood", groups=("system:nodes",), server=server)

    async def ask(session: aiohttp.ClientSession) -> None:
        while True:
            async with session.get(f"{access.url}/api/v1/nodes/flood") as response:
                await response.read()

    connector = EndingConnector(limit=0, ssl=access.ssl_context())
    async with aiohttp.ClientSession(connector=connector) as session:
        tasks = [asyncio.create_task(ask(session)) for _ in range(FLOODERS)]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def slowness_s(reading: Reading) -> float:
    return (reading.latency_s or 0.0) + (reading.queue_wait_s or 0.0)


async def test_the_server_with_few_seats_is_the_worst_under_load(plane: ControlPlane) -> None:
    names = {name_of(url) for url in plane.server_urls}
    small = name_of(plane.server_urls[SMALL])
    idle = names - {small}
    async with watching(plane, plane.server_urls, interval_s=2.0) as watched:
        await until(lambda: watched.are_all_fresh(names))
        async with flood(plane, SMALL):
            # Other work on the machine may hold up an idle server for as long as one reading.
            await until(lambda: is_by_far_the_worst(small, idle, watched.readings))


def is_by_far_the_worst(name: str, others: set[str], readings: Mapping[str, Reading]) -> bool:
    """Whether one server answers far more than the others, far more slowly, and its requests wait in its queues."""
    if not {name, *others} <= readings.keys():
        return False
    flooded, idle = readings[name], [readings[other] for other in others]
    is_busiest = flooded.requests > 10 * max(reading.requests for reading in idle)
    is_slowest = slowness_s(flooded) > 3 * max(slowness_s(reading) for reading in idle)
    return is_busiest and is_slowest and (flooded.queue_wait_s or 0.0) > 0.002


async def test_a_frozen_server_is_silent_while_the_others_stay_fresh(plane: ControlPlane) -> None:
    names = {name_of(url) for url in plane.server_urls}
    frozen = name_of(plane.server_urls[1])
    async with watching(plane, plane.server_urls) as watched:
        await until(lambda: watched.are_all_fresh(names))
        plane.pause("kube-apiserver-1")
        paused_s = now_s()
        try:
            await until(lambda: watched.state(frozen) is State.SILENT)
            took_s = now_s() - paused_s
            await until(lambda: watched.state(frozen) is State.SILENT and watched.are_all_fresh(names - {frozen}))
        finally:
            plane.resume("kube-apiserver-1")
        assert took_s < STALE_AFTER_S, "after one interval and the 4 s in which an answer is due, not once it is stale"
        await until(lambda: watched.are_all_fresh(names))


async def test_a_restarted_server_is_the_same_server_with_new_windows(plane: ControlPlane) -> None:
    restarted = name_of(plane.server_urls[2])
    async with watching(plane, plane.server_urls, interval_s=1.0) as watched:
        await until(lambda: watched.state(restarted) is State.FRESH)
        plane.kill("kube-apiserver-2")
        await until(lambda: watched.state(restarted) is State.SILENT)
        began_s = now_s()
        await plane.restart("kube-apiserver-2")
        await until(lambda: watched.state(restarted) is State.FRESH)
        reading = watched.readings[restarted]
        assert set(watched.readings) <= {*map(name_of, plane.server_urls), "own requests"}
    assert reading.ended_s - reading.span_s > began_s


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


async def pass_on(url: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Both ways until both are over, or the balancer is."""
    async with aborted(writer):
        inner_reader, inner_writer = await asyncio.open_connection(urlsplit(url).hostname, urlsplit(url).port)
        async with aborted(inner_writer):
            await asyncio.gather(pump(reader, inner_writer), pump(inner_reader, writer))


@asynccontextmanager
async def aborted(writer: asyncio.StreamWriter) -> AsyncIterator[None]:
    """Closed in the end, at once and for sure."""
    try:
        yield
    finally:
        writer.transport.abort()
        with suppress(OSError):
            await writer.wait_closed()


@asynccontextmanager
async def balancer(urls: tuple[str, ...]) -> AsyncIterator[str]:
    """One address that passes each connection on to the next server in turn."""
    turn, connections = itertools.cycle(urls), set[asyncio.Task[None]]()

    async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.add(asyncio.ensure_future(pass_on(next(turn), reader, writer)))

    server = await asyncio.start_server(connect, "127.0.0.1", 0)
    try:
        yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for connection in connections:
            connection.cancel()
        await asyncio.gather(*connections, return_exceptions=True)


async def test_servers_behind_one_address_are_told_apart(plane: ControlPlane) -> None:
    # The lab starts all servers within the 10 ms that a start time resolves; a restart sets them apart.
    for number in (0, 1):
        await plane.restart(f"kube-apiserver-{number}")
    async with balancer(plane.server_urls[:3]) as url, watching(plane, (url,), interval_s=0.5) as watched:
        await until(
            lambda: (
                sum(name.startswith(f"{name_of(url)}@") for name in watched.readings) == 3
                and not watched.signals.silent
            )
        )
