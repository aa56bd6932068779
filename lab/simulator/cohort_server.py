"""One API server of the grain by cohort: its fluid, its counters, and the visitors that come to it.

Other people's requests and the new nodes' heartbeats are numbers of requests per step, server and kind.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from operator import add, mul
from typing import NamedTuple

import numpy as np

from lab.simulator.fluid_server import Answer, Arrivals, FluidServer, Settled
from lab.simulator.request_arrivals import CLIENT, visitor_rate, visitor_shares
from lab.simulator.result import Tally
from throttler.simulator.requests_and_machines import (
    LIST,
    LIST_SHARE,
    SMALL,
    STEADY_LIST,
    capacity,
)
from throttler.simulator.scenario_and_faults import LEVEL_S, Scenario, burst_rate, is_up
from throttler.simulator.simulated_scrape import Counters

LONGEST_S = 64.0
"""What comes due later than this counts as this: above the longest Retry-After and the longest wait together."""


class Ring:
    """Adds up rows of `width` numbers by the step in which they come due."""

    __slots__ = ("_at", "_rows", "_step_s", "_width")

    def __init__(self, width: int, step_s: float) -> None:
        self._width = width
        self._step_s = step_s
        self._rows: list[list[float]] = []
        self._at = 0
        self.clear()

    def put(self, amounts: Iterable[float], delay_s: float) -> None:
        """Add to what is due after this delay; 0 is the current step."""
        ahead = min(int(delay_s / self._step_s), len(self._rows) - 1)
        row = self._rows[(self._at + ahead) % len(self._rows)]
        for index, amount in enumerate(amounts):
            row[index] += amount

    def take(self) -> list[float]:
        """What is due in this step; the next one becomes the current."""
        due = self._rows[self._at]
        self._rows[self._at] = [0.0] * self._width
        self._at = (self._at + 1) % len(self._rows)
        return due

    def clear(self) -> None:
        """Forget all that was to come."""
        self._rows = [[0.0] * self._width for _ in range(int(LONGEST_S / self._step_s) + 2)]


class StepOutcome(NamedTuple):
    """Of requests that one server was sent in one step."""

    answered: float
    """Accepted and executed to the end, timed out or not."""
    latency_sum_s: float
    wait_sum_s: float
    refused: float = 0.0
    timed_out: float = 0.0

    def plus(self, other: "StepOutcome") -> "StepOutcome":
        """Both together."""
        if other is NOTHING:
            return self
        return StepOutcome(*map(add, self, other))


NOTHING = StepOutcome(0.0, 0.0, 0.0)


class ServerTotals:
    """One server's counters. A request counts when it ends, not when it is sent."""

    def __init__(self, start_s: float, step_s: float) -> None:
        self.started_s = start_s
        self._coming = Ring(len(StepOutcome._fields), step_s)
        self._totals = [0.0] * len(StepOutcome._fields)
        self._ended = list(NOTHING)

    def add(self, outcome: StepOutcome, delay_s: float) -> None:
        """The answered end after `delay_s`, the refused at once."""
        if outcome.answered:
            self._coming.put(outcome._replace(refused=0.0), delay_s)
        if outcome.refused:
            self._coming.put((0.0, 0.0, 0.0, outcome.refused, 0.0), 0.0)

    def advance(self) -> None:
        """One step passes."""
        due = self._coming.take()
        self._totals = list(map(add, self._totals, due))
        self._ended = list(map(add, self._ended, due))

    @property
    def ended(self) -> StepOutcome:
        """Since the run began, restarts or not."""
        return StepOutcome(*self._ended)

    def restart(self, now_s: float) -> None:
        """The server is lost: what was open breaks, the counters begin anew."""
        self._coming.clear()
        self._totals = [0.0] * len(StepOutcome._fields)
        self.started_s = now_s

    def counters(self, server: FluidServer) -> Counters:
        """What a scrape would read."""
        answered, latency_sum_s, wait_sum_s, refused, timed_out = self._totals
        return Counters(
            started_s=self.started_s,
            requests=answered + refused,
            errors=refused + timed_out,
            latency_sum_s=latency_sum_s,
            latency_count=answered,
            wait_sum_s=wait_sum_s,
            wait_count=answered,
            busy_s=server.busy_s,
            seats_share=server.executing / server.seats,
        )


def tally_of(totals: list[ServerTotals]) -> Tally:
    """All requests that have ended at any server, rounded to whole ones."""
    answered, refused, timed_out = (
        sum(getattr(server.ended, name) for server in totals) for name in ("answered", "refused", "timed_out")
    )
    late = round(timed_out)
    return Tally(sent=0, done=round(answered) - late, rejected=round(refused), timed_out=late)


