"""Possible worlds: every uncertain figure drawn once per world, so that the plan's band says what is not known."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf
from statistics import NormalDist

import numpy as np

from balloons.preview.inputs import MOST_JITTER, Known, PlanInputs, PoolFacts, daemon_share
from throttler.levers.ceiling import RAISE_EVERY_S
from throttler.signals.reading import INTERVAL_S
from throttler.simulator.requests_and_machines import JOIN
from throttler.simulator.scenario_and_faults import ScaleUp, Scenario

SEATS_PER_CAPACITY = 20.0
"""Real servers are out of CPU long before they are out of seats (600 by default)."""
MOST_BACKGROUND = 0.9
LEAD_S = 60.0
"""Quiet time before the demand, in which the law learns what idle servers look like."""
STEPS_S = ((30.0, 150, 0.25, 2.0), (120.0, 500, 0.5, 2.0), (480.0, 2000, 1.0, 2.0), (inf, inf, 2.0, 5.0))
"""For boots of up to so long and so many nodes: steps of so many seconds, and how often pacing is asked at least. The
service looks every two seconds, and the law lets six seconds' worth in at once."""
COST_SPREAD = 0.12
"""Of a join's cost between a history of twenty and the scale-up after it: standard deviation of the logarithm over
eighteen real pairs on a quiet machine (docs/benchmarks.md, truth)."""
POKE_S = 1.0
"""How soon the service looks after something has changed, unless it looks sooner anyway."""
COUNTED_MORE_S = 1.0
"""Half a second on average for each of the two."""
WORLDS = ((2000, 9), (20_000, 5), (inf, 3))
"""Up to so many nodes, so many worlds, whoever asks: `plan`, `report` and `simulate` answer a question alike. A large
scale-up's own chances average out, and the answer is to come while one waits."""
TAKEN_UP_S = 0.4
"""After its limits have changed, Karpenter calls a NodePool not ready until it has checked it anew; a look that comes
meanwhile orders nothing. Of nine looks in a scale-up whose ceiling moved every second or two, two were lost. In longer
steps of the flow that is left out."""
LIMIT_S = 12 * 3600.0
"""A scale-up that has not ended by then does not end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """One world: the simulator's scenario, and what it leaves out (docs/simulator.md).

    The scenario counts work in the simulator's units, in which a join in an empty cluster costs 4.5 seat-seconds:
    servers are so large that a join is as large a part of them as here. Latencies mean something only over idle ones.
    """

    seed: int
    scenario: Scenario
    join_s: float
    daemon_sets: float
    daemon_share: float
    """Of a join's work, what comes with its DaemonSet pods."""
    pods_per_s: float
    """The slower of controller manager and scheduler, and its burst (the scheduler's is twice its rate by default)."""
    burst: float
    status_writes: float
    """Of each DaemonSet while nodes come, through the same limit as its pods."""
    is_scheduler_slower: bool
    launches_per_s: float | None
    launch_burst: int
    look_s: float
    """How often the autoscaler looks."""
    is_look_prompted: bool
    """Whether it also looks when nodes come, as Karpenter does."""
    rhythm: float
    """From 0 to 1: where in their rhythm the scale-up meets the scrapes, and how long the autoscaler's batches take."""
    raise_every_s: float
    """How often a ceiling is raised at most; 0 where none is."""
    taken_up_s: float
    """For so long after a ceiling has moved the autoscaler's looks order nothing."""
    ready_share: float
    """Share of a join after which its node is Ready."""
    notice_s: float
    """How much later than its end pacing counts a join as ended: others take taints off first."""
    step_s: float
    """Of the flow."""
    poke_s: float
    """How soon pacing is asked after something has changed."""


def worlds(inputs: PlanInputs, pool: PoolFacts, nodes: int) -> list[World]:
    """The worlds in which `nodes` are wanted. The same for the same inputs.

    A Latin hypercube: each figure takes every quantile once, in an order of its own, so that few worlds are enough.
    """
    count = next(count for most, count in WORLDS if nodes <= most)
    draws = np.random.default_rng(count)
    middle = NormalDist()
    quantiles = [middle.inv_cdf((index + 0.5) / count) for index in range(count)]
    columns = _Columns([draws.permutation(quantiles).tolist() for _ in range(len(_figures(inputs, pool)))])
    rhythms = draws.permutation(count)
    return [
        _world(inputs, pool, nodes, seed, columns.at(seed), (float(rhythms[seed]) + 0.5) / count)
        for seed in range(count)
    ]


