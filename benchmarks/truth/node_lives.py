"""What became of each node, read off its NodeClaim, its Node and its pods as the API server keeps them.

Of its own, and not by the product's reading: the truth must not share a mistake with the plan. Times are seconds since
the epoch. Timestamps are whole seconds, cut off, so half a second is added to each.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

HALF_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """One node that came."""

    name: str
    asked_s: float
    """Its NodeClaim was made."""
    registered_s: float
    made_s: float
    """Its last DaemonSet pod was made; as registered where there is none."""
    usable_s: float
    """Ready, and its DaemonSet pods as well."""


def lives(
    nodes: Iterable[Mapping[str, Any]],
    pods: Iterable[Mapping[str, Any]],
    claims: Iterable[Mapping[str, Any]],
    daemon_sets: int,
    since_s: float,
) -> list[Life]:
    """Of every node that was asked for since then and is usable, in the order in which they became so."""
    asked = {claim["status"].get("nodeName"): _made_s(claim) for claim in claims if claim.get("status")}
    by_node: dict[str, list[Mapping[str, Any]]] = {}
    for pod in pods:
        if any(owner["kind"] == "DaemonSet" for owner in pod["metadata"].get("ownerReferences", ())):
            by_node.setdefault(pod["spec"].get("nodeName", ""), []).append(pod)
    lives = (_life(node, by_node.get(node["metadata"]["name"], []), asked, daemon_sets) for node in nodes)
    return sorted((life for life in lives if life and life.asked_s >= since_s - 1.0), key=lambda life: life.usable_s)


def _life(
    node: Mapping[str, Any], daemons: list[Mapping[str, Any]], asked: Mapping[str, float], daemon_sets: int
) -> Life | None:
    """None while it is not usable, or where nobody asked for it."""
    name = node["metadata"]["name"]
    ready = [_ready_s(thing) for thing in (node, *daemons)]
    times = [at_s for at_s in ready if at_s is not None]
    if name not in asked or len(times) < daemon_sets + 1 or len(times) < len(ready):
        return None
    registered_s = _made_s(node)
    return Life(
        name=name,
        asked_s=asked[name],
        registered_s=registered_s,
        made_s=max([registered_s, *map(_made_s, daemons)]),
        usable_s=max(times),
    )


def _made_s(thing: Mapping[str, Any]) -> float:
    return _seconds(thing["metadata"]["creationTimestamp"])


def _ready_s(thing: Mapping[str, Any]) -> float | None:
    return next(_ready_times(thing), None)


def _ready_times(thing: Mapping[str, Any]) -> Iterator[float]:
    for condition in thing.get("status", {}).get("conditions") or ():
        if condition["type"] == "Ready" and condition["status"] == "True":
            yield _seconds(condition["lastTransitionTime"])


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp() + HALF_S
