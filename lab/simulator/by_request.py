"""The plant request by request: the truth that the fast grain is held to.

Three sources of events are merged by time: a heap (a client sends, a machine boots, a scrape, a control step, a fault
begins or ends), the visitors of the current background level, already in order, and what each server has due next.
"""

from array import array
from collections import deque
from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from math import inf

import numpy as np

from lab.simulator.request_arrivals import CLIENT, Arrival, arrivals
from lab.simulator.request_server import (
    FOREIGN_LIST,
    KINDS,
    LANES,
    SINGLE,
    Client,
    JoiningNode,
    RequestServer,
)
from lab.simulator.result import Film, Result, Tally, check_nodes, result
from throttler.simulator.pacing_policies import Oracle, Policy, permit
from throttler.simulator.requests_and_machines import (
    THINK_SPREAD,
    Machines,
    Streams,
    background_levels,
    level_at,
)
from throttler.simulator.scenario_and_faults import LEVEL_S, Scenario, ServerLoss, Slowdown, is_up, speed_factor
from throttler.simulator.simulated_scrape import Counters, Observer

TIMEOUT_CHECK_S = 1.0
"""A client notices its timeout at the next multiple of this."""
_LATEST = 20
_BLOCK = 4096


def simulate_requests(scenario: Scenario, policy: Policy | Oracle, seed: int) -> Result:
    """Run one scale-up to its end or to `limit_s`. Equal for equal arguments (a policy must be new, too).

    Raises ConservationError when an attempt or a node was lost or counted twice.
    """
    return _Run(scenario, policy, seed).run()


