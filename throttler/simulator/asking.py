"""One control step: ask the policy, or tell the oracle the truth and ask it."""

from throttler.joins.joins import Joins
from throttler.signals.reading import Signals
from throttler.simulator.plant import join_cost
from throttler.simulator.policy import Oracle, Permit, Policy
from throttler.simulator.scenario import Scenario
from throttler.simulator.simulated_scrape import CLOCK_START_S
from throttler.simulator.weather import spare


def permit(
    policy: Policy | Oracle, scenario: Scenario, signals: Signals, joins: Joins, background: float, now_s: float
) -> Permit:
    """What may happen until the next step; `background` is the true share now, for the oracle's eyes only."""
    if isinstance(policy, Oracle):
        free = spare(scenario, background, joins.joined, now_s)
        cost = join_cost(scenario, joins.joining + joins.joined)
        return policy.step_knowing(free, cost, joins, now_s + CLOCK_START_S)
    return policy.step(signals, joins, now_s + CLOCK_START_S)
