"""A check, what it finds, and what several checks look at, worked out once."""

import enum
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import msgspec

from balloons.cluster import kinds, seen_cluster
from balloons.cluster.kinds import Kind
from balloons.cluster.object_fields_and_flags import (
    is_true,
    name_of,
    namespace_of,
    pairs,
    part,
    parts,
    text,
    texts,
    whole,
)
from balloons.cluster.seen_cluster import Autoscaler, Detected, SeenCluster, detect
from throttler.api.throttle import JoinThrottle
from throttler.kube.node import Node
from throttler.kube.pod import Pod, is_marked
from throttler.kube.selectors import LabelSelector, Requirement


class Facts:
    """A seen cluster, decoded as checks need it. `is_live` is False for a folder of manifests."""

    def __init__(self, cluster: SeenCluster, *, is_live: bool = True) -> None:
        self.cluster = cluster
        self.is_live = is_live

    @cached_property
    def detected(self) -> Detected:
        """What runs the cluster."""
        return detect(self.cluster)

    @property
    def has_cluster_autoscaler(self) -> bool:
        """Whether cluster-autoscaler may look at this: it was seen, or nothing was (manifests, a managed one)."""
        autoscalers = self.detected.autoscalers
        return not autoscalers or Autoscaler.CLUSTER_AUTOSCALER in autoscalers

    @cached_property
    def now_s(self) -> float:
        """When the cluster was read, in seconds since the epoch."""
        return self.cluster.taken_at.timestamp()

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """All nodes."""
        return seen_cluster.nodes(self.cluster)

    @cached_property
    def pods(self) -> tuple[Pod, ...]:
        """All pods."""
        return seen_cluster.pods(self.cluster)

    @cached_property
    def throttles(self) -> tuple[JoinThrottle, ...]:
        """The JoinThrottles that keep all rules."""
        return tuple(one for one in seen_cluster.throttles(self.cluster) if isinstance(one, JoinThrottle))

    @cached_property
    def deployments(self) -> tuple[dict[str, Any], ...]:
        """All Deployments."""
        return self.cluster.plain(kinds.DEPLOYMENTS)

    @cached_property
    def classes(self) -> Mapping[str, Mapping[str, Any]]:
        """PriorityClasses by name."""
        return {
            name_of(priority_class): priority_class for priority_class in self.cluster.plain(kinds.PRIORITY_CLASSES)
        }

    @cached_property
    def default_priority(self) -> int:
        """What a pod without a class gets."""
        defaults = [
            whole(priority_class, "value") or 0
            for priority_class in self.classes.values()
            if is_true(priority_class, "globalDefault")
        ]
        return max(defaults, default=0)

    def priority_of(self, pod_spec: Mapping[str, Any]) -> int | None:
        """A pod template's priority; None where its class was not seen."""
        name = text(pod_spec, "priorityClassName")
        if not name:
            priority = whole(pod_spec, "priority")
            return self.default_priority if priority is None else priority
        return whole(self.classes[name], "value") if name in self.classes else None

    @cached_property
    def placeholders(self) -> tuple[dict[str, Any], ...]:
        """Deployments whose pods only keep room: ours, and anybody's `pause` at a priority below zero."""
        return tuple(deployment for deployment in self.deployments if self._keeps_room(deployment))

    def _keeps_room(self, deployment: Mapping[str, Any]) -> bool:
        template = part(deployment, "spec", "template")
        if is_marked(pairs(template, "metadata", "labels")):
            return True
        priority = self.priority_of(part(template, "spec"))
        return priority is not None and priority < 0 and is_pause(part(template, "spec"))

    @cached_property
    def placeholder_priorities(self) -> tuple[int, ...]:
        """The priorities of `placeholders`, those whose class was not seen left out."""
        priorities = (self.priority_of(template_of(placeholder)) for placeholder in self.placeholders)
        return tuple(priority for priority in priorities if priority is not None)

    @cached_property
    def placeholder_pods(self) -> tuple[dict[str, Any], ...]:
        """The pods of `placeholders`, as plain data: those whose labels such a Deployment selects."""
        wanted = [
            (namespace_of(deployment), labels) for deployment in self.placeholders if (labels := _labels(deployment))
        ]
        often = Counter((space, *label) for space, labels in wanted for label in labels.items())
        by_label: dict[tuple[str, str, str], list[Mapping[str, str]]] = {}
        for space, labels in wanted:
            rarest = min(((space, *label) for label in labels.items()), key=lambda label: (often[label], label))
            by_label.setdefault(rarest, []).append(labels)
        raws = self.cluster.listed(kinds.PODS).objects if wanted else ()
        return tuple(msgspec.json.decode(raw) for raw in raws if _is_selected(raw, by_label))

    @cached_property
    def pending(self) -> tuple[Pod, ...]:
        """Real work without a node."""
        keys = {(namespace_of(pod), name_of(pod)) for pod in self.placeholder_pods}
        waiting = (pod for pod in self.pods if not pod.node and not pod.is_finished and not pod.is_terminating)
        return tuple(pod for pod in waiting if (pod.key.namespace, pod.key.name) not in keys)

    def items(self, kind: Kind) -> tuple[dict[str, Any], ...]:
        """A kind's objects as plain data."""
        return self.cluster.plain(kind)


