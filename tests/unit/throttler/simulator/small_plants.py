"""Policies and scenarios for the simulator's tests, small enough to be reckoned by hand."""

from dataclasses import dataclass

from throttler.joins.joins import Joins
from throttler.signals.reading import Signals
from throttler.simulator.pacing_policies import Oracle, Permit
from throttler.simulator.requests_and_machines import JOIN
from throttler.simulator.requests_and_machines import spare as true_spare
from throttler.simulator.scenario_and_faults import ScaleUp, Scenario


class Everything:
    """What autoscalers do: ask for all, let all in."""

    def step(self, signals: Signals, joins: Joins, now_s: float) -> Permit:
        return Permit(ask=joins.waiting, admit=joins.held)


@dataclass
class Window:
    """At most so many joins in flight."""

    size: int

    def step(self, signals: Signals, joins: Joins, now_s: float) -> Permit:
        return Permit(ask=joins.waiting, admit=max(0, self.size - joins.joining), window=self.size)


class Nobody:
    """Asks for all machines and lets none in."""

    def step(self, signals: Signals, joins: Joins, now_s: float) -> Permit:
        return Permit(ask=joins.waiting, admit=0)


@dataclass
class Truthful(Oracle):
    """Lets in 95 % of what it is told to be free."""

    credit: float = 0.0

    def step_knowing(self, spare: float, join_cost: float, joins: Joins, now_s: float) -> Permit:
        per_step = 0.95 * spare / join_cost * 5.0
        self.credit = min(self.credit + per_step, 2 * per_step + 1)
        admit = min(int(self.credit), joins.held)
        self.credit -= admit
        return Permit(ask=max(0, min(joins.waiting, int(60 * per_step) - joins.booting - joins.held)), admit=admit)


def plant(nodes: int = 1, **changes: object) -> Scenario:
    """Two quiet servers, instant machines: what a test does not name is out of its way."""
    settings: dict[str, object] = {
        "name": "test",
        "demands": (ScaleUp(at_s=0.0, nodes=nodes),),
        "servers": 2,
        "capacity": 8.0,
        "boot_s": 10.0,
        "boot_jitter": 0.0,
        "background": 0.001,
        "lead_s": 20.0,
        "limit_s": 3600.0,
    }
    return Scenario(**(settings | changes))  # type: ignore[arg-type]


def least_time_s(scenario: Scenario) -> float:
    """No admission policy can do all joins in less: their work over what is free, from the first boot on."""
    work = sum(JOIN.cost_at(scenario.nodes_before, scenario.join_weight) for _ in range(scenario.nodes))
    return work / true_spare(scenario, scenario.background, 0.0, 0.0)
