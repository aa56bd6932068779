"""When other people's requests arrive: Poisson, at a rate that is constant within each level of the background.

Where their connections lie, and how all clients meet a refusal or a lost server.
"""

from dataclasses import dataclass
from math import exp

import numpy as np
from numpy.typing import NDArray

from lab.simulator.request_server import FOREIGN_LIST, VISITOR_LIST, VISITOR_SMALL
from throttler.simulator.requests_and_machines import LIST_SHARE, VISITOR_COST, heartbeat_load
from throttler.simulator.scenario_and_faults import LEVEL_S, Scenario, burst_rate, is_up, losses_of

Arrival = tuple[float, int, int]
"""When, at which server, which kind of request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientRules:
    """How clients meet a refusal, as client-go does, without jitter."""

    retries: int = 10
    """So often an attempt is repeated after exactly its Retry-After; then the caller sees the error ..."""
    restart_s: float = 10.0
    """... and tries anew after this, on a new connection (chosen: a kubelet's or a controller's own backoff)."""
    backoff_min_s: float = 1.0
    backoff_max_s: float = 30.0
    """After a timeout the wait doubles from the one to the other (reflector backoff)."""
    reconnect_s: float = 1.0
    """A broken connection is made again, to another server, within this to twice this."""
    relist_share: float = 0.25
    """When a server is lost, so many of its nodes list once anew, the others resume their watches (chosen) ..."""
    relist_spread_s: float = 10.0
    """... somewhere in this time."""
    return_s: float = 300.0
    """Time constant with which long-lived connections come back to a restarted server (chosen)."""
    visitor_timeout_s: float = 60.0
    """Timeout of other people's requests."""


CLIENT = ClientRules()


def visitor_rate(scenario: Scenario, level: float, joined: float) -> float:
    """Requests per second of other people and of the heartbeats of new nodes, which are sent as such requests too."""
    return (level * scenario.servers * scenario.capacity + heartbeat_load(joined)) / VISITOR_COST


def visitor_shares(scenario: Scenario, now_s: float) -> list[float]:
    """How other people's connections lie on the servers: all 0 when none is up.

    They stick: a lost server's move to the others at once, and come back over `CLIENT.return_s`.
    """
    weights = [_stuck(scenario, server, now_s) for server in range(scenario.servers)]
    total = sum(weights)
    return [weight / total for weight in weights] if total else weights


def _stuck(scenario: Scenario, server: int, now_s: float) -> float:
    if not is_up(scenario, server, now_s):
        return 0.0
    ends_s = (loss.at_s + loss.for_s for loss in losses_of(scenario, server))
    back_s = max((end_s for end_s in ends_s if end_s <= now_s), default=None)
    return 1.0 if back_s is None else max(1e-6, 1.0 - exp(-(now_s - back_s) / CLIENT.return_s))


def arrivals(scenario: Scenario, level: float, joined: int, from_s: float, draws: np.random.Generator) -> list[Arrival]:
    """All that arrive in the level from `from_s`, the latest first."""
    shares = np.array(visitor_shares(scenario, from_s))
    visitors = draws.poisson(visitor_rate(scenario, level, joined) * LEVEL_S * shares)
    bursts = draws.poisson(burst_rate(scenario, from_s) * LEVEL_S * shares)
    arriving = _spread(visitors, from_s, draws, (VISITOR_SMALL, VISITOR_LIST), LIST_SHARE)
    arriving += _spread(bursts, from_s, draws, (FOREIGN_LIST, FOREIGN_LIST), 0.0)
    return sorted(arriving, reverse=True)


def _spread(
    counts: NDArray[np.int64], from_s: float, draws: np.random.Generator, kinds: tuple[int, int], second: float
) -> list[Arrival]:
    total = int(np.sum(counts))
    if not total:
        return []
    times = from_s + LEVEL_S * draws.random(total)
    which = np.where(draws.random(total) < second, kinds[1], kinds[0])
    servers = np.repeat(np.arange(len(counts)), counts)
    return list(zip(times.tolist(), servers.tolist(), which.tolist(), strict=True))