class _Run:
    def __init__(self, scenario: Scenario, policy: Policy | Oracle, seed: int) -> None:
        streams = Streams.of(seed)
        self._scenario = scenario
        self._policy = policy
        self._now_s = -scenario.lead_s
        self._heap: list[tuple[float, int, Callable[..., None], object]] = []
        self._events = 0
        self._tally = Tally()
        self._film = Film()
        self._machines = Machines(scenario, streams.boots)
        self._observer = Observer(scenario, streams.scrapes)
        self._levels = background_levels(scenario, streams.background)
        self._visitor_draws = streams.arrivals
        self._visitors: list[Arrival] = []
        self._think_factors = _numbers(streams.thinking, 1.0 - THINK_SPREAD, 1.0 + THINK_SPREAD)
        self._dice = _numbers(streams.connections, 0.0, 1.0)
        seats = max(2, round(scenario.capacity * scenario.seats_per_capacity))
        self._servers = [
            RequestServer(index, scenario.capacity, seats, self._now_s) for index in range(scenario.servers)
        ]
        self._up = list(self._servers)
        self._joining: deque[JoiningNode] = deque()
        self._joining_count = 0
        self._join_times: deque[float] = deque(maxlen=_LATEST)
        self._usable_s: list[float] = []
        self._latencies_s = array("d")
        self._works: list[float] = []
        self._let_in(0)

    # -- the loop ---------------------------------------------------------------------------------------------------

    def run(self) -> Result:
        self._open()
        wanted, limit_s = self._scenario.nodes, self._scenario.limit_s
        while len(self._usable_s) < wanted and self._now_s < limit_s:
            self._next_event()
        return self._close()

    def _open(self) -> None:
        start_s = self._now_s
        for change in (self._tick, self._check_timeouts, self._scrape, self._control):
            self._at(start_s, change, None)
        for fault in self._scenario.faults:
            if isinstance(fault, ServerLoss | Slowdown):
                self._at(fault.at_s, self._apply_faults, None)
                self._at(fault.at_s + fault.for_s, self._apply_faults, None)
        self._wake_for_machines()

    def _next_event(self) -> None:
        due: RequestServer | None = None
        next_s, visitors = self._heap[0][0], self._visitors
        for server in self._servers:
            if server.next_s < next_s:
                next_s, due = server.next_s, server
        if visitors and visitors[-1][0] < next_s:
            self._arrive(*visitors.pop())
        elif due is not None:
            self._now_s = next_s
            self._serve(due)
        else:
            self._now_s, _, action, argument = heappop(self._heap)
            action(argument)

    def _at(self, at_s: float, action: Callable[..., None], argument: object) -> None:
        self._events += 1
        heappush(self._heap, (at_s, self._events, action, argument))

    def _close(self) -> Result:
        self._tally.check(sum(len(server.open_clients()) for server in self._servers))
        wanted = sum(demand.nodes for demand in self._scenario.demands if demand.at_s <= self._now_s)
        check_nodes(wanted, self._machines, self._joining_count, len(self._usable_s))
        self._machines.close(self._now_s)
        is_done = len(self._usable_s) == self._scenario.nodes
        return result(
            done_s=self._usable_s[-1] if is_done and self._usable_s else None,
            usable_s=self._usable_s,
            tally=self._tally,
            latencies_s=self._latencies_s,
            machines=self._machines,
            film=self._film,
        )

    # -- requests ---------------------------------------------------------------------------------------------------

    def _arrive(self, at_s: float, index: int, kind: int) -> None:
        self._now_s = at_s
        client = Client(None, SINGLE[kind], CLIENT.visitor_timeout_s, self._servers[index])
        client.since_s = at_s
        self._send(client)

    def _send(self, client: Client) -> None:
        server = client.server
        if not server.is_up:
            self._reconnect(client)
            return
        tally = self._tally
        tally.sent += 1
        client.attempt = tally.sent
        client.sent_s = self._now_s
        kind = client.sendings[client.at][1]
        if not server.take(client, self._works[kind], KINDS[kind][0].seats, self._now_s):
            self._reject(client)

    def _serve(self, server: RequestServer) -> None:
        served = server.step(self._now_s)
        if served is None:
            return
        client, is_answer = served
        if is_answer:
            self._answer(client)
        else:
            self._reject(client)

    def _answer(self, client: Client) -> None:
        self._tally.done += 1
        client.server.count_answer(self._now_s - client.sent_s)
        client.attempt = client.tries = client.failures = 0
        client.at += 1
        if client.at < len(client.sendings):
            self._at(self._now_s + client.sendings[client.at][0] * next(self._think_factors), self._send, client)
        elif client.node is not None:
            self._end_lane(client.node)
        else:
            self._leave(client)

    def _reject(self, client: Client) -> None:
        self._tally.rejected += 1
        wait_s = client.server.reject(self._now_s)
        client.attempt = 0
        client.tries += 1
        if client.tries > CLIENT.retries:
            client.tries = 0
            if client.node is None:
                self._leave(client)
                return
            wait_s += CLIENT.restart_s
            client.server = self._any_server()
        self._at(self._now_s + wait_s, self._send, client)

    def _time_out(self, client: Client) -> None:
        self._tally.timed_out += 1
        client.server.count_timeout(self._now_s - client.sent_s)
        client.attempt = 0
        wait_s = min(CLIENT.backoff_max_s, CLIENT.backoff_min_s * 2.0**client.failures)
        client.failures += 1
        if client.node is None:
            self._leave(client)
        else:
            self._at(self._now_s + wait_s, self._send, client)

    def _leave(self, visitor: Client) -> None:
        if visitor.is_bystander and visitor.since_s >= 0.0:
            self._latencies_s.append(self._now_s - visitor.since_s)

    def _reconnect(self, client: Client) -> None:
        """Nobody answers: connect to another server a little later. No attempt was made, none is counted."""
        client.server = self._any_server()
        self._at(self._now_s + CLIENT.reconnect_s * (1.0 + next(self._dice)), self._send, client)

    def _any_server(self) -> RequestServer:
        servers = self._up or self._servers
        return servers[int(next(self._dice) * len(servers))]

    # -- joins ------------------------------------------------------------------------------------------------------

    def _let_in(self, count: int) -> None:
        for _ in range(count):
            node = JoiningNode(self._now_s)
            self._joining.append(node)
            for timeout_s, sendings in LANES:
                client = Client(node, sendings, timeout_s, self._any_server())
                self._at(self._now_s + sendings[0][0] * next(self._think_factors), self._send, client)
        self._joining_count += count
        self._weigh()

    def _end_lane(self, node: JoiningNode) -> None:
        node.lanes_left -= 1
        if node.lanes_left:
            return
        self._joining_count -= 1
        self._usable_s.append(self._now_s)
        self._join_times.append(self._now_s - node.since_s)

    def _weigh(self) -> None:
        """Lists grow with the cluster, and joins have a weight."""
        nodes = self._scenario.nodes_before + self._joining_count + len(self._usable_s)
        weight = self._scenario.join_weight
        self._works = [kind.work_at(nodes, weight if is_join else 1.0) for kind, is_join in KINDS]

    def _oldest_joining_s(self) -> float:
        while self._joining and not self._joining[0].lanes_left:
            self._joining.popleft()
        return self._now_s - self._joining[0].since_s if self._joining else 0.0

    # -- machines, faults, scrapes, control -------------------------------------------------------------------------

    def _wake_for_machines(self) -> None:
        next_s = self._machines.next_s
        if next_s < inf:
            self._at(max(next_s, self._now_s), self._advance_machines, None)

    def _advance_machines(self, _: object) -> None:
        due_s = self._machines.next_s
        if due_s > self._now_s:
            return
        self._let_in(self._machines.advance(self._now_s))
        self._wake_for_machines()

    def _tick(self, _: object) -> None:
        level = level_at(self._levels, self._scenario, self._now_s)
        joined = len(self._usable_s)
        self._visitors = arrivals(self._scenario, level, joined, self._now_s, self._visitor_draws) + self._visitors
        self._at(self._now_s + LEVEL_S, self._tick, None)

    def _check_timeouts(self, _: object) -> None:
        for server in self._servers:
            for client in server.overdue(self._now_s):
                self._time_out(client)
        self._at(self._now_s + TIMEOUT_CHECK_S, self._check_timeouts, None)

    def _apply_faults(self, _: object) -> None:
        for server in self._servers:
            should_be_up = is_up(self._scenario, server.index, self._now_s)
            if server.is_up and not should_be_up:
                self._lose(server)
            elif should_be_up and not server.is_up:
                server.start(self._now_s)
        self._up = [server for server in self._servers if server.is_up]
        for server in self._up:
            server.set_capacity(self._scenario.capacity * speed_factor(self._scenario, self._now_s), self._now_s)

    def _lose(self, server: RequestServer) -> None:
        nodes = self._scenario.nodes_before + self._joining_count + len(self._usable_s)
        relists = round(CLIENT.relist_share * nodes / max(1, len(self._up)))
        self._up = [other for other in self._up if other is not server]
        for client in server.stop(self._now_s):
            self._tally.broken += 1
            client.attempt = 0
            self._reconnect(client)
        for _ in range(relists):
            client = Client(None, SINGLE[FOREIGN_LIST], CLIENT.visitor_timeout_s, self._any_server())
            self._at(self._now_s + CLIENT.relist_spread_s * next(self._dice), self._send, client)

    def _counters(self) -> list[Counters | None]:
        return [server.counters(self._now_s) if server.is_up else None for server in self._servers]

    def _scrape(self, _: object) -> None:
        self._observer.scrape(self._counters(), self._now_s)
        self._at(self._now_s + self._scenario.scrape_s, self._scrape, None)

    def _control(self, _: object) -> None:
        self._advance_machines(None)
        joins = self._machines.joins(
            joining=self._joining_count,
            joined=len(self._usable_s),
            join_s=sum(self._join_times) / len(self._join_times) if self._join_times else None,
            oldest_joining_s=self._oldest_joining_s(),
            now_s=self._now_s,
        )
        level = level_at(self._levels, self._scenario, self._now_s)
        signals = self._observer.signals(self._now_s)
        allowed = permit(self._policy, self._scenario, signals, joins, level, self._now_s)
        self._machines.ask(allowed.ask, self._now_s)
        self._let_in(self._machines.admit(allowed.admit, self._now_s))
        self._wake_for_machines()
        self._film.take(
            self._machines,
            joining=self._joining_count,
            joined=len(self._usable_s),
            window=allowed.window,
            servers=self._counters(),
            tally=self._tally,
            now_s=self._now_s,
        )
        self._at(self._now_s + self._scenario.step_s, self._control, None)


def _numbers(draws: np.random.Generator, low: float, high: float) -> Iterator[float]:
    """Even draws, a block at a time: one at a time would cost more than the rest of an event."""
    while True:
        yield from draws.uniform(low, high, _BLOCK).tolist()
