"""A plan as it was saved (docs/schemas/plan.json), read strictly, and what its chart shows, as numbers over time.

A report is drawn from this and from nothing else. So a
plan that was made just now and the same plan read back from a file make the same report, byte for byte.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from balloons.preview.forecast import NONE, THROTTLE
from balloons.preview.overload import is_collapse
from balloons.preview.plan_json import MOST, thinned

MOST_MOMENTS = 10_000
MOST_ROWS = 1_000
MOST_WAVES = 200
"""Each of ours is at least a fiftieth of the whole time (balloons.preview.forecast)."""
Figure = Annotated[float, Meta(ge=-MOST, le=MOST)]
Amount = Annotated[float, Meta(ge=0.0, le=MOST)]
Time = Annotated[str, Meta(pattern=r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z$")]
Count = Annotated[int, Meta(ge=0, le=10_000_000)]
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


class DocumentError(ValueError):
    """The file is no plan that can be drawn; the message names the field, what it is and what is accepted."""


class _Part(msgspec.Struct, frozen=True, rename="camel"):
    """Unknown fields are passed over: later versions may add some."""


class SavedRequest(_Part, frozen=True):
    """What was asked for."""

    pool: str
    add_nodes: Count
    to_nodes: Count
    within_seconds: Amount | None = None
    in_words: str = ""


class Cluster(_Part, frozen=True):
    """Where; `autoscaler` is what was detected, versions included."""

    autoscaler: str
    nodes: Count
    pool_nodes: Count
    warm_nodes: Count
    throttle: str | None = None


class SavedBand(_Part, frozen=True):
    """Median, and what one in twenty is below and one in twenty above; None where that does not end."""

    median_seconds: Amount | None = None
    low_seconds: Amount | None = None
    high_seconds: Amount | None = None


class SavedLimit(_Part, frozen=True):
    """What binds for longest."""

    name: str
    because: str
    meaning: str
    eta_without_seconds: Amount | None = None
    fix: str = ""
    """The command that lifts it, where there is one."""


class SavedWave(_Part, frozen=True):
    """A stretch of time in which one thing binds; without end where `until_seconds` is None."""

    from_seconds: Amount
    until_seconds: Amount | None
    nodes: int
    ready: Count
    limit: str
    because: str
    object: str = ""


class Moment(_Part, frozen=True):
    """Nodes by stage at one time; `utilisation` is absent in plans that were saved before it was written."""

    at_seconds: Amount
    waiting: Count
    booting: Count
    held: Count
    joining: Count
    ready: Count
    utilisation: Annotated[float, Meta(ge=0.0, le=100.0)] | None = None


class SavedMoment(_Part, frozen=True):
    """Under one policy: nodes ready, load of the API servers, and times as long as on idle ones that others wait."""

    at_seconds: Amount
    ready: Count
    utilisation: Annotated[float, Meta(ge=0.0, le=100.0)]
    slower_by: Amount


class SavedSide(_Part, frozen=True):
    """The same scale-up under one policy; without an end it is stuck for ever, or takes more than 12 h."""

    policy: str
    eta_seconds: Amount | None
    peak_requests_per_second: Amount
    peak_utilisation: Amount
    refused_share: Amount
    slower_by: Amount
    hurt_seconds: Amount | None = None
    hurt_share: Amount | None = None
    slower_by_high: Amount | None = None
    is_stuck: bool = False
    timeline: Annotated[tuple[SavedMoment, ...], Meta(max_length=MOST_MOMENTS)] = ()
    """All five are absent in plans that were saved before they were written."""


class Pacing(_Part, frozen=True):
    """`policy` is what the cluster does now."""

    policy: str
    sides: Annotated[tuple[SavedSide, ...], Meta(max_length=MOST_ROWS)] = ()


class KillTimer(_Part, frozen=True):
    """When a machine that has not registered is destroyed, and how many are."""

    seconds: Amount
    lost: Amount | None = None
    lost_high: Amount | None = None


class SavedCeiling(_Part, frozen=True):
    """An upper bound: `nodes` more may come."""

    name: str
    nodes: int
    detail: str = ""


class SavedCost(_Part, frozen=True):
    """In the currency of whoever gave the prices."""

    price_per_node_hour: Figure | None = None
    waiting: Figure | None = None
    warm_per_hour: Figure | None = None
    no_price_for: str | None = None


class Gang(_Part, frozen=True):
    """Pods that run together or not at all."""

    name: str
    pods: Count
    fits_now: bool
    pods_on_new_nodes: Count
    is_placeable: bool = True
    """Absent in plans that were saved before it was written."""


class SavedUnplaceable(_Part, frozen=True):
    """Pods that fit nowhere."""

    pods: Count
    reason: str


class Pods(_Part, frozen=True):
    """Where the pods of --pods or --job go."""

    pods: Count
    on_nodes_there: Count
    on_new_nodes: Count
    new_nodes: Annotated[dict[str, Count], Meta(max_length=100_000)] = {}
    """Pool -> how many of its new nodes they get."""
    gangs: Annotated[tuple[Gang, ...], Meta(max_length=100_000)] = ()
    unplaceable: Annotated[tuple[SavedUnplaceable, ...], Meta(max_length=100_000)] = ()
    unjudged: Count = 0


class Input(_Part, frozen=True):
    """A figure that went in; `source` is stated, learned or assumed."""

    name: str
    value: Figure
    unit: str
    source: str
    detail: str = ""


class SavedFinding(_Part, frozen=True):
    """What `balloons doctor` found in the same cluster at the same time; `fix` is a command."""

    code: str
    severity: str
    object: str
    message: str
    fix: str = ""


class Document(_Part, frozen=True):
    """The whole plan."""

    api_version: Literal["balloons.kube-balloons.github.io/v1"]
    kind: Literal["Plan"]
    created_at: Time
    request: SavedRequest
    cluster: Cluster
    nodes_coming: Count
    eta: SavedBand | None
    first_node: SavedBand | None
    limit: SavedLimit | None
    waves: Annotated[tuple[SavedWave, ...], Meta(max_length=MOST_WAVES)]
    timeline: Annotated[tuple[Moment, ...], Meta(max_length=MOST_MOMENTS)]
    kill_timer: KillTimer
    pacing: Pacing
    ceilings: Annotated[tuple[SavedCeiling, ...], Meta(max_length=MOST_ROWS)]
    cost: SavedCost
    inputs: Annotated[tuple[Input, ...], Meta(max_length=MOST_ROWS)]
    unseen: Annotated[tuple[str, ...], Meta(max_length=100_000)]
    broken: tuple[str, ...]
    pods: Pods | None = None
    made_by: str = ""
    """The program's version; empty where it is not known."""
    findings: Annotated[tuple[SavedFinding, ...], Meta(max_length=100_000)] | None = None
    """None where nobody looked: without a cluster, and in plans that an earlier version saved."""


