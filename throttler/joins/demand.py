"""How many more nodes are wanted: from pods that the scheduler has found no room for, and from what Headroom wants.
Pure.

An estimate: as many pods of one size share a node as fit on the largest one that lets them in, and what is left over of
one size is filled with others. Whole-node pods, the case that matters, are exact. Machines in flight are for these very
pods, so they are taken off.

It looks at a crowd of pods, kind by kind. `throttler.levers.scheduling_gate` looks at a row of them, one by one,
because it has to say after each how many nodes those before it need; of pods that are alike both say the same.

Pods that fit nowhere are no demand: a whole search for room ordered nothing for them. A large cluster always has some:
a volume that cannot be bound, a selector with a typing error, pods of another autoscaler. They would keep ceilings in
force, places in flight and the law awake for ever. What an autoscaler may order and does not tells them from the
others; why it does not, only the autoscaler knows.

The clocks of a search run only while pods that nothing of ours holds back need more machines than are on their way, and
the autoscaler has room for them and is seen to know it. A pod is given up when one of them has run for `SEARCH_S` in
its lifetime: there was room and no machine was ordered at all, or there was room for everything that waited, and it
still waits while others were served. Whoever waits because the window is small runs neither: its turn to order ends the
first, and there is no room for all. Where no ceiling bounds the autoscaler (gates) there always is room for all, and
only what it orders tells that it is there: for those before that order, once it has had time to order for them too.
Where it orders nothing, a pilot finds out (`is_unanswered`).
"""

from collections import defaultdict
from collections.abc import Collection, Container, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from typing import Self

from throttler.joins.joins import JoinRules
from throttler.kube.node import Node, is_leaving
from throttler.kube.pod import Pod, PodKind, Scheduling
from throttler.kube.quantities_and_durations import Resources, fits
from throttler.kube.selectors import LabelSelector, are_disjoint, can_match, is_selected
from throttler.kube.taints import untolerated


class Sizes:
    """How large the machine is that a pod gets: the largest of those that it may run on.

    A cluster has machines of many sizes, and taints and labels tell which of them are for whom. Sixteen cores are no
    part of a GPU machine for a pod that does not tolerate its taint, nor of a virtual kubelet, which says that it has
    thousands. A pod that no known machine lets in has one to itself.

    For one look: pods are told apart by the parts that caches share between equal ones.
    """

    def __init__(self, machines: Sequence[Node]) -> None:
        """`machines` are nodes, one of each kind, the largest first."""
        self._machines = machines
        self._known: dict[tuple[int, ...], Node | None] = {}

    def machine_for(self, how: Scheduling, requests: Resources) -> Node | None:
        """A node of that size; None where none is known."""
        kind = id(requests), id(how.tolerations), id(how.node_selector), id(how.node_terms)
        if kind not in self._known:
            self._known[kind] = self._found(how, requests)
        return self._known[kind]

    def _found(self, how: Scheduling, requests: Resources) -> Node | None:
        able = [
            machine
            for machine in self._machines
            if fits(requests, machine.allocatable) and untolerated(machine.taints, how.tolerations) is None
        ]
        selected = (one for one in able if is_selected(one.labels, how.node_selector.items(), how.node_terms))
        # Nodes of a kind differ in some labels, such as their zone's: then any that lets the pod in tells its size.
        return next(selected, next(iter(able), None))


@dataclass(frozen=True, slots=True)
class Demand:
    """Nodes wanted by pods; `urgent` of them pass by the reserved lane."""

    nodes: int
    urgent: int


@dataclass(frozen=True, slots=True)
class Crowd:
    """Waiting pods that ask the same of a node; `requests` are those of one of them, in milli-units."""

    how: Scheduling
    requests: Resources
    nodes: float
    """How many nodes they need together; less than one where they leave room on it for others."""
    is_urgent: bool = False
    owner: str = ""
    """Who asks: the gang or the controller."""


def count_demand(
    unplaced: Iterable[Pod], rules: JoinRules, machines: Sequence[Node], released: Container[str] = ()
) -> Demand:
    """What the throttle's waiting pods need; every pod a node while no machine is known.

    `released` are pods (by uid) that wait although the scheduler has not tried them yet: a lever let them go just now.
    """
    crowds = waiting_crowds(unplaced, rules, machines, released)
    urgent = sum(crowd.nodes for crowd in crowds if crowd.is_urgent)
    return Demand(_whole(sum(crowd.nodes for crowd in crowds)), _whole(urgent))


