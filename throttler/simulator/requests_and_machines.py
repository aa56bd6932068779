"""What every grain of the simulator agrees on: machines from being wanted to being let in, the cost of requests, a
join's train of them, the heartbeats of nodes, how servers refuse, what other people ask for, and chance.

Work is counted in seat-seconds: a request of 0.15 s that takes two seats is 0.3. The figures are those of the study
(docs/simulator.md): requests per join as counted, 429 after a quarter of the request's timeout, and Retry-After. Where
the study left a figure open, "chosen" says so.

Randomness is one stream of numbers per concern, all from one seed, so that a change in one leaves the others alone.
"""

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from math import erfc, exp, inf, pi, sqrt

import numpy as np
from numpy.typing import NDArray

from throttler.joins.join_memory import Durations
from throttler.joins.joins import Joins
from throttler.simulator.scenario_and_faults import LEVEL_S, Scenario, burst_rate, is_up, speed_factor

LONG_HOLD_S = 600.0
"""A machine held for longer counts in `Result.held_over_10min`."""
_LATEST = 20


class _Oldest:
    """The earliest of the times that are in it; they are added in order and removed in any."""

    def __init__(self) -> None:
        self._times: deque[float] = deque()
        self._left: dict[float, int] = {}

    def add(self, at_s: float, count: int = 1) -> None:
        """Put this time in, so many times: once or more."""
        if at_s not in self._left:
            self._times.append(at_s)
        self._left[at_s] = self._left.get(at_s, 0) + count

    def remove(self, at_s: float, count: int = 1) -> None:
        """Take it out, so many times."""
        self._left[at_s] -= count
        while self._times and not self._left[self._times[0]]:
            del self._left[self._times.popleft()]

    def first(self, default_s: float) -> float:
        """The earliest; `default_s` where there is none."""
        return self._times[0] if self._times else default_s


class _Batch:
    """Machines that were asked for at one time."""

    def __init__(self, asked_s: float, ends_s: list[float], kill_timer_s: float) -> None:
        self.asked_s = asked_s
        self.ends_s = ends_s
        """When each arrives or is killed, in order."""
        self.arriving = bisect_left(ends_s, asked_s + kill_timer_s)
        """How many arrive; the others are killed."""
        self.ended = 0

    def end_until(self, now_s: float) -> tuple[list[float], int]:
        """When those arrived that have ended since the call before, in order, and how many were killed."""
        since, self.ended = self.ended, bisect_right(self.ends_s, now_s, self.ended)
        arrived = self.ends_s[since : min(self.ended, self.arriving)]
        return arrived, self.ended - since - len(arrived)


