"""Machine shapes of a pool, and the size of the balloon that holds one whole.

Sizes come from *observed* allocatable, because what an instance type promises and what a node offers
differ. A balloon asks for what the smallest node of its shape has left after DaemonSets, less slack:
without slack the next DaemonSet pod (priority 0) would preempt it.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from balloons.api.pool import BalloonPool, ShapeType
from balloons.view.load import NodeLoad
from throttler.kube.node import Node
from throttler.kube.resources import Resources, minus, parse_resources

GRAIN = {"cpu": 10, "memory": 1024**2 * 1000}
"""Steps (milli-units) to which requests are rounded down: 10 millicores and 1 MiB."""
KEPT_SHARE = 0.9
"""A request in use is kept while it still covers this share of what would be asked for anew."""

EXPLICIT = "explicit"
"""Shape name of balloons whose requests the user gave."""

_GIB = 1024**3 * 1000
_NO_LABEL_VALUE = re.compile(r"[^A-Za-z0-9-]+")
_SHAPE_NAME_LIMIT = 40


_Alike = list[tuple[Node, NodeLoad]]


@dataclass(frozen=True, slots=True)
class Shape:
    """Nodes that one balloon size fits.

    `name` is a label value; `room` is what the smallest of its nodes has for a balloon (milli-units), after DaemonSets;
    `nodes` counts all of them. Free nodes that lack an extended resource which others of the shape have (their device
    plugin has not started) are in `unfinished` by name. `is_remembered`: no node of the shape is up, it is known
    from our own Deployment alone.
    """

    name: str
    instance_type: str
    room: Resources
    nodes: int
    unfinished: frozenset[str] = frozenset()
    is_remembered: bool = False


def shape_name(node: Node) -> str:
    """The shape a node belongs to: its instance type, else its size in words."""
    text = node.instance_type or _size_in_words(node.allocatable)
    return _NO_LABEL_VALUE.sub("-", text).strip("-").lower()[:_SHAPE_NAME_LIMIT].strip("-") or "node"


def _size_in_words(allocatable: Resources) -> str:
    cores, gibs = allocatable.get("cpu", 0) // 1000, allocatable.get("memory", 0) // _GIB
    devices = [f"{allocatable[name] // 1000}{name.rpartition('/')[2]}" for name in extended(allocatable)]
    return "-".join([f"{cores}cpu", f"{gibs}gi", *devices])


def extended(resources: Resources) -> list[str]:
    """Names of device-like resources present (GPUs and the like), sorted."""
    return sorted(name for name, milli in resources.items() if "/" in name and milli > 0)


@dataclass(frozen=True, slots=True)
class Shapes:
    """A pool's shapes by name, largest group of nodes first, and the shape of each kind of node."""

    by_name: Mapping[str, Shape]
    _of_kind: Mapping[tuple[str, int], str]

    def of(self, node: Node) -> str:
        """The name of the shape the node belongs to."""
        return self._of_kind[node.instance_type, id(node.allocatable)]

    @property
    def main(self) -> str:
        """The shape that new nodes are asked for in: the one with most nodes; empty while none is known."""
        return next(iter(self.by_name), "")

    def and_also(self, more: Mapping[str, Shape]) -> "Shapes":
        """The same with further shapes behind them, of which no node is up."""
        return Shapes({**self.by_name, **more}, self._of_kind) if more else self

    @property
    def unfinished(self) -> frozenset[str]:
        """Nodes that lack devices which others of their shape have."""
        return frozenset().union(*(shape.unfinished for shape in self.by_name.values()))


def shapes_of(seen: Iterable[tuple[Node, NodeLoad]]) -> Shapes:
    """The pool's shapes; nodes of equal size and equal DaemonSets are measured once.

    Sizes are told apart by identity first: caches share one dict between equal ones, so this is fast, and where they
    do not it is merely slower.
    """
    kinds: dict[tuple[str, int, int], _Alike] = {}
    for pair in seen:
        node, load = pair
        kind = (node.instance_type, id(node.allocatable), id(load.daemons))
        kinds.setdefault(kind, []).append(pair)
    grouped: dict[str, list[_Alike]] = {}
    of_kind: dict[tuple[str, int], str] = {}
    for (instance_type, size, _), alike in kinds.items():
        name = of_kind[instance_type, size] = shape_name(alike[0][0])
        grouped.setdefault(name, []).append(alike)
    shapes = [_measure(name, groups) for name, groups in grouped.items()]
    return Shapes({shape.name: shape for shape in sorted(shapes, key=lambda s: (-s.nodes, s.name))}, of_kind)


