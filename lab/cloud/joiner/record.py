"""What is known of one join. Times are those of the event loop's clock, in seconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class JoinRecord:
    """A join, step by step; a step that was never reached is None.

    `requested_s` is when it was asked for, `admitted_s` when the gate let it begin, `registered_s` when its Node
    existed, `ready_s` when the API said that it is Ready, `daemons_ready_s` when the API said that all awaited
    DaemonSet pods run. `attempts` counts HTTP requests by status code up to the end of the join (0 is a broken
    connection or a timeout, watches count when they are answered), `retries` those that repeated another.
    """

    name: str
    requested_s: float
    admitted_s: float | None = None
    registered_s: float | None = None
    ready_s: float | None = None
    daemons_ready_s: float | None = None
    attempts: Mapping[int, int] = field(default_factory=dict)
    retries: int = 0

    @property
    def is_complete(self) -> bool:
        """Whether the node is Ready with its DaemonSet pods."""
        return self.ready_s is not None and self.daemons_ready_s is not None

    @property
    def ended_s(self) -> float | None:
        """When the join was done."""
        if self.ready_s is None or self.daemons_ready_s is None:
            return None
        return max(self.ready_s, self.daemons_ready_s)

    @property
    def joining_s(self) -> float | None:
        """How long it was in flight: from admission to its end."""
        if self.ended_s is None or self.admitted_s is None:
            return None
        return self.ended_s - self.admitted_s

    @property
    def to_usable_s(self) -> float | None:
        """How long it took from being asked for, waiting at the gate included."""
        return None if self.ended_s is None else self.ended_s - self.requested_s