def median_world(inputs: PlanInputs, pool: PoolFacts, nodes: int) -> World:
    """The world in which every figure is what it is thought to be."""
    return _world(inputs, pool, nodes, 0, iter([0.0] * len(_figures(inputs, pool))), 0.5)


@dataclass(frozen=True, slots=True)
class _Columns:
    values: Sequence[Sequence[float]]

    def at(self, row: int) -> Iterator[float]:
        return iter([column[row] for column in self.values])


def _figures(inputs: PlanInputs, pool: PoolFacts) -> tuple[Known, ...]:
    """Every figure that may differ from world to world, in a fixed order."""
    servers, controllers = inputs.servers, inputs.controllers
    return (
        pool.boot_s,
        pool.boot_jitter,
        inputs.join_s,
        servers.cores,
        servers.background,
        _of_this_time(servers.join_cpu_s),
        controllers.reaction_s,
        controllers.look_s,
        controllers.status_writes,
    )


def _of_this_time(cost: Known) -> Known:
    """A join's cost is a mean, whoever states it: it differs from one scale-up to the next."""
    return replace(cost, spread=max(cost.spread, COST_SPREAD))


def _world(
    inputs: PlanInputs, pool: PoolFacts, nodes: int, seed: int, deviations: Iterator[float], rhythm: float
) -> World:
    drawn = [known.at(deviation) for known, deviation in zip(_figures(inputs, pool), deviations, strict=True)]
    boot_s, jitter, join_s, cores, background, join_cpu_s, reaction_s, look_s, status_writes = drawn
    controllers, throttle = inputs.controllers, inputs.throttle
    has_ceiling = throttle is None or throttle.has_ceiling
    flow_step_s, ask_s = next(steps for most_s, most, *steps in STEPS_S if boot_s <= most_s and nodes <= most)
    scenario = Scenario(
        name="preview",
        demands=(ScaleUp(at_s=reaction_s, nodes=nodes),),
        servers=round(inputs.servers.count.value),
        capacity=cores * JOIN.cost_at(0) / join_cpu_s,
        seats_per_capacity=SEATS_PER_CAPACITY,
        boot_s=boot_s,
        boot_jitter=min(MOST_JITTER, jitter),
        boot_is_skewed=True,
        nodes_before=inputs.nodes,
        background=min(MOST_BACKGROUND, background),
        has_gate=throttle is not None and throttle.settings.has_gate,
        kill_timer_s=controllers.kill_timer_s.value,
        faults=inputs.faults,
        scrape_s=throttle.scrape_s if throttle else INTERVAL_S,
        lead_s=LEAD_S,
        step_s=ask_s,
        limit_s=LIMIT_S,
    )
    pods_per_s, binds_per_s = controllers.pods_per_s.value, controllers.binds_per_s.value
    rate = controllers.launches_per_s
    return World(
        seed=seed,
        scenario=scenario,
        join_s=join_s,
        daemon_sets=controllers.daemon_sets.value,
        daemon_share=daemon_share(controllers.daemon_sets.value),
        pods_per_s=min(pods_per_s, binds_per_s),
        burst=2 * binds_per_s if binds_per_s < pods_per_s else controllers.burst.value,
        status_writes=0.0 if binds_per_s < pods_per_s else status_writes,
        is_scheduler_slower=binds_per_s < pods_per_s,
        launches_per_s=rate.value if rate else None,
        launch_burst=controllers.launch_burst,
        look_s=look_s,
        is_look_prompted=controllers.is_look_prompted,
        rhythm=rhythm,
        raise_every_s=RAISE_EVERY_S if has_ceiling else 0.0,
        taken_up_s=TAKEN_UP_S if has_ceiling and controllers.is_look_prompted and flow_step_s < TAKEN_UP_S else 0.0,
        ready_share=inputs.ready_share,
        notice_s=_notice_s(inputs),
        step_s=flow_step_s,
        poke_s=max(POKE_S, 2 * flow_step_s),
    )


def _notice_s(inputs: PlanInputs) -> float:
    """What the throttle counts joins for longer, less what is not late: it looks once a second, as it does here, and
    counts from the second in which the node was created."""
    counted_s = inputs.throttle.join_s if inputs.throttle else None
    return max(0.0, counted_s - inputs.join_s.value - COUNTED_MORE_S) if counted_s else 0.0
