"""The times of an election, and the inequality that keeps two leaders apart."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LeadTiming:
    """Seconds, each by the candidate's own monotonic clock. Raises ValueError when they do not keep leaders apart.

    A leader stops writing `renew_deadline_s` after the start of its last renewal; nobody takes its place before the
    Lease has stood still for `lease_s`. Between the two a write on its way may end, and clocks may differ in speed by
    their ratio (9 to 6: one may run half as fast again as the other). The worst takeover after a sudden death is one
    look that just missed the last renewal, the lease, one look that came just too early and the attempt that follows:
    2 x (`retry_s` + `attempt_s`) + `lease_s` = 13.4 s.
    """

    lease_s: float = 9.0
    renew_deadline_s: float = 6.0
    retry_s: float = 1.2
    """The longest time between the starts of two looks at the Lease."""
    attempt_s: float = 1.0
    """The longest that one look, or one renewal, may take: several fit into the deadline (kopiur#324)."""
    jitter: float = 0.2
    """The share of `retry_s` by which a look may come early, so that replicas do not keep in step."""

    def __post_init__(self) -> None:
        if not 0 < self.attempt_s < self.retry_s:
            raise ValueError(f"an attempt ({self.attempt_s} s) must end before the next look ({self.retry_s} s)")
        if not 3 * self.retry_s <= self.renew_deadline_s:
            raise ValueError(f"three looks ({self.retry_s} s) must fit into the deadline ({self.renew_deadline_s} s)")
        if not self.renew_deadline_s < self.lease_s:
            raise ValueError(f"the deadline ({self.renew_deadline_s} s) must end before the lease ({self.lease_s} s)")
        if not 0 <= self.jitter < 1:
            raise ValueError(f"jitter {self.jitter} is no share of the time between two looks")
