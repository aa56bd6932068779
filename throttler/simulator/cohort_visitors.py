"""Other people's requests and the new nodes' heartbeats, as numbers of requests per step, server and kind."""

from dataclasses import dataclass, replace
from operator import mul

import numpy as np

from throttler.simulator.cohort_outcome import NOTHING, StepOutcome
from throttler.simulator.fluid_server import Answer, Arrivals, Settled
from throttler.simulator.plant import CLIENT, LIST, LIST_SHARE, SMALL, STEADY_LIST
from throttler.simulator.request_arrivals import visitor_rate
from throttler.simulator.ring import Ring
from throttler.simulator.scenario import Scenario
from throttler.simulator.weather import LEVEL_S, burst_rate, visitor_shares

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
        found: list[list[list[float]]] = drawn[::-1].astype(float).tolist()
        return found


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
        found: list[float] = latencies_s[order][np.minimum(places, len(order) - 1)].tolist()
        return found


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
