"""A saved plan against what happened: the nodes that came since, by their own timestamps."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from balloons.cluster.plain_data import moment, part, parts, text, whole
from balloons.preview.births import Birth

KIND = "Plan"


class SavedPlanError(ValueError):
    """The file is no plan that we wrote; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """What a comparison reads of a saved plan; times in seconds."""

    at: datetime
    pool: str
    nodes: int
    eta_s: float | None
    low_s: float | None
    high_s: float | None
    first_s: float | None
    reaction_s: float
    """From the demand, the plan's second 0, to the first machine asked for."""
    curve: tuple[tuple[float, int], ...]
    """(seconds, ready nodes)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedStep:
    """When so many nodes were to be ready, and when they were; None: not yet, or never predicted."""

    ready: int
    predicted_s: float | None
    real_s: float | None

    @property
    def off_by(self) -> float | None:
        """Real over predicted, less one."""
        if self.predicted_s is None or self.real_s is None or not self.predicted_s:
            return None
        return self.real_s / self.predicted_s - 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """`came` counts nodes that are there and were not when the plan was made, `ready` those that are usable."""

    saved: Saved
    came: int
    ready: int
    since_s: float
    """From when the plan was made to when the demand came: the plan's second 0."""
    steps: tuple[ComparedStep, ...]

    @property
    def is_in_band(self) -> bool | None:
        """Whether the end fell into the plan's band; None before the end."""
        end_s = self.steps[-1].real_s if self.steps else None
        if end_s is None or self.saved.low_s is None:
            return None
        return self.saved.low_s <= end_s <= (self.saved.high_s if self.saved.high_s is not None else end_s)


SHARES = (0.1, 0.25, 0.5, 0.75, 0.9, 1.0)


def saved_plan(body: Any) -> Saved:
    """Read a plan's JSON; raises SavedPlanError."""
    at = moment(body, "createdAt")
    if text(body, "kind") != KIND or at is None:
        raise SavedPlanError("no saved plan; accepted: a file that `balloons plan --save FILE` wrote")
    nodes = whole(body, "nodesComing")
    if nodes is None or not 1 <= nodes <= 10_000_000:
        raise SavedPlanError(f"nodesComing {nodes}: nothing was to come, so nothing can be compared")
    eta = part(body, "eta")
    return Saved(
        at=at,
        pool=text(body, "request", "pool"),
        nodes=nodes,
        eta_s=_number(eta, "medianSeconds"),
        low_s=_number(eta, "lowSeconds"),
        high_s=_number(eta, "highSeconds"),
        first_s=_number(part(body, "firstNode"), "medianSeconds"),
        reaction_s=_reaction_s(body),
        curve=tuple(_points(body)),
    )


def compared(saved: Saved, births: Sequence[Birth], started: datetime | None = None) -> Comparison:
    """`started` is when the demand came; None: as the nodes tell."""
    since = saved.at.timestamp()
    came = [each for each in births if each.created_s >= since and saved.pool in ("", each.pool)]
    zero_s = started.timestamp() if started else _begin_s(came, since, saved.reaction_s)
    usable = sorted(each.usable_s - zero_s for each in came if each.usable_s is not None)
    steps = [_step(max(1, round(share * saved.nodes)), saved, usable) for share in SHARES]
    return Comparison(saved=saved, came=len(came), ready=len(usable), since_s=zero_s - since, steps=tuple(steps))


def _begin_s(came: Sequence[Birth], since_s: float, reaction_s: float) -> float:
    """When the demand came: with the pods that nodes were made for, or at the earliest order less the reaction.

    Without either nothing tells when it began but the plan itself.
    """
    wanted = [each.wanted_s for each in came if each.wanted_s is not None and each.wanted_s >= since_s]
    asked = [
        each.asked_s - (reaction_s if each.is_asked_by_claim else 0.0)
        for each in came
        if each.asked_s is not None and each.asked_s >= since_s
    ]
    return max(since_s, min(wanted or asked, default=since_s))


def _step(ready: int, saved: Saved, usable: Sequence[float]) -> ComparedStep:
    predicted = next((at_s for at_s, count in saved.curve if count >= ready), None)
    if ready == saved.nodes and saved.eta_s is not None:
        predicted = saved.eta_s
    return ComparedStep(ready=ready, predicted_s=predicted, real_s=usable[ready - 1] if len(usable) >= ready else None)


def _points(body: Any) -> list[tuple[float, int]]:
    found = []
    for each in parts(body, "timeline"):
        at_s, ready = _number(each, "atSeconds"), whole(each, "ready")
        if at_s is not None and ready is not None:
            found.append((at_s, ready))
    return found


def _reaction_s(body: Any) -> float:
    found = (_number(each, "value") for each in parts(body, "inputs") if text(each, "name") == "reaction")
    return next((each for each in found if each is not None), 0.0)


def _number(value: Mapping[str, Any], key: str) -> float | None:
    found = value.get(key)
    return float(found) if isinstance(found, int | float) and not isinstance(found, bool) else None


def comparison_json(found: Comparison, at: datetime) -> dict[str, Any]:
    """For machines."""
    return {
        "apiVersion": "balloons.kube-balloons.github.io/v1",
        "kind": "PlanComparison",
        "createdAt": at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "plannedAt": found.saved.at.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "pool": found.saved.pool,
        "nodesPlanned": found.saved.nodes,
        "nodesCame": found.came,
        "nodesReady": found.ready,
        "startedAfterSeconds": round(found.since_s, 1),
        "isInBand": found.is_in_band,
        "steps": [
            {
                "ready": step.ready,
                "predictedSeconds": step.predicted_s,
                "realSeconds": None if step.real_s is None else round(step.real_s, 1),
                "offBy": None if step.off_by is None else round(step.off_by, 4),
            }
            for step in found.steps
        ],
    }
