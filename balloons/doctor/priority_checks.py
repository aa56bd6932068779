"""Checks of priorities: who gives way to whom, and whom cluster-autoscaler sees (facts 1.1 to 1.5)."""

from collections.abc import Iterator

from balloons.cluster import kinds
from balloons.cluster.reach import is_true, name_of, text, whole
from balloons.doctor.check import Check, Severity, Trouble, called, count, some
from balloons.doctor.facts import Facts, template_of

CUTOFF = -10
"""cluster-autoscaler's `--expendable-pods-priority-cutoff`: below it a pod does not exist for it; the value itself "
"does."""
LOWEST_FOR_KARPENTER = -(2**25)
"""Karpenter's eviction cost is 1 + priority / 2^25: from here on a node of such pods alone counts as empty."""
_NEEDS = (kinds.DEPLOYMENTS, kinds.PRIORITY_CLASSES)


def cutoff_of(facts: Facts) -> int:
    """The cutoff in force."""
    autoscaler = facts.detected.cluster_autoscaler
    given = autoscaler.flags.get("expendable-pods-priority-cutoff", "") if autoscaler else ""
    return int(given) if given.removeprefix("-").isdecimal() and given.isascii() and len(given) < 12 else CUTOFF


def expendable(facts: Facts) -> Iterator[Trouble]:
    """Placeholders below the cutoff."""
    cutoff = cutoff_of(facts)
    for each in facts.placeholders if facts.has_cluster_autoscaler else ():
        priority = facts.priority_of(template_of(each))
        if priority is not None and priority < cutoff:
            yield Trouble(
                called(kinds.DEPLOYMENTS, each),
                f"its pods have priority {priority}, below cluster-autoscaler's cutoff {cutoff}: they neither hold a "
                "node nor make it grow",
                f"kubectl create priorityclass kube-balloons --value={cutoff} --preemption-policy=Never",
            )


def counts_as_empty(facts: Facts) -> Iterator[Trouble]:
    """Placeholders so low that Karpenter takes their nodes for empty."""
    for each in facts.placeholders if facts.detected.karpenter or not facts.has_cluster_autoscaler else ():
        priority = facts.priority_of(template_of(each))
        if priority is not None and priority <= LOWEST_FOR_KARPENTER:
            yield Trouble(
                called(kinds.DEPLOYMENTS, each),
                f"its pods have priority {priority}: evicting them costs Karpenter nothing, so their nodes count as "
                "empty",
                "kubectl create priorityclass kube-balloons --value=-10 --preemption-policy=Never",
            )


def global_default_below(facts: Facts) -> Iterator[Trouble]:
    """A default for all pods that is not above the placeholders."""
    highest = max(
        (p for each in facts.placeholders if (p := facts.priority_of(template_of(each))) is not None), default=None
    )
    for name, each in facts.classes.items():
        value = whole(each, "value") or 0
        if highest is not None and is_true(each, "globalDefault") and value <= highest:
            yield Trouble(
                f"priorityclass/{name}",
                f"it is the default of all pods with {value}, not above the balloons' {highest}: nothing takes a "
                "balloon's place",
                f"kubectl patch priorityclass {name} --type=merge -p '{{\"globalDefault\":false}}'",
            )


def preempts_others(facts: Facts) -> Iterator[Trouble]:
    """Classes of placeholders that push others out."""
    used = {text(template_of(each), "priorityClassName") for each in facts.placeholders}
    for name in sorted(used & facts.classes.keys()):
        if text(facts.classes[name], "preemptionPolicy") != "Never":
            yield Trouble(
                f"priorityclass/{name}",
                "balloons use it and it lets them preempt: they push out pods of still lower priority",
                f"kubectl get priorityclass {name} -o yaml | sed 's/PreemptLowerPriority/Never/' | kubectl replace "
                "--force -f -",
            )


def not_above(facts: Facts) -> Iterator[Trouble]:
    """Waiting pods that no balloon will give way to."""
    found = [p for each in facts.placeholders if (p := facts.priority_of(template_of(each))) is not None]
    lowest = min(found, default=None)
    stuck = [pod for pod in facts.pending if lowest is not None and pod.priority <= lowest]
    if stuck:
        yield Trouble(
            f"pod/{stuck[0].key.name} -n {stuck[0].key.namespace}",
            f"{count(len(stuck), 'waiting pod')} with a priority not above the balloons' {lowest}, which do not yield: "
            f"{some(str(pod.key) for pod in stuck)}",
            "# set priorityClassName to a class above the balloons' in their templates",
        )


def missing_class(facts: Facts) -> Iterator[Trouble]:
    """BalloonPools without the class that their balloons name."""
    pools = facts.items(kinds.BALLOON_POOLS)
    if pools and OWN_CLASS not in facts.classes:
        yield Trouble(
            f"priorityclass/{OWN_CLASS}",
            f"it does not exist: no balloon is made for {some(name_of(each) for each in pools)}",
            "kubectl apply -f manifests/base/priorityclass.yaml",
        )


OWN_CLASS = "kube-balloons"
CHECKS = (
    Check(
        code="KB001",
        title="Balloons that cluster-autoscaler does not see",
        severity=Severity.ERROR,
        about="Pods with a priority below `--expendable-pods-priority-cutoff` (default -10) are removed from "
        "cluster-autoscaler's whole view. A node that holds only such balloons looks empty and is deleted after about "
        "ten minutes; waiting ones trigger nothing. The widely copied overprovisioning example with -1000 does "
        "neither of its jobs. -10 itself is seen.",
        needs=_NEEDS,
        find=expendable,
    ),
    Check(
        code="KB002",
        title="A global default priority that is not above the balloons",
        severity=Severity.ERROR,
        about="Pods without a class get the priority of the class with `globalDefault: true`. When that is not above "
        "the balloons', ordinary work never preempts one: all warm capacity is lost, silently.",
        needs=_NEEDS,
        find=global_default_below,
    ),
    Check(
        code="KB003",
        title="Balloons that may preempt",
        severity=Severity.WARNING,
        about="Without `preemptionPolicy: Never` a balloon at -10 pushes out batch pods at -100. The field of a "
        "stored class cannot be changed: replace the class.",
        needs=_NEEDS,
        find=preempts_others,
    ),
    Check(
        code="KB004",
        title="Waiting work that is not above the balloons",
        severity=Severity.WARNING,
        about="Preemption needs a strictly higher priority. Work at or below the balloons' waits although warm nodes "
        "stand by.",
        needs=(*_NEEDS, kinds.PODS),
        find=not_above,
    ),
    Check(
        code="KB005",
        title="The balloons' PriorityClass is missing",
        severity=Severity.ERROR,
        about="Balloons name the class `kube-balloons`; without it the service makes none and removes none.",
        needs=(kinds.BALLOON_POOLS, kinds.PRIORITY_CLASSES),
        find=missing_class,
        is_live_only=True,
    ),
    Check(
        code="KB006",
        title="Balloons whose nodes Karpenter takes for empty",
        severity=Severity.ERROR,
        about="Karpenter's cost of evicting a pod is 1 + deletionCost/2^27 + priority/2^25. From a priority of -2^25 "
        "on the sum is not positive, and a node with only such pods is consolidated like an empty one. Keep balloons "
        "near -10.",
        needs=_NEEDS,
        find=counts_as_empty,
    ),
)
