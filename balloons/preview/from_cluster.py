"""What a plan needs, out of a cluster as it was seen: pure, so that a dump gives the same plan as the cluster did.

Groups of nodes that can grow, as far as a cluster tells: Karpenter's NodePools, or groups by their labels.

Upper bounds on nodes that others set: Karpenter's limits, CapacityQuotas, the sizes of cluster-autoscaler's groups. A
bound that our own throttle holds in force is no ceiling: it moves as nodes join. There the user's own value counts.
"""

import json
import shlex
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Any

from balloons.cluster import kinds, seen_cluster
from balloons.cluster.seen_cluster import Autoscaler, Component, Detected, SeenCluster, detect
from balloons.preview import calibrate
from balloons.preview.calibrate import DAY_S, Birth, births_of, dated, join, reaction, ready_share
from balloons.preview.inputs import (
    BACKGROUND,
    BOOT_JITTER,
    BOOT_S,
    BOUNDS,
    CORES,
    KARPENTERS_LOOK_S,
    PRICES_BELOW,
    Ceiling,
    ControllerFacts,
    Known,
    NodeShape,
    PlanInputs,
    PoolFacts,
    ResourceLimit,
    ServerFacts,
    ThrottleFacts,
    assumed_inputs,
    join_cpu_s,
    requests_per_join,
)
from balloons.view.node_load_and_devices import EMPTY, NodeLoad, is_device, load_of
from throttler.api.throttle import JoinThrottle
from throttler.joins.requested_machines import names_within, words_of
from throttler.kube.cluster_autoscaler import NODES, CapacityQuota, NodeGroup
from throttler.kube.daemon_set import DaemonSet, wants_daemon
from throttler.kube.karpenter import NodeClaim, NodePool
from throttler.kube.node import GROUP_LABELS, HOST_LABEL, KARPENTER_POOL_LABEL, Node, group_of
from throttler.kube.pod import Pod
from throttler.kube.quantities_and_durations import (
    QuantityError,
    Resources,
    count,
    milli_or_none,
    minus,
)
from throttler.kube.selectors import LabelSelector, can_match, matches
from throttler.kube.taints import (
    LEAVING_TAINTS,
    READINESS_TAINT_PREFIX,
    STATUS_TAINT_PREFIX,
    UNREGISTERED_TAINT,
    Taint,
    is_joining_taint,
    is_switched_off,
)
from throttler.law.law_memory import Learned, learned_of_status
from throttler.law.settings import law_settings
from throttler.levers.lever_and_reasons import THROTTLE_LABEL
from throttler.levers.pool_shares import in_karpenters_order
from throttler.levers.saved_limits import read_saved
from throttler.signals.reading import INTERVAL_S, PROMETHEUS_INTERVAL_S

