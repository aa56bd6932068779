"""Checks of how balloons are made, and of priorities: who gives way to whom, and whom cluster-autoscaler sees."""

from collections.abc import Iterator, Mapping
from typing import Any

from balloons.cluster import kinds
from balloons.cluster.object_fields_and_flags import is_true, name_of, namespace_of, pairs, part, parts, text, whole
from balloons.doctor.check import Facts, Severity, Trouble, called, check, is_pause, selector_of, some, template_of
from throttler.kube.pod import PRIORITY_CLASS, PodKind
from throttler.kube.quantities_and_durations import count, total
from throttler.kube.selectors import matches

_NEEDS = (kinds.DEPLOYMENTS, kinds.PRIORITY_CLASSES)
DISK_VOLUMES = frozenset({"hostPath", "emptyDir", "persistentVolumeClaim", "ephemeral", "local"})
UTILISATION = 0.5
"""cluster-autoscaler's `--scale-down-utilization-threshold`: below it a node is a candidate for removal."""
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
CUTOFF = -10
"""cluster-autoscaler's `--expendable-pods-priority-cutoff`: below it a pod does not exist for it; at the value
itself it does."""
LOWEST_FOR_KARPENTER = -(2**25)
"""Karpenter's eviction cost is 1 + priority / 2^25: from here on a node of such pods alone counts as empty."""


@check(
    "KB010",
    Severity.WARNING,
    about="A preempted pod keeps its place until it has ended. `terminationGracePeriodSeconds: 0` must really be "
    "set: a template that takes 0 for absent gives 30 s. It is worth 3 to 11 s per preemption.",
    needs=_NEEDS,
)
def slow_to_leave(facts: Facts) -> Iterator[Trouble]:
    """Balloons with a grace period."""
    for placeholder in facts.placeholders:
        grace_s = whole(template_of(placeholder), "terminationGracePeriodSeconds")
        if grace_s != 0:
            yield Trouble(
                called(kinds.DEPLOYMENTS, placeholder),
                f"its pods take up to {30 if grace_s is None else grace_s} s to leave: every job that gets a warm "
                "node waits for that",
                _patch(placeholder, '{"spec":{"template":{"spec":{"terminationGracePeriodSeconds":0}}}}'),
            )


@check(
    "KB011",
    Severity.ERROR,
    about="Preemption prefers victims that violate no budget, so more important pods die in the balloons' place; "
    "it also blocks drains.",
    needs=(*_NEEDS, kinds.DISRUPTION_BUDGETS),
)
def balloons_under_a_budget(facts: Facts) -> Iterator[Trouble]:
    """A PodDisruptionBudget over balloons."""
    by_space: dict[str, list[dict[str, Any]]] = {}
    for placeholder in facts.placeholders:
        by_space.setdefault(namespace_of(placeholder), []).append(placeholder)
    for budget in facts.items(kinds.DISRUPTION_BUDGETS):
        # Without a selector it matches no pod; an empty one matches every pod of the namespace (policy/v1).
        selector = selector_of(part(budget, "spec").get("selector"))
        for placeholder in by_space.get(namespace_of(budget), ()):
            labels = pairs(placeholder, "spec", "template", "metadata", "labels")
            if selector is not None and matches(selector, labels):
                yield Trouble(
                    called(kinds.DISRUPTION_BUDGETS, budget),
                    f"it guards the balloons of {called(kinds.DEPLOYMENTS, placeholder)}: preemption then prefers "
                    "other, more important pods, and drains block",
                    f"kubectl delete {called(kinds.DISRUPTION_BUDGETS, budget)}",
                )


@check(
    "KB012",
    Severity.ERROR,
    about="On nodes with GPUs cluster-autoscaler computes utilisation from the GPU alone: a balloon that requests "
    "only cpu and memory holds nothing.",
    needs=(*_NEEDS, kinds.NODES, kinds.PODS),
)
def without_gpu(facts: Facts) -> Iterator[Trouble]:
    """Balloons without a GPU on GPU nodes."""
    gpu_nodes = {node.name: _gpus(node.allocatable) for node in facts.nodes if _gpus(node.allocatable)}
    held = {(namespace_of(p), name_of(p)) for p in facts.placeholder_pods}
    idle = [
        pod
        for pod in facts.pods
        if pod.node in gpu_nodes and (pod.key.namespace, pod.key.name) in held and not _gpus(pod.requests)
    ]
    if idle and facts.has_cluster_autoscaler:
        yield Trouble(
            f"pod/{idle[0].key.name} -n {idle[0].key.namespace}",
            f"{count(len(idle), 'balloon')} on GPU nodes without a GPU request: cluster-autoscaler looks only at the "
            f"GPU there and removes what it takes for unused: {some({pod.node for pod in idle})}",
            f"# add {sorted(gpu_nodes[idle[0].node])[0]} to the requests and limits of their template",
        )


