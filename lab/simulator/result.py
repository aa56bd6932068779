"""What came of one simulated scale-up: every attempt counted, the pictures of a run, and the result."""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from throttler.simulator.requests_and_machines import Machines
from throttler.simulator.simulated_scrape import Counters


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedMoment:
    """The state at one time, for pictures and for finding what binds."""

    at_s: float
    waiting: int
    booting: int
    held: int
    joining: int
    joined: int
    window: float | None
    latency_s: float
    """Mean latency of requests that ended since the moment before, of the worst server."""
    error_share: float
    utilisation: float
    """Busy share of all capacity."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One run: equal for equal scenario, policy and seed."""

    done_s: float | None
    """Time at which the last wanted node was usable; None when the run hit its limit."""
    usable_s: Sequence[float]
    """When each node became usable, in order."""
    requests: float
    """All requests that ended, whoever sent them."""
    errors: float
    """Of these, 429 and 5xx."""
    bystander_p50_s: float
    bystander_p99_s: float
    """Latency of other people's requests during the scale-up."""
    held_over_10min: int
    """Machines that were kept waiting for longer than ten minutes at the gate."""
    lost: int
    """Machines destroyed by their kill timer."""
    moments: Sequence[SimulatedMoment]

    @property
    def error_share(self) -> float:
        """429 and 5xx over all requests."""
        return self.errors / self.requests if self.requests else 0.0


class ConservationError(RuntimeError):
    """The simulation lost or doubled something: a defect in the simulator, never a result."""


@dataclass(slots=True)
class Tally:
    """Attempts by how they ended."""

    sent: int = 0
    done: int = 0
    rejected: int = 0
    timed_out: int = 0
    broken: int = 0
    """Cut off with their server; the client saw no answer, so no 429 or 5xx."""

    @property
    def ended(self) -> int:
        """All that are over."""
        return self.done + self.rejected + self.timed_out + self.broken

    @property
    def errors(self) -> int:
        """429 and 5xx."""
        return self.rejected + self.timed_out

    def check(self, still_open: int) -> None:
        """Raise ConservationError unless every attempt ended once or is `still_open`, as counted where they are."""
        if self.sent != self.ended + still_open:
            raise ConservationError(f"{self.sent} attempts sent, {self.ended} ended, {still_open} open")


def check_nodes(wanted: int, machines: Machines, joining: int, joined: int) -> None:
    """Raise ConservationError unless every wanted node is in exactly one stage."""
    there = machines.waiting + machines.booting + machines.held + joining + joined
    if there != wanted:
        raise ConservationError(f"{wanted} nodes wanted by now, {there} in all stages together")


class Film:
    """One `Moment` per control step, from the differences of what was counted."""

    def __init__(self) -> None:
        self.moments: list[SimulatedMoment] = []
        self._servers: list[Counters | None] = []
        self._ended = self._errors = 0
        self._at_s = 0.0

    def take(
        self,
        machines: Machines,
        *,
        joining: int,
        joined: int,
        window: float | None,
        servers: list[Counters | None],
        tally: Tally,
        now_s: float,
    ) -> None:
        """Add the moment now. A server that is down counts as neither slow nor busy."""
        ended, errors = tally.ended - self._ended, tally.errors - self._errors
        self.moments.append(
            SimulatedMoment(
                at_s=now_s,
                waiting=machines.waiting,
                booting=machines.booting,
                held=machines.held,
                joining=joining,
                joined=joined,
                window=window,
                latency_s=max(map(_latency_s, *self._pairs(servers))),
                error_share=errors / ended if ended else 0.0,
                utilisation=self._utilisation(servers, now_s),
            )
        )
        self._servers, self._at_s = servers, now_s
        self._ended, self._errors = tally.ended, tally.errors

    def _pairs(self, servers: list[Counters | None]) -> tuple[list[Counters | None], list[Counters | None]]:
        return self._servers or [None] * len(servers), servers

    def _utilisation(self, servers: list[Counters | None], now_s: float) -> float:
        span_s = now_s - self._at_s
        busy_s = sum(map(_busy_s, *self._pairs(servers)))
        return min(1.0, busy_s / (span_s * len(servers))) if span_s > 0.0 and self._servers else 0.0


def result(
    *,
    done_s: float | None,
    usable_s: list[float],
    tally: Tally,
    latencies_s: "array[float]",
    machines: Machines,
    film: Film,
) -> Result:
    """Put a run together."""
    p50_s, p99_s = np.percentile(latencies_s, [50, 99]).tolist() if latencies_s else (0.0, 0.0)
    return Result(
        done_s=done_s,
        usable_s=tuple(usable_s),
        requests=tally.ended,
        errors=tally.errors,
        bystander_p50_s=p50_s,
        bystander_p99_s=p99_s,
        held_over_10min=machines.held_long,
        lost=machines.lost,
        moments=tuple(film.moments),
    )


def _since(old: Counters | None, new: Counters) -> Counters | None:
    return old if old is not None and old.started_s == new.started_s else None


def _latency_s(old: Counters | None, new: Counters | None) -> float:
    if new is None:
        return 0.0
    base = _since(old, new)
    count = new.latency_count - (base.latency_count if base else 0.0)
    total_s = new.latency_sum_s - (base.latency_sum_s if base else 0.0)
    return total_s / count if count else 0.0


def _busy_s(old: Counters | None, new: Counters | None) -> float:
    if new is None:
        return 0.0
    base = _since(old, new)
    return new.busy_s - (base.busy_s if base else 0.0)
