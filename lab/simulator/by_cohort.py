"""The plant by cohort: fast, and held to the truth (`by_request.py`) by tests/simulation/test_grains_agree.py.

Time goes in steps. Joins that were let in together and end together are a cohort. Lanes of joins are array entries that
send when their think time is over; servers are fluids whose latency follows from the work in them; other people's
requests are numbers per step. One step never looks ahead.
"""

from collections import deque
from math import ceil

import numpy as np
from numpy.typing import NDArray

from lab.simulator.cohort_lanes import CohortLanes, work_s_at
from lab.simulator.cohort_server import CohortServer, CohortVisitors, Latencies, tally_of
from lab.simulator.request_arrivals import CLIENT
from lab.simulator.result import Film, Result, check_nodes
from throttler.simulator.pacing_policies import Oracle, Policy, permit
from throttler.simulator.requests_and_machines import JOIN, Machines, Streams, background_levels, level_at
from throttler.simulator.scenario_and_faults import LEVEL_S, Scenario
from throttler.simulator.simulated_scrape import Counters, Observer

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]

_LATEST = 20
"""Joins whose mean duration a controller sees."""


class Cohorts:
    """Sizes and clocks, by number of the cohort."""

    def __init__(self, largest: int) -> None:
        self._largest = largest
        self.joined = 0
        self.joining = 0
        self.usable_s: list[float] = []
        self._sizes: list[int] = []
        self._since_s: list[float] = []
        self._lanes_left: list[int] = []
        self._oldest = 0
        self._latest: deque[float] = deque(maxlen=_LATEST)
        self.sizes: Floats = np.empty(0)

    def start(self, joins: int, now_s: float) -> Ints:
        """Numbers of the new cohorts that so many joins make."""
        first = len(self._sizes)
        whole, rest = divmod(joins, self._largest)
        new = [self._largest] * whole + [rest] * (rest > 0)
        self._sizes += new
        self._since_s += [now_s] * len(new)
        self._lanes_left += [len(JOIN.lanes)] * len(new)
        self.sizes = np.array(self._sizes, dtype=float)
        self.joining += joins
        return np.arange(first, first + len(new))

    def end(self, cohorts: Ints, ends_s: Floats) -> None:
        """Lanes have ended; a join is over with its last."""
        for cohort, end_s in sorted(zip(cohorts.tolist(), ends_s.tolist(), strict=True), key=lambda pair: pair[1]):
            self._lanes_left[cohort] -= 1
            if not self._lanes_left[cohort]:
                self._end_join(cohort, end_s)

    @property
    def join_s(self) -> float | None:
        """Mean duration of the latest joins; None before the first."""
        return sum(self._latest) / len(self._latest) if self._latest else None

    def oldest_s(self, now_s: float) -> float:
        """Age of the join that has been under way for longest; 0 when there is none."""
        while self._oldest < len(self._sizes) and not self._lanes_left[self._oldest]:
            self._oldest += 1
        return now_s - self._since_s[self._oldest] if self._oldest < len(self._sizes) else 0.0

    def _end_join(self, cohort: int, end_s: float) -> None:
        size = self._sizes[cohort]
        self.joining -= size
        self.joined += size
        self.usable_s += [end_s] * size
        self._latest.append(end_s - self._since_s[cohort])


STEP_S = 0.25
COHORTS = 8000
"""In larger scenarios a cohort stands for as many joins as keep their number below this."""


def simulate(scenario: Scenario, policy: Policy | Oracle, seed: int) -> Result:
    """Run one scale-up to its end or to `limit_s`. Equal for equal arguments (a policy must be new, too)."""
    return _Run(scenario, policy, seed).run()


