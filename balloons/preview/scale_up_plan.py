"""A plan: what a scale-up to so many nodes will do, when, what limits it, what it costs, and what could go wrong.

What waiting and warmth cost, in the currency of whoever gave the prices. What a limit costs: the same scale-up without
it, in the world that is thought likeliest.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from balloons.preview.forecast import (
    MOST_ADDED,
    NONE,
    THROTTLE,
    Band,
    Forecast,
    Limit,
    Maker,
    Wave,
    forecast,
    main_limit,
    policy_maker,
    typical_world,
)
from balloons.preview.from_cluster import lift
from balloons.preview.inputs import Ceiling, PlanInputs, PoolFacts, of_pool, sharing, stopped
from balloons.preview.overload import is_collapse
from balloons.preview.possible_worlds import World, median_world
from balloons.preview.scale_up_run import Flow, FlowMoment, flow
from balloons.preview.workload_pods_and_fitting import Fitting
from balloons.text_and_colours import duration, share
from throttler.kube.quantities_and_durations import count, plural

HOUR_S = 3600.0
AT_ONCE_S = 1.0
PLENTY = 1e6
"""Pods per second, or times the servers' capacity: more than can matter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """None where no price is known; `unpriced` names the machine that has none."""

    price_per_hour: float | None = None
    """Of one new node."""
    waiting: float | None = None
    """For machines that are paid for and not usable yet, all of this scale-up."""
    warm_per_hour: float | None = None
    """For nodes that are warm now."""
    unpriced: str = ""


def cost_of(pool: PoolFacts, node_seconds: float, prices: Mapping[str, float]) -> Cost:
    """`prices` maps instance types to what one costs per hour; a price at the shape itself gives way to it."""
    shape = pool.shape
    instance_type = shape.instance_type if shape else ""
    price = prices.get(instance_type, shape.price_per_hour if shape else None)
    if price is None:
        price = prices.get("*")
    if price is None:
        return Cost(unpriced=instance_type or pool.name or "new nodes")
    return Cost(
        price_per_hour=price,
        waiting=price * node_seconds / HOUR_S,
        warm_per_hour=price * pool.warm if pool.warm else 0.0,
    )


def without_limit_s(inputs: PlanInputs, pool: PoolFacts, nodes: int, make: Maker, limit: Limit | None) -> float | None:
    """Seconds to the last usable node if the limit were lifted, in the likeliest world.

    None where that has no end, and for limits that nobody can lift: the autoscaler's reaction, a join's own time;
    ceilings name themselves.
    """
    world = median_world(inputs, pool, nodes)
    lifted = _lifted(world, limit)
    if lifted is None:
        return None
    maker = policy_maker(NONE, None) if limit is Limit.OWN_WINDOW else make
    return flow(lifted, maker(lifted.scenario)).done_s


def _lifted(world: World, limit: Limit | None) -> World | None:
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


class PlanError(ValueError):
    """A plan cannot be made of this; the message is a sentence for the user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the user wants to happen: `add` more nodes in the pool."""

    add: int
    is_total: bool = False
    """Whether so many are to be there in the end: then machines that are on their way now are among them."""
    pool: str = ""
    within_s: float | None = None
    """A promise to check: one in twenty may be later."""
    in_words: str = ""
    """As the user put it: `--to 500`."""


