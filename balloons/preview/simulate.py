"""What if: the same scale-up under several policies, and with one figure swept over several values.

The faults to try it under are in throttler/simulator/scenario_and_faults.py, the figures that the user states in
`inputs.py`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from balloons.preview.forecast import MOST_ADDED, Forecast, Limit, forecast, main_limit, policy_maker, typical_world
from balloons.preview.inputs import (
    NAMES,
    Ceiling,
    PlanInputs,
    Source,
    Stated,
    StatedError,
    check,
    of_pool,
    stopped,
    with_stated,
)
from balloons.preview.plan_json import API_VERSION, seconds, side_json
from balloons.preview.scale_up_plan import PlanError, Side, check_size, side

MOST_CELLS = 60
"""Policies times values of a sweep."""
NODES_ADDED = "add"
FIGURES = tuple(name for name in NAMES if name != "max-nodes")
"""That a simulation reckons with. It passes over ceilings: whoever asks what if does not ask what is allowed now."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """`name` is one of FIGURES, or `add` for the size of the scale-up."""

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
    ceiling: Ceiling | None
    """The first that would stop a plan for so many nodes."""

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
    inputs = of_pool(inputs, grown)
    forecasts = [forecast(inputs, grown, add, policy_maker(policy, inputs.throttle)) for policy in policies]
    world = typical_world(forecasts)
    ceiling = next((ceiling for _, ceiling in stopped({grown.name: add}, inputs.pools)), None)
    return [
        Cell(
            policy=policy,
            value=value,
            add=add,
            forecast=forecast,
            limit=main_limit(forecast.waves_in(world)),
            ceiling=ceiling,
        )
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
    if name not in FIGURES:
        raise StatedError(f"{name!r} cannot be swept; accepted: {NODES_ADDED}, {', '.join(FIGURES)}")
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
            "ceilingPassedOver": {"name": cell.ceiling.name, "nodes": cell.ceiling.nodes} if cell.ceiling else None,
        }
