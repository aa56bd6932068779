"""What the user states over what was learned, and what if: several policies, faults, one figure swept.

Faults to try a scale-up under, in the short form of the command line: `loss@3m+2m`, `slow@5m+10m=0.5`. What if: the
same scale-up under several policies, and with one figure swept over several values.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from math import isfinite
from typing import Any

from balloons.display_text import duration
from balloons.preview.forecast import MOST_ADDED, Forecast, Limit, forecast, main_limit, policy_maker, typical_world
from balloons.preview.inputs import Ceiling, Known, PlanInputs, PoolFacts, Source, join_cpu_s, requests_per_join
from balloons.preview.plan_json import API_VERSION, seconds, side_json
from balloons.preview.scale_up_plan import PlanError, Side, check_size, side
from throttler.kube.quantities_and_durations import DurationError, parse_duration
from throttler.simulator.scenario_and_faults import Blindness, Disturbance, ListBurst, ServerLoss, Slowdown

BOUNDS: dict[str, tuple[float, float]] = {
    "nodes": (0, 1_000_000),
    "boot": (0.1, 86_400),
    "boot_spread": (0, 0.3),
    "join": (0.1, 3600),
    "reaction": (0, 3600),
    "servers": (1, 100),
    "server_cores": (0.1, 1000),
    "background": (0, 0.9),
    "join_cost": (0.001, 100),
    "daemonsets": (0, 200),
    "controller_qps": (0.1, 100_000),
    "scheduler_qps": (0.1, 100_000),
    "launch_rate": (0.001, 100_000),
    "launch_burst": (0, 100_000),
    "kill_timer": (1, 86_400),
    "max_nodes": (0, 1_000_000),
}
"""Accepted, both ends included; times in seconds, rates per second."""
TIMES = ("boot", "join", "reaction", "kill_timer")
ACCEPTED = (
    "loss@AT+FOR (one API server is down), slow@AT+FOR=SHARE (all have this share of their capacity), "
    "blind@AT+FOR (metrics stand still), lists@AT+FOR=PER_SECOND (somebody lists); AT and FOR such as 90s or 3m"
)
KINDS = ("loss", "slow", "blind", "lists")
_GRAMMAR = re.compile(rf"({'|'.join(KINDS)})@([0-9.hms]+)\+([0-9.hms]+)(?:=([0-9]+\.?[0-9]*|\.[0-9]+))?")
MOST_CELLS = 60
"""Policies times values of a sweep."""
NODES_ADDED = "add"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stated:
    """None is not stated. Each field is the option or the key of a file by the same name, with dashes."""

    nodes: float | None = None
    boot: float | None = None
    boot_spread: float | None = None
    join: float | None = None
    reaction: float | None = None
    servers: float | None = None
    server_cores: float | None = None
    background: float | None = None
    join_cost: float | None = None
    daemonsets: float | None = None
    controller_qps: float | None = None
    scheduler_qps: float | None = None
    launch_rate: float | None = None
    launch_burst: float | None = None
    kill_timer: float | None = None
    max_nodes: float | None = None


NAMES = tuple(field.name.replace("_", "-") for field in fields(Stated))


class StatedError(ValueError):
    """A figure is out of bounds; the message names it, its value and what is accepted."""


def check(stated: Stated) -> Stated:
    """The same; raises StatedError."""
    for name, (low, high) in BOUNDS.items():
        value = getattr(stated, name)
        if value is not None and not low <= value <= high:
            shown = duration(value) if name in TIMES and isfinite(value) else f"{value:g}"
            raise StatedError(f"{name.replace('_', '-')} {shown}: accepted: {accepted(name)}")
    return stated


def accepted(name: str) -> str:
    """The values that a figure may have, in words."""
    low, high = BOUNDS[name]
    return f"{duration(low)} to {duration(high)}" if name in TIMES else f"a number from {low:g} to {high:,.12g}"


def with_stated(inputs: PlanInputs, stated: Stated, by: str = "--") -> PlanInputs:
    """The inputs with what was stated in place of what was known; `by` stands before the names.

    What stands in place of an assumption corrects it; what stands in place of a fact asks what if.
    """
    figures = _Given(stated, by)
    servers, controllers = inputs.servers, inputs.controllers
    daemons = figures.over("daemonsets", controllers.daemon_sets)
    cost, requests = servers.join_cpu_s, servers.requests_per_join
    if daemons is not controllers.daemon_sets and cost.source is Source.ASSUMED:
        cost, requests = join_cpu_s(daemons.value), requests_per_join(daemons.value)
    count, cores = figures.over("servers", servers.count), figures.over("server_cores", servers.cores)
    if cost.source is Source.LEARNED:
        # It was learned as a share of servers whose size was a guess.
        for known, now in ((servers.count, count), (servers.cores, cores)):
            if known.source is Source.ASSUMED:
                cost = cost.but(cost.value * now.value / known.value)
    nodes = inputs.nodes if stated.nodes is None else int(stated.nodes)
    return replace(
        inputs,
        nodes=nodes,
        pools=tuple(_pool(pool, figures, nodes, is_only=len(inputs.pools) == 1) for pool in inputs.pools),
        join_s=figures.over("join", inputs.join_s),
        servers=replace(
            servers,
            count=count,
            cores=cores,
            background=figures.over("background", servers.background),
            join_cpu_s=figures.over("join_cost", cost),
            requests_per_join=requests,
        ),
        controllers=replace(
            controllers,
            daemon_sets=daemons,
            pods_per_s=figures.over("controller_qps", controllers.pods_per_s),
            burst=_burst(stated, controllers.burst),
            binds_per_s=figures.over("scheduler_qps", controllers.binds_per_s),
            reaction_s=figures.over("reaction", controllers.reaction_s),
            launches_per_s=_launches(figures, controllers.launches_per_s),
            launch_burst=controllers.launch_burst if stated.launch_burst is None else int(stated.launch_burst),
            kill_timer_s=figures.over("kill_timer", controllers.kill_timer_s),
        ),
    )


@dataclass(frozen=True, slots=True)
class _Given:
    stated: Stated
    by: str

    def over(self, name: str, known: Known) -> Known:
        value: Any = getattr(self.stated, name)
        return known if value is None else Known.stated(float(value), f"{self.by}{name.replace('_', '-')}")


def _burst(stated: Stated, known: Known) -> Known:
    """A raised rate is raised with its burst, as operators do: one and a half seconds' worth."""
    return known if stated.controller_qps is None else known.but(1.5 * stated.controller_qps)


