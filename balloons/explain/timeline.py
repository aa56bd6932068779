"""A timeline: steps in the order in which they happened, each with its wait, and how things stand."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from balloons.cluster import kinds
from balloons.cluster.reach import moment, namespace_of, parts, text
from balloons.cluster.seen import SeenCluster


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Something that happened at `at`, or that holds now (None). `wait_s` is the time since the step before.

    `because` is a reason code as status, Events, log and metrics have it; `message` says it in words.
    """

    what: str
    at: datetime | None = None
    because: str = ""
    message: str = ""
    wait_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """The steps of `subject` (kind/name), and `now`: one sentence on how it stands at `seen_at`."""

    subject: str
    seen_at: datetime
    steps: tuple[Step, ...] = ()
    now: str = ""


def in_order(steps: Iterable[Step]) -> tuple[Step, ...]:
    """By time, with the waits filled in; what holds now comes last. Equal times keep their order, and repeats go."""
    found = list(dict.fromkeys(steps))
    dated = sorted((each for each in found if each.at is not None), key=lambda each: str(each.at))
    waits, before = [], None
    for each in dated:
        waits.append(replace(each, wait_s=_seconds(before, each.at)))
        before = each.at
    return (*waits, *(each for each in found if each.at is None))


def condition_steps(thing: Any, names: dict[str, str]) -> list[Step]:
    """The conditions that are True and have a name here, as steps; those without a time are left out."""
    found = ((each, moment(each, "lastTransitionTime")) for each in parts(thing, "status", "conditions"))
    return [
        Step(what=names[text(each, "type")], at=at)
        for each, at in found
        if at is not None and text(each, "type") in names and text(each, "status") == "True"
    ]


def event_steps(seen: SeenCluster, kind: str, name: str, namespace: str = "") -> list[Step]:
    """What Events say of an object; of repeated ones the last."""
    about = [each for each in seen.plain(kinds.EVENTS) if _is_about(each, kind, name, namespace)]
    return [
        Step(
            what=f"Event from {_reporter(each)}",
            at=_when(each),
            because=text(each, "reason"),
            message=text(each, "note"),
        )
        for each in about
    ]


def held_by_throttles(seen: SeenCluster) -> list[Step]:
    """What the throttles say of themselves, in their own words."""
    return [
        Step(
            what=f"throttle {text(each, 'metadata', 'name')} {text(each, 'status', 'phase') or 'has not spoken'}",
            because=text(each, "status", "because"),
            message=text(each, "status", "message"),
        )
        for each in seen.plain(kinds.THROTTLES)
    ]


def _is_about(event: Any, kind: str, name: str, namespace: str) -> bool:
    regarding = event.get("regarding")
    is_named = (text(regarding, "kind"), text(regarding, "name")) == (kind, name)
    # Events about cluster-scoped objects are stored in `default`, whatever they regard.
    return is_named and (not namespace or namespace_of(event) == namespace)


def _when(event: Any) -> datetime | None:
    return (
        moment(event, "series", "lastObservedTime")
        or moment(event, "deprecatedLastTimestamp")
        or moment(event, "eventTime")
        or moment(event, "metadata", "creationTimestamp")
    )


def _reporter(event: Any) -> str:
    """`balloons`, not `kube-balloons.github.io/balloons`."""
    whole = text(event, "reportingController") or text(event, "deprecatedSource", "component")
    return whole.rpartition("/")[2] or "somebody"


def _seconds(before: datetime | None, at: datetime | None) -> float | None:
    return (at - before).total_seconds() if before is not None and at is not None else None
