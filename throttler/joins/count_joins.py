"""All joins of one throttle, counted from the real objects.

A machine is in exactly one stage: booting until it is heard of, then held or joining, then settled. Nothing is kept
that could not be counted again; the memory holds durations and what need not be looked at any more.

One wait no pace shortens: the controller manager sends 20 requests/s per controller by default, so that with D
DaemonSets at most 20/D nodes/s get their pods, however idle the API servers are. It shows as Ready nodes whose
DaemonSet pods do not even exist while latency is as usual.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import replace

from throttler.joins.demand import (
    count_demand,
    held_in_vain,
    is_loose,
    is_of_gang,
    is_opaque,
    nodes_of,
    nodes_open_to,
    seekers,
)
from throttler.joins.join_memory import JoinMemory, learned
from throttler.joins.joining_nodes import Registered, Stage, sort_nodes
from throttler.joins.joins import NO_PODS, JoinRules, Joins, JoinWorld
from throttler.joins.requested_machines import Requested, count_requested
from throttler.kube.node import POOL_LABELS, Node
from throttler.kube.pod import Pod, PodKind
from throttler.kube.quantities_and_durations import minus, total

FREE_S = 30.0
"""A node that Karpenter has not called initialized so long after its join comes for nobody. A kubelet reports what a
device plugin brings with its next status, every ten seconds, and pods that ask for it wait until then."""
LONGEST_GAP_S = 120.0
"""Between two counts whose durations are learned: as a rule they are seconds apart."""
MACHINES_KEPT_S = 60.0
"""Nodes of new sizes are looked for this often: they are rare, and there may be 100,000 nodes to look at."""


def count_joins(world: JoinWorld, memory: JoinMemory, rules: JoinRules, now_s: float) -> tuple[Joins, JoinMemory]:
    """The joins at this moment and the memory for the next; `now_s` is monotonic.

    A memory of another selector is forgotten.
    """
    if memory.nodes != rules.selectors:
        memory = JoinMemory()
    nodes = sort_nodes(world, memory, rules, now_s)
    requested = count_requested(world, memory, rules, nodes, now_s)
    after = _durations(memory, world, rules, nodes, requested, now_s)
    after = _machines(after, world, now_s)
    coming = requested.booting + _free_of(nodes, after.joined_s, world)
    untaken = max(0, coming - _for_work_that_moves(world, rules))
    unseen = _unseen(world)
    after = replace(after, served=_served(after, world, rules))
    if no_demand := after.served | world.at_once:
        world = replace(world, unplaced=tuple(pod for pod in world.unplaced if pod.uid not in no_demand))
    after = _searched(after, memory, world, rules, untaken + unseen, now_s)
    for_pods = max(0, untaken - _of_static_pools(world, rules))
    joins = _joins(world, after, rules, nodes, requested, for_pods, unseen, now_s)
    return joins, replace(after, search=replace(after.search, waiting=joins.waiting + joins.released))


def _searched(
    after: JoinMemory, memory: JoinMemory, world: JoinWorld, rules: JoinRules, coming: int, now_s: float
) -> JoinMemory:
    """Which pods fit nowhere; `coming` are machines on their way that are for any of them."""
    pods = seekers(world.unplaced, rules)
    hoping = [pod for pod in pods if pod.uid not in memory.search.hopeless]
    unserved = max(0, nodes_of(hoping, after.machines) + world.balloons_wanted - coming)
    # Without a ceiling nothing bounds what is ordered for pods that were let go.
    room = None if rules.gate and not rules.has_ceiling else world.room
    is_ordered = after.ordered_s > memory.ordered_s
    largest = after.machines[0].allocatable if after.machines else {}
    offer = world.offer, tuple(sorted(largest.items()))
    elapsed_s = now_s - memory.counted_s
    uids = [pod.uid for pod in pods]
    search = memory.search.looked(uids, unserved, room, offer, elapsed_s, is_ordered=is_ordered)
    if rules.gate and world.at_a_time and search.hopeless:
        held = held_in_vain(world.unplaced, search.hopeless, world.at_a_time, rules, after.machines)
        search = replace(search, hopeless=search.hopeless | held)
    return replace(after, search=search)


def _joins(
    world: JoinWorld,
    memory: JoinMemory,
    rules: JoinRules,
    nodes: Registered,
    requested: Requested,
    untaken: int,
    unseen: int,
    now_s: float,
) -> Joins:
    hopeless = [pod for pod in world.unplaced if pod.uid in memory.search.hopeless]
    hoping = [pod for pod in world.unplaced if pod.uid not in memory.search.hopeless] if hopeless else world.unplaced
    demand = count_demand(hoping, rules, memory.machines, memory.released)
    released = max(0, nodes_of((pod for pod in hoping if pod.uid in memory.released), memory.machines) - untaken)
    # Under a ceiling the autoscaler orders for released pods as the ceiling allows: they wait like all others.
    ordered = requested.booting + unseen + (0 if rules.has_ceiling else released)
    coming = untaken + ordered - requested.booting
    waiting = max(0, demand.nodes + world.balloons_wanted - coming)
    in_vain = {uid for uid, _, _ in memory.in_vain_s}
    bare = [now_s - nodes.ready_s[node.uid] for node in nodes.by_stage[Stage.WITHOUT_DAEMONS]]
    return Joins(
        waiting=waiting,
        hopeless=nodes_of(seekers(hopeless, rules), memory.machines),
        hopeless_pods=len(hopeless),
        urgent=min(waiting, demand.urgent),
        booting=ordered,
        released=released,
        booting_by_groups=requested.by_groups,
        held=len(nodes.held),
        joining=nodes.joining,
        late_booting=requested.late,
        late_joining=nodes.late,
        registered=len(memory.settled) + len(nodes.held) + nodes.joining,
        joined=memory.joined,
        lost=memory.lost,
        join_s=memory.join_times.mean_s,
        boot_s=memory.boot_times.mean_s,
        boot_spread_s=memory.boot_times.spread_s,
        oldest_booting_s=requested.oldest_s,
        oldest_held_s=now_s - min((nodes.created_s[node.uid] for node in nodes.held), default=now_s),
        oldest_joining_s=now_s - min(nodes.timely_s, default=now_s),
        is_controller_bound=is_controller_bound(bare, nodes.joining - nodes.late, world.index),
        unawaited=tuple(sorted(str(one.key) for one in world.daemon_sets if one.uid in in_vain)),
    )


def _unseen(world: JoinWorld) -> int:
    """Machines that work was given and whose Node is not in the view yet: their claims say that they have registered.

    Work that runs, leaves or has ended had its Node before. Pods outlive their Node by a minute (the controller
    manager's podgc), and no machine comes there.
    """
    names = {c.node_name for c in world.claims if c.is_registered and not c.is_deleting and c.node_name}
    placed = world.pods.keys() - world.nodes.keys()
    names |= {name for name in placed if any(_is_lasting_work(pod) and not pod.is_running for pod in world.pods[name])}
    return len(names - world.nodes.keys())


def _for_work_that_moves(world: JoinWorld, rules: JoinRules) -> int:
    """Machines that Karpenter has ordered in the place of others with work: it moves there once they have come, and
    pods that wait need other ones. While an image is rolled out there are always some."""
    return sum(
        rules.selects(claim.metadata.labels) and any(map(_is_lasting_work, world.pods.get(claim.node_name, NO_PODS)))
        for claim in world.claims
        if claim.is_being_replaced
    )


def _of_static_pools(world: JoinWorld, rules: JoinRules) -> int:
    """Machines on their way that no pod was waiting for: for those that wait Karpenter orders others, but for what fits
    on these. Taken for theirs, a hundred of them would leave as many others to come without a pace."""
    coming = (c for c in world.claims if c.pool in world.static_pools and not (c.is_initialized or c.is_leaving))
    return sum(rules.selects(claim.metadata.labels) for claim in coming)


def _is_lasting_work(pod: Pod) -> bool:
    return pod.kind is PodKind.WORK and not (pod.is_terminating or pod.is_finished)


def _free_of(nodes: Registered, joined: Iterable[str], world: JoinWorld) -> int:
    """Nodes that nobody has taken yet: those that are held or join, and of those that have `joined` lately the ones
    that still lack what Karpenter ordered them for. The scheduler places work as soon as it can, which on a node that
    lacks our label is before it is let in, and pods that wait then still wait for other machines."""
    lately = [world.nodes[name] for name in joined if name in world.nodes]
    names = {node.name for node in (*nodes.held, *nodes.in_joining)}.union(
        node.name for node in lately if node.is_uninitialized and node.is_ready and not node.is_cordoned
    )
    return sum(1 for name in names if not any(pod.kind in _TAKERS for pod in world.pods.get(name, NO_PODS)))


_TAKERS = (PodKind.WORK, PodKind.BALLOON)


def _served(memory: JoinMemory, world: JoinWorld, rules: JoinRules) -> frozenset[str]:
    """Members of gangs (by uid) for which as many usable nodes stand idle.

    A gang takes none before there is one for all of it, and waits for no more machines than it lacks. Where a gate lets
    it go in parts, those that are out would fill the window for ever.
    """
    judged = [pod for pod in world.unplaced if is_of_gang(pod) and (pod.uid in memory.released or not is_opaque(pod))]
    gangs = sorted(seekers(judged, rules, memory.released), key=lambda pod: (pod.created_s, pod.uid))
    if not gangs:
        return frozenset()
    settled = (node for node in world.nodes.values() if node.uid in memory.settled)
    there = ((node, world.pods.get(node.name, NO_PODS)) for node in settled)
    idle = (
        (node, minus(node.allocatable, total(pod.requests for pod in pods if not pod.is_finished)))
        for node, pods in there
        if not any(pod.kind in _TAKERS and not pod.is_finished for pod in pods)
    )
    places, counts = nodes_open_to(gangs, idle), range(len(gangs) + 1)
    served = bisect_right(counts, places, key=lambda count: nodes_of(gangs[:count], memory.machines)) - 1
    return frozenset(pod.uid for pod in gangs[:served])


def _durations(
    memory: JoinMemory, world: JoinWorld, rules: JoinRules, nodes: Registered, requested: Requested, now_s: float
) -> JoinMemory:
    is_ordered = requested.booting + nodes.heard_of > memory.booting
    # When what came or became usable in a longer gap did so, nobody knows: an hour without a view would make twenty
    # joins of half an hour each.
    is_timed = now_s - memory.counted_s <= LONGEST_GAP_S
    return JoinMemory(
        nodes=rules.selectors,
        counted_s=now_s,
        settled=nodes.settled,
        foreign=nodes.foreign,
        labels_until_s=nodes.labels_until_s,
        created_s=nodes.created_s,
        let_in_s=nodes.let_in_s,
        ready_s=nodes.ready_s,
        in_vain_s=nodes.in_vain_s,
        made_s=nodes.made_s,
        joined_s=_joined_lately(memory, nodes, now_s),
        released=_released(memory, world, rules),
        booting=requested.booting,
        ordered_s=now_s if is_ordered else memory.ordered_s,
        asked_s=requested.asked_s,
        groups_s=requested.groups_s,
        groups_asked_s=requested.groups_asked_s,
        usual_boots=learned(memory.usual_boots, requested.came if is_timed else ()),
        usual_joins=learned(memory.usual_joins, nodes.came if is_timed else ()),
        join_times=memory.join_times.and_then(nodes.joined_in_s if is_timed else ()),
        boot_times=memory.boot_times.and_then(requested.booted_in_s if is_timed else ()),
        joined=memory.joined + len(nodes.joined_in_s),
        lost=memory.lost + requested.lost + nodes.given_up,
        machines=memory.machines,
        machines_until_s=memory.machines_until_s,
    )


def _joined_lately(memory: JoinMemory, nodes: Registered, now_s: float) -> Mapping[str, float]:
    lately = {name: at_s for name, at_s in memory.joined_s.items() if now_s - at_s < FREE_S}
    return lately | dict.fromkeys(nodes.usable, now_s)


def _released(memory: JoinMemory, world: JoinWorld, rules: JoinRules) -> frozenset[str]:
    """Pods without a node that were let go. A new leader takes all that are not held for just let go.

    Of those that still look held only the lever knows whether they were: the API server may have refused it.
    """
    is_first = bool(rules.gate) and not memory.nodes
    return frozenset(
        pod.uid
        for pod in world.unplaced
        if pod.uid in world.released
        or (pod.uid in memory.released and not (pod.scheduling is not None and pod.scheduling.is_gated))
        or (is_first and is_loose(pod, rules))
    )


def _machines(memory: JoinMemory, world: JoinWorld, now_s: float) -> JoinMemory:
    if not world.unplaced or now_s < memory.machines_until_s:
        return memory
    usable = (node for node in world.nodes.values() if node.uid in memory.settled)
    # Of machines that differ in their memory alone, as those of one type do by some KiB, one is enough.
    kinds = {
        (*_size(node)[:2], id(node.taints), *map(node.labels.get, POOL_LABELS)): node
        for node in sorted(usable, key=_size)
    }
    machines = tuple(sorted(kinds.values(), key=_size, reverse=True))
    return replace(memory, machines=machines, machines_until_s=now_s + MACHINES_KEPT_S) if machines else memory


def _size(node: Node) -> tuple[int, int, int]:
    """Cores, devices (the resources whose names have a domain), memory."""
    devices = sum(amount for name, amount in node.allocatable.items() if "/" in name)
    return node.allocatable.get("cpu", 0), devices, node.allocatable.get("memory", 0)


PATIENCE_S = 5.0
"""Without a backlog the pods exist within a second of the node."""
NODES = 3
"""Fewer nodes may be any odd DaemonSet."""
USUAL_INDEX = 2.0
"""Latency up to twice the baseline is noise: the servers are not what joins wait for."""


def is_controller_bound(waiting_s: Iterable[float], joining: int, index: float | None) -> bool:
    """Whether most joins wait for pods that do not exist, for longer than usual, and the servers are not the reason.

    `waiting_s` tells for how long each node has been Ready and without those pods; `index` is latency over its
    baseline, and without it nothing can be said.
    """
    late = sum(1 for seconds in waiting_s if seconds >= PATIENCE_S)
    return late >= NODES and 2 * late >= joining and index is not None and index < USUAL_INDEX