def _launches(figures: _Given, known: Known | None) -> Known | None:
    return known if figures.stated.launch_rate is None else figures.over("launch_rate", Known.stated(0.0, ""))


def _pool(pool: PoolFacts, figures: _Given, nodes: int, *, is_only: bool) -> PoolFacts:
    stated = figures.stated
    own_nodes = nodes if is_only and stated.nodes is not None else pool.nodes
    ceilings = pool.ceilings
    if stated.max_nodes is not None:
        name = f"{figures.by}max-nodes"
        ceilings = (*ceilings, Ceiling(name=name, nodes=max(0, int(stated.max_nodes) - own_nodes)))
    return replace(
        pool,
        nodes=own_nodes,
        ceilings=ceilings,
        boot_s=figures.over("boot", pool.boot_s),
        boot_jitter=figures.over("boot_spread", pool.boot_jitter),
    )


class FaultError(ValueError):
    """No such fault; the message says what is accepted."""


def fault_of(text: str) -> Disturbance:
    """One fault; raises FaultError."""
    match = _GRAMMAR.fullmatch(text[:80])
    if match is None:
        raise FaultError(f"fault {text[:80]!r} is not accepted; accepted: {ACCEPTED}")
    kind, at, length, amount = match.groups()
    try:
        return _made(kind, _seconds(at), _seconds(length), None if amount is None else float(amount))
    except (DurationError, ValueError) as error:
        raise FaultError(f"fault {text[:80]!r}: {error}") from error


