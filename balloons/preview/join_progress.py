"""API servers, joins and the DaemonSet pods of new nodes, as flows.

The API servers as one fluid: each takes an equal share of what comes, so one of them speaks for all. The rules are
the simulator's (`throttler.simulator.requests_and_machines`): seats, a bounded queue and 15 s of patience, then 429;
work that grows heavier as the queue fills.

DaemonSet pods of new nodes: made by one controller that limits itself, whatever the API servers could bear. The
DaemonSet controller goes DaemonSet by DaemonSet, two at a time, and makes up to 250 pods of each before it looks
again (BurstReplicas and --concurrent-daemonset-syncs of kube-controller-manager). So nodes that come together get
their last pod together, at the end: of 150 joins whose pods took 60 s the mean was usable after 52 s, on a real one.

Joins as a flow: all share one clock of progress, which runs slower as the servers do, so a join is two numbers. A
join registers, waits for its DaemonSet pods to be made, and finishes. What it costs the servers goes by its progress.
"""

from collections import deque
from collections.abc import Iterator
from itertools import takewhile
from typing import NamedTuple

import numpy as np

from balloons.preview.possible_worlds import World
from throttler.simulator.requests_and_machines import JOIN, SERVER, THINK_SPREAD, seat_rate, work_left
from throttler.simulator.scenario_and_faults import Scenario
from throttler.simulator.simulated_scrape import Counters

REQUESTS = sum(1 for _ in JOIN.steps)
LEAST_ACCEPTED = 0.02
"""Below this nothing would ever end, and a run must."""
ROUND = 250
WORKERS = 2
BESIDE_BURST = 1.5
"""What is written beside the pods of one rush is no more than so many times the burst: once hundreds of pods wait for
the client, so does the next status."""
PODS_AT = 0.05
"""Share of a join after which the node is registered and the controller manager sees it."""
_GRID = np.linspace(0.0, 1.0, 41)


_MEAN_S = sum(step.kind.work_s for step in JOIN.steps) / REQUESTS
"""Execution time of a join's mean request, at weight 1 in an empty cluster."""


_RESIDUE_S = 0.5 * sum(step.kind.cost_at(0) * step.kind.work_s for step in JOIN.steps) / JOIN.cost_at(0)
"""For how long a seat that is taken stays taken, on average."""


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
        per_request = work / requests if requests else _MEAN_S * self._weight
        full = min(1.0, queued / per_request / self._queue_limit) if per_request else 0.0
        drag = SERVER.drag(full)
        able = capacity / drag
        before = self._work + work
        self._work = work_left(before, self._residue_s, self._seats, able, step_s)
        self.busy_s += min((before - self._work) * drag, capacity * step_s) / self._scenario.capacity
        refused = self._refuse(able, per_request, now_s)
        self._count(requests, refused, able)
        return self.felt

    def _refuse(self, able: float, per_request: float, now_s: float) -> float:
        """Who would wait for more than 15 s, or finds the queue full, is sent away; how many."""
        queue_work = self._work - self._seats * self._residue_s
        excess = max(0.0, queue_work - min(SERVER.max_wait_s * able, self._queue_limit * per_request))
        self._work -= excess
        if now_s - self._turned_s >= self._retry_after_s:
            turned = self._retry_after_s * (2.0 if excess else 0.5)
            self._retry_after_s = min(SERVER.retry_after_max_s, max(SERVER.retry_after_min_s, turned))
            self._turned_s = now_s
        return excess / per_request if per_request else 0.0

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


