"""What became of requests, and what the servers count of it when it is over."""

from operator import add
from typing import NamedTuple

from throttler.simulator.fluid_server import FluidServer
from throttler.simulator.ring import Ring
from throttler.simulator.simulated_scrape import Counters
from throttler.simulator.tally import Tally


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
        sum(getattr(each.ended, name) for each in totals) for name in ("answered", "refused", "timed_out")
    )
    late = round(timed_out)
    return Tally(sent=0, done=round(answered) - late, rejected=round(refused), timed_out=late)
