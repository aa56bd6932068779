"""How many machines to ask for, so that the gate does not run dry and none waits there for long."""

from dataclasses import dataclass, field

from throttler.joins.joins import Joins
from throttler.simulator.policies.drip import Drip
from throttler.simulator.scenario import Scenario

BOOT_PRIOR_S = 180.0
"""A machine's boot before the first has been seen; clouds take 0.5 to 12 min."""
JOIN_PRIOR_S = 80.0
"""A join before the first has been seen: 60 to 90 s."""
SMALLEST = 4


@dataclass(kw_only=True)
class Stock:
    """Machines asked for and not let in yet, counted in seconds of admissions that they will last.

    Without a gate there is no stock: machines are asked for at the pace at which they shall join, a boot ahead.
    """

    wait_s: float = 150.0
    """How long a booted machine may wait at the gate."""
    kill_share: float = 0.6
    """Share of the kill timer that the last machine's way to the gate may take at the present pace."""
    kill_timer_s: float = 900.0
    has_gate: bool = True
    drip: Drip = field(default_factory=Drip)

    @classmethod
    def of(cls, scenario: Scenario) -> "Stock":
        """As the operator of that cluster would set it."""
        return cls(kill_timer_s=scenario.kill_timer_s, has_gate=scenario.has_gate)

    def to_ask(self, joins: Joins, pace_per_s: float, now_s: float, boot_s: float | None = None) -> int:
        """How many more may be asked for while `pace_per_s` are let in; `boot_s` where it is known beforehand."""
        boot_s = boot_s or joins.boot_s or BOOT_PRIOR_S
        if not self.has_gate:
            room = min(self.drip.due(pace_per_s, now_s), self._room(joins, pace_per_s, 1.3 * boot_s))
        else:
            wait_s = min(boot_s + self.wait_s, self.kill_share * self.kill_timer_s)
            room = self._room(joins, pace_per_s, max(1.1 * boot_s, wait_s))
        return max(0, min(joins.waiting, room))

    def _room(self, joins: Joins, pace_per_s: float, ahead_s: float) -> int:
        return max(SMALLEST, int(pace_per_s * ahead_s)) - joins.booting - joins.held


def pace_of(window: float, joins: Joins) -> float:
    """What a window means in joins per second while joins take as long as they do now (Little's law)."""
    return window / (joins.join_s or JOIN_PRIOR_S)
