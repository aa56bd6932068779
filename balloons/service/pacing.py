"""The throttle's half of the service, wired to its clients."""

import socket
from collections.abc import Callable

from balloons.service.clients import Clients
from balloons.service.metrics import Metrics
from balloons.service.settings import ServiceSettings
from throttler.service.in_force import InForce
from throttler.service.lever_writer import LeverWriter
from throttler.service.throttle_events import ThrottleAnnouncer
from throttler.service.throttle_report import ThrottleReport
from throttler.service.throttle_watches import ThrottleWatches
from throttler.service.throttle_writes import ThrottleWrites
from throttler.service.throttling import Throttling
from throttler.sources.signal_watch import SignalWatches


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
            ThrottleReport(clients.pulling, ThrottleAnnouncer(socket.gethostname()), clock),
            metrics.throttle,
            clock,
            is_dry_run=is_dry_run,
        ),
        InForce(clients.connection, clients.elector),
        metrics.throttle,
        clock,
    )
