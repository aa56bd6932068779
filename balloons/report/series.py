"""What a plan's chart shows, as numbers over time."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from balloons.preview.forecast import REFUSING
from balloons.preview.plan_json import thinned
from balloons.preview.policies import NONE, THROTTLE
from balloons.report.document import Document, Moment, SavedSide

STAGES = ("ready", "joining", "held", "booting", "waiting")
"""From the bottom: usable; loading the API servers; booted and held back; paid for and not there yet; not asked for."""
LEAST_S = 1.0
"""A shorter course has no pace to speak of."""
STEPS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)
"""Between marks of a time axis: what people count in."""
MOST_LATER = 3.0
"""Times as long as the sooner of two courses."""
BINS = 48
"""Stretches of time over which pace is counted: fewer hide the waves, more show single nodes."""


@dataclass(frozen=True, slots=True)
class Series:
    """`times_s` begin with the demand, `stages` count nodes at each; all have the same length."""

    times_s: tuple[float, ...]
    stages: dict[str, tuple[int, ...]]
    """Only those in which nodes ever are, in the order of STAGES."""
    load: tuple[float, ...]
    """Busy share of the API servers' capacity; empty where the plan does not say."""
    edges_s: tuple[float, ...]
    pace: tuple[float, ...]
    """Nodes per minute that begin to join, between each edge and the next."""

    @property
    def tops(self) -> dict[str, tuple[int, ...]]:
        """Each stage's upper edge when all are stacked."""
        sums = accumulate(self.stages.values(), lambda below, own: tuple(map(sum, zip(below, own, strict=True))))
        return dict(zip(self.stages, sums, strict=True))


def series_of(document: Document) -> Series | None:
    """The series; None where nothing happens over time."""
    moments = thinned(list(document.timeline))
    if len(moments) < 2 or moments[-1].at_seconds - moments[0].at_seconds < LEAST_S:
        return None
    times = tuple(each.at_seconds for each in moments)
    rows = [_row(each, document.nodes_coming) for each in moments]
    stages = {name: tuple(row[at] for row in rows) for at, name in enumerate(STAGES)}
    load = [each.utilisation for each in moments if each.utilisation is not None]
    edges = tuple(times[0] + (times[-1] - times[0]) * part / BINS for part in range(BINS + 1))
    return Series(
        times_s=times,
        stages={name: counts for name, counts in stages.items() if any(counts)},
        load=tuple(load) if len(load) == len(moments) else (),
        edges_s=edges,
        pace=_pace(times, [row[0] + row[1] for row in rows], edges),
    )


@dataclass(frozen=True, slots=True)
class PolicyCourse:
    """The same scale-up under one policy over time; `end_s` is None where it has none within 12 h."""

    policy: str
    times_s: tuple[float, ...]
    ready: tuple[int, ...]
    load: tuple[float, ...]
    slower_by: tuple[float, ...]
    end_s: float | None
    is_collapse: bool


def courses_of(document: Document) -> tuple[PolicyCourse, ...]:
    """That of what the cluster does now and that of the other; none where the plan does not hold both."""
    courses = tuple(_course(side) for side in document.pacing.sides if len(side.timeline) > 1)
    return courses if {course.policy for course in courses} == {NONE, THROTTLE} and len(courses) == 2 else ()


def _course(side: SavedSide) -> PolicyCourse:
    moments = side.timeline
    return PolicyCourse(
        policy=side.policy,
        times_s=tuple(moment.at_seconds for moment in moments),
        ready=tuple(moment.ready for moment in moments),
        load=tuple(moment.utilisation for moment in moments),
        slower_by=tuple(max(1.0, moment.slower_by) for moment in moments),
        end_s=side.eta_seconds,
        is_collapse=side.refused_share > REFUSING,
    )


def end_of(courses: Sequence[PolicyCourse]) -> float:
    """Of the time axis: the later end, unless nothing of the other would be seen."""
    ends = sorted(course.times_s[-1] for course in courses)
    return min(1.03 * ends[-1], MOST_LATER * ends[0])


def marks(end_s: float, most: int) -> tuple[float, ...]:
    """Times for an axis from 0 to the end: round ones, and not more than `most` stretches."""
    step_s = next((each for each in STEPS_S if end_s / each <= most), end_s / most)
    return tuple(step_s * mark for mark in range(int(end_s / step_s) + 1))


def at(times_s: Sequence[float], values: Sequence[float], time_s: float) -> float:
    """The value at a time between two known ones."""
    for index in range(1, len(times_s)):
        if time_s <= times_s[index]:
            span = times_s[index] - times_s[index - 1]
            part = (time_s - times_s[index - 1]) / span if span else 1.0
            return values[index - 1] + (values[index] - values[index - 1]) * max(0.0, part)
    return values[-1]


def _row(moment: Moment, coming: int) -> tuple[int, int, int, int, int]:
    """Whatever is in no stage yet waits, also before the autoscaler has noticed."""
    known = (moment.ready, moment.joining, moment.held, moment.booting)
    return (*known, max(0, coming - sum(known)))


def _pace(times_s: Sequence[float], begun: Sequence[int], edges_s: Sequence[float]) -> tuple[float, ...]:
    counts = [at(times_s, begun, edge) for edge in edges_s]
    minutes = (edges_s[1] - edges_s[0]) / 60.0
    return tuple(max(0.0, after - before) / minutes for before, after in pairwise(counts))