@check(
    "KB013",
    Severity.WARNING,
    about="cluster-autoscaler removes nodes whose utilisation, the larger of cpu and memory requested over "
    "allocatable, is below `--scale-down-utilization-threshold` (0.5).",
    needs=(*_NEEDS, kinds.NODES, kinds.PODS),
)
def too_small(facts: Facts) -> Iterator[Trouble]:
    """Balloons too small to hold their node."""
    threshold = _threshold(facts)
    held = {(namespace_of(p), name_of(p)) for p in facts.placeholder_pods}
    on_node: dict[str, list[Any]] = {}
    for pod in facts.pods:
        if pod.node and not pod.is_finished:
            on_node.setdefault(pod.node, []).append(pod)
    low = []
    for node in facts.nodes:
        pods = on_node.get(node.name, [])
        is_held = any((pod.key.namespace, pod.key.name) in held for pod in pods)
        has_work = any(pod.kind is PodKind.WORK and (pod.key.namespace, pod.key.name) not in held for pod in pods)
        if is_held and not has_work and not _gpus(node.allocatable) and _use(pods, node.allocatable) < threshold:
            low.append(node.name)
    if low and facts.has_cluster_autoscaler:
        yield Trouble(
            f"node/{sorted(low)[0]}",
            f"{count(len(low), 'node')} held by balloons and used below {threshold:.0%}, so to be removed all the "
            f"same: {some(low)}",
            "# raise the balloons' requests to at least half of a node's cpu or memory (a BalloonPool of shape "
            "WholeNode does)",
        )


@check(
    "KB014",
    Severity.WARNING,
    about="Pods in kube-system make cluster-autoscaler wait before it drains a node.",
    needs=_NEEDS,
)
def in_kube_system(facts: Facts) -> Iterator[Trouble]:
    """Balloons in kube-system."""
    for placeholder in facts.placeholders:
        if namespace_of(placeholder) == "kube-system":
            yield Trouble(
                called(kinds.DEPLOYMENTS, placeholder),
                "it is in kube-system: cluster-autoscaler delays drains of nodes with such pods by an hour",
                f"kubectl delete {called(kinds.DEPLOYMENTS, placeholder)}  # once it runs in a namespace of its own",
            )


@check(
    "KB015",
    Severity.WARNING,
    about="Pods with local storage keep cluster-autoscaler from removing their nodes, and volumes delay the end "
    "of a pod.",
    needs=_NEEDS,
)
def with_disks(facts: Facts) -> Iterator[Trouble]:
    """Balloons with volumes on disk."""
    for placeholder in facts.placeholders:
        volumes = {key for volume in parts(template_of(placeholder), "volumes") for key in volume} & DISK_VOLUMES
        if volumes:
            yield Trouble(
                called(kinds.DEPLOYMENTS, placeholder),
                f"its pods have {some(volumes)} volumes: cluster-autoscaler may not remove their nodes, and they are "
                "slow to leave",
                f"kubectl edit {called(kinds.DEPLOYMENTS, placeholder)}  # take out its volumes and their mounts",
            )


@check(
    "KB016",
    Severity.WARNING,
    about="DaemonSet pods are not counted as work by either autoscaler: such nodes are empty to them.",
    needs=(kinds.DAEMON_SETS, kinds.PRIORITY_CLASSES),
)
def daemon_placeholders(facts: Facts) -> Iterator[Trouble]:
    """Placeholders in a DaemonSet."""
    for daemon_set in facts.items(kinds.DAEMON_SETS):
        template = template_of(daemon_set)
        priority = facts.priority_of(template)
        # With init containers it is there for what these do: charts pull images so, and let the pods wait after it.
        is_puller = bool(parts(template, "initContainers"))
        if priority is not None and priority < 0 and is_pause(template) and not is_puller:
            yield Trouble(
                called(kinds.DAEMON_SETS, daemon_set),
                "a DaemonSet of placeholders holds nothing: autoscalers do not count DaemonSet pods as work",
                f"kubectl delete {called(kinds.DAEMON_SETS, daemon_set)}  # and make a BalloonPool or a Deployment",
            )


