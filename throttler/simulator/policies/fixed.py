"""Fixed limits: what an operator would set by hand."""

from dataclasses import dataclass, field

from throttler.joins.joins import Joins
from throttler.signals.reading import Signals
from throttler.simulator.policies.drip import Drip
from throttler.simulator.policies.stock import Stock, pace_of
from throttler.simulator.policy import Permit


@dataclass
class FixedRate:
    """So many joins per second, whatever happens."""

    per_s: float
    stock: Stock = field(default_factory=Stock)
    drip: Drip = field(default_factory=Drip)

    def step(self, signals: Signals, joins: Joins, now_s: float) -> Permit:
        """Never looks at the servers."""
        due = self.drip.due(self.per_s, now_s)
        return Permit(ask=self.stock.to_ask(joins, self.per_s, now_s), admit=min(due, joins.held))


@dataclass
class FixedWindow:
    """So many joins in flight, whatever happens."""

    window: float
    stock: Stock = field(default_factory=Stock)

    def step(self, signals: Signals, joins: Joins, now_s: float) -> Permit:
        """Let in as many as have ended."""
        return in_window(self.window, self.stock, joins, now_s)


def in_window(window: float, stock: Stock, joins: Joins, now_s: float) -> Permit:
    """Fill the window up, and keep the stock that its pace needs."""
    room = max(0, int(window) - joins.joining)
    pace = pace_of(window, joins) if stock.has_gate or room else 0.0
    return Permit(ask=stock.to_ask(joins, pace, now_s), admit=min(room, joins.held), window=window)
