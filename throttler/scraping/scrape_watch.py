"""Every API server found, and scraped at its own moments for as long as it exists.

Servers are found by the EndpointSlices of default/kubernetes and counted by the identity Leases in kube-system; both
are asked again every minute, sooner after one has fallen silent, and what was known stays when asking fails.

One scrape has a connection of its own, gzip, no redirect, and limits on time and size. A body is inflated and filtered
in a worker thread, off the loop, piece by piece as it arrives: the wanted lines and one megabyte are held, however
large it is.
"""

import asyncio
import ipaddress
import ssl
import zlib
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from random import Random
from types import TracebackType
from typing import Self, TypeVar
from urllib.parse import urlsplit

import aiohttp
import msgspec
import structlog
from multidict import CIMultiDict
from yarl import URL

from throttler.kube.connection import Connection, Credentials, user_agent
from throttler.kube.errors import ApiError, ConfigError, date_of
from throttler.kube.kube_client import KubeClient
from throttler.kube.metadata import Metadata
from throttler.kube.requests import LEASES, Resource, Selection
from throttler.kube.transport import hang_up
from throttler.scraping.settings_and_allowed_hosts import (
    ANSWER_LIMIT_S,
    ForbiddenHostError,
    SourceSettings,
    check_literal,
    checked_url,
    fresh_session,
    is_loopback,
)
from throttler.signals.metric_families import FAMILIES, BadTextError, WantedLines, parse_rows
from throttler.signals.reading import Read, ReadError, ReadObserver, ReadOutcome, ignore_read
from throttler.signals.sample import Sample, sample_from_rows
from throttler.signals.servers import LEASE_ALIVE_S, Address, Servers, alive_leases

T = TypeVar("T")

METRICS_PATH = "/metrics"
_ACCEPT = "text/plain;version=0.0.4"
_QUERY = "&".join(f"name[]={family.name}" for family in FAMILIES)
"""Filters on the server from Kubernetes 1.37; older ones ignore it."""


@dataclass(frozen=True, slots=True)
class ScrapeTarget:
    """Where to scrape.

    `name` is what signals call it; `tls_name` is the certificate's name where that is not the host;
    `is_from_user` says that the address was written by a user and must be judged.
    """

    name: str
    base_url: str
    tls_name: str | None = None
    is_from_user: bool = False


@dataclass(slots=True)
class _Tally:
    asked_s: float
    taken_s: float = 0.0
    wall_s: float | None = None
    size_bytes: int = 0