_KINDS = (SMALL, STEADY_LIST, LIST)
_BYSTANDERS = 2
"""Only the first two kinds are people whose latency counts; the last is bursts and relists."""


class CohortVisitors:
    """Draws the arrivals at all servers, level by level."""

    def __init__(self, scenario: Scenario, draws: np.random.Generator, step_s: float) -> None:
        self._scenario = scenario
        self._draws = draws
        self._step_s = step_s
        self._shape = (round(LEVEL_S / step_s), scenario.servers, len(_KINDS))

    def draw(self, level: float, joined: float, now_s: float) -> list[list[list[float]]]:
        """Numbers of arrivals until the background's level changes: by step, server and kind, the last step first."""
        scenario = self._scenario
        shares = np.array(visitor_shares(scenario, now_s)) * self._step_s
        visitors = visitor_rate(scenario, level, joined) * shares
        means = (visitors * (1.0 - LIST_SHARE), visitors * LIST_SHARE, burst_rate(scenario, now_s) * shares)
        drawn = self._draws.poisson(np.broadcast_to(np.stack(means, axis=1), self._shape))
        arrivals: list[list[list[float]]] = drawn[::-1].astype(float).tolist()
        return arrivals


class Latencies:
    """What bystanders met, weighted by how many they were."""

    def __init__(self) -> None:
        self.is_on = False
        """Whether somebody measures."""
        self._latencies_s: list[float] = []
        self._weights: list[float] = []

    def add(self, latency_s: float, weight: float) -> None:
        """So many bystanders waited so long."""
        if not self.is_on or not weight:
            return
        self._latencies_s.append(latency_s)
        self._weights.append(weight)

    def percentiles(self, shares: tuple[float, ...]) -> list[float]:
        """Latencies that these shares did not exceed; 0 where there were no bystanders."""
        if not self._weights:
            return [0.0 for _ in shares]
        latencies_s = np.array(self._latencies_s)
        order = np.argsort(latencies_s)
        passed = np.cumsum(np.array(self._weights)[order])
        places = np.searchsorted(passed, np.array(shares) * passed[-1])
        percentiles: list[float] = latencies_s[order][np.minimum(places, len(order) - 1)].tolist()
        return percentiles


@dataclass(frozen=True, slots=True)
class _Group:
    """Visitors that came in the same step."""

    at_s: float
    by_refusals: list[float]
    """Numbers by kind, first of those that are new, then of those that were refused once, twice and so on."""
    age_s: float
    """Mean time since the bystanders among them first came."""
    work_s: list[float]

    @property
    def counts(self) -> list[float]:
        """By kind."""
        if len(self.by_refusals) == len(_KINDS):
            return self.by_refusals
        return [sum(self.by_refusals[kind :: len(_KINDS)]) for kind in range(len(_KINDS))]

    def share(self, share: float) -> "_Group":
        return replace(self, by_refusals=[count * share for count in self.by_refusals])


class ServerVisitors:
    """Those of one server: new ones, those that wait in its queue, and those that were refused and come again."""

    def __init__(self, step_s: float) -> None:
        self._step_s = step_s
        self._repeats = Ring(len(_KINDS) * CLIENT.retries + 1, step_s)
        """By number of refusals from 1 on, in it by kind; at the end the sum of the bystanders' ages."""
        self._now = _Group(0.0, [0.0] * len(_KINDS), 0.0, [0.0] * len(_KINDS))
        self._queued: dict[int, _Group] = {}

    def relist(self, nodes: float) -> None:
        """Nodes of a lost server list once, spread over a while."""
        steps = round(CLIENT.relist_spread_s / self._step_s)
        for step in range(steps):
            self._repeats.put((0.0, 0.0, nodes / steps), step * self._step_s)

    def forget(self) -> None:
        """The server is lost, and what would have come again goes elsewhere."""
        self._repeats.clear()
        self._queued.clear()

    def arrive(self, drawn: list[float], nodes: float, now_s: float) -> Arrivals:
        """What reaches the server in this step."""
        *again, ages_s = self._repeats.take()
        group = _Group(now_s, drawn + again if any(again) else drawn, 0.0, [kind.work_at(nodes) for kind in _KINDS])
        counts = group.counts
        self._now = replace(group, age_s=ages_s / max(1e-9, sum(counts[:_BYSTANDERS]))) if ages_s else group
        work = residue = 0.0
        for kind, count, work_s in zip(_KINDS, counts, group.work_s, strict=True):
            cost = count * kind.seats * work_s
            work += cost
            residue += 0.5 * cost * work_s
        return Arrivals(sum(counts), work, residue)

    def answer(self, answer: Answer, ticket: int, latencies: Latencies) -> StepOutcome:
        """What becomes of those of this step: executed, queued, or refused at once."""
        if not answer.is_queued:
            return _serve(self._now, 0.5 * (answer.wait_s + answer.wait_end_s), answer, latencies)
        self._queued[ticket] = self._now.share(answer.accepted)
        return self._refuse(self._now.share(1.0 - answer.accepted), 0.0, answer, latencies)

    def settle(self, settled: Settled, answer: Answer, now_s: float, latencies: Latencies) -> StepOutcome:
        """It is the turn of those of an earlier step."""
        group = self._queued.pop(settled.ticket)
        wait_s = now_s - group.at_s
        served = _serve(group.share(settled.served), wait_s, answer, latencies)
        return served.plus(self._refuse(group.share(1.0 - settled.served), wait_s, answer, latencies))

    def _refuse(self, group: _Group, wait_s: float, answer: Answer, latencies: Latencies) -> StepOutcome:
        """They come again after their Retry-After; those that have come too often leave."""
        total = sum(group.counts)
        if not total:
            return NOTHING
        staying = len(_KINDS) * CLIENT.retries
        stay, leave = group.by_refusals[:staying], group.by_refusals[staying:]
        latencies.add(group.age_s + wait_s, sum(leave[:_BYSTANDERS]))
        bystanders = sum(sum(stay[kind :: len(_KINDS)]) for kind in range(_BYSTANDERS))
        ages_s = (group.age_s + wait_s + answer.retry_after_s) * bystanders
        self._repeats.put(stay + [0.0] * (staying - len(stay)) + [ages_s], answer.retry_after_s)
        return NOTHING._replace(refused=total)


