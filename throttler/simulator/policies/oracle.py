"""The yardstick: knows the true spare capacity at each moment."""

from dataclasses import dataclass, field

from throttler.joins.joins import Joins
from throttler.simulator.plant import JOIN
from throttler.simulator.policies.drip import Drip
from throttler.simulator.policies.stock import SMALLEST
from throttler.simulator.policy import Permit
from throttler.simulator.scenario import Scenario
from throttler.simulator.simulated_scrape import CLOCK_START_S
from throttler.simulator.weather import spare

USED_SHARE = 0.95
"""Of the true spare capacity: what is left of it bears the swings of others."""
LONGEST_S = 1.2 * JOIN.alone_s
"""When joins take longer than this, the servers have more than they can do: a rate alone would keep them there."""


WAIT_S = 60.0
"""A machine may wait so long at the gate."""
KILL_SHARE = 0.75
"""Of the kill timer, for the last machine's way to the gate."""
LOOK_S = 20.0
"""Step of the look ahead."""


@dataclass
class FullKnowledge:
    """Lets in what fits into 95 % of what is free now, and asks early enough that the gate never runs dry.

    It asks for what it knows that it can let in: disturbances are foreseen, the background is taken to be as usual.
    """

    scenario: Scenario
    drip: Drip = field(default_factory=Drip)
    asking: Drip = field(default_factory=Drip)

    def step_knowing(self, spare: float, join_cost: float, joins: Joins, now_s: float) -> Permit:
        """See `throttler.simulator.policy.Oracle`."""
        per_s = max(0.0, USED_SHARE * spare / join_cost)
        room = max(0, int(LONGEST_S * per_s) - joins.joining)
        admit = min(self.drip.due(per_s, now_s), room, joins.held)
        ask = self._room(join_cost, joins, now_s) if room or self.scenario.has_gate else 0
        return Permit(ask=max(0, min(joins.waiting, ask)), admit=admit)

    def _room(self, join_cost: float, joins: Joins, now_s: float) -> int:
        """Machines that may be asked for now: as many as join in time, or as fit when they have booted."""
        boot_s, at_s = self.scenario.boot_s, now_s - CLOCK_START_S
        if self.scenario.has_gate:
            ahead_s = max(1.1 * boot_s, min(boot_s + WAIT_S, KILL_SHARE * self.scenario.kill_timer_s))
            return max(SMALLEST, int(self._fitting(join_cost, joins, at_s, ahead_s))) - joins.booting - joins.held
        then_per_s = min(self._pace(join_cost, joins, at_s + boot_s + later_s) for later_s in (0.0, LOOK_S, 2 * LOOK_S))
        return self.asking.due(then_per_s, now_s)

    def _fitting(self, join_cost: float, joins: Joins, from_s: float, for_s: float) -> float:
        """Joins that can be let in from then on for so long."""
        if not self.scenario.disturbances:
            return for_s * self._pace(join_cost, joins, from_s)
        looks = max(1, round(for_s / LOOK_S))
        return for_s / looks * sum(self._pace(join_cost, joins, from_s + look * LOOK_S) for look in range(looks))

    def _pace(self, join_cost: float, joins: Joins, at_s: float) -> float:
        return USED_SHARE * spare(self.scenario, self.scenario.background, joins.joined, at_s) / join_cost
