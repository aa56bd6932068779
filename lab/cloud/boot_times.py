"""How long the machines of a simulated cloud boot, and how many never join.

Simulated: nothing really boots. Boot times are log-normal: a median, a spread that stretches the slow side more than
the fast one, as boot times of real fleets do. Drawn from one seeded generator, so that a run can be repeated.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from lab.errors import LabError


@dataclass(frozen=True, kw_only=True)
class BootTime:
    """The boot times of one cloud.

    `median_s`: half of the machines join within this time of being ordered. `jitter`: the sigma of the
    logarithm, 0 for no spread at all; with 0.3, 5 % take more than 1.6 times the median.
    `failure_share`: the part (0 to 1) that never registers. `seed`: the same seed, the same draws.
    """

    median_s: float = 2.0
    jitter: float = 0.2
    failure_share: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        if self.median_s < 0:
            raise LabError(f"median_s is {self.median_s}; a boot time cannot be negative")
        if self.jitter < 0:
            raise LabError(f"jitter is {self.jitter}; use 0 for no spread")
        if not 0 <= self.failure_share <= 1:
            raise LabError(f"failure_share is {self.failure_share}; it must be between 0 and 1")


@dataclass(frozen=True)
class Boot:
    """The fate of one machine: seconds until it joins, or that it never does."""

    seconds: float
    registers: bool


class BootDraws:
    """Draws one fate after the other."""

    def __init__(self, boot_time: BootTime) -> None:
        self._boot_time = boot_time
        self._random = random.Random(boot_time.seed)

    def draw(self) -> Boot:
        """Return the fate of the next machine."""
        model = self._boot_time
        # Always two draws per machine: changing the failure share leaves the boot times as they were.
        stretch = self._random.lognormvariate(0.0, model.jitter)
        registers = self._random.random() >= model.failure_share
        return Boot(model.median_s * stretch, registers)
