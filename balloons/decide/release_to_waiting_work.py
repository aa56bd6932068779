"""Burst release: free warm nodes in bulk for pods that wait.

Pods are given nodes in the order in which these should be used; alike ones are judged together. Whether a pod could run
on a node once its balloon is gone is judged by a subset of the scheduler's filters, on purpose: pods with rules that
are not judged here are opaque and left to the scheduler, so a "yes" may at worst free a node that the scheduler then
refuses for a while.

The scheduler preempts one balloon in milliseconds, but a hundred take seconds: every preemption spends several
of its API calls, and each victim comes back Pending. Lowering the Deployment and deleting that many balloons
is faster. Which pod goes where stays the scheduler's choice; here it is only counted how many nodes they need.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cmp_to_key
from math import ceil

from balloons.view.index_and_snapshot import Now
from balloons.view.node_load_and_devices import EMPTY, NodeLoad
from throttler.kube.node import HOST_LABEL, Node
from throttler.kube.pod import DEFAULT_SCHEDULER, Pod, Scheduling
from throttler.kube.quantities_and_durations import Resources, larger, minus
from throttler.kube.selectors import Requirement, is_selected
from throttler.kube.taints import Toleration, is_joining_taint, untolerated

MOST_LOOKS = 200_000
"""Nodes looked at one by one in one decision (some 60 ms); what is not placed by then waits for the next one."""
MOST_CLASSES = 64
"""Different kinds of pods looked at per decision; the others have their turn in the next ones."""
BURST_AT_LEAST = 2
"""Waiting pods from which balloons are released in bulk; a single pod is faster left to the scheduler."""
RESERVATION_S = 60.0
"""How long a node stays free for a pod that was given it."""
RETRY = 10
"""A pod that did not take the node it was given is tried again after so many times the reservation."""
ClassKey = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class PodClass:
    """Pods that the scheduler treats alike: what is judged once for all of them."""

    requests: Resources
    tolerations: tuple[Toleration, ...]
    node_selector: tuple[tuple[str, str], ...]
    node_terms: tuple[tuple[Requirement, ...], ...]
    is_one_per_node: bool
    gang: str
    scheduler: str

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for equal classes; resource dicts are not hashable by themselves."""
        rest = (self.tolerations, self.node_selector, self.node_terms, self.is_one_per_node, self.gang, self.scheduler)
        return tuple(sorted(self.requests.items())), *rest


def is_perhaps_gang(pods: PodClass | Scheduling) -> bool:
    """Whether they may take no node before there is room for all. Schedulers for jobs, such as Volcano, name their
    gangs each in a way of its own."""
    return bool(pods.gang) or pods.scheduler != DEFAULT_SCHEDULER


def class_of(pod: Pod, scheduling: Scheduling) -> PodClass:
    """The class of an unbound pod."""
    return PodClass(
        requests=pod.requests,
        tolerations=scheduling.tolerations,
        node_selector=tuple(sorted(scheduling.node_selector.items())),
        node_terms=scheduling.node_terms,
        is_one_per_node=scheduling.is_one_per_node,
        gang=f"{pod.key.namespace}/{scheduling.gang}" if scheduling.gang else "",
        scheduler=scheduling.scheduler,
    )


def keys_of(classes: Iterable[PodClass]) -> tuple[str, ...]:
    """The labels that any of these classes reads, sorted; without the host's name, which no two nodes share."""
    return tuple(sorted(set[str]().union(*map(_keys, classes)) - {HOST_LABEL}))


def reads_host(wanted: PodClass) -> bool:
    """Whether the class chooses nodes by their host's name."""
    return HOST_LABEL in _keys(wanted)


def _keys(wanted: PodClass) -> set[str]:
    selected = {key for key, _ in wanted.node_selector}
    return selected | {part.key for term in wanted.node_terms for part in term}


def admits(node: Node, wanted: PodClass) -> bool:
    """Whether the node's labels and taints let the class in, whatever runs there."""
    if node.is_cordoned or node.is_deleting or not node.is_ready:
        return False
    if node.taints and untolerated(node.taints, wanted.tolerations) is not None:
        return False
    return is_selected(node.labels, wanted.node_selector, wanted.node_terms)


def room_without_balloon(node: Node, load: NodeLoad) -> Resources:
    """What the node would offer if its balloons were gone, in milli-units."""
    return minus(minus(node.allocatable, load.daemons), load.others)


