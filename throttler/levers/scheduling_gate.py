"""Scheduling gates: pods whose author put our gate in their template are hidden from the autoscaler until released.

The cleanest lever before launch (facts.md 2.4): nobody asks for a machine for a gated pod. We only ever take our gate
off; putting gates on is the author's decision, and the API server forbids it on existing pods. A pod that others hold
too is not ours to count yet: it is left until only our gate remains.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from throttler.kube.pod import Pod, PodKind
from throttler.kube.resources import Resources
from throttler.levers.held import Held, HeldSince, Moment, Queue, let_in, queue
from throttler.levers.hold_because import hold_report, why_let_in
from throttler.levers.lever import How, LeverOutcome, LeverWrite, Room
from throttler.levers.one_element import without_elements
from throttler.levers.packing import nodes_for, nodes_opened

PACED_GATE = "kube-balloons.github.io/paced"
"""The scheduling gate that workloads opt in with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GateSettings:
    """The longest that a pod is held, and who passes first."""

    max_wait_s: float
    urgent_priority: int | None = None
    """Pods of this priority or above are urgent (`reserved.priorityAtLeast`)."""
    small_nodes: int = 0
    """So are those of an owner whose held pods need no more nodes than this (`reserved.demandAtMost`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What the throttle's pods ask of its nodes."""

    pods: Sequence[Pod]
    """Work pods without a node, gated or not, that are for nodes of this throttle."""
    shape: Resources
    """Allocatable of the largest node seen (`JoinMemory.largest`)."""
    in_flight: int
    """Nodes asked for and not usable yet: some pods that were released wait for these."""


def release_gates(
    demand: Demand, settings: GateSettings, room: Room, since: HeldSince, moment: Moment
) -> tuple[LeverOutcome, HeldSince]:
    """Which pods lose our gate now; `room.allowance` is in nodes.

    Pods that were released and have neither a node nor a machine on its way count against the allowance: the autoscaler
    takes seconds to see them, and would otherwise be given the same room twice.
    """
    held = {pod.uid: pod for pod in demand.pods if is_held(pod) and (is_ours_alone(pod) or room.is_stopping)}
    since = since.seen({uid: pod.created_s for uid, pod in held.items()}, moment, is_complete=room.may_move)
    urgent = _urgent(held, demand.shape, settings)
    waits = (Held(uid, since.age_s(uid, moment.now_s), uid in urgent) for uid in held)
    queued = queue(waits, settings.max_wait_s)
    chosen = let_in(queued, _places(queued, held, demand, room), room)
    writes = tuple(_ungate(held[each.id], each, settings, room) for each in chosen)
    report = hold_report(f"SchedulingGate/{PACED_GATE}", queued, len(chosen), settings.max_wait_s, room)
    return LeverOutcome(report=report, writes=writes), since


def is_held(pod: Pod) -> bool:
    """Whether our gate is on the pod, among others or alone."""
    scheduling = pod.scheduling
    return scheduling is not None and PACED_GATE in scheduling.gates and not pod.is_terminating and not pod.is_finished


def is_ours_alone(pod: Pod) -> bool:
    """Whether nothing but our gate keeps the pod from the scheduler."""
    return pod.scheduling is not None and set(pod.scheduling.gates) == {PACED_GATE}


def _places(queued: Queue, held: Mapping[str, Pod], demand: Demand, room: Room) -> int:
    """How many pods, overdue ones included, the allowance has nodes for."""
    free = room.allowance - max(0, nodes_for(_loose(demand.pods), demand.shape) - demand.in_flight)
    in_turn = [held[each.id] for each in (*queued.overdue, *queued.waiting)]
    return sum(opened <= free for opened in nodes_opened(in_turn, demand.shape))


def _loose(pods: Iterable[Pod]) -> list[Pod]:
    """Pods without a gate that wait for a node: demand that the autoscaler sees."""
    return [
        pod
        for pod in pods
        if pod.kind is PodKind.WORK
        and pod.scheduling is not None
        and not pod.scheduling.gates
        and not pod.is_terminating
        and not pod.is_finished
    ]


def _urgent(held: Mapping[str, Pod], shape: Resources, settings: GateSettings) -> frozenset[str]:
    needed = {owner: nodes_for(pods, shape) for owner, pods in _by_owner(held.values())}
    at_least = settings.urgent_priority
    return frozenset(
        uid
        for uid, pod in held.items()
        if (at_least is not None and pod.priority >= at_least) or needed[_owner_of(pod)] <= settings.small_nodes
    )


def _by_owner(pods: Iterable[Pod]) -> Iterator[tuple[str, list[Pod]]]:
    groups: dict[str, list[Pod]] = {}
    for pod in pods:
        groups.setdefault(_owner_of(pod), []).append(pod)
    return iter(groups.items())


def _owner_of(pod: Pod) -> str:
    """Who asks: the gang or the controller; a pod without either asks for itself."""
    gang = pod.scheduling.gang if pod.scheduling else ""
    if gang:
        return f"{pod.key.namespace}/{gang}"
    return pod.owner.uid if pod.owner and pod.owner.uid else pod.uid


def _ungate(pod: Pod, held: Held, settings: GateSettings, room: Room) -> LeverWrite:
    gates = pod.scheduling.gates if pod.scheduling else ()
    ours = [index for index, gate in enumerate(gates) if gate == PACED_GATE]
    return LeverWrite(
        api_version="v1",
        kind="Pod",
        key=pod.key,
        how=How.JSON,
        body=without_elements("/spec/schedulingGates", ours, pod.resource_version, {"name": PACED_GATE}),
        because=why_let_in(held, settings.max_wait_s, room),
    )
