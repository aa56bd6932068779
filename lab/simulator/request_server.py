"""One API server, request by request, and who sends them: seats, a queue in order of arrival, processor sharing, 429.

All executing seats go at the same speed, so one number, the seconds of execution that a seat has been given since the
start (`_given_s`), tells when each request ends: when `_given_s` reaches what it was at its start plus its work. That
needs one heap push and pop per request however often the speed changes. Requests come one after the other from the
lanes of a joining node, or from visitors with a single one.
"""

from collections import deque
from dataclasses import dataclass
from heapq import heappop, heappush
from math import inf

from throttler.simulator.requests_and_machines import (
    JOIN,
    LIST,
    SERVER,
    SMALL,
    STEADY_LIST,
    RequestKind,
    RequestLane,
    ServerRules,
)
from throttler.simulator.simulated_scrape import Counters

KINDS: tuple[tuple[RequestKind, bool], ...] = (
    (SMALL, True),
    (LIST, True),
    (SMALL, False),
    (STEADY_LIST, False),
    (LIST, False),
)
"""Every kind of request, and whether the scenario's join weight makes it heavier."""
REJECTION_WORK = 0.001
"""Seat-seconds that a 429 costs (chosen: a tenth of the smallest request)."""
JOIN_SMALL, JOIN_LIST, VISITOR_SMALL, VISITOR_LIST, FOREIGN_LIST = range(5)

Sending = tuple[float, int]
"""Mean think time before the request, and its index in `KINDS`."""


def _sendings(lane: RequestLane) -> tuple[Sending, ...]:
    return tuple((step.think_s, JOIN_LIST if step.kind is LIST else JOIN_SMALL) for step in lane.steps)


LANES: tuple[tuple[float, tuple[Sending, ...]], ...] = tuple((lane.timeout_s, _sendings(lane)) for lane in JOIN.lanes)
"""Timeout and requests of each lane of a join."""
SINGLE: tuple[tuple[Sending, ...], ...] = tuple(((0.0, kind),) for kind in range(len(KINDS)))
"""The one request of a visitor, by kind."""


@dataclass(slots=True, eq=False)
class JoiningNode:
    """A node from being let in until its last lane ends."""

    since_s: float
    lanes_left: int = len(LANES)


class Client:
    """One connection and the request that is open on it. `attempt` numbers the open attempt; 0 when none is open."""

    __slots__ = ("at", "attempt", "failures", "node", "sendings", "sent_s", "server", "since_s", "timeout_s", "tries")

    def __init__(
        self, node: JoiningNode | None, sendings: tuple[Sending, ...], timeout_s: float, server: "RequestServer"
    ) -> None:
        self.node = node
        self.sendings = sendings
        self.timeout_s = timeout_s
        self.server = server
        self.at = 0
        self.attempt = 0
        self.tries = 0
        """429s in a row since the caller last saw an error or an answer."""
        self.failures = 0
        """Timeouts in a row."""
        self.since_s = 0.0
        """When a visitor first sent its request."""
        self.sent_s = 0.0

    @property
    def is_bystander(self) -> bool:
        """Whether this is one of the other people whose latency counts."""
        return self.node is None and self.sendings[0][1] != FOREIGN_LIST


class RetryAfter:
    """Doubles once per its own length while rejections go on, halves once per its own length while they do not."""

    __slots__ = ("_had_rejection", "_rules", "_since_s", "value_s")

    def __init__(self, rules: ServerRules = SERVER) -> None:
        self.value_s = rules.retry_after_min_s
        self._rules = rules
        self._since_s = float("-inf")
        self._had_rejection = False

    def on_rejection(self, now_s: float) -> float:
        """What the client is told that is rejected now."""
        while now_s - self._since_s >= self.value_s:
            self._turn(now_s)
        self._had_rejection = True
        return self.value_s

    def _turn(self, now_s: float) -> None:
        if self._had_rejection:
            self._since_s += self.value_s
            self.value_s = min(2.0 * self.value_s, self._rules.retry_after_max_s)
        elif self.value_s > self._rules.retry_after_min_s:
            self._since_s += self.value_s
            self.value_s = max(0.5 * self.value_s, self._rules.retry_after_min_s)
        else:
            self._since_s = now_s
        self._had_rejection = False


Waiting = tuple[float, int, float, int, Client]
"""When it is rejected at the latest, number of the attempt, work, seats, who."""


