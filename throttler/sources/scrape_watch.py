"""Every API server found, and scraped at its own moments for as long as it exists.

Servers are found by the EndpointSlices of default/kubernetes and counted by the identity Leases in kube-system; both
are asked again every minute, and what was known stays when asking fails.
"""

import asyncio
import ipaddress
from collections.abc import Callable, Sequence
from datetime import datetime
from random import Random
from urllib.parse import urlsplit

import msgspec
import structlog

from throttler.kube.connection import Connection
from throttler.kube.errors import ApiError, ConfigError
from throttler.kube.kube_client import KubeClient
from throttler.kube.metadata import Metadata
from throttler.kube.requests import LEASES, Resource, Selection
from throttler.signals.reading import ReadError, ReadOutcome
from throttler.signals.servers import Address, Servers, alive_leases
from throttler.sources.allowed_hosts import ForbiddenHostError, check_literal, is_loopback
from throttler.sources.scraper import Scraper, ScrapeTarget
from throttler.sources.settings import SourceSettings, checked_url

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
    found = {
        _host_port(address, port.port)
        for piece in slices
        for port in piece.ports or ()
        for endpoint in piece.endpoints or ()
        for address in endpoint.addresses
        if port.port and port.name in {"https", "", None} and endpoint.conditions.ready is not False
    }
    return tuple(ScrapeTarget(name, f"https://{name}", TLS_NAME) for name in sorted(found))


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
            found = await find_targets(client, self._only)
        except ApiError as error:
            self.problems["endpoints"] = f"EndpointSlices of default/kubernetes cannot be read: {error.message}"
            self.targets = self.targets or (self._only,)
            return False
        self.problems.pop("endpoints", None)
        self.targets = self._within_reach(found)
        return True

    def _within_reach(self, found: tuple[ScrapeTarget, ...]) -> tuple[ScrapeTarget, ...]:
        if frozenset(found) == self._out_of_reach:
            return (self._only,)
        self.problems.pop("reach", None)
        return found

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
    found = []
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
        found.append(url_target(url, tls_name=connection.tls_server_name or TLS_NAME, is_from_user=True))
    return tuple(dict.fromkeys(found))


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
        seen = address.count if address else 1
        may_hide = self.servers.unseen if len(self._finder.targets) == 1 else 0
        return min(MOST_HIDDEN, seen + may_hide)

    async def _scrape(self, target: ScrapeTarget) -> None:
        self._note(target, lambda address: address.asked(_now_s()))
        try:
            sample = await self._scraper.scrape(target)
        except ReadError as error:
            self._failed(target, error.outcome, error.problem)
        except Exception as error:
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
        due_s = _now_s() + wait_s
        while (left_s := due_s - _now_s()) > 0:
            await asyncio.sleep(min(self._interval_s, left_s))
            if self._finder.has_other_way and self._none_was_reached():
                return True
        return False

    def _none_was_reached(self) -> bool:
        return all(
            self._outcomes.get(name) in _UNREACHED and not address.processes
            for name, address in self.servers.addresses.items()
        )


def _now_s() -> float:
    return asyncio.get_running_loop().time()
