"""Where given pods go: onto nodes that are there, onto new ones, or nowhere. A gang goes whole or not at all.

Pods out of what a user wrote: pods themselves, lists of them, and workloads by their templates. Nodes as pods are put
on them, one class of pods at a time: what is left of each, and how a class is spread.

A subset of the scheduler's filters (balloons.decide.release_to_waiting_work): requests, node labels, taints, one pod
of a kind per host, even spread over hosts. Pods with rules beyond these (volumes, zones, affinity to others, claims of
devices) are placed by these alone, and counted as `unjudged`.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any

import msgspec

from balloons.decide.release_to_waiting_work import PodClass, admits, class_of, how_many, room_without_balloon
from balloons.preview.inputs import Ceiling, NodeShape, PlanInputs, sharing
from balloons.view.node_load_and_devices import EMPTY, NodeLoad
from throttler.kube.node import HOST_LABEL, KARPENTER_POOL_LABEL, ZONE_LABEL, Node, Shared
from throttler.kube.pod import GANG_LABELS, Pod, PodWire, Scheduling, pod_from_wire
from throttler.kube.quantities_and_durations import QuantityError, Resources, minus
from throttler.kube.selectors import is_selected

MOST_PODS = 1_000_000
WORKLOADS = ("Job", "Deployment", "StatefulSet", "ReplicaSet")
ACCEPTED = f"accepted: Pod, List, {', '.join(WORKLOADS)}"


@dataclass(frozen=True, slots=True)
class HostSpread:
    """No host may have more than `skew` pods of the kind beyond the host that has fewest.

    Hosts with taints that keep the pods away count as well, unless `honors_taints` (nodeTaintsPolicy): one of them,
    which never has any, then holds every other host at `skew`.
    """

    skew: int
    honors_taints: bool = False


@dataclass(frozen=True, slots=True)
class AskedPod:
    """A pod to place, and how its kind is to be spread over hosts."""

    pod: Pod
    spread: HostSpread | None = None


class PodsError(ValueError):
    """Something is no pod and has none; the message says what and what is accepted."""


def asked_pods(documents: Iterable[Any], *, is_gang: bool) -> tuple[AskedPod, ...]:
    """All pods of the documents. `is_gang`: each workload runs whole or not at all, whatever its labels say.

    Raises PodsError.
    """
    shared = Shared()
    asked: list[AskedPod] = []
    for document in documents:
        for template, count, name in _templates(_without_nulls(document)):
            asked += [_pod(template, name if is_gang else "", shared)] * count
            if len(asked) > MOST_PODS:
                raise PodsError(f"more than {MOST_PODS:,} pods")
    if not asked:
        raise PodsError(f"there are no pods in it; {ACCEPTED}")
    return tuple(asked)


def _without_nulls(value: Any) -> Any:
    """The same without fields that are null, which count as absent; and what YAML takes for a date as its text."""
    if isinstance(value, Mapping):
        return {key: _without_nulls(inner) for key, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [_without_nulls(inner) for inner in value]
    return value.isoformat() if isinstance(value, date) else value


def _templates(document: Any) -> Iterator[tuple[Mapping[str, Any], int, str]]:
    """(pod as plain data, how many of it, whose)."""
    if not isinstance(document, Mapping):
        raise PodsError(f"{str(document)[:40]!r} is no object; {ACCEPTED}")
    own = _mapping(document.get("metadata"))
    kind, name = document.get("kind"), str(own.get("name") or "pods")
    if kind == "Pod":
        yield document, 1, name
    elif kind in ("List", "PodList"):
        items = document.get("items", ())
        if not isinstance(items, list | tuple):
            raise PodsError(f"items {str(items)[:40]!r} of a {kind} is no list; accepted: a list of objects")
        for item in items:
            yield from _templates({"kind": "Pod", **item} if isinstance(item, Mapping) else item)
    elif kind in WORKLOADS:
        spec = _mapping(document.get("spec"))
        template = _mapping(spec.get("template"))
        metadata = {"name": name, "namespace": own.get("namespace") or "", **_mapping(template.get("metadata"))}
        yield {**template, "metadata": metadata}, _replicas(kind, spec), name
    else:
        raise PodsError(f"kind {str(kind)[:60]!r} has no pods that are known here; {ACCEPTED}")


def _replicas(kind: str, spec: Mapping[str, Any]) -> int:
    """Of a Job the pods that run at once: its parallelism, and no more than its completions."""
    if kind != "Job":
        return _whole(spec, "replicas", 1)
    return min(_whole(spec, "parallelism", 1), _whole(spec, "completions", MOST_PODS))


def _pod(template: Mapping[str, Any], gang: str, shared: Shared) -> AskedPod:
    metadata = dict(_mapping(template.get("metadata")))
    metadata.setdefault("name", "pod")
    labels = {**_mapping(metadata.get("labels")), **({GANG_LABELS[0]: gang} if gang else {})}
    asked = {key: value for key, value in _mapping(template.get("spec")).items() if key != "nodeName"}
    spec = _as_the_server_reads(asked)
    spread = _host_spread(spec, labels)
    if spread is not None:
        spec["topologySpreadConstraints"] = []
    try:
        wire = msgspec.convert({"metadata": {**metadata, "labels": labels}, "spec": spec}, PodWire, strict=False)
        return AskedPod(pod_from_wire(wire, shared), spread)
    except (msgspec.ValidationError, QuantityError) as error:
        raise PodsError(f"pod {str(metadata['name'])[:80]}: {error}") from error


def _as_the_server_reads(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The same pod spec with all that it requests, as text: users write `cpu: 8` as well as `cpu: "8"`.

    What is limited and not requested is requested up to its limit, as the API server has it (SetDefaults_Pod): by each
    container of its own, and by the pod as a whole where no container requests that resource.
    """
    changed = {
        field: [_with_requests(container) for container in containers]
        for field in ("containers", "initContainers")
        if isinstance(containers := spec.get(field), list)
    }
    requested = {name for containers in changed.values() for container in containers for name in _requests(container)}
    changed |= {"overhead": _textual(spec["overhead"])} if "overhead" in spec else {}
    return {**_with_requests(spec, requested), **changed}


