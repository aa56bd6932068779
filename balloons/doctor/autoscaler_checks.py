"""Checks of the autoscalers: cluster-autoscaler with its CapacityQuotas, and Karpenter's pools and machines."""

from collections.abc import Iterator
from typing import Any

from balloons.cluster import kinds, seen_cluster
from balloons.cluster.object_fields_and_flags import name_of, parts, text
from balloons.cluster.seen_cluster import Autoscaler
from balloons.doctor.check import Facts, Severity, Trouble, check, some
from throttler.kube.cluster_autoscaler import NODES
from throttler.kube.karpenter import NodePool
from throttler.kube.node import GROUP_LABELS, HELD_BY_ANNOTATION, KARPENTER_KEEP_ANNOTATION
from throttler.kube.node import KARPENTER_POOL_LABEL as POOL
from throttler.kube.quantities_and_durations import count, milli_or_none
from throttler.kube.selectors import matches
from throttler.levers.node_pool_limits import unpaced_pools

GATE = "capacity-quotas-enabled"
DEFAULT_PER_SCALEUP = 1000
UNREADY_SHARE, UNREADY_COUNT = 45.0, 3.0
"""cluster-autoscaler's `--max-total-unready-percentage` and `--ok-total-unready-count`, as they are by default."""
PROVISION_S = 900.0
"""Its `--max-node-provision-time`."""
SILENT_S = 300.0
"""It writes its status in every loop, which is every 10 s; a loop over many groups may take a minute."""
_SEEN = (kinds.DEPLOYMENTS, kinds.AUTOSCALER_STATUS)
TERMINATE_FIRST = "TerminateFirstDrift"
"""Karpenter's feature gate by which, where a replacement does not fit beside a drifted node, the node goes first."""
LAUNCH_S, REGISTRATION_S = 300, 900
"""Karpenter's constants: after these it gives a machine up."""


@check(
    "KB020",
    Severity.ERROR,
    about="cluster-autoscaler enforces CapacityQuota only with `--capacity-quotas-enabled`. Without it the "
    "objects are decoration, and a throttle that relies on them holds nothing back.",
    needs=(kinds.DEPLOYMENTS, kinds.QUOTAS),
)
def gate_off(facts: Facts) -> Iterator[Trouble]:
    """CapacityQuotas without the feature."""
    quotas, autoscaler = seen_cluster.quotas(facts.cluster), facts.detected.cluster_autoscaler
    if quotas and autoscaler is not None and not autoscaler.is_on(GATE):
        yield Trouble(
            f"deployment/{autoscaler.where.partition('/')[2]} -n {autoscaler.where.partition('/')[0]}",
            f"it runs without --{GATE}: CapacityQuota {some(quota.metadata.name for quota in quotas)} limits nothing",
            f"# add --{GATE} to its arguments (cluster-autoscaler 1.36 or newer)",
        )


@check(
    "KB021",
    Severity.ERROR,
    about="A quota is enforced only while its condition Valid is True. An invalid selector, or an autoscaler that "
    "never looked, means no limit at all: it fails open.",
    needs=(kinds.QUOTAS,),
    is_live_only=True,
)
def not_valid(facts: Facts) -> Iterator[Trouble]:
    """A CapacityQuota that is not in force."""
    for quota in seen_cluster.quotas(facts.cluster):
        validity = quota.validity
        if validity is None or validity.status != "True":
            said = (
                "cluster-autoscaler has not looked at it" if validity is None else validity.message or "it is not valid"
            )
            yield Trouble(
                f"capacityquota/{quota.metadata.name}",
                f"it is not in force ({said}): growth is unlimited",
                f"kubectl describe capacityquota {quota.metadata.name}",
            )


