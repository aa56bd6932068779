"""Whether anybody still renews the Lease, by our own monotonic clock. Pure.

Timestamps of other machines are never compared with ours: a Lease is alive while it changes. Time during which it could
not be read proves nothing about its holder, who could not write it either; so after a gap the same patience is asked of
a row of good reads before anything is taken away from a service that is only just coming back.
"""

from dataclasses import dataclass, replace

from throttler.kube.lease import LeaseSpec

SETTLED_PERIODS = 2.5
"""More periods than this between two reads are a gap, whatever the cause: the server was away, the process was stopped,
the machine slept. Reads must have come for as long without one before silence counts."""


@dataclass(frozen=True, slots=True)
class LeaseWatch:
    """Memory of one reader. `period_s` is how often it means to read."""

    period_s: float
    face: LeaseSpec | None = None
    """The Lease as last read; None before the first read."""
    unchanged_since_s: float = 0.0
    read_at_s: float = 0.0
    steady_since_s: float = 0.0
    """Since when reads have come without a gap."""
    is_fresh: bool = False
    """Whether the last try to read it succeeded."""
    is_moving: bool = False
    """Whether the last read showed a change: somebody is alive."""

    def read(self, face: LeaseSpec, now_s: float) -> "LeaseWatch":
        """The memory after a read."""
        is_same = face == self.face
        is_gap = self.face is None or now_s - self.read_at_s > SETTLED_PERIODS * self.period_s
        return replace(
            self,
            face=face,
            unchanged_since_s=self.unchanged_since_s if is_same else now_s,
            read_at_s=now_s,
            steady_since_s=now_s if is_gap else self.steady_since_s,
            is_fresh=True,
            is_moving=not is_same and self.face is not None,
        )

    def failed(self) -> "LeaseWatch":
        """The memory after a read that brought no answer."""
        return replace(self, is_fresh=False, is_moving=False)

    def silent_s(self) -> float:
        """Seconds for which every read has shown the same Lease; 0 before the first."""
        return self.read_at_s - self.unchanged_since_s if self.face is not None else 0.0

    def is_abandoned(self, after_s: float) -> bool:
        """Whether nobody has renewed it for `after_s`, seen by reads without a gap."""
        if not self.is_fresh or self.silent_s() < after_s:
            return False
        return self.read_at_s - self.steady_since_s >= SETTLED_PERIODS * self.period_s
