"""One API server of the grain by cohort: its fluid, its counters, and the visitors that come to it."""

from operator import add

from throttler.simulator.cohort_outcome import NOTHING, ServerTotals, StepOutcome
from throttler.simulator.cohort_visitors import Latencies, ServerVisitors
from throttler.simulator.fluid_server import Answer, Arrivals, FluidServer, Settled
from throttler.simulator.scenario import Scenario
from throttler.simulator.simulated_scrape import Counters
from throttler.simulator.weather import capacity, is_up


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

    def feel_weather(self, now_s: float) -> bool:
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