@check(
    "KB022",
    Severity.WARNING,
    about="A ceiling equal to what exists blocks the replacement of broken nodes. Keep headroom, and hand the "
    "lever back while nothing waits, as a JoinThrottle does.",
    needs=(kinds.QUOTAS, kinds.PODS),
)
def at_ceiling(facts: Facts) -> Iterator[Trouble]:
    """A quota that leaves no room for repair."""
    for quota in seen_cluster.quotas(facts.cluster):
        used = quota.status.used.resources if quota.status.used else {}
        limit, taken = _count(quota.spec.limits.resources.get(NODES)), _count(used.get(NODES))
        if limit is not None and taken is not None and 0 < limit <= taken and not facts.pending:
            yield Trouble(
                f"capacityquota/{quota.metadata.name}",
                f"its limit {limit} is not above the {count(taken, 'node')} that it has: no broken node can be "
                "replaced",
                f"kubectl patch capacityquota {quota.metadata.name} --type=merge -p "
                f'\'{{"spec":{{"limits":{{"resources":{{"nodes":{taken + max(1, taken // 10)}}}}}}}}}\'',
            )


@check(
    "KB023",
    Severity.WARNING,
    about="The flag is documented as no tool to limit throughput: it bounds the estimate of one loop, and loops "
    "run every 10 s.",
    needs=_SEEN,
)
def paced_by_flag(facts: Facts) -> Iterator[Trouble]:
    """--max-nodes-per-scaleup as a pace."""
    autoscaler = facts.detected.cluster_autoscaler
    if autoscaler is None:
        return
    flag = autoscaler.flags.get("max-nodes-per-scaleup", "")
    if flag.isdecimal() and len(flag) < 9 and int(flag) < DEFAULT_PER_SCALEUP:
        space, _, name = autoscaler.where.partition("/")
        yield Trouble(
            f"deployment/{name} -n {space}",
            f"--max-nodes-per-scaleup={flag} bounds one estimate, not the pace: it grows again every 10 s",
            "# make a JoinThrottle with the lever capacityQuota (docs/levers.md)",
        )


def _flag(facts: Facts, name: str, usual: float) -> float:
    """What a flag of cluster-autoscaler says, a number or a time; `usual` where it is not seen or cannot be read."""
    autoscaler = facts.detected.cluster_autoscaler
    value = autoscaler.figure(name) if autoscaler else None
    return usual if value is None else value


@check(
    "KB024",
    Severity.WARNING,
    about="cluster-autoscaler deletes a machine that has not registered for 15 min, and backs its group off for 5 "
    "to 30 min. It is how an overloaded API server turns one slow scale-up into several.",
    needs=_SEEN,
)
def given_up(facts: Facts) -> Iterator[Trouble]:
    """Machines that never registered."""
    status = facts.detected.status
    lost = sum(group.long_unregistered for group in status.groups) if status else 0
    within_s = _flag(facts, "max-node-provision-time", PROVISION_S)
    if lost:
        yield Trouble(
            "configmap/cluster-autoscaler-status -n kube-system",
            f"{count(lost, 'machine')} not registered within {within_s / 60:.3g} min: deleted, and the group backs off "
            "for 5 to 30 min",
            "kubectl get configmap cluster-autoscaler-status -n kube-system -o jsonpath='{.data.status}'",
        )


@check(
    "KB027",
    Severity.ERROR,
    about="It writes the time into its status ConfigMap in every loop. A status that stands still means that "
    "nothing grows or shrinks, and that what a throttle counts from it is out of date.",
    needs=_SEEN,
)
def fallen_silent(facts: Facts) -> Iterator[Trouble]:
    """cluster-autoscaler has fallen silent."""
    status = facts.detected.status
    age_s = facts.now_s - status.at_s if status is not None and status.at_s else 0.0
    if age_s > SILENT_S:
        yield Trouble(
            "configmap/cluster-autoscaler-status -n kube-system",
            f"cluster-autoscaler last wrote its status {age_s / 60:.0f} min ago: it does not run, hangs, or leads no "
            "more",
            "kubectl get pods -A -l app.kubernetes.io/name=cluster-autoscaler",
        )


