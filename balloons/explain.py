"""Timelines of nodes, pods, pools and throttles: what happened to one object, when, and what it waits for.

A timeline: steps in the order in which they happened, each with its wait, and how things stand. A node's way: asked
for, launched, joined, ready, warm or bound. A pod's way: created, gated, waiting for a node, bound, running. The
story of a BalloonPool, a Karpenter NodePool or a JoinThrottle: what it says of itself, and when that changed.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from balloons.cluster import kinds, seen_cluster
from balloons.cluster.kinds import Kind
from balloons.cluster.object_fields_and_flags import (
    is_true,
    moment,
    name_of,
    namespace_of,
    pairs,
    part,
    parts,
    text,
    whole,
)
from balloons.cluster.seen_cluster import SeenCluster
from throttler.kube.cluster_autoscaler import NODES, CapacityQuota
from throttler.kube.karpenter import NodePool
from throttler.kube.node import KARPENTER_POOL_LABEL, Node
from throttler.kube.pod import MIRROR_ANNOTATION, POOL_LABEL, Pod, is_marked
from throttler.kube.quantities_and_durations import Resources, milli_or_none
from throttler.kube.taints import Taint, is_joining_taint, is_marked_to_leave, untolerated
from throttler.levers.node_pool_ceiling import ACCELERATORS
from throttler.levers.pool_shares import may_have_accelerators, may_make
from throttler.levers.scheduling_gate import PACED_GATE

_CLAIM = {"Launched": "launched", "Registered": "registered", "Initialized": "initialized"}
ONE = 1000
"""In milli-units."""
SAME_MOMENT = timedelta(minutes=1)
"""A condition and the Event of one change are written by two calls, and either may be tried again."""
SAME_WRITE = timedelta(seconds=5)
"""And neither had to be."""
_CONDITIONS = {"PodScheduled": "bound", "Initialized": "initialized", "Ready": "ready"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Something that happened at `at`, or that holds now (None). `wait_s` is the time since the step before.

    `because` is a reason code as status, Events, log and metrics have it; `message` says it in words.
    """

    what: str
    at: datetime | None = None
    because: str = ""
    message: str = ""
    wait_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """The steps of `subject` (kind/name), and `now`: one sentence on how it stands at `seen_at`."""

    subject: str
    seen_at: datetime
    steps: tuple[Step, ...] = ()
    now: str = ""


def in_order(steps: Iterable[Step]) -> tuple[Step, ...]:
    """By time, with the waits filled in; what holds now comes last. Equal times keep their order, and repeats go."""
    unique = list(dict.fromkeys(steps))
    dated = sorted(((step.at, step) for step in unique if step.at is not None), key=lambda pair: pair[0])
    waits, before = [], None
    for at, step in dated:
        waits.append(replace(step, wait_s=None if before is None else (at - before).total_seconds()))
        before = at
    return (*waits, *(step for step in unique if step.at is None))


def condition_steps(thing: Any, names: dict[str, str]) -> list[Step]:
    """The conditions that are True and have a name here, as steps; those without a time are left out."""
    dated = ((condition, moment(condition, "lastTransitionTime")) for condition in parts(thing, "status", "conditions"))
    return [
        Step(what=names[text(condition, "type")], at=at)
        for condition, at in dated
        if at is not None and text(condition, "type") in names and text(condition, "status") == "True"
    ]


def event_steps(cluster: SeenCluster, kind: str, name: str, namespace: str = "") -> list[Step]:
    """What Events say of an object; of repeated ones the last."""
    about = [event for event in cluster.naming(kinds.EVENTS, name) if _is_about(event, kind, name, namespace)]
    return [
        Step(
            what=f"Event from {_reporter(event)}",
            at=_when(event),
            because=text(event, "reason"),
            message=text(event, "note"),
        )
        for event in about
    ]


def held_by_throttles(cluster: SeenCluster) -> list[Step]:
    """What the throttles say of themselves, in their own words."""
    return [
        Step(
            what=f"throttle {name_of(throttle)} {text(throttle, 'status', 'phase') or 'has not spoken'}",
            because=text(throttle, "status", "because"),
            message=text(throttle, "status", "message"),
        )
        for throttle in cluster.plain(kinds.THROTTLES)
    ]


