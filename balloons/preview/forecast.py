"""Several possible worlds run to their end and cut into waves: when all nodes are usable, and what holds them back.

Who lets nodes join, by the name that the command line uses. Each run needs a new policy. What can hold a scale-up
back: one name for each, the same in every output. A run cut into waves: stretches of time in which the same thing
holds the scale-up back.
"""

import enum
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import hypot, inf, log, sqrt
from statistics import median

import numpy as np

from balloons.preview.inputs import PlanInputs, PoolFacts, ThrottleFacts
from balloons.preview.join_progress import REQUESTS
from balloons.preview.overload import hurt_s, is_collapse
from balloons.preview.possible_worlds import LIMIT_S, World, worlds
from balloons.preview.scale_up_run import Flow, FlowMoment, flow
from throttler.law.settings import LawSettings
from throttler.simulator.pacing_policies import (
    AimdOnErrors,
    AimdOnWindow,
    AtOnce,
    FixedRate,
    FixedWindow,
    FullKnowledge,
    Gradient2,
    LawPolicy,
    Oracle,
    Policy,
    Stock,
)
from throttler.simulator.scenario_and_faults import Scenario

NONE, THROTTLE, ORACLE = "none", "throttle", "oracle"
Maker = Callable[[Scenario], Policy | Oracle]
RATE, WINDOW = "rate=", "window="
LIMITING_LOAD = 0.85
"""Utilisation from which the API servers themselves are what joins wait for."""
FILLED = 0.6
"""Utilisation from which a window that holds nodes back does so for the servers' sake (the law aims at 0.8)."""
BACKLOG_S = 8.0
"""A queue for DaemonSet pods that takes so long to empty is more than the moment that every node waits for them."""
SLIVER = 0.02
"""Of the whole time; shorter stretches go to their neighbour."""
MOST_ADDED = 150_000
"""Nodes of one scale-up: more than any cluster has, and as many as can be run through in a minute."""
LOW, HIGH = 5.0, 95.0
"""Percentiles: nine in ten scale-ups end between them."""
TO_HIGH = 1.645
"""As standard deviations of a normal distribution."""
UNDRAWN_SPREAD = 0.07
"""Of the end, what no world draws: who else uses the machines at that moment, how the work of joins overlaps, when
requests meet. Standard deviation of real ends over predicted ones, less what worlds and whole seconds explain, over
seventeen real scale-ups of two seeds (docs/benchmarks.md, truth). Of these, bands by the other sixteen held fifteen."""
LOOK_SHARE = 12**-0.5
"""Of the time between two looks: the standard deviation of what a wave waits for its look, anything up to all of it.
All waves of one scale-up tend to fare alike: of three real ones with a small window one met nearly every look, and one
missed every other by less than a second (docs/benchmarks.md, truth)."""
SECOND_S = 12**-0.5
"""Standard deviation of what is cut off a time that is told in whole seconds, as every timestamp of Kubernetes is."""


_SIMPLE: Mapping[str, Maker] = {
    NONE: lambda scenario: AtOnce(),
    ORACLE: FullKnowledge,
    "gradient2": lambda scenario: Gradient2(stock=Stock.of(scenario)),
    "aimd": lambda scenario: AimdOnWindow(stock=Stock.of(scenario)),
    "aimd-429": lambda scenario: AimdOnErrors(stock=Stock.of(scenario)),
}


_PLAIN = re.compile(r"[0-9]*\.?[0-9]+(e[+-]?[0-9]{1,4})?", re.ASCII | re.IGNORECASE)
"""Plain digits: Python's own reading also takes `1_000` and digits of other scripts."""


NAMES = (THROTTLE, *_SIMPLE, RATE, WINDOW)


ACCEPTED = ", ".join((THROTTLE, *_SIMPLE, f"{RATE}JOINS_PER_MINUTE", f"{WINDOW}JOINS"))


class PolicyError(ValueError):
    """No such policy; the message says what is accepted."""