class Machines:
    """Counts and clocks of all machines that are not joining yet. Times must never go backwards."""

    def __init__(self, scenario: Scenario, draws: np.random.Generator) -> None:
        self.waiting = 0
        self.lost = 0
        self.held_long = 0
        self._scenario = scenario
        self._draws = draws
        self._demands = deque(sorted(scenario.demands, key=lambda demand: demand.at_s))
        self.booting = 0
        """Asked for, and not yet heard of."""
        self._batches: list[tuple[float, int, _Batch]] = []
        """Heap of (when its next one ends, number, batch): a hundred thousand machines are some hundred batches."""
        self._asks = 0
        self._held: list[tuple[float, float]] = []
        """Heap of (asked at, booted at): what nears its kill timer is let in first."""
        self._boots: deque[float] = deque(maxlen=_LATEST)
        self._asked, self._booted = _Oldest(), _Oldest()
        """When those were asked for that are booting, and when those had booted that are held."""

    @property
    def held(self) -> int:
        """Booted and kept back."""
        return len(self._held)

    @property
    def next_s(self) -> float:
        """When something happens next by itself: a demand, an arrival, a kill; `inf` when nothing will."""
        demand_s = self._demands[0].at_s if self._demands else inf
        arrival_s = self._batches[0][0] if self._batches else inf
        kill_s = self._held[0][0] + self._scenario.kill_timer_s if self._held else inf
        return min(demand_s, arrival_s, kill_s)

    def advance(self, now_s: float) -> int:
        """Let all happen that is due; returns how many machines join by themselves: without a gate, all that boot."""
        while self._demands and self._demands[0].at_s <= now_s:
            self.waiting += self._demands.popleft().nodes
        joining = self._arrive(now_s)
        while self._held and self._held[0][0] + self._scenario.kill_timer_s <= now_s:
            self._leave_gate(now_s)
            self._lose(1)
        return joining

    def ask(self, count: int, now_s: float) -> None:
        """Ask for `count` machines more, as far as so many are wanted."""
        count = max(0, min(count, self.waiting))
        self.waiting -= count
        deviations = self._scenario.boot_jitter * self._draws.standard_normal(count)
        stretch = np.exp(deviations) if self._scenario.boot_is_skewed else 1.0 + deviations
        boots = self._scenario.boot_s * np.clip(stretch, 0.3, 3.0)
        if count:
            self._asked.add(now_s, count)
            ends_s = np.sort(now_s + np.minimum(boots, self._scenario.kill_timer_s)).tolist()
            self._asks += 1
            self.booting += count
            heappush(self._batches, (ends_s[0], self._asks, _Batch(now_s, ends_s, self._scenario.kill_timer_s)))

    def admit(self, count: int, now_s: float) -> int:
        """Let up to `count` held machines in, the longest asked for first; how many that were."""
        count = max(0, min(count, self.held))
        for _ in range(count):
            self._leave_gate(now_s)
        return count

    def close(self, now_s: float) -> None:
        """The run ends: what has been held for long by now counts too."""
        while self._held:
            self._leave_gate(now_s)

    def joins(self, *, joining: int, joined: int, join_s: float | None, oldest_joining_s: float, now_s: float) -> Joins:
        """What a controller would count now."""
        boots = Durations(tuple(self._boots))
        return Joins(
            waiting=self.waiting,
            booting=self.booting,
            held=self.held,
            joining=joining,
            joined=joined,
            lost=self.lost,
            join_s=join_s,
            boot_s=boots.mean_s,
            boot_spread_s=boots.spread_s,
            oldest_booting_s=now_s - self._asked.first(now_s),
            oldest_held_s=now_s - self._booted.first(now_s),
            oldest_joining_s=oldest_joining_s,
        )

    def _arrive(self, now_s: float) -> int:
        """All that have booted by now or are killed; how many join by themselves."""
        come: list[tuple[float, float]] = []
        """(arrived at, asked at); without a gate only of the latest, as nothing else is remembered of them."""
        joining = 0
        while self._batches and self._batches[0][0] <= now_s:
            _, number, batch = heappop(self._batches)
            arrived, lost = batch.end_until(now_s)
            if batch.ended < len(batch.ends_s):
                heappush(self._batches, (batch.ends_s[batch.ended], number, batch))
            self._asked.remove(batch.asked_s, len(arrived) + lost)
            self.booting -= len(arrived) + lost
            self._lose(lost)
            joining += len(arrived)
            come += [(at_s, batch.asked_s) for at_s in (arrived if self._scenario.has_gate else arrived[-_LATEST:])]
        come.sort()
        self._boots.extend(at_s - asked_s for at_s, asked_s in come[-_LATEST:])
        if not self._scenario.has_gate:
            return joining
        for at_s, asked_s in come:
            heappush(self._held, (asked_s, at_s))
            self._booted.add(at_s)
        return 0

    def _leave_gate(self, now_s: float) -> None:
        _, booted_s = heappop(self._held)
        self._booted.remove(booted_s)
        self.held_long += now_s - booted_s > LONG_HOLD_S

    def _lose(self, count: int) -> None:
        self.lost += count
        self.waiting += count


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestKind:
    """One class of requests as a server sees it."""

    work_s: float
    """Execution time on an idle server, in an empty cluster, of a join of weight 1."""
    seats: int
    grows_with_nodes: bool
    """Whether the execution time grows with the cluster, by `1 + N / 5000`."""

    def work_at(self, nodes: float, weight: float = 1.0) -> float:
        """Execution time in seconds on an idle server of a cluster with `nodes`."""
        growth = 1.0 + nodes / NODES_THAT_DOUBLE_A_LIST if self.grows_with_nodes else 1.0
        return self.work_s * weight * growth

    def cost_at(self, nodes: float, weight: float = 1.0) -> float:
        """Seat-seconds of one such request."""
        return self.seats * self.work_at(nodes, weight)


NODES_THAT_DOUBLE_A_LIST = 5000.0
SMALL = RequestKind(work_s=0.010, seats=1, grows_with_nodes=False)
LIST = RequestKind(work_s=0.150, seats=2, grows_with_nodes=True)
STEADY_LIST = RequestKind(work_s=0.150, seats=2, grows_with_nodes=False)
"""Lists of other people, whose share of the capacity is given and must not grow with the nodes."""


@dataclass(frozen=True, slots=True)
class RequestStep:
    """One request of a lane: think for `think_s` on average, then send."""

    think_s: float
    kind: RequestKind