def _is_about(event: Any, kind: str, name: str, namespace: str) -> bool:
    regarding = event.get("regarding")
    is_named = (text(regarding, "kind"), text(regarding, "name")) == (kind, name)
    # Events about cluster-scoped objects are stored in `default`, whatever they regard.
    return is_named and (not namespace or namespace_of(event) == namespace)


def _when(event: Any) -> datetime | None:
    return (
        moment(event, "series", "lastObservedTime")
        or moment(event, "deprecatedLastTimestamp")
        or moment(event, "eventTime")
        or moment(event, "metadata", "creationTimestamp")
    )


def _reporter(event: Any) -> str:
    """`balloons`, not `kube-balloons.github.io/balloons`."""
    whole = text(event, "reportingController") or text(event, "deprecatedSource", "component")
    return whole.rpartition("/")[2] or "somebody"


def explain_node(cluster: SeenCluster, name: str) -> Timeline | None:
    """The node's timeline, or that of the NodeClaim of this name whose node has not come; None: there is neither."""
    node = next((node for node in cluster.naming(kinds.NODES, name) if name_of(node) == name), None)
    claim = next((claim for claim in cluster.naming(kinds.NODE_CLAIMS, name) if name in _names(claim)), None)
    if node is None and claim is None:
        return None
    steps = [*way_of(node, claim), *event_steps(cluster, "Node", name)]
    steps += event_steps(cluster, "NodeClaim", name_of(claim)) if claim is not None else []
    on_it = [pod for pod in cluster.naming(kinds.PODS, name) if node and text(pod, "spec", "nodeName") == name]
    steps += [step for pod in on_it for step in _bound(pod)]
    return Timeline(
        subject=f"node/{name}", seen_at=cluster.taken_at, steps=in_order(steps), now=_node_stands(node, claim, on_it)
    )


def way_of(node: Any, claim: Any) -> list[Step]:
    """From the order to Ready, as far as it has come; either may be None."""
    steps = [
        Step(what="asked for", at=moment(claim, "metadata", "creationTimestamp")),
        *condition_steps(claim, _CLAIM),
        Step(what="joined", at=moment(node, "metadata", "creationTimestamp")),
        *condition_steps(node, {"Ready": "ready"}),
    ]
    return [step for step in steps if step.at is not None]


def _names(claim: Any) -> tuple[str, ...]:
    return tuple(filter(None, (name_of(claim), text(claim, "status", "nodeName"))))


def _bound(pod: Any) -> Iterator[Step]:
    """A balloon makes the node warm; work makes it busy. What every node has says nothing."""
    if _is_work(pod):
        pool = "" if _has_ended(pod) else _pool_of(pod)
        key = f"{namespace_of(pod)}/{name_of(pod)}"
        what = f"warm: held for pool {pool}" if pool else f"bound: {key}"
        yield from condition_steps(pod, {"PodScheduled": what})


def _pool_of(pod: Any) -> str:
    """Whose balloon it is; empty for all other pods. Work may wear a pool's label as well."""
    labels = pairs(pod, "metadata", "labels")
    return labels[POOL_LABEL] if is_marked(labels) else ""


def _is_work(pod: Any) -> bool:
    owners = {text(owner, "kind") for owner in parts(pod, "metadata", "ownerReferences")}
    return owners.isdisjoint({"DaemonSet", "Node"}) and not text(pod, "metadata", "annotations", MIRROR_ANNOTATION)


def _node_stands(node: Any, claim: Any, on_it: list[dict[str, Any]]) -> str:
    if node is None:
        missing = next((word for name, word in _CLAIM.items() if not _is(claim, name)), "matched with its node")
        return f"it has not joined: its NodeClaim is not {missing} yet"
    if not _is(node, "Ready"):
        why = next((c for c in parts(node, "status", "conditions") if text(c, "type") == "Ready"), {})
        return f"joined and not ready: {text(why, 'message') or text(why, 'reason') or 'its kubelet has not said why'}"
    taints = [Taint(text(taint, "key"), text(taint, "effect")) for taint in parts(node, "spec", "taints")]
    if held := [taint.key for taint in taints if is_joining_taint(taint)]:
        return f"ready, and held back by the taint {held[0]}"
    if leaving := [taint.key for taint in taints if is_marked_to_leave([taint])]:
        return f"ready, and about to be removed: it has the taint {leaving[0]}"
    if text(node, "metadata", "deletionTimestamp"):
        return "ready, and being removed"
    if part(node, "spec").get("unschedulable") is True:
        return "ready and cordoned: nothing new starts there"
    there = [pod for pod in on_it if not _has_ended(pod)]
    pools = {_pool_of(pod) for pod in there} - {""}
    work = sum(_is_work(pod) and not _pool_of(pod) for pod in there)
    if pools:
        for_whom = f"held for pool {', '.join(sorted(pools))}"
        return f"{for_whom}, beside pods of work: {work}" if work else f"warm: {for_whom}"
    return f"ready, pods of work on it: {work}" if work else "ready and idle"


