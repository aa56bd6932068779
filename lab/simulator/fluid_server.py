"""An API server as a fluid: work in the system instead of single requests.

What executes takes seats, all seats share the capacity, what finds no seat waits its turn; see
throttler/simulator/requests_and_machines.py for the rules, and request_server.py for the same unaveraged.
"""

from collections import deque
from dataclasses import dataclass
from math import exp
from typing import NamedTuple

from lab.simulator.request_server import REJECTION_WORK
from throttler.simulator.requests_and_machines import SERVER, seat_rate, work_left

MIX_S = 2.0
"""Over so long the mix of arriving requests is averaged."""

LONG_SHARE = 0.05
"""A queue is long when it is filled beyond this share ..."""
LONG_S = 2.0
"""... and waits for longer than this: then what comes later matters to those in it."""


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
        self._rejection_work += ((1.0 - accepted) * arrivals.requests + refusals) * REJECTION_WORK
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
