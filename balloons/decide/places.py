"""Where waiting pods find room: nodes in the order in which they should be used, alike ones judged together."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import log2

from balloons.decide.fit import PodClass, admits, how_many, reads_host, room_without_balloon
from balloons.view.node_load import EMPTY, NodeLoad
from throttler.kube.node import Node
from throttler.kube.pod import Pod
from throttler.kube.quantity import Resources, minus

MOST_LOOKS = 200_000
"""Nodes looked at one by one in one decision (some 60 ms); what is not placed by then waits for the next one."""


@dataclass(slots=True)
class _Alike:
    """Nodes of equal size with equal pods, apart from balloons, and alike in every label that any class reads and in
    their taints: what one has no room for or does not let in, none does."""

    room: Resources
    nodes: list[Node] = field(default_factory=list)


class Places:
    """Room for pods on a set of nodes; what was given out is gone for the next class."""

    def __init__(
        self,
        open_nodes: Iterable[Node],
        holdable: Sequence[Node],
        loads: Mapping[str, NodeLoad],
        wall_s: float,
        keys: Sequence[str],
    ) -> None:
        """`keys` are the labels that the classes to come read (`fit.keys_of`)."""
        self._keys = keys
        self._groups: dict[tuple[object, ...], _Alike] = {}
        self._left: dict[str, Resources] = {}
        self._base: dict[str, Resources] = {}
        self._looks = 0
        self._loads = loads
        # Room that is free anyway comes before idle nodes, idle nodes before warm ones.
        self._file(open_nodes, rank=0)
        self._file((node for node in holdable if not self._load(node).balloons), rank=1)
        warm = [node for node in holdable if self._load(node).balloons]
        self._file(sorted(warm, key=lambda node: _leaves_first(self._load(node).balloons[0], wall_s)), rank=2)

    def _load(self, node: Node) -> NodeLoad:
        return self._loads.get(node.name) or EMPTY

    def _file(self, nodes: Iterable[Node], rank: int) -> None:
        for node in nodes:
            load = self._load(node)
            labels, is_open = node.labels, node.is_ready and not (node.is_cordoned or node.is_deleting)
            read = tuple([labels.get(key) for key in self._keys])
            kind = (rank, id(node.allocatable), id(load.daemons), id(load.others), node.taints, is_open, read)
            group = self._groups.get(kind)
            if group is None:
                group = self._groups[kind] = _Alike(room_without_balloon(node, load))
            group.nodes.append(node)

    @property
    def is_tired(self) -> bool:
        """Whether as many nodes have been looked at as one decision may."""
        return self._looks >= MOST_LOOKS

    def spots(self, wanted: PodClass, count: int) -> list[Node]:
        """Up to `count` places for pods of one class: a node appears once per pod it takes."""
        spots: list[Node] = []
        by_host = reads_host(wanted)
        for group in self._groups.values():
            if len(spots) >= count:
                break
            if how_many(wanted, group.room) and (by_host or admits(group.nodes[0], wanted)):
                self._add_spots(spots, group, wanted, count, by_host=by_host)
        return spots

    def _add_spots(self, spots: list[Node], group: _Alike, wanted: PodClass, count: int, *, by_host: bool) -> None:
        for node in group.nodes:
            if len(spots) >= count or self.is_tired:
                return
            self._looks += 1
            if not by_host or admits(node, wanted):
                room = self._left.get(node.name, group.room)
                spots += [node] * min(how_many(wanted, room), count - len(spots))
                self._base.setdefault(node.name, group.room)

    def take(self, node: Node, wanted: PodClass) -> None:
        """One pod of the class goes to a node that `spots` named."""
        self._left[node.name] = minus(self._left.get(node.name, self._base[node.name]), wanted.requests)


def _leaves_first(balloon: Pod, wall_s: float) -> tuple[int, str]:
    """The order in which a lowered ReplicaSet removes its pods: the younger by a factor of two first, then by uid.

    Releasing in that order means that the ReplicaSet, which is lowered just before, picks the very balloons that we
    delete and not as many again (k8s.io/kubernetes pkg/controller, ActivePodsWithRanks; LogarithmicScaleDown).
    """
    return int(log2(max(1.0, wall_s - balloon.created_s))), balloon.uid
