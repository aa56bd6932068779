"""An API server as a fluid, in the preview and by cohort: work in the system instead of single requests. And how a
scraper sees any simulated server.

What executes takes seats, all seats share the capacity, what finds no seat waits its turn; see `plant.py` for the rules
and lab/simulator/request_server.py for the same unaveraged. Within a step the executing seats scatter around their
mean, so a server is slow now and then before it is full: a normal closure of the processor-sharing queue (its variance
is the one constant calibrated against the grain by request, `SCATTER`).

A scraper sees it now and then, late, with noise, sometimes not at all, in both grains. Windows are differences of two
successful scrapes of one server. A missed scrape makes the next window longer; after a gap of more than `MAX_SPAN`
scrapes, and after a restart, counting starts anew. While blind, a scrape brings old numbers: no new window, and the
newest reading grows old.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import erfc, exp, pi, sqrt
from typing import NamedTuple

import numpy as np

from throttler.signals.reading import Reading, Signals, SilentServer
from throttler.simulator.plant import SERVER, foreign_errors, is_blind, webhook_s
from throttler.simulator.scenario import Scenario

MIX_S = 2.0
"""Over so long the mix of arriving requests is averaged."""
SCATTER = 1.5
"""Variance of the executing seats over their mean: 1 if each request took one seat, 2 if each took two."""
_FAR = 4.0
"""Deviations from the capacity at which the scatter no longer matters."""

LONG_SHARE = 0.05
"""A queue is long when it is filled beyond this share ..."""
LONG_S = 2.0
"""... and waits for longer than this: then what comes later matters to those in it."""
_NEWTON_STEPS = 5
"""The equation is concave and begun from below: each step comes nearer and none goes past."""


class Arrivals(NamedTuple):
    """What reaches one server in one step, before any is refused."""

    requests: float
    work: float
    """Seat-seconds."""
    residue: float
    """Seat-seconds times half the execution time: tells for how long a seat stays taken on average."""


class Answer(NamedTuple):
    """How one server treats what arrives in one step."""

    wait_s: float
    """In the queue, at the step's beginning."""
    wait_end_s: float
    """The same at its end."""
    stretch: float
    """Execution time over that on an idle server."""
    accepted: float
    """Share that is not refused at once because the queue is full."""
    retry_after_s: float
    is_queued: bool = False
    """Whether what is accepted has to wait for its ticket to be settled; otherwise the waits above hold."""


class Settled(NamedTuple):
    """What became of all that was queued in one step: it was the queue's turn, or the longest wait was over."""

    ticket: int
    served: float
    """Share that is executed now; the rest is refused."""


@dataclass(slots=True)
class _Batch:
    ticket: int
    at_s: float
    requests: float
    work: float
    left: float


