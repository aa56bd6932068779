"""Scenarios to try laws on: the twelve of the study, in its order and under its letters, and random ones.

What the study's table leaves open was chosen: the bursts of H fall into the scale-up, the background is 0.25, its swing
0.1. The heartbeats of "nodes before" are part of the background.

The random ones are drawn over wide ranges: a law that was tuned to the twelve shows itself there. Two bounds keep a
scenario meaningful, nothing else is adjusted: an undisturbed oracle needs less than half an hour, and at no moment do
others and faults leave less than `LEAST_SPARE` of the capacity.
"""

from dataclasses import replace

import numpy as np

from throttler.simulator.requests_and_machines import LIST, heartbeat_load, join_cost, spare
from throttler.simulator.scenario_and_faults import (
    Blindness,
    Fault,
    ListBurst,
    ScaleUp,
    Scenario,
    ServerLoss,
    Slowdown,
)

_SMALL = (ScaleUp(at_s=0.0, nodes=500),)
_MIDDLE = (ScaleUp(at_s=0.0, nodes=1000),)
_LARGE = (ScaleUp(at_s=0.0, nodes=2000),)

TWELVE: tuple[Scenario, ...] = (
    Scenario(name="A small", demands=_SMALL, servers=2, capacity=4, nodes_before=200),
    Scenario(
        name="B large", demands=(ScaleUp(at_s=0.0, nodes=7500),), servers=5, capacity=16, boot_s=180, nodes_before=500
    ),
    Scenario(
        name="C drop",
        demands=_LARGE,
        servers=5,
        capacity=12,
        nodes_before=1500,
        faults=(ServerLoss(at_s=200, for_s=120), Slowdown(at_s=200, for_s=120, factor=0.65)),
    ),
    Scenario(
        name="D stale",
        demands=_LARGE,
        servers=5,
        capacity=12,
        nodes_before=1500,
        faults=(Blindness(at_s=180, for_s=180), Slowdown(at_s=210, for_s=120, factor=0.55)),
    ),
    Scenario(name="E spare", demands=_LARGE, servers=5, capacity=18, nodes_before=200, background=0.15),
    Scenario(
        name="F repeat",
        demands=tuple(ScaleUp(at_s=at_s, nodes=500) for at_s in (0.0, 1500.0, 3000.0)),
        servers=2,
        capacity=4,
        nodes_before=200,
    ),
    Scenario(name="G long boot", demands=_SMALL, servers=2, capacity=4, boot_s=480, nodes_before=200, kill_timer_s=900),
    Scenario(
        name="H noisy",
        demands=_MIDDLE,
        servers=3,
        capacity=8,
        nodes_before=800,
        background=0.35,
        background_swing=0.35,
        scrape_noise=0.15,
        scrape_missing=0.15,
        faults=tuple(ListBurst(at_s=at_s, for_s=60, per_s=20) for at_s in (200, 350, 500)),
    ),
    Scenario(name="I too many seats", demands=_MIDDLE, servers=3, capacity=6, seats_per_capacity=20, nodes_before=500),
    Scenario(
        name="J tiny",
        demands=(ScaleUp(at_s=0.0, nodes=300),),
        servers=1,
        capacity=2.2,
        seats_per_capacity=3,
        nodes_before=100,
        background=0.35,
    ),
    Scenario(name="K heavy", demands=_MIDDLE, servers=3, capacity=10, nodes_before=300, join_weight=4),
    Scenario(name="M too few seats", demands=_MIDDLE, servers=3, capacity=10, seats_per_capacity=0.6, nodes_before=300),
)


LONGEST_ORACLE_S = 1800.0
LEAST_SPARE = 0.15
HEARTBEAT_SHARE = 0.2
"""New nodes' heartbeats may take so much of the capacity at most."""
HOW_MANY = (0.5, 0.3, 0.15, 0.05)
"""Chances of 0, 1, 2 and 3 faults of one kind."""


def random_scenario(seed: int) -> Scenario:
    """The scenario of this seed (any integer >= 0), always the same."""
    draws = np.random.default_rng(seed)
    scenario = _with_demand(_cluster(draws, seed), draws)
    end_s = _oracle_s(scenario) + scenario.boot_s
    for fault in _faults(scenario, draws, end_s):
        with_fault = replace(scenario, faults=(*scenario.faults, fault))
        if _least_spare(with_fault) >= LEAST_SPARE:
            scenario = with_fault
    return scenario