class Scraper:
    """Scrapes with our own credentials and CA. Use as a context manager: it owns a worker thread."""

    def __init__(
        self,
        connection: Connection,
        component: str = "signals",
        *,
        limit_s: float = ANSWER_LIMIT_S,
        observer: ReadObserver = ignore_read,
    ) -> None:
        self._connection = connection
        self._allows_loopback = is_loopback(connection.base_url)
        self._headers = (("User-Agent", user_agent(component)), *connection.impersonation)
        self._limit_s = limit_s
        self._observer = observer
        # One thread: parsing never takes more than one core, and the loop never waits for it.
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="metrics")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._worker.shutdown(wait=False, cancel_futures=True)

    async def scrape(self, target: ScrapeTarget) -> Sample:
        """What the server has counted so far; raises ReadError. Cancelling says nothing about the server."""
        tally = _Tally(asyncio.get_running_loop().time())
        try:
            async with asyncio.timeout(self._limit_s):
                sample = await self._scrape(target, tally)
        except TimeoutError as error:
            self._observe(target, tally, ReadOutcome.TIMEOUT)
            raise ReadError(ReadOutcome.TIMEOUT, f"no whole answer within {self._limit_s:g} s") from error
        except ReadError as error:
            self._observe(target, tally, error.outcome)
            raise
        self._observe(target, tally, ReadOutcome.GOOD)
        return sample

    async def _scrape(self, target: ScrapeTarget, tally: _Tally) -> Sample:
        used = await self._connection.credentials.current()
        try:
            async with self._answer(target, used) as response:
                await self._check(response, used)
                # The server gathers first and answers then: its head comes right after the sample was taken.
                tally.taken_s, date = asyncio.get_running_loop().time(), date_of(response.headers)
                tally.wall_s = None if date is None else date.timestamp()
                body = MetricsBody(response.headers.get("Content-Encoding", "").strip().lower())
                async for piece in _pieces(response.content, tally):
                    await self._work(lambda piece=piece: body.feed(piece))  # type: ignore[misc]
        except (aiohttp.ClientSSLError, ssl.SSLError) as error:
            await self._connection.credentials.renew(used)
            raise ReadError(ReadOutcome.UNREACHABLE, "its certificate is not accepted, or ours is not") from error
        except ForbiddenHostError as error:
            raise ReadError(ReadOutcome.UNREACHABLE, str(error)) from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise ReadError(ReadOutcome.UNREACHABLE, f"cannot be reached ({type(error).__name__})") from error
        return await self._work(lambda: body.finish(asked_s=tally.asked_s, taken_s=tally.taken_s, wall_s=tally.wall_s))

    @asynccontextmanager
    async def _answer(self, target: ScrapeTarget, used: Credentials) -> AsyncIterator[aiohttp.ClientResponse]:
        async with fresh_session(judges_hosts=target.is_from_user, allows_loopback=self._allows_loopback) as session:
            response = await session.get(
                URL(f"{target.base_url}{METRICS_PATH}?{_QUERY}", encoded=True),
                headers=self._request_headers(used),
                ssl=used.tls if used.tls is not None else True,
                server_hostname=target.tls_name,
                proxy=self._connection.proxy,
                allow_redirects=False,
            )
            try:
                yield response
            finally:
                hang_up(response)

    def _request_headers(self, used: Credentials) -> CIMultiDict[str]:
        headers = CIMultiDict([("Accept", _ACCEPT), ("Accept-Encoding", "gzip"), *self._headers])
        if used.authorization is not None:
            headers["Authorization"] = used.authorization
        return headers

    async def _check(self, response: aiohttp.ClientResponse, used: Credentials) -> None:
        if response.status == 200:
            return
        if response.status == 401:
            await self._connection.credentials.renew(used)
        outcome = ReadOutcome.FORBIDDEN if response.status in {401, 403} else ReadOutcome.REFUSED
        raise ReadError(outcome, f"answered {METRICS_PATH} with status {response.status}")

    async def _work(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._worker, work)

    def _observe(self, target: ScrapeTarget, tally: _Tally, outcome: ReadOutcome) -> None:
        took_s = asyncio.get_running_loop().time() - tally.asked_s
        self._observer(
            Read(source="scrape", server=target.name, outcome=outcome, seconds=took_s, size_bytes=tally.size_bytes)
        )


async def _pieces(content: aiohttp.StreamReader, tally: _Tally) -> AsyncIterator[bytes]:
    """The body in pieces of about a megabyte: each costs a hop to the worker thread."""
    gathered = bytearray()
    while chunk := await content.readany():
        tally.size_bytes += len(chunk)
        gathered += chunk
        if len(gathered) >= STEP_BYTES:
            yield bytes(gathered)
            gathered.clear()
    if gathered:
        yield bytes(gathered)


MAX_INFLATED_BYTES = 100 * 1024 * 1024
"""Twice the largest body that a real cluster has been seen to have."""
STEP_BYTES = 1024 * 1024
_GZIP = 16 + zlib.MAX_WBITS


