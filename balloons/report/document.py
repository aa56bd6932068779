"""A plan as it was saved (docs/schemas/plan.json), read strictly: a report is drawn from this and from nothing else.

So a plan that was made just now and the same plan read back from a file make the same report, byte for byte.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

MOST = 1e12
"""Of any figure: with larger ones axes and percentages mean nothing."""
MOST_MOMENTS = 10_000
MOST_ROWS = 1_000
MOST_WAVES = 200
"""Each of ours is at least a fiftieth of the whole time (balloons.preview.waves)."""

Figure = Annotated[float, Meta(ge=-MOST, le=MOST)]
Amount = Annotated[float, Meta(ge=0.0, le=MOST)]
Time = Annotated[str, Meta(pattern=r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z$")]
Count = Annotated[int, Meta(ge=0, le=10_000_000)]


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
        found = msgspec.convert(body, Document)
    except msgspec.ValidationError as error:
        raise DocumentError(f"no plan that can be drawn: {error}") from error
    courses = [[moment.at_seconds for moment in found.timeline]]
    courses += [[moment.at_seconds for moment in side.timeline] for side in found.pacing.sides]
    if any(times != sorted(times) for times in courses):
        raise DocumentError("no plan that can be drawn: timeline is out of order; accepted: atSeconds that grow")
    return found
