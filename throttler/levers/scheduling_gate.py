"""Scheduling gates: pods whose author put our gate in their template are hidden from the autoscaler until released.

The cleanest lever before launch: nobody asks for a machine for a gated pod. We only ever take our gate off; putting
gates on is the author's decision, and the API server forbids it on existing pods. A pod that others hold too is not
ours to count yet: it is left until only our gate remains.

How many new nodes a row of pods needs is an estimate from their requests and the largest machine that lets each in.
Next fit: a pod goes on the node of that kind that was opened last, or opens another. It needs no more than twice the
nodes of a perfect packing, and knows nothing of ports, volumes or other pods: whole-node pods, the case that matters,
are exact.
`throttler.joins.demand` says why it estimates in another way.
"""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf

from throttler.api.throttle import GateLever, JoinThrottle, Levers
from throttler.joins.demand import Sizes, is_loose, is_of_gang, is_refused, kind_of, may_use
from throttler.joins.joins import JoinRules
from throttler.joins.warm_nodes import can_preempt, placed, takes_balloons_place, warm_places
from throttler.kube.metadata import KindNames
from throttler.kube.node import Node
from throttler.kube.pod import Pod, Scheduling
from throttler.kube.quantities_and_durations import Resources, fits, minus
from throttler.kube.reasons_and_events import because
from throttler.levers.admission_queue import AdmissionLever, AdmissionReason, Held, HeldSince, in_turn, without_elements
from throttler.levers.lever_and_reasons import (
    ANY_TIME,
    EVERYTHING_BACK,
    Clocks,
    How,
    LeverBudget,
    LeverContext,
    LeverDecision,
    LeverScene,
    LeverState,
    LeverWrite,
)