class MetricsBody:
    """Takes the body's bytes as they were sent; every method may raise ReadError."""

    def __init__(self, encoding: str) -> None:
        if encoding not in {"", "identity", "gzip"}:
            raise ReadError(ReadOutcome.UNREADABLE, "answered in an encoding that was not asked for")
        self._inflater = zlib.decompressobj(_GZIP) if encoding == "gzip" else None
        self._lines = WantedLines()
        self._inflated_bytes = 0

    def feed(self, piece: bytes) -> None:
        """The next bytes."""
        try:
            self._inflate(piece) if self._inflater else self._take(piece)
        except zlib.error as error:
            raise ReadError(ReadOutcome.UNREADABLE, "answered with broken gzip") from error
        except BadTextError as error:
            raise ReadError(ReadOutcome.UNREADABLE, str(error)) from error

    def finish(self, *, asked_s: float, taken_s: float, wall_s: float | None) -> Sample:
        """The whole body as a sample."""
        if self._inflater and not self._inflater.eof:
            raise ReadError(ReadOutcome.UNREADABLE, "answered with gzip that breaks off")
        try:
            rows = parse_rows(self._lines.finish())
            return sample_from_rows(rows, asked_s=asked_s, taken_s=taken_s, wall_s=wall_s)
        except BadTextError as error:
            raise ReadError(ReadOutcome.UNREADABLE, str(error)) from error

    def _inflate(self, piece: bytes) -> None:
        assert self._inflater is not None
        while piece and not self._inflater.eof:
            self._take(self._inflater.decompress(piece, STEP_BYTES))
            piece = self._inflater.unconsumed_tail
        if self._inflater.unused_data or (piece and self._inflater.eof):
            raise ReadError(ReadOutcome.UNREADABLE, "answered with more after the end of its gzip")

    def _take(self, text: bytes) -> None:
        self._inflated_bytes += len(text)
        if self._inflated_bytes > MAX_INFLATED_BYTES:
            raise ReadError(ReadOutcome.TOO_LARGE, f"more than {MAX_INFLATED_BYTES // 1024**2} MB of metrics")
        self._lines.feed(text)


TLS_NAME = "kubernetes"
"""Every API server's certificate carries it; the addresses behind the Service need not be in there."""

SLICES = Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")
_KUBERNETES = Selection(namespace="default", labels="kubernetes.io/service-name=kubernetes")
_IDENTITIES = Selection(namespace="kube-system", labels="apiserver.kubernetes.io/identity=kube-apiserver")


class _Conditions(msgspec.Struct, frozen=True):
    ready: bool | None = None


class _Endpoint(msgspec.Struct, frozen=True):
    addresses: tuple[str, ...] = ()
    conditions: _Conditions = _Conditions()


class _Port(msgspec.Struct, frozen=True):
    name: str | None = None
    port: int | None = None


class SliceWire(msgspec.Struct, frozen=True):
    """The part of an EndpointSlice that says where API servers listen."""

    metadata: Metadata
    endpoints: tuple[_Endpoint, ...] | None = None
    ports: tuple[_Port, ...] | None = None


class _LeaseSpec(msgspec.Struct, frozen=True, rename="camel"):
    renew_time: datetime | None = None


class LeaseWire(msgspec.Struct, frozen=True):
    """The part of a Lease that says whether its holder lives."""

    metadata: Metadata
    spec: _LeaseSpec = _LeaseSpec()


async def find_targets(client: KubeClient, only: ScrapeTarget) -> tuple[ScrapeTarget, ...]:
    """A target per address behind default/kubernetes; `only` where there is none. Raises ApiError."""
    slices = [item async for page in client.pages(SLICES, SliceWire, _KUBERNETES) for item in page.items]
    return slice_targets(slices) or (only,)


async def count_leases(client: KubeClient) -> int:
    """How many API servers renew their identity Lease. Raises ApiError."""
    leases = [item async for page in client.pages(LEASES, LeaseWire, _IDENTITIES) for item in page.items]
    return alive_leases(lease.spec.renew_time for lease in leases)


def slice_targets(slices: Sequence[SliceWire]) -> tuple[ScrapeTarget, ...]:
    """One target per address and port, sorted; an address that is said not to be ready is left out."""
    addresses = {
        _host_port(address, port.port)
        for piece in slices
        for port in piece.ports or ()
        for endpoint in piece.endpoints or ()
        for address in endpoint.addresses
        if port.port and port.name in {"https", "", None} and endpoint.conditions.ready is not False
    }
    return tuple(ScrapeTarget(name, f"https://{name}", TLS_NAME) for name in sorted(addresses))


def url_target(url: str, *, tls_name: str | None = None, is_from_user: bool = False) -> ScrapeTarget:
    """A target for a whole address, named by host and port."""
    parts = urlsplit(url)
    port = parts.port or (80 if parts.scheme == "http" else 443)
    return ScrapeTarget(_host_port(parts.hostname or "", port), url.rstrip("/"), tls_name, is_from_user)


