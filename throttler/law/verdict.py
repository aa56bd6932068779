"""What the law decides at one moment."""

import enum
from dataclasses import dataclass

from throttler.kube.because import Because


class Phase(enum.Enum):
    """What the law is doing; the printer column PHASE of a JoinThrottle."""

    IDLE = "Idle"
    SLOW_START = "SlowStart"
    AVOID = "Avoid"
    BRAKE = "Brake"
    STALE = "Stale"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The window, and what may be done now to fill it. Every number is finite; counts are never negative."""

    phase: Phase
    window: float
    """Joins that may load the API servers at the same time, within the settings' bounds."""
    admit: int
    """How many held machines may be let in now (levers at the join)."""
    allowance: int
    """How many more machines may be asked for now (levers before launch)."""
    pace_per_min: float
    """What the window means at the joins' present duration (Little's law)."""
    because: Because
    spare: int = 0
    """How many beyond `allowance`, should more be wanted before the next look: a ceiling may stand so much higher."""
    index: float | None = None
    """Latency and queue wait of the worst server over their baseline; None while unknown."""
    error_share: float = 0.0
    """429 and 5xx over all requests, of the worst server."""
    worst_server: str = ""
    """The server that decided."""
    left_out: tuple[Because, ...] = ()
    """Trouble that joins have no part in, and that therefore does not count, for as long as it lasts."""
