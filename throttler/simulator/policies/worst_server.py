"""What the baselines read out of the signals: new windows only, the worst server, its latency over an idle one's."""

import statistics
from collections import deque
from dataclasses import dataclass, field

from throttler.signals.reading import Reading, Signals

BASELINE_WINDOWS = 18
"""About three minutes of windows of 10 s."""
BASELINE_FLOOR_S = 0.004
"""An idle server answers in less than a millisecond; a ratio to that is noise."""


@dataclass(frozen=True, slots=True)
class Worst:
    """The newest windows of all servers as one: the largest of each figure."""

    error_share: float
    errors: float
    index: float
    """Latency and queue wait over the baseline; 1 while nothing is known."""


@dataclass
class WorstServer:
    """Remembers the baseline and which windows were seen already."""

    idle: deque[float] = field(default_factory=lambda: deque(maxlen=BASELINE_WINDOWS))
    seen_s: float = -1.0

    def fresh(self, signals: Signals, is_idle: bool) -> Worst | None:
        """None when no window has ended since the call before. `is_idle`: nothing joins, so this is the baseline."""
        readings = [reading for reading in signals.readings if reading.ended_s > self.seen_s]
        if not readings:
            return None
        self.seen_s = max(reading.ended_s for reading in readings)
        delay_s = max(map(_delay_s, readings))
        if is_idle:
            self.idle.append(delay_s)
        errors = max(reading.errors for reading in readings)
        share = max(reading.errors / reading.requests if reading.requests else 0.0 for reading in readings)
        return Worst(error_share=share, errors=errors, index=delay_s / self.baseline_s)

    @property
    def baseline_s(self) -> float:
        """The idle servers' median, or the floor under it."""
        return max(BASELINE_FLOOR_S, statistics.median(self.idle) if self.idle else 0.0)


def _delay_s(reading: Reading) -> float:
    return (reading.latency_s or 0.0) + (reading.queue_wait_s or 0.0)
