"""How many more nodes are wanted: from pods that the scheduler has found no room for, and from what Headroom wants.

An estimate: as many pods of one size share a node as fit on the largest one, and what is left over of one size is
filled with others. Whole-node pods, the case that matters, are exact. Machines in flight are for these very pods, so
they are taken off.

It looks at a crowd of pods, kind by kind. `throttler.levers.packing` looks at a row of them, one by one, because it has
to say after each how many nodes those before it need; of pods that are alike both say the same.
"""

from collections import defaultdict
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, replace
from math import ceil

from throttler.joins.join_world import JoinRules
from throttler.kube.pod import Pod, PodKind, Scheduling
from throttler.kube.quantity import Resources
from throttler.kube.selectors import Requirement, can_match, meets


@dataclass(frozen=True, slots=True)
class Demand:
    """Nodes wanted by pods; `urgent` of them pass by the reserved lane."""

    nodes: int = 0
    urgent: int = 0


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
    unplaced: Iterable[Pod], rules: JoinRules, largest: Resources, released: Container[str] = ()
) -> Demand:
    """What the throttle's waiting pods need; every pod a node while no size is known.

    `released` are pods (by uid) that wait although the scheduler has not tried them yet: a lever let them go just now.
    """
    crowds = waiting_crowds(unplaced, rules, largest, released)
    urgent = sum(crowd.nodes for crowd in crowds if crowd.is_urgent)
    return Demand(_whole(sum(crowd.nodes for crowd in crowds)), _whole(urgent))


def waiting_crowds(
    unplaced: Iterable[Pod], rules: JoinRules, largest: Resources, released: Container[str] = ()
) -> tuple[Crowd, ...]:
    """The throttle's waiting pods, those together that are alike; a crowd is as urgent as its owner's whole demand."""
    shares: dict[str, float] = defaultdict(float)
    least: dict[str, int] = {}
    found: list[tuple[str, Crowd]] = []
    for pods in _alike(pod for pod in unplaced if pod.uid in released or _waits(pod, rules)):
        first, owner = pods[0], _owner_of(pods[0])
        if first.scheduling is not None and may_use(first, rules):
            crowd = Crowd(first.scheduling, first.requests, len(pods) * _share(first, largest))
            shares[owner] += crowd.nodes
            least[owner] = min(first.priority, least.get(owner, first.priority))
            found.append((owner, crowd))
    urgent = {owner for owner, share in shares.items() if _is_urgent(share, least[owner], rules)}
    return tuple(replace(crowd, is_urgent=owner in urgent, owner=owner) for owner, crowd in found)


def seekers(unplaced: Iterable[Pod], rules: JoinRules) -> list[Pod]:
    """Waiting pods that may use the throttle's nodes and that nothing of ours holds back: an autoscaler sees them."""
    free = (pod for pod in unplaced if _waits(pod, rules) and not (pod.scheduling and pod.scheduling.is_gated))
    return [pod for pods in _alike(free) if may_use(pods[0], rules) for pod in pods]


def nodes_of(pods: Iterable[Pod], largest: Resources) -> int:
    """How many nodes these pods need; every pod one while no size is known."""
    return _whole(sum(len(alike) * _share(alike[0], largest) for alike in _alike(pods)))


def is_loose(pod: Pod, rules: JoinRules) -> bool:
    """Whether the pod is work for the throttle's nodes that nothing holds back."""
    how = pod.scheduling
    is_open = how is not None and not how.is_gated and not pod.is_terminating and not pod.is_finished
    return pod.kind is PodKind.WORK and is_open and may_use(pod, rules)


def _alike(pods: Iterable[Pod]) -> Iterable[list[Pod]]:
    """Pods of one owner and one kind together; caches share the parts that equal pods have, so identity tells."""
    found: dict[tuple[object, ...], list[Pod]] = {}
    for pod in pods:
        how = pod.scheduling
        if how is not None:
            kind = _owner_of(pod), pod.priority, id(pod.requests), id(how.node_selector), id(how.node_terms)
            found.setdefault((*kind, id(how.tolerations), how.is_one_per_node, how.is_gated), []).append(pod)
    return found.values()


def may_use(pod: Pod, rules: JoinRules) -> bool:
    """Whether nothing that the pod asks of a node rules out the throttle's nodes."""
    how, labels = pod.scheduling, rules.nodes.match_labels
    if how is None:
        return False
    if not can_match(rules.nodes, how.node_selector):
        return False
    return not how.node_terms or any(_may_hold(term, labels) for term in how.node_terms)


def _may_hold(term: Iterable[Requirement], labels: Mapping[str, str]) -> bool:
    return all(meets(part, labels) for part in term if part.key in labels)


def _waits(pod: Pod, rules: JoinRules) -> bool:
    """Refused by the scheduler and not about to take a node, or held back by our own gate."""
    how = pod.scheduling
    if how is None or pod.is_terminating or pod.is_finished:
        return False
    if how.is_gated:
        return how.gates == (rules.gate,)
    return how.is_tried and not how.nominated_node


def _share(pod: Pod, largest: Resources) -> float:
    """The part of a node that the pod takes: all of it when two do not fit, or when not even one does."""
    is_alone = pod.scheduling is not None and pod.scheduling.is_one_per_node
    alike = min((largest.get(name, 0) // milli for name, milli in pod.requests.items() if milli > 0), default=1)
    return 1.0 if is_alone else 1.0 / max(1, alike)


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