@check(
    "KB017",
    Severity.INFO,
    about="The scheduler preempts only when no node passes its filters. Preferred affinity and `ScheduleAnyway` "
    "filter nothing, so such work goes to any other node rather than take a balloon's place.",
    needs=_NEEDS,
)
def preference_only(facts: Facts) -> Iterator[Trouble]:
    """Preferences that never preempt."""
    soft = [
        deployment
        for deployment in facts.deployments
        if deployment not in facts.placeholders and _only_prefers(template_of(deployment))
    ]
    if soft and facts.placeholders:
        yield Trouble(
            called(kinds.DEPLOYMENTS, soft[0]),
            f"{count(len(soft), 'Deployment')} with preferences only about nodes: while any node fits at all, no "
            f"balloon gives way: {some(map(name_of, soft))}",
            "# make the rule required (requiredDuringScheduling..., DoNotSchedule) where warm nodes must keep it too",
        )


def _only_prefers(spec: Mapping[str, Any]) -> bool:
    affinity = part(spec, "affinity")
    rules = [part(affinity, key) for key in ("nodeAffinity", "podAntiAffinity", "podAffinity")]
    spreads = [text(constraint, "whenUnsatisfiable") for constraint in parts(spec, "topologySpreadConstraints")]
    is_required = "DoNotSchedule" in spreads or any(_REQUIRED in rule for rule in rules)
    return not is_required and ("ScheduleAnyway" in spreads or any(_PREFERRED in rule for rule in rules))


def _gpus(amounts: Mapping[str, int]) -> set[str]:
    return {name for name, milli in amounts.items() if name.endswith("/gpu") and milli > 0}


def _use(pods: list[Any], allocatable: Mapping[str, int]) -> float:
    """cluster-autoscaler's utilisation: the larger of cpu and memory requested."""
    asked = total(pod.requests for pod in pods)
    shares = [asked.get(name, 0) / allocatable[name] for name in ("cpu", "memory") if allocatable.get(name)]
    return max(shares, default=1.0)


def _threshold(facts: Facts) -> float:
    autoscaler = facts.detected.cluster_autoscaler
    flag = autoscaler.flags.get("scale-down-utilization-threshold", "") if autoscaler else ""
    try:
        return min(1.0, max(0.0, float(flag))) if flag else UTILISATION
    except ValueError:
        return UTILISATION


def _patch(thing: Mapping[str, Any], body: str) -> str:
    return f"kubectl patch {called(kinds.DEPLOYMENTS, thing)} --type=merge -p '{body}'"


CHECKS = (
    slow_to_leave,
    balloons_under_a_budget,
    without_gpu,
    too_small,
    in_kube_system,
    with_disks,
    daemon_placeholders,
    preference_only,
)


def cutoff_of(facts: Facts) -> int:
    """The cutoff in force."""
    autoscaler = facts.detected.cluster_autoscaler
    flag = autoscaler.flags.get("expendable-pods-priority-cutoff", "") if autoscaler else ""
    return int(flag) if flag.removeprefix("-").isdecimal() and flag.isascii() and len(flag) < 12 else CUTOFF


@check(
    "KB001",
    Severity.ERROR,
    about="Pods with a priority below `--expendable-pods-priority-cutoff` (default -10) are removed from "
    "cluster-autoscaler's whole view. A node that holds only such balloons looks empty and is deleted after about "
    "ten minutes; waiting ones trigger nothing. The widely copied overprovisioning example with -1000 does "
    "neither of its jobs. -10 itself is seen.",
    needs=_NEEDS,
)
def expendable(facts: Facts) -> Iterator[Trouble]:
    """Balloons that cluster-autoscaler does not see."""
    cutoff = cutoff_of(facts)
    for placeholder in facts.placeholders if facts.has_cluster_autoscaler else ():
        priority = facts.priority_of(template_of(placeholder))
        if priority is not None and priority < cutoff:
            yield Trouble(
                called(kinds.DEPLOYMENTS, placeholder),
                f"its pods have priority {priority}, below cluster-autoscaler's cutoff {cutoff}: they neither hold a "
                "node nor make it grow",
                _with_priority(facts, placeholder, cutoff),
            )


@check(
    "KB006",
    Severity.ERROR,
    about="Karpenter's cost of evicting a pod is 1 + deletionCost/2^27 + priority/2^25. From a priority of -2^25 "
    "on the sum is not positive, and a node with only such pods is consolidated like an empty one. Keep balloons "
    "near -10.",
    needs=_NEEDS,
)
def counts_as_empty(facts: Facts) -> Iterator[Trouble]:
    """Balloons whose nodes Karpenter takes for empty."""
    for placeholder in facts.placeholders if facts.detected.karpenter or not facts.has_cluster_autoscaler else ():
        priority = facts.priority_of(template_of(placeholder))
        if priority is not None and priority <= LOWEST_FOR_KARPENTER:
            yield Trouble(
                called(kinds.DEPLOYMENTS, placeholder),
                f"its pods have priority {priority}: evicting them costs Karpenter nothing, so their nodes count as "
                "empty",
                _with_priority(facts, placeholder, CUTOFF),
            )