@dataclass(frozen=True, slots=True)
class SideMoment:
    """`ready` new nodes, the busy share of the API servers' capacity, and how much longer others wait than on idle
    ones, `at_s` after the demand."""

    at_s: float
    ready: int
    utilisation: float
    slower_by: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """The same scale-up under one policy, in short."""

    policy: str
    eta_s: float | None
    peak_requests_per_s: float
    peak_utilisation: float
    error_share: float
    slower_by: float
    """Worst latency over that of idle servers."""
    hurt_s: float = 0.0
    """For how long others notice that servers are busy or slow (overload.py)."""
    hurt_share: float = 0.0
    """Of the possible worlds, those in which they do. The figures above are medians over all of them."""
    slower_by_high: float = 1.0
    """In the worst of them."""
    moments: tuple[SideMoment, ...] = ()
    """Its course from the demand on; empty where only the figures above are known."""
    is_stuck: bool = False
    """Whether it has no end because machines are destroyed before they join; else no end means: not within 12 h."""

    @property
    def is_collapse(self) -> bool:
        """Whether the servers refuse so much that the real end may be much later."""
        return is_collapse(self.error_share)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleUpPlan:
    """`coming` of `asked.add` nodes can come; without any, `forecast` is None."""

    at: datetime
    asked: Asked
    inputs: PlanInputs
    pool: PoolFacts
    coming: int
    ceiling: Ceiling | None
    """The one that stops it before all have come; of several the one that stops most of them."""
    policy: str
    forecast: Forecast | None
    moments: tuple[FlowMoment, ...]
    """Of the one possible world that is shown: the waves, and the course of each side, are of the same."""
    waves: tuple[Wave, ...]
    limit: Limit | None
    without_limit_s: float | None
    """When the last node would be usable without it; None where nobody can lift it, or that has no end."""
    sides: tuple[Side, ...]
    cost: Cost
    fitting: Fitting | None = None
    """Where pods were given: where they go."""

    @property
    def fix(self) -> str:
        """The command that lifts the ceiling for all nodes that it bounds; empty where there is none."""
        if self.ceiling is None:
            return ""
        new = _new_nodes(self.asked, self.pool, self.fitting)
        return lift(self.ceiling, sum(new.get(name, 0) for name in sharing(self.inputs.pools)[self.ceiling]))

    @property
    def broken(self) -> tuple[str, ...]:
        """Promises that this plan does not keep, in sentences."""
        return tuple(_broken(self))


def make_plan(
    inputs: PlanInputs,
    asked: Asked,
    at: datetime,
    *,
    prices: Mapping[str, float] | None = None,
    fitting: Fitting | None = None,
) -> ScaleUpPlan:
    """Preview it; raises PlanError where there is no such pool."""
    if asked.is_total:
        inputs = _from_there(inputs)
    pool = inputs.pool(asked.pool)
    if pool is None:
        known = ", ".join(sorted(pool.name for pool in inputs.pools)) or "none"
        raise PlanError(f"pool {asked.pool!r} is not there; there are: {known}")
    check_size(asked.add)
    inputs = of_pool(inputs, pool)
    short = stopped(_new_nodes(asked, pool, fitting), inputs.pools)
    coming = asked.add - sum(nodes for nodes, _ in short)
    stopping = max(short, key=lambda stop: stop[0])[1] if short else None
    policy, other = (THROTTLE, NONE) if inputs.throttle else (NONE, THROTTLE)
    makers = {name: policy_maker(name, inputs.throttle) for name in (policy, other)}
    both = {name: forecast(inputs, pool, coming, make) for name, make in makers.items()} if coming else {}
    own, world = both.get(policy), typical_world(list(both.values())) if both else 0
    waves = _with_ceiling(own.waves_in(world) if own else (), asked.add - coming, coming, stopping)
    limit = main_limit(waves)
    return ScaleUpPlan(
        at=at,
        asked=asked,
        inputs=inputs,
        pool=pool,
        coming=coming,
        ceiling=stopping,
        policy=policy,
        forecast=own,
        moments=own.runs[world].moments if own else (),
        waves=waves,
        limit=limit,
        without_limit_s=without_limit_s(inputs, pool, coming, makers[policy], limit),
        sides=tuple(
            replace(side(name, forecast), moments=_course(forecast.runs[world])) for name, forecast in both.items()
        ),
        cost=cost_of(pool, own.node_seconds if own else 0.0, prices or {}),
        fitting=fitting,
    )


def _from_there(inputs: PlanInputs) -> PlanInputs:
    pools = (replace(pool, ceilings=tuple(ceiling.from_there for ceiling in pool.ceilings)) for pool in inputs.pools)
    return replace(inputs, pools=tuple(pools))


def _new_nodes(asked: Asked, pool: PoolFacts, fitting: Fitting | None) -> Mapping[str, int]:
    """Pool -> the nodes that are to come in it."""
    return fitting.new_nodes if fitting else {pool.name: asked.add}


