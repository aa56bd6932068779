"""Checks of cluster-autoscaler and its CapacityQuotas (facts 2.2, 2.6, 2.8)."""

from collections.abc import Iterator

from balloons.cluster import kinds, typed
from balloons.cluster.detect import Autoscaler
from balloons.doctor.check import Check, Severity, Trouble, count, some
from balloons.doctor.facts import Facts
from throttler.api.throttle_decode import RefusedThrottle
from throttler.kube.cluster_autoscaler import NODES
from throttler.kube.node import GROUP_LABELS
from throttler.kube.quantity import QuantityError, parse_quantity
from throttler.kube.selectors import matches

GATE = "capacity-quotas-enabled"
DEFAULT_PER_SCALEUP = 1000
UNREADY_SHARE, UNREADY_COUNT = 45.0, 3
"""cluster-autoscaler's `--max-total-unready-percentage` and `--ok-total-unready-count`."""

SILENT_S = 300.0
"""It writes its status in every loop, which is every 10 s; a loop over many groups may take a minute."""


def gate_off(facts: Facts) -> Iterator[Trouble]:
    """Quotas that nobody enforces."""
    quotas, autoscaler = typed.quotas(facts.seen), facts.detected.cluster_autoscaler
    if quotas and autoscaler is not None and not autoscaler.is_on(GATE):
        yield Trouble(
            f"deployment/{autoscaler.where.partition('/')[2]} -n {autoscaler.where.partition('/')[0]}",
            f"it runs without --{GATE}: CapacityQuota {some(each.metadata.name for each in quotas)} limits nothing",
            f"# add --{GATE} to its arguments (cluster-autoscaler 1.36 or newer)",
        )


def not_valid(facts: Facts) -> Iterator[Trouble]:
    """Quotas that fail open."""
    for each in typed.quotas(facts.seen):
        validity = each.validity
        if validity is None or validity.status != "True":
            said = (
                "cluster-autoscaler has not looked at it" if validity is None else validity.message or "it is not valid"
            )
            yield Trouble(
                f"capacityquota/{each.metadata.name}",
                f"it is not in force ({said}): growth is unlimited",
                f"kubectl describe capacityquota {each.metadata.name}",
            )


def at_ceiling(facts: Facts) -> Iterator[Trouble]:
    """Quotas without room for a replacement while nothing waits."""
    for each in typed.quotas(facts.seen):
        used = each.status.used.resources if each.status.used else {}
        limit, taken = _count(each.spec.limits.resources.get(NODES)), _count(used.get(NODES))
        if limit is not None and taken is not None and 0 < limit <= taken and not facts.pending:
            yield Trouble(
                f"capacityquota/{each.metadata.name}",
                f"its limit {limit} is not above the {taken} nodes there are: no broken node can be replaced",
                f'kubectl patch capacityquota {each.metadata.name} --type=merge -p \'{{"spec":{{"limits":{{"resources":'
                f'{{"nodes":{taken + max(1, taken // 10)}}}}}}}}}\'',
            )


def paced_by_flag(facts: Facts) -> Iterator[Trouble]:
    """`--max-nodes-per-scaleup` as a pace."""
    autoscaler = facts.detected.cluster_autoscaler
    given = autoscaler.flags.get("max-nodes-per-scaleup", "") if autoscaler else ""
    if autoscaler is not None and given.isdecimal() and len(given) < 9 and int(given) < DEFAULT_PER_SCALEUP:
        space, _, name = autoscaler.where.partition("/")
        yield Trouble(
            f"deployment/{name} -n {space}",
            f"--max-nodes-per-scaleup={given} bounds one estimate, not the pace: it grows again every 10 s",
            "# make a JoinThrottle with the lever capacityQuota (docs/levers.md)",
        )


def given_up(facts: Facts) -> Iterator[Trouble]:
    """Machines that never registered."""
    status = facts.detected.status
    lost = sum(group.long_unregistered for group in status.groups) if status else 0
    if lost:
        yield Trouble(
            "configmap/cluster-autoscaler-status -n kube-system",
            f"{count(lost, 'machine')} not registered within 15 min: deleted, and the group backs off for 5 to 30 min",
            "kubectl get configmap cluster-autoscaler-status -n kube-system -o jsonpath='{.data.status}'",
        )


def fallen_silent(facts: Facts) -> Iterator[Trouble]:
    """A status that nobody writes any more."""
    status = facts.detected.status
    age_s = facts.now_s - status.at_s if status is not None and status.at_s else 0.0
    if age_s > SILENT_S:
        yield Trouble(
            "configmap/cluster-autoscaler-status -n kube-system",
            f"cluster-autoscaler last wrote its status {age_s / 60:.0f} min ago: it does not run, hangs, or leads no "
            "more",
            "kubectl get pods -A -l app.kubernetes.io/name=cluster-autoscaler",
        )