def _with_priority(facts: Facts, placeholder: Mapping[str, Any], value: int) -> str:
    """The command that gives its pods a class of this priority, and makes one where there is none."""
    fitting = (
        name
        for name, priority_class in sorted(facts.classes.items())
        if whole(priority_class, "value") == value and text(priority_class, "preemptionPolicy") == "Never"
    )
    own = PRIORITY_CLASS if PRIORITY_CLASS not in facts.classes else f"{PRIORITY_CLASS}{value}"
    name = next(fitting, own)
    made = f"kubectl create priorityclass {own} --value={value} --preemption-policy=Never && " if name == own else ""
    return made + _patch(placeholder, f'{{"spec":{{"template":{{"spec":{{"priorityClassName":"{name}"}}}}}}}}')


@check(
    "KB002",
    Severity.ERROR,
    about="Pods without a class get the priority of the class with `globalDefault: true`. When that is not above "
    "the balloons', ordinary work never preempts one: all warm capacity is lost, silently.",
    needs=_NEEDS,
)
def global_default_below(facts: Facts) -> Iterator[Trouble]:
    """A global default priority that is not above the balloons."""
    highest = max(facts.placeholder_priorities, default=None)
    for name, priority_class in facts.classes.items():
        value = whole(priority_class, "value") or 0
        if highest is not None and is_true(priority_class, "globalDefault") and value <= highest:
            yield Trouble(
                f"priorityclass/{name}",
                f"it is the default of all pods with {value}, not above the balloons' {highest}: nothing takes a "
                "balloon's place",
                f"kubectl patch priorityclass {name} --type=merge -p '{{\"globalDefault\":false}}'",
            )


@check(
    "KB003",
    Severity.WARNING,
    about="Without `preemptionPolicy: Never` a balloon at -10 pushes out batch pods at -100. The field of a "
    "stored class cannot be changed: replace the class.",
    needs=_NEEDS,
)
def preempts_others(facts: Facts) -> Iterator[Trouble]:
    """Balloons that may preempt."""
    used = {text(template_of(placeholder), "priorityClassName") for placeholder in facts.placeholders}
    for name in sorted(used & facts.classes.keys()):
        if text(facts.classes[name], "preemptionPolicy") != "Never":
            yield Trouble(
                f"priorityclass/{name}",
                "balloons use it and it lets them preempt: they push out pods of still lower priority",
                f"kubectl get priorityclass {name} -o yaml | sed 's/PreemptLowerPriority/Never/' | kubectl replace "
                "--force -f -",
            )


@check(
    "KB004",
    Severity.WARNING,
    about="Preemption needs a strictly higher priority. Work at or below the balloons' waits although warm nodes "
    "stand by.",
    needs=(*_NEEDS, kinds.PODS),
)
def not_above(facts: Facts) -> Iterator[Trouble]:
    """Waiting work that is not above the balloons."""
    lowest = min(facts.placeholder_priorities, default=None)
    stuck = [pod for pod in facts.pending if lowest is not None and pod.priority <= lowest]
    if stuck:
        yield Trouble(
            f"pod/{stuck[0].key.name} -n {stuck[0].key.namespace}",
            f"{count(len(stuck), 'waiting pod')} with a priority not above the balloons' {lowest}, which do not yield: "
            f"{some(str(pod.key) for pod in stuck)}",
            "# set priorityClassName to a class above the balloons' in their templates",
        )


@check(
    "KB005",
    Severity.ERROR,
    about="Balloons name the class `kube-balloons`; without it the service makes none and removes none.",
    needs=(kinds.BALLOON_POOLS, kinds.PRIORITY_CLASSES),
    is_live_only=True,
)
def missing_class(facts: Facts) -> Iterator[Trouble]:
    """The balloons' PriorityClass is missing."""
    pools = facts.items(kinds.BALLOON_POOLS)
    if pools and PRIORITY_CLASS not in facts.classes:
        yield Trouble(
            f"priorityclass/{PRIORITY_CLASS}",
            f"it does not exist: no balloon is made for {some(name_of(pool) for pool in pools)}",
            "kubectl apply -f manifests/base/priorityclass.yaml",
        )


PRIORITY_CHECKS = (expendable, global_default_below, preempts_others, not_above, missing_class, counts_as_empty)
