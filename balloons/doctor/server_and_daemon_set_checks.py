"""Checks of the control plane and of what surrounds it."""

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from balloons.cluster import kinds
from balloons.cluster.kinds import Kind
from balloons.cluster.object_fields_and_flags import name_of, namespace_of, pairs, part, parts, text, whole
from balloons.doctor.check import Facts, Severity, Trouble, called, check, selector_of
from throttler.api.throttle_rules import TAINT_LIMIT_S
from throttler.kube.pod import PodKind
from throttler.kube.quantities_and_durations import count
from throttler.kube.selectors import can_match, matches
from throttler.kube.taints import NOT_READY_TAINT, is_joining_taint

DEFAULT_QPS = 20.0
"""kube-controller-manager's `--kube-api-qps`, for each of its controllers."""
SLOW_NODES_PER_S = 3.0
"""Below it 500 nodes wait for minutes for their DaemonSet pods."""
PART_OF = "app.kubernetes.io/part-of"
NAMESPACE_LABEL = "kubernetes.io/metadata.name"
"""On every Namespace: its own name."""
_MONITORING: tuple[Kind, ...] = (kinds.PROMETHEUSES, kinds.SERVICE_MONITORS, kinds.POD_MONITORS)


@check(
    "KB040",
    Severity.WARNING,
    about="Each controller may send `--kube-api-qps` (20) requests per second, and each new node costs one pod "
    "per DaemonSet: 20/D nodes per second. Seen: 200 nodes Ready in seconds, then 80 s of waiting for 1,600 pods "
    "while the API server was idle. No pace of joins helps there.",
    needs=(kinds.DAEMON_SETS, kinds.PODS),
    is_live_only=True,
)
def slow_daemons(facts: Facts) -> Iterator[Trouble]:
    """The controller manager's limit against the number of DaemonSets."""
    manager = facts.detected.controller_manager
    qps = _number(manager.flags.get("kube-api-qps", "")) if manager else None
    daemons = _daemons_of_a_node(facts)
    pace = (qps or DEFAULT_QPS) / daemons if daemons else SLOW_NODES_PER_S
    if pace < SLOW_NODES_PER_S:
        source = f"--kube-api-qps is {qps:g}" if qps else f"its default of {DEFAULT_QPS:g} requests/s is assumed"
        yield Trouble(
            "kube-controller-manager",
            f"with {count(daemons, 'DaemonSet')} on a node at most {pace:.1f} nodes/s get their pods ({source}): "
            f"500 nodes take {500 / pace:.0f} s however idle the API servers are",
            f"# set --kube-api-qps={SLOW_NODES_PER_S * daemons * 2:.0f} "
            f"--kube-api-burst={SLOW_NODES_PER_S * daemons * 3:.0f} "
            "on kube-controller-manager, where it is yours",
        )


@check(
    "KB041",
    Severity.WARNING,
    about="A controller outside kube-system is in workload-low, with everybody else's controllers. In the "
    "overload that the throttle exists for it would be rejected itself.",
    needs=(kinds.DEPLOYMENTS, kinds.FLOW_SCHEMAS),
    is_live_only=True,
)
def no_flow_schema(facts: Facts) -> Iterator[Trouble]:
    """The service has no priority level."""
    homes = {
        namespace_of(deployment)
        for deployment in facts.deployments
        if part(deployment, "metadata", "labels").get(PART_OF) == "kube-balloons"
    }
    served = {home for schema in facts.items(kinds.FLOW_SCHEMAS) for home in _namespaces_of(schema)}
    if homes - served:
        yield Trouble(
            "flowschema/kube-balloons",
            "there is none for the service: it shares workload-low with everybody and starves in the overload that it "
            "must see",
            "kubectl apply -f manifests/components/flow-control/flow-control.yaml",
        )


@check(
    "KB042",
    Severity.WARNING,
    about="A Prometheus picks monitors by their labels and their namespace; a widely used chart selects only those "
    "of its own release, and without a selector of namespaces it looks into its own only. Then all panels are "
    "empty and no alert fires.",
    needs=_MONITORING,
    also=(kinds.NAMESPACES,),
    is_live_only=True,
)
def unseen_monitors(facts: Facts) -> Iterator[Trouble]:
    """Monitors that no Prometheus selects."""
    prometheuses = facts.items(kinds.PROMETHEUSES)
    spaces = {name_of(space): pairs(space, "metadata", "labels") for space in facts.items(kinds.NAMESPACES)}
    for kind, word in ((kinds.SERVICE_MONITORS, "serviceMonitor"), (kinds.POD_MONITORS, "podMonitor")):
        for thing in facts.items(kind) if prometheuses else ():
            labels, space = pairs(thing, "metadata", "labels"), namespace_of(thing)
            if labels.get(PART_OF) != "kube-balloons":
                continue
            willing = [watcher for watcher in prometheuses if _selects(watcher, f"{word}Selector", labels)]
            if not willing:
                wanted = part(prometheuses[0], "spec", f"{word}Selector", "matchLabels")
                yield Trouble(
                    called(kind, thing),
                    f"no Prometheus selects it (the first wants {_pairs(wanted)}): there are no metrics",
                    _labelling(called(kind, thing), wanted),
                )
            elif not any(_looks_into(watcher, f"{word}NamespaceSelector", space, spaces) for watcher in willing):
                yield Trouble(
                    called(kind, thing),
                    "no Prometheus that would select it looks into its namespace: there are no metrics",
                    f"kubectl patch {called(kinds.PROMETHEUSES, willing[0])} --type=merge -p "
                    f'\'{{"spec":{{"{word}NamespaceSelector":{{}}}}}}\'',
                )


