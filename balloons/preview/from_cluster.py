"""What a plan needs, out of a cluster as it was seen: pure, so that a dump gives the same plan as the cluster did."""

import statistics
from collections.abc import Mapping
from dataclasses import replace

from balloons.cluster import kinds, seen_cluster
from balloons.cluster.detect import Autoscaler, Component, Detected, detect
from balloons.cluster.plain_data import text
from balloons.cluster.seen_cluster import SeenCluster
from balloons.preview import ceilings
from balloons.preview.assumed import BACKGROUND, CORES, assumed_inputs, join_cpu_s, requests_per_join
from balloons.preview.births import Birth, births_of, dated
from balloons.preview.calibrate import DAY_S, join, reaction, ready_share
from balloons.preview.inputs import ControllerFacts, PlanInputs, PoolFacts, ServerFacts, ThrottleFacts
from balloons.preview.known import Known
from balloons.preview.pools import PoolsWorld, group_of, pools_of
from balloons.view.node_load import USUAL_PRIORITY, NodeLoad, load_of
from throttler.api.throttle import JoinThrottle
from throttler.kube.cluster_autoscaler import KEY
from throttler.kube.karpenter import NodeClaim
from throttler.kube.node import Node, is_joining_taint
from throttler.kube.pod import DaemonSet, Pod, wants_daemon
from throttler.kube.quantity import DurationError, QuantityError, Resources, parse_duration
from throttler.kube.selectors import Taint
from throttler.law.settings import LawSettings
from throttler.service.law_settings import law_settings
from throttler.service.learned_status import learned_of_status

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


def births_in(seen: SeenCluster, since_s: float) -> tuple[Birth, ...]:
    """How the nodes came to be that are there and registered since then (seconds since the epoch)."""
    nodes, pods, claims = (dated(seen.listed(kind).objects) for kind in (kinds.NODES, kinds.PODS, kinds.NODE_CLAIMS))
    return births_of(nodes, pods, claims, since_s)


def loads_of(pods: tuple[Pod, ...]) -> dict[str, NodeLoad]:
    """What runs where, by node."""
    by_node: dict[str, list[Pod]] = {}
    for pod in pods:
        if pod.node:
            by_node.setdefault(pod.node, []).append(pod)
    return {name: load_of(found, USUAL_PRIORITY) for name, found in by_node.items()}


def plan_inputs(seen: SeenCluster) -> PlanInputs:
    """Everything that is known, with its origin; what could not be read is assumed, and said."""
    nodes, found = seen_cluster.nodes(seen), detect(seen)
    births = births_in(seen, seen.taken_at.timestamp() - DAY_S)
    world = PoolsWorld(nodes=nodes, loads=loads_of(seen_cluster.pods(seen)), births=births)
    assumed = assumed_inputs(nodes=len(nodes))
    throttle = _throttle(seen)
    daemons = _daemon_sets(seen_cluster.daemon_sets(seen), nodes)
    return PlanInputs(
        autoscaler=found.in_words,
        nodes=len(nodes),
        pools=_pools(seen, world, nodes, found),
        servers=_servers(assumed.servers, found, daemons or assumed.controllers.daemon_sets, throttle),
        controllers=_controllers(assumed.controllers, found, daemons, births),
        join_s=_join_s(world, throttle, assumed.join_s),
        ready_share=ready_share(births) or assumed.ready_share,
        throttle=_throttle_facts(throttle, seen),
        unseen=tuple(_unseen(seen)),
    )


def _pools(seen: SeenCluster, world: PoolsWorld, nodes: tuple[Node, ...], found: Detected) -> tuple[PoolFacts, ...]:
    node_pools = {each.metadata.name: each for each in seen_cluster.node_pools(seen)}
    quotas = seen_cluster.quotas(seen)
    is_ca = Autoscaler.CLUSTER_AUTOSCALER in found.autoscalers
    status = next((text(each, "data", KEY) for each in seen.plain(kinds.AUTOSCALER_STATUS)), "")
    groups = ceilings.of_groups(status) if is_ca else None
    sizes = {group_of(node): node.allocatable for node in nodes} | _claimed_sizes(seen)
    pools = []
    for pool in pools_of(world, node_pools):
        own = node_pools.get(pool.name)
        bounds = [ceilings.of_quota(each, nodes) for each in quotas if ceilings.applies(each, pool)]
        bounds.append(ceilings.of_node_pool(own, sizes.get(pool.name)) if own else groups)
        pools.append(ceilings.with_ceilings(pool, bounds))
    return tuple(pools)


def _claimed_sizes(seen: SeenCluster) -> dict[str, Resources]:
    """What Karpenter counts for a machine of a NodePool: all that the newest one has, and not what pods may use."""
    claims = sorted(seen_cluster.node_claims(seen), key=lambda each: (each.metadata.created_s, each.metadata.name))
    return {each.pool: size for each in claims if (size := _capacity(each))}


def _capacity(claim: NodeClaim) -> Resources:
    try:
        return claim.capacity
    except QuantityError:
        return {}


