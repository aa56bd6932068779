"""Which API servers there are: EndpointSlices of default/kubernetes, and identity Leases in kube-system."""

import ipaddress
from collections.abc import Sequence
from datetime import datetime
from urllib.parse import urlsplit

import msgspec

from throttler.kube.kube_client import KubeClient
from throttler.kube.metadata import Metadata
from throttler.kube.requests import Resource, Selection
from throttler.signals.servers import alive_leases
from throttler.sources.scraper import ScrapeTarget

TLS_NAME = "kubernetes"
"""Every API server's certificate carries it; the addresses behind the Service need not be in there."""

SLICES = Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")
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
