"""Which servers to scrape, asked again every minute; what was known stays when asking fails."""

from random import Random

from throttler.kube.connection import Connection
from throttler.kube.errors import ApiError, ConfigError
from throttler.kube.kube_client import KubeClient
from throttler.sources.allowed_hosts import ForbiddenHostError, check_literal, is_loopback
from throttler.sources.endpoints import TLS_NAME, count_leases, find_targets, url_target
from throttler.sources.scraper import ScrapeTarget
from throttler.sources.settings import checked_url

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