@check(
    "KB043",
    Severity.ERROR,
    about="A taint that holds a node back while it starts must be taken off again within 10 min: after 15 min "
    "cluster-autoscaler counts the node as unready, and above 45 % of such nodes it stops.",
    needs=(kinds.NODES,),
)
def stuck_taints(facts: Facts) -> Iterator[Trouble]:
    """Startup taints that never leave."""
    for node in facts.nodes:
        age_s = facts.now_s - node.created_s if node.created_s else 0.0
        for taint in node.taints:
            # The node life-cycle controller's own taint stands for a node that is not Ready: that has its own check.
            is_start = is_joining_taint(taint) and (taint.key != NOT_READY_TAINT or node.is_ready)
            if is_start and age_s > TAINT_LIMIT_S and not node.is_deleting:
                yield Trouble(
                    f"node/{node.name}",
                    f"it still has the startup taint {taint.key} after {age_s / 60:.0f} min: "
                    "no work starts there, and after 15 min it counts as unready",
                    f"kubectl taint node {node.name} {shlex.quote(f'{taint.key}:{taint.effect}-')}",
                )


@check(
    "KB044",
    Severity.WARNING,
    about="Nodes are usable when their agents run. A DaemonSet of which less than 80 % is ready is what a "
    "scale-up waits for, whatever the pace.",
    needs=(kinds.DAEMON_SETS,),
)
def unready_daemons(facts: Facts) -> Iterator[Trouble]:
    """DaemonSets behind."""
    for daemon_set in facts.items(kinds.DAEMON_SETS):
        status = part(daemon_set, "status")
        wanted, ready = status.get("desiredNumberScheduled"), status.get("numberReady")
        if isinstance(wanted, int) and isinstance(ready, int) and wanted >= MANY and ready < wanted * READY_SHARE:
            yield Trouble(
                called(kinds.DAEMON_SETS, daemon_set),
                f"{ready} of {wanted} of its pods are ready: nodes that wait for it are not usable",
                f"kubectl rollout status {called(kinds.DAEMON_SETS, daemon_set)} --timeout=1s",
            )


MANY, READY_SHARE = 10, 0.8


def _daemons_of_a_node(facts: Facts) -> int:
    """The most DaemonSets that have a pod on one node: others are for nodes of another system, or with other devices.
    Without such a pod all that want one count."""
    owners = {(pod.node, pod.owner) for pod in facts.pods if pod.node and pod.kind is PodKind.DAEMON}
    on_node = Counter(node for node, _ in owners)
    wanting = sum(whole(one, "status", "desiredNumberScheduled") != 0 for one in facts.items(kinds.DAEMON_SETS))
    return min(wanting, max(on_node.values(), default=wanting))


def _namespaces_of(schema: Mapping[str, Any]) -> set[str]:
    """Whose ServiceAccounts it is for."""
    subjects = (subject for rule in parts(schema, "spec", "rules") for subject in parts(rule, "subjects"))
    return {text(subject, "serviceAccount", "namespace") for subject in subjects}


def _selects(prometheus: Mapping[str, Any], field: str, labels: Mapping[str, str]) -> bool:
    """An absent selector selects nothing, an empty one everything (prometheus-operator's API)."""
    selector = selector_of(part(prometheus, "spec").get(field))
    return selector is not None and matches(selector, labels)


def _looks_into(prometheus: Mapping[str, Any], field: str, space: str, spaces: Mapping[str, Mapping[str, str]]) -> bool:
    """An absent selector is for Prometheus' own namespace, an empty one for all (prometheus-operator's API)."""
    selector = selector_of(part(prometheus, "spec").get(field))
    if selector is None:
        return space == namespace_of(prometheus)
    return matches(selector, spaces[space]) if space in spaces else can_match(selector, {NAMESPACE_LABEL: space})


def _labelling(thing: str, labels: Mapping[str, Any]) -> str:
    """The command that gives it these labels; where the selector names none, a word on what to do."""
    pairs = " ".join(shlex.quote(f"{key}={value}") for key, value in sorted(labels.items()))
    return f"kubectl label {thing} {pairs}" if pairs else f"kubectl edit {thing}  # labels that the selector matches"


def _pairs(labels: Mapping[str, Any]) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items())) or "other labels"


def _number(figure: str) -> float | None:
    try:
        return float(figure) if 0 < float(figure) < 1e9 else None
    except ValueError:
        return None


CHECKS = (slow_daemons, no_flow_schema, unseen_monitors, stuck_taints, unready_daemons)
