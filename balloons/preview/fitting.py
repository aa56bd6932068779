"""Where given pods go: onto nodes that are there, onto new ones, or nowhere. A gang goes whole or not at all.

A subset of the scheduler's filters (balloons.decide.fit): requests, node labels, taints, one pod of a kind per host.
Pods with rules beyond these (volumes, zones, affinity to others) are placed by these alone, and counted as `unjudged`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from balloons.decide.fit import PodClass, admits, class_of, how_many, room_without_balloon
from balloons.preview.inputs import NodeShape, PlanInputs, PoolFacts
from balloons.view.load import NodeLoad
from throttler.kube.node import Node
from throttler.kube.pod import Pod, Scheduling
from throttler.kube.resources import Resources, minus


@dataclass(frozen=True, slots=True, kw_only=True)
class GangFit:
    """One gang. `pods_on_new` is 0 where it fits what is there; then it can start whole, now."""

    name: str
    pods: int
    pods_on_new: int
    is_placeable: bool

    @property
    def fits_now(self) -> bool:
        """Whether all of it fits nodes that are there."""
        return self.is_placeable and not self.pods_on_new


@dataclass(frozen=True, slots=True, kw_only=True)
class Unplaceable:
    """Pods of one class that no node takes; `reason` in words."""

    pods: int
    requests: Resources
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitting:
    """What becomes of the pods. `new_nodes` counts machines by pool."""

    pods: int
    on_there: int
    on_new: int
    new_nodes: Mapping[str, int]
    gangs: tuple[GangFit, ...] = ()
    unplaceable: tuple[Unplaceable, ...] = ()
    unjudged: int = 0


@dataclass(slots=True)
class _Place:
    """A node, there or to come, and what is left of it."""

    node: Node
    room: Resources
    pool: str = ""
    """Of one that is to come; empty where it is there."""
    kinds: set[tuple[object, ...]] = field(default_factory=set)
    """Classes that keep their own kind off it and are on it."""


def fit_pods(
    pods: Sequence[Pod], nodes: Iterable[Node], loads: Mapping[str, NodeLoad], inputs: PlanInputs, pool: str = ""
) -> Fitting:
    """Place the pods, the largest first. New nodes come in `pool`, or in the first pool that takes the class."""
    there = [_Place(node, room_without_balloon(node, loads.get(node.name, NodeLoad()))) for node in nodes]
    pools = [each for each in inputs.pools if each.shape is not None and pool in ("", each.name)]
    state = _State(there, pools)
    for (wanted, name), count in _classes(pods).items():
        state.place(wanted, name, count)
    return state.fitting(len(pods), sum(1 for pod in pods if pod.scheduling and pod.scheduling.is_opaque))


@dataclass(frozen=True, slots=True)
class _Class:
    key: tuple[object, ...]
    wanted: PodClass = field(compare=False, hash=False)


def _classes(pods: Iterable[Pod]) -> dict[tuple[_Class, str], int]:
    """(class, gang) -> pods, the largest requests first."""
    found: dict[tuple[_Class, str], int] = {}
    for pod in pods:
        wanted = class_of(pod, pod.scheduling or Scheduling())
        key = (_Class(wanted.key, wanted), wanted.gang)
        found[key] = found.get(key, 0) + 1
    return dict(sorted(found.items(), key=lambda item: _size(item[0][0].wanted), reverse=True))


def _size(wanted: PodClass) -> tuple[int, int, int, str]:
    devices = sum(milli for name, milli in wanted.requests.items() if "/" in name)
    return devices, wanted.requests.get("cpu", 0), wanted.requests.get("memory", 0), wanted.gang


class _State:
    def __init__(self, places: list[_Place], pools: Sequence[PoolFacts]) -> None:
        self._places = places
        self._pools = pools
        self._on_there = self._on_new = 0
        self._new: dict[str, int] = {}
        self._gangs: dict[str, GangFit] = {}
        self._unplaceable: list[Unplaceable] = []

    def place(self, asked: _Class, gang: str, count: int) -> None:
        """Put `count` pods of one class where they fit, nodes that are there first."""
        there = self._fill([place for place in self._places if not place.pool], asked, count)
        new = self._fill([place for place in self._places if place.pool], asked, count - there)
        left = count - there - new
        while left and (placed := self._open(asked, left)):
            new, left = new + placed, left - placed
        self._on_there += there
        self._on_new += new
        if gang:
            self._note_gang(gang, count, new, is_placeable=not left)
        if left:
            self._unplaceable.append(
                Unplaceable(pods=left, requests=asked.wanted.requests, reason=self._why(asked.wanted))
            )

    def _fill(self, places: Iterable[_Place], asked: _Class, count: int) -> int:
        placed = 0
        for place in places:
            if placed == count:
                break
            if _is_taken(place, asked) or not admits(place.node, asked.wanted):
                continue
            here = min(count - placed, how_many(asked.wanted, place.room))
            _put(place, asked, here)
            placed += here
        return placed

    def _open(self, asked: _Class, count: int) -> int:
        """One more node in the first pool that takes the class; how many pods it takes."""
        for pool in self._pools:
            if pool.shape is None:
                continue
            place = _Place(_node_of(pool.shape), pool.shape.room, pool.name or "new")
            here = min(count, how_many(asked.wanted, place.room)) if admits(place.node, asked.wanted) else 0
            if here:
                _put(place, asked, here)
                self._places.append(place)
                self._new[pool.name] = self._new.get(pool.name, 0) + 1
                return here
        return 0

    def _why(self, wanted: PodClass) -> str:
        if not self._pools:
            return "no node fits, and no pool's machines are known"
        if any(pool.shape and admits(_node_of(pool.shape), wanted) for pool in self._pools):
            return "larger than a new node of any pool that takes it"
        return "no pool has the labels it asks for without a taint that it does not tolerate"

    def _note_gang(self, name: str, pods: int, on_new: int, *, is_placeable: bool) -> None:
        before = self._gangs.get(name, GangFit(name=name, pods=0, pods_on_new=0, is_placeable=True))
        self._gangs[name] = GangFit(
            name=name,
            pods=before.pods + pods,
            pods_on_new=before.pods_on_new + on_new,
            is_placeable=before.is_placeable and is_placeable,
        )

    def fitting(self, pods: int, unjudged: int) -> Fitting:
        """What came of it."""
        return Fitting(
            pods=pods,
            on_there=self._on_there,
            on_new=self._on_new,
            new_nodes=self._new,
            gangs=tuple(self._gangs.values()),
            unplaceable=tuple(self._unplaceable),
            unjudged=unjudged,
        )


def _is_taken(place: _Place, asked: _Class) -> bool:
    return asked.wanted.is_one_per_node and asked.key in place.kinds


def _put(place: _Place, asked: _Class, count: int) -> None:
    if count:
        place.room = minus(place.room, {name: milli * count for name, milli in asked.wanted.requests.items()})
        place.kinds.add(asked.key)


def _node_of(shape: NodeShape) -> Node:
    """A new node as the filters see it."""
    return Node(
        name="", uid="", resource_version="", labels=dict(shape.labels), allocatable=shape.room, taints=shape.taints
    )