def waiting_crowds(
    unplaced: Iterable[Pod], rules: JoinRules, machines: Sequence[Node], released: Container[str] = ()
) -> tuple[Crowd, ...]:
    """The throttle's waiting pods, those together that are alike; a crowd is as urgent as its owner's whole demand."""
    sizes, shares = Sizes(machines), defaultdict[str, float](float)
    least: dict[str, int] = {}
    crowds: list[tuple[str, Scheduling, Resources, float]] = []
    for how, pods in _alike(pod for pod in unplaced if pod.uid in released or _waits(pod, rules)):
        first, owner = pods[0], _owner_of(pods[0])
        if may_use(first, rules):
            nodes = len(pods) * _share(how, first.requests, sizes)
            shares[owner] += nodes
            least[owner] = min(first.priority, least.get(owner, first.priority))
            crowds.append((owner, how, first.requests, nodes))
    urgent = {owner for owner, share in shares.items() if _is_urgent(share, least[owner], rules)}
    return tuple(Crowd(how, requests, nodes, owner in urgent, owner) for owner, how, requests, nodes in crowds)


def seekers(unplaced: Iterable[Pod], rules: JoinRules, released: Container[str] = ()) -> list[Pod]:
    """Waiting pods that may use the throttle's nodes and that nothing of ours holds back: an autoscaler sees them.

    `released` are as of `count_demand`.
    """
    waiting = _alike(pod for pod in unplaced if pod.uid in released or _waits(pod, rules))
    return [pod for how, pods in waiting if not how.is_gated and may_use(pods[0], rules) for pod in pods]


def nodes_of(pods: Iterable[Pod], machines: Sequence[Node]) -> int:
    """How many nodes these pods need; every pod one while no machine is known."""
    sizes = Sizes(machines)
    return _whole(sum(len(alike) * _share(how, alike[0].requests, sizes) for how, alike in _alike(pods)))


IN_VAIN, LEAST_IN_VAIN = 0.5, 2.0
"""Of what may be in flight together, and nodes: when pods that ask the same fill so much of it in vain, no more of them
are let go. One alone may have another reason, which is not seen here."""


def held_in_vain(
    unplaced: Iterable[Pod], hopeless: Container[str], at_a_time: float, rules: JoinRules, machines: Sequence[Node]
) -> frozenset[str]:
    """Pods (by uid) that our gate holds, where others that ask the same of a node were let go and are `hopeless`.

    Let go, they would be hopeless as well, and all start together on the day when stock comes back. What nobody judges
    here (volumes, affinity to pods), and gangs, may find a place where others have found none; so may a more urgent
    pod, which takes the place of others, and one that may share a node with its like. `at_a_time` is how many nodes may
    be in flight together.
    """
    given_up: dict[object, list[Pod]] = {}
    held: dict[object, list[Pod]] = {}
    for pod in unplaced:
        how = pod.scheduling
        if how is not None and not (how.is_opaque or how.gang):
            kind = *kind_of(pod), how.scheduler, how.cannot_preempt, how.is_one_per_node
            if pod.uid in hopeless:
                given_up.setdefault(kind, []).append(pod)
            elif how.gates == (rules.gate,):
                held.setdefault(kind, []).append(pod)
    in_vain: set[str] = set()
    enough = max(LEAST_IN_VAIN, IN_VAIN * at_a_time)
    for asked in given_up.keys() & held.keys():
        pods = given_up[asked]
        for least in {pod.priority for pod in pods}:
            if nodes_of((pod for pod in pods if pod.priority >= least), machines) >= enough:
                in_vain.update(pod.uid for pod in held[asked] if pod.priority <= least)
    return frozenset(in_vain)


def is_loose(pod: Pod, rules: JoinRules) -> bool:
    """Whether the pod is work for the throttle's nodes that nothing holds back."""
    how = pod.scheduling
    may_start = how is not None and not how.is_gated and not pod.is_terminating and not pod.is_finished
    return pod.kind is PodKind.WORK and may_start and may_use(pod, rules)


def nodes_open_to(pods: Iterable[Pod], nodes: Iterable[tuple[Node, Resources]]) -> int:
    """How many of these nodes, each with what is free there, would take one of the pods now, by labels and taints."""
    kinds = [(how, alike[0].requests) for how, alike in _alike(pods)]
    there = (one for one in nodes if is_open(one[0]))
    return sum(any(fits(requests, free) and lets_in(node, how) for how, requests in kinds) for node, free in there)


def is_open(node: Node) -> bool:
    """Whether the node takes work now and is to stay: whom it lets in is another question."""
    return node.is_ready and not (node.is_cordoned or node.is_uninitialized or is_leaving(node))


