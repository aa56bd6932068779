"""Several possible worlds run to their end: when all nodes are usable, how sure that is, and what it is made of."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import hypot, inf, log
from statistics import median

import numpy as np

from balloons.preview.flow import Flow, flow
from balloons.preview.flow_server import REQUESTS
from balloons.preview.inputs import PlanInputs, PoolFacts
from balloons.preview.policies import Maker
from balloons.preview.waves import Wave, waves_of
from balloons.preview.world import LIMIT_S, World, worlds

WORLDS = ((2000, 9), (20_000, 5), (inf, 3))
"""Up to so many nodes, so many worlds, whoever asks: `plan`, `report` and `simulate` answer a question alike. A large
scale-up's own chances average out, and the answer is to come while one waits."""
MOST_ADDED = 150_000
"""Nodes of one scale-up: more than any cluster has, and as many as can be run through in a minute."""
REFUSING = 0.01
"""Share of 429 from which servers are in collapse, where this grain is too hopeful (docs/plan.md)."""


BUSY, SLOW = 0.95, 2.0
"""Share of the servers' capacity in use, and times the latency of idle ones, from which others notice."""
LOW, HIGH = 5.0, 95.0
"""Percentiles: nine in ten scale-ups end between them."""
TO_HIGH = 1.645
"""As standard deviations of a normal distribution."""
SECOND_S = 12**-0.5
"""Standard deviation of what is cut off a time that is told in whole seconds, as every timestamp of Kubernetes is."""


@dataclass(frozen=True, slots=True)
class Band:
    """A figure over all worlds: its median, and what one in twenty is below or above; None where runs do not end."""

    median: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """`runs` are in the order of the worlds, `run` is the one whose end is the median's.

    Figures of load are medians over all worlds: how busy the servers are without any join differs from world to world,
    and the median end of another policy is that of another world.
    """

    nodes: int
    eta_s: Band
    first_s: Band
    """The first usable node."""
    runs: tuple[Flow, ...]
    run: Flow
    world: World
    """In which `run` ran."""
    waves: tuple[Wave, ...]
    lost: Band
    """Machines that kill timers destroy."""
    error_share: float
    slower_by: float
    """Worst latency over that of idle servers."""
    hurt_share: float
    """Of the worlds, those in which others notice."""
    slower_by_high: float
    """In the worst of the worlds."""
    peak_requests_per_s: float
    peak_utilisation: float
    hurt_s: float
    """For how long others notice."""
    node_seconds: float
    """Paid for before they are usable: booting, held and joining. Of `run`."""

    @property
    def is_collapse(self) -> bool:
        """Whether the servers refuse so much that the real end may be much later."""
        return self.error_share > REFUSING

    def unlike(self, world: int) -> float:
        """How far the run in this world is from the medians: 1 for an end that is a twentieth off, or a wait by a
        third, or a load of ten points."""
        run, usual_s = self.runs[world], self.eta_s.median or LIMIT_S
        end = abs((run.done_s or LIMIT_S) / usual_s - 1.0)
        return (
            20.0 * end
            + 3.5 * abs(log(_slower_by(run) / self.slower_by))
            + 10.0 * abs(_load(run) - self.peak_utilisation)
        )


def typical_world(forecasts: Sequence[Forecast]) -> int:
    """The one whose runs are closest to what all forecasts say, to be shown for all of them."""
    return min(range(len(forecasts[0].runs)), key=lambda world: sum(each.unlike(world) for each in forecasts))


def forecast(inputs: PlanInputs, pool: PoolFacts, nodes: int, make: Maker) -> Forecast:
    """Run `nodes` (1 to MOST_ADDED); every policy meets the same worlds."""
    found = worlds(inputs, pool, nodes, next(count for most, count in WORLDS if nodes <= most))
    runs = tuple(flow(world, make(world.scenario)) for world in found)
    by_end = sorted(zip(found, runs, strict=True), key=lambda pair: (pair[1].done_s is None, pair[1].done_s or 0.0))
    world, run = by_end[(len(by_end) - 1) // 2]
    scale = inputs.servers.requests_per_join.value / REQUESTS
    return Forecast(
        nodes=run.nodes,
        eta_s=told(band([each.done_s for each in runs])),
        first_s=told(band([each.usable_s[0][0] if each.usable_s else None for each in runs])),
        runs=runs,
        run=run,
        world=world,
        waves=waves_of(run, world),
        lost=band([float(each.lost) for each in runs]),
        error_share=_median(runs, lambda run: run.error_share),
        slower_by=_median(runs, _slower_by),
        hurt_share=sum(_hurt_s(run) > 0.0 for run in runs) / len(runs),
        slower_by_high=max(map(_slower_by, runs)),
        peak_requests_per_s=scale * _median(runs, lambda run: max(moment.requests_per_s for moment in run.moments)),
        peak_utilisation=_median(runs, _load),
        hurt_s=_median(runs, _hurt_s),
        node_seconds=_node_seconds(run),
    )


def _median(runs: Sequence[Flow], figure: Callable[[Flow], float]) -> float:
    return median(map(figure, runs))


def _load(run: Flow) -> float:
    return max(moment.utilisation for moment in run.moments)


def _slower_by(run: Flow) -> float:
    return run.worst_latency_s / run.idle_latency_s


def band(values: list[float | None]) -> Band:
    """Median, `LOW` and `HIGH`; None where too many runs have no value."""
    top = 1e18
    ordered = [top if value is None else value for value in values]
    low, middle, high = (float(each) for each in np.percentile(ordered, [LOW, 50, HIGH], method="linear"))
    return Band(*(None if each > top / 1e6 else each for each in (middle, low, high)))


def told(found: Band) -> Band:
    """The band of what timestamps will say: as wide as the worlds and whole seconds make it together."""
    if found.median is None or found.low is None:
        return found
    second_s = TO_HIGH * SECOND_S
    low = max(0.0, found.median - hypot(found.median - found.low, second_s))
    high = None if found.high is None else found.median + hypot(found.high - found.median, second_s)
    return Band(found.median, low, high)


def _hurt_s(run: Flow) -> float:
    slow_s = SLOW * run.idle_latency_s
    return sum(
        after.at_s - before.at_s
        for before, after in pairwise(run.moments)
        if before.at_s >= 0.0 and (after.utilisation >= BUSY or after.latency_s >= slow_s)
    )


def _node_seconds(run: Flow) -> float:
    total = 0.0
    for before, after in zip(run.moments, run.moments[1:], strict=False):
        total += (before.booting + before.held + before.joining) * (after.at_s - before.at_s)
    return total