def _with_ceiling(waves: tuple[Wave, ...], missing: int, ready: int, ceiling: Ceiling | None) -> tuple[Wave, ...]:
    """A wave without end for the nodes that cannot come."""
    if ceiling is None:
        return waves
    from_s = waves[-1].until_s or 0.0 if waves else 0.0
    return (*waves, Wave(from_s, None, missing, ready, Limit.CEILING, ceiling.name))


def check_size(nodes: int) -> None:
    """Raises PlanError for more nodes than a forecast takes."""
    if nodes > MOST_ADDED:
        raise PlanError(f"{count(nodes, 'node')} more are too many to run through; accepted: 1 to {MOST_ADDED:,}")


def side(policy: str, forecast: Forecast) -> Side:
    """A forecast in short, without its course."""
    return Side(
        policy=policy,
        eta_s=forecast.eta_s.median,
        peak_requests_per_s=forecast.peak_requests_per_s,
        peak_utilisation=forecast.peak_utilisation,
        error_share=forecast.error_share,
        slower_by=forecast.slower_by,
        hurt_s=forecast.hurt_s,
        hurt_share=forecast.hurt_share,
        slower_by_high=forecast.slower_by_high,
        is_stuck=forecast.run.is_stuck,
    )


def _course(run: Flow) -> tuple[SideMoment, ...]:
    return tuple(
        SideMoment(moment.at_s, moment.ready, moment.utilisation, moment.latency_s / run.idle_latency_s)
        for moment in run.moments
        if moment.at_s >= 0.0
    )


def _band(eta: Band) -> str:
    low, median, high = (duration(time_s) for time_s in (eta.low, eta.median, eta.high))
    return f"{median}; nine in ten: {low} to {high if eta.high is not None else 'no end'}"


def _broken_in_time(forecast: Forecast, within_s: float | None) -> list[str]:
    eta = forecast.eta_s
    if eta.median is None and forecast.run.is_stuck:
        return ["it never ends: the autoscaler destroys machines before they have booted, and orders them anew"]
    if eta.median is None:
        return ["it does not end within 12 hours"]
    if within_s is None or (eta.high is not None and eta.high <= within_s):
        return []
    longer = f"takes longer than {duration(within_s)}"
    which = f"it {longer} in most cases" if eta.median > within_s else f"one in twenty {longer}"
    return [f"{which} ({_band(eta)})"]


def _broken_by_load(forecast: Forecast, kill_timer_s: float) -> list[str]:
    broken = []
    if forecast.is_collapse:
        refused = share(forecast.error_share)
        broken.append(f"the API servers would refuse {refused} of all requests, and it may take much longer than said")
    lost = forecast.lost.median or 0.0
    if lost >= 1:
        late = f"{plural(lost, 'has', 'have')} not registered after {duration(kill_timer_s)}"
        broken.append(f"the autoscaler would destroy {count(lost, 'machine')} that {late}")
    return broken


def room_of(ceiling: Ceiling) -> str:
    """What a ceiling leaves, as a sentence without its stop."""
    room = f"room for {ceiling.nodes:,}" if ceiling.nodes > 0 else "no room"
    return f"{ceiling.name} {f'is {ceiling.detail}' if ceiling.is_closed else f'leaves {room}'}"


def _broken(plan: ScaleUpPlan) -> list[str]:
    broken = []
    if plan.ceiling is not None:
        asked, missing = count(plan.asked.add, "node"), plan.asked.add - plan.coming
        which = f"{missing:,} of {asked} cannot come" if plan.coming else f"none of {asked} can come"
        broken.append(f"{which}: {room_of(plan.ceiling)}")
    if plan.forecast is not None:
        broken += _broken_in_time(plan.forecast, plan.asked.within_s)
        broken += _broken_by_load(plan.forecast, plan.inputs.controllers.kill_timer_s.value)
    if plan.fitting is not None and plan.fitting.unplaceable:
        pods = sum(group.pods for group in plan.fitting.unplaceable)
        broken.append(f"{count(pods, 'pod fits', 'pods fit')} no node that is there or could come")
    return broken