@dataclass(frozen=True, slots=True)
class RequestLane:
    """What one client of a joining node does, one request after the other, on its own connection."""

    name: str
    timeout_s: float
    """The client gives an attempt up after this; the server goes on in vain."""
    steps: tuple[RequestStep, ...]

    @property
    def alone_s(self) -> float:
        """Mean duration on an idle, empty control plane, at weight 1."""
        return sum(step.think_s + step.kind.work_s for step in self.steps)


@dataclass(frozen=True, slots=True)
class JoinTrain:
    """All that a machine sends from being let in to being usable: it joins when its last lane ends."""

    lanes: tuple[RequestLane, ...]

    @property
    def steps(self) -> Iterator[RequestStep]:
        """Every request of every lane."""
        return (step for lane in self.lanes for step in lane.steps)

    @property
    def alone_s(self) -> float:
        """Mean duration of the longest lane on an idle, empty control plane."""
        return max(lane.alone_s for lane in self.lanes)

    def cost_at(self, nodes: float, weight: float = 1.0) -> float:
        """Seat-seconds of one join in a cluster of `nodes`: 4.54 in an empty one at weight 1."""
        return sum(step.kind.cost_at(nodes, weight) for step in self.steps)


def _lane(name: str, timeout_s: float, start_s: float, kinds: tuple[RequestKind, ...], think_s: float) -> RequestLane:
    thinks = (start_s, *(think_s for _ in kinds[1:]))
    return RequestLane(
        name, timeout_s, tuple(RequestStep(think, kind) for think, kind in zip(thinks, kinds, strict=True))
    )


def _reflectors() -> RequestLane:
    lists = tuple(RequestStep(1.0, LIST) for _ in range(5))
    return RequestLane("reflectors", 60.0, lists + tuple(RequestStep(3.0, SMALL) for _ in range(19)))


JOIN = JoinTrain(
    (
        _lane("kubelet", 30.0, 1.0, (SMALL,) * 39, 1.9),
        _reflectors(),
        *(_lane(f"agent-{i}", 35.0 + 5.0 * i, 8.0 + 3.0 * i, (SMALL, LIST, *(SMALL,) * 10), 4.0) for i in range(6)),
    )
)
"""135 requests in 8 lanes, 11 of them lists; 74 s alone.

Chosen, within the 60-90 s of a real join: the kubelet's own lane is the longest and never waits for lists; its
reflectors list five kinds in the first seconds; six DaemonSet pods start 3 s apart once their images are there, list
once each and then read and patch. So most of a join's work comes in its first half minute.
"""

