"""The API servers as one fluid: each takes an equal share of what comes, so one of them speaks for all.

The rules are the simulator's (`throttler.simulator.plant`, `fluid_server`): seats, a bounded queue and 15 s of
patience, then 429; work that grows heavier as the queue fills.
"""

from typing import NamedTuple

from throttler.simulator.fluid_server import seat_rate, work_left
from throttler.simulator.plant import JOIN, SERVER
from throttler.simulator.scenario import Scenario
from throttler.simulator.simulated_scrape import Counters

REQUESTS = sum(1 for _ in JOIN.steps)
_MEAN_S = sum(step.kind.work_s for step in JOIN.steps) / REQUESTS
"""Execution time of a join's mean request, at weight 1 in an empty cluster."""
_RESIDUE_S = 0.5 * sum(step.kind.cost_at(0) * step.kind.work_s for step in JOIN.steps) / JOIN.cost_at(0)
"""For how long a seat that is taken stays taken, on average."""


LEAST_ACCEPTED = 0.02
"""Below this nothing would ever end, and a run must."""


class Felt(NamedTuple):
    """What a request meets now."""

    latency_s: float
    stretch: float
    """Execution time over that on an idle server."""
    wait_s: float
    accepted: float
    """Share that is not refused."""
    retry_after_s: float


class FlowServer:
    """One server of several that are loaded alike."""

    def __init__(self, scenario: Scenario, started_s: float) -> None:
        self._scenario = scenario
        self._seats = max(2.0, scenario.capacity * scenario.seats_per_capacity)
        self._weight = scenario.join_weight
        self._residue_s = max(1e-3, _RESIDUE_S * self._weight)
        self._queue_limit = SERVER.queue_per_capacity * scenario.capacity
        self._started_s = started_s
        self._work = 0.0
        self._retry_after_s = SERVER.retry_after_min_s
        self._turned_s = started_s
        self.requests = self.errors = self.busy_s = 0.0
        self._latency_sum_s = self._wait_sum_s = self._answered = 0.0
        self.felt = Felt(self.idle_s, 1.0, 0.0, 1.0, self._retry_after_s)

    @property
    def idle_s(self) -> float:
        """Mean latency of a join's request on an idle server."""
        return _MEAN_S * self._weight

    def step(self, requests: float, work: float, capacity: float, now_s: float, step_s: float) -> Felt:
        """Take in what arrives in this step; `capacity` is what the server can do now, in core-seconds per second."""
        capacity = max(1e-6, capacity)
        queued = max(0.0, self._work - self._seats * self._residue_s)
        each = work / requests if requests else _MEAN_S * self._weight
        full = min(1.0, queued / each / self._queue_limit) if each else 0.0
        drag = SERVER.drag(full)
        able = capacity / drag
        before = self._work + work
        self._work = work_left(before, self._residue_s, self._seats, able, step_s)
        self.busy_s += min((before - self._work) * drag, capacity * step_s) / self._scenario.capacity
        refused = self._refuse(able, each, now_s)
        self._count(requests, refused, able)
        return self.felt

    def _refuse(self, able: float, each: float, now_s: float) -> float:
        """Who would wait for more than 15 s, or finds the queue full, is sent away; how many."""
        queue_work = max(0.0, self._work - self._seats * self._residue_s)
        excess = max(0.0, queue_work - min(SERVER.max_wait_s * able, self._queue_limit * each))
        self._work -= excess
        if now_s - self._turned_s >= self._retry_after_s:
            turned = self._retry_after_s * (2.0 if excess else 0.5)
            self._retry_after_s = min(SERVER.retry_after_max_s, max(SERVER.retry_after_min_s, turned))
            self._turned_s = now_s
        return excess / each if each else 0.0

    def _count(self, requests: float, refused: float, able: float) -> None:
        executing = min(self._seats, self._work / self._residue_s)
        queue_work = max(0.0, self._work - self._seats * self._residue_s)
        stretch = max(1.0, executing / seat_rate(executing, able)) if executing > 1e-6 else 1.0
        wait_s = queue_work / able
        refused = min(refused, requests)
        answered = requests - refused
        latency_s = self.idle_s * stretch + wait_s
        self.requests += requests
        self.errors += refused
        self._answered += answered
        self._latency_sum_s += answered * latency_s
        self._wait_sum_s += answered * wait_s
        accepted = max(LEAST_ACCEPTED, answered / requests) if requests else 1.0
        self.felt = Felt(latency_s, stretch, wait_s, accepted, self._retry_after_s)

    @property
    def counters(self) -> Counters:
        """What a scrape would read."""
        executing = min(self._seats, self._work / self._residue_s)
        return Counters(
            started_s=self._started_s,
            requests=self.requests,
            errors=self.errors,
            latency_sum_s=self._latency_sum_s,
            latency_count=self._answered,
            wait_sum_s=self._wait_sum_s,
            wait_count=self._answered,
            busy_s=self.busy_s,
            seats_share=executing / self._seats,
        )