def _host_port(host: str, port: int) -> str:
    try:
        is_v6 = ipaddress.ip_address(host).version == 6
    except ValueError:
        is_v6 = False
    return f"[{host}]:{port}" if is_v6 else f"{host}:{port}"


REREAD_S = 60.0
REREAD_AFTER_ERROR_S = 10.0
LOST_S = 2 * LEASE_ALIVE_S
"""A server that has been silent for no longer may have been replaced: EKS does so when a cluster grows, in the midst of
a ramp. Growth waits for it, so it is looked for again as soon as after an error."""


class ServerFinder:
    """`targets` and `expected` (identity Leases alive) as last learned, and in words what could not be learned."""

    def __init__(self, connection: Connection, servers: tuple[str, ...], random: Random) -> None:
        self.targets: tuple[ScrapeTarget, ...] = ()
        self.expected = 0
        self.problems: dict[str, str] = {}
        self._configured = configured_targets(servers, connection)
        self._only = url_target(connection.base_url, tls_name=connection.tls_server_name)
        self._out_of_reach: frozenset[ScrapeTarget] = frozenset()
        self._random = random

    async def find(self, client: KubeClient) -> float:
        """Asks; returns the seconds until it should be asked again."""
        is_known = await self._find_targets(client)
        is_counted = await self._count_leases(client)
        wait_s = REREAD_S if is_known and is_counted else REREAD_AFTER_ERROR_S
        return wait_s * self._random.uniform(0.8, 1.2)

    @property
    def has_other_way(self) -> bool:
        """Whether these addresses could be given up for the one that the kubeconfig names."""
        return not self._configured and bool(self.targets) and self.targets != (self._only,)

    def give_up_addresses(self) -> None:
        """None of them can be reached from here: read what hides behind the one address that works."""
        self._out_of_reach = frozenset(self.targets)
        self.targets = (self._only,)
        self.problems["reach"] = f"the API servers' own addresses cannot be reached, reading through {self._only.name}"

    async def _find_targets(self, client: KubeClient) -> bool:
        if self._configured:
            self.targets = self._configured
            return True
        try:
            targets = await find_targets(client, self._only)
        except ApiError as error:
            self.problems["endpoints"] = f"EndpointSlices of default/kubernetes cannot be read: {error.message}"
            self.targets = self.targets or (self._only,)
            return False
        self.problems.pop("endpoints", None)
        self.targets = self._within_reach(targets)
        return True

    def _within_reach(self, targets: tuple[ScrapeTarget, ...]) -> tuple[ScrapeTarget, ...]:
        if frozenset(targets) == self._out_of_reach:
            return (self._only,)
        self.problems.pop("reach", None)
        return targets

    async def _count_leases(self, client: KubeClient) -> bool:
        try:
            self.expected = await count_leases(client)
        except ApiError as error:
            self.problems["leases"] = f"identity Leases in kube-system cannot be read: {error.message}"
            return False
        self.problems.pop("leases", None)
        return True


def configured_targets(servers: tuple[str, ...], connection: Connection) -> tuple[ScrapeTarget, ...]:
    """The addresses that the user wrote; raises ConfigError. Our credentials go there, so never in clear."""
    targets = []
    for url in servers:
        parts = checked_url(url)
        if parts.scheme == "http" and connection.base_url.startswith("https:"):
            raise ConfigError(f"signals.scrape.servers: {url!r} would send our credentials unencrypted; use https")
        try:
            check_literal(parts.hostname or "", allows_loopback=is_loopback(connection.base_url))
        except ForbiddenHostError as error:
            raise ConfigError(f"signals.scrape.servers: {url!r} {error}") from error
        # Whoever writes a throttle chooses the host: the token goes there only if its certificate is an API server's.
        # Any kubelet has one of this CA for its own host.
        targets.append(url_target(url, tls_name=connection.tls_server_name or TLS_NAME, is_from_user=True))
    return tuple(dict.fromkeys(targets))


log = structlog.get_logger()

MOST_HIDDEN = 10
"""Bounds how often one address is scraped."""
_UNREACHED = {ReadOutcome.UNREACHABLE, ReadOutcome.TIMEOUT}


