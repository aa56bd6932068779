"""One scale-up in one possible world, run to its end as a flow: the simulator's third grain.

It is fast enough to be asked while one waits. Machines, policies, scrapes and faults are the simulator's own. Joins
share one clock of progress, and servers are one fluid (`join_progress.py`). What the simulator leaves out is in: the
controller manager, the scheduler, the cloud's launch rate and the autoscaler's looks (`autoscaler_orders.py`).
tests/unit/balloons/preview/test_scale_up_run.py holds it to the grain by cohort.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from balloons.preview.autoscaler_orders import Orders
from balloons.preview.join_progress import REQUESTS, FlowServer, Joining
from balloons.preview.possible_worlds import World
from throttler.joins.joins import Joins
from throttler.simulator.pacing_policies import AtOnce, LawPolicy, Oracle, Policy, permit
from throttler.simulator.requests_and_machines import (
    JOIN,
    LIST,
    VISITOR_COST,
    Machines,
    Streams,
    background_levels,
    heartbeat_load,
    level_at,
)
from throttler.simulator.scenario_and_faults import Scenario, burst_rate, is_up, speed_factor
from throttler.simulator.simulated_scrape import Observer

_COST = JOIN.cost_at(0)
_GROWTH = (JOIN.cost_at(1000) - _COST) / 1000
"""Seat-seconds of one join in an empty cluster, and what each node adds to it."""
PATIENCE = 5.0
"""A run in which nothing joins for so many times as long as everything between two joins may take does not end."""
MOST_LOST = 10
"""Machines destroyed for each node wanted: more than nine in ten are, and hardly any run comes to its end."""
FEWEST_LOST = 50
STRETCH_S, MOST_STRETCH = 1800.0, 8.0
"""Where nothing paces, steps grow after so long with the time that has passed, to so many times their length. Ends of
runs of up to twelve hours then differ by less than 2 %. A law that paces must see the servers as often as ever."""
HOPELESS_S, HOPELESS, NO_FASTER = 1800.0, 1.25, 1.05
"""A paced run is given up where it would end so many times the limit after its start, judged every so many seconds once
its pace does not grow any more: the more nodes there are, the more each join costs."""
_LANE_REQUESTS = max(len(lane.steps) for lane in JOIN.lanes)
"""Requests of a join that wait for each other: what latency costs a join."""


@dataclass(frozen=True, slots=True)
class FlowMoment:
    """The state at one time; counts are nodes, `pods_queued` those that wait for DaemonSet pods."""

    at_s: float
    waiting: int
    booting: int
    held: int
    joining: int
    ready: int
    window: float | None
    utilisation: float
    """Busy share of the servers' capacity since the moment before."""
    latency_s: float
    requests_per_s: float
    """Of joins alone."""
    pods_queued: int
    is_launch_bound: bool
    """Whether the cloud let start fewer machines than were asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """One run. `usable_s` holds (time, nodes) in order."""

    nodes: int
    done_s: float | None
    """When the last node was usable; None: not within the run."""
    is_stuck: bool
    """Whether the run ended early because no node joins any more: machines are destroyed before they register."""
    usable_s: tuple[tuple[float, int], ...]
    lost: int
    """Machines destroyed by the kill timer."""
    error_share: float
    """429 over all requests, whoever sent them."""
    worst_latency_s: float
    idle_latency_s: float
    moments: tuple[FlowMoment, ...]


def flow(world: World, policy: Policy | Oracle) -> Flow:
    """Run it. Equal for equal arguments; a policy must be a new one."""
    return _Run(world, policy).run()


def at_least_s(ended: Sequence[int], nodes: int) -> float | None:
    """How long the rest of `nodes` joins will take, by how many had ended after each spell of HOPELESS_S.

    Each join costs more than the one before it, so the time of a join grows along a line with the nodes that are there;
    of the last two stretches of that line the flatter one counts. None while the pace still grows, or is not known.
    """
    paces = [b - a for a, b in pairwise(ended[-4:])]
    if len(paces) < 2 or not 0 < paces[-1] <= NO_FASTER * paces[-2]:
        return None
    left, steeper = nodes - ended[-1], 0.0
    if len(paces) == 3 and paces[0] > 0:
        steeper = max(0.0, min((1 / b - 1 / a) / ((a + b) / 2) for a, b in pairwise(paces)))
    return HOPELESS_S * left * (1 / paces[-1] + steeper * (paces[-1] + left) / 2)


def _last_event_s(scenario: Scenario) -> float:
    """When the last demand has come and the last fault is over."""
    demands = [demand.at_s for demand in scenario.demands]
    return max([0.0, *demands, *(fault.at_s + fault.for_s for fault in scenario.faults)])


def _patience_s(world: World) -> float:
    launch_s = 1.0 / world.launches_per_s if world.launches_per_s else 0.0
    return PATIENCE * (world.scenario.kill_timer_s + world.look_s + launch_s)


class _Run:
    def __init__(self, world: World, policy: Policy | Oracle) -> None:
        scenario = world.scenario
        streams = Streams.of(world.seed)
        self._world, self._policy, self._scenario = world, policy, scenario
        self._nodes = scenario.nodes
        self._most_lost = MOST_LOST * self._nodes + FEWEST_LOST
        self._now_s = -scenario.lead_s
        self._step_s = world.step_s
        self._is_unpaced, self._stretch = isinstance(policy, AtOnce), 1.0
        self._joined_by_spell = [0]
        """Joins that had ended, every HOPELESS_S after the last demand and fault."""
        self._begun_s = self._joined_s = _last_event_s(scenario)
        self._machines = Machines(scenario, streams.boots)
        self._observer = Observer(scenario, streams.scrapes)
        self._levels = background_levels(scenario, streams.background)
        self._server = FlowServer(scenario, self._now_s)
        self._joining = Joining(world)
        self._orders = Orders(world, self._now_s, has_lever=isinstance(policy, LawPolicy))
        self._moments: list[FlowMoment] = []
        self._busy_s = self._sent = self._worst_s = 0.0
        self._out_s = 0.0
        """For how long no server has answered; 0 while one does."""
        self._ask_s, self._scrape_s = self._now_s, self._now_s + world.rhythm * scenario.scrape_s
        self._patience_s = _patience_s(world)

    def run(self) -> Flow:
        scenario = self._scenario
        while self._joining.ended < self._nodes and self._now_s < scenario.limit_s:
            if self._is_stuck or self._is_hopeless():
                break
            self._step()
        self._film(None, is_launch_bound=False)
        server, joining = self._server, self._joining
        return Flow(
            nodes=self._nodes,
            done_s=joining.usable[-1][0] if joining.ended >= self._nodes and joining.usable else None,
            usable_s=tuple(joining.usable),
            is_stuck=self._is_stuck,
            lost=self._machines.lost,
            error_share=server.errors / server.requests if server.requests else 0.0,
            worst_latency_s=self._worst_s,
            idle_latency_s=server.idle_s,
            moments=tuple(self._moments),
        )

    @property
    def _is_stuck(self) -> bool:
        """Machines are ordered anew as often as they are destroyed: without an end it would go on until the limit."""
        is_churn = self._machines.lost > self._most_lost
        return is_churn or self._now_s > self._joined_s + self._patience_s

    def _is_hopeless(self) -> bool:
        """Whether it is certain enough that it does not end within the limit, so that nobody has to wait for that."""
        spells = self._joined_by_spell
        if self._is_unpaced or self._now_s < self._begun_s + len(spells) * HOPELESS_S:
            return False
        spells.append(self._joining.ended)
        left_s = at_least_s(spells, self._nodes)
        return left_s is not None and self._now_s + left_s > HOPELESS * self._scenario.limit_s

    def _step(self) -> None:
        if self._is_unpaced:
            self._stretch = min(MOST_STRETCH, max(1.0, self._now_s / STRETCH_S))
            self._step_s = self._stretch * self._world.step_s
        if self._joining.under_way:
            self._joined_s = max(self._joined_s, self._now_s)
        if self._machines.next_s <= self._now_s:
            self._happen()
        if self._joining.has_ready():
            self._note_nodes()
        if self._now_s >= self._scrape_s:
            self._scrape_s += self._scenario.scrape_s
            counters = self._server.counters
            self._observer.scrape([counters if up else None for up in self._ups()], self._now_s)
        if self._now_s >= self._ask_s:
            self._ask_s = self._now_s + self._stretch * self._scenario.step_s
            self._control()
        self._order()
        self._serve()
        self._now_s += self._step_s
        ended = self._joining.ended
        self._joining.advance(0.0 if self._out_s else self._step_s, self._now_s)
        if self._joining.ended > ended:
            self._poke()

    def _happen(self) -> None:
        """Demand comes, machines arrive, machines are lost."""
        waiting, booting = self._machines.waiting, self._machines.booting
        self._joining.let_in(self._machines.advance(self._now_s), self._now_s)
        if self._machines.booting < booting:
            self._note_nodes()
        if self._machines.waiting > waiting:
            self._ask_s = self._now_s
            self._orders.expect_look(self._now_s)

    def _note_nodes(self) -> None:
        """Nodes have come, or are Ready: both who paces and the autoscaler hear of it."""
        self._orders.prompt_look(self._now_s)
        self._poke()

    def _poke(self) -> None:
        self._ask_s = min(self._ask_s, self._now_s + self._stretch * self._world.poke_s)

    def _control(self) -> None:
        level = level_at(self._levels, self._scenario, self._now_s)
        signals = self._observer.signals(self._now_s)
        joins = self._joins()
        allowed = permit(self._policy, self._scenario, signals, joins, level, self._now_s)
        self._orders.allow(allowed.ask, self._now_s)
        self._order()
        self._joining.let_in(self._machines.admit(allowed.admit, self._now_s), self._now_s)
        self._film(allowed.window, is_launch_bound=self._orders.is_launch_bound)

    def _order(self) -> None:
        """The autoscaler asks for machines when it looks, and the cloud starts them."""
        self._orders.look(self._machines.waiting, self._now_s)
        if started := self._orders.start(self._now_s):
            self._machines.ask(started, self._now_s)

    def _joins(self) -> Joins:
        joining = self._joining
        unnoticed = joining.unnoticed(self._now_s)
        return self._machines.joins(
            joining=joining.under_way + unnoticed,
            joined=joining.ended - unnoticed,
            join_s=joining.mean_s,
            oldest_joining_s=joining.oldest_s(self._now_s),
            now_s=self._now_s,
        )

    # -- servers --------------------------------------------------------------------------------------------------

    def _serve(self) -> None:
        scenario, step_s = self._scenario, self._step_s
        ups = sum(self._ups()) if scenario.faults else scenario.servers
        # Where nobody answers joins stand still, and whoever asks waits until somebody does.
        self._out_s = 0.0 if ups else self._out_s + step_s
        if ups:
            offered = self._joining.progress(step_s / self._join_s, self._server.felt.accepted)
            self._sent += offered * REQUESTS
            nodes = scenario.nodes_before + self._joining.under_way + self._joining.ended
            work = offered * scenario.join_weight * (_COST + _GROWTH * nodes)
            others = self._others(nodes) * step_s
            requests = offered * REQUESTS + others / VISITOR_COST
            capacity = scenario.capacity * speed_factor(scenario, self._now_s)
            self._server.step(requests / ups, (work + others) / ups, capacity, self._now_s, step_s)
        if self._now_s >= 0.0:
            self._worst_s = max(self._worst_s, self._latency_s)

    @property
    def _latency_s(self) -> float:
        return max(self._server.felt.latency_s, self._out_s)

    def _ups(self) -> list[bool]:
        """Which servers answer: one of the fluid's speaks for each, and the law sees them all."""
        return [is_up(self._scenario, server, self._now_s) for server in range(self._scenario.servers)]

    def _others(self, nodes: int) -> float:
        """Seat-seconds per second of everybody else's requests: the background, heartbeats, bursts of lists."""
        scenario = self._scenario
        level = level_at(self._levels, scenario, self._now_s)
        usual = level * scenario.servers * scenario.capacity + heartbeat_load(self._joining.ended)
        return usual + burst_rate(scenario, self._now_s) * LIST.cost_at(nodes)

    @property
    def _join_s(self) -> float:
        """How long a join takes that would meet this moment's servers all the way."""
        felt = self._server.felt
        idle_s = self._server.idle_s
        again_s = (1.0 - felt.accepted) / felt.accepted * felt.retry_after_s
        return self._world.join_s + _LANE_REQUESTS * (felt.latency_s - idle_s + again_s)

    def _film(self, window: float | None, *, is_launch_bound: bool) -> None:
        server, machines = self._server, self._machines
        span_s = self._now_s - self._moments[-1].at_s if self._moments else 0.0
        self._moments.append(
            FlowMoment(
                at_s=self._now_s,
                waiting=machines.waiting,
                booting=machines.booting,
                held=machines.held,
                joining=self._joining.under_way,
                ready=self._joining.ended,
                window=window,
                utilisation=(server.busy_s - self._busy_s) / span_s if span_s else 0.0,
                latency_s=self._latency_s,
                requests_per_s=self._sent / span_s if span_s else 0.0,
                pods_queued=self._joining.pods_queued,
                is_launch_bound=is_launch_bound,
            )
        )
        self._busy_s, self._sent = server.busy_s, 0.0