class DaemonPods:
    """A queue of nodes that wait for `pods_each`, served by `per_s` with a burst; counts are joins.

    The controller writes each DaemonSet's status through the same limited client, `writes_each` times in a rush.
    """

    def __init__(self, pods_each: float, per_s: float, burst: float, writes_each: float = 0.0) -> None:
        self._pods_each = pods_each
        self._per_s = per_s
        self._burst = self._credit = burst
        self._most_beside = self._beside = min(writes_each * pods_each, BESIDE_BURST * burst)
        """Writes beside the pods that are still to come in this rush."""
        self._late_share = WORKERS / max(WORKERS, pods_each)
        self._waiting: deque[int] = deque()
        self._round = 0
        self._requests = self._left = 0.0
        """Of this round: for its pods and for what is written beside them, in all and still to come."""
        self._served = 0
        """Of this round."""
        self.queued = 0
        """Nodes that have not got all their pods."""
        self.made_of_nodes = 0.0
        """Pods made in the latest step, as nodes' worth."""

    def add(self, nodes: int) -> None:
        """So many nodes have registered."""
        if nodes:
            self._waiting.append(nodes)
            self.queued += nodes

    def step(self, seconds: float) -> int:
        """Let time pass; how many nodes have got their last pod, the first come first."""
        if not self.queued and self._credit >= self._burst:
            self._beside = self._most_beside
        self._credit = min(self._burst, self._credit) + self._per_s * seconds
        self.made_of_nodes = 0.0
        served = 0
        while self.queued:
            if not self._round:
                self._begin_round()
            spent = min(self._credit, self._left)
            self._credit -= spent
            self._left -= spent
            self.made_of_nodes += self._round * spent / self._requests if self._requests else 0.0
            served += self._serve()
            if self._left > 1e-9:
                break
            self._round = 0
        return served

    @property
    def round_s(self) -> float:
        """How long the round at hand takes in all: for so long its first pods have run when its last are made."""
        return self._requests / self._per_s if self._round else 0.0

    def _begin_round(self) -> None:
        """Takes whoever has come by now, up to `ROUND`."""
        taken = 0
        while self._waiting and taken < ROUND:
            part = min(self._waiting[0], ROUND - taken)
            taken += part
            self._waiting[0] -= part
            if not self._waiting[0]:
                self._waiting.popleft()
        self._round, self._served = taken, 0
        beside = min(taken * self._pods_each, self._beside)
        self._beside -= beside
        self._requests = self._left = taken * self._pods_each + beside

    def _serve(self) -> int:
        done = 1.0 - self._left / self._requests if self._requests else 1.0
        share = max(0.0, done - (1.0 - self._late_share)) / self._late_share
        newly = int(self._round * share + 1e-6) - self._served
        self._served += newly
        self.queued -= newly
        return newly


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


class _Cohort(NamedTuple):
    """Joins that began together, and when."""

    joins: int
    since_s: float


class _Cohorts:
    """Cohorts in the order in which they began; `began` on the clock, `work` as a number of whole joins."""

    def __init__(self) -> None:
        self._cohorts: deque[_Cohort] = deque()
        self._columns = np.empty((2, 64))
        self._first = 0

    def __bool__(self) -> bool:
        return bool(self._cohorts)

    @property
    def first(self) -> _Cohort:
        """The oldest."""
        return self._cohorts[0]

    @property
    def began(self) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
        return self._columns[0, self._first : self._first + len(self._cohorts)]

    @property
    def work(self) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
        return self._columns[1, self._first : self._first + len(self._cohorts)]

    def add(self, cohort: _Cohort, began: float, work: float) -> None:
        """Put one behind the others."""
        end = self._first + len(self._cohorts)
        if end == self._columns.shape[1]:  # move to the front, with as much room as there was behind
            self._columns = np.hstack([self._columns[:, self._first :], np.empty_like(self._columns)])
            self._first, end = 0, len(self._cohorts)
        self._columns[:, end] = began, work
        self._cohorts.append(cohort)

    def older_than(self, clock: float, age: float) -> Iterator[_Cohort]:
        """Take out those that began so long ago, oldest first."""
        while self._cohorts and clock - self._columns[0, self._first] >= age:
            self._first += 1
            yield self._cohorts.popleft()