def explicit_shape(seen: Sequence[tuple[Node, NodeLoad]]) -> Shapes:
    """The one shape of a pool whose balloons have explicit requests, whatever its machines are."""
    of_kind = {(node.instance_type, id(node.allocatable)): EXPLICIT for node, _ in seen}
    return Shapes({EXPLICIT: Shape(EXPLICIT, "", {}, len(seen))}, of_kind)


def _measure(name: str, groups: list[_Alike]) -> Shape:
    """Each group's first node speaks for all of it; nodes without the shape's devices are not measured."""
    devices = _devices(groups)
    finished = [alike for alike in groups if devices.issubset(extended(alike[0][0].allocatable))]
    rooms = [minus(node.allocatable, load.daemons) for node, load in (alike[0] for alike in finished)]
    return Shape(
        name=name,
        instance_type=groups[0][0][0].instance_type,
        room={
            resource: min((room.get(resource, 0) for room in rooms), default=0)
            for resource in sorted({"cpu", "memory", *devices})
        },
        nodes=sum(map(len, groups)),
        unfinished=frozenset(
            node.name
            for alike in groups
            if not devices.issubset(extended(alike[0][0].allocatable))
            for node, load in alike
            if not _is_in_use(load)
        ),
    )


def _devices(groups: list[_Alike]) -> set[str]:
    """The devices that belong to the shape: those that any of its nodes offers.

    A device that more nodes in use have never heard of is one node's peculiarity: it must not empty all the others.
    A node that names it at zero has it; its plugin is down for the moment.
    """
    offered = [set(extended(alike[0][0].allocatable)) for alike in groups]
    found: set[str] = set().union(*offered)
    if all(own == found for own in offered):
        return found
    return {device for device in found if not _is_odd(device, groups)}


def _is_odd(device: str, groups: list[_Alike]) -> bool:
    lacking = [alike for alike in groups if device not in alike[0][0].allocatable]
    having = sum(map(len, groups)) - sum(map(len, lacking))
    return having < sum(1 for alike in lacking for _, load in alike if _is_in_use(load))


def _is_in_use(load: NodeLoad) -> bool:
    return bool(load.work or load.scavengers or load.balloons)


def are_alike(shapes: Iterable[Shape]) -> bool:
    """Whether several shapes carry no instance type, so that no label keeps their balloons apart."""
    return sum(1 for shape in shapes if not shape.instance_type and not shape.is_remembered) > 1


def balloon_requests(
    pool: BalloonPool, shape: Shape, default_slack: Mapping[str, str], in_use: Resources | None
) -> Resources | None:
    """The balloon's requests on this shape in milli-units, or None when nothing is left for one.

    `in_use` are the requests of the Deployment as it stands: they are kept while they fit and still hold the
    node, because a change rolls every balloon of the shape.
    """
    asked = pool.spec.shape
    if shape.is_remembered:
        return in_use
    if asked.type is ShapeType.EXPLICIT:
        return parse_resources(asked.resources)
    slack = parse_resources({**default_slack, **asked.slack})
    ideal = {name: _round_down(name, milli) for name, milli in minus(shape.room, slack).items()}
    if not all(ideal.get(name, 0) > 0 for name in ("cpu", "memory")):
        return None
    return in_use if in_use and _still_holds(in_use, ideal, shape.room, slack) else ideal


def _round_down(name: str, milli: int) -> int:
    return milli - milli % GRAIN.get(name, 1000)


def _still_holds(in_use: Resources, ideal: Resources, room: Resources, slack: Resources) -> bool:
    """Whether requests in use may stay: they cover the node, and at least half of the slack is left.

    A device that no node offers now is no reason for a change: its plugin is being restarted on all of them.
    """
    if any(in_use.get(name) != ideal[name] for name in extended(ideal)):
        return False
    return all(
        KEPT_SHARE * ideal[name] <= in_use.get(name, 0) <= room.get(name, 0) - slack.get(name, 0) // 2
        for name in ("cpu", "memory")
    )
