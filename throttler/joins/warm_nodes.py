"""Pods that nodes take which are there and kept warm by balloons. Pure.

A balloon gives way to work at once, so such a pod needs no machine, and no pace has to hold it back. Only nodes with a
balloon count: that a node stands idle while others boot may mean that a pod which was let go is about to take it.

What the scheduler does is not foretold, only counted: pods in their order take the first place that has room for them
by requests, labels and taints. Who is held back by nothing comes first, also pods that the scheduler has refused: they
may be after the same nodes. A pod with a rule that is not judged here, or that is useful only together with others,
is let go in turn, as if it needed a machine.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from throttler.joins.demand import is_of_gang, is_opaque, is_open, kind_of, lets_in
from throttler.joins.joins import JoinRules
from throttler.kube.node import Node
from throttler.kube.pod import Pod, PodKind, Scheduling
from throttler.kube.quantities_and_durations import Resources, fits, minus, total

LEAST_PRIORITY = 0
"""Above every balloon's (-10 to -1): whoever is not could not make it leave."""

MOST_LOOKS = 100_000
"""Nodes looked at one by one in one decision (some 0.3 s); who comes after that is let go in turn."""

Place = tuple[Node, Sequence[Pod]]
"""A node and its pods."""


def takes_balloons_place(pod: Pod) -> bool:
    """Whether it may be let go because a balloon would leave for it.

    For one that may not preempt, balloons leave only once the scheduler has refused it, and an autoscaler hears of that
    too.
    """
    return pod.priority >= LEAST_PRIORITY and can_preempt(pod) and not (is_opaque(pod) or is_of_gang(pod))


def can_preempt(pod: Pod) -> bool:
    """Whether a balloon leaves for it when the scheduler first looks at it."""
    return pod.scheduling is not None and not pod.scheduling.cannot_preempt


def warm_places(nodes: Mapping[str, Node], pods: Mapping[str, Sequence[Pod]], rules: JoinRules) -> Iterator[Place]:
    """The throttle's nodes on which a balloon runs; nodes and pods are by the node's name."""
    # Of 100,000 nodes few have one, so all else is asked of these alone. A dict keeps their order.
    names = {
        name: here
        for name, here in pods.items()
        for pod in here
        if pod.kind is PodKind.BALLOON and pod.is_running and not (pod.is_terminating or pod.is_finished)
    }
    for name, here in names.items():
        node = nodes.get(name)
        if node is not None and is_open(node) and rules.selects(node.labels):
            yield node, here


def placed(pods: Iterable[Pod], places: Iterable[Place]) -> Iterator[Pod]:
    """Those of the pods, in their order, for which there is room beside those before them."""
    rooms, free, taken = list(places), dict[int, Resources](), set[int]()

    def has_room(at: int, requests: Resources, how: Scheduling) -> bool:
        node, here = rooms[at]
        if not (fits(requests, node.allocatable) and lets_in(node, how)):
            return False
        if how.is_one_per_node and (at in taken or any(map(_is_work, here))):
            return False
        if at not in free:
            stay = (pod.requests for pod in here if pod.kind is not PodKind.BALLOON and not pod.is_finished)
            free[at] = minus(node.allocatable, total(stay))
        return fits(requests, free[at])

    # Room only shrinks: where one of a kind did not fit, no later one of the kind fits either.
    next_for: dict[tuple[int, ...], int] = {}
    looks = MOST_LOOKS
    for pod in pods:
        if looks <= 0:
            return
        how = pod.scheduling or Scheduling()
        kind = (*kind_of(pod), how.is_one_per_node)
        first = at = next_for.get(kind, 0)
        while at < len(rooms) and not has_room(at, pod.requests, how):
            at += 1
        looks -= at - first
        if at < len(rooms):
            # Whom such a pod keeps off cannot be told from the pods that are there: it has its node to itself.
            taken.add(at)
            free[at] = {} if how.is_one_per_node else minus(free[at], pod.requests)
            yield pod
        next_for[kind] = at


def _is_work(pod: Pod) -> bool:
    return pod.kind is PodKind.WORK and not pod.is_finished
