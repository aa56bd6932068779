"""What is simulated: a cluster, a demand, machines, disturbances, and how well the controller can see; and what happens
to the servers from outside, by time: who is up, how fast they are, what others ask of them.
"""

from dataclasses import dataclass, field
from math import exp, inf

import numpy as np
from numpy.typing import NDArray

from throttler.simulator.plant import CLIENT, LIST, SWING_S, heartbeat_load

LONG_AGO_S = -1e6
"""Before any scenario begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLoss:
    """One API server is down from `at_s` for `for_s`; its connections move and relist, and come back later."""

    at_s: float
    for_s: float
    server: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Slowdown:
    """The capacity of every server still up is multiplied by `factor` from `at_s` for `for_s`."""

    at_s: float
    for_s: float
    factor: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Blindness:
    """The metrics are frozen (scrapes answer with old numbers) from `at_s` for `for_s`."""

    at_s: float
    for_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ListBurst:
    """Somebody lists: `per_s` expensive lists per second from `at_s` for `for_s`."""

    at_s: float
    for_s: float
    per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorsOfOthers:
    """Others are answered `per_s` 429 or 5xx per second from `at_s` for `for_s`: no load, and nothing of joins."""

    per_s: float
    """By each server."""
    at_s: float = LONG_AGO_S
    for_s: float = inf
    server: int | None = None
    """Only by this one."""
    looks_like_joins: bool = True
    """Whether they are in the priority levels and on the resources that joins use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowWebhook:
    """Requests of others wait for a webhook: from `at_s` for `for_s` the mean latency is `seconds` longer."""

    seconds: float
    at_s: float = LONG_AGO_S
    for_s: float = inf


Disturbance = ServerLoss | Slowdown | Blindness | ListBurst | ErrorsOfOthers | SlowWebhook


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleUp:
    """`nodes` are wanted from `at_s` on."""

    at_s: float
    nodes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """Everything but the policy and the seed. Capacity in seat-seconds per second, times in seconds."""

    name: str
    demands: tuple[ScaleUp, ...]
    servers: int
    capacity: float
    """P: what one server's executing requests share."""
    seats_per_capacity: float = 4.0
    """cP: seats = cP x P."""
    boot_s: float = 120.0
    boot_jitter: float = 0.1
    """Standard deviation of the boot time, as a share of it."""
    boot_is_skewed: bool = False
    """Whether slow boots are further off than quick ones (log-normal), as those of real fleets are."""
    nodes_before: int = 0
    background: float = 0.25
    """Share of all capacity that other people's requests take on average."""
    background_swing: float = 0.1
    """Standard deviation of that share, relative to it."""
    join_weight: float = 1.0
    """How much heavier a join is than the usual one (about 135 requests)."""
    has_gate: bool = True
    """Whether booted machines can be held back before they join; without it they join at once."""
    kill_timer_s: float = 900.0
    """A machine that has not been let in so long after it was asked for is destroyed, and asked for again."""
    disturbances: tuple[Disturbance, ...] = ()
    scrape_s: float = 10.0
    scrape_delay_s: float = 1.0
    scrape_missing: float = 0.05
    """Share of scrapes that fail."""
    scrape_noise: float = 0.05
    """Relative standard deviation of each figure."""
    never_seen: int = 0
    """Servers beside `servers` that are known by their Leases only, and bear nothing."""
    lead_s: float = 180.0
    """Quiet time before 0 in which the policy is asked already, so that it can learn what idle servers look like."""
    step_s: float = 5.0
    """How often the policy is asked."""
    limit_s: float = 14_400.0
    """The run ends here if the joins do not."""
    tags: tuple[str, ...] = field(default=())

    @property
    def nodes(self) -> int:
        """All that is wanted."""
        return sum(demand.nodes for demand in self.demands)


LEVEL_S = 5.0
"""The background keeps its level for so long."""


def is_up(scenario: Scenario, server: int, now_s: float) -> bool:
    """Whether this server (from 0) answers."""
    return not any(loss.at_s <= now_s < loss.at_s + loss.for_s for loss in _losses(scenario, server))


def speed_factor(scenario: Scenario, now_s: float) -> float:
    """What is left of every server's capacity, 0..1."""
    factor = 1.0
    for each in scenario.disturbances:
        if isinstance(each, Slowdown) and each.at_s <= now_s < each.at_s + each.for_s:
            factor *= each.factor
    return factor


