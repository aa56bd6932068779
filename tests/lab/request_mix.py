"""How many requests of which kind a node sends: counted from the audit log, per verb, resource and subresource."""

from __future__ import annotations

import datetime
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

Kind = tuple[str, str]
"""Verb and resource, with its subresource behind a slash: `("patch", "pods/status")`."""
Mix = Mapping[Kind, float]

NODE_USER = "system:node:"


def mix_per_node(events: Iterable[Mapping[str, Any]], names: Iterable[str], window_s: float) -> Mix:
    """Return the requests per node, on average, in the first `window_s` seconds after each node's own first one.

    A watch counts once, when it begins. Impersonated requests count for whom they stand.
    """
    users = {f"{NODE_USER}{name}" for name in names}
    requests: dict[str, list[tuple[float, Kind]]] = defaultdict(list)
    for event in events:
        user = _user(event)
        if user in users and _counts(event):
            requests[user].append((_received_s(event), _kind(event)))
    counts: Counter[Kind] = Counter()
    for mine in requests.values():
        end_s = min(mine)[0] + window_s
        counts.update(kind for at_s, kind in mine if at_s <= end_s)
    return {kind: count / len(users) for kind, count in counts.items()}


def _user(event: Mapping[str, Any]) -> str:
    who: Mapping[str, Any] = event.get("impersonatedUser") or event["user"]
    return str(who["username"])


def _counts(event: Mapping[str, Any]) -> bool:
    return bool(event["stage"] == ("ResponseStarted" if event["verb"] == "watch" else "ResponseComplete"))


def _kind(event: Mapping[str, Any]) -> Kind:
    target = event.get("objectRef", {})
    resource = target.get("resource", event["requestURI"].partition("?")[0])
    subresource = target.get("subresource")
    return event["verb"], f"{resource}/{subresource}" if subresource else resource


def _received_s(event: Mapping[str, Any]) -> float:
    return datetime.datetime.fromisoformat(event["requestReceivedTimestamp"]).timestamp()