def policy_maker(name: str, throttle: ThrottleFacts | None) -> Maker:
    """How to make the policy; raises PolicyError. `throttle` is the one that `throttle` stands for."""
    if name == THROTTLE:
        return lambda scenario: law_policy(scenario, throttle)
    if name in _SIMPLE:
        return _SIMPLE[name]
    if name.startswith(RATE) and (per_min := _number(name.removeprefix(RATE))) is not None:
        return lambda scenario: FixedRate(per_min / 60.0, stock=Stock.of(scenario))
    if name.startswith(WINDOW) and (window := _number(name.removeprefix(WINDOW))) is not None:
        return lambda scenario: FixedWindow(window, stock=Stock.of(scenario))
    raise PolicyError(f"policy {name!r} is not accepted; accepted: {ACCEPTED}")


def law_policy(scenario: Scenario, throttle: ThrottleFacts | None) -> LawPolicy:
    """The pacing law with the throttle's settings and what it has learned, or as it starts where there is none."""
    settings = throttle.settings if throttle else LawSettings()
    settings = replace(settings, has_gate=scenario.has_gate, kill_timer_s=scenario.kill_timer_s)
    return LawPolicy(scenario, throttle.learned if throttle else None, settings)


def _number(text: str) -> float | None:
    value = float(text) if _PLAIN.fullmatch(text) else 0.0
    return value if 0 < value <= 1_000_000 else None


class Limit(enum.Enum):
    """What binds, and what it means for whoever reads the plan."""

    REACTION = "autoscaler"
    CEILING = "ceiling"
    LAUNCH_RATE = "cloud quota"
    OWN_WINDOW = "pacing"
    BOOT = "boot time"
    API_SERVERS = "API servers"
    CONTROLLER_MANAGER = "controller manager"
    SCHEDULER = "scheduler"
    JOIN = "join time"

    __hash__ = object.__hash__

    @property
    def because(self) -> str:
        """The code that stands in JSON."""
        return _BECAUSE[self]

    @property
    def meaning(self) -> str:
        """One sentence."""
        return _MEANING[self]


_BECAUSE = {
    Limit.REACTION: "AutoscalerReaction",
    Limit.CEILING: "NodeCeiling",
    Limit.LAUNCH_RATE: "LaunchRate",
    Limit.OWN_WINDOW: "OwnWindow",
    Limit.BOOT: "BootTime",
    Limit.API_SERVERS: "ApiServers",
    Limit.CONTROLLER_MANAGER: "ControllerManagerLimit",
    Limit.SCHEDULER: "SchedulerLimit",
    Limit.JOIN: "JoinTime",
}


_MEANING = {
    Limit.REACTION: "the autoscaler has not asked for machines yet",
    Limit.CEILING: "no more may come: a limit on nodes is reached, or their NodePool is not Ready",
    Limit.LAUNCH_RATE: "the cloud does not start machines faster",
    Limit.OWN_WINDOW: "the JoinThrottle waits until it has seen that the API servers keep up",
    Limit.BOOT: "the machines are ordered and still booting",
    Limit.API_SERVERS: "the API servers can take no more joins",
    Limit.CONTROLLER_MANAGER: "the controller manager does not make DaemonSet pods faster (--kube-api-qps)",
    Limit.SCHEDULER: "the scheduler does not bind DaemonSet pods faster (its --kube-api-qps)",
    Limit.JOIN: "nodes have registered and start: this is no limit, only the time that a join takes",
}


@dataclass(frozen=True, slots=True)
class Wave:
    """From `from_s` to `until_s` (None: without end); `nodes` became usable in it, `ready` are usable at its end."""

    from_s: float
    until_s: float | None
    nodes: int
    ready: int
    limit: Limit
    name: str = ""
    """Of the object that binds, where there is one."""

    @property
    def seconds(self) -> float:
        """Its length; 0 where it does not end."""
        return 0.0 if self.until_s is None else self.until_s - self.from_s


