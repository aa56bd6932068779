"""What if: the same scale-up under several policies, and with one figure swept over several values."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from balloons.preview.forecast import Forecast, forecast
from balloons.preview.inputs import PlanInputs
from balloons.preview.known import Source
from balloons.preview.limit import Limit
from balloons.preview.plan_json import API_VERSION, seconds, side_json
from balloons.preview.policies import policy_maker
from balloons.preview.scale_up_plan import PlanError, Side, check_size, side
from balloons.preview.stated import NAMES, Stated, StatedError, check, with_stated
from balloons.preview.waves import main_limit

MOST_CELLS = 60
"""Policies times values of a sweep."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """`name` is one of `stated.NAMES`, or `add` for the size of the scale-up."""

    name: str
    values: tuple[float, ...]


NODES_ADDED = "add"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One policy with one value of the sweep; None without a sweep."""

    policy: str
    value: float | None
    add: int
    found: Forecast
    limit: Limit | None

    @property
    def side(self) -> Side:
        """In short."""
        return side(self.policy, self.found)


def simulate(
    inputs: PlanInputs, pool: str, add: int, policies: Sequence[str], sweep: Sweep | None = None
) -> tuple[Cell, ...]:
    """Every policy with every value, in this order; raises PlanError, PolicyError and StatedError."""
    cells = [(policy, value) for value in (sweep.values if sweep else (None,)) for policy in policies]
    if len(cells) > MOST_CELLS:
        raise PlanError(f"{len(cells)} runs; accepted: {MOST_CELLS} policies times values")
    return tuple(_cell(inputs, pool, add, policy, sweep.name if sweep else "", value) for policy, value in cells)


def _cell(inputs: PlanInputs, pool: str, add: int, policy: str, name: str, value: float | None) -> Cell:
    if value is not None and name == NODES_ADDED:
        add = max(1, int(value))
    elif value is not None:
        inputs = with_stated(_as_facts(inputs), _stated(name, value))
    grown = inputs.pool(pool)
    if grown is None:
        known = ", ".join(sorted(each.name for each in inputs.pools)) or "none"
        raise PlanError(f"pool {pool!r} is not there; there are: {known}")
    check_size(add)
    found = forecast(inputs, grown, add, policy_maker(policy, inputs.throttle))
    return Cell(policy=policy, value=value, add=add, found=found, limit=main_limit(found.waves))


def _as_facts(inputs: PlanInputs) -> PlanInputs:
    """The values of a sweep are other servers than these, and no better guesses at their size."""
    servers = inputs.servers
    count, cores = (replace(known, source=Source.STATED) for known in (servers.count, servers.cores))
    return replace(inputs, servers=replace(servers, count=count, cores=cores))


def _stated(name: str, value: float) -> Stated:
    if name not in NAMES:
        raise StatedError(f"{name!r} cannot be swept; accepted: {NODES_ADDED}, {', '.join(NAMES)}")
    given: dict[str, Any] = {name.replace("-", "_"): value}
    return check(Stated(**given))


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
        eta = cell.found.eta_s
        yield {
            **side_json(cell.side),
            "value": cell.value,
            "addNodes": cell.add,
            "etaLowSeconds": seconds(eta.low),
            "etaHighSeconds": seconds(eta.high),
            "lost": cell.found.lost.median,
            "limit": cell.limit.value if cell.limit else None,
        }