@check(
    "KB025",
    Severity.ERROR,
    about="With more than 45 % of the nodes unready (and more than 3) cluster-autoscaler stops. Nodes whose "
    "startup taint stays for more than 15 min count.",
    needs=(*_SEEN, kinds.NODES),
)
def near_halt(facts: Facts) -> Iterator[Trouble]:
    """Too many unready nodes."""
    unready = [node.name for node in facts.nodes if not node.is_ready]
    share = 100 * len(unready) / len(facts.nodes) if facts.nodes else 0.0
    has_it = Autoscaler.CLUSTER_AUTOSCALER in facts.detected.autoscalers
    most = _flag(facts, "max-total-unready-percentage", UNREADY_SHARE)
    if has_it and len(unready) > _flag(facts, "ok-total-unready-count", UNREADY_COUNT) and share > most:
        yield Trouble(
            f"node/{sorted(unready)[0]}",
            f"{len(unready)} of {count(len(facts.nodes), 'node is', 'nodes are')} not ready ({share:.0f} %): "
            f"above {most:.3g} % cluster-autoscaler neither grows nor shrinks anything",
            "kubectl get nodes | grep -v ' Ready'",
        )


@check(
    "KB026",
    Severity.WARNING,
    about="Both see every waiting pod unless taints or labels keep them apart.",
    needs=(*_SEEN, kinds.NODE_POOLS),
)
def two_autoscalers(facts: Facts) -> Iterator[Trouble]:
    """Two autoscalers."""
    if len(facts.detected.autoscalers) > 1:
        yield Trouble(
            "cluster",
            "cluster-autoscaler and Karpenter both run: each may grow for the same waiting pod",
            "# keep their nodes apart by taints or labels, or scale one of them to 0",
        )


def _count(amount: object) -> int | None:
    milli = milli_or_none(amount)
    return None if milli is None else milli // 1000


@check(
    "KB028",
    Severity.INFO,
    about="cluster-autoscaler leaves out node groups whose quota is used up before its expander chooses, so pods "
    "without a selector go to the other groups. Groups are told by the clouds' labels on their nodes.",
    needs=(kinds.NODES, kinds.THROTTLES),
)
def beside_quota(facts: Facts) -> Iterator[Trouble]:
    """Node groups beside a throttle's quota."""
    paced = [throttle for throttle in facts.throttles if throttle.spec.levers.capacity_quota is not None]
    for throttle in paced:
        own = [node for node in facts.nodes if matches(throttle.spec.nodes, node.labels)]
        lasting = {taint for node in own for taint in node.taints}
        others = (node for node in facts.nodes if not any(matches(one.spec.nodes, node.labels) for one in paced))
        groups = {
            node.labels[label]
            for node in others
            for label in GROUP_LABELS
            if label in node.labels and lasting.issuperset(node.taints)
        }
        if own and groups:
            yield Trouble(
                f"jointhrottle/{throttle.metadata.name}",
                f"its quota does not count the nodes of {some(groups)}: once it is used up, pods that may run there as "
                "well make these grow, without a pace",
                f"kubectl edit jointhrottle {throttle.metadata.name}  # spec.nodes: select them too; "
                "or taint these nodes",
            )


CHECKS = (
    gate_off,
    not_valid,
    at_ceiling,
    paced_by_flag,
    given_up,
    near_halt,
    two_autoscalers,
    fallen_silent,
    beside_quota,
)


@check(
    "KB030",
    Severity.WARNING,
    about="Karpenter checks `limits.nodes` before a scheduling round and does not subtract within it: with 4 it "
    "was seen to launch 40 at once. Limits on cpu and memory are subtracted. Only 0 blocks.",
    needs=(kinds.NODE_POOLS,),
)
def limited_by_count(facts: Facts) -> Iterator[Trouble]:
    """limits.nodes used as a pace on Karpenter."""
    for pool in seen_cluster.node_pools(facts.cluster):
        limit = (pool.spec.limits or {}).get(NODES)
        if limit is not None and not pool.is_static and milli_or_none(limit) != 0:
            yield Trouble(
                f"nodepool/{pool.metadata.name}",
                f"Karpenter checks limits.nodes {limit} once per scheduling round, so one round may launch any number "
                "beyond it",
                _by_cores(facts, pool),
            )


