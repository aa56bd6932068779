"""What the user says about signals, checked once; which hosts an address written there may lead to, and sessions that
keep to them (docs/security-model.md).

No server-side request forgery: a JoinThrottle's URLs make our service send requests, never to link-local addresses or a
cloud's metadata service, whatever name or spelling leads there, and to our own host only where the API server is there
too (a lab, kind). Names are judged after DNS, and the connection uses the address that was judged. A session lasts for
one read: no kept connection, no cookie, no redirect, nothing inflated before it is counted.
"""

import ipaddress
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from throttler.api.throttle import SignalSources
from throttler.kube.errors import ConfigError
from throttler.kube.transport import EndingConnector, EndingResolver
from throttler.signals.reading import INTERVAL_S

ANSWER_LIMIT_S = 8.0
"""For everything from the connection to the last byte: a server that dribbles must not hold a scrape or a query."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmSetting:
    """A PromQL query and the value from which it is an alarm."""

    name: str
    query: str
    threshold: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSettings:
    """Where signals come from.

    `servers`: URLs to scrape; empty finds them in the EndpointSlices of default/kubernetes. `interval_s`: between two
    scrapes of one server. `prometheus_url`: an existing Prometheus of this cluster, for alarms and where scraping is
    off or not allowed. Raises ConfigError that names value and reason.
    """

    scrapes: bool = True
    servers: tuple[str, ...] = ()
    interval_s: float = INTERVAL_S
    prometheus_url: str | None = None
    alarms: tuple[AlarmSetting, ...] = ()

    def __post_init__(self) -> None:
        if not 0.2 <= self.interval_s <= 60:
            raise ConfigError(f"signals interval must be in [0.2, 60] s, got {self.interval_s}")
        for url in (*self.servers, *filter(None, [self.prometheus_url])):
            checked_url(url)
        if self.alarms and not self.prometheus_url:
            raise ConfigError("signals.alarms need signals.prometheus.url: they are PromQL queries")


def source_settings(spec: SignalSources) -> SourceSettings:
    """The `spec.signals` of a JoinThrottle as settings; raises ConfigError or QuantityError."""
    return SourceSettings(
        scrapes=spec.scrape.enabled,
        servers=spec.scrape.servers,
        prometheus_url=spec.prometheus.url if spec.prometheus else None,
        alarms=tuple(
            AlarmSetting(name=alarm.name, query=alarm.query, threshold=alarm.threshold_value) for alarm in spec.alarms
        ),
    )


def checked_url(url: str) -> SplitResult:
    """The parts of an http(s) URL without user, query or fragment; raises ConfigError."""
    try:
        parts = urlsplit(url)
        is_good = parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError as error:
        raise ConfigError(f"signals: {url!r} is no URL: {error}") from error
    if not is_good or parts.username is not None or parts.query or parts.fragment or not _is_plain(url):
        raise ConfigError(f"signals: {url!r} is not an address such as https://host:6443")
    return parts


def _is_plain(url: str) -> bool:
    return url.isascii() and url.isprintable() and " " not in url


METADATA = frozenset(
    ipaddress.ip_address(address)
    for address in (
        "169.254.169.254",  # AWS, Azure, Google, OpenStack and others; link-local anyway
        "fd00:ec2::254",  # AWS over IPv6
        "fd00:ec2::23",  # EKS Pod Identity over IPv6; over IPv4 it is link-local
        "fd20:ce::254",  # Google over IPv6
        "168.63.129.16",  # Azure's wire server
        "100.100.100.200",  # Alibaba
        "192.0.0.192",  # Oracle's older one
    )
)
_NAT64 = ipaddress.ip_network("64:ff9b::/96")

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class ForbiddenHostError(OSError):
    """The host leads to an address that is never ours to ask."""


class JudgingResolver(AbstractResolver):
    """The system's DNS, with forbidden answers refused."""

    def __init__(self, inner: AbstractResolver | None = None, *, allows_loopback: bool = False) -> None:
        self._inner = inner or EndingResolver()
        self._allows_loopback = allows_loopback

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """All addresses of the host, or ForbiddenHostError if any of them is forbidden."""
        resolved = await self._inner.resolve(host, port, family)
        check_addresses([entry["host"] for entry in resolved], allows_loopback=self._allows_loopback)
        return resolved

    async def close(self) -> None:
        """See AbstractResolver."""
        await self._inner.close()


def is_loopback(url: str) -> bool:
    """Whether the URL names this very host, by address or as localhost."""
    host = urlsplit(url).hostname or ""
    try:
        return _inner_address(ipaddress.ip_address(host.split("%")[0])).is_loopback
    except ValueError:
        return host == "localhost"


def check_literal(host: str, *, allows_loopback: bool = False) -> None:
    """Raises ForbiddenHostError for an IP address that is forbidden; names are left to the resolver."""
    try:
        address = ipaddress.ip_address(host.strip("[]").split("%")[0])
    except ValueError:
        return
    check_addresses([str(address)], allows_loopback=allows_loopback)


def check_addresses(addresses: Sequence[str], *, allows_loopback: bool = False) -> None:
    """Raises ForbiddenHostError when one of the addresses is forbidden, also inside an IPv6 spelling of IPv4."""
    for text in addresses:
        address = _inner_address(ipaddress.ip_address(text.split("%")[0]))
        if address.is_link_local or address.is_multicast or address.is_unspecified or address in METADATA:
            raise ForbiddenHostError("leads to a link-local or metadata address, which is refused")
        if address.is_loopback and not allows_loopback:
            raise ForbiddenHostError("leads to the service's own host, which is refused")


def _inner_address(address: Address) -> Address:
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
    return address.ipv4_mapped or address.sixtofour or address


@asynccontextmanager
async def fresh_session(*, judges_hosts: bool, allows_loopback: bool = False) -> AsyncIterator[aiohttp.ClientSession]:
    """A session whose connection ends with it; `judges_hosts` refuses forbidden addresses after DNS, and
    this very host unless `allows_loopback`."""
    resolver = JudgingResolver(allows_loopback=allows_loopback) if judges_hosts else None
    connector = EndingConnector(limit=0, force_close=True, use_dns_cache=False, resolver=resolver)
    session = aiohttp.ClientSession(
        connector=connector,
        timeout=aiohttp.ClientTimeout(total=None),
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
    )
    # The one owner of repetition is the next round of reading.
    session._retry_connection = False
    try:
        yield session
    finally:
        await session.close()