def lets_in(node: Node, how: Scheduling) -> bool:
    """Whether the node's labels and taints allow the pod."""
    is_selected_by_it = is_selected(node.labels, how.node_selector.items(), how.node_terms)
    return is_selected_by_it and untolerated(node.taints, how.tolerations) is None


def is_opaque(pod: Pod) -> bool:
    """Whether a rule that is not judged here says where it may go."""
    return pod.scheduling is not None and pod.scheduling.is_opaque


def is_of_gang(pod: Pod) -> bool:
    """Whether it is useful only together with others, so that the scheduler may place it only with them."""
    return pod.scheduling is not None and bool(pod.scheduling.gang)


def kind_of(pod: Pod) -> tuple[int, ...]:
    """What the pod asks of a node; caches share the parts that equal pods have, so identity tells."""
    how = pod.scheduling or Scheduling()
    return id(pod.requests), id(how.tolerations), id(how.node_selector), id(how.node_terms)


def _alike(pods: Iterable[Pod]) -> Iterable[tuple[Scheduling, list[Pod]]]:
    """Pods of one owner and one kind together; caches share the parts that equal pods have, so identity tells."""
    alike: dict[tuple[object, ...], tuple[Scheduling, list[Pod]]] = {}
    for pod in pods:
        how = pod.scheduling
        if how is not None:
            kind = _owner_of(pod), pod.priority, id(pod.requests), id(how.node_selector), id(how.node_terms)
            alike.setdefault((*kind, id(how.tolerations), how.is_one_per_node, how.is_gated), (how, []))[1].append(pod)
    return alike.values()


def may_use(pod: Pod, rules: JoinRules) -> bool:
    """Whether nothing that the pod asks of a node rules out the throttle's nodes."""
    how = pod.scheduling
    if how is None:
        return False
    if not can_match(rules.nodes, how.node_selector):
        return False
    terms = (LabelSelector({}, term) for term in how.node_terms)
    return not how.node_terms or any(not are_disjoint(term, rules.nodes) for term in terms)


def _waits(pod: Pod, rules: JoinRules) -> bool:
    """Refused by the scheduler and not about to take a node, or held back by our own gate."""
    how = pod.scheduling
    if how is None or pod.is_terminating or pod.is_finished:
        return False
    if how.is_gated:
        return how.gates == (rules.gate,)
    return is_refused(pod)


def is_refused(pod: Pod) -> bool:
    """Whether the scheduler has found no node for it, and none is about to be free: an autoscaler orders one."""
    how = pod.scheduling
    return how is not None and how.is_tried and not how.nominated_node