def _by_cores(facts: Facts, pool: NodePool) -> str:
    """The same limit as a sum of cores, where a machine of the pool tells how many it has; a lower one stays."""
    name, limits = pool.metadata.name, pool.spec.limits or {}
    cores = max((node.allocatable.get("cpu", 0) for node in facts.nodes if node.labels.get(POOL) == name), default=0)
    nodes, own = (milli_or_none(limits.get(resource)) for resource in (NODES, "cpu"))
    if not cores or nodes is None:
        return f"kubectl edit nodepool {name}  # spec.limits: cpu in place of nodes"
    most = nodes // 1000 * -(-cores // 1000)
    cpu = "" if own is not None and own <= 1000 * most else f',"cpu":"{most}"'
    return f'kubectl patch nodepool {name} --type=merge -p \'{{"spec":{{"limits":{{"nodes":null{cpu}}}}}}}\''


@check(
    "KB031",
    Severity.WARNING,
    about="Karpenter orders nothing from a pool whose usage is above a limit, so drift and node repair stop. A limit "
    "equal to what exists does not stop them: it leaves out the node that is to go. Of a static pool it counts that "
    "one, too: with `limits.nodes` at `replicas` drift stops, unless Karpenter's gate `TerminateFirstDrift` is on.",
    needs=(kinds.NODE_POOLS, kinds.PODS),
)
def pool_at_limits(facts: Facts) -> Iterator[Trouble]:
    """A NodePool that leaves no room for repair."""
    for pool in seen_cluster.node_pools(facts.cluster):
        if pool.is_static:
            yield from _static_at_limit(facts, pool)
            continue
        over = [
            name for name, limit in (pool.spec.limits or {}).items() if _is_over(limit, pool.status.resources.get(name))
        ]
        if over and not facts.pending:
            yield Trouble(
                f"nodepool/{pool.metadata.name}",
                f"it has more than its limits of {some(over)}: nodes that are broken or drifted cannot be replaced",
                f"kubectl edit nodepool {pool.metadata.name}  # limits of at least what it has",
            )


def _static_at_limit(facts: Facts, pool: NodePool) -> Iterator[Trouble]:
    stated, replicas = (pool.spec.limits or {}).get(NODES), pool.spec.replicas or 0
    limit, karpenter = milli_or_none(stated), facts.detected.karpenter
    if limit is None or not 0 < limit <= 1000 * replicas or (karpenter and karpenter.gates.get(TERMINATE_FIRST)):
        return
    yield Trouble(
        f"nodepool/{pool.metadata.name}",
        f"limits.nodes {stated} leaves no room beside its {count(replicas, 'replica')}: Karpenter replaces a drifted "
        "node only where the new one may come first",
        f"kubectl edit nodepool {pool.metadata.name}  # limits.nodes above replicas",
    )


@check(
    "KB032",
    Severity.WARNING,
    about="Karpenter deletes a NodeClaim that has not launched in 5 min, or whose node has not registered in 15 "
    "min, and starts over.",
    needs=(kinds.NODE_CLAIMS,),
)
def never_joined(facts: Facts) -> Iterator[Trouble]:
    """Machines about to be given up."""
    for claim in seen_cluster.node_claims(facts.cluster):
        age_s = facts.now_s - claim.metadata.created_s if claim.metadata.created_s else 0.0
        limit_s = REGISTRATION_S if claim.is_launched else LAUNCH_S
        if not claim.is_registered and not claim.is_deleting and age_s > limit_s * 0.8:
            stage = "registered" if claim.is_launched else "launched"
            yield Trouble(
                f"nodeclaim/{claim.metadata.name}",
                f"it has not {stage} after {age_s:.0f} s; Karpenter deletes it after {limit_s} s",
                f"kubectl describe nodeclaim {claim.metadata.name}",
            )