class Joining:
    """All joins of one run; counts are nodes."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._pods = DaemonPods(world.daemon_sets, world.pods_per_s, world.burst, world.status_writes)
        self._clock = 0.0
        """Shares of a join that have passed for whoever joins."""
        self._starting = _Cohorts()
        """Those that have not registered."""
        self._registered: deque[list[float]] = deque()
        """[joins, time] of those that wait for DaemonSet pods."""
        self._finishing = _Cohorts()
        """Pods that were made long ago have done their work: these bring less of it than there are joins."""
        self._early_work = 0.0
        """Joins' worth of such pods' work that the servers have not taken yet."""
        self.under_way = self.ended = 0
        self.usable: list[tuple[float, int]] = []
        """(time, nodes) in order."""
        self._latest: deque[float] = deque(maxlen=20)
        self._ready_at: deque[float] = deque()
        """On the clock, of nodes that are not Ready yet."""

    @property
    def pods_queued(self) -> int:
        """Nodes that wait for DaemonSet pods."""
        return self._pods.queued

    @property
    def mean_s(self) -> float | None:
        """How long the latest joins took; None before the first has ended."""
        return sum(self._latest) / len(self._latest) if self._latest else None

    def oldest_s(self, now_s: float) -> float:
        """For how long the oldest join has been under way."""
        cohorts = [cohorts.first.since_s for cohorts in (self._starting, self._finishing) if cohorts]
        registered = [self._registered[0][1]] if self._registered else []
        return now_s - min(cohorts + registered, default=now_s)

    def unnoticed(self, now_s: float) -> int:
        """Joins that have ended and that pacing still counts."""
        return sum(nodes for _, nodes in self._ended_since(now_s - self._world.notice_s))

    def _ended_since(self, since_s: float) -> Iterator[tuple[float, int]]:
        return takewhile(lambda end: end[0] > since_s, reversed(self.usable))

    def let_in(self, joins: int, now_s: float) -> None:
        """So many machines begin to join."""
        if joins:
            self._starting.add(_Cohort(joins, now_s), self._clock, joins)
            self._ready_at.append(self._clock + self._world.ready_share)
            self.under_way += joins

    def has_ready(self) -> bool:
        """Whether nodes have become Ready since this was asked last."""
        is_changed = False
        while self._ready_at and self._clock >= self._ready_at[0]:
            self._ready_at.popleft()
            is_changed = True
        return is_changed

    def progress(self, gain: float, accepted: float) -> float:
        """Let the clock move on by `gain`; joins' worth of work sent meanwhile, with what was refused and comes again.

        `accepted` is the share of requests that is not refused.
        """
        self._clock += gain
        early = accepted * self._early_work
        self._early_work -= early
        if not self._starting and not self._finishing:
            return early
        size = np.concatenate([self._starting.work, self._finishing.work])
        now = self._clock - np.concatenate([self._starting.began, self._finishing.began])
        share = float(size @ (np.interp(now, _GRID, _DONE) - np.interp(now - gain, _GRID, _DONE)))
        return early + share / accepted

    def advance(self, seconds: float, now_s: float) -> None:
        """Let so much time pass until now: nodes register, get their DaemonSet pods, end."""
        for cohort in self._starting.older_than(self._clock, PODS_AT):
            self._registered.append([cohort.joins, cohort.since_s])
            self._pods.add(cohort.joins)
        early = self._early_share()
        served = self._pods.step(seconds)
        self._early_work += early * self._pods.made_of_nodes
        self._finish(served, early)
        for cohort in self._finishing.older_than(self._clock, 1.0):
            self._end(cohort, now_s)

    def _early_share(self) -> float:
        """Of a join's work, what its DaemonSet pods have done before the last of them is made.

        Where making them takes much longer than a join, that is nearly all of theirs.
        """
        round_s = self._pods.round_s
        return self._world.daemon_share * round_s / (round_s + self._world.join_s)

    def _finish(self, served: int, early: float) -> None:
        """So many have got their last pod."""
        while served:
            head = self._registered[0]
            part = min(served, int(head[0]))
            self._finishing.add(_Cohort(part, head[1]), self._clock - PODS_AT, part * (1.0 - early))
            served -= part
            head[0] -= part
            if not head[0]:
                self._registered.popleft()

    def _end(self, cohort: _Cohort, now_s: float) -> None:
        self.under_way -= cohort.joins
        self.ended += cohort.joins
        self.usable.append((now_s, cohort.joins))
        self._latest.append(now_s - cohort.since_s)
