"""Nodes as pods are put on them, one class of pods at a time: what is left of each, and how a class is spread."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from balloons.decide.fit import PodClass, how_many
from balloons.preview.asked_pods import HostSpread
from balloons.preview.inputs import NodeShape
from throttler.kube.node import KARPENTER_POOL_LABEL, Node
from throttler.kube.quantity import Resources, minus


@dataclass(frozen=True, slots=True)
class AskedClass:
    """Pods that are alike for the scheduler."""

    key: tuple[object, ...]
    wanted: PodClass = field(compare=False, hash=False)
    spread: HostSpread | None = None


@dataclass(slots=True)
class Place:
    """A node, there or to come."""

    node: Node
    room: Resources
    """What is left of it."""
    pool: str = ""
    """Of one that is to come; empty where it is there."""
    placed: dict[tuple[object, ...], int] = field(default_factory=dict)
    """How many pods of each class have been put here."""

    def has(self, asked: AskedClass) -> int:
        """Pods of the class that have been put here."""
        return self.placed.get(asked.key, 0)

    def takes(self, asked: AskedClass) -> int:
        """How many more pods of the class it takes by itself."""
        if asked.wanted.is_one_per_node and asked.key in self.placed:
            return 0
        return how_many(asked.wanted, self.room)

    def put(self, asked: AskedClass, count: int) -> None:
        """Put so many pods here."""
        if count:
            self.room = minus(self.room, {name: milli * count for name, milli in asked.wanted.requests.items()})
            self.placed[asked.key] = self.has(asked) + count

    def most(self, lowest: int, skew: int) -> int:
        """Pods of a class that it may have where the emptiest host has `lowest`.

        Karpenter takes the fewest to be none, since it can always buy another host: what it buys gets no more than
        `skew` (domainMinCount and nextDomainTopologySpread of its topologygroup.go, 1.15).
        """
        is_bought = bool(self.pool) and KARPENTER_POOL_LABEL in self.node.labels
        return skew if is_bought else lowest + skew


Put = tuple[Place, int]
"""So many pods onto this one."""


def node_of(shape: NodeShape) -> Node:
    """A new node as the filters see it."""
    return Node(
        name="", uid="", resource_version="", labels=dict(shape.labels), allocatable=shape.room, taints=shape.taints
    )


def fill(places: Iterable[Place], asked: AskedClass, count: int) -> list[Put]:
    """As many of the pods as fit on each place, in order."""
    put: list[Put] = []
    for place in places:
        if not count:
            break
        if here := min(count, place.takes(asked)):
            place.put(asked, here)
            put.append((place, here))
            count -= here
    return put


def fill_evenly(
    places: Sequence[Place], domains: Sequence[Place], asked: AskedClass, spread: HostSpread, count: int
) -> list[Put]:
    """One by one on the emptiest place, while no place falls too far behind: a domain that is full holds all back."""
    put: list[Put] = []
    while len(put) < count:
        lowest = min((place.has(asked) for place in domains), default=0)
        fitting = [each for each in places if each.has(asked) < each.most(lowest, spread.skew)]
        fitting = [each for each in fitting if each.takes(asked)]
        if not fitting:
            break
        for place in sorted(fitting, key=lambda each: each.has(asked))[: count - len(put)]:
            place.put(asked, 1)
            put.append((place, 1))
    return put