def _is(thing: Any, name: str) -> bool:
    return any(
        (text(condition, "type"), text(condition, "status")) == (name, "True")
        for condition in parts(thing, "status", "conditions")
    )


def explain_pod(cluster: SeenCluster, namespace: str, name: str) -> Timeline | None:
    """The pod's timeline; None where there is none of this name."""
    mine = (pod for pod in cluster.naming(kinds.PODS, name) if (namespace_of(pod), name_of(pod)) == (namespace, name))
    pod = next(mine, None)
    if pod is None:
        return None
    steps = [Step(what="created", at=moment(pod, "metadata", "creationTimestamp")), *condition_steps(pod, _CONDITIONS)]
    steps += event_steps(cluster, "Pod", name, namespace)
    steps += _way_of_its_node(cluster, pod)
    node = text(pod, "spec", "nodeName")
    if not node and not _has_ended(pod):
        asking = seen_cluster.one_pod(pod)
        steps += [*held_by_throttles(cluster), *_used_up(seen_cluster.quotas(cluster), asking)]
        steps += _closed(seen_cluster.node_pools(cluster), seen_cluster.nodes(cluster), asking)
    return Timeline(
        subject=f"pod/{name} -n {namespace}",
        seen_at=cluster.taken_at,
        steps=in_order(steps),
        now=_pod_stands(pod, node),
    )


def _way_of_its_node(cluster: SeenCluster, pod: Any) -> list[Step]:
    """The steps of a node that came after the pod, which therefore waited for it."""
    node_name, created = text(pod, "spec", "nodeName"), moment(pod, "metadata", "creationTimestamp")
    node = next((node for node in cluster.naming(kinds.NODES, node_name) if name_of(node) == node_name), None)
    joined = moment(node, "metadata", "creationTimestamp")
    if created is None or joined is None or joined < created:
        return []
    claims = cluster.naming(kinds.NODE_CLAIMS, node_name)
    claim = next((claim for claim in claims if text(claim, "status", "nodeName") == node_name), None)
    return [Step(what=f"node {node_name} {step.what}", at=step.at) for step in way_of(node, claim)]


def _used_up(quotas: Iterable[CapacityQuota], pod: Pod | None) -> Iterator[Step]:
    """Quotas that leave no node as large as the pod."""
    for quota in quotas:
        used = quota.status.used.resources if quota.status.used else {}
        limits = quota.spec.limits.resources
        if used and not _has_room(limits, used, pod.requests if pod else {}):
            yield Step(what=f"capacityquota {quota.metadata.name} is used up", message=_amounts(limits))


def _closed(pools: Sequence[NodePool], nodes: Iterable[Node], pod: Pod | None) -> list[Step]:
    """What keeps Karpenter from a new node for the pod.

    Of pools that may serve it those that are full or not Ready. Only where none may serve it, why each may not.
    """
    sizes = defaultdict[str, list[Resources]](list)
    for node in nodes:
        sizes[node.labels.get(KARPENTER_POOL_LABEL, "")].append(node.allocatable)
    why_not = {pool.metadata.name: _why_not(pool, sizes[pool.metadata.name], pod) if pod else "" for pool in pools}
    if all(why_not.values()):
        return [Step(what=f"nodepool {name} cannot serve it", message=why) for name, why in why_not.items()]
    steps = []
    for pool in pools:
        name, limits = pool.metadata.name, pool.spec.limits or {}
        if why_not[name]:
            continue
        if pool.unready is not None:
            steps.append(Step(what=f"nodepool {name} is not Ready", message=pool.unready.message))
        elif not _has_room(limits, pool.status.resources, pod.requests if pod else {}):
            steps.append(Step(what=f"nodepool {name} is at its limits", message=_amounts(limits)))
        elif not _has_room(limits, pool.status.resources, _smallest(sizes[name])):
            steps.append(Step(what=f"nodepool {name} has no room for a node like its own", message=_amounts(limits)))
    return steps


