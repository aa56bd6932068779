"""The clients of the service: their ceilings are apart, and so are their connections."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from balloons.service.metrics import Metrics
from balloons.service.settings import ServiceSettings
from throttler.kube.caller import MOST_PER_S, Attempt, CeilingGate
from throttler.kube.connection import Connection, ConnectionOptions, load_connection
from throttler.kube.kube_client import KubeClient, open_client
from throttler.kube.lease import Elector, ElectorSettings, open_lease_client
from throttler.kube.transport import always
from throttler.sources.signal_watch import OwnAttempts

READS_PER_S, READ_BURST = 20.0, 25
"""Lists, watches and discovery: a handful at the start, then one now and then. They never queue behind writes. Pages of
a list come one after the other, in 70 ms each: at 5 a second, 150,000 pods took a minute, most of it spent waiting."""
BURST_S = 60.0
"""The ceiling on writes is an average over this long."""
URGENT_TIMES, URGENT_BURST = 10.0, 300
"""What gives nodes back to work may come so many times as often as other writes, and so many at once: at the default 50
a second, which is what a scheduler binds. A gang of 1,000 has its nodes after 18 s, one of 300 at once."""
REPORTS_SHARE, REPORTS_BURST_S = 0.5, 30.0
"""Status and Events, on top of the writes they tell of: 100 pools whose figures move need 4 a second at the most."""
NOTES_BURST_S = 1.0
"""Annotations of nodes go out evenly: there may be thousands, and none is in a hurry."""
OWN_WINDOW_S = 5.0
"""What our own requests meet is told as windows of this length, as scrapes are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clients:
    """Who reads, who writes for pools (what may wait, what is urgent, notes on nodes, reports), who moves ceilings, and
    who releases what is held one by one; `own` is what they all meet. None waits for another's ceiling of calls.

    With `max_calls_per_s` of 5, all of them together send at most 92.5 requests a second while a release lasts, and
    42.5 otherwise: reads 20, writes 5, notes 5, reports 2.5, ceilings 5, what is held 5; releases and deletes 50.

    `elector` holds the Lease that the writers are fenced by; None where no Lease is held, in a dry run for one.
    """

    connection: Connection
    reading: KubeClient
    writing: KubeClient
    urgent: KubeClient
    noting: KubeClient
    reporting: KubeClient
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
        # A single replica may keep pools without a Lease; the guard needs a Lease that moves all the same.
        may_write = always if settings.is_alone else may_pull
        read_gate = CeilingGate(READS_PER_S, burst=READ_BURST)
        async with (
            open_client(connection, "watch", gate=read_gate, observer=observe) as reading,
            open_client(connection, "service", gate=gate_of(settings), observer=observe, may_send=may_write) as writing,
            open_client(
                connection, "urgent", gate=urgent_gate_of(settings), observer=observe, may_send=may_write
            ) as urgent,
            open_client(
                connection, "notes", gate=gate_of(settings, 1.0, NOTES_BURST_S), observer=observe, may_send=may_write
            ) as noting,
            open_client(
                connection,
                "report",
                gate=gate_of(settings, REPORTS_SHARE, REPORTS_BURST_S),
                observer=observe,
                may_send=may_write,
            ) as reporting,
            open_client(connection, "throttle", gate=gate_of(settings), observer=observe, may_send=may_pull) as pulling,
            open_client(
                connection, "release", gate=gate_of(settings), observer=observe, may_send=may_pull
            ) as releasing,
        ):
            yield Clients(
                connection=connection,
                reading=reading,
                writing=writing,
                urgent=urgent,
                noting=noting,
                reporting=reporting,
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


def gate_of(settings: ServiceSettings, share: float = 1.0, burst_s: float = BURST_S) -> CeilingGate:
    """The ceiling of one kind of calls: a share of the setting, averaged over `burst_s`."""
    calls_per_s = settings.max_calls_per_s * share
    return CeilingGate(calls_per_s, burst=max(1, int(calls_per_s * burst_s)))


def urgent_gate_of(settings: ServiceSettings) -> CeilingGate:
    """The ceiling of what gives nodes back to work."""
    return CeilingGate(min(MOST_PER_S, settings.max_calls_per_s * URGENT_TIMES), burst=URGENT_BURST)
