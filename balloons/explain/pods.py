"""A pod's way: created, gated, waiting for a node, bound, running."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from balloons.cluster import kinds, typed
from balloons.cluster.reach import moment, name_of, namespace_of, parts, text
from balloons.cluster.seen import SeenCluster
from balloons.explain.nodes import way_of
from balloons.explain.timeline import Step, Timeline, condition_steps, event_steps, held_by_throttles, in_order
from throttler.kube.cluster_autoscaler import CapacityQuota
from throttler.kube.karpenter import NodePool
from throttler.kube.node import KARPENTER_POOL_LABEL, Node
from throttler.kube.pod import Pod
from throttler.kube.quantity import Resources
from throttler.kube.selectors import untolerated
from throttler.levers.node_pool_ceiling import ACCELERATORS
from throttler.levers.pool_shares import may_hold, may_make
from throttler.levers.scheduling_gate import PACED_GATE

_CONDITIONS = {"PodScheduled": "bound", "Initialized": "initialized", "Ready": "ready"}


def explain_pod(seen: SeenCluster, namespace: str, name: str) -> Timeline | None:
    """The pod's timeline; None where there is none of this name."""
    mine = (each for each in seen.plain(kinds.PODS) if (namespace_of(each), name_of(each)) == (namespace, name))
    pod = next(mine, None)
    if pod is None:
        return None
    steps = [Step(what="created", at=moment(pod, "metadata", "creationTimestamp")), *condition_steps(pod, _CONDITIONS)]
    steps += event_steps(seen, "Pod", name, namespace)
    steps += _way_of_its_node(seen, pod)
    node = text(pod, "spec", "nodeName")
    if not node and not _has_ended(pod):
        steps += [*held_by_throttles(seen), *_used_up(typed.quotas(seen))]
        steps += _closed(typed.node_pools(seen), typed.nodes(seen), typed.one_pod(pod))
    return Timeline(
        subject=f"pod/{name} -n {namespace}", seen_at=seen.taken_at, steps=in_order(steps), now=_stands(pod, node)
    )


def _way_of_its_node(seen: SeenCluster, pod: Any) -> list[Step]:
    """The steps of a node that came after the pod, which therefore waited for it."""
    node_name, created = text(pod, "spec", "nodeName"), moment(pod, "metadata", "creationTimestamp")
    node = next((each for each in seen.plain(kinds.NODES) if node_name and name_of(each) == node_name), None)
    claims = seen.plain(kinds.NODE_CLAIMS) if node else ()
    claim = next((each for each in claims if text(each, "status", "nodeName") == node_name), None)
    joined = moment(node, "metadata", "creationTimestamp")
    if node is None or created is None or joined is None or joined < created:
        return []
    return [Step(what=f"node {node_name} {step.what}", at=step.at) for step in way_of(seen, node, claim)]


def _used_up(quotas: Iterable[CapacityQuota]) -> Iterator[Step]:
    for quota in quotas:
        used = quota.status.used.resources if quota.status.used else {}
        limits = quota.spec.limits.resources
        if any(name in used and str(used[name]) == str(limit) for name, limit in limits.items()):
            yield Step(what=f"capacityquota {quota.metadata.name} is used up", message=_amounts(limits))


def _closed(pools: Sequence[NodePool], nodes: Iterable[Node], pod: Pod | None) -> list[Step]:
    """What keeps Karpenter from a new node for the pod.

    Of pools that may serve it those that are full or not Ready. Only where none may serve it, why each may not.
    """
    sizes = defaultdict[str, list[Resources]](list)
    for node in nodes:
        sizes[node.labels.get(KARPENTER_POOL_LABEL, "")].append(node.allocatable)
    why_not = {pool.metadata.name: _why_not(pool, sizes[pool.metadata.name], pod) if pod else "" for pool in pools}
    if pools and all(why_not.values()):
        return [Step(what=f"nodepool {name} cannot serve it", message=why) for name, why in why_not.items()]
    steps = []
    for pool in pools:
        name, limits = pool.metadata.name, pool.spec.limits or {}
        if why_not[name]:
            continue
        if not pool.is_usable:
            said = [condition.message for condition in pool.status.conditions or () if condition.type == "Ready"]
            steps.append(Step(what=f"nodepool {name} is not Ready", message="; ".join(said)))
        elif any(str(pool.status.resources.get(resource)) == str(limit) for resource, limit in limits.items()):
            steps.append(Step(what=f"nodepool {name} is at its limits", message=_amounts(limits)))
    return steps


def _why_not(pool: NodePool, sizes: Sequence[Resources], pod: Pod) -> str:
    """Why no new node of the pool could ever take the pod; empty where one may. `sizes` are those of its nodes."""
    how = pod.scheduling
    if pool.spec.replicas is not None:
        return f"its number of nodes is fixed at {pool.spec.replicas}"
    if how is not None and (taint := untolerated(pool.spec.taints, how.tolerations)) is not None:
        value = f"={taint.value}" if taint.value else ""
        return f"the pod does not tolerate {taint.key}{value}:{taint.effect}"
    if how is not None and not may_make(pool, how):
        return "the pod's node selector or affinity asks for other nodes"
    if not may_hold(sizes, pod.requests):
        wanted = ACCELERATORS & {name for name, milli in pod.requests.items() if milli > 0}
        missing = wanted.difference(*sizes) or wanted
        return f"its nodes have no {' and '.join(sorted(missing))}"
    return ""


def _amounts(limits: Any) -> str:
    return ", ".join(f"{name} {amount}" for name, amount in sorted(limits.items()))


def _has_ended(pod: Any) -> bool:
    return text(pod, "status", "phase") in ("Succeeded", "Failed")


def _stands(pod: Any, node: str) -> str:
    phase = text(pod, "status", "phase") or "Pending"
    if _has_ended(pod):
        return f"it has ended ({phase})"
    gates = [text(each, "name") for each in parts(pod, "spec", "schedulingGates")]
    if gates:
        whose = "a throttle opens it as nodes may start" if PACED_GATE in gates else "whoever set it must open it"
        return f"gated by {', '.join(gates)}: {whose}"
    if node:
        return f"{phase.lower()} on {node}"
    said = next((c for c in parts(pod, "status", "conditions") if text(c, "type") == "PodScheduled"), {})
    nominated = text(pod, "status", "nominatedNodeName")
    to_come = f"; it is to get {nominated} when its victims have left" if nominated else ""
    return f"waiting for a node: {text(said, 'message') or 'the scheduler has not looked at it'}{to_come}"