class _Named(msgspec.Struct):
    namespace: Any = ""
    labels: Any = None


class _Labelled(msgspec.Struct):
    """What of a pod is decoded to tell whether it is wanted: of 150,000 hardly any is."""

    metadata: _Named | None = None


_decoder = msgspec.json.Decoder(_Labelled)


def _is_selected(raw: bytes, by_label: Mapping[tuple[str, str, str], Sequence[Mapping[str, str]]]) -> bool:
    """Whether the pod's labels hold all of some entry's; entries are filed by namespace and one of their labels."""
    try:
        about = _decoder.decode(raw).metadata
    except msgspec.ValidationError:
        return False
    if about is None or not isinstance(about.namespace, str) or not isinstance(about.labels, dict):
        return False
    labels = {key: word for key, word in about.labels.items() if isinstance(word, str)}
    return any(
        wanted.items() <= labels.items()
        for label in labels.items()
        for wanted in by_label.get((about.namespace, *label), ())
    )


def is_pause(pod_spec: Mapping[str, Any]) -> bool:
    """Whether every container only waits."""
    images = [
        text(container, "image").partition("@")[0].rpartition("/")[2] for container in parts(pod_spec, "containers")
    ]
    return bool(images) and all(image.partition(":")[0].startswith(kinds.PAUSE) for image in images)


def template_of(workload: Mapping[str, Any]) -> Mapping[str, Any]:
    """A workload's pod spec."""
    return part(workload, "spec", "template", "spec")


def selector_of(value: Any) -> LabelSelector | None:
    """A label selector out of plain data; None where there is none."""
    if not isinstance(value, dict):
        return None
    terms = (
        Requirement(text(term, "key"), text(term, "operator"), texts(term, "values"))
        for term in parts(value, "matchExpressions")
    )
    return LabelSelector(pairs(value, "matchLabels"), tuple(terms))


def _labels(deployment: Mapping[str, Any]) -> Mapping[str, str]:
    """What its pods carry; those of a Deployment that selects nothing are not told from others."""
    return pairs(deployment, "spec", "selector", "matchLabels") or pairs(
        deployment, "spec", "template", "metadata", "labels"
    )


class Severity(enum.IntEnum):
    """How bad it is: an error defeats its purpose now, a warning will under load, information is worth knowing."""

    INFO = 0
    WARNING = 1
    ERROR = 2

    @property
    def word(self) -> Literal["info", "warning", "error"]:
        """In lower case, as options and tables have it."""
        match self:
            case Severity.INFO:
                return "info"
            case Severity.WARNING:
                return "warning"
        return "error"


@dataclass(frozen=True, slots=True)
class Trouble:
    """One object's trouble: which object, what is wrong in one sentence, and what puts it right.

    `fix` can be pasted into a shell: a command, or a comment where no command does it.
    """

    object: str
    sentence: str
    fix: str


@dataclass(frozen=True, slots=True)
class Check:
    """One check; what its fields mean is said of `check`."""

    code: str
    title: str
    severity: Severity
    about: str
    needs: tuple[Kind, ...]
    find: Callable[[Facts], Iterable[Trouble]]
    also: tuple[Kind, ...]
    is_live_only: bool

    @property
    def page(self) -> str:
        """Where it is explained."""
        return f"docs/doctor.md#{self.code.lower()}"


Find = Callable[[Facts], Iterable[Trouble]]


def check(
    code: str,
    severity: Severity,
    *,
    about: str,
    needs: tuple[Kind, ...],
    also: tuple[Kind, ...] = (),
    is_live_only: bool = False,
) -> Callable[[Find], Check]:
    """Makes a check of the function that finds its troubles; that one's docstring is its title.

    `code` is never given to another; `about` says why it matters, for the documentation. `needs`: without these lists
    nothing can be said; a kind that is not served counts as an empty list. `also`: kinds that are looked at where they
    can be read. `is_live_only`: says that something is missing, which a folder of manifests may well be.
    """

    def made(find: Find) -> Check:
        title = (find.__doc__ or "").removesuffix(".")
        return Check(code, title, severity, about, needs, find, also, is_live_only)

    return made


@dataclass(frozen=True, slots=True)
class Finding:
    """A check's trouble."""

    check: Check
    trouble: Trouble


def called(kind: Kind | str, thing: Any) -> str:
    """An object as kubectl takes it: `deployment/NAME -n NAMESPACE`."""
    word = kind if isinstance(kind, str) else kind.kind.lower()
    namespace = namespace_of(thing)
    return f"{word}/{name_of(thing)}{f' -n {namespace}' if namespace else ''}"


def some(names: Iterable[str]) -> str:
    """`a, b, c and 4 more`."""
    listed = sorted(names)
    rest = len(listed) - 3
    return ", ".join(listed[:3]) + (f" and {rest} more" if rest > 0 else "")