class RequestServer:
    """State of one server. `next_s` is when it must be looked at again (`step`). Times never go backwards."""

    __slots__ = (
        "_at_s",
        "_capacity",
        "_drag_per_cube",
        "_executing",
        "_given_s",
        "_nominal",
        "_queue",
        "_seats_used",
        "_speed",
        "_stalled_s",
        "_wanted",
        "busy_s",
        "errors",
        "index",
        "is_up",
        "latency_count",
        "latency_sum_s",
        "next_s",
        "queue_limit",
        "requests",
        "retry_after",
        "seats",
        "started_s",
        "wait_count",
        "wait_sum_s",
    )  # fmt: skip

    def __init__(self, index: int, capacity: float, seats: int, now_s: float) -> None:
        self.index = index
        self.seats = seats
        self.queue_limit = int(SERVER.queue_per_capacity * capacity)
        self._nominal = capacity
        self._drag_per_cube = (SERVER.drag(1.0) - 1.0) / self.queue_limit**3
        self._capacity = capacity
        self.start(now_s)

    def start(self, now_s: float) -> None:
        """Begin empty, with all counters at 0."""
        self.is_up = True
        self.started_s = self._at_s = now_s
        self.retry_after = RetryAfter()
        self._executing: list[tuple[float, int, int, Client]] = []
        self._queue: deque[Waiting] = deque()
        self._seats_used = 0
        self._given_s = 0.0
        self._stalled_s = now_s
        self._wanted = 0.0
        self._speed = 1.0
        self.next_s = inf
        self.requests = self.errors = self.latency_count = self.wait_count = 0
        self.latency_sum_s = self.wait_sum_s = self.busy_s = 0.0

    def stop(self, now_s: float) -> list[Client]:
        """Go down: the clients whose open attempts break."""
        clients = list(self.open_clients())
        self.start(now_s)
        self.is_up = False
        return clients

    def set_capacity(self, capacity: float, now_s: float) -> None:
        """From now on so many seat-seconds per second."""
        self._settle(now_s)
        self._capacity = capacity
        self._schedule()

    def open_clients(self) -> list[Client]:
        """Those that still wait for the answer of an attempt that is here."""
        executing = [client for _, attempt, _, client in self._executing if client.attempt == attempt]
        return executing + [client for _, _, _, _, client in self._queue]

    def overdue(self, now_s: float) -> list[Client]:
        """Clients whose timeout has passed. Only executing requests can be: a wait in the queue is shorter."""
        return [
            client
            for _, attempt, _, client in self._executing
            if client.attempt == attempt and client.sent_s + client.timeout_s <= now_s
        ]

    def take(self, client: Client, work_s: float, seats: int, now_s: float) -> bool:
        """Execute or queue the client's attempt; False when the queue is full and it must be rejected."""
        self._settle(now_s)
        if not self._queue and self._seats_used + seats <= self.seats:
            self._start(client, client.attempt, work_s, seats)
            self.wait_count += 1
        elif len(self._queue) < self.queue_limit:
            self._queue.append((now_s + SERVER.max_wait_s, client.attempt, work_s, seats, client))
        else:
            return False
        self._schedule()
        return True

    def step(self, now_s: float) -> tuple[Client, bool] | None:
        """Do what is due at `next_s`: who was answered (True) or must be rejected (False); None for one in vain."""
        self._settle(now_s)
        if self._queue and self._queue[0][0] <= now_s:
            waiting = self._queue.popleft()
            self._dispatch(now_s)
            self._schedule()
            return waiting[4], False
        ends, attempt, seats, client = heappop(self._executing)
        if ends > self._given_s:
            self._given_s = ends
        self._seats_used -= seats
        if self._queue:
            self._dispatch(now_s)
        self._schedule()
        return (client, True) if client.attempt == attempt else None

    def count_answer(self, latency_s: float) -> None:
        """Count a request that was executed to its end for somebody."""
        self.requests += 1
        self.latency_count += 1
        self.latency_sum_s += latency_s

    def count_timeout(self, latency_s: float) -> None:
        """Count a 504."""
        self.count_answer(latency_s)
        self.errors += 1

    def reject(self, now_s: float) -> float:
        """Count a 429 and what it costs; returns its Retry-After."""
        self.requests += 1
        self.errors += 1
        if self._wanted >= self._capacity:
            self._settle(now_s)
            self._stalled_s = max(self._stalled_s, now_s) + REJECTION_WORK / self._capacity
            self._schedule()
        return self.retry_after.on_rejection(now_s)

    def counters(self, now_s: float) -> Counters:
        """What a scrape would read."""
        self._settle(now_s)
        return Counters(
            started_s=self.started_s,
            requests=self.requests,
            errors=self.errors,
            latency_sum_s=self.latency_sum_s,
            latency_count=self.latency_count,
            wait_sum_s=self.wait_sum_s,
            wait_count=self.wait_count,
            busy_s=self.busy_s,
            seats_share=self._seats_used / self.seats,
        )

    def _settle(self, now_s: float) -> None:
        elapsed_s = now_s - self._at_s
        if elapsed_s <= 0.0:
            return
        wanted = self._wanted
        if wanted:
            served_s = now_s - self._stalled_s if self._stalled_s > self._at_s else elapsed_s
            if served_s > 0.0:
                self._given_s += served_s * self._speed
            self.busy_s += elapsed_s * (wanted if wanted < self._capacity else self._capacity) / self._nominal
        self._at_s = now_s

    def _start(self, client: Client, attempt: int, work_s: float, seats: int) -> None:
        heappush(self._executing, (self._given_s + work_s, attempt, seats, client))
        self._seats_used += seats

    def _dispatch(self, now_s: float) -> None:
        queue = self._queue
        while queue and self._seats_used + queue[0][3] <= self.seats:
            deadline_s, attempt, work_s, seats, client = queue.popleft()
            self._start(client, attempt, work_s, seats)
            self.wait_count += 1
            self.wait_sum_s += now_s - (deadline_s - SERVER.max_wait_s)

    def _schedule(self) -> None:
        queue, executing = self._queue, self._executing
        wanted = float(self._seats_used)
        if queue:
            wanted *= 1.0 + self._drag_per_cube * len(queue) ** 3
        self._wanted = wanted
        self._speed = speed = 1.0 if wanted <= self._capacity else self._capacity / wanted
        next_s = inf
        if executing:
            left_s = executing[0][0] - self._given_s
            next_s = self._stalled_s if self._stalled_s > self._at_s else self._at_s
            if left_s > 0.0:
                next_s += left_s / speed
        if queue and queue[0][0] < next_s:
            next_s = queue[0][0]
        self.next_s = next_s