def is_blind(scenario: Scenario, now_s: float) -> bool:
    """Whether scrapes answer with old numbers."""
    blindness = (each for each in scenario.disturbances if isinstance(each, Blindness))
    return any(each.at_s <= now_s < each.at_s + each.for_s for each in blindness)


def capacity(scenario: Scenario, server: int, now_s: float) -> float:
    """Seat-seconds per second that this server can work now; 0 while it is down."""
    return scenario.capacity * speed_factor(scenario, now_s) if is_up(scenario, server, now_s) else 0.0


def spare(scenario: Scenario, background: float, joined: float, now_s: float) -> float:
    """Seat-seconds per second left for joins: what the oracle is told. Few seats bound it as well as the capacity."""
    seats = scenario.capacity * scenario.seats_per_capacity
    usable = sum(min(seats, capacity(scenario, server, now_s)) for server in range(scenario.servers))
    others = background * scenario.servers * scenario.capacity + heartbeat_load(joined)
    lists = burst_rate(scenario, now_s) * LIST.cost_at(scenario.nodes_before + joined)
    return max(0.0, usable - others - lists)


def burst_rate(scenario: Scenario, from_s: float) -> float:
    """Lists per second that bursts send, on average over the `LEVEL_S` from then on."""
    bursts = (each for each in scenario.disturbances if isinstance(each, ListBurst))
    return sum(each.per_s * _overlap_s(each, from_s, from_s + LEVEL_S) / LEVEL_S for each in bursts)


def foreign_errors(scenario: Scenario, server: int, from_s: float, to_s: float) -> tuple[float, float]:
    """429 and 5xx that a server answers to others on average: those that look like errors of joins, and the rest."""
    counts = {True: 0.0, False: 0.0}
    for each in scenario.disturbances:
        if isinstance(each, ErrorsOfOthers) and each.server in (None, server):
            counts[each.looks_like_joins] += each.per_s * _overlap_s(each, from_s, to_s)
    return counts[True], counts[False]


def webhook_s(scenario: Scenario, from_s: float, to_s: float) -> float:
    """By how much webhooks make the mean latency longer."""
    slow = (each for each in scenario.disturbances if isinstance(each, SlowWebhook))
    return sum(each.seconds * _overlap_s(each, from_s, to_s) / (to_s - from_s) for each in slow)


def _overlap_s(each: ListBurst | ErrorsOfOthers | SlowWebhook, from_s: float, to_s: float) -> float:
    return max(0.0, min(each.at_s + each.for_s, to_s) - max(each.at_s, from_s))


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
    back_s = max((loss.at_s + loss.for_s for loss in _losses(scenario, server) if loss.at_s <= now_s), default=None)
    return 1.0 if back_s is None else max(1e-6, 1.0 - exp(-(now_s - back_s) / CLIENT.return_s))


def _losses(scenario: Scenario, server: int) -> list[ServerLoss]:
    return [each for each in scenario.disturbances if isinstance(each, ServerLoss) and each.server == server]


def background_levels(scenario: Scenario, draws: np.random.Generator) -> NDArray[np.float64]:
    """Share of all nominal capacity that other people ask for, per `LEVEL_S` from `-lead_s` on.

    A first-order autoregression around `background` with the relative standard deviation `background_swing`, never
    below a tenth of its mean nor so high that nothing is left (0.95).
    """
    count = int((scenario.lead_s + scenario.limit_s) / LEVEL_S) + 2
    keep = exp(-LEVEL_S / SWING_S)
    pushes = draws.standard_normal(count)
    swing = np.empty(count)
    swing[0] = pushes[0]
    for i in range(1, count):
        swing[i] = keep * swing[i - 1] + (1.0 - keep * keep) ** 0.5 * pushes[i]
    levels = scenario.background * (1.0 + scenario.background_swing * swing)
    return np.clip(levels, 0.1 * scenario.background, 0.95)


def level_at(levels: NDArray[np.float64], scenario: Scenario, now_s: float) -> float:
    """The background's share now."""
    return float(levels[min(len(levels) - 1, int((now_s + scenario.lead_s) / LEVEL_S))])