def _serve(group: _Group, wait_s: float, answer: Answer, latencies: Latencies) -> StepOutcome:
    counts = group.counts
    latencies_s = [wait_s + work_s * answer.stretch for work_s in group.work_s]
    for latency_s, count in zip(latencies_s[:_BYSTANDERS], counts[:_BYSTANDERS], strict=True):
        latencies.add(latency_s + group.age_s, count)
    total = sum(counts)
    return StepOutcome(total, sum(map(mul, latencies_s, counts)), total * wait_s)


class CohortServer:
    """`index` from 0."""

    def __init__(self, scenario: Scenario, index: int, now_s: float, step_s: float) -> None:
        seats = max(2, round(scenario.capacity * scenario.seats_per_capacity))
        self.index = index
        self.is_up = True
        self.fluid = FluidServer(scenario.capacity, seats, now_s, step_s)
        self.totals = ServerTotals(now_s, step_s)
        self._visitors = ServerVisitors(step_s)
        self._scenario = scenario
        self._capacity = scenario.capacity

    def follow_faults(self, now_s: float) -> bool:
        """Take over what the scenario says about now; whether the server has just been lost."""
        was_up, self.is_up = self.is_up, is_up(self._scenario, self.index, now_s)
        self._capacity = capacity(self._scenario, self.index, now_s)
        if was_up != self.is_up:
            self.fluid.start(now_s)
            self.totals.restart(now_s)
            self._visitors.forget()
        return was_up and not self.is_up

    def relist(self, nodes: float) -> None:
        """So many nodes of a lost server come to this one, and each lists once."""
        self._visitors.relist(nodes)

    def step(self, joins: Arrivals, drawn: list[float], nodes: float, now_s: float, ticket: int) -> Answer:
        """Take in what joins and visitors send in this step."""
        if not self.is_up:
            return Answer(0.0, 0.0, 1.0, 1.0, 1.0)
        visitors = self._visitors.arrive(drawn, nodes, now_s)
        both = Arrivals(*map(add, joins, visitors))
        return self.fluid.step(both, self._capacity, now_s, ticket)

    @property
    def settled(self) -> list[Settled]:
        """Earlier steps' requests whose turn has come in this one."""
        return self.fluid.settled if self.is_up else []

    def count(
        self, joins: StepOutcome, late: StepOutcome, answer: Answer, now_s: float, ticket: int, to: Latencies
    ) -> None:
        """Count what became of this step's joins and of earlier, `late` ones, and end the step."""
        if self.is_up:
            both = joins.plus(self._visitors.answer(answer, ticket, to))
            self.totals.add(both, both.latency_sum_s / both.answered if both.answered else 0.0)
            for settled in self.settled:
                late = late.plus(self._visitors.settle(settled, answer, now_s, to))
            if late is not NOTHING:
                self.totals.add(late, 0.0)
        self.totals.advance()

    @property
    def counters(self) -> Counters | None:
        """What a scrape would read; None while the server is down."""
        return self.totals.counters(self.fluid) if self.is_up else None