def waves_of(run: Flow, world: World) -> tuple[Wave, ...]:
    """The run's waves in order; they cover it without gaps."""
    moments = [moment for moment in run.moments if moment.at_s >= 0.0]
    waves: list[Wave] = []
    for before, after in pairwise(moments):
        limit = binding(before, after, world)
        wave = Wave(before.at_s, after.at_s, after.ready - before.ready, after.ready, limit)
        waves = _joined(waves, wave)
    return tuple(_without_slivers(waves, run.moments[-1].at_s))


def binding(before: FlowMoment, after: FlowMoment, world: World) -> Limit:
    """What holds the scale-up back between two moments: the narrowest place that nodes are waiting before."""
    joining, queued = before.joining, min(before.pods_queued, after.pods_queued)
    if not (before.booting or before.held or joining or before.ready):
        return Limit.REACTION
    if queued * world.daemon_sets / world.pods_per_s >= BACKLOG_S:
        return Limit.SCHEDULER if world.is_scheduler_slower else Limit.CONTROLLER_MANAGER
    if after.utilisation >= LIMITING_LOAD and joining:
        return Limit.API_SERVERS
    if before.is_launch_bound and before.waiting:
        return Limit.LAUNCH_RATE
    if before.waiting or before.held:
        return _held_back(before, after)
    return Limit.BOOT if before.booting > joining else Limit.JOIN


def _held_back(before: FlowMoment, after: FlowMoment) -> Limit:
    if after.utilisation >= FILLED and before.joining:
        return Limit.API_SERVERS
    return Limit.OWN_WINDOW


def main_limit(waves: Sequence[Wave]) -> Limit | None:
    """The one that binds for longest; a ceiling that is never lifted comes first. None without waves."""
    if any(wave.until_s is None for wave in waves):
        return Limit.CEILING
    spent: dict[Limit, float] = {}
    for wave in waves:
        spent[wave.limit] = spent.get(wave.limit, 0.0) + wave.seconds
    return max(spent, key=lambda limit: spent[limit], default=None)


def _joined(waves: list[Wave], wave: Wave) -> list[Wave]:
    if waves and waves[-1].limit is wave.limit:
        return [*waves[:-1], _both(waves[-1], wave, wave.limit)]
    return [*waves, wave]


def _both(first: Wave, second: Wave, limit: Limit) -> Wave:
    return replace(first, until_s=second.until_s, nodes=first.nodes + second.nodes, ready=second.ready, limit=limit)


def _without_slivers(waves: list[Wave], end_s: float) -> list[Wave]:
    """A short stretch goes to the longer neighbour."""
    kept: list[Wave] = []
    for wave in waves:
        if kept and min(wave.seconds, kept[-1].seconds) < SLIVER * end_s:
            longer = max((kept[-1], wave), key=lambda stretch: stretch.seconds)
            kept[-1] = _both(kept[-1], wave, longer.limit)
        else:
            kept = _joined(kept, wave)
    return kept


@dataclass(frozen=True, slots=True)
class Band:
    """A figure over all worlds: its median, and what one in twenty is below or above; None where runs do not end."""

    median: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """`runs` are in the order of `worlds`, `run` is the one whose end is the median's.

    Figures of load are medians over all worlds: how busy the servers are without any join differs from world to world,
    and the median end of another policy is that of another world.
    """

    nodes: int
    eta_s: Band
    first_s: Band
    """The first usable node."""
    worlds: tuple[World, ...]
    runs: tuple[Flow, ...]
    run: Flow
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
        return is_collapse(self.error_share)

    def waves_in(self, world: int) -> tuple[Wave, ...]:
        """The waves of the run in this world."""
        return waves_of(self.runs[world], self.worlds[world])

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
    return min(range(len(forecasts[0].runs)), key=lambda world: sum(forecast.unlike(world) for forecast in forecasts))