class ScrapeWatch:
    """Finds the servers, scrapes each, and remembers; `servers` is what is known."""

    def __init__(self, connection: Connection, settings: SourceSettings, scraper: Scraper, random: Random) -> None:
        self.servers = Servers()
        self._finder = ServerFinder(connection, settings.servers, random)
        self._interval_s = settings.interval_s
        self._scraper = scraper
        self._random = random
        self._outcomes: dict[str, ReadOutcome] = {}
        self._following: set[ScrapeTarget] = set()

    @property
    def is_forbidden(self) -> bool:
        """Whether no server lets us read its metrics: a missing right, not ill health."""
        return bool(self._outcomes) and set(self._outcomes.values()) == {ReadOutcome.FORBIDDEN}

    def problems(self, now_s: float) -> tuple[str, ...]:
        """In words, what keeps this source from seeing all."""
        return (*self._finder.problems.values(), *self.servers.frozen(now_s))

    async def run(self, client: KubeClient) -> None:
        """Runs until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                wait_s = await self._finder.find(client)
                self._follow_found(group)
                if await self._is_out_of_reach(wait_s):
                    self._finder.give_up_addresses()
                    self._follow_found(group)

    def _follow_found(self, group: asyncio.TaskGroup) -> None:
        """A loop per target; each ends by itself when its target is gone."""
        targets = self._finder.targets
        names = [target.name for target in targets]
        self.servers = self.servers.found(names, self._finder.expected, _now_s())
        self._outcomes = {name: outcome for name, outcome in self._outcomes.items() if name in names}
        for target in set(targets) - self._following:
            self._following.add(target)
            group.create_task(self._follow(target))

    async def _follow(self, target: ScrapeTarget) -> None:
        """The first scrape is at once, the later ones apart from those of other servers."""
        due_s = _now_s() - self._interval_s * self._random.random()
        while target in self._finder.targets:
            await self._scrape(target)
            due_s = max(due_s + self._interval_s / self._hidden_behind(target), _now_s())
            await asyncio.sleep(due_s - _now_s())
        self._following.discard(target)

    def _hidden_behind(self, target: ScrapeTarget) -> int:
        """How many servers share the address: a load balancer shows each of them now and then only."""
        address = self.servers.addresses.get(target.name)
        servers = address.count if address else 1
        may_hide = self.servers.unseen if len(self._finder.targets) == 1 else 0
        return min(MOST_HIDDEN, servers + may_hide)

    async def _scrape(self, target: ScrapeTarget) -> None:
        self._note(target, lambda address: address.asked(_now_s()))
        try:
            sample = await self._scraper.scrape(target)
        except ReadError as error:
            self._failed(target, error.outcome, error.problem)
        except Exception as error:  # one bad page must not end the scrapes of the other servers
            log.exception("the scrape of %s failed unexpectedly", target.name)
            self._failed(target, ReadOutcome.UNREADABLE, f"cannot be read ({type(error).__name__})")
        else:
            self._outcomes[target.name] = ReadOutcome.GOOD
            self._note(target, lambda address: address.answered(sample))

    def _failed(self, target: ScrapeTarget, outcome: ReadOutcome, problem: str) -> None:
        self._outcomes[target.name] = outcome
        self._note(target, lambda address: address.failed(problem, _now_s()))

    def _note(self, target: ScrapeTarget, change: Callable[[Address], Address]) -> None:
        address = self.servers.addresses.get(target.name)
        if address is not None:
            self.servers = self.servers.with_address(change(address), _now_s())

    async def _is_out_of_reach(self, wait_s: float) -> bool:
        """Waits until the servers should be looked for again; True at once when none of them was ever reached."""
        found_s = _now_s()
        due_s = found_s + wait_s
        while (left_s := due_s - _now_s()) > 0:
            await asyncio.sleep(min(self._interval_s, left_s))
            if self._finder.has_other_way and self._none_was_reached():
                return True
            if any(_now_s() - server.since_s <= LOST_S for server in self.servers.silent(_now_s())):
                due_s = min(due_s, found_s + REREAD_AFTER_ERROR_S)
        return False

    def _none_was_reached(self) -> bool:
        return all(
            self._outcomes.get(name) in _UNREACHED and not address.processes
            for name, address in self.servers.addresses.items()
        )


def _now_s() -> float:
    return asyncio.get_running_loop().time()
