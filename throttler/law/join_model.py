"""What the law learns of joins: how they flow, how long they take, and what one takes of the busiest server.

Through the window flow joins in flight and joins that ended, with Little's law between them:

    joins in flight = completion rate x duration of a join

The baseline is the delay while nothing joins, which "slow" is measured against.

What one join takes says how many would fill a server: feed-forward by utilisation. Its CPU is linear in the joins in
flight long before latency moves, so few joins tell what many will do. Executing seats are not used: on a small real
server they are all taken at a tenth of the best window.
"""

import math
import statistics
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import pairwise, takewhile
from math import inf
from operator import attrgetter

from throttler.joins.joins import Joins
from throttler.law.settings import LawSettings
from throttler.signals.reading import Reading

KEPT_S = 900.0
"""Longer than a machine may be held."""
DOUBT = 3.0
"""So many machines are taken to have come beside those that were seen: a few losses say nothing."""
LEAST_COMING = 0.3
"""However many are lost, no more than about three times as many are asked for: the servers may be why they are late."""
APART_S = 2.0
"""Closer points are merged: `govern` may be called at any moment."""


@dataclass(frozen=True, slots=True)
class FlowPoint:
    """The counts at one time."""

    at_s: float
    joining: int
    joined: int
    ordered: int
    """Machines asked for since the count began: in flight, joined and lost."""
    arrived: int
    """Of these, those that are no longer booting."""
    lost: int
    """Of these, those that were given up."""

    @property
    def came(self) -> int:
        """Machines that were heard of and not given up."""
        return self.arrived - self.lost


AT_S = attrgetter("at_s")


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinFlow:
    """Recent counts, oldest first."""

    points: tuple[FlowPoint, ...] = ()
    newly_ordered: int = 0
    """Machines asked for since the look before."""

    def mean_joining(self, from_s: float, to_s: float) -> float | None:
        """Mean of the joins in flight between two times; None when nothing is known of that time."""
        joining = [point.joining for point in self._between(from_s, to_s)]
        return sum(joining) / len(joining) if joining else None

    def least_joining(self, from_s: float, to_s: float) -> int | None:
        """The fewest joins in flight between two times; None when nothing is known of the first."""
        before = self._latest(from_s)
        if before is None:
            return None
        return min((before.joining, *(point.joining for point in self._between(from_s, to_s))))

    def came_between(self, from_s: float, to_s: float) -> int:
        """Machines that were seen to come between two times; those that were there when the count began are not."""
        before, last = self._latest(from_s), self._latest(to_s)
        return max(0, last.came - (before or self.points[0]).came) if last is not None else 0

    def peak_joining(self, from_s: float, to_s: float) -> int:
        """The most joins that were in flight between two times."""
        return max((point.joining for point in self._between(from_s, to_s)), default=0)

    def latest_crest(self, until_s: float, cycle_s: float) -> int:
        """The most joins in flight in the last cycle until then in which any was, however long ago that is."""
        last = next((point for point in reversed(self._between(-inf, until_s)) if point.joining), None)
        return 0 if last is None else self.peak_joining(last.at_s - cycle_s, last.at_s)

    def _between(self, from_s: float, to_s: float) -> tuple[FlowPoint, ...]:
        """Those of the points from the one time to the other, both included."""
        return self.points[bisect_left(self.points, from_s, key=AT_S) : bisect_right(self.points, to_s, key=AT_S)]

    def _latest(self, at_s: float) -> FlowPoint | None:
        """The state at that time; None when nothing is known of it."""
        place = bisect_right(self.points, at_s, key=AT_S)
        return self.points[place - 1] if place else None

    @property
    def busy_s(self) -> float:
        """For how long something has been joining at every look; 0 while nothing is."""
        since = [point.at_s for point in takewhile(lambda point: point.joining > 0, reversed(self.points))]
        return since[0] - since[-1] if since else 0.0

    def booting(self) -> tuple[tuple[float, int], ...]:
        """Machines on their way: (when ordered, how many), newest first; the first ordered are the first to come."""
        if not self.points:
            return ()
        first, last = self.points[0], self.points[-1]
        orders = _Newest(last.ordered - last.arrived)
        after = last
        for point in reversed(self.points[:-1]):
            if not orders.left:
                break
            orders.take(after.at_s, after.ordered - point.ordered)
            after = point
        orders.take(first.at_s, first.ordered - first.arrived)
        return tuple(orders.taken)

    def arrived(self, count: int | None = None, *, since_s: float = -inf) -> tuple[tuple[float, int], ...]:
        """The `count` machines that came last, all if None, and since then: (when, how many), newest first.

        What was joining when the count began counts as come then.
        """
        if not self.points:
            return ()
        first, after = self.points[0], self.points[-1]
        came = after.came
        arrivals = _Newest(came if count is None else count)
        for point in reversed(self.points[:-1]):
            if not arrivals.left or after.at_s < since_s:
                break
            before = point.came
            if came > before:
                arrivals.take(after.at_s, came - before)
            after, came = point, before
        if first.at_s >= since_s:
            arrivals.take(first.at_s, first.joining)
        return tuple(arrivals.taken)

    def held_since(self, at_s: float) -> int:
        """Machines that had arrived by then and are held now, when the first to come is the first to be let in."""
        before = self._latest(at_s)
        if before is None:
            return 0
        last = self.points[-1]
        return max(0, before.came - last.joining - last.joined)

    @property
    def coming_share(self) -> float:
        """Share of the machines on their way that may be expected to come, by those that came and were lost lately."""
        if not self.points:
            return 1.0
        first, last = self.points[0], self.points[-1]
        came, lost = max(0, last.came - first.came), max(0, last.lost - first.lost)
        return max(LEAST_COMING, (came + DOUBT) / (came + lost + DOUBT))

    def busy_rate_per_s(self, span_s: float) -> float | None:
        """Joins that ended per second of the last `span_s` in which any was in flight; None when less is known.

        Machines that come in waves leave gaps, which say nothing of what the servers can do. All is known of a count
        that began while nothing was joining, also where that was only a moment ago.
        """
        if not self.points:
            return None
        first = self.points[0]
        before = self._latest(self.points[-1].at_s - span_s) or (None if first.joining else first)
        if before is None:
            return None
        span = self._between(before.at_s, inf)
        busy_s = sum(b.at_s - a.at_s for a, b in pairwise(span) if a.joining or b.joined > a.joined)
        return max(0, span[-1].joined - before.joined) / busy_s if busy_s else 0.0


