"""What a limit costs: the same scale-up, in the world that is thought likeliest, with and without it."""

from dataclasses import dataclass, replace

from balloons.preview.flow import flow
from balloons.preview.inputs import PlanInputs, PoolFacts
from balloons.preview.limit import Limit
from balloons.preview.policies import NONE, Maker, policy_maker
from balloons.preview.world import World, median_world

AT_ONCE_S = 1.0
PLENTY = 1e6
"""Pods per second, or times the servers' capacity: more than can matter."""


@dataclass(frozen=True, slots=True)
class Relief:
    """Seconds to the last usable node; None where that has no end."""

    with_it_s: float | None
    without_it_s: float | None

    @property
    def share(self) -> float | None:
        """What of the time would be left without the limit."""
        if not self.with_it_s or self.without_it_s is None:
            return None
        return self.without_it_s / self.with_it_s


def relief(inputs: PlanInputs, pool: PoolFacts, nodes: int, make: Maker, limit: Limit) -> Relief | None:
    """None for limits that nobody can lift: the autoscaler's reaction, a join's own time; ceilings name themselves."""
    world = median_world(inputs, pool, nodes)
    lifted = _lifted(world, limit)
    if lifted is None:
        return None
    other = policy_maker(NONE, None) if limit is Limit.OWN_WINDOW else make
    return Relief(flow(world, make(world.scenario)).done_s, flow(lifted, other(lifted.scenario)).done_s)


def _lifted(world: World, limit: Limit) -> World | None:
    scenario = world.scenario
    match limit:
        case Limit.BOOT:
            return replace(world, scenario=replace(scenario, boot_s=AT_ONCE_S))
        case Limit.API_SERVERS:
            return replace(world, scenario=replace(scenario, capacity=PLENTY))
        case Limit.CONTROLLER_MANAGER | Limit.SCHEDULER:
            return replace(world, pods_per_s=PLENTY, burst=PLENTY)
        case Limit.LAUNCH_RATE:
            return replace(world, launches_per_s=None)
        case Limit.OWN_WINDOW:
            return world
    return None
