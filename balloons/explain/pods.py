"""A pod's way: created, gated, waiting for a node, bound, running."""

from typing import Any

from balloons.cluster import kinds, typed
from balloons.cluster.reach import moment, name_of, namespace_of, parts, text
from balloons.cluster.seen import SeenCluster
from balloons.explain.nodes import way_of
from balloons.explain.timeline import Step, Timeline, condition_steps, event_steps, held_by_throttles, in_order
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
    if not node:
        steps += [*held_by_throttles(seen), *_full_ceilings(seen)]
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


def _full_ceilings(seen: SeenCluster) -> list[Step]:
    """Quotas and NodePool limits that leave no room."""
    found = []
    for quota in typed.quotas(seen):
        used = quota.status.used.resources if quota.status.used else {}
        limits = quota.spec.limits.resources
        if any(name in used and str(used[name]) == str(limit) for name, limit in limits.items()):
            found.append(Step(what=f"capacityquota {quota.metadata.name} is used up", message=_amounts(limits)))
    for pool in typed.node_pools(seen):
        limits = pool.spec.limits or {}
        if any(str(pool.status.resources.get(name)) == str(limit) for name, limit in limits.items()):
            found.append(Step(what=f"nodepool {pool.metadata.name} is at its limits", message=_amounts(limits)))
    return found


def _amounts(limits: Any) -> str:
    return ", ".join(f"{name} {amount}" for name, amount in sorted(limits.items()))


def _stands(pod: Any, node: str) -> str:
    phase = text(pod, "status", "phase") or "Pending"
    if phase in ("Succeeded", "Failed"):
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