@check(
    "KB033",
    Severity.ERROR,
    about="Karpenter leaves out `startupTaints` when it looks whether a pod fits; what stands among `taints` counts.",
    needs=(kinds.NODE_POOLS, kinds.THROTTLES),
)
def unlisted_startup_taint(facts: Facts) -> Iterator[Trouble]:
    """A startup taint that Karpenter takes for lasting."""
    keys = {
        throttle.spec.levers.startup_taint.key for throttle in facts.throttles if throttle.spec.levers.startup_taint
    }
    for pool in facts.items(kinds.NODE_POOLS):
        known = {text(taint, "key") for taint in parts(pool, "spec", "template", "spec", "startupTaints")}
        lasting = {text(taint, "key") for taint in parts(pool, "spec", "template", "spec", "taints")}
        for key in sorted((keys & lasting) - known):
            yield Trouble(
                f"nodepool/{name_of(pool)}",
                f"the throttle's taint {key} is among its taints and not its startupTaints: Karpenter takes it for "
                "lasting and launches nothing for pods that do not tolerate it",
                f"kubectl edit nodepool {name_of(pool)}  # move {key} from taints to startupTaints",
            )


@check(
    "KB035",
    Severity.WARNING,
    about="A NodePool at its limit is an error within Karpenter's round, and the next one that the pod may use is "
    "tried at once, however dear it is. With a ceiling on the preferred pool alone 216 of 240 machines came from "
    "the other, at once.",
    needs=(kinds.NODE_POOLS, kinds.THROTTLES),
)
def left_out_of_ceilings(facts: Facts) -> Iterator[Trouble]:
    """A NodePool beside a throttle's ceilings."""
    pools = seen_cluster.node_pools(facts.cluster)
    for throttle in facts.throttles:
        if beside := unpaced_pools(pools, throttle, facts.throttles):
            yield Trouble(
                f"jointhrottle/{throttle.metadata.name}",
                f"its lever leaves out NodePool {some(beside)}, which pods for its nodes may use: Karpenter orders "
                "there at once, and without a pace, whenever the others are at their ceiling",
                f"kubectl edit jointhrottle {throttle.metadata.name}  # levers.nodePoolLimits.names: add it, or leave "
                "names out; or give the pool a taint",
            )


@check(
    "KB034",
    Severity.INFO,
    about='`karpenter.sh/do-not-disrupt: "true"` also blocks drift, and with it upgrades of the machine image. '
    "Nodes that a pool of strategy Annotate holds are left out: it takes the annotation off again.",
    needs=(kinds.NODES,),
)
def never_disrupted(facts: Facts) -> Iterator[Trouble]:
    """Nodes that Karpenter may never disrupt."""
    kept = [
        node.name
        for node in facts.nodes
        if node.annotations.get(KARPENTER_KEEP_ANNOTATION) == "true" and HELD_BY_ANNOTATION not in node.annotations
    ]
    if kept:
        yield Trouble(
            f"node/{sorted(kept)[0]}",
            f"{count(len(kept), 'node')} with {KARPENTER_KEEP_ANNOTATION}=true, where drift and upgrades stop too: "
            f"{some(kept)}",
            f"kubectl annotate node {sorted(kept)[0]} {KARPENTER_KEEP_ANNOTATION}-  # once nothing needs it",
        )


@check(
    "KB036",
    Severity.WARNING,
    about="Karpenter passes over a NodePool that is not Ready, mostly because its NodeClass is gone or finds no image, "
    "subnet or role. Pods that only this pool could serve wait.",
    needs=(kinds.NODE_POOLS,),
)
def pool_not_ready(facts: Facts) -> Iterator[Trouble]:
    """A NodePool that is not Ready."""
    for pool in seen_cluster.node_pools(facts.cluster):
        if pool.unready is not None:
            yield Trouble(
                f"nodepool/{pool.metadata.name}",
                f"Karpenter orders no machines from it: {pool.unready.message or 'it is not Ready'}",
                f"kubectl describe nodepool {pool.metadata.name}  # and the NodeClass that it names",
            )


def _is_over(stated: Any, used: Any) -> bool:
    limit, taken = milli_or_none(stated), milli_or_none(used)
    return limit is not None and taken is not None and 0 < limit < taken


KARPENTER_CHECKS = (
    limited_by_count,
    pool_at_limits,
    never_joined,
    unlisted_startup_taint,
    never_disrupted,
    left_out_of_ceilings,
    pool_not_ready,
)
