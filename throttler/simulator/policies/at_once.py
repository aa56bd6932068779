"""No pacing: what autoscalers do."""

from throttler.joins.joins import Joins
from throttler.signals.reading import Signals
from throttler.simulator.policy import Permit


class AtOnce:
    """Ask for everything that waits, let in everything that has booted."""

    def step(self, signals: Signals, joins: Joins, now_s: float) -> Permit:
        """Never looks at the servers."""
        return Permit(ask=joins.waiting, admit=joins.held)