PRICE_LABEL = "kube-balloons.github.io/price-per-hour"
REPLICAS = "replicas"
"""How many nodes a static NodePool is to have: the name of the field, and of the bound that it is."""
CONTROL_PLANE = "node-role.kubernetes.io/control-plane"
BELOW_WORK = -1
"""The highest priority of what keeps a node warm, as `top` counts it: charts make placeholders at -1 as well as -10."""
OF_ONE_POD = frozenset({("eks.amazonaws.com/compute-type", "fargate"), ("type", "virtual-kubelet")})
"""Labels of nodes that nobody orders: Fargate's, each made for one pod, and those that stand for another service."""
KINDS = (
    kinds.NODES,
    kinds.PODS,
    kinds.DAEMON_SETS,
    kinds.NODE_POOLS,
    kinds.NODE_CLAIMS,
    kinds.QUOTAS,
    kinds.THROTTLES,
    kinds.AUTOSCALER_STATUS,
    kinds.API_SERVERS,
    kinds.DEPLOYMENTS,
)
"""What a plan reads."""
_SAMPLE, _OF_POOL = 50, 5
"""Nodes of the cluster, and of one pool, on which DaemonSets are counted: those of a pool are alike."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolsWorld:
    """What pools are made from. `loads` by node name; `births` of the last 24 h."""

    nodes: Sequence[Node]
    loads: Mapping[str, NodeLoad]
    births: Sequence[Birth]
    daemon_sets: Sequence[DaemonSet] = ()


def pools_of(world: PoolsWorld, named: Iterable[str] = ()) -> tuple[PoolFacts, ...]:
    """Every group that has nodes, and those that are `named` and have none yet; without ceilings."""
    grouped: dict[str, list[Node]] = {name: [] for name in named}
    for node in world.nodes:
        if CONTROL_PLANE not in node.labels and OF_ONE_POD.isdisjoint(node.labels.items()):
            grouped.setdefault(group_of(node.labels), []).append(node)
    if not grouped:
        grouped[""] = []
    members = {node.name: name for name, of_pool in grouped.items() for node in of_pool}
    return tuple(_pool(name, nodes, world, members) for name, nodes in sorted(grouped.items()))


def _pool(name: str, nodes: Sequence[Node], world: PoolsWorld, members: Mapping[str, str]) -> PoolFacts:
    own = [birth for birth in world.births if members.get(birth.name) == name]
    births = own if len(own) >= calibrate.LEAST else world.births
    return PoolFacts(
        name=name,
        nodes=_there(nodes),
        warm=sum(node.is_ready and _is_held(world.loads.get(node.name, EMPTY)) for node in nodes),
        shape=_shape(nodes, world.loads),
        boot_s=calibrate.boot(births, BOOT_S),
        boot_jitter=calibrate.boot_jitter(births, BOOT_JITTER),
        daemon_sets=_daemon_sets(world.daemon_sets, nodes, _OF_POOL),
    )


def _there(nodes: Iterable[Node]) -> int:
    """How many there are, without those that are switched off: each of these joins again before anything can use it."""
    return sum(not is_switched_off(node.taints) for node in nodes)


def _is_held(load: NodeLoad) -> bool:
    """Whether nothing but balloons is on the node, of whoever: others' placeholders have a low priority, too."""
    return not load.work and bool(load.balloons or load.scavengers)


def _shape(nodes: Sequence[Node], loads: Mapping[str, NodeLoad]) -> NodeShape | None:
    """The newest node that is Ready speaks for those to come; one that Karpenter has not initialised, which may lack
    devices and have startup taints of any name, only where there is no other. So may any that is new, or broken: of
    its instance type one speaks that has as many devices as most."""
    ready = [node for node in nodes if node.is_ready]
    if not ready:
        return None
    newest = max(ready, key=_youth)
    alike = [node for node in ready if node.instance_type == newest.instance_type]
    counts = Counter(devices for node in alike if (devices := _devices(node)))
    usual = max(counts, key=lambda devices: (counts[devices], devices), default=())
    node = max((node for node in alike if _devices(node) == usual), key=_youth)
    return NodeShape(
        instance_type=node.instance_type,
        room=minus(node.allocatable, loads.get(node.name, EMPTY).daemons),
        labels={key: value for key, value in node.labels.items() if key != HOST_LABEL},
        taints=_lasting(node),
        price_per_hour=price_of(node),
        zones=tuple(sorted({node.zone for node in nodes} - {""})),
    )


def _youth(node: Node) -> tuple[bool, float, str]:
    return not node.is_uninitialized, node.created_s, node.name


def _devices(node: Node) -> tuple[tuple[str, int], ...]:
    amounts = node.allocatable.items()
    return tuple(sorted((name, milli) for name, milli in amounts if milli > 0 and is_device(name)))


def price_of(node: Node) -> float | None:
    """What its label says that an hour of it costs; None where it says nothing, or no price that an option may be."""
    text = node.labels.get(PRICE_LABEL, "")
    is_number = text.replace(".", "", 1).isdecimal() and text.isascii()
    return float(text) if is_number and float(text) < PRICES_BELOW else None