def read_document(body: Any) -> Document:
    """The plan in plain data; raises DocumentError."""
    if not isinstance(body, dict) or body.get("kind") != "Plan":
        raise DocumentError("no saved plan; accepted: a file that `balloons plan --save FILE` wrote")
    try:
        document = msgspec.convert(body, Document)
    except msgspec.ValidationError as error:
        raise DocumentError(f"no plan that can be drawn: {error}") from error
    courses = [[moment.at_seconds for moment in document.timeline]]
    courses += [[moment.at_seconds for moment in side.timeline] for side in document.pacing.sides]
    if any(times != sorted(times) for times in courses):
        raise DocumentError("no plan that can be drawn: timeline is out of order; accepted: atSeconds that grow")
    return document


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
    times = tuple(moment.at_seconds for moment in moments)
    rows = [_row(moment, document.nodes_coming) for moment in moments]
    stages = {name: tuple(row[at] for row in rows) for at, name in enumerate(STAGES)}
    load = [moment.utilisation for moment in moments if moment.utilisation is not None]
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
        is_collapse=is_collapse(side.refused_share),
    )


def end_of(courses: Sequence[PolicyCourse]) -> float:
    """Of the time axis: the later end, unless nothing of the other would be seen."""
    ends = sorted(course.times_s[-1] for course in courses)
    return min(1.03 * ends[-1], MOST_LATER * ends[0])


def marks(end_s: float, most: int) -> tuple[float, ...]:
    """Times for an axis from 0 to the end: round ones, and not more than `most` stretches."""
    step_s = next((step for step in STEPS_S if end_s / step <= most), end_s / most)
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
