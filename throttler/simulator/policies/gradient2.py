"""Gradient2 of Netflix's concurrency-limits, as a window of joins: our own few lines after its description.

The limit follows the ratio of a long average of the latency to the newest, plus a term that lets a small queue form.
"""

from dataclasses import dataclass, field

from throttler.joins.joins import Joins
from throttler.signals.reading import Signals
from throttler.simulator.policies.fixed import in_window
from throttler.simulator.policies.stock import Stock
from throttler.simulator.policies.worst_server import WorstServer
from throttler.simulator.policy import Permit


@dataclass
class Gradient2:
    """Tuned: the long average is the idle servers' latency, and four times that is tolerated."""

    window: float = 16.0
    tolerance: float = 4.0
    smoothing: float = 0.2
    queue_share: float = 0.4
    """What is added for a queue, as a share of the window (the original adds a constant number)."""
    least: float = 2.0
    worst: WorstServer = field(default_factory=WorstServer)
    stock: Stock = field(default_factory=Stock)

    def step(self, signals: Signals, joins: Joins, now_s: float) -> Permit:
        """Adjust once per new window of counts; a window that is not used to half stays as it is."""
        found = self.worst.fresh(signals, is_idle=not joins.joining)
        if found is not None and joins.joining >= 0.5 * self.window:
            self.window = self.next_window(found.index, found.error_share)
        return in_window(self.window, self.stock, joins, now_s)

    def next_window(self, index: float, error_share: float) -> float:
        """The original's update; errors count as the steepest gradient."""
        gradient = 0.5 if error_share > 0.001 else max(0.5, min(1.0, self.tolerance / max(index, 1e-9)))
        aim = self.window * (gradient + self.queue_share)
        return max(self.least, (1 - self.smoothing) * self.window + self.smoothing * aim)