def _seconds(text: str) -> float:
    return 0.0 if text.strip("0s.") == "" else parse_duration(text)


def _made(kind: str, at_s: float, for_s: float, amount: float | None) -> Disturbance:
    if (amount is not None) != (kind in ("slow", "lists")):
        raise ValueError(f"accepted: {ACCEPTED}")
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


@dataclass(frozen=True, slots=True)
class Sweep:
    """`name` is one of `stated.NAMES`, or `add` for the size of the scale-up."""

    name: str
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One policy with one value of the sweep; None without a sweep."""

    policy: str
    value: float | None
    add: int
    forecast: Forecast
    limit: Limit | None

    @property
    def side(self) -> Side:
        """In short."""
        return side(self.policy, self.forecast)


def simulate(
    inputs: PlanInputs, pool: str, add: int, policies: Sequence[str], sweep: Sweep | None = None
) -> tuple[Cell, ...]:
    """Every policy with every value, in this order; raises PlanError, PolicyError and StatedError."""
    name, values = (sweep.name, sweep.values) if sweep else ("", (None,))
    if len(policies) * len(values) > MOST_CELLS:
        raise PlanError(f"{len(policies) * len(values)} runs; accepted: {MOST_CELLS} policies times values")
    return tuple(cell for value in values for cell in _cells(inputs, pool, add, policies, name, value))


def _cells(
    inputs: PlanInputs, pool: str, add: int, policies: Sequence[str], name: str, value: float | None
) -> list[Cell]:
    """Of one value; what limits each is read from one world, as a plan of these policies reads it."""
    if value is not None and name == NODES_ADDED:
        add = _added(value)
    elif value is not None:
        inputs = with_stated(_as_facts(inputs), _stated(name, value))
    grown = inputs.pool(pool)
    if grown is None:
        known = ", ".join(sorted(pool.name for pool in inputs.pools)) or "none"
        raise PlanError(f"pool {pool!r} is not there; there are: {known}")
    check_size(add)
    forecasts = [forecast(inputs, grown, add, policy_maker(policy, inputs.throttle)) for policy in policies]
    world = typical_world(forecasts)
    return [
        Cell(policy=policy, value=value, add=add, forecast=forecast, limit=main_limit(forecast.waves_in(world)))
        for policy, forecast in zip(policies, forecasts, strict=True)
    ]


def _added(value: float) -> int:
    """So many nodes; raises StatedError."""
    if not 1 <= value <= MOST_ADDED or value != int(value):
        raise StatedError(f"{NODES_ADDED} {value:g}: accepted: a whole number from 1 to {MOST_ADDED:,}")
    return int(value)


def _as_facts(inputs: PlanInputs) -> PlanInputs:
    """The values of a sweep are other servers than these, and no better guesses at their size."""
    servers = inputs.servers
    count, cores = (replace(known, source=Source.STATED) for known in (servers.count, servers.cores))
    return replace(inputs, servers=replace(servers, count=count, cores=cores))


def _stated(name: str, value: float) -> Stated:
    if name not in NAMES:
        raise StatedError(f"{name!r} cannot be swept; accepted: {NODES_ADDED}, {', '.join(NAMES)}")
    stated: dict[str, Any] = {name.replace("-", "_"): value}
    return check(Stated(**stated))


def simulation_json(cells: Sequence[Cell], sweep: Sweep | None) -> dict[str, Any]:
    """For machines."""
    return {
        "apiVersion": API_VERSION,
        "kind": "Simulation",
        "sweep": sweep.name if sweep else None,
        "runs": list(_runs(cells)),
    }


def _runs(cells: Sequence[Cell]) -> Iterator[dict[str, Any]]:
    for cell in cells:
        eta = cell.forecast.eta_s
        yield {
            **side_json(cell.side),
            "value": cell.value,
            "addNodes": cell.add,
            "etaLowSeconds": seconds(eta.low),
            "etaHighSeconds": seconds(eta.high),
            "lost": cell.forecast.lost.median,
            "limit": cell.limit.value if cell.limit else None,
        }
