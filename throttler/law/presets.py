"""What providers say themselves about scale-up steps, as bounds of the window."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from throttler.api.throttle import Preset


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Joins in flight."""

    initial: int
    min: int
    max: int


PRESETS: Mapping[Preset, Bounds] = MappingProxyType(
    {
        Preset.GENERIC: Bounds(initial=24, min=2, max=5000),
        # Ultra clusters were measured at 33 ready nodes per second; at joins of 60 s that is 2,000 in flight.
        Preset.EKS: Bounds(initial=24, min=2, max=2000),
        # Above 1,000 nodes: steps of 500 to 700, then a pause.
        Preset.AKS: Bounds(initial=24, min=2, max=700),
        # Batches of 50; one small server is the rule.
        Preset.K3S: Bounds(initial=8, min=2, max=50),
    }
)
"""Provider -> bounds."""
