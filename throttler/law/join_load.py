"""What idle servers are like, and what one join takes of the busiest one: feed-forward by utilisation.

The baseline is the delay while nothing joins, which "slow" is measured against.

What one join takes says how many would fill a server. Its CPU is linear in the joins in flight long before latency
moves, so few joins tell what many will do. Executing seats are not used: on a small real server they are all taken at a
tenth of the best window.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

from throttler.law.settings import LawSettings
from throttler.signals.reading import Reading

MOST_SAMPLES = 128
IDLE_SAMPLES = 20
ENOUGH_PER_S = 20.0
"""Below so many requests per second an idle server's CPU goes to itself, and a request only seems dear. Chosen, not
measured: on the lab's quiet server a cold start began with four joins, by this formula 60 ms of CPU a request."""


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """Median delay of idle history, in seconds. Samples of a scale-up never enter, so it is kept across them."""

    samples: tuple[tuple[float, float], ...] = ()
    """(time, delay) while nothing joined, oldest first."""
    remembered_s: float | None = None
    """What a former scale-up or process knew, until there are samples."""

    @cached_property
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


@dataclass(frozen=True, slots=True)
class Slope:
    """Utilisation over joins in flight: a line through the idle level, by least squares that forget."""

    sum_xy: float = 0.0
    sum_xx: float = 0.0
    swing: float = 0.0
    """Standard deviation of the idle level: the noise of each sample."""

    def per_join(self, remembered: float | None) -> float | None:
        """One join's share; None while unknown.

        With few joins seen it may be one standard error above the best guess: that much is assumed, unless what is
        remembered says less.
        """
        if self.sum_xx <= 0:
            return None
        guess = max(0.0, self.sum_xy / self.sum_xx)
        upper = guess + self.swing / math.sqrt(self.sum_xx)
        return upper if remembered is None else min(upper, max(guess, remembered))

    def with_sample(self, joining: float, added: float, kept: float, swing: float) -> "Slope":
        """After `joining` joins were seen to add `added`; earlier samples count `kept` of what they did."""
        return Slope(kept * self.sum_xy + joining * added, kept * self.sum_xx + joining * joining, swing)


@dataclass(frozen=True, kw_only=True)
class Load:
    """Shares of the busiest server's CPU."""

    idle: tuple[float, ...] = ()
    """While nothing joined, newest last."""
    per_request: tuple[float, ...] = ()
    """Of one request per second on an idle server, newest last."""
    slope: Slope = Slope()
    remembered: float | None = None
    """What a former scale-up or process knew of one join, until there is a sample."""

    @cached_property
    def per_join(self) -> float | None:
        """What one join in flight adds; None while unknown."""
        per_join = self.slope.per_join(self.remembered)
        return self.remembered if per_join is None else per_join

    @cached_property
    def idle_mean(self) -> float:
        """While nothing joins; 0 while unknown."""
        return statistics.fmean(self.idle) if self.idle else 0.0

    @property
    def idle_swing(self) -> float:
        """Standard deviation of that; 0 while unknown."""
        return _deviation(self.idle)


@lru_cache(maxsize=16)
def _deviation(levels: tuple[float, ...]) -> float:
    """Kept: it is asked for many times a tick and exact sums are slow, while an idle moment is rare in a scale-up."""
    return statistics.pstdev(levels) if levels else 0.0


def idled(load: Load, cpu: float | None, readings: Sequence[Reading]) -> Load:
    """Remember the utilisation of an idle moment, and what a request costs there."""
    if cpu is None:
        return load
    costs = [
        min(reading.cpu_share, 1.0) * reading.span_s / reading.requests
        for reading in readings
        if reading.cpu_share and reading.requests >= ENOUGH_PER_S * reading.span_s
    ]
    costs = [cost for cost in costs if 0.0 < cost < math.inf]
    return replace(
        load,
        idle=(*load.idle, cpu)[-IDLE_SAMPLES:],
        per_request=(*load.per_request, *costs)[-IDLE_SAMPLES:],
    )


def joined(load: Load, cpu: float | None, joining: float, kept: float) -> Load:
    """Learn from the busiest server's CPU with `joining` joins in flight what one takes."""
    if cpu is None or joining < 1 or not load.idle:
        return load
    return replace(load, slope=load.slope.with_sample(joining, cpu - load.idle_mean, kept, load.idle_swing))


def guessed_pace_per_s(load: Load, servers: int, share: float, requests_per_join: float) -> float | None:
    """Joins per second that would bring all servers to `share`, if the requests of joins cost what idle ones cost."""
    if not load.per_request:
        return None
    room = max(0.0, share - load.idle_mean)
    return servers * room / statistics.median(load.per_request) / requests_per_join


def window_at(load: Load, share: float, swings: float = 0.0) -> float | None:
    """Joins in flight that bring the busiest server to `share` of its CPU; None while unknown.

    So many standard deviations of the idle level stay free.
    """
    per_join = load.per_join
    free = share - load.idle_mean - swings * load.idle_swing
    return max(0.0, free) / per_join if per_join else None


def committed_at(load: Load, share: float, swings: float, joining: int) -> float | None:
    """The same where nothing holds back what is ordered, so that no later sample can correct the estimate.

    What others do swings slowly: `joining` joins may have been seen while it was a standard deviation lower, and then
    one of them takes more than it seems.
    """
    window = window_at(load, share, swings)
    if window is None or not joining or not load.per_join:
        return window
    return window * load.per_join / (load.per_join + load.idle_swing / joining)