def forecast(inputs: PlanInputs, pool: PoolFacts, nodes: int, make: Maker) -> Forecast:
    """Run `nodes` (1 to MOST_ADDED); every policy meets the same worlds."""
    possible = worlds(inputs, pool, nodes)
    runs = tuple(flow(world, make(world.scenario)) for world in possible)
    by_end = sorted(runs, key=lambda run: inf if run.done_s is None else run.done_s)
    run = by_end[(len(by_end) - 1) // 2]
    scale = inputs.servers.requests_per_join.value / REQUESTS
    return Forecast(
        nodes=run.nodes,
        eta_s=time_band([run.done_s for run in runs], look_spread(run, possible[runs.index(run)])),
        first_s=time_band([run.usable_s[0][0] if run.usable_s else None for run in runs]),
        worlds=tuple(possible),
        runs=runs,
        run=run,
        lost=band([float(run.lost) for run in runs]),
        error_share=_median(runs, lambda run: run.error_share),
        slower_by=_median(runs, _slower_by),
        hurt_share=sum(hurt_s(run) > 0.0 for run in runs) / len(runs),
        slower_by_high=max(map(_slower_by, runs)),
        peak_requests_per_s=scale * _median(runs, lambda run: max(moment.requests_per_s for moment in run.moments)),
        peak_utilisation=_median(runs, _load),
        hurt_s=_median(runs, hurt_s),
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
    low, middle, high = (float(value) for value in np.percentile(ordered, [LOW, 50, HIGH], method="linear"))
    return Band(*(None if value > top / 1e6 else value for value in (middle, low, high)))


def look_spread(run: Flow, world: World) -> float:
    """Of the end, as a standard deviation: waves that meet the autoscaler's looks or miss them.

    Nothing waits for looks where machines are ordered ahead and held at a gate, nor once all have been ordered.
    """
    scenario = world.scenario
    if scenario.has_gate or not run.done_s:
        return 0.0
    waited_s = sum(
        after.at_s - before.at_s
        for before, after in pairwise(run.moments)
        if before.at_s >= 0.0 and after.waiting and not after.is_launch_bound
    )
    look_s = LOOK_SHARE * world.look_s
    return min(1.0, waited_s / run.done_s) * look_s / (scenario.boot_s + world.join_s + look_s)


def time_band(ends_s: Sequence[float | None], look_spread: float = 0.0) -> Band:
    """Between which times nine in ten scale-ups end, as timestamps will tell it.

    `look_spread` is a standard deviation, as a share of the end.

    As wide as the worlds, what no world draws and whole seconds make it together. The outermost of nine worlds is no
    percentile of all worlds, and of three even less: so each side is told by the deviation of all worlds on that side.
    """
    middle_s = band(list(ends_s)).median
    if middle_s is None:
        return Band(None, band(list(ends_s)).low, None)
    known = [end_s for end_s in ends_s if end_s is not None]
    undrawn_s = hypot(UNDRAWN_SPREAD, look_spread) * middle_s
    low_s = max(0.0, middle_s - _reach_s(middle_s, undrawn_s, [end_s for end_s in known if end_s < middle_s]))
    high_s = middle_s + _reach_s(middle_s, undrawn_s, [end_s for end_s in known if end_s > middle_s])
    return Band(middle_s, low_s, high_s if len(known) == len(ends_s) else None)


def _reach_s(middle_s: float, undrawn_s: float, beyond_s: Sequence[float]) -> float:
    """How far one side of the band goes from the middle, by the worlds that end on that side."""
    worlds_s = sqrt(sum((end_s - middle_s) ** 2 for end_s in beyond_s) / len(beyond_s)) if beyond_s else 0.0
    return TO_HIGH * hypot(worlds_s, undrawn_s, SECOND_S)


def _node_seconds(run: Flow) -> float:
    total = 0.0
    for before, after in zip(run.moments, run.moments[1:], strict=False):
        total += (before.booting + before.held + before.joining) * (after.at_s - before.at_s)
    return total