class _Newest:
    """The first steps that add up to a count; steps down are left out."""

    __slots__ = ("left", "taken")

    def __init__(self, count: int) -> None:
        self.left = count
        self.taken: list[tuple[float, int]] = []

    def take(self, at_s: float, more: int) -> None:
        """One step more, or as much of it as is left."""
        if more > 0 and self.left:
            taken = min(more, self.left)
            self.taken.append((at_s, taken))
            self.left -= taken


def with_counts(flow: JoinFlow, joins: Joins, now_s: float) -> JoinFlow:
    """Remember the counts of now."""
    kept = [point for point in flow.points if now_s - KEPT_S <= point.at_s <= now_s]
    if len(kept) >= 2 and now_s - kept[-2].at_s < APART_S:
        kept.pop()
    arrived = joins.held + joins.joining + joins.joined + joins.lost
    ordered = arrived + joins.booting
    point = FlowPoint(now_s, joins.joining, joins.joined, ordered=ordered, arrived=arrived, lost=joins.lost)
    newly = ordered - flow.points[-1].ordered if flow.points else 0
    return JoinFlow(points=(*kept, point), newly_ordered=max(0, newly))


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinTime:
    """How long joins take, in seconds."""

    now_s: float | None = None
    """The latest joins."""
    least_s: float | None = None
    """When they do not queue: the least seen, which drifts up slowly so that a change of the nodes is learned."""

    def or_guess(self, guess_s: float) -> float:
        """The latest duration; before the first join ended, what joins usually take."""
        return self.now_s or self.least_s or guess_s


DRIFT_S = 3600.0
"""The least duration doubles when nothing as quick was seen for about an hour (e.g. a new, slow DaemonSet)."""


def with_duration(time: JoinTime, join_s: float | None, elapsed_s: float) -> JoinTime:
    """Take the mean duration of the latest joins into account."""
    if join_s is None or join_s <= 0:
        return time
    drifted = (time.least_s or join_s) * (1.0 + elapsed_s / DRIFT_S)
    return JoinTime(now_s=join_s, least_s=min(join_s, drifted))


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


def with_idle_delay(baseline: Baseline, delay_s: float, now_s: float, settings: LawSettings) -> Baseline:
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


def with_idle_cpu(load: Load, cpu: float | None, readings: Sequence[Reading]) -> Load:
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


def with_join_cpu(load: Load, cpu: float | None, joining: float, kept: float) -> Load:
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
    return _free(load, share, swings) / per_join if per_join else None


def committed_at(load: Load, share: float, swings: float, joining: int) -> float | None:
    """The same where nothing holds back what is ordered, so that no later sample can correct the estimate.

    What others do swings slowly: `joining` joins may have been seen while it was a standard deviation lower, and then
    one of them takes more than it seems.
    """
    per_join = load.per_join
    if not per_join:
        return None
    return _free(load, share, swings) / (per_join + (load.idle_swing / joining if joining else 0.0))


def _free(load: Load, share: float, swings: float) -> float:
    return max(0.0, share - load.idle_mean - swings * load.idle_swing)
