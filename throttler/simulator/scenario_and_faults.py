"""What is simulated: a cluster, a demand, machines, faults, and how well the controller can see; what the faults do
to the API servers, by time; and how a fault is written on the command line: `loss@3m+2m`, `slow@5m+10m=0.5`.
"""

import re
from dataclasses import dataclass, field
from math import inf

from throttler.kube.quantities_and_durations import DurationError, parse_time

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


Fault = ServerLoss | Slowdown | Blindness | ListBurst | ErrorsOfOthers | SlowWebhook


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
    faults: tuple[Fault, ...] = ()
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
    if not scenario.faults:
        return True
    return not any(loss.at_s <= now_s < loss.at_s + loss.for_s for loss in losses_of(scenario, server))


def speed_factor(scenario: Scenario, now_s: float) -> float:
    """What is left of every server's capacity, 0..1."""
    factor = 1.0
    for fault in scenario.faults:
        if isinstance(fault, Slowdown) and fault.at_s <= now_s < fault.at_s + fault.for_s:
            factor *= fault.factor
    return factor


def is_blind(scenario: Scenario, now_s: float) -> bool:
    """Whether scrapes answer with old numbers."""
    blindness = (spell for spell in scenario.faults if isinstance(spell, Blindness))
    return any(spell.at_s <= now_s < spell.at_s + spell.for_s for spell in blindness)


def burst_rate(scenario: Scenario, from_s: float) -> float:
    """Lists per second that bursts send, on average over the `LEVEL_S` from then on."""
    if not scenario.faults:
        return 0.0
    bursts = (burst for burst in scenario.faults if isinstance(burst, ListBurst))
    return sum(burst.per_s * _overlap_s(burst, from_s, from_s + LEVEL_S) / LEVEL_S for burst in bursts)


def foreign_errors(scenario: Scenario, server: int, from_s: float, to_s: float) -> tuple[float, float]:
    """429 and 5xx that a server answers to others on average: those that look like errors of joins, and the rest."""
    counts = {True: 0.0, False: 0.0}
    for fault in scenario.faults:
        if isinstance(fault, ErrorsOfOthers) and fault.server in (None, server):
            counts[fault.looks_like_joins] += fault.per_s * _overlap_s(fault, from_s, to_s)
    return counts[True], counts[False]


def webhook_s(scenario: Scenario, from_s: float, to_s: float) -> float:
    """By how much webhooks make the mean latency longer."""
    slow = (webhook for webhook in scenario.faults if isinstance(webhook, SlowWebhook))
    return sum(webhook.seconds * _overlap_s(webhook, from_s, to_s) / (to_s - from_s) for webhook in slow)


def _overlap_s(fault: ListBurst | ErrorsOfOthers | SlowWebhook, from_s: float, to_s: float) -> float:
    return max(0.0, min(fault.at_s + fault.for_s, to_s) - max(fault.at_s, from_s))


def losses_of(scenario: Scenario, server: int) -> list[ServerLoss]:
    """When this server is down."""
    return [loss for loss in scenario.faults if isinstance(loss, ServerLoss) and loss.server == server]


ACCEPTED_FAULTS = (
    "loss@AT+FOR (one API server is down), slow@AT+FOR=SHARE (all have this share of their capacity), "
    "blind@AT+FOR (metrics stand still), lists@AT+FOR=PER_SECOND (somebody lists); AT and FOR such as 90s or 3m"
)
FAULT_KINDS = ("loss", "slow", "blind", "lists")
_GRAMMAR = re.compile(rf"({'|'.join(FAULT_KINDS)})@([0-9.hms]+)\+([0-9.hms]+)(?:=([0-9]+\.?[0-9]*|\.[0-9]+))?")


class FaultError(ValueError):
    """No such fault; the message says what is accepted."""


def fault_of(text: str) -> Fault:
    """One fault; raises FaultError."""
    match = _GRAMMAR.fullmatch(text)
    if match is None:
        raise FaultError(f"fault {text!r} is not accepted; accepted: {ACCEPTED_FAULTS}")
    kind, at, length, amount = match.groups()
    try:
        return _made(kind, parse_time(at), parse_time(length), None if amount is None else float(amount))
    except (DurationError, ValueError) as error:
        raise FaultError(f"fault {text!r}: {error}") from error


def _made(kind: str, at_s: float, for_s: float, amount: float | None) -> Fault:
    if (amount is not None) != (kind in ("slow", "lists")):
        raise ValueError(f"accepted: {ACCEPTED_FAULTS}")
    match kind:
        case "loss":
            return ServerLoss(at_s=at_s, for_s=for_s)
        case "blind":
            return Blindness(at_s=at_s, for_s=for_s)
        case "slow":
            return Slowdown(at_s=at_s, for_s=for_s, factor=_within(amount, 0.01, 1.0))
    return ListBurst(at_s=at_s, for_s=for_s, per_s=_within(amount, 0.01, 10_000.0))


def _within(amount: float | None, low: float, high: float) -> float:
    if amount is None or not low <= amount <= high:
        raise ValueError(f"{amount}: accepted are {low:g} to {high:g}")
    return amount
