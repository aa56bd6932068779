"""When other people's requests arrive: Poisson, at a rate that is constant within each level of the background."""

import numpy as np
from numpy.typing import NDArray

from lab.simulator.request_server import FOREIGN_LIST, VISITOR_LIST, VISITOR_SMALL
from throttler.simulator.requests_and_machines import LIST_SHARE, VISITOR_COST, heartbeat_load, visitor_shares
from throttler.simulator.scenario_and_faults import LEVEL_S, Scenario, burst_rate

Arrival = tuple[float, int, int]
"""When, at which server, which kind of request."""


def visitor_rate(scenario: Scenario, level: float, joined: float) -> float:
    """Requests per second of other people and of the heartbeats of new nodes, which are sent as such requests too."""
    return (level * scenario.servers * scenario.capacity + heartbeat_load(joined)) / VISITOR_COST


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