class _Run:
    def __init__(self, scenario: Scenario, policy: Policy | Oracle, seed: int) -> None:
        streams = Streams.of(seed)
        self._scenario = scenario
        self._policy = policy
        self._step = 0
        self._now_s = self._start_s = -scenario.lead_s
        self._film = Film()
        self._machines = Machines(scenario, streams.boots)
        self._observer = Observer(scenario, streams.scrapes)
        self._levels = background_levels(scenario, streams.background)
        self._visitors = CohortVisitors(scenario, streams.arrivals, STEP_S)
        self._drawn: list[list[list[float]]] = []
        self._latencies = Latencies()
        self._lanes = CohortLanes(scenario.servers, streams.thinking, streams.connections)
        self._cohorts = Cohorts(largest=ceil(scenario.nodes / COHORTS))
        self._servers = [CohortServer(scenario, index, self._now_s, STEP_S) for index in range(scenario.servers)]
        self._up = np.arange(scenario.servers)

    def run(self) -> Result:
        while self._cohorts.joined < self._scenario.nodes and self._now_s < self._scenario.limit_s:
            self._begin_step()
            self._serve()
            self._step += 1
            self._now_s = self._start_s + self._step * STEP_S
            self._end_lanes()
        return self._close()

    # -- what happens at the beginning of a step ------------------------------------------------------------------

    def _begin_step(self) -> None:
        self._apply_faults()
        if self._is_time(LEVEL_S):
            level = level_at(self._levels, self._scenario, self._now_s)
            self._drawn = self._visitors.draw(level, self._cohorts.joined, self._now_s)
        if self._machines.next_s <= self._now_s:
            self._let_in(self._machines.advance(self._now_s))
        if self._is_time(self._scenario.scrape_s):
            self._observer.scrape(self._counters(), self._now_s)
        if self._is_time(self._scenario.step_s):
            self._control()

    def _is_time(self, every_s: float) -> bool:
        """Whether a multiple of `every_s` falls into this step."""
        return self._step == 0 or int(self._step * STEP_S / every_s) > int((self._step - 1) * STEP_S / every_s)

    def _apply_faults(self) -> None:
        if not self._scenario.faults:
            return
        lost = [server for server in self._servers if server.follow_faults(self._now_s)]
        share = CLIENT.relist_share * self._nodes / max(1, len(self._up))
        self._up = np.array([server.index for server in self._servers if server.is_up], dtype=np.intp)
        self._lanes.up = self._up if len(self._up) else np.arange(len(self._servers))
        for server in lost:
            self._lanes.break_off(server.index, self._now_s)
            for other in self._up.tolist():
                self._servers[other].relist(share / len(self._up))
        for server in self._servers:
            if not server.is_up:
                self._lanes.reconnect(server.index, self._now_s, self._now_s + STEP_S)

    def _control(self) -> None:
        joins = self._machines.joins(
            joining=self._cohorts.joining,
            joined=self._cohorts.joined,
            join_s=self._cohorts.join_s,
            oldest_joining_s=self._cohorts.oldest_s(self._now_s),
            now_s=self._now_s,
        )
        level = level_at(self._levels, self._scenario, self._now_s)
        signals = self._observer.signals(self._now_s)
        allowed = permit(self._policy, self._scenario, signals, joins, level, self._now_s)
        self._machines.ask(allowed.ask, self._now_s)
        self._let_in(self._machines.admit(allowed.admit, self._now_s))
        self._film.take(
            self._machines,
            joining=self._cohorts.joining,
            joined=self._cohorts.joined,
            window=allowed.window,
            servers=self._counters(),
            tally=tally_of([server.totals for server in self._servers]),
            now_s=self._now_s,
        )

    def _counters(self) -> list[Counters | None]:
        return [server.counters for server in self._servers]

    # -- joins and servers ----------------------------------------------------------------------------------------

    @property
    def _nodes(self) -> int:
        """All there are: a Node object exists from the beginning of its join."""
        return self._scenario.nodes_before + self._cohorts.joining + self._cohorts.joined

    def _let_in(self, count: int) -> None:
        if count:
            self._lanes.start(self._cohorts.start(count, self._now_s), self._now_s)

    def _serve(self) -> None:
        nodes, now_s = self._nodes, self._now_s
        work_s = work_s_at(nodes, self._scenario.join_weight)
        sent = self._lanes.send(now_s + STEP_S, self._cohorts.sizes, work_s)
        drawn, joins = self._drawn.pop(), sent.arrivals(len(self._servers))
        answers = [
            server.step(join, visitors, nodes, now_s, self._step)
            for server, join, visitors in zip(self._servers, joins, drawn, strict=True)
        ]
        outcomes = self._lanes.answer(sent, answers, now_s, STEP_S, self._step)
        settled = [server.settled for server in self._servers]
        late = self._lanes.settle(settled, answers, self._cohorts.sizes, work_s, now_s)
        self._latencies.is_on = now_s >= 0.0
        for server, outcome, more, answer in zip(self._servers, outcomes, late, answers, strict=True):
            server.count(outcome, more, answer, now_s, self._step, self._latencies)

    def _end_lanes(self) -> None:
        cohorts, ends_s = self._lanes.end(self._now_s)
        if len(cohorts):
            self._cohorts.end(cohorts, ends_s)
            self._lanes.sweep()

    def _close(self) -> Result:
        scenario, tally = self._scenario, tally_of([server.totals for server in self._servers])
        wanted = sum(demand.nodes for demand in scenario.demands if demand.at_s <= self._now_s)
        check_nodes(wanted, self._machines, self._cohorts.joining, self._cohorts.joined)
        self._machines.close(self._now_s)
        usable_s = sorted(self._cohorts.usable_s)
        p50_s, p99_s = self._latencies.percentiles((0.5, 0.99))
        return Result(
            done_s=usable_s[-1] if usable_s and len(usable_s) == scenario.nodes else None,
            usable_s=tuple(usable_s),
            requests=tally.ended,
            errors=tally.errors,
            bystander_p50_s=p50_s,
            bystander_p99_s=p99_s,
            held_over_10min=self._machines.held_long,
            lost=self._machines.lost,
            moments=tuple(self._film.moments),
        )
