"""The baseline: delay while nothing joins, which "slow" is measured against."""

import statistics
from dataclasses import dataclass

from throttler.law.settings import LawSettings

MOST_SAMPLES = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """Median delay of idle history, in seconds. Samples of a scale-up never enter, so it is kept across them."""

    samples: tuple[tuple[float, float], ...] = ()
    """(time, delay) while nothing joined, oldest first."""
    remembered_s: float | None = None
    """What a former scale-up or process knew, until there are samples."""

    @property
    def measured_s(self) -> float | None:
        """As measured, without bounds; None before anything was."""
        if not self.samples:
            return self.remembered_s
        return statistics.median(delay_s for _, delay_s in self.samples)

    def within(self, settings: LawSettings) -> float:
        """What the index is relative to: the median between floor and ceiling."""
        measured_s = self.measured_s
        if measured_s is None:
            return settings.baseline_floor_s
        return min(max(measured_s, settings.baseline_floor_s), settings.baseline_ceiling_s)


def learned(baseline: Baseline, delay_s: float, now_s: float, settings: LawSettings) -> Baseline:
    """Add the delay of an idle moment; what is older than `baseline_s` before it goes."""
    since_s = now_s - settings.baseline_s
    kept = tuple(sample for sample in baseline.samples if since_s <= sample[0] <= now_s)[-MOST_SAMPLES + 1 :]
    return Baseline(samples=(*kept, (now_s, delay_s)), remembered_s=baseline.remembered_s)