def _share(how: Scheduling, requests: Resources, sizes: Sizes) -> float:
    """The part of a node that the pod takes: all of it when two do not fit, or when not even one does."""
    machine = sizes.machine_for(how, requests)
    size = machine.allocatable if machine is not None else {}
    alike = min((size.get(name, 0) // milli for name, milli in requests.items() if milli > 0), default=1)
    return 1.0 if how.is_one_per_node else 1.0 / max(1, alike)


def _whole(nodes: float) -> int:
    # Thirds and the like do not add up to whole numbers exactly.
    return ceil(nodes - 1e-6)


def _is_urgent(nodes: float, priority: int, rules: JoinRules) -> bool:
    least = rules.reserved.priority_at_least
    is_small = _whole(nodes) <= rules.reserved.demand_at_most
    return is_small or (least is not None and priority >= least)


def _owner_of(pod: Pod) -> str:
    """Who asks: the gang or the controller; pods without either are one crowd per namespace."""
    gang = pod.scheduling.gang if pod.scheduling else ""
    return pod.owner.uid if not gang and pod.owner and pod.owner.uid else f"{pod.key.namespace}/{gang}"


SEARCH_S = 180.0
"""Longer than the levers take to try every size of room (80 s), and than several looks of a slow autoscaler."""
LONGEST_LOOK_S = 30.0
"""A pause of the service counts as no more than this."""
ORDERS_ALL_S = 60.0
"""Who was away and has ordered a first machine orders for all that wait within this: several looks of a slow one."""
HOPE_EVERY_S, MOST_HOPES = 900.0, 3.0
"""Other machines on offer give new hope this often in the mean, and so many times in a row. NodePools may come and go
with their jobs, and the largest of a fleet's machines with each spot node: no search would ever end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """What is remembered; losing it costs one search."""

    unused_s: float = 0.0
    """For how long there was room, all searches together."""
    ordered_at_s: float = 0.0
    """What that clock said when a machine was ordered last."""
    for_all_s: float = 0.0
    """For how long there was room for everything that waited."""
    answered_s: float = 0.0
    """What that clock said when the autoscaler was last known to be there."""
    proven_s: float = 0.0
    """How far that clock counts: up to an order that has left it time for the others."""
    proof_s: float | None = None
    """What that clock said at the first order that does not count yet; None where there is none."""
    began: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """What `unused_s` and `for_all_s` said when each waiting pod (by uid) was seen first."""
    unserved: tuple[tuple[float, int], ...] = ()
    """(`for_all_s`, machines that were lacking), oldest first, the fewer ones only: the latest is that of the last
    look, the first the least of the last search."""
    hopeless: frozenset[str] = frozenset()
    """Pods (by uid) that were given up; when looked at, with those that a gate holds in vain beside them."""
    offer: Hashable = None
    """The machines that were on offer: what was searched in vain among others is searched anew."""
    hopes: float = MOST_HOPES
    """How many times other machines on offer may give new hope."""
    waiting: int = 0
    """Nodes that were waited for at the last count, for pods that were let go as well; hopeless ones left out."""

    def looked(
        self,
        pods: Collection[str],
        unserved: int,
        room: int | None,
        offer: Hashable,
        elapsed_s: float,
        *,
        is_ordered: bool,
    ) -> Self:
        """After a look at the pods that an autoscaler sees waiting (by uid).

        `unserved` is how many machines they need besides those that are on their way, `room` what the autoscaler could
        have ordered since the last look, None where nothing of ours bounds it. A machine that is ordered while nothing
        else waits is for pods that were given up: they may hope again.
        """
        hopes = min(MOST_HOPES, self.hopes + elapsed_s / HOPE_EVERY_S)
        is_other_offer = offer != self.offer and hopes >= 1.0
        if is_other_offer or (is_ordered and not self.waiting and self.hopeless):
            hopes -= 1.0 if is_other_offer else 0.0
            return type(self)(began=dict.fromkeys(pods, (0.0, 0.0)), offer=offer, hopes=hopes)
        lacking = self.unserved[-1][1] if self.unserved else 0
        lasted_s = min(elapsed_s, LONGEST_LOOK_S) if lacking else 0.0
        unused_s = self.unused_s + (lasted_s if room else 0.0)
        for_all_s = self.for_all_s + (lasted_s if room is None or room >= lacking else 0.0)
        proven_s, proof_s = self.proven_s, self.proof_s
        if room is not None:
            proven_s = for_all_s
        elif proof_s is not None and for_all_s - proof_s >= ORDERS_ALL_S:
            proven_s, proof_s = proof_s, None
        if is_ordered and proof_s is None:
            proof_s = for_all_s
        kept = (sample for sample in self.unserved if sample[1] < unserved and for_all_s - sample[0] < SEARCH_S)
        after = replace(
            self,
            hopes=hopes,
            unused_s=unused_s,
            for_all_s=for_all_s,
            ordered_at_s=unused_s if is_ordered else self.ordered_at_s,
            answered_s=self.answered_s if room is None and not is_ordered else for_all_s,
            proven_s=proven_s,
            proof_s=proof_s,
            began={uid: self.began.get(uid, (unused_s, for_all_s)) for uid in pods},
            unserved=(*kept, (for_all_s, unserved)),
        )
        # A pod that a gate held in vain, and that was let go since, begins its own search.
        still = self.hopeless.intersection(pods).intersection(self.began)
        return replace(after, hopeless=still.union(after._given_up()))

    def is_unanswered(self, released: Iterable[str]) -> bool:
        """Whether pods that a gate let go (by uid) were seen to wait for a whole search, and nothing was ordered.

        Only of pods that nothing of ours bounds: nothing tells then whether an autoscaler is there.
        """
        begun = [self.began.get(uid, (self.unused_s, self.for_all_s))[1] for uid in released]
        return bool(begun) and self.for_all_s - max(self.answered_s, *begun) >= SEARCH_S

    def _given_up(self) -> list[str]:
        """Pods whose search was in vain, the first comers first.

        Machines on their way may be for any of the pods. So never more are given up than machines are lacking now, and
        of those beside which others were served no more than were lacking all the time.
        """
        waiting = sorted(self.began.keys() - self.hopeless, key=lambda uid: (self.began[uid], uid))
        nothing_came = [
            uid for uid in waiting if self.unused_s - max(self.began[uid][0], self.ordered_at_s) >= SEARCH_S
        ]
        others_came = [uid for uid in waiting if self.proven_s - self.began[uid][1] >= SEARCH_S]
        return nothing_came[: self.unserved[-1][1]] + others_came[: self.unserved[0][1]]
