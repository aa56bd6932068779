"""Which nodes to hold, when not all of them are wanted."""

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from balloons.view.node_load import EMPTY, NodeLoad
from throttler.kube.node import Node


def choose_nodes(holdable: Sequence[Node], loads: Mapping[str, NodeLoad], wanted: int) -> list[Node]:
    """`wanted` of the nodes: those held already first, because moving a balloon gains nothing; then the zone
    with the fewest. Deterministic: equal input, equal choice."""
    if wanted >= len(holdable):
        return list(holdable)
    held = [node for node in holdable if (loads.get(node.name) or EMPTY).balloons]
    if len(held) >= wanted:
        return _balanced(held, wanted, Counter())
    free = [node for node in holdable if not (loads.get(node.name) or EMPTY).balloons]
    counts = Counter(node.zone for node in held)
    return held + _balanced(free, wanted - len(held), counts)


def _balanced(nodes: Iterable[Node], wanted: int, counts: Counter[str]) -> list[Node]:
    """Take nodes one by one from the zone that has the fewest so far."""
    zones: dict[str, list[Node]] = {}
    for node in nodes:
        zones.setdefault(node.zone, []).append(node)
    for members in zones.values():
        members.sort(key=lambda node: node.name, reverse=True)
    heap = [(counts[zone], zone) for zone in zones]
    heapq.heapify(heap)
    chosen: list[Node] = []
    while len(chosen) < wanted and heap:
        count, zone = heapq.heappop(heap)
        chosen.append(zones[zone].pop())
        if zones[zone]:
            heapq.heappush(heap, (count + 1, zone))
    return chosen
