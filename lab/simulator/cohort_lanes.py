"""The lanes of joining nodes as arrays, one entry per lane and cohort. The client half of the grain by cohort.

A cohort is some joins that were let in together: their lanes share connections and think times.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lab.simulator.cohort_server import NOTHING, StepOutcome
from lab.simulator.fluid_server import Answer, Arrivals, Settled
from lab.simulator.request_arrivals import CLIENT
from throttler.simulator.requests_and_machines import JOIN, NODES_THAT_DOUBLE_A_LIST, THINK_SPREAD

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]

_STEPS = tuple(JOIN.steps)
_END = np.cumsum([len(lane.steps) for lane in JOIN.lanes])
_FIRST = _END - [len(lane.steps) for lane in JOIN.lanes]
_THINK_S = np.array([step.think_s for step in _STEPS])
_WORK_S = np.array([step.kind.work_s for step in _STEPS])
_GROWS = np.array([float(step.kind.grows_with_nodes) for step in _STEPS])
_SEATS = np.array([float(step.kind.seats) for step in _STEPS])
_IS_LAST = np.isin(np.arange(len(_STEPS)), _END - 1)
_NEXT_THINK_S = np.where(_IS_LAST, 0.0, np.append(_THINK_S[1:], 0.0))
_TIMEOUT_S = np.array([lane.timeout_s for lane in JOIN.lanes])
_SHORTEST_S = float(_TIMEOUT_S.min())
_NO_TICKET = np.iinfo(np.intp).max
_SOME_DAY_S = 1e15
"""Later than any run, and yet not never."""
_SWEEP_AT = 256
"""Lanes that have ended are swept out when there are so many, and they are a third of all."""


def work_s_at(nodes: float, weight: float) -> Floats:
    """Execution time of every request of a join in a cluster of so many nodes."""
    return _WORK_S * weight * (1.0 + _GROWS * (nodes / NODES_THAT_DOUBLE_A_LIST))


@dataclass(frozen=True, slots=True)
class Sent:
    """Requests that are sent in one step, each for all joins of its cohort."""

    lanes: Ints
    server: Ints
    count: Floats
    work_s: Floats
    """Execution time on an idle server."""
    seats: Floats

    def arrivals(self, servers: int) -> list[Arrivals]:
        """The same as sums per server."""
        cost = self.count * self.work_s * self.seats
        sums = (_sums(self.server, amounts, servers) for amounts in (self.count, cost, 0.5 * cost * self.work_s))
        return list(map(Arrivals, *sums))


def _sums(server: Ints, amounts: Floats, servers: int) -> list[float]:
    sums: list[float] = np.bincount(server, amounts, servers).tolist()
    return sums


class CohortLanes:
    """All lanes that have not ended."""

    def __init__(self, servers: int, thinking: np.random.Generator, connections: np.random.Generator) -> None:
        self._thinking = thinking
        self._connections = connections
        self.up = np.arange(servers)
        """The servers that connections are made to; all of them when none is up."""
        self.due_s = np.empty(0)
        """When each lane sends its next request, or ends; `inf` once it has ended."""
        self._answered_s = np.empty(0)
        """When the answer to its latest request comes: until then a lost server takes the request with it."""
        self._at = np.empty(0, dtype=np.intp)
        """The next request, among those of all lanes of a join."""
        self._lane = np.empty(0, dtype=np.intp)
        self._server = np.empty(0, dtype=np.intp)
        self._cohort = np.empty(0, dtype=np.intp)
        self._tries = np.empty(0, dtype=np.intp)
        self._failures = np.empty(0, dtype=np.intp)
        self._ticket = np.empty(0, dtype=np.intp)
        """Step in which the open request was queued, for those that wait in a long queue."""
        self._sent_s = np.empty(0)
        """When that was."""
        self._ended = 0

    def start(self, cohorts: Ints, now_s: float) -> None:
        """Let in one more cohort for each number."""
        count = len(cohorts) * len(_FIRST)
        lane = np.tile(np.arange(len(_FIRST)), len(cohorts))
        at = _FIRST[lane]
        new_due_s = now_s + _THINK_S[at] * self._factors(count)
        self.due_s = np.append(self.due_s, new_due_s)
        self._answered_s = np.append(self._answered_s, np.full(count, now_s))
        self._at = np.append(self._at, at)
        self._lane = np.append(self._lane, lane)
        self._server = np.append(self._server, self._any_servers(count))
        self._cohort = np.append(self._cohort, np.repeat(cohorts, len(_FIRST)))
        self._tries = np.append(self._tries, np.zeros(count, dtype=np.intp))
        self._failures = np.append(self._failures, np.zeros(count, dtype=np.intp))
        self._ticket = np.append(self._ticket, np.full(count, _NO_TICKET))
        self._sent_s = np.append(self._sent_s, np.zeros(count))

    def end(self, before_s: float) -> tuple[Ints, Floats]:
        """Take out the lanes that end before this time: their cohorts, and when."""
        lanes = np.flatnonzero(self.due_s < before_s)
        lanes = lanes[self._at[lanes] == _END[self._lane[lanes]]]
        ended = self._cohort[lanes], self.due_s[lanes]
        self.due_s[lanes] = np.inf
        self._ended += len(lanes)
        return ended

    def send(self, before_s: float, sizes: Floats, work_s: Floats) -> Sent:
        """What is sent before this time; `work_s` is what each request of a join takes now, `sizes` the cohorts'."""
        lanes = np.flatnonzero(self.due_s < before_s)
        lanes = lanes[self._at[lanes] < _END[self._lane[lanes]]]
        at = self._at[lanes]
        return Sent(lanes, self._server[lanes], sizes[self._cohort[lanes]], work_s[at], _SEATS[at])

    def answer(self, sent: Sent, answers: list[Answer], from_s: float, step_s: float, ticket: int) -> list[StepOutcome]:
        """Let every lane that has sent go on to its next request, wait in a queue, or repeat what was refused."""
        lanes, server = sent.lanes, sent.server
        waits_s, ends_s, stretch, accepted, retry_after_s, is_queued = np.array(answers).T
        sent_s = self.due_s[lanes]
        part = np.minimum(1.0, np.maximum(0.0, sent_s - from_s) / step_s)
        wait_s = waits_s[server] + part * (ends_s - waits_s)[server]
        tries = self._tries[lanes]
        latency_s, late = self._go_on(lanes, sent_s, wait_s + sent.work_s * stretch[server])
        answered = sent.count
        refused = np.zeros_like(answered)
        if is_queued.any():
            waits = is_queued[server] > 0.0
            self._wait(lanes[waits], sent_s[waits], tries[waits], ticket)
            is_refused = self._connections.random(len(lanes)) >= accepted[server]
            self._refuse(lanes[is_refused], sent_s[is_refused], tries[is_refused] + 1, retry_after_s)
            answered = np.where(waits | is_refused, 0.0, answered)
            refused = np.where(is_refused, sent.count, refused)
        amounts = (answered, answered * latency_s, answered * wait_s, refused, answered * late)
        return list(map(StepOutcome, *(_sums(server, amount, len(answers)) for amount in amounts)))

    def settle(
        self, settled: list[list[Settled]], answers: list[Answer], sizes: Floats, work_s: Floats, now_s: float
    ) -> list[StepOutcome]:
        """Requests that were queued in earlier steps: some are executed now, the others are refused."""
        if not any(settled):
            return [NOTHING] * len(answers)
        newest = np.array([group[-1].ticket if group else -1 for group in settled])
        lanes = np.flatnonzero(self._ticket <= newest[self._server])
        server, count = self._server[lanes], sizes[self._cohort[lanes]]
        shares = {(index, part.ticket): part.served for index, group in enumerate(settled) for part in group}
        served = np.array([shares[key] for key in zip(server.tolist(), self._ticket[lanes].tolist(), strict=True)])
        is_served = self._connections.random(len(lanes)) < served
        self._ticket[lanes] = _NO_TICKET
        self._at[lanes] -= 1
        stretch = np.array([answer.stretch for answer in answers])
        wait_s = now_s - self._sent_s[lanes]
        execution_s = work_s[self._at[lanes]] * stretch[server]
        sent_s, tries = self._sent_s[lanes], self._tries[lanes]
        latency_s, late = self._go_on(lanes, sent_s, wait_s + execution_s)
        refused = ~is_served
        retry_after_s = np.array([answer.retry_after_s for answer in answers])
        self._refuse(lanes[refused], np.full(int(refused.sum()), now_s), tries[refused] + 1, retry_after_s)
        answered = np.where(is_served, count, 0.0)
        amounts = (answered, answered * latency_s, answered * wait_s, count - answered, answered * late)
        return list(map(StepOutcome, *(_sums(server, amount, len(answers)) for amount in amounts)))

    def break_off(self, lost: int, now_s: float) -> None:
        """A server is lost: what it has not answered is to be sent again."""
        lanes = np.flatnonzero((self._server == lost) & (self._answered_s > now_s) & np.isfinite(self.due_s))
        self._at[lanes] -= 1
        self._ticket[lanes] = _NO_TICKET
        self._answered_s[lanes] = now_s
        self.due_s[lanes] = now_s

    def reconnect(self, lost: int, from_s: float, before_s: float) -> None:
        """Those that would send to a lost server now try another one a little later."""
        lanes = np.flatnonzero((self._server == lost) & (self.due_s < before_s))
        lanes = lanes[self._at[lanes] < _END[self._lane[lanes]]]
        self._server[lanes] = self._any_servers(len(lanes))
        delay_s = CLIENT.reconnect_s * (1.0 + self._connections.random(len(lanes)))
        self.due_s[lanes] = np.maximum(self.due_s[lanes], from_s) + delay_s

    def sweep(self) -> None:
        """Forget the lanes that have ended, now and then."""
        if self._ended < max(_SWEEP_AT, len(self.due_s) // 3):
            return
        stays = np.isfinite(self.due_s)
        for name in (
            "due_s",
            "_answered_s",
            "_at",
            "_lane",
            "_server",
            "_cohort",
            "_tries",
            "_failures",
            "_ticket",
            "_sent_s",
        ):
            setattr(self, name, getattr(self, name)[stays])
        self._ended = 0

    def _go_on(self, lanes: Ints, sent_s: Floats, latency_s: Floats) -> tuple[Floats, Floats]:
        """To the next request once this one is answered, or again when its client has lost patience.

        Latencies as the clients meet them, and 1 for each that was too late.
        """
        at = self._at[lanes]
        self._at[lanes] = at + 1
        self._answered_s[lanes] = sent_s + latency_s
        self.due_s[lanes] = sent_s + latency_s + _NEXT_THINK_S[at] * self._factors(len(lanes))
        self._tries[lanes] = 0
        if latency_s.max(initial=0.0) <= _SHORTEST_S:
            self._failures[lanes] = 0
            return latency_s, np.zeros_like(latency_s)
        timeout_s = _TIMEOUT_S[self._lane[lanes]]
        is_late = latency_s > timeout_s
        failures = self._failures[lanes]
        self._time_out(lanes[is_late], sent_s[is_late], failures[is_late])
        self._failures[lanes] = np.where(is_late, failures + 1, 0)
        return np.minimum(latency_s, timeout_s), is_late.astype(np.float64)

    def _wait(self, lanes: Ints, sent_s: Floats, tries: Ints, ticket: int) -> None:
        """In a server's queue, until the ticket is settled."""
        self._ticket[lanes] = ticket
        self._sent_s[lanes] = sent_s
        self._tries[lanes] = tries
        self._answered_s[lanes] = self.due_s[lanes] = _SOME_DAY_S

    def _refuse(self, lanes: Ints, at_s: Floats, tries: Ints, retry_after_s: Floats) -> None:
        gives_up = tries > CLIENT.retries
        wait_s = retry_after_s[self._server[lanes]] + np.where(gives_up, CLIENT.restart_s, 0.0)
        self._ticket[lanes] = _NO_TICKET
        self._at[lanes] -= 1
        self._answered_s[lanes] = at_s
        self.due_s[lanes] = at_s + wait_s
        self._tries[lanes] = np.where(gives_up, 0, tries)
        self._server[lanes[gives_up]] = self._any_servers(int(gives_up.sum()))

    def _time_out(self, lanes: Ints, sent_s: Floats, failures: Ints) -> None:
        wait_s = np.minimum(CLIENT.backoff_max_s, CLIENT.backoff_min_s * 2.0**failures)
        self._at[lanes] -= 1
        self._answered_s[lanes] = sent_s + _TIMEOUT_S[self._lane[lanes]]
        self.due_s[lanes] = self._answered_s[lanes] + wait_s

    def _any_servers(self, count: int) -> Ints:
        return self.up[self._connections.integers(len(self.up), size=count)]

    def _factors(self, count: int) -> Floats:
        return self._thinking.uniform(1.0 - THINK_SPREAD, 1.0 + THINK_SPREAD, count)
