"""Several possible worlds run to their end: when all nodes are usable, how sure that is, and what it is made of."""

from dataclasses import dataclass
from math import exp, hypot, log

import numpy as np

from balloons.preview.flow import Flow, flow
from balloons.preview.flow_server import REQUESTS
from balloons.preview.inputs import PlanInputs, PoolFacts
from balloons.preview.policies import Maker
from balloons.preview.waves import Wave, waves_of
from balloons.preview.world import World, worlds

SEEDS = 9
LARGE = 2000
LARGE_SEEDS = 5
"""From so many nodes on: a large scale-up's own chances average out, and the plan is to come within a second."""
REFUSING = 0.01
"""Share of 429 from which servers are in collapse, where this grain is too hopeful (docs/plan.md)."""


OWN_ERROR = 0.05
"""Standard deviation of the logarithm by which real scale-ups end earlier or later than the likeliest world even where
every figure was learned or stated: chosen, as nine real ones are too few to tell (docs/benchmarks.md, truth)."""
TENTH = 1.2816
"""Standard deviations from the median of a normal distribution to its tenth and its ninetieth percentile."""


@dataclass(frozen=True, slots=True)
class Band:
    """A figure over all worlds: its median, and what one in ten is below and above; None where runs do not end."""

    median: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """`run` is the one whose end is the median's; the figures without band are its own."""

    nodes: int
    eta_s: Band
    first_s: Band
    """The first usable node."""
    run: Flow
    waves: tuple[Wave, ...]
    lost: Band
    """Machines that kill timers destroy."""
    error_share: float
    worst_latency_s: float
    peak_requests_per_s: float
    peak_utilisation: float
    node_seconds: float
    """Paid for before they are usable: booting, held and joining."""

    @property
    def is_collapse(self) -> bool:
        """Whether the servers refuse so much that the real end may be much later."""
        return self.error_share > REFUSING


def forecast(inputs: PlanInputs, pool: PoolFacts, nodes: int, make: Maker, seeds: int | None = None) -> Forecast:
    """Run `nodes` (1 or more) in `seeds` worlds."""
    found = worlds(inputs, pool, nodes, seeds or (LARGE_SEEDS if nodes >= LARGE else SEEDS))
    runs = [(world, flow(world, make(world.scenario))) for world in found]
    runs.sort(key=lambda pair: (pair[1].done_s is None, pair[1].done_s or 0.0, pair[0].seed))
    world, run = runs[(len(runs) - 1) // 2]
    flows = [each for _, each in runs]
    return _summed(flows, run, world, inputs)


def _summed(flows: list[Flow], run: Flow, world: World, inputs: PlanInputs) -> Forecast:
    scale = inputs.servers.requests_per_join.value / REQUESTS
    return Forecast(
        nodes=run.nodes,
        eta_s=with_own_error(band([each.done_s for each in flows])),
        first_s=with_own_error(band([each.usable_s[0][0] if each.usable_s else None for each in flows])),
        run=run,
        waves=waves_of(run, world),
        lost=band([float(each.lost) for each in flows]),
        error_share=run.error_share,
        worst_latency_s=run.worst_latency_s,
        peak_requests_per_s=scale * max((moment.requests_per_s for moment in run.moments), default=0.0),
        peak_utilisation=max((moment.utilisation for moment in run.moments), default=0.0),
        node_seconds=_node_seconds(run),
    )


def band(values: list[float | None]) -> Band:
    """Median and the tenth and ninetieth percentile; None where too many runs have no value."""
    top = 1e18
    ordered = [top if value is None else value for value in values]
    low, middle, high = (float(each) for each in np.percentile(ordered, [10, 50, 90], method="linear"))
    return Band(*(None if each > top / 1e6 else each for each in (middle, low, high)))


def with_own_error(found: Band) -> Band:
    """The band as wide as what is not known and the model's own error make it together."""
    if found.median is None or found.low is None:
        return found
    low = found.median * exp(-hypot(log(found.median / found.low), TENTH * OWN_ERROR))
    if found.high is None:
        return Band(found.median, low, None)
    return Band(found.median, low, found.median * exp(hypot(log(found.high / found.median), TENTH * OWN_ERROR)))


def _node_seconds(run: Flow) -> float:
    total = 0.0
    for before, after in zip(run.moments, run.moments[1:], strict=False):
        total += (before.booting + before.held + before.joining) * (after.at_s - before.at_s)
    return total