def _smallest(sizes: Sequence[Resources]) -> Resources:
    """Of each resource what every node has."""
    return {name: min(size.get(name, 0) for size in sizes) for size in sizes[:1] for name in size}


def _has_room(limits: Mapping[str, Any], used: Mapping[str, Any], node: Resources) -> bool:
    """Whether one more node with so much of each fits all limits that can be read."""
    for name, limit in limits.items():
        most, taken = milli_or_none(limit), milli_or_none(used.get(name, "0"))
        # Any node takes cpu and memory, but a device only if it has one: a limit of no GPUs leaves room for others.
        least = ONE if name == NODES else int("/" not in name)
        if most is not None and taken is not None and taken + max(least, node.get(name, 0)) > most:
            return False
    return True


def _why_not(pool: NodePool, sizes: Sequence[Resources], pod: Pod) -> str:
    """Why no new node of the pool could ever take the pod; empty where one may. `sizes` are those of its nodes."""
    how = pod.scheduling
    if pool.is_static:
        return f"its number of nodes is fixed at {pool.spec.replicas}"
    if how is not None:
        if (taint := untolerated(pool.spec.taints, how.tolerations)) is not None:
            value = f"={taint.value}" if taint.value else ""
            return f"the pod does not tolerate {taint.key}{value}:{taint.effect}"
        if not may_make(pool, how):
            return "the pod's node selector or affinity asks for other nodes"
    if not may_have_accelerators(sizes, pod.requests):
        wanted = ACCELERATORS & {name for name, milli in pod.requests.items() if milli > 0}
        missing = wanted.difference(*sizes) or wanted
        return f"its nodes have no {' and '.join(sorted(missing))}"
    return ""


def _amounts(limits: Any) -> str:
    return ", ".join(f"{name} {amount}" for name, amount in sorted(limits.items()))


def _has_ended(pod: Any) -> bool:
    return text(pod, "status", "phase") in ("Succeeded", "Failed")


def _pod_stands(pod: Any, node: str) -> str:
    phase = text(pod, "status", "phase") or "Pending"
    if _has_ended(pod):
        return f"it has ended ({phase})"
    gates = [text(gate, "name") for gate in parts(pod, "spec", "schedulingGates")]
    if gates:
        whose = "a throttle opens it as nodes may start" if PACED_GATE in gates else "whoever set it must open it"
        return f"gated by {', '.join(gates)}: {whose}"
    if node:
        leaving = ", and leaving" if text(pod, "metadata", "deletionTimestamp") else ""
        return f"{phase.lower()} on {node}{leaving}"
    said = next((c for c in parts(pod, "status", "conditions") if text(c, "type") == "PodScheduled"), {})
    nominated = text(pod, "status", "nominatedNodeName")
    to_come = f"; it is to get {nominated} when its victims have left" if nominated else ""
    return f"waiting for a node: {text(said, 'message') or 'the scheduler has not looked at it'}{to_come}"


def explain_pool(cluster: SeenCluster, namespace: str, name: str) -> Timeline | None:
    """The BalloonPool of this name, or Karpenter's NodePool, which has no namespace; None where it is not there."""
    kind, counts = (kinds.BALLOON_POOLS, _counts) if namespace else (kinds.NODE_POOLS, _limits)
    things = (thing for thing in cluster.plain(kind) if (name_of(thing), namespace_of(thing)) == (name, namespace))
    pool = next(things, None)
    return _told(cluster, kind, pool, counts(pool)) if pool is not None else None


def explain_throttle(cluster: SeenCluster, name: str) -> Timeline | None:
    """The JoinThrottle of this name; None where there is none."""
    throttle = next((throttle for throttle in cluster.plain(kinds.THROTTLES) if name_of(throttle) == name), None)
    return _told(cluster, kinds.THROTTLES, throttle, _levers(throttle)) if throttle is not None else None