def _with_requests(part: Any, elsewhere: Collection[str] = ()) -> Any:
    """A container or a pod spec, its requests as text; resources that are requested `elsewhere` have no default."""
    resources = _mapping(_mapping(part).get("resources"))
    requests = resources.get("requests")
    if requests is None or isinstance(requests, Mapping):
        limits = _mapping(resources.get("limits"))
        requests = {name: limit for name, limit in limits.items() if name not in elsewhere} | dict(requests or {})
    return {**part, "resources": {**resources, "requests": _textual(requests)}} if resources else part


def _requests(container: Any) -> Mapping[str, Any]:
    return _mapping(_mapping(_mapping(container).get("resources")).get("requests"))


def _textual(amounts: Any) -> Any:
    if not isinstance(amounts, Mapping):
        return amounts
    return {name: str(amount) if type(amount) in (int, float) else amount for name, amount in amounts.items()}


def _host_spread(spec: Mapping[str, Any], labels: Mapping[str, Any]) -> HostSpread | None:
    """The one hard constraint, where it spreads the pod's own kind by host and nothing else; else it stays unjudged."""
    spreads = spec.get("topologySpreadConstraints")
    constraints = [_mapping(constraint) for constraint in spreads] if isinstance(spreads, list) else []
    hard = [
        constraint
        for constraint in constraints
        if constraint.get("whenUnsatisfiable", "DoNotSchedule") == "DoNotSchedule"
    ]
    if len(hard) != 1 or hard[0].get("topologyKey") != HOST_LABEL:
        return None
    if hard[0].get("minDomains") or hard[0].get("nodeAffinityPolicy", "Honor") != "Honor":
        return None
    selector = _mapping(hard[0].get("labelSelector"))
    own = _mapping(selector.get("matchLabels"))
    if not own or not own.items() <= labels.items() or selector.get("matchExpressions"):
        return None
    return HostSpread(max(1, _whole(hard[0], "maxSkew", 1)), hard[0].get("nodeTaintsPolicy") == "Honor")


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _whole(body: Mapping[str, Any], field: str, otherwise: int) -> int:
    value = body.get(field)
    if value is None:
        return otherwise
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST_PODS:
        raise PodsError(f"{field} {str(value)[:40]!r}; accepted: a whole number from 0 to {MOST_PODS:,}")
    return value


