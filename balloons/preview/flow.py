"""One scale-up in one possible world, as a flow: the simulator's third grain, fast enough to be asked while one waits.

Machines, policies, scrapes and weather are the simulator's own. Joins share one clock of progress that runs slower as
the servers do, so a join is two numbers; servers are one fluid (`flow_server.py`); and what the simulator leaves out is
in: the controller manager, the scheduler and the cloud's launch rate. tests/unit/balloons/preview/test_flow.py holds it
to the grain by cohort.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile
from math import inf

import numpy as np

from balloons.preview.daemon_pods import DaemonPods
from balloons.preview.flow_server import REQUESTS, FlowServer
from balloons.preview.orders import Orders
from balloons.preview.world import World
from throttler.joins.joins import Joins
from throttler.simulator.asking import permit
from throttler.simulator.machines import Machines
from throttler.simulator.observe import Observer
from throttler.simulator.plant import JOIN, LIST, THINK_SPREAD, VISITOR_COST, heartbeat_load
from throttler.simulator.policy import Oracle, Policy
from throttler.simulator.streams import Streams
from throttler.simulator.weather import background_levels, burst_rate, is_up, level_at, speed_factor

STEPS_S = ((500, 0.5), (2000, 1.0), (inf, 2.0))
"""Up to so many nodes, steps of so many seconds."""
PODS_AT = 0.05
"""Share of a join after which the node is registered and the controller manager sees it."""
_LANE_REQUESTS = max(len(lane.steps) for lane in JOIN.lanes)
"""Requests of a join that wait for each other: what latency costs a join."""
_COST = JOIN.cost_at(0)
_GROWTH = (JOIN.cost_at(1000) - _COST) / 1000
"""Seat-seconds of one join in an empty cluster, and what each node adds to it."""
_GRID = np.linspace(0.0, 1.0, 41)


def _work_done() -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    """Share of a join's work that is behind it at each share of its time, on idle servers."""
    at, cost = [], []
    for lane in JOIN.lanes:
        now_s = 0.0
        for step in lane.steps:
            now_s += step.think_s
            at.append(now_s / JOIN.alone_s)
            cost.append(step.kind.cost_at(0))
            now_s += step.kind.work_s
    spread = np.array([np.clip((_GRID - t * (1 - THINK_SPREAD / 4)) / (t * THINK_SPREAD / 2), 0, 1) for t in at])
    done = np.average(spread, axis=0, weights=cost)
    return np.asarray((done - done[0]) / (done[-1] - done[0]))


_DONE = _work_done()


@dataclass(frozen=True, slots=True)
class Moment:
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
    usable_s: tuple[tuple[float, int], ...]
    lost: int
    """Machines destroyed by the kill timer."""
    error_share: float
    """429 over all requests, whoever sent them."""
    worst_latency_s: float
    idle_latency_s: float
    moments: tuple[Moment, ...]


def flow(world: World, policy: Policy | Oracle) -> Flow:
    """Run it. Equal for equal arguments; a policy must be a new one."""
    return _Run(world, policy).run()


