"""Additive increase, multiplicative decrease (Chiu and Jain 1989), on late and on leading signals."""

from dataclasses import dataclass, field

from throttler.joins.joins import Joins
from throttler.signals.reading import Signals
from throttler.simulator.policies.drip import Drip
from throttler.simulator.policies.fixed import in_window
from throttler.simulator.policies.stock import Stock
from throttler.simulator.policies.worst_server import WorstServer
from throttler.simulator.policy import Permit


@dataclass
class AimdOnErrors:
    """A rate that grows until servers reject: half of it when over 1 % of a window's requests were errors."""

    per_s: float = 0.2
    step_per_s: float = 0.05
    bad_share: float = 0.01
    least_per_s: float = 0.05
    worst: WorstServer = field(default_factory=WorstServer)
    stock: Stock = field(default_factory=Stock)
    drip: Drip = field(default_factory=Drip)

    def step(self, signals: Signals, joins: Joins, now_s: float) -> Permit:
        """Adjust once per new window of counts."""
        found = self.worst.fresh(signals, is_idle=not joins.joining)
        if found is not None and found.error_share > self.bad_share:
            self.per_s = max(self.least_per_s, self.per_s / 2)
        elif found is not None and joins.joining:
            self.per_s += self.step_per_s
        due = self.drip.due(self.per_s, now_s)
        return Permit(ask=self.stock.to_ask(joins, self.per_s, now_s), admit=min(due, joins.held))


@dataclass
class AimdOnWindow:
    """A window that grows by a fixed number of joins, and shrinks when latency or queueing rises."""

    window: float = 8.0
    rise: float = 2.0
    cut: float = 0.8
    bad_index: float = 5.0
    """Latency and queue wait over the idle servers'."""
    least: float = 2.0
    worst: WorstServer = field(default_factory=WorstServer)
    stock: Stock = field(default_factory=Stock)

    def next_window(self, index: float, error_share: float, joining: int) -> float:
        """The next window."""
        if error_share > 0.001 or index > self.bad_index:
            return max(self.least, self.cut * self.window)
        return self.window + self.rise if joining >= 0.6 * self.window else self.window

    def step(self, signals: Signals, joins: Joins, now_s: float) -> Permit:
        """Adjust once per new window of counts; grow only while the window is used."""
        found = self.worst.fresh(signals, is_idle=not joins.joining)
        if found is not None:
            self.window = self.next_window(found.index, found.error_share, joins.joining)
        return in_window(self.window, self.stock, joins, now_s)