def of_node_pool(node_pool: NodePool, size: Resources | None, nodes: int, ordered: int = 0) -> Ceiling | None:
    """What `spec.limits` leave, and nothing while Karpenter says that the pool is not Ready, as it passes it over then.

    A static pool, which has so many `nodes`, gets no more than its replicas. None without limits, or where nothing
    tells how large a machine is. Karpenter counts machines that are `ordered` and no nodes yet as used.
    """
    named = f"NodePool/{node_pool.metadata.name}"
    if node_pool.unready is not None:
        detail = ": ".join(filter(None, ("not Ready", node_pool.unready.message)))
        return Ceiling(name=named, nodes=0, detail=detail, is_closed=True, ordered=ordered)
    if node_pool.is_static:
        return _of_static(node_pool, nodes, named)
    amounts = _limits(node_pool)
    resources = node_pool.status.resources
    known, limits = [], []
    for name in sorted(amounts):
        most, used, one = milli_or_none(amounts[name]), milli_or_none(resources.get(name, "0")), _each(name, size)
        if most is not None and used is not None and one:
            known.append((max(0, most - used) // one, name))
            limits.append(ResourceLimit(resource=name, most=most / 1000, used=used / 1000, per_node=one / 1000))
    if not known:
        return None
    room, name = min(known)
    return Ceiling(
        name=named,
        nodes=room,
        detail=f"limits.{name} {amounts[name]}, used {resources.get(name, '0')}{_with_ordered(ordered)}",
        limits=tuple(limits),
        ordered=ordered,
    )


def _with_ordered(ordered: int) -> str:
    return f", machines on their way {ordered}" if ordered else ""


def _of_static(node_pool: NodePool, nodes: int, named: str) -> Ceiling:
    most_nodes = milli_or_none((node_pool.spec.limits or {}).get(NODES))
    bounds = {REPLICAS: node_pool.spec.replicas or 0}
    bounds |= {} if most_nodes is None else {NODES: most_nodes // 1000}
    least = min(bounds, key=lambda resource: bounds[resource])
    return Ceiling(
        name=named,
        nodes=max(0, bounds[least] - nodes),
        detail=f"{least if least == REPLICAS else f'limits.{least}'} {bounds[least]}, has {nodes}",
        limits=tuple(
            ResourceLimit(resource=resource, most=most, used=nodes, per_node=1) for resource, most in bounds.items()
        ),
    )


def of_quota(quota: CapacityQuota, nodes: Iterable[Node]) -> Ceiling | None:
    """What is left of `limits.resources.nodes`; None where it has no such limit or is not enforced."""
    valid = quota.validity
    limit = milli_or_none(quota.spec.limits.resources.get(NODES))
    if limit is None or valid is None or valid.status != "True" or THROTTLE_LABEL in quota.metadata.labels:
        return None
    selector = quota.spec.selector or LabelSelector()
    used = sum(1 for node in nodes if matches(selector, node.labels))
    return Ceiling(
        name=f"CapacityQuota/{quota.metadata.name}",
        nodes=max(0, limit // 1000 - used),
        detail=f"nodes {limit // 1000}, used {used}",
        limits=(ResourceLimit(resource=NODES, most=limit // 1000, used=used, per_node=1),),
    )


def of_groups(groups: Sequence[NodeGroup]) -> Ceiling | None:
    """What these groups of cluster-autoscaler's may still grow by; None where one does not say how far, or none is."""
    sizes = [group.max_size for group in groups if group.max_size is not None]
    if not groups or len(sizes) < len(groups):
        return None
    left = sum(max(0, size - group.target) for size, group in zip(sizes, groups, strict=True))
    ordered = sum(group.booting for group in groups)
    # Two pools have one bound only if they have the same groups, however equal the sizes of theirs are.
    first, more = min(_in_short(group.name) for group in groups), len(groups) - 1
    return Ceiling(
        name=f"cluster-autoscaler's group {first}{f' and {more} more' if more else ''}",
        nodes=left,
        detail=f"maxSize {sum(sizes)}, now {sum(group.target for group in groups)}{_with_ordered(ordered)}",
        ordered=ordered,
    )


def _in_short(group: str) -> str:
    """On GKE it is called by a URL whose end alone tells it from others, and of a long sentence the end is cut."""
    return group.rpartition("/")[2] if "://" in group else group


def groups_by_pool(groups: Sequence[NodeGroup], nodes: Sequence[Node]) -> dict[str, tuple[NodeGroup, ...]]:
    """Pool -> the groups of cluster-autoscaler's that can grow it, for the pools of these nodes.

    A pool that a cloud's label names grows by groups that have its name in theirs. For any other pool those count as
    well of which nothing says whose they are. All groups count where that leaves none: a bound must not be too low.
    """
    by_label = {group_of(node.labels) for node in nodes if _is_labelled(node)}
    owners = _owners(frozenset(group.name for group in groups) - {""}, nodes, by_label)
    unknown = [group for group in groups if not owners.get(group.name)]
    own = {pool: [] if pool in by_label else [*unknown] for pool in {group_of(node.labels) for node in nodes}}
    for group in groups:
        for pool in owners.get(group.name, ()):
            own[pool].append(group)
    return {pool: tuple(of_pool or groups) for pool, of_pool in own.items()}


def _is_labelled(node: Node) -> bool:
    """Whether a cloud's label says of which group the node is."""
    return group_of(node.labels) in {node.labels.get(label) for label in GROUP_LABELS}


def _owners(names: frozenset[str], nodes: Iterable[Node], by_label: Iterable[str]) -> dict[str, set[str]]:
    """Group -> the pools whose name stands in its own (the longest one that does), else those with a label of it."""
    texts: dict[str, list[str]] = {}
    for pool in by_label:
        texts.setdefault(words_of(pool), []).append(pool)
    owners: dict[str, set[str]] = {}
    for node in nodes:
        for name in names.intersection(node.labels.values()):
            owners.setdefault(name, set()).add(group_of(node.labels))
    for name in names:
        if within := names_within(name, texts):
            longest = max(map(len, within))
            owners[name] = {pool for pool in within if len(pool) == longest}
    return owners


def lift(ceiling: Ceiling, nodes: int) -> str:
    """The command that makes room for so many more nodes; empty where none of kubectl does."""
    kind, _, name = ceiling.name.partition("/")
    needed = {limit.resource: ceil(limit.used + nodes * limit.per_node) for limit in ceiling.limits}
    lifted = {limit.resource: needed[limit.resource] for limit in ceiling.limits if needed[limit.resource] > limit.most}
    if not name or not lifted:
        return ""
    replicas = lifted.pop(REPLICAS, None)
    of_pool = {resource: str(amount) for resource, amount in lifted.items()}
    limits = {"resources": lifted} if kind == "CapacityQuota" else of_pool
    spec = ({"limits": limits} if lifted else {}) | ({} if replicas is None else {"replicas": replicas})
    patch = json.dumps({"spec": spec}, separators=(",", ":"))
    return f"kubectl patch {kind.lower()} {shlex.quote(name)} --type merge -p {shlex.quote(patch)}"


def applies(quota: CapacityQuota, pool: PoolFacts) -> bool:
    """Whether new nodes of the pool would count; all of them where the pool's labels are not known."""
    labels = pool.shape.labels if pool.shape else {KARPENTER_POOL_LABEL: pool.name}
    return can_match(quota.spec.selector or LabelSelector(), labels)


def with_ceilings(pool: PoolFacts, ceilings: Iterable[Ceiling | None]) -> PoolFacts:
    """The pool with these as well, the lowest first."""
    bounds = [*pool.ceilings, *(ceiling for ceiling in ceilings if ceiling is not None)]
    return replace(pool, ceilings=tuple(sorted(bounds, key=lambda ceiling: (ceiling.nodes, ceiling.name))))


def _limits(node_pool: NodePool) -> Mapping[str, Any]:
    """The user's own: what our throttle put in their place is taken back when it is done."""
    own = dict(node_pool.spec.limits or {})
    mark = read_saved(node_pool.metadata)
    if mark is None:
        return own
    kept = {name: value for name, value in own.items() if name not in mark.ceiling}
    return kept | {name: value for name, value in mark.original.items() if value is not None}


def _each(name: str, size: Resources | None) -> int:
    """Milli-units of one machine; 0 where it is not known."""
    return 1000 if name == NODES else (size or {}).get(name, 0)


def births_in(cluster: SeenCluster, since_s: float) -> tuple[Birth, ...]:
    """How the nodes came to be that are there and registered since then (seconds since the epoch)."""
    nodes, pods, claims = (dated(cluster.listed(kind).objects) for kind in (kinds.NODES, kinds.PODS, kinds.NODE_CLAIMS))
    ordered = (node for node in nodes if OF_ONE_POD.isdisjoint(node.metadata.labels.items()))
    return births_of(ordered, pods, claims, since_s)


def loads_of(pods: tuple[Pod, ...]) -> dict[str, NodeLoad]:
    """What runs where, by node."""
    by_node: dict[str, list[Pod]] = {}
    for pod in pods:
        if pod.node:
            by_node.setdefault(pod.node, []).append(pod)
    return {name: load_of(on_node, BELOW_WORK) for name, on_node in by_node.items()}


def plan_inputs(cluster: SeenCluster) -> PlanInputs:
    """Everything that is known, with its origin; what could not be read is assumed, and said."""
    nodes, detected = seen_cluster.nodes(cluster), detect(cluster)
    births = births_in(cluster, cluster.taken_at.timestamp() - DAY_S)
    assumed = assumed_inputs(nodes=len(nodes))
    # Less what cannot be right, as for the law itself.
    taught = [(own, learned_of_status(own.status.learned, cluster.taken_at)) for own in _acting_throttles(cluster)]
    throttle, learned = next(iter(taught), (None, Learned()))
    daemon_sets = seen_cluster.daemon_sets(cluster)
    throttles = tuple(_throttle_facts(own, its, daemon_sets) for own, its in taught)
    daemons = _daemon_sets(daemon_sets, nodes, _SAMPLE)
    loads = loads_of(seen_cluster.pods(cluster))
    world = PoolsWorld(nodes=nodes, loads=loads, births=births, daemon_sets=daemon_sets)
    return PlanInputs(
        autoscaler=detected.in_words,
        nodes=_there(nodes),
        pools=_pools(cluster, world, nodes, detected),
        servers=_servers(assumed.servers, detected, daemons or assumed.controllers.daemon_sets, throttle, learned),
        controllers=_controllers(assumed.controllers, detected, daemons, births),
        join_s=_join_s(world, throttle, learned, assumed.join_s),
        ready_share=ready_share(births) or assumed.ready_share,
        throttle=next(iter(throttles), None),
        throttles=throttles,
        unseen=tuple(_unseen(cluster)),
    )


def _pools(
    cluster: SeenCluster, world: PoolsWorld, nodes: tuple[Node, ...], detected: Detected
) -> tuple[PoolFacts, ...]:
    node_pools = {node_pool.metadata.name: node_pool for node_pool in seen_cluster.node_pools(cluster)}
    quotas = [(quota, of_quota(quota, nodes)) for quota in seen_cluster.quotas(cluster)]
    groups = detected.status.groups if detected.status else ()
    growing = groups_by_pool(groups, nodes)
    sizes = {group_of(node.labels): node.allocatable for node in nodes} | _claimed_sizes(cluster)
    ordered = _ordered(cluster, nodes)
    rank = {own.metadata.name: place for place, own in enumerate(in_karpenters_order(node_pools.values()))}
    pools = []
    for pool in sorted(pools_of(world, node_pools), key=lambda pool: rank.get(pool.name, len(rank))):
        own = node_pools.get(pool.name)
        bounds = [ceiling for quota, ceiling in quotas if applies(quota, pool)]
        if own is not None:
            bounds.append(of_node_pool(own, sizes.get(pool.name), pool.nodes, ordered[pool.name]))
        else:
            bounds.append(of_groups(growing.get(pool.name, groups)))
        pools.append(with_ceilings(replace(pool, node_pool=own), bounds))
    return tuple(pools)


def _claimed_sizes(cluster: SeenCluster) -> dict[str, Resources]:
    """What Karpenter counts for a machine of a NodePool: all that the newest one has, and not what pods may use."""
    claims = sorted(
        seen_cluster.node_claims(cluster), key=lambda claim: (claim.metadata.created_s, claim.metadata.name)
    )
    return {claim.pool: size for claim in claims if (size := _capacity(claim))}


def _ordered(cluster: SeenCluster, nodes: Iterable[Node]) -> Counter[str]:
    """NodePool -> its machines that are launched and no nodes yet: Karpenter counts none before its launch."""
    claims = (claim for claim in seen_cluster.node_claims(cluster) if not claim.node_name and not claim.is_leaving)
    launched = Counter(claim.pool for claim in claims if _capacity(claim))
    unmatched = (node for node in nodes if any(taint.key == UNREGISTERED_TAINT for taint in node.taints))
    return launched - Counter(group_of(node.labels) for node in unmatched)


def _capacity(claim: NodeClaim) -> Resources:
    try:
        return claim.capacity
    except QuantityError:
        return {}


def _servers(
    assumed: ServerFacts, detected: Detected, daemons: Known, throttle: JoinThrottle | None, learned: Learned
) -> ServerFacts:
    count = assumed.count
    if detected.api_servers:
        count = _stated("servers", detected.api_servers, "the EndpointSlices of default/kubernetes")
    cost = join_cpu_s(daemons.value)
    share, join_s = learned.load_per_join, learned.join_s
    if throttle is not None and share and join_s:
        cost = Known.learned(share * join_s * CORES.value * count.value, f"JoinThrottle/{throttle.metadata.name}")
    return ServerFacts(
        count=count,
        cores=CORES,
        background=BACKGROUND,
        join_cpu_s=cost,
        requests_per_join=requests_per_join(daemons.value),
    )


def _controllers(
    assumed: ControllerFacts, detected: Detected, daemons: Known | None, births: tuple[Birth, ...]
) -> ControllerFacts:
    manager, scheduler, autoscaler = detected.controller_manager, detected.scheduler, detected.cluster_autoscaler
    is_karpenter = Autoscaler.KARPENTER in detected.autoscalers
    look_s = _flag(autoscaler, "scan-interval", "reaction", assumed.look_s)
    return replace(
        assumed,
        daemon_sets=daemons or assumed.daemon_sets,
        pods_per_s=_flag(manager, "kube-api-qps", "controller_qps", assumed.pods_per_s),
        burst=_flag(manager, "kube-api-burst", "controller_qps", assumed.burst),
        binds_per_s=_flag(scheduler, "kube-api-qps", "scheduler_qps", assumed.binds_per_s),
        reaction_s=_flag(autoscaler, "scan-interval", "reaction", reaction(births, assumed.reaction_s)),
        look_s=KARPENTERS_LOOK_S if is_karpenter else replace(look_s, spread=assumed.look_s.spread),
        is_look_prompted=is_karpenter,
        kill_timer_s=_flag(autoscaler, "max-node-provision-time", "kill_timer", assumed.kill_timer_s),
    )


def _flag(component: Component | None, name: str, figure: str, known: Known) -> Known:
    """The flag's value, as a number or a time; `known` where it is not set, or says nothing that can be read."""
    value = component.figure(name) if component else None
    return _stated(figure, value, f"--{name} of {component.name}") if component and value else known


def _stated(figure: str, value: float, by: str) -> Known:
    """What an object says of a figure, or the nearest that the option of this name accepts.

    With a server that makes a pod in a year no run would come to its end.
    """
    low, high = BOUNDS[figure]
    taken = min(high, max(low, value))
    return Known.stated(taken, by if taken == value else f"{by}, which says {value:g}")


def _daemon_sets(daemon_sets: Sequence[DaemonSet], nodes: Sequence[Node], most: int) -> Known | None:
    """How many of them put a pod on a node, in the median; None where there is nothing to count on."""
    sample = [node for node in nodes if node.is_ready][-most:]
    if not daemon_sets or not sample:
        return None
    counts = [sum(wants_daemon(daemon_set, node, _lasting(node)) for daemon_set in daemon_sets) for node in sample]
    median = float(statistics.median(counts))
    return _stated("daemonsets", median, f"{count(len(daemon_sets), 'DaemonSet')} of the cluster")


def _lasting(node: Node) -> tuple[Taint, ...]:
    """Those that other nodes of its group have, too: not what says that it joins, leaves, is cordoned or in trouble."""
    return tuple(taint for taint in node.taints if not (is_joining_taint(taint) or _is_of_one_node(taint)))


def _is_of_one_node(taint: Taint) -> bool:
    prefixes = ("node.kubernetes.io/", STATUS_TAINT_PREFIX, READINESS_TAINT_PREFIX)
    return taint.key in LEAVING_TAINTS or taint.key.startswith(prefixes)


def _join_s(world: PoolsWorld, throttle: JoinThrottle | None, learned: Learned, assumed: Known) -> Known:
    of_nodes = join(world.births, assumed)
    if of_nodes is assumed and throttle is not None and learned.join_s:
        return Known.learned(learned.join_s, f"JoinThrottle/{throttle.metadata.name}")
    return of_nodes


def _acting_throttles(cluster: SeenCluster) -> list[JoinThrottle]:
    """Those that pace, oldest first: they are neither paused nor a dry run nor refused."""
    throttles = [throttle for throttle in seen_cluster.throttles(cluster) if isinstance(throttle, JoinThrottle)]
    acting = (throttle for throttle in throttles if throttle.acts)
    return sorted(acting, key=lambda throttle: (throttle.metadata.created_s, throttle.metadata.name))


def _throttle_facts(throttle: JoinThrottle, learned: Learned, daemon_sets: tuple[DaemonSet, ...]) -> ThrottleFacts:
    # The simulator's idle servers answer more slowly than real ones: their baseline is learned in the lead-in.
    return ThrottleFacts(
        name=throttle.metadata.name,
        nodes=throttle.spec.paced_nodes,
        settings=law_settings(throttle.spec, daemon_sets),
        learned=replace(learned, baseline_s=None),
        join_s=learned.join_s,
        scrape_s=INTERVAL_S if throttle.spec.signals.scrape.enabled else PROMETHEUS_INTERVAL_S,
        has_ceiling=throttle.spec.levers.has_ceiling,
    )


def _unseen(cluster: SeenCluster) -> list[str]:
    """Sentences on what could not be read and stands assumed."""
    instead: Mapping[str, str] = {
        kinds.NODES.name: "nodes are taken to be none",
        kinds.PODS.name: "boot and join times are assumed, and no node counts as warm",
        kinds.DAEMON_SETS.name: "their number is assumed",
        kinds.API_SERVERS.name: "the number of API servers is assumed",
        kinds.NODE_CLAIMS.name: "boot times are told by pods, or assumed",
        kinds.NODE_POOLS.name: "they are taken to have no limits",
        kinds.QUOTAS.name: "they are taken to have no limits",
        kinds.AUTOSCALER_STATUS.name: "groups of cluster-autoscaler are taken to have no largest size",
        kinds.THROTTLES.name: "nodes are taken to join unpaced",
        kinds.DEPLOYMENTS.name: "the flags of autoscalers are assumed",
    }
    return [f"{name} not seen: {instead[name]}" for name in sorted(cluster.not_seen) if name in instead]