class _Run:
    def __init__(self, world: World, policy: Policy | Oracle) -> None:
        scenario = world.scenario
        streams = Streams.of(world.seed)
        self._world, self._policy, self._scenario = world, policy, scenario
        self._now_s = -scenario.lead_s
        self._step_s = next(step_s for nodes, step_s in STEPS_S if scenario.nodes <= nodes)
        self._machines = Machines(scenario, streams.boots)
        self._observer = Observer(scenario, streams.scrapes)
        self._levels = background_levels(scenario, streams.background)
        self._server = FlowServer(scenario, self._now_s)
        self._pods = DaemonPods(world.daemon_sets, world.pods_per_s, world.burst)
        self._clock = 0.0
        """Shares of a join that have passed for whoever joins."""
        self._starting: deque[tuple[float, int, float]] = deque()
        """(clock at the beginning, joins, time) of those that have not registered."""
        self._registered: deque[list[float]] = deque()
        """[joins, time] of those that wait for DaemonSet pods."""
        self._finishing: deque[tuple[float, int, float]] = deque()
        self._sizes: deque[float] = deque()
        """Of those: how many joins' worth of work they still bring; pods that were made long ago have done theirs."""
        self._early_work = 0.0
        """Joins' worth of such pods' work that the servers have not taken yet."""
        self.joining = self.joined = 0
        self._usable: list[tuple[float, int]] = []
        self._latest: deque[float] = deque(maxlen=20)
        self._orders = Orders(world, self._now_s)
        self._moments: list[Moment] = []
        self._busy_s = self._sent = 0.0
        self._worst_s = 0.0
        self._look_s = self._scrape_s = self._now_s

    def run(self) -> Flow:
        scenario = self._scenario
        while self.joined < scenario.nodes and self._now_s < scenario.limit_s:
            self._step()
        self._film(None, is_launch_bound=False)
        server = self._server
        return Flow(
            nodes=scenario.nodes,
            done_s=self._usable[-1][0] if self.joined >= scenario.nodes and self._usable else None,
            usable_s=tuple(self._usable),
            lost=self._machines.lost,
            error_share=server.errors / server.requests if server.requests else 0.0,
            worst_latency_s=self._worst_s,
            idle_latency_s=server.idle_s,
            moments=tuple(self._moments),
        )

    def _step(self) -> None:
        if self._machines.next_s <= self._now_s:
            waiting = self._machines.waiting
            self._let_in(self._machines.advance(self._now_s))
            if self._machines.waiting > waiting:
                self._look_s = self._now_s
                self._orders.expect_look(self._now_s)
        if self._now_s >= self._scrape_s:
            self._scrape_s += self._scenario.scrape_s
            self._observer.scrape([self._server.counters], self._now_s)
        if self._now_s >= self._look_s:
            self._look_s += self._scenario.step_s
            self._control()
        self._start()
        self._serve()
        self._now_s += self._step_s
        self._advance()

    def _control(self) -> None:
        level = level_at(self._levels, self._scenario, self._now_s)
        signals = self._observer.signals(self._now_s)
        joins = self._orders.as_asked(self._joins(), self._now_s)
        allowed = permit(self._policy, self._scenario, signals, joins, level, self._now_s)
        self._orders.give_leave(allowed.ask, self._now_s)
        self._orders.look(is_anybody_waiting=self._machines.waiting > 0, now_s=self._now_s)
        self._start()
        self._let_in(self._machines.admit(allowed.admit, self._now_s))
        self._film(allowed.window, is_launch_bound=self._orders.is_launch_bound)

    def _start(self) -> None:
        if started := self._orders.start(self._now_s):
            self._machines.ask(started, self._now_s)

    def _joins(self) -> Joins:
        oldest_s = min(
            (queue[0][-1] for queue in (self._starting, self._registered, self._finishing) if queue),
            default=self._now_s,
        )
        unnoticed = sum(nodes for at_s, nodes in self._unnoticed())
        return self._machines.joins(
            joining=self.joining + unnoticed,
            joined=self.joined - unnoticed,
            join_s=sum(self._latest) / len(self._latest) if self._latest else None,
            oldest_joining_s=self._now_s - oldest_s,
            now_s=self._now_s,
        )

    def _unnoticed(self) -> Iterator[tuple[float, int]]:
        """Joins that have ended and that pacing still counts."""
        since_s = self._now_s - self._world.notice_s
        return takewhile(lambda end: end[0] > since_s, reversed(self._usable))

    def _let_in(self, joins: int) -> None:
        if joins:
            self._starting.append((self._clock, joins, self._now_s))
            self.joining += joins

    # -- servers --------------------------------------------------------------------------------------------------

    def _serve(self) -> None:
        scenario, step_s = self._scenario, self._step_s
        gain = step_s / self._join_s
        self._clock += gain
        offered = self._offered(gain)
        self._sent += offered * REQUESTS
        nodes = scenario.nodes_before + self.joining + self.joined
        work = offered * scenario.join_weight * (_COST + _GROWTH * nodes)
        others = self._others(nodes) * step_s
        ups = sum(is_up(scenario, server, self._now_s) for server in range(scenario.servers))
        if ups:
            requests = offered * REQUESTS + others / VISITOR_COST
            capacity = scenario.capacity * speed_factor(scenario, self._now_s)
            self._server.step(requests / ups, (work + others) / ups, capacity, self._now_s, step_s)
        if self._now_s >= 0.0:
            self._worst_s = max(self._worst_s, self._server.felt.latency_s)

    def _others(self, nodes: int) -> float:
        """Seat-seconds per second of everybody else's requests: the background, heartbeats, bursts of lists."""
        scenario = self._scenario
        level = level_at(self._levels, scenario, self._now_s)
        usual = level * scenario.servers * scenario.capacity + heartbeat_load(self.joined)
        return usual + burst_rate(scenario, self._now_s) * LIST.cost_at(nodes)

    @property
    def _join_s(self) -> float:
        """How long a join takes that would meet this moment's servers all the way."""
        felt = self._server.felt
        idle_s = self._server.idle_s
        again_s = (1.0 - felt.accepted) / felt.accepted * felt.retry_after_s if felt.accepted < 1.0 else 0.0
        return self._world.join_s + _LANE_REQUESTS * (felt.latency_s - idle_s + again_s)

    def _offered(self, gain: float) -> float:
        """Joins' worth of work sent while the clock moves on by `gain`, with what was refused and comes again."""
        accepted = self._server.felt.accepted
        early = accepted * self._early_work
        self._early_work -= early
        if not self._starting and not self._finishing:
            return early
        size = np.array([*(each[1] for each in self._starting), *self._sizes])
        now = self._clock - np.array([each[0] for each in (*self._starting, *self._finishing)])
        share = float(size @ (np.interp(now, _GRID, _DONE) - np.interp(now - gain, _GRID, _DONE)))
        return early + share / accepted

    # -- joins ----------------------------------------------------------------------------------------------------

    def _advance(self) -> None:
        while self._starting and self._clock - self._starting[0][0] >= PODS_AT:
            _, joins, since_s = self._starting.popleft()
            self._registered.append([joins, since_s])
            self._pods.add(joins)
        early = self._early_share()
        served = self._pods.step(self._step_s)
        self._early_work += early * self._pods.made_of_nodes
        while served:
            head = self._registered[0]
            part = min(served, int(head[0]))
            self._finishing.append((self._clock - PODS_AT, part, head[1]))
            self._sizes.append(part * (1.0 - early))
            served -= part
            head[0] -= part
            if not head[0]:
                self._registered.popleft()
        while self._finishing and self._clock - self._finishing[0][0] >= 1.0:
            self._end(*self._finishing.popleft())
            self._sizes.popleft()

    def _early_share(self) -> float:
        """Of a join's work, what its DaemonSet pods have done before the last of them is made.

        Where making them takes much longer than a join, that is nearly all of theirs.
        """
        round_s = self._pods.round_s
        return self._world.daemon_share * round_s / (round_s + self._world.join_s)

    def _end(self, _: float, joins: int, since_s: float) -> None:
        self.joining -= joins
        self.joined += joins
        self._usable.append((self._now_s, joins))
        self._latest.append(self._now_s - since_s)

    def _film(self, window: float | None, *, is_launch_bound: bool) -> None:
        server, machines = self._server, self._machines
        span_s = self._now_s - self._moments[-1].at_s if self._moments else 0.0
        self._moments.append(
            Moment(
                at_s=self._now_s,
                waiting=machines.waiting,
                booting=machines.booting,
                held=machines.held,
                joining=self.joining,
                ready=self.joined,
                window=window,
                utilisation=min(1.0, (server.busy_s - self._busy_s) / span_s) if span_s else 0.0,
                latency_s=server.felt.latency_s,
                requests_per_s=self._sent / span_s if span_s else 0.0,
                pods_queued=self._pods.queued,
                is_launch_bound=is_launch_bound,
            )
        )
        self._busy_s, self._sent = server.busy_s, 0.0