def _told(cluster: SeenCluster, kind: Kind, thing: Any, more: list[Step]) -> Timeline:
    name, namespace = name_of(thing), namespace_of(thing)
    steps = [Step(what="created", at=moment(thing, "metadata", "creationTimestamp"))]
    steps += [
        Step(
            what=f"{text(condition, 'type')} became {text(condition, 'status')}",
            at=moment(condition, "lastTransitionTime"),
            because=text(condition, "reason"),
            message=text(condition, "message"),
        )
        for condition in parts(thing, "status", "conditions")
    ]
    told = event_steps(cluster, kind.kind, name, namespace)
    steps = [_as_it_was(step, told, [other for other in steps if other is not step]) for step in steps]
    events = [event for event in told if not _is_said(event, steps)]
    steps += _pause(thing)
    where = f" -n {namespace}" if namespace else ""
    return Timeline(
        subject=f"{kind.kind.lower()}/{name}{where}",
        seen_at=cluster.taken_at,
        steps=in_order([*steps, *events, *more]),
        now=_object_stands(thing, kind),
    )


def _as_it_was(step: Step, events: Iterable[Step], others: Sequence[Step]) -> Step:
    """A condition gets a new reason without a new time while its status stays: an Event of the time has the old one.

    Unless that Event is what another condition says.
    """
    near = [
        (abs(event.at - step.at), event)
        for event in events
        if event.at is not None
        and step.at is not None
        and abs(event.at - step.at) <= SAME_WRITE
        and not _is_said(event, others)
    ]
    if not step.because or not near or any(event.because == step.because for _, event in near):
        return step
    _, then = min(near, key=lambda pair: pair[0])
    return replace(step, because=then.because, message=then.message)


def _is_said(event: Step, steps: Iterable[Step]) -> bool:
    """Whether a condition says the same, for the same reason, at the same moment: a change makes both."""
    return any(
        (event.because, event.message) == (step.because, step.message)
        and event.at is not None
        and step.at is not None
        and abs(event.at - step.at) <= SAME_MOMENT
        for step in steps
    )


def _pause(thing: Any) -> list[Step]:
    """That it is paused, and why, as `balloons pause` wrote it."""
    reason = text(thing, "metadata", "annotations", kinds.PAUSE_REASON)
    is_paused = is_true(thing, "spec", "paused")
    return [Step(what="paused", message=reason or "nobody said why")] if is_paused else []


def _counts(pool: Mapping[str, Any]) -> list[Step]:
    """Zone by zone, as the pool's status has them."""
    return [
        Step(
            what=f"zone {text(zone, 'zone')}" if text(zone, "zone") else "nodes without a zone",
            message=f"{whole(zone, 'warm') or 0} warm, {whole(zone, 'busy') or 0} busy of {whole(zone, 'nodes') or 0}",
        )
        for zone in parts(pool, "status", "zones")
    ]


def _limits(pool: Mapping[str, Any]) -> list[Step]:
    limits, used = part(pool, "spec", "limits"), part(pool, "status", "resources")
    return [
        Step(what=f"limit of {name}", message=f"{used.get(name, 0)} of {limit} used") for name, limit in limits.items()
    ]


def _levers(throttle: Mapping[str, Any]) -> list[Step]:
    """What holds nodes back, and how the API servers are."""
    levers = [
        Step(
            what=f"lever {text(lever, 'name')} {text(lever, 'state')}",
            because=text(lever, "because"),
            message=text(lever, "message") or (f"ceiling {text(lever, 'ceiling')}" if text(lever, "ceiling") else ""),
        )
        for lever in parts(throttle, "status", "levers")
    ]
    return levers + [
        Step(what=f"API server {text(server, 'name')} {text(server, 'state')}", message=text(server, "message"))
        for server in parts(throttle, "status", "servers")
    ]


def _object_stands(thing: Any, kind: Kind) -> str:
    because, message = text(thing, "status", "because"), text(thing, "status", "message")
    if because or message:
        return ": ".join(filter(None, (because, message)))
    ready = next((c for c in parts(thing, "status", "conditions") if text(c, "type") == "Ready"), None)
    if ready is not None:
        said = text(ready, "message") or text(ready, "reason")
        return f"Ready is {text(ready, 'status')}{f': {said}' if said else ''}"
    if kind is kinds.NODE_POOLS:
        return "Karpenter has not looked at it yet"
    return "nobody has acted on it yet; is the service running? (balloons doctor)"
