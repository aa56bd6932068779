"""What a pacing policy looks like to the simulator: the same that the service's loop is to the cluster."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from throttler.joins.joins import Joins
from throttler.signals.reading import Signals


@dataclass(frozen=True, slots=True)
class Permit:
    """What may happen until the next step: `ask` for so many more machines, let `admit` of the held ones in.

    `window` is what the policy aims at, for pictures only; None where it has none.
    """

    ask: int
    admit: int
    window: float | None = None


class Policy(Protocol):
    """Asked once per control step (`Scenario.step_s`); keeps its own state between steps."""

    def step(self, signals: Signals, joins: Joins, now_s: float) -> Permit:
        """Decide from what a real controller would see: late, noisy readings and counts of objects."""


@runtime_checkable
class Oracle(Protocol):
    """A policy that is told the truth: the yardstick."""

    def step_knowing(self, spare: float, join_cost: float, joins: Joins, now_s: float) -> Permit:
        """`spare` seat-seconds per second are free now in all servers together; a join costs `join_cost` of them."""
