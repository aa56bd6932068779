"""The clients of the service: their ceilings are apart, and so are their connections."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from balloons.service.metrics import Metrics
from balloons.service.settings import ServiceSettings
from throttler.client.attempts import Attempt
from throttler.client.connection import Connection, ConnectionOptions, load_connection
from throttler.client.connector import always
from throttler.client.gate import CeilingGate
from throttler.client.kube_client import KubeClient, open_client
from throttler.service.elector import Elector, ElectorSettings
from throttler.service.lease import open_lease_client
from throttler.sources.own_attempts import OwnAttempts

READS_PER_S, READ_BURST = 5.0, 25
"""Lists, watches and discovery: a handful at the start, then one now and then. They never queue behind writes."""
BURST_S = 60.0
"""The ceiling on writes is an average over this long, so that a burst release goes out at once."""
OWN_WINDOW_S = 5.0
"""What our own requests meet is told as windows of this length, as scrapes are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clients:
    """Who reads, who writes for pools, who moves ceilings, and who releases what is held one by one; `own` is what they
    all meet. None of them waits for another's ceiling of calls.

    `elector` holds the Lease that the writers are fenced by; None where no Lease is held, in a dry run for one.
    """

    connection: Connection
    reading: KubeClient
    writing: KubeClient
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

    async with open_lease_client(connection, observer=metrics.attempt) as leasing:
        elector = _elector(settings, leasing)
        may_pull = elector.may_write if elector is not None else always
        # Who is alone needs no leave to keep pools; what holds nodes back needs a Lease that moves all the same.
        may_write = always if settings.is_alone else may_pull
        read_gate = CeilingGate(READS_PER_S, burst=READ_BURST)
        async with (
            open_client(connection, "watch", gate=read_gate, observer=observe) as reading,
            open_client(
                connection, "service", gate=_write_gate(settings), observer=observe, may_send=may_write
            ) as writing,
            open_client(
                connection, "throttle", gate=_write_gate(settings), observer=observe, may_send=may_pull
            ) as pulling,
            open_client(
                connection, "release", gate=_write_gate(settings), observer=observe, may_send=may_pull
            ) as releasing,
        ):
            yield Clients(
                connection=connection,
                reading=reading,
                writing=writing,
                pulling=pulling,
                releasing=releasing,
                elector=elector,
                own=own,
            )


def _elector(settings: ServiceSettings, leasing: KubeClient) -> Elector | None:
    """None for who writes nothing, and for who would not be there to renew what he took."""
    if settings.is_dry_run or settings.is_once:
        return None
    return Elector(leasing, ElectorSettings(namespace=settings.lease_namespace, is_alone=settings.is_alone))


def _write_gate(settings: ServiceSettings) -> CeilingGate:
    calls_per_s = settings.max_calls_per_s
    return CeilingGate(calls_per_s, burst=max(1, int(calls_per_s * BURST_S)))
