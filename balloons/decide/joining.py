"""How long nodes have not been Ready, on a clock that nobody can set.

A node's age is read off the wall clock once, when it is first seen not Ready; from then on only monotonic time counts,
so that a step of the wall clock turns no joining node into a sick one (invariant 19).
"""

from collections.abc import Iterable, Mapping

from balloons.view.snapshot import Now
from throttler.kube.node import Node


def unready_since(nodes: Iterable[Node], before: Mapping[str, float], now: Now) -> dict[str, float]:
    """Since when (monotonic seconds) each node that is not Ready may be taken to have been joining."""
    return {
        node.name: before[node.name] if node.name in before else _first_seen(node, now)
        for node in nodes
        if not node.is_ready
    }


def _first_seen(node: Node, now: Now) -> float:
    return now.monotonic_s - max(0.0, now.wall.timestamp() - node.created_s)


def ages_s(since_s: Mapping[str, float], now: Now) -> dict[str, float]:
    """How long that is, in seconds."""
    return {name: now.monotonic_s - since for name, since in since_s.items()}