def how_many(wanted: PodClass, room: Resources) -> int:
    """How many pods of the class fit into the room."""
    counts = list[int]()
    for name, milli in wanted.requests.items():
        if milli > (left := room.get(name, 0)):
            return 0  # at once: most nodes of a large cluster are full
        if milli:
            counts.append(left // milli)
    most = min(counts, default=0)
    return min(most, 1) if wanted.is_one_per_node else most


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
        self._looks = 0
        held = [(node, loads.get(node.name) or EMPTY) for node in holdable]
        warm = [(node, load) for node, load in held if load.balloons]
        warm.sort(key=lambda pair: _leaves_first(_turn(pair[1].balloons[0], wall_s)))
        # Room that is free anyway comes before idle nodes, idle nodes before warm ones.
        self._file([(node, loads.get(node.name) or EMPTY) for node in open_nodes], rank=0)
        self._file([(node, load) for node, load in held if not load.balloons], rank=1)
        self._file(warm, rank=2)

    def _file(self, nodes: Iterable[tuple[Node, NodeLoad]], rank: int) -> None:
        for node, load in nodes:
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

    def take(self, wanted: PodClass, count: int, *, beside_work: bool = True) -> list[Node]:
        """Places for up to `count` pods of one class, a node once per pod that it takes; for all of a gang, or none.

        Open nodes are left out where not `beside_work`.
        """
        by_host = reads_host(wanted)
        fitting = (
            group
            for (rank, *_), group in self._groups.items()
            if (rank or beside_work) and how_many(wanted, group.room) and (by_host or admits(group.nodes[0], wanted))
        )
        taken: list[tuple[Node, Resources]] = []
        for node, whole in ((node, group.room) for group in fitting for node in group.nodes):
            if len(taken) >= count or self.is_tired:
                break
            self._looks += 1
            if not by_host or admits(node, wanted):
                room = self._left.get(node.name, whole)
                taken += [(node, whole)] * min(how_many(wanted, room), count - len(taken))
        if wanted.gang and len(taken) < count:
            return []
        for node, whole in taken:
            self._left[node.name] = minus(self._left.get(node.name, whole), wanted.requests)
        return [node for node, _ in taken]


_Turn = tuple[tuple[bool, bool, int], float, int, int, str]
"""Of a balloon: its state and cost, since when it is Ready, how long as a rank, its age as a rank, its uid."""


def _turn(balloon: Pod, wall_s: float) -> _Turn:
    state = balloon.is_running, balloon.is_ready, balloon.deletion_cost
    age, ready = _rank(wall_s - balloon.created_s), _rank(wall_s - balloon.ready_s)
    return state, balloon.ready_s, ready, age, balloon.uid


def _rank(age_s: float) -> int:
    return max(0, int(age_s * 1e9)).bit_length()


def _compared(one: _Turn, other: _Turn) -> int:
    """Negative where a lowered ReplicaSet removes `one` first: what does not run or is not Ready comes before what is,
    then the cheapest, then what is Ready for a shorter time or, of those Ready since the same second, the younger
    (both in powers of two of nanoseconds), then by uid.

    Releasing in that order means that the ReplicaSet, which is lowered just before, nearly always picks the balloons
    that we delete and not others besides (k8s.io/kubernetes pkg/controller, ActivePodsWithRanks; LogarithmicScaleDown).
    It also looks at restarts, of which balloons have next to none. A balloon that had to wait for its node is older
    than it has been Ready, so its age alone does not tell. The second decides which time is compared: this is no order
    that a key could give, as one may come before another, that before a third, and the third before the first.
    """
    by_age = one[1] == other[1]
    mine, theirs = (one[0], one[3 if by_age else 2], one[4]), (other[0], other[3 if by_age else 2], other[4])
    return (mine > theirs) - (mine < theirs)


_leaves_first = cmp_to_key(_compared)


_Class = tuple[ClassKey, PodClass, list[Pod]]


@dataclass(frozen=True, slots=True)
class Reservations:
    """`taker` names, per reserved node, the waiting pod it is meant for; `since_s` remembers when each pod (uid) was
    first given a node. Nodes that hold a balloon must be released, the others just kept free.

    Nodes in `at_once` are for pods that the scheduler makes no room for. `looked` are the classes that have had their
    turn while others wait for theirs; empty once all had it.
    """

    taker: Mapping[str, str] = field(default_factory=dict)
    since_s: Mapping[str, float] = field(default_factory=dict)
    at_once: frozenset[str] = frozenset()
    looked: frozenset[ClassKey] = frozenset()
    open_since_s: Mapping[str, float] = field(default_factory=dict)
    """Since when each pod (uid) that nobody makes room for has seemed to have room on an open node."""
    unplaced: tuple[tuple[PodClass, int], ...] = ()
    """How many pods of each class wait and were given no node; those with rules that are not judged here, too."""


def reserve(
    waiting: Iterable[Pod],
    open_nodes: Sequence[Node],
    holdable: Sequence[Node],
    loads: Mapping[str, NodeLoad],
    before: Reservations,
    balloon_priority: int,
    now: Now,
) -> Reservations:
    """Give waiting pods nodes: room on `open_nodes` first (busy ones of the pools), then holdable nodes without a
    balloon, then warm ones. `before` is what they were given last. Pods that did not take their node within
    `RESERVATION_S` are passed over, so that a pod that cannot be judged here never keeps nodes without a balloon for
    ever; after `RETRY` times as long they are tried again. A pod that nobody makes room for, and that did not take its
    room on an open node within that time, is kept off it by a rule that is not judged here: for it, and for its gang,
    open nodes no longer count. What may be a gang is passed over and tried again as one: its scheduler takes no node
    before there are enough."""
    now_s = now.monotonic_s
    since_s, open_since_s = before.since_s, before.open_since_s
    candidates = [pod for pod in waiting if _is_to_be_scheduled(pod, balloon_priority)]
    pods = [pod for pod in candidates if _is_judged_here(pod)]
    judged = _classes(pods)
    in_turn = {pod.uid for pod in pods if _has_turn(now_s - since_s.get(pod.uid, now_s))}
    classes = [
        (key, wanted, having) for key, wanted, all_ in judged if (having := [pod for pod in all_ if pod.uid in in_turn])
    ]
    places_given: list[tuple[Pod, Node]] = []
    done: set[ClassKey] = set()
    if classes:
        places = Places(
            open_nodes, holdable, loads, now.wall.timestamp(), keys_of([wanted for _, wanted, _ in classes])
        )
        for key, wanted, members in _in_turn(classes, since_s, before.looked)[:MOST_CLASSES]:
            if places.is_tired:
                break
            done.add(key)
            kept_off = {pod.uid for pod in members if now_s - open_since_s.get(pod.uid, now_s) >= RESERVATION_S}
            places_given += _places_for(members, wanted, places, kept_off)
    present = {key for key, _, _ in classes}
    had_turn = (before.looked & present) | done
    is_holdable = {node.name for node in holdable} if places_given else set()
    at_once = {node.name for pod, node in places_given if _is_left_to_us(pod)}
    taker: dict[str, str] = {}
    placed: dict[str, float] = {}
    in_the_open: dict[str, float] = {}
    for pod, node in places_given:
        if node.name in is_holdable:
            taker.setdefault(node.name, str(pod.key))
            placed[pod.uid] = since_s.get(pod.uid, now_s)
        elif _is_left_to_us(pod):
            in_the_open[pod.uid] = now_s
    known = {p.uid: since_s[p.uid] for p in pods if p.uid in since_s}
    if known:
        begun = {_who_asks(p) for p in pods if p.uid in placed and p.uid not in since_s} - {""}
        known |= {p.uid: now_s for p in pods if p.uid in known and _who_asks(p) in begun}
    in_the_open |= {p.uid: open_since_s[p.uid] for p in pods if p.uid in open_since_s}
    still_waits = frozenset() if had_turn >= present else frozenset(had_turn)
    with_node = {pod.uid for pod, _ in places_given}
    all_classes = [*judged, *_classes(pod for pod in candidates if not _is_judged_here(pod))]
    left = [(wanted, sum(pod.uid not in with_node for pod in members)) for _, wanted, members in all_classes]
    return Reservations(taker, {**placed, **known}, frozenset(at_once), still_waits, in_the_open, tuple(left))


def _places_for(
    members: Sequence[Pod], wanted: PodClass, places: Places, kept_off: Collection[str]
) -> Iterator[tuple[Pod, Node]]:
    """Nodes for pods of one class; to those that are `kept_off` (uids) open nodes are closed, to a gang as a whole."""
    if wanted.gang and kept_off:
        kept_off = {pod.uid for pod in members}
    for beside_work in (False, True):
        alike = [pod for pod in members if (pod.uid not in kept_off) is beside_work]
        if alike:
            yield from zip(alike, places.take(wanted, len(alike), beside_work=beside_work), strict=False)


def _is_left_to_us(pod: Pod) -> bool:
    """Whether a balloon gives way even for it alone: nobody preempts for it, or its volumes leave it few nodes."""
    how = pod.scheduling
    return how is not None and (how.cannot_preempt or how.is_bound_by_volumes)


def _who_asks(pod: Pod) -> str:
    """Whose pods may be of use only together, by gang, controller or namespace; empty where they are placed singly."""
    how = pod.scheduling
    if how is None or not is_perhaps_gang(how):
        return ""
    return pod.owner.uid if not how.gang and pod.owner else f"{pod.key.namespace}/{how.gang}"


def _has_turn(age_s: float) -> bool:
    return age_s % (RETRY * RESERVATION_S) < RESERVATION_S


def _in_turn(classes: Sequence[_Class], since_s: Mapping[str, float], looked: frozenset[ClassKey]) -> list[_Class]:
    """Classes that have been given nodes keep them, those that had no turn yet come next; else by priority."""

    def rank(group: _Class) -> int:
        key, _, members = group
        return 0 if any(pod.uid in since_s for pod in members) else 1 + (key in looked)

    return sorted(classes, key=rank)


def _is_to_be_scheduled(pod: Pod, balloon_priority: int) -> bool:
    """Whether it waits for a node now, and balloons are below it."""
    is_held_back = pod.scheduling is None or pod.scheduling.is_gated or pod.is_terminating or pod.is_finished
    return not is_held_back and pod.priority > balloon_priority


def _is_judged_here(pod: Pod) -> bool:
    """Claims of devices are judged where nobody else makes room: the scheduler knows which nodes have such devices."""
    how = pod.scheduling
    is_starving = how is not None and how.is_bound_by_claims and how.cannot_preempt
    return is_starving or (how is not None and (not how.is_opaque or how.is_bound_by_volumes))


def _classes(pods: Iterable[Pod]) -> list[_Class]:
    """Pods by class, highest priority and oldest pod first; only classes the scheduler has found no room for.

    One refused member speaks for its class: those behind it in the scheduler's queue will be refused as well.
    """
    classes: dict[ClassKey, tuple[PodClass, list[Pod]]] = {}
    for pod in sorted(pods, key=lambda p: (-p.priority, p.created_s, p.key)):
        if pod.scheduling is not None:
            wanted = class_of(pod, pod.scheduling)
            classes.setdefault((pod.priority, wanted.key), (wanted, []))[1].append(pod)
    return [
        (key, wanted, members)
        for key, (wanted, members) in classes.items()
        if any(p.scheduling and p.scheduling.is_tried for p in members)
    ]


def taken_on_their_way(
    nodes: Sequence[Node], size_of: Callable[[Node], Resources], unplaced: Iterable[tuple[PodClass, int]]
) -> int:
    """How many of these nodes, which are on their way, pods that wait will take, at most.

    A node may not name its devices yet: it is taken to have what a balloon would ask for there. Whether that is enough
    is not known for certain, so a pod takes a node also where it seems too large.
    """
    taken = 0
    for wanted, count in unplaced:
        admitting: dict[str, Node] = {}
        for node in nodes:
            if node.instance_type not in admitting and _will_admit(node, wanted):
                admitting[node.instance_type] = node
        if admitting:
            least = min(how_many(wanted, larger(node.allocatable, size_of(node))) for node in admitting.values())
            taken += ceil(count / max(1, least))
    return min(taken, len(nodes))


def _will_admit(node: Node, wanted: PodClass) -> bool:
    staying = [taint for taint in node.taints if not is_joining_taint(taint)]
    is_open = untolerated(staying, wanted.tolerations) is None
    return is_open and is_selected(node.labels, wanted.node_selector, wanted.node_terms)


def releases(nodes: Iterable[Node], reserved: Reservations, loads: Mapping[str, NodeLoad]) -> list[tuple[Pod, str]]:
    """The balloons to delete on these reserved nodes, each with the pod that it gives way to; of fewer than make a
    burst only those `at_once`."""
    pairs = [
        (load.balloons[0], reserved.taker[name])
        for name in sorted(node.name for node in nodes)
        if (load := loads.get(name) or EMPTY).balloons
    ]
    if len(pairs) >= BURST_AT_LEAST:
        return pairs
    return [(balloon, taker) for balloon, taker in pairs if balloon.node in reserved.at_once]
