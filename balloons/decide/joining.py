"""How long nodes have been on their way, on a clock that nobody can set.

A node's age is read off the wall clock once, when it is first seen not Ready; from then on only monotonic time counts,
so that a step of the wall clock turns no joining node into a sick one.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import inf

from balloons.view.snapshot import Now
from throttler.kube.node import Node


@dataclass(frozen=True, slots=True)
class Unready:
    """A node that is not Ready: when it may be taken to have begun to join, and since when that was seen; monotonic
    seconds, or how long ago that was, as `ages_s` gives them."""

    joining_s: float
    seen_s: float


def unready_since(
    nodes: Iterable[Node], before: Mapping[str, Unready], now: Now, *, is_first: bool
) -> dict[str, Unready]:
    """Since when each node that is not Ready is so. A node that a first decision finds so may have been it for ever."""
    seen_s = -inf if is_first else now.monotonic_s
    return {
        node.name: before[node.name] if node.name in before else Unready(_created(node, now), seen_s)
        for node in nodes
        if not node.is_ready
    }


def _created(node: Node, now: Now) -> float:
    return now.monotonic_s - max(0.0, now.wall.timestamp() - node.created_s)


def ages_s(since: Mapping[str, Unready], now: Now) -> dict[str, Unready]:
    """How long ago that was, in seconds."""
    now_s = now.monotonic_s
    return {name: Unready(now_s - each.joining_s, now_s - each.seen_s) for name, each in since.items()}
