"""Where given pods go: onto nodes that are there, onto new ones, or nowhere. A gang goes whole or not at all.

A subset of the scheduler's filters (balloons.decide.fit): requests, node labels, taints, one pod of a kind per host,
even spread over hosts. Pods with rules beyond these (volumes, zones, affinity to others) are placed by these alone, and
counted as `unjudged`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from balloons.decide.fit import PodClass, admits, class_of, room_without_balloon, selects
from balloons.preview.asked_pods import AskedPod
from balloons.preview.inputs import PlanInputs, PoolFacts
from balloons.preview.place import AskedClass, Place, fill, fill_evenly, node_of
from balloons.view.node_load import NodeLoad
from throttler.kube.node import Node
from throttler.kube.pod import Scheduling
from throttler.kube.quantity import Resources


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


def fit_pods(
    pods: Sequence[AskedPod], nodes: Iterable[Node], loads: Mapping[str, NodeLoad], inputs: PlanInputs, pool: str = ""
) -> Fitting:
    """Place the pods, the largest first. New nodes come in `pool`, or in the first pool that takes the class."""
    there = [Place(node, room_without_balloon(node, loads.get(node.name, NodeLoad()))) for node in nodes]
    pools = [each for each in inputs.pools if each.shape is not None and pool in ("", each.name)]
    state = _State(there, pools)
    for (wanted, name), count in _classes(pods).items():
        state.place(wanted, name, count)
    return state.fitting(len(pods), sum(1 for each in pods if each.pod.scheduling and each.pod.scheduling.is_opaque))


def _classes(pods: Iterable[AskedPod]) -> dict[tuple[AskedClass, str], int]:
    """(class, gang) -> pods, the largest requests first."""
    found: dict[tuple[AskedClass, str], int] = {}
    for each in pods:
        wanted = class_of(each.pod, each.pod.scheduling or Scheduling())
        key = (AskedClass(wanted.key, wanted, each.spread), wanted.gang)
        found[key] = found.get(key, 0) + 1
    return dict(sorted(found.items(), key=lambda item: _size(item[0][0].wanted), reverse=True))


def _size(wanted: PodClass) -> tuple[int, int, int, str]:
    devices = sum(milli for name, milli in wanted.requests.items() if "/" in name)
    return devices, wanted.requests.get("cpu", 0), wanted.requests.get("memory", 0), wanted.gang


class _State:
    def __init__(self, places: list[Place], pools: Sequence[PoolFacts]) -> None:
        self._places = places
        self._pools = pools
        self._judged: dict[tuple[object, ...], tuple[list[Place], int]] = {}
        self._on_there = self._on_new = 0
        self._new: dict[str, int] = {}
        self._gangs: dict[str, GangFit] = {}
        self._unplaceable: list[Unplaceable] = []

    def place(self, asked: AskedClass, gang: str, count: int) -> None:
        """Put `count` pods of one class where they fit, nodes that are there first."""
        there, new = self._fill(asked, count)
        while (left := count - there - new) and (opened := self._open(asked, left)):
            new += opened
            if asked.spread is not None:
                # A host that has just come lets every other take one more.
                more_there, more_new = self._fill(asked, count - there - new)
                there, new = there + more_there, new + more_new
        self._on_there += there
        self._on_new += new
        if gang:
            self._note_gang(gang, count, new, is_placeable=not left)
        if left:
            self._unplaceable.append(
                Unplaceable(pods=left, requests=asked.wanted.requests, reason=self._why(asked.wanted))
            )

    def _fill(self, asked: AskedClass, count: int) -> tuple[int, int]:
        """How many of the pods go onto nodes that are there, and onto those that are to come anyway."""
        places = self._open_to(asked)
        if asked.spread is None:
            put = fill(places, asked, count)
        else:
            domains = places if asked.spread.honors_taints else self._domains(asked)
            put = fill_evenly(places, domains, asked, asked.spread, count)
        on_new = sum(pods for place, pods in put if place.pool)
        return sum(pods for _, pods in put) - on_new, on_new

    def _open_to(self, asked: AskedClass) -> list[Place]:
        """Places whose labels and taints let the class in."""
        return self._those(("open", *asked.key), lambda place: admits(place.node, asked.wanted))

    def _domains(self, asked: AskedClass) -> list[Place]:
        """Hosts that the scheduler counts when it spreads the class: by their labels alone, whatever their taints."""
        return self._those(("domain", *asked.key), lambda place: selects(asked.wanted, place.node.labels))

    def _those(self, key: tuple[object, ...], is_one: Callable[[Place], bool]) -> list[Place]:
        """Places for which it holds; judged once for each."""
        known, seen = self._judged.setdefault(key, ([], 0))
        known += [place for place in self._places[seen:] if is_one(place)]
        self._judged[key] = known, len(self._places)
        return known

    def _open(self, asked: AskedClass, count: int) -> int:
        """One more node in the first pool that takes the class; how many pods it takes."""
        for pool in self._pools:
            if pool.shape is None:
                continue
            place = Place(node_of(pool.shape), pool.shape.room, pool.name or "new")
            here = min(count, place.takes(asked)) if admits(place.node, asked.wanted) else 0
            here = min(here, asked.spread.skew if asked.spread else here)
            if here:
                place.put(asked, here)
                self._places.append(place)
                self._new[pool.name] = self._new.get(pool.name, 0) + 1
                return here
        return 0

    def _why(self, wanted: PodClass) -> str:
        if not self._pools:
            return "no node fits, and no pool's machines are known"
        if any(pool.shape and admits(node_of(pool.shape), wanted) for pool in self._pools):
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
