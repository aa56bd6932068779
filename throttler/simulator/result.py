"""What came of one simulated scale-up."""

from collections.abc import Sequence
from dataclasses import dataclass


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