THINK_SPREAD = 0.5
"""A think time is drawn evenly from its mean times 1 -/+ this; else joins let in together would stay in step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerRules:
    """How an API server queues, refuses and slows down."""

    queue_per_capacity: float = 250.0
    """Queue length in requests, per seat-second per second of nominal capacity."""
    max_wait_s: float = 15.0
    """Longest wait in the queue; then 429."""
    retry_after_min_s: float = 1.0
    retry_after_max_s: float = 32.0
    """Retry-After doubles once per its own length while rejections go on, and halves while they do not."""
    queue_kappa: float = 1.5
    """All work gets heavier by `1 + queue_kappa x overload`, overload = the filled share of the queue, cubed (chosen:
    a herd then takes about 2.5 times the oracle's time, as in the study, and the oracle hardly feels it)."""

    def drag(self, queue_share: float) -> float:
        """How many times as much work everything is while this share of the queue is full."""
        return 1.0 + self.queue_kappa * queue_share**3


SCATTER = 1.5
"""Variance of the executing seats over their mean: 1 if each request took one seat, 2 if each took two.

Within a step they scatter around their mean, so a server is slow now and then before it is full: a normal closure of
the processor-sharing queue. This is the one constant that is calibrated against the grain by request.
"""
_FAR = 4.0
"""Deviations from the capacity at which the scatter no longer matters."""
_NEWTON_STEPS = 5
"""The equation is concave and begun from below: each step comes nearer and none goes past."""


def seat_rate(seats: float, capacity: float) -> float:
    """Seat-seconds per second that so many executing seats get done on average: the mean of `min(seats, capacity)`."""
    deviation = sqrt(SCATTER * seats) if seats > 0.02 else 0.2
    at = (seats - capacity) / deviation
    if at > _FAR:
        return capacity
    if at < -_FAR:
        return max(seats, 1e-9)
    above = (seats - capacity) * 0.5 * erfc(-at / sqrt(2.0)) + deviation * exp(-0.5 * at * at) / sqrt(2.0 * pi)
    return max(seats - above, 1e-9)


def work_left(work: float, residue_s: float, seats: float, capacity: float, step_s: float) -> float:
    """What is left of `work` after one step: implicit, because what executes is gone within less than a step."""
    left = max(work - step_s * capacity, work / (1.0 + step_s / residue_s))
    if left >= seats * residue_s:
        return work - step_s * seat_rate(seats, capacity)
    for _ in range(_NEWTON_STEPS):
        executing = left / residue_s
        missing = work - left - step_s * seat_rate(executing, capacity)
        if missing < 1e-6:
            break
        slope = 0.5 * erfc((executing - capacity) / sqrt(2.0 * SCATTER * executing))
        left += missing / (1.0 + step_s * slope / residue_s)
    return min(left, work)


SERVER = ServerRules()

HEARTBEATS_PER_S = 0.15
"""Requests per second of a node that has joined, each SMALL. Those of the nodes before are part of the background."""
LIST_SHARE = 0.1
"""Of other people's requests so many are lists (chosen: near the mix of a join, 11 of 135); the rest is SMALL."""
VISITOR_COST = (1 - LIST_SHARE) * SMALL.cost_at(0) + LIST_SHARE * STEADY_LIST.cost_at(0)
"""Mean seat-seconds of one request of other people."""
SWING_S = 60.0
"""Correlation time of the background's swing (chosen)."""


_HEARTBEAT_LOAD = HEARTBEATS_PER_S * SMALL.cost_at(0)


def heartbeat_load(joined: float) -> float:
    """Seat-seconds per second of the heartbeats of `joined` new nodes."""
    return _HEARTBEAT_LOAD * joined


def join_cost(scenario: Scenario, come: float) -> float:
    """Seat-seconds of one join, when `come` nodes, joined or joining, are there in addition to those before."""
    return JOIN.cost_at(scenario.nodes_before + come, scenario.join_weight)


@dataclass(frozen=True, slots=True)
class Streams:
    """Both grains draw boots, scrapes and background alike: an equal seed brings both the same."""

    boots: np.random.Generator
    scrapes: np.random.Generator
    background: np.random.Generator
    arrivals: np.random.Generator
    connections: np.random.Generator
    thinking: np.random.Generator

    @classmethod
    def of(cls, seed: int) -> "Streams":
        """The streams of one seed (any integer >= 0)."""
        return cls(*(np.random.default_rng(child) for child in np.random.SeedSequence(seed).spawn(6)))


def capacity(scenario: Scenario, server: int, now_s: float) -> float:
    """Seat-seconds per second that this server can work now; 0 while it is down."""
    return scenario.capacity * speed_factor(scenario, now_s) if is_up(scenario, server, now_s) else 0.0


def spare(scenario: Scenario, background: float, joined: float, now_s: float) -> float:
    """Seat-seconds per second left for joins: what the oracle is told. Few seats bound it as well as the capacity."""
    seats = scenario.capacity * scenario.seats_per_capacity
    usable = sum(min(seats, capacity(scenario, server, now_s)) for server in range(scenario.servers))
    others = background * scenario.servers * scenario.capacity + heartbeat_load(joined)
    lists = burst_rate(scenario, now_s) * LIST.cost_at(scenario.nodes_before + joined)
    return max(0.0, usable - others - lists)


def background_levels(scenario: Scenario, draws: np.random.Generator) -> NDArray[np.float64]:
    """Share of all nominal capacity that other people ask for, per `LEVEL_S` from `-lead_s` on.

    A first-order autoregression around `background` with the relative standard deviation `background_swing`, never
    below a tenth of its mean nor so high that nothing is left (0.95).
    """
    count = int((scenario.lead_s + scenario.limit_s) / LEVEL_S) + 2
    keep = exp(-LEVEL_S / SWING_S)
    swing = draws.standard_normal(count)
    swing[1:] *= (1.0 - keep * keep) ** 0.5
    # To each what is left of those before it, of twice as many at each turn: a plan does this for every run.
    apart = 1
    while apart < count:
        swing[apart:] += keep**apart * swing[:-apart]
        apart *= 2
    levels = scenario.background * (1.0 + scenario.background_swing * swing)
    return np.clip(levels, 0.1 * scenario.background, 0.95)


def level_at(levels: NDArray[np.float64], scenario: Scenario, now_s: float) -> float:
    """The background's share now."""
    return float(levels[min(len(levels) - 1, int((now_s + scenario.lead_s) / LEVEL_S))])