def _cluster(draws: np.random.Generator, seed: int) -> Scenario:
    capacity = _spread(draws, 2.0, 20.0)
    return Scenario(
        name=f"random {seed}",
        demands=(),
        servers=int(draws.integers(1, 8)),
        capacity=capacity,
        seats_per_capacity=max(3.0 / capacity, _spread(draws, 0.6, 20.0)),
        boot_s=_spread(draws, 20.0, 600.0),
        boot_jitter=float(draws.uniform(0.02, 0.2)),
        nodes_before=int(_spread(draws, 20.0, 5000.0)),
        background=float(draws.uniform(0.05, 0.45)),
        background_swing=float(draws.uniform(0.0, 0.35)),
        join_weight=_spread(draws, 0.3, 5.0),
        has_gate=bool(draws.random() < 0.75),
        scrape_delay_s=float(draws.uniform(0.2, 5.0)),
        scrape_missing=float(draws.uniform(0.0, 0.2)),
        scrape_noise=float(draws.uniform(0.0, 0.2)),
        tags=("random",),
    )


def _with_demand(cluster: Scenario, draws: np.random.Generator) -> Scenario:
    nodes = int(_spread(draws, 50.0, 5000.0))
    while nodes > 1 and not _is_bearable(_wanting(cluster, nodes)):
        nodes = int(0.9 * nodes)
    return _wanting(cluster, nodes)


def _wanting(cluster: Scenario, nodes: int) -> Scenario:
    return replace(cluster, demands=(ScaleUp(at_s=0.0, nodes=nodes),))


def _is_bearable(scenario: Scenario) -> bool:
    heartbeats = heartbeat_load(scenario.nodes)
    return heartbeats < HEARTBEAT_SHARE * _capacity(scenario) and _oracle_s(scenario) < LONGEST_ORACLE_S


def _oracle_s(scenario: Scenario) -> float:
    """About how long an undisturbed oracle lets nodes in."""
    halfway = scenario.nodes / 2
    free = spare(replace(scenario, faults=()), scenario.background, halfway, 0.0)
    return scenario.nodes * join_cost(scenario, halfway) / max(free, 1e-9)


def _faults(scenario: Scenario, draws: np.random.Generator, end_s: float) -> list[Fault]:
    return [
        *(_loss(scenario, draws, at_s) for at_s in _times(draws, end_s) if scenario.servers > 1),
        *(
            Slowdown(at_s=at_s, for_s=float(draws.uniform(30, 300)), factor=float(draws.uniform(0.4, 0.9)))
            for at_s in _times(draws, end_s)
        ),
        *(Blindness(at_s=at_s, for_s=float(draws.uniform(30, 300))) for at_s in _times(draws, end_s)),
        *(_burst(scenario, draws, at_s) for at_s in _times(draws, end_s)),
    ]


def _times(draws: np.random.Generator, end_s: float) -> list[float]:
    return [float(draws.uniform(0.0, end_s)) for _ in range(int(draws.choice(len(HOW_MANY), p=HOW_MANY)))]


def _loss(scenario: Scenario, draws: np.random.Generator, at_s: float) -> ServerLoss:
    return ServerLoss(at_s=at_s, for_s=float(draws.uniform(30, 300)), server=int(draws.integers(scenario.servers)))


def _burst(scenario: Scenario, draws: np.random.Generator, at_s: float) -> ListBurst:
    cost = LIST.cost_at(scenario.nodes_before + scenario.nodes)
    per_s = float(draws.uniform(0.05, 0.3)) * _capacity(scenario) / cost
    return ListBurst(at_s=at_s, for_s=float(draws.uniform(30, 180)), per_s=per_s)


def _least_spare(scenario: Scenario) -> float:
    """The smallest share of the capacity that is ever free, with all new nodes' heartbeats and a usual swing."""
    background = scenario.background * (1.0 + scenario.background_swing)
    times = (fault.at_s for fault in scenario.faults)
    return min(spare(scenario, background, scenario.nodes, at_s) for at_s in times) / _capacity(scenario)


def _capacity(scenario: Scenario) -> float:
    return scenario.servers * scenario.capacity * min(1.0, scenario.seats_per_capacity)


def _spread(draws: np.random.Generator, low: float, high: float) -> float:
    """A draw that is even in its logarithm."""
    return float(np.exp(draws.uniform(np.log(low), np.log(high))))