class FluidServer:
    """The state of one server, advanced one step after the other.

    While the queue is short, how long a request waits is known when it comes. A long queue is kept in order of arrival,
    because what comes later decides whether those in it are executed before their longest wait is over.
    """

    def __init__(self, capacity: float, seats: int, now_s: float, step_s: float) -> None:
        self.seats = float(seats)
        self._nominal = capacity
        self._queue_limit = float(int(SERVER.queue_per_capacity * capacity))
        self._step_s = step_s
        self._keep = exp(-step_s / MIX_S)
        self.start(now_s)

    def start(self, now_s: float) -> None:
        """Begin empty."""
        self.executing = self.busy_s = 0.0
        self.settled: list[Settled] = []
        """In the latest step."""
        self._batches: deque[_Batch] = deque()
        self._waiting = 0.0
        """Requests in the batches."""
        self._queued = self._work = self._queue_work = 0.0
        self._rejection_work = 0.0
        """Owed for refusals; done before anything else, and no heavier when the queue is long."""
        self._mix_work, self._mix_residue = 1e-9, 5e-11
        self._retry_after_s = SERVER.retry_after_min_s
        self._turned_s = now_s
        self._has_refused = False

    @property
    def queued(self) -> float:
        """Requests that wait for a seat."""
        return self._queued + self._waiting

    def step(self, arrivals: Arrivals, capacity: float, now_s: float, ticket: int) -> Answer:
        """Take in what arrives between now and the step's end, `capacity` being what the server can do now.

        `ticket` must be a new one in each step.
        """
        capacity = max(1e-6, capacity)
        drag = SERVER.drag(min(1.0, self.queued / self._queue_limit))
        stalled = min(0.95, self._rejection_work / (capacity * self._step_s))
        self._rejection_work -= stalled * capacity * self._step_s
        capacity *= (1.0 - stalled) / drag
        residue_s = self._residue_s(arrivals)
        self.settled = []
        full = seat_rate(self.seats, capacity)
        expected = self._queue_work + arrivals.work - full * self._step_s
        is_long = self.queued + arrivals.requests > LONG_SHARE * self._queue_limit and expected > LONG_S * full
        spent = refusals = 0.0
        if self._batches or is_long:
            spent, refusals = self._work_off(full * self._step_s, now_s)
            self.busy_s += min(spent * drag, self._nominal * self._step_s) / self._nominal
        if self._batches or is_long:
            answer = self._queue_up(arrivals, full, refusals, now_s, ticket)
        else:
            left = max(0.05, 1.0 - spent / (full * self._step_s))
            answer = self._flow_through(arrivals, residue_s, capacity, left, drag)
        self._turn(now_s)
        return answer._replace(retry_after_s=self._retry_after_s)

    def _flow_through(self, arrivals: Arrivals, residue_s: float, capacity: float, left: float, drag: float) -> Answer:
        """The short queue; `left` is the share of the step that the end of a long one has not taken."""
        before = min(self.seats, self._work / residue_s)
        wait_s = self._queue_work / seat_rate(before, capacity) if self._queue_work else 0.0
        self._take(arrivals, residue_s, left * capacity, drag)
        mean = 0.5 * (before + self.executing)
        stretch = max(1.0, mean / seat_rate(mean, capacity)) if mean else 1.0
        wait_end_s = self._queue_work / seat_rate(self.executing, capacity) if self._queue_work else 0.0
        return Answer(wait_s, wait_end_s, stretch, 1.0, self._retry_after_s)

    def _queue_up(self, arrivals: Arrivals, rate: float, refusals: float, now_s: float, ticket: int) -> Answer:
        """The long queue: those that find room join its end."""
        room = max(0.0, self._queue_limit - self.queued)
        accepted = min(1.0, room / arrivals.requests) if arrivals.requests else 1.0
        self._has_refused |= accepted < 1.0 or refusals > 0.0
        self._rejection_work += ((1.0 - accepted) * arrivals.requests + refusals) * SERVER.rejection_work
        work = accepted * arrivals.work
        self._batches.append(_Batch(ticket, now_s, accepted * arrivals.requests, work, work))
        self._waiting += accepted * arrivals.requests
        self.executing = self.seats
        return Answer(0.0, 0.0, max(1.0, self.seats / rate), accepted, self._retry_after_s, is_queued=True)

    def _work_off(self, budget: float, now_s: float) -> tuple[float, float]:
        """Spend up to one step's work on the queue, the first first: what was spent, and how many were refused."""
        left = budget - min(budget, self._queue_work)
        self._shorten(budget - left)
        refusals = 0.0
        while self._batches:
            batch = self._batches[0]
            done = min(batch.left, left)
            left -= done
            batch.left -= done
            self._waiting -= batch.requests * done / batch.work if batch.work else 0.0
            if batch.left > 1e-9 and now_s + self._step_s - batch.at_s < SERVER.max_wait_s:
                break
            refusals += self._settle(self._batches.popleft())
        return budget - left, refusals

    def _shorten(self, done: float) -> None:
        """Work on what was queued while the queue was short."""
        if done:
            self._queued *= 1.0 - done / self._queue_work
            self._queue_work -= done
            self._work -= done

    def _settle(self, batch: _Batch) -> float:
        """A batch is over: how many of it are refused."""
        refused = batch.requests * batch.left / batch.work if batch.work else 0.0
        self._waiting = max(0.0, self._waiting - refused) if self._batches else 0.0
        self.settled.append(Settled(batch.ticket, 1.0 - refused / batch.requests if batch.requests else 1.0))
        return refused

    def _residue_s(self, arrivals: Arrivals) -> float:
        self._mix_work = self._keep * self._mix_work + arrivals.work
        self._mix_residue = self._keep * self._mix_residue + arrivals.residue
        return max(1e-3, self._mix_residue / max(self._mix_work, 1e-12))

    def _take(self, arrivals: Arrivals, residue_s: float, capacity: float, drag: float) -> None:
        """Let all arrive, and work one step."""
        work = self._work + arrivals.work
        self._work = work_left(work, residue_s, self.seats, capacity, self._step_s)
        self.executing = min(self.seats, self._work / residue_s)
        self.busy_s += min((work - self._work) * drag, drag * capacity * self._step_s) / self._nominal
        queue_in = self._queue_work + arrivals.work
        self._queue_work = max(0.0, self._work - self.seats * residue_s)
        share = min(1.0, self._queue_work / queue_in) if queue_in > 0.0 else 0.0
        self._queued = (self._queued + arrivals.requests) * share

    def _turn(self, now_s: float) -> None:
        """Double or halve the Retry-After when its own length has passed."""
        if now_s - self._turned_s < self._retry_after_s:
            return
        turned = self._retry_after_s * (2.0 if self._has_refused else 0.5)
        self._retry_after_s = min(SERVER.retry_after_max_s, max(SERVER.retry_after_min_s, turned))
        self._turned_s = now_s
        self._has_refused = False


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