def _servers(assumed: ServerFacts, found: Detected, daemons: Known, throttle: JoinThrottle | None) -> ServerFacts:
    count = assumed.count
    if found.api_servers:
        count = Known.stated(found.api_servers, "the EndpointSlices of default/kubernetes")
    cost = join_cpu_s(daemons.value)
    if throttle is not None:
        learned = throttle.status.learned
        share, join_s = learned.load_per_join_millionths / 1e6, learned.join_milliseconds / 1e3
        if share and join_s:
            cost = Known.learned(share * join_s * CORES.value * count.value, f"JoinThrottle/{throttle.metadata.name}")
    return ServerFacts(
        count=count,
        cores=CORES,
        background=BACKGROUND,
        join_cpu_s=cost,
        requests_per_join=requests_per_join(daemons.value),
    )


def _controllers(
    assumed: ControllerFacts, found: Detected, daemons: Known | None, births: tuple[Birth, ...]
) -> ControllerFacts:
    manager, scheduler, autoscaler = found.controller_manager, found.scheduler, found.cluster_autoscaler
    return replace(
        assumed,
        daemon_sets=daemons or assumed.daemon_sets,
        pods_per_s=_flag(manager, "kube-api-qps", assumed.pods_per_s),
        burst=_flag(manager, "kube-api-burst", assumed.burst),
        binds_per_s=_flag(scheduler, "kube-api-qps", assumed.binds_per_s),
        reaction_s=_flag(autoscaler, "scan-interval", reaction(births, assumed.reaction_s)),
        is_look_prompted=Autoscaler.KARPENTER in found.autoscalers,
        kill_timer_s=_flag(autoscaler, "max-node-provision-time", assumed.kill_timer_s),
    )


def _flag(component: Component | None, name: str, known: Known) -> Known:
    """The flag's value, as a number or a time; `known` where it is not set, or says nothing that can be read."""
    given = component.flags.get(name, "") if component else ""
    value = _number(given)
    return known if value is None or component is None else Known.stated(value, f"--{name} of {component.name}")


def _number(given: str) -> float | None:
    try:
        value = float(given) if given.replace(".", "", 1).isdecimal() and given.isascii() else parse_duration(given)
    except DurationError:
        return None
    return value if value > 0 else None


def _daemon_sets(daemon_sets: tuple[DaemonSet, ...], nodes: tuple[Node, ...]) -> Known | None:
    """How many of them put a pod on a node, in the median; None where there is nothing to count on."""
    sample = [node for node in nodes if node.is_ready][-_SAMPLE:]
    if not daemon_sets or not sample:
        return None
    counts = [sum(wants_daemon(each, node, _lasting(node)) for each in daemon_sets) for node in sample]
    return Known.stated(statistics.median(counts), f"{len(daemon_sets)} DaemonSets of the cluster")


_SAMPLE = 50


def _lasting(node: Node) -> tuple[Taint, ...]:
    return tuple(taint for taint in node.taints if not is_joining_taint(taint))


def _join_s(world: PoolsWorld, throttle: JoinThrottle | None, assumed: Known) -> Known:
    learned = join(world.births, assumed)
    if learned is assumed and throttle is not None and throttle.status.learned.join_milliseconds:
        return Known.learned(throttle.status.learned.join_milliseconds / 1e3, f"JoinThrottle/{throttle.metadata.name}")
    return learned


def _throttle(seen: SeenCluster) -> JoinThrottle | None:
    """The one that paces: the oldest that is neither paused nor a dry run nor refused."""
    found = [each for each in seen_cluster.throttles(seen) if isinstance(each, JoinThrottle)]
    acting = [each for each in found if not each.spec.paused and not each.spec.dry_run]
    return min(acting, key=lambda each: (each.metadata.created_s, each.metadata.name), default=None)


def _throttle_facts(throttle: JoinThrottle | None, seen: SeenCluster) -> ThrottleFacts | None:
    if throttle is None:
        return None
    settings: LawSettings = law_settings(throttle.spec)
    learned = learned_of_status(throttle.status.learned, seen.taken_at)
    # The simulator's idle servers answer more slowly than real ones: their baseline is learned in the lead-in.
    return ThrottleFacts(
        name=throttle.metadata.name,
        settings=settings,
        learned=replace(learned, baseline_s=None),
        join_s=throttle.status.learned.join_milliseconds / 1e3 or None,
    )


def _unseen(seen: SeenCluster) -> list[str]:
    """Sentences on what could not be read and stands assumed."""
    instead: Mapping[str, str] = {
        kinds.NODES.name: "nodes are taken to be none",
        kinds.PODS.name: "boot and join times are assumed, and every node counts as warm",
        kinds.DAEMON_SETS.name: "their number is assumed",
        kinds.API_SERVERS.name: "the number of API servers is assumed",
    }
    return [f"{name} not seen: {instead[name]}" for name in sorted(seen.not_seen) if name in instead]