def near_halt(facts: Facts) -> Iterator[Trouble]:
    """So many unready nodes that cluster-autoscaler stops."""
    unready = [node.name for node in facts.nodes if not node.is_ready]
    share = 100 * len(unready) / len(facts.nodes) if facts.nodes else 0.0
    has_it = Autoscaler.CLUSTER_AUTOSCALER in facts.detected.autoscalers
    if has_it and len(unready) > UNREADY_COUNT and share > UNREADY_SHARE:
        yield Trouble(
            f"node/{sorted(unready)[0]}",
            f"{len(unready)} of {len(facts.nodes)} nodes are not ready ({share:.0f} %): above {UNREADY_SHARE:.0f} % "
            "cluster-autoscaler neither grows nor shrinks anything",
            "kubectl get nodes | grep -v ' Ready'",
        )


def two_autoscalers(facts: Facts) -> Iterator[Trouble]:
    """Both autoscalers at once."""
    if len(facts.detected.autoscalers) > 1:
        yield Trouble(
            "cluster",
            "cluster-autoscaler and Karpenter both run: each may grow for the same waiting pod",
            "# keep their nodes apart by taints or labels, or scale one of them to 0",
        )


def _count(amount: object) -> int | None:
    try:
        return parse_quantity(str(amount)) // 1000 if amount is not None else None
    except QuantityError:
        return None


_SEEN = (kinds.DEPLOYMENTS, kinds.AUTOSCALER_STATUS)


def beside_quota(facts: Facts) -> Iterator[Trouble]:
    """Node groups that a throttle's quota does not count, for pods that those it counts would take."""
    throttles = [each for each in typed.throttles(facts.seen) if not isinstance(each, RefusedThrottle)]
    paced = [each for each in throttles if each.spec.levers.capacity_quota is not None]
    for each in paced:
        own = [node for node in facts.nodes if matches(each.spec.nodes, node.labels)]
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
                f"jointhrottle/{each.metadata.name}",
                f"its quota does not count the nodes of {some(groups)}: once it is used up, pods that may run there as "
                "well make these grow, without a pace",
                f"kubectl edit jointhrottle {each.metadata.name}  # spec.nodes: select them too; or taint these nodes",
            )


CHECKS = (
    Check(
        code="KB020",
        title="CapacityQuotas without the feature",
        severity=Severity.ERROR,
        about="cluster-autoscaler enforces CapacityQuota only with `--capacity-quotas-enabled`. Without it the "
        "objects are decoration, and a throttle that relies on them holds nothing back.",
        needs=(kinds.DEPLOYMENTS, kinds.QUOTAS),
        find=gate_off,
    ),
    Check(
        code="KB021",
        title="A CapacityQuota that is not in force",
        severity=Severity.ERROR,
        about="A quota is enforced only while its condition Valid is True. An invalid selector, or an autoscaler that "
        "never looked, means no limit at all: it fails open.",
        needs=(kinds.QUOTAS,),
        find=not_valid,
        is_live_only=True,
    ),
    Check(
        code="KB022",
        title="A quota that leaves no room for repair",
        severity=Severity.WARNING,
        about="A ceiling equal to what exists blocks the replacement of broken nodes. Keep headroom, and hand the "
        "lever back while nothing waits, as a JoinThrottle does.",
        needs=(kinds.QUOTAS, kinds.PODS),
        find=at_ceiling,
    ),
    Check(
        code="KB023",
        title="--max-nodes-per-scaleup as a pace",
        severity=Severity.WARNING,
        about="The flag is documented as no tool to limit throughput: it bounds the estimate of one loop, and loops "
        "run every 10 s.",
        needs=_SEEN,
        find=paced_by_flag,
    ),
    Check(
        code="KB024",
        title="Machines that never registered",
        severity=Severity.WARNING,
        about="cluster-autoscaler deletes a machine that has not registered for 15 min, and backs its group off for 5 "
        "to 30 min. It is how an overloaded API server turns one slow scale-up into several.",
        needs=_SEEN,
        find=given_up,
    ),
    Check(
        code="KB025",
        title="Too many unready nodes",
        severity=Severity.ERROR,
        about="With more than 45 % of the nodes unready (and more than 3) cluster-autoscaler stops. Nodes whose "
        "startup taint stays for more than 15 min count.",
        needs=(*_SEEN, kinds.NODES),
        find=near_halt,
    ),
    Check(
        code="KB026",
        title="Two autoscalers",
        severity=Severity.WARNING,
        about="Both see every waiting pod unless taints or labels keep them apart.",
        needs=(*_SEEN, kinds.NODE_POOLS),
        find=two_autoscalers,
    ),
    Check(
        code="KB027",
        title="cluster-autoscaler has fallen silent",
        severity=Severity.ERROR,
        about="It writes the time into its status ConfigMap in every loop. A status that stands still means that "
        "nothing grows or shrinks, and that what a throttle counts from it is out of date.",
        needs=_SEEN,
        find=fallen_silent,
    ),
    Check(
        code="KB028",
        title="Node groups beside a throttle's quota",
        severity=Severity.INFO,
        about="cluster-autoscaler leaves out node groups whose quota is used up before its expander chooses, so pods "
        "without a selector go to the other groups. Groups are told by the clouds' labels on their nodes.",
        needs=(kinds.NODES, kinds.THROTTLES),
        find=beside_quota,
    ),
)