@dataclass(frozen=True, slots=True)
class AskedClass:
    """Pods that are alike for the scheduler."""

    key: tuple[object, ...]
    wanted: PodClass = field(compare=False, hash=False)
    spread: HostSpread | None = None
    claims_devices: bool = False
    """Whether they ask for devices by claims: of a node where others have claimed some nobody tells what is left."""


@dataclass(slots=True)
class Place:
    """A node, there or to come."""

    node: Node
    room: Resources
    """What is left of it."""
    pool: str = ""
    """Of one that is to come; empty where it is there."""
    is_claimed: bool = False
    """Whether work there has devices by claims."""
    placed: dict[tuple[object, ...], int] = field(default_factory=dict)
    """How many pods of each class have been put here."""

    def has(self, asked: AskedClass) -> int:
        """Pods of the class that have been put here."""
        return self.placed.get(asked.key, 0)

    def takes(self, asked: AskedClass) -> int:
        """How many more pods of the class it takes by itself."""
        if (asked.wanted.is_one_per_node and asked.key in self.placed) or (asked.claims_devices and self.is_claimed):
            return 0
        return how_many(asked.wanted, self.room)

    def put(self, asked: AskedClass, count: int) -> None:
        """Put so many pods here, one or more."""
        self.room = minus(self.room, {name: milli * count for name, milli in asked.wanted.requests.items()})
        self.placed[asked.key] = self.has(asked) + count
        self.is_claimed |= asked.claims_devices

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


def _in_each_zone(shape: NodeShape) -> list[NodeShape]:
    """The shape, and the same in the other zones of its pool."""
    others = (zone for zone in shape.zones if zone != shape.labels.get(ZONE_LABEL))
    return [shape, *(replace(shape, labels={**shape.labels, ZONE_LABEL: zone}) for zone in others)]


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
        fitting = [place for place in places if place.has(asked) < place.most(lowest, spread.skew)]
        fitting = [place for place in fitting if place.takes(asked)]
        if not fitting:
            break
        for place in sorted(fitting, key=lambda place: place.has(asked))[: count - len(put)]:
            place.put(asked, 1)
            put.append((place, 1))
    return put


def _top_up(opened: Place, asked: AskedClass, count: int, lowest: int) -> None:
    """Put more of the pods on a host that has just come, while the emptiest of the others (`lowest`) lets it."""
    while asked.spread is not None and (has := opened.has(asked)) < count and opened.takes(asked):
        if has >= opened.most(min(lowest, has), asked.spread.skew):
            break
        opened.put(asked, 1)


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
    """Place the pods, the largest first.

    New nodes come in `pool`, or in the first pool that takes the class; in one at its ceiling only where no other does.
    """
    loaded = [(node, loads.get(node.name, EMPTY)) for node in nodes]
    there = [Place(node, _room(node, load), is_claimed=load.claims_devices) for node, load in loaded]
    asked = (facts for facts in inputs.pools if pool in ("", facts.name))
    pools = [(facts.name, shape) for facts in asked if facts.shape for shape in _in_each_zone(facts.shape)]
    state = _State(there, pools, sharing(inputs.pools))
    for (wanted, name), count in _classes(pods).items():
        state.place(wanted, name, count)
    return state.fitting(len(pods), sum(1 for pod in pods if pod.pod.scheduling and pod.pod.scheduling.is_opaque))


def _room(node: Node, load: NodeLoad) -> Resources:
    """What the pods may have of it: a node is warm if nothing but balloons is there, of whoever, and all of them give
    way."""
    return room_without_balloon(node, load) if load.work else minus(node.allocatable, load.daemons)


def _classes(pods: Iterable[AskedPod]) -> dict[tuple[AskedClass, str], int]:
    """(class, gang) -> pods, the largest requests first."""
    counts: dict[tuple[AskedClass, str], int] = {}
    for asked in pods:
        wanted = class_of(asked.pod, asked.pod.scheduling or Scheduling())
        claims_alone = asked.pod.claims_devices and wanted.is_one_per_node
        key = (AskedClass(wanted.key, wanted, asked.spread, claims_alone), wanted.gang)
        counts[key] = counts.get(key, 0) + 1
    return dict(sorted(counts.items(), key=lambda item: _size(item[0][0].wanted), reverse=True))