PACED_GATE = "kube-balloons.github.io/paced"
"""The scheduling gate that workloads opt in with."""
APART_S = 2.5
"""Pods are let go together, so long apart. Karpenter orders once no new pod came for a second, at the latest after ten
(its batchIdleDuration and batchMaxDuration): a trickle of pods waits ten seconds for its machines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GateSettings:
    """Who passes first."""

    max_wait_s: float
    """Pods that were held for longer go before all others, but in the reserved places. No pod goes beyond the
    allowance: it only waits, where a machine that is held for too long is lost."""
    urgent_priority: int | None = None
    """Pods of this priority or above are urgent (`reserved.priorityAtLeast`)."""
    small_nodes: int = 0
    """So are those of an owner whose held pods need no more nodes than this (`reserved.demandAtMost`)."""
    reserved_nodes: int = 0
    """For so many nodes urgent pods go before all others, those that were held for longer too (`reserved.nodes`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatedDemand:
    """What the throttle's pods ask of its nodes."""

    pods: Sequence[Pod]
    """Work pods without a node, gated or not, that are for nodes of this throttle."""
    machines: Sequence[Node] = ()
    """As of JoinMemory."""
    released: int = 0
    """Of the allowance, nodes that pods without a gate are going to ask for (`Joins.released` under a ceiling)."""
    at_once: frozenset[str] = frozenset()
    """Pods (by uid) that need no machine (`SchedulingGates.at_once`)."""
    most: float = inf
    """Nodes that may be asked for at all: what takes a warm node first may be another pod."""
    pilot: str = ""
    """As of LeverContext."""
    most_unanswered: float = inf
    """Nodes that may be asked for before more is ordered; after that only the `urgent` ones are."""
    urgent: int = 0
    refused: frozenset[str] = frozenset()
    """Pods (by uid) of which the API server refused a moment ago to let them go. Until they are tried again they take
    nobody's place, and then they are in turn after all that came before."""
    in_vain: frozenset[str] = frozenset()
    """Pods (by uid) that stay, as others like them wait in vain. They take nobody's place, and keep their turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GateMemory:
    """What is remembered between looks."""

    since: HeldSince = field(default_factory=HeldSince)
    released_s: float | None = None
    """When pods were last let go, monotonic; None as well while not all of them are."""
    released: frozenset[str] = frozenset()
    """Pods (by uid) that were let go and still look held: the write is under way, its answer was lost, or the view has
    not heard of it. They are let go again at each look, and counted as released from the first (`JoinWorld`)."""
    at_once: frozenset[str] = frozenset()
    """Pods (by uid) that were let go because warm nodes take them, until they have one or the scheduler found none."""
    pilots: frozenset[str] = frozenset()
    """Pods (by uid) that were let go as pilots and have no node yet."""


def release_gates(
    demand: GatedDemand, settings: GateSettings, room: LeverBudget, memory: GateMemory, moment: Clocks
) -> tuple[LeverDecision, GateMemory]:
    """Which pods lose our gate now; `room.allowance` is in nodes, and no pod that needs one goes beyond it.

    Only a lever that hands back lets all of them go. While the view is incomplete or stale nothing goes that was not
    let go before.
    """
    held = {pod.uid: pod for pod in demand.pods if is_held(pod) and (is_ours_alone(pod) or room.is_stopping)}
    refused = [Held(uid, 0.0) for uid in held if uid in demand.refused and not room.is_stopping]
    for entry in refused:
        del held[entry.id]
    since = memory.since.seen({uid: pod.created_s for uid, pod in held.items()}, moment, is_complete=room.may_move)
    stay_in_vain = [Held(uid, since.age_s(uid, moment.now_s)) for uid in held if uid in demand.in_vain]
    for entry in stay_in_vain:
        del held[entry.id]
    sizes = Sizes(demand.machines)
    urgent = _urgent(held, sizes, settings)
    waits = (Held(uid, since.age_s(uid, moment.now_s), uid in urgent) for uid in held if uid not in memory.released)
    queued = in_turn(waits, settings.max_wait_s)
    warm, chosen, coming = queued[:0], queued, list[Pod]()
    if not room.is_stopping:
        coming = [pod for pod in demand.pods if pod.uid in memory.at_once and not is_refused(pod)]
        left = demand.most - nodes_for(coming, sizes)
        if room.may_move:
            warm = _first_of([entry for entry in queued if entry.id in demand.at_once], held, left, sizes)
        left -= nodes_for([held[entry.id] for entry in warm], sizes)
        is_due = memory.released_s is None or moment.now_s - memory.released_s >= APART_S
        free = min(room.allowance - demand.released, left) if room.may_move and is_due else 0
        turn = [entry for entry in queued if entry.id not in demand.at_once]
        usual = min(free, demand.most_unanswered)
        pilot = [entry for entry in turn if entry.id == demand.pilot]
        if pilot and usual <= 1:
            turn = pilot
        elif usual > 0:
            free = usual
        else:
            turn, free = [entry for entry in turn if entry.is_urgent], min(free, demand.urgent)
        urgent_ones = [entry for entry in turn if entry.is_urgent]
        first = _first_of(urgent_ones, held, min(free, settings.reserved_nodes), sizes)
        ids = {entry.id for entry in first}
        chosen = _first_of([*first, *(entry for entry in turn if entry.id not in ids)], held, free, sizes)
    again = [Held(uid, since.age_s(uid, moment.now_s)) for uid in held if uid in memory.released]
    goes = (*again, *warm, *chosen)
    writes = tuple(_ungate(held[entry.id], entry, room) for entry in goes)
    released = frozenset(entry.id for entry in goes)
    stays = (entry for entry in queued if entry.id not in released)
    at_once = frozenset((*(pod.uid for pod in coming), *(entry.id for entry in warm)))
    released_s = moment.now_s if chosen else memory.released_s
    decision = _decision((*stays, *refused, *stay_in_vain), room, writes)
    pilots = (memory.pilots | released & {demand.pilot}).intersection(pod.uid for pod in demand.pods)
    return decision, GateMemory(since=since, released_s=released_s, released=released, at_once=at_once, pilots=pilots)


def _decision(stays: Sequence[Held], room: LeverBudget, writes: tuple[LeverWrite, ...]) -> LeverDecision:
    """With those that stay behind after these writes. No gate needs a confirmation: a pod that bears it is held."""
    if room.is_stopping:
        state, why = LeverState.HANDED_BACK, because(AdmissionReason.HOLD_HANDED_BACK)
    elif not stays:
        state, why = LeverState.HANDED_BACK, because(AdmissionReason.NOTHING_HELD)
    elif room.may_move:
        oldest_s = max(entry.age_s for entry in stays)
        state, why = LeverState.CONFIRMED, because(AdmissionReason.PODS_HELD, held=len(stays), oldest_s=oldest_s)
    else:
        state, why = LeverState.CONFIRMED, because(AdmissionReason.PODS_HELD_BLIND, held=len(stays))
    ceiling = f"{len(stays)} held" if state is LeverState.CONFIRMED else ""
    name = f"SchedulingGate/{PACED_GATE}"
    return LeverDecision(name=name, state=state, because=why, ceiling=ceiling, writes=writes)


def _first_of(entries: Sequence[Held], held: Mapping[str, Pod], nodes: float, sizes: Sizes) -> tuple[Held, ...]:
    """The first of them, as many as so many nodes have room for."""
    opened = nodes_opened([held[entry.id] for entry in entries], sizes)
    return tuple(entries[: sum(count <= nodes for count in opened)])


def is_held(pod: Pod) -> bool:
    """Whether our gate is on the pod, among others or alone."""
    scheduling = pod.scheduling
    return scheduling is not None and PACED_GATE in scheduling.gates and not pod.is_terminating and not pod.is_finished


def is_ours_alone(pod: Pod) -> bool:
    """Whether nothing but our gate keeps the pod from the scheduler."""
    return pod.scheduling is not None and set(pod.scheduling.gates) == {PACED_GATE}


def _urgent(held: Mapping[str, Pod], sizes: Sizes, settings: GateSettings) -> frozenset[str]:
    needed = {owner: nodes_for(pods, sizes) for owner, pods in _by_owner(held.values())}
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


def _ungate(pod: Pod, held: Held, room: LeverBudget) -> LeverWrite:
    gates = pod.scheduling.gates if pod.scheduling else ()
    ours = [index for index, gate in enumerate(gates) if gate == PACED_GATE]
    return LeverWrite(
        api_version="v1",
        kind="Pod",
        key=pod.key,
        how=How.JSON,
        body=without_elements("/spec/schedulingGates", ours, pod.resource_version, {"name": PACED_GATE}),
        because=because(AdmissionReason.HOLD_HANDED_BACK)
        if room.is_stopping
        else because(AdmissionReason.ADMITTED, age_s=held.age_s),
    )


def nodes_opened(pods: Iterable[Pod], sizes: Sizes) -> Iterator[int]:
    """After each pod, how many nodes have been opened so far.

    A pod that keeps its own kind off its node, or that is larger than its machine, has a node to itself; so has every
    pod while no machine is known.
    """
    opened = 0
    left: dict[str, Resources] = {}
    for pod in pods:
        machine = sizes.machine_for(pod.scheduling or Scheduling(), pod.requests)
        name, size = (machine.name, machine.allocatable) if machine is not None else ("", {})
        room = left.get(name, {})
        if _is_alone(pod) or not fits(pod.requests, room):
            opened, room = opened + 1, size
        left[name] = {} if _is_alone(pod) or not fits(pod.requests, room) else minus(room, pod.requests)
        yield opened


def nodes_for(pods: Sequence[Pod], sizes: Sizes) -> int:
    """How many nodes these pods need."""
    return max(nodes_opened(pods, sizes), default=0)


def _is_alone(pod: Pod) -> bool:
    return pod.scheduling is not None and pod.scheduling.is_one_per_node


class SchedulingGates(AdmissionLever[GateLever, GateMemory, Pod]):
    """`levers.schedulingGates`."""

    FIELD = "scheduling_gates"
    WRITES_ON = KindNames("", ("v1",), "pods", "Pod", is_namespaced=True)

    def settings(self, levers: Levers) -> GateLever | None:
        """What the throttle says of it; None as well where it leaves gated pods as they are."""
        lever = levers.scheduling_gates
        return lever if lever is not None and lever.enabled else None

    def fresh(self) -> GateMemory:
        """Nothing was let go."""
        return GateMemory()

    def decide(self, context: LeverContext, memory: GateMemory) -> tuple[tuple[LeverDecision, ...], GateMemory]:
        """Which of the throttle's pods lose the gate."""
        spec, released = context.throttle.spec, context.joins.released if context.rules.has_ceiling else 0
        most, most_unanswered = spec.max_in_flight or inf, inf
        if spec.max_in_flight and not context.rules.has_ceiling:
            # What fits nowhere must not take the reserve's places as well: nobody else could show that it does not.
            most_unanswered = most - min(spec.reserved.nodes, spec.max_in_flight // 2) - context.joins.released
        settings = GateSettings(
            max_wait_s=spec.max_wait_s,
            urgent_priority=spec.reserved.priority_at_least,
            small_nodes=spec.reserved.demand_at_most,
            reserved_nodes=spec.reserved.nodes,
        )
        pods = [*context.pods, *context.in_vain]
        refused = frozenset(pod.uid for pod in pods if (self.WRITES_ON.kind, pod.key) in context.scene.refused)
        demand = GatedDemand(
            pods=pods,
            machines=context.machines,
            released=released,
            at_once=context.at_once,
            most=most - context.joins.in_flight - released,
            pilot=context.pilot,
            most_unanswered=most_unanswered,
            urgent=context.joins.urgent,
            refused=refused,
            in_vain=frozenset(pod.uid for pod in context.in_vain),
        )
        decision, memory = release_gates(demand, settings, context.room, memory, context.scene.moment)
        return (decision,), memory

    def not_begun(self, uids: Iterable[str], memory: GateMemory, before: GateMemory) -> GateMemory:
        """The memory where the writes of these pods wait still, which are decided anew; `before` that decision."""
        back = frozenset(uids)
        if not back & memory.released - before.released:
            return memory
        return replace(
            memory,
            released=memory.released - (back - before.released),
            at_once=memory.at_once - (back - before.at_once),
            released_s=None,
        )

    def at_once(self, rules: JoinRules, scene: LeverScene, memory: GateMemory) -> frozenset[str]:
        """Pods (by uid) that need no machine: those that warm nodes take, and those that were let go for one.

        An urgent one would open the reserved lane for others, and one that has gone would pass for an order. Once the
        scheduler has found no node for it, it is a pod like all others.
        """
        coming = {pod.uid for pod in scene.unplaced if pod.uid in memory.at_once and not is_refused(pod)}
        able = [
            pod
            for pod in scene.unplaced
            if is_held(pod)
            and is_ours_alone(pod)
            and pod.uid not in memory.released
            and takes_balloons_place(pod)
            and (self.WRITES_ON.kind, pod.key) not in scene.refused
            and may_use(pod, rules)
        ]
        if not able:
            return frozenset(coming)
        able.sort(key=lambda pod: (-pod.priority, pod.created_s, pod.uid))
        first = [
            pod for pod in scene.unplaced if pod.uid in memory.released or (can_preempt(pod) and is_loose(pod, rules))
        ]
        goes = {pod.uid for pod in placed([*first, *able], warm_places(scene.nodes, scene.pods, rules))}
        return frozenset(coming).union(pod.uid for pod in able if pod.uid in goes)

    def pilot(self, rules: JoinRules, scene: LeverScene, memory: GateMemory, released: Container[str]) -> str:
        """Which pod (by uid) is to show whether an autoscaler is there when none orders for those that were `released`.

        One that asks for something else, or at least another's: what keeps those from a machine may keep all that are
        like them. Empty where there is none, and while as many wait in vain as the reserve has places.
        """
        unplaced = [pod for pod in scene.unplaced if may_use(pod, rules)]
        out = [pod for pod in unplaced if pod.uid in released or pod.uid in memory.released]
        if sum(pod.uid in memory.pilots for pod in out) >= rules.reserved.nodes:
            return ""
        kinds, owners = {kind_of(pod) for pod in out}, {_owner_of(pod) for pod in out}
        others = (
            (kind_of(pod) in kinds, is_of_gang(pod), pod.created_s, pod.uid)
            for pod in unplaced
            if is_held(pod)
            and is_ours_alone(pod)
            and pod.uid not in memory.released
            and (self.WRITES_ON.kind, pod.key) not in scene.refused
            and _owner_of(pod) not in owners
        )
        return min(others, default=(False, False, 0.0, ""))[-1]

    def free_of(self, throttles: Iterable[JoinThrottle], pods: Iterable[Pod]) -> list[Pod]:
        """Those of the pods that none of these throttles looks after by this lever."""
        using = (throttle for throttle in throttles if self.settings(throttle.spec.levers) is not None)
        rules = [JoinRules.of(throttle, PACED_GATE) for throttle in using]
        return [pod for pod in pods if not any(may_use(pod, rule) for rule in rules)]

    def leftover_writes(self, scene: LeverScene, throttles: Iterable[JoinThrottle]) -> tuple[LeverWrite, ...]:
        """Every pod that bears the gate and that none of these throttles looks after loses it."""
        gated = [pod for pod in scene.unplaced if is_held(pod)]
        return self.let_all_in(self.free_of(throttles, gated)) if gated else ()

    def let_all_in(self, things: Sequence[Pod], settings: GateLever | None = None) -> tuple[LeverWrite, ...]:
        """Every pod that bears the gate loses it."""
        demand = GatedDemand(pods=things)
        return release_gates(demand, GateSettings(max_wait_s=0.0), EVERYTHING_BACK, GateMemory(), ANY_TIME)[0].writes


SCHEDULING_GATES = SchedulingGates()
