"""A node's way: asked for, launched, joined, ready, warm or bound."""

from collections.abc import Iterator
from typing import Any

from balloons.cluster import kinds
from balloons.cluster.reach import moment, name_of, part, parts, text
from balloons.cluster.seen import SeenCluster
from balloons.explain.timeline import Step, Timeline, condition_steps, event_steps, in_order
from throttler.kube.pod import MIRROR_ANNOTATION, POOL_LABEL

_CLAIM = {"Launched": "launched", "Registered": "registered", "Initialized": "initialized"}
_STARTUP = ("startup-taint.", "node.cloudprovider.kubernetes.io/uninitialized", "karpenter.sh/unregistered")


def explain_node(seen: SeenCluster, name: str) -> Timeline | None:
    """The node's timeline, or that of the NodeClaim of this name whose node has not come; None: there is neither."""
    node = next((each for each in seen.plain(kinds.NODES) if name_of(each) == name), None)
    claim = next((each for each in seen.plain(kinds.NODE_CLAIMS) if name in _names(each)), None)
    if node is None and claim is None:
        return None
    steps = [*way_of(seen, node, claim), *event_steps(seen, "Node", name)]
    steps += event_steps(seen, "NodeClaim", name_of(claim)) if claim else []
    on_it = list(_pods_on(seen, name)) if node else []
    steps += [step for pod in on_it for step in _bound(pod)]
    return Timeline(
        subject=f"node/{name}", seen_at=seen.taken_at, steps=in_order(steps), now=_stands(node, claim, on_it)
    )


def way_of(seen: SeenCluster, node: Any, claim: Any) -> list[Step]:
    """From the order to Ready, as far as it has come."""
    found = [Step(what="asked for", at=moment(claim, "metadata", "creationTimestamp"))] if claim else []
    found += condition_steps(claim, _CLAIM) if claim else []
    found += [Step(what="joined", at=moment(node, "metadata", "creationTimestamp"))] if node else []
    found += condition_steps(node, {"Ready": "ready"}) if node else []
    return [step for step in found if step.at is not None]


def is_ready(node: Any) -> bool:
    """Whether the node's Ready condition is True."""
    return any(
        (text(each, "type"), text(each, "status")) == ("Ready", "True") for each in parts(node, "status", "conditions")
    )


def _names(claim: Any) -> tuple[str, ...]:
    return tuple(filter(None, (name_of(claim), text(claim, "status", "nodeName"))))


def _pods_on(seen: SeenCluster, node: str) -> Iterator[dict[str, Any]]:
    return (each for each in seen.plain(kinds.PODS) if text(each, "spec", "nodeName") == node)


def _bound(pod: Any) -> Iterator[Step]:
    """A balloon makes the node warm; work makes it busy. What every node has says nothing."""
    if _is_work(pod):
        pool = text(pod, "metadata", "labels", POOL_LABEL)
        key = f"{text(pod, 'metadata', 'namespace')}/{name_of(pod)}"
        what = f"warm: held for pool {pool}" if pool else f"bound: {key}"
        yield from condition_steps(pod, {"PodScheduled": what})


def _is_work(pod: Any) -> bool:
    owners = {text(owner, "kind") for owner in parts(pod, "metadata", "ownerReferences")}
    return owners.isdisjoint({"DaemonSet", "Node"}) and not text(pod, "metadata", "annotations", MIRROR_ANNOTATION)


def _stands(node: Any, claim: Any, on_it: list[dict[str, Any]]) -> str:
    if node is None:
        missing = next((word for name, word in _CLAIM.items() if not _is(claim, name)), "matched with its node")
        return f"it has not joined: its NodeClaim is not {missing} yet"
    if not is_ready(node):
        why = next((c for c in parts(node, "status", "conditions") if text(c, "type") == "Ready"), {})
        return f"joined and not ready: {text(why, 'message') or text(why, 'reason') or 'its kubelet has not said why'}"
    held = [text(t, "key") for t in parts(node, "spec", "taints") if text(t, "key").startswith(_STARTUP)]
    if held:
        return f"ready, and held back by the taint {held[0]}"
    if part(node, "spec").get("unschedulable") is True:
        return "ready and cordoned: nothing new starts there"
    pools = {text(each, "metadata", "labels", POOL_LABEL) for each in on_it} - {""}
    work = sum(_is_work(each) and not text(each, "metadata", "labels", POOL_LABEL) for each in on_it)
    if pools and not work:
        return f"warm: held for pool {', '.join(sorted(pools))}"
    return f"ready, pods of work on it: {work}" if work else "ready and idle"


def _is(thing: Any, name: str) -> bool:
    return any(
        text(each, "type") == name and text(each, "status") == "True" for each in parts(thing, "status", "conditions")
    )