def _size(wanted: PodClass) -> tuple[int, int, int, str]:
    devices = sum(milli for name, milli in wanted.requests.items() if "/" in name)
    return devices, wanted.requests.get("cpu", 0), wanted.requests.get("memory", 0), wanted.gang


class _State:
    def __init__(
        self, places: list[Place], pools: Sequence[tuple[str, NodeShape]], ceilings: Mapping[Ceiling, Sequence[str]]
    ) -> None:
        self._places = places
        self._pools = pools
        self._ceilings = ceilings
        self._judged: dict[tuple[object, ...], tuple[list[Place], int]] = {}
        self._on_there = self._on_new = 0
        self._new: dict[str, int] = {}
        self._gangs: dict[str, GangFit] = {}
        self._unplaceable: list[Unplaceable] = []

    def place(self, asked: AskedClass, gang: str, count: int) -> None:
        """Put `count` pods of one class where they fit, nodes that are there first."""
        there, new = self._fill(asked, count)
        left = count - there - new
        # A host that takes no more now never will: the emptiest is full or closed to them, and holds back the rest.
        hosts = self._counted(asked) if left and asked.spread else ()
        lowest = min((place.has(asked) for place in hosts), default=MOST_PODS)
        while left and (opened := self._open(asked, left)) is not None:
            _top_up(opened, asked, left, lowest)
            lowest = min(lowest, opened.has(asked))
            left -= opened.has(asked)
        new = count - there - left
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
            put = fill_evenly(places, self._counted(asked), asked, asked.spread, count)
        on_new = sum(pods for place, pods in put if place.pool)
        return sum(pods for _, pods in put) - on_new, on_new

    def _open_to(self, asked: AskedClass) -> list[Place]:
        """Places whose labels and taints let the class in."""
        wanted = asked.wanted
        rules = "open", wanted.tolerations, wanted.node_selector, wanted.node_terms
        return self._those(rules, lambda place: admits(place.node, wanted))

    def _counted(self, asked: AskedClass) -> list[Place]:
        """Hosts that the scheduler counts when it spreads the class: by their labels alone, whatever their taints."""
        if asked.spread is None or asked.spread.honors_taints:
            return self._open_to(asked)
        selector, terms = asked.wanted.node_selector, asked.wanted.node_terms
        rules = "domain", selector, terms
        return self._those(rules, lambda place: is_selected(place.node.labels, selector, terms))

    def _those(self, rules: tuple[object, ...], is_one: Callable[[Place], bool]) -> list[Place]:
        """Places for which it holds; judged once for all classes with the same rules, which differ in size."""
        known, judged = self._judged.setdefault(rules, ([], 0))
        known += [place for place in self._places[judged:] if is_one(place)]
        self._judged[rules] = known, len(self._places)
        return known

    def _open(self, asked: AskedClass, count: int) -> Place | None:
        """One more node in the first pool that takes the class, with as many of its pods as that lets it have.

        A pool at its ceiling is the last that is asked.
        """
        full = {
            name for ceiling, names in self._ceilings.items() if self._new_in(names) >= ceiling.nodes for name in names
        }
        for name, shape in sorted(self._pools, key=lambda pool: pool[0] in full):
            place = Place(node_of(shape), shape.room, name or "new")
            here = min(count, place.takes(asked)) if admits(place.node, asked.wanted) else 0
            here = min(here, asked.spread.skew if asked.spread else here)
            if here:
                place.put(asked, here)
                self._places.append(place)
                self._new[name] = self._new.get(name, 0) + 1
                return place
        return None

    def _new_in(self, pools: Iterable[str]) -> int:
        return sum(self._new.get(name, 0) for name in pools)

    def _why(self, wanted: PodClass) -> str:
        if not self._pools:
            return "no node fits, and no pool's machines are known"
        if takers := [shape for _, shape in self._pools if admits(node_of(shape), wanted)]:
            asked = sorted(name for name, milli in wanted.requests.items() if milli)
            if unnamed := [name for name in asked if not any(name in shape.room for shape in takers)]:
                return f"no pool that takes it has nodes with {unnamed[0]} (what a DRA driver gives is not seen)"
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
