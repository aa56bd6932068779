"""The story of a BalloonPool, a Karpenter NodePool or a JoinThrottle: what it says of itself, and when that changed."""

from collections.abc import Mapping
from typing import Any

from balloons.cluster import kinds
from balloons.cluster.kinds import Kind
from balloons.cluster.reach import is_true, moment, name_of, namespace_of, part, parts, text, whole
from balloons.cluster.seen import SeenCluster
from balloons.explain.timeline import Step, Timeline, event_steps, in_order

PAUSE_REASON = "kube-balloons.github.io/pause-reason"
"""What `balloons pause --reason` writes beside `spec.paused`."""


def explain_pool(seen: SeenCluster, namespace: str, name: str) -> Timeline | None:
    """The BalloonPool of this name, else Karpenter's NodePool; None where there is neither."""
    for kind, space in ((kinds.BALLOON_POOLS, namespace), (kinds.NODE_POOLS, "")):
        for each in seen.plain(kind):
            if (name_of(each), namespace_of(each)) == (name, space):
                counts = _counts(each) if kind is kinds.BALLOON_POOLS else _limits(each)
                return _told(seen, kind, each, counts)
    return None


def explain_throttle(seen: SeenCluster, name: str) -> Timeline | None:
    """The JoinThrottle of this name; None where there is none."""
    found = next((each for each in seen.plain(kinds.THROTTLES) if name_of(each) == name), None)
    return _told(seen, kinds.THROTTLES, found, _levers(found)) if found is not None else None


def _told(seen: SeenCluster, kind: Kind, thing: Any, more: list[Step]) -> Timeline:
    name, namespace = name_of(thing), namespace_of(thing)
    steps = [Step(what="created", at=moment(thing, "metadata", "creationTimestamp"))]
    steps += [
        Step(
            what=f"{text(each, 'type')} became {text(each, 'status')}",
            at=moment(each, "lastTransitionTime"),
            because=text(each, "reason"),
            message=text(each, "message"),
        )
        for each in parts(thing, "status", "conditions")
    ]
    steps += _pause(thing)
    where = f" -n {namespace}" if namespace else ""
    return Timeline(
        subject=f"{kind.kind.lower()}/{name}{where}",
        seen_at=seen.taken_at,
        steps=in_order([*steps, *event_steps(seen, kind.kind, name, namespace), *more]),
        now=_stands(thing, kind),
    )


def _pause(thing: Any) -> list[Step]:
    """That it is paused, and why, as `balloons pause` wrote it."""
    reason = text(thing, "metadata", "annotations", PAUSE_REASON)
    is_paused = is_true(thing, "spec", "paused")
    return [Step(what="paused", message=reason or "nobody said why")] if is_paused else []


def _counts(pool: Mapping[str, Any]) -> list[Step]:
    """Zone by zone, as the pool's status has them."""
    return [
        Step(
            what=f"zone {text(zone, 'zone') or '(none)'}",
            message=f"{whole(zone, 'warm') or 0} warm, {whole(zone, 'busy') or 0} busy of {whole(zone, 'nodes') or 0}",
        )
        for zone in parts(pool, "status", "zones")
    ]


def _limits(pool: Mapping[str, Any]) -> list[Step]:
    limits, used = part(pool, "spec", "limits"), part(pool, "status", "resources")
    return [
        Step(what=f"limit of {name}", message=f"{used.get(name, 0)} of {limit} used") for name, limit in limits.items()
    ]


def _levers(throttle: Mapping[str, Any]) -> list[Step]:
    """What holds nodes back, and how the API servers are."""
    found = [
        Step(
            what=f"lever {text(each, 'name')} {text(each, 'state')}",
            because=text(each, "because"),
            message=text(each, "message") or (f"ceiling {text(each, 'ceiling')}" if text(each, "ceiling") else ""),
        )
        for each in parts(throttle, "status", "levers")
    ]
    return found + [
        Step(what=f"API server {text(each, 'name')} {text(each, 'state')}", message=text(each, "message"))
        for each in parts(throttle, "status", "servers")
    ]


def _stands(thing: Any, kind: Kind) -> str:
    because, message = text(thing, "status", "because"), text(thing, "status", "message")
    if because or message:
        return ": ".join(filter(None, (because, message)))
    ready = next((c for c in parts(thing, "status", "conditions") if text(c, "type") == "Ready"), None)
    if ready is not None:
        said = text(ready, "message") or text(ready, "reason")
        return f"Ready is {text(ready, 'status')}{f': {said}' if said else ''}"
    if kind is kinds.NODE_POOLS:
        return "Karpenter has not looked at it yet"
    return "nobody has acted on it yet; is the service running? (balloons doctor)"
