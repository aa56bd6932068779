"""What one scale-up taught, kept on the JoinThrottle's status for the next one and for the next process."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """Figures of the cluster as last seen; None is "never learned". Losing them costs time, never correctness."""

    window: float | None = None
    """The knee: joins in flight at which the servers were just well used."""
    is_proven: bool = False
    """Whether the knee was met; otherwise so many joins only did no harm."""
    baseline_s: float | None = None
    """Latency plus queue wait while nothing joined."""
    join_s: float | None = None
    """How long a join takes below the knee."""
    boot_s: float | None = None
    """How long a machine takes from being asked for to being heard of."""
    load_per_join: float | None = None
    """Share of the worst server's capacity (CPU or seats) that one join in flight takes."""
    age_s: float = 0.0
    """How long ago the window was learned, by the wall clock at start-up and monotonic from then on."""
