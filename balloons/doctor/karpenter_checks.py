"""Checks of Karpenter's pools and machines (facts 2.3, 2.6, 2.8, 1.17)."""

from collections.abc import Iterator
from typing import Any

from balloons.cluster import kinds, typed
from balloons.cluster.reach import name_of, parts, text
from balloons.doctor.check import Check, Severity, Trouble, count, some
from balloons.doctor.facts import Facts
from throttler.api.throttle_decode import RefusedThrottle
from throttler.kube.node import HELD_BY_ANNOTATION, KARPENTER_KEEP_ANNOTATION
from throttler.kube.node import KARPENTER_POOL_LABEL as POOL
from throttler.kube.quantity import QuantityError, parse_quantity
from throttler.service.lever_objects import left_out

LAUNCH_S, REGISTRATION_S = 300, 900
"""Karpenter's constants: after these it gives a machine up."""
GATE = "nodes"


def limited_by_count(facts: Facts) -> Iterator[Trouble]:
    """`limits.nodes` of dynamic pools."""
    for pool in typed.node_pools(facts.seen):
        given = (pool.spec.limits or {}).get(GATE)
        if given is not None and pool.spec.replicas is None and _milli(given) != 0:
            yield Trouble(
                f"nodepool/{pool.metadata.name}",
                f"limits.nodes {given} is looked at once per scheduling round: one round may launch any number beyond "
                "it",
                _by_cores(facts, pool.metadata.name, int(_milli(given) or 0) // 1000),
            )


def _by_cores(facts: Facts, pool: str, nodes: int) -> str:
    """The same limit as a sum of cores, where a machine of the pool tells how many it has."""
    cores = max((node.allocatable.get("cpu", 0) for node in facts.nodes if node.labels.get(POOL) == pool), default=0)
    if not cores:
        return f"kubectl edit nodepool {pool}  # spec.limits: cpu in place of nodes"
    limits = f'{{"nodes":null,"cpu":"{nodes * -(-cores // 1000)}"}}'
    return f'kubectl patch nodepool {pool} --type=merge -p \'{{"spec":{{"limits":{limits}}}}}\''


def at_ceiling(facts: Facts) -> Iterator[Trouble]:
    """Pools whose limits leave no room for one machine more."""
    for pool in typed.node_pools(facts.seen):
        full = [
            name for name, given in (pool.spec.limits or {}).items() if _is_full(given, pool.status.resources.get(name))
        ]
        if full and pool.spec.replicas is None and not facts.pending:
            yield Trouble(
                f"nodepool/{pool.metadata.name}",
                f"its limits of {some(full)} are used up: nodes that are broken or drifted cannot be replaced",
                f"kubectl edit nodepool {pool.metadata.name}  # room for the disruption budget, at least one node",
            )


def never_joined(facts: Facts) -> Iterator[Trouble]:
    """Machines near or past Karpenter's kill timers."""
    for claim in typed.node_claims(facts.seen):
        age_s = facts.now_s - claim.metadata.created_s
        limit_s = REGISTRATION_S if claim.is_launched else LAUNCH_S
        if not claim.is_registered and not claim.is_deleting and age_s > limit_s * 0.8:
            stage = "registered" if claim.is_launched else "launched"
            yield Trouble(
                f"nodeclaim/{claim.metadata.name}",
                f"it has not {stage} after {age_s:.0f} s; Karpenter deletes it after {limit_s} s",
                f"kubectl describe nodeclaim {claim.metadata.name}",
            )


def unlisted_startup_taint(facts: Facts) -> Iterator[Trouble]:
    """A throttle's startup taint that pools do not know."""
    keys = {
        each.spec.levers.startup_taint.key
        for each in typed.throttles(facts.seen)
        if not isinstance(each, RefusedThrottle) and each.spec.levers.startup_taint
    }
    for pool in facts.items(kinds.NODE_POOLS):
        known = {text(each, "key") for each in parts(pool, "spec", "template", "spec", "startupTaints")}
        given = {text(each, "key") for each in parts(pool, "spec", "template", "spec", "taints")}
        for key in sorted((keys & given) - known):
            yield Trouble(
                f"nodepool/{name_of(pool)}",
                f"the throttle's taint {key} is among its taints and not its startupTaints: Karpenter takes it for "
                "lasting and launches nothing for pods that do not tolerate it",
                f"kubectl edit nodepool {name_of(pool)}  # move {key} from taints to startupTaints",
            )


def left_out_of_ceilings(facts: Facts) -> Iterator[Trouble]:
    """NodePools without a ceiling beside those that a throttle moves."""
    throttles = [each for each in typed.throttles(facts.seen) if not isinstance(each, RefusedThrottle)]
    pools = typed.node_pools(facts.seen)
    for each in throttles:
        if beside := left_out(pools, each, throttles):
            yield Trouble(
                f"jointhrottle/{each.metadata.name}",
                f"its lever leaves out NodePool {some(beside)}, which pods for its nodes may use: Karpenter orders "
                "there at once, and without a pace, whenever the others are at their ceiling",
                f"kubectl edit jointhrottle {each.metadata.name}  # levers.nodePoolLimits.names: add it, or leave "
                "names out; or give the pool a taint",
            )


def never_disrupted(facts: Facts) -> Iterator[Trouble]:
    """Nodes that Karpenter may never touch, by nobody's schedule."""
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


def _is_full(given: Any, used: Any) -> bool:
    limit, taken = _milli(given), _milli(used)
    return limit is not None and taken is not None and 0 < limit <= taken


def _milli(amount: Any) -> int | None:
    try:
        return parse_quantity(str(amount)) if amount is not None else None
    except QuantityError:
        return None


CHECKS = (
    Check(
        code="KB030",
        title="limits.nodes used as a pace on Karpenter",
        severity=Severity.WARNING,
        about="Karpenter checks `limits.nodes` before a scheduling round and does not subtract within it: with 4 it "
        "was seen to launch 40 at once. Limits on cpu and memory are subtracted. Only 0 blocks.",
        needs=(kinds.NODE_POOLS,),
        find=limited_by_count,
    ),
    Check(
        code="KB031",
        title="A NodePool that leaves no room for repair",
        severity=Severity.WARNING,
        about="Limits equal to what exists block drift and node repair: a replacement must fit before the old node "
        "goes.",
        needs=(kinds.NODE_POOLS, kinds.PODS),
        find=at_ceiling,
    ),
    Check(
        code="KB032",
        title="Machines about to be given up",
        severity=Severity.WARNING,
        about="Karpenter deletes a NodeClaim that has not launched in 5 min, or whose node has not registered in 15 "
        "min, and starts over.",
        needs=(kinds.NODE_CLAIMS,),
        find=never_joined,
    ),
    Check(
        code="KB033",
        title="A startup taint that Karpenter takes for lasting",
        severity=Severity.ERROR,
        about="Karpenter leaves out `startupTaints` when it looks whether a pod fits; what stands among `taints` "
        "counts.",
        needs=(kinds.NODE_POOLS, kinds.THROTTLES),
        find=unlisted_startup_taint,
    ),
    Check(
        code="KB034",
        title="Nodes that Karpenter may never disrupt",
        severity=Severity.INFO,
        about='`karpenter.sh/do-not-disrupt: "true"` also blocks drift, and with it upgrades of the machine image. '
        "Nodes that a pool of strategy Annotate holds are left out: it takes the annotation off again.",
        needs=(kinds.NODES,),
        find=never_disrupted,
    ),
    Check(
        code="KB035",
        title="A NodePool beside a throttle's ceilings",
        severity=Severity.WARNING,
        about="A NodePool at its limit is an error within Karpenter's round, and the next one that the pod may use is "
        "tried at once, however dear it is. With a ceiling on the preferred pool alone 216 of 240 machines came from "
        "the other, at once.",
        needs=(kinds.NODE_POOLS, kinds.THROTTLES),
        find=left_out_of_ceilings,
    ),
)