CLOCK_START_S = 1000.0
"""What a policy sees at the scenario's second 0: a monotonic clock starts anywhere, but never below 0."""
MAX_SPAN = 3.5
_FIGURES = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """What one server has counted since it started, and two gauges."""

    started_s: float
    """When it started: a new value is a restart, and its counters began at 0."""
    requests: float
    """Ended: answered, rejected or timed out."""
    errors: float
    """Of these, 429 and 5xx."""
    latency_sum_s: float
    latency_count: float
    """Of those that were answered or timed out, their wait in the queue included: a 429 adds nothing."""
    wait_sum_s: float
    wait_count: float
    """Waits in the queue of those that left it to be executed; 0 for those that had not to wait."""
    busy_s: float
    """Seconds of nominal capacity used: 1 per second at full load of an undisturbed server."""
    seats_share: float


class Observer:
    """The scraper of all servers."""

    def __init__(self, scenario: Scenario, draws: np.random.Generator) -> None:
        self._scenario = scenario
        self._draws = draws
        self._before: dict[int, tuple[float, Counters]] = {}
        self._newest: dict[int, Reading] = {}
        self._coming: list[tuple[float, int, Reading | SilentServer]] = []
        self._silent: dict[int, SilentServer] = {}
        self._down_since: dict[int, float] = {}
        self._never_seen = tuple(
            SilentServer(server=f"unseen-{number}", problem="", since_s=CLOCK_START_S - scenario.lead_s, was_seen=False)
            for number in range(1, scenario.never_seen + 1)
        )

    def scrape(self, servers: Sequence[Counters | None], now_s: float) -> None:
        """Look at all servers, once per `scrape_s`; None is one that is down. `now_s` is the scenario's time."""
        missing = self._draws.random(len(servers)) < self._scenario.scrape_missing
        noise = self._scenario.scrape_noise * self._draws.standard_normal((len(servers), _FIGURES))
        factors = np.maximum(1.0 + noise, 0.0).tolist()
        for index, counters in enumerate(servers):
            if counters is None:
                self._before.pop(index, None)
                self._announce(index, self._silence(index, now_s), now_s)
            elif not missing[index] and not is_blind(self._scenario, now_s):
                self._look(index, counters, factors[index], now_s)

    def signals(self, now_s: float) -> Signals:
        """What has arrived by now."""
        while self._coming and self._coming[0][0] <= now_s:
            _, index, news = self._coming.pop(0)
            self._silent.pop(index, None)
            if isinstance(news, SilentServer):
                self._newest.pop(index, None)
                self._silent[index] = news
            else:
                self._newest[index] = news
        return Signals(
            readings=tuple(self._newest[index] for index in sorted(self._newest)),
            silent=(*(self._silent[index] for index in sorted(self._silent)), *self._never_seen),
        )

    def _announce(self, index: int, news: Reading | SilentServer, now_s: float) -> None:
        self._coming.append((now_s + self._scenario.scrape_delay_s, index, news))

    def _silence(self, index: int, now_s: float) -> SilentServer:
        since_s = self._down_since.setdefault(index, now_s + CLOCK_START_S)
        return SilentServer(server=_name(index), problem="no answer", since_s=since_s)

    def _look(self, index: int, counters: Counters, factors: list[float], now_s: float) -> None:
        self._down_since.pop(index, None)
        before = self._before.get(index)
        self._before[index] = (now_s, counters)
        if before is None or before[1].started_s != counters.started_s:
            return
        span_s = now_s - before[0]
        if span_s <= MAX_SPAN * self._scenario.scrape_s:
            window = _window(index, before[1], counters, span_s, factors, now_s)
            self._announce(index, self._with_others(window, index, now_s), now_s)

    def _with_others(self, window: Reading, index: int, now_s: float) -> Reading:
        """The same with what is answered to others, which is no load."""
        if not self._scenario.disturbances:
            return window
        from_s = now_s - window.span_s
        ours, others = (
            float(self._draws.poisson(mean)) if mean else 0.0
            for mean in foreign_errors(self._scenario, index, from_s, now_s)
        )
        latency_s = window.latency_s
        return replace(
            window,
            requests=window.requests + ours + others,
            errors=window.errors + ours,
            others_errors=others,
            latency_s=None if latency_s is None else latency_s + webhook_s(self._scenario, from_s, now_s),
        )


def _window(index: int, old: Counters, new: Counters, span_s: float, factors: list[float], now_s: float) -> Reading:
    requests = (new.requests - old.requests) * factors[0]
    latency_s, wait_s = new.latency_sum_s - old.latency_sum_s, new.wait_sum_s - old.wait_sum_s
    count = new.latency_count - old.latency_count
    return Reading(
        server=_name(index),
        ended_s=now_s + CLOCK_START_S,
        span_s=span_s,
        requests=requests,
        errors=min(requests, (new.errors - old.errors) * factors[1]),
        latency_s=_mean(latency_s, count, factors[2]),
        service_s=_mean(latency_s - wait_s, count, factors[4]),
        queue_wait_s=_mean(wait_s, new.wait_count - old.wait_count, factors[3]),
        seats_share=min(1.0, new.seats_share * factors[5]),
        cpu_share=min(1.0, (new.busy_s - old.busy_s) / span_s * factors[6]),
    )


def _mean(total_s: float, count: float, factor: float) -> float | None:
    return max(0.0, total_s) / count * factor if count > 0 else None


def _name(index: int) -> str:
    return f"server-{index}"
