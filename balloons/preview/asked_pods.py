"""Pods out of what a user wrote: pods themselves, lists of them, and workloads by their templates."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from throttler.kube.node import Shared
from throttler.kube.pod import GANG_LABELS, Pod, PodWire, pod_from_wire
from throttler.kube.quantity import QuantityError

MOST_PODS = 1_000_000
WORKLOADS = ("Job", "Deployment", "StatefulSet", "ReplicaSet")
ACCEPTED = f"accepted: Pod, List, {', '.join(WORKLOADS)}"


@dataclass(frozen=True, slots=True)
class HostSpread:
    """No host may have more than `skew` pods of the kind beyond the host that has fewest.

    Hosts with taints that keep the pods away count as well, unless `honors_taints` (nodeTaintsPolicy): one of them,
    which never has any, then holds every other host at `skew`.
    """

    skew: int
    honors_taints: bool = False


@dataclass(frozen=True, slots=True)
class AskedPod:
    """A pod to place, and how its kind is to be spread over hosts."""

    pod: Pod
    spread: HostSpread | None = None


class PodsError(ValueError):
    """Something is no pod and has none; the message says what and what is accepted."""


def asked_pods(documents: Iterable[Any], *, is_gang: bool) -> tuple[AskedPod, ...]:
    """All pods of the documents. `is_gang`: each workload runs whole or not at all, whatever its labels say.

    Raises PodsError.
    """
    shared = Shared()
    found: list[AskedPod] = []
    for document in documents:
        for template, count, name in _templates(document):
            found += [_pod(template, name if is_gang else "", shared)] * count
            if len(found) > MOST_PODS:
                raise PodsError(f"more than {MOST_PODS:,} pods")
    if not found:
        raise PodsError(f"there are no pods in it; {ACCEPTED}")
    return tuple(found)


def _templates(document: Any) -> Iterator[tuple[Mapping[str, Any], int, str]]:
    """(pod as plain data, how many of it, whose)."""
    if not isinstance(document, Mapping):
        raise PodsError(f"{str(document)[:40]!r} is no object; {ACCEPTED}")
    own = _mapping(document.get("metadata"))
    kind, name = document.get("kind"), str(own.get("name") or "pods")
    if kind == "Pod":
        yield document, 1, name
    elif kind in ("List", "PodList"):
        for item in document.get("items") or ():
            yield from _templates({"kind": "Pod", **item} if isinstance(item, Mapping) else item)
    elif kind in WORKLOADS:
        spec = _mapping(document.get("spec"))
        template = _mapping(spec.get("template"))
        metadata = {"name": name, "namespace": own.get("namespace") or "", **_mapping(template.get("metadata"))}
        yield {**template, "metadata": metadata}, _replicas(kind, spec), name
    else:
        raise PodsError(f"kind {str(kind)[:60]!r} has no pods that are known here; {ACCEPTED}")


def _replicas(kind: str, spec: Mapping[str, Any]) -> int:
    """Of a Job the pods that run at once: its parallelism, and no more than its completions."""
    if kind != "Job":
        return _whole(spec.get("replicas"), 1)
    return min(_whole(spec.get("parallelism"), 1), _whole(spec.get("completions"), MOST_PODS))


def _pod(template: Mapping[str, Any], gang: str, shared: Shared) -> AskedPod:
    metadata = dict(_mapping(template.get("metadata")))
    metadata.setdefault("name", "pod")
    labels = {**_mapping(metadata.get("labels")), **({GANG_LABELS[0]: gang} if gang else {})}
    spec = {key: value for key, value in _mapping(template.get("spec")).items() if key != "nodeName"}
    spread = _host_spread(spec, labels)
    if spread is not None:
        spec["topologySpreadConstraints"] = []
    try:
        wire = msgspec.convert({"metadata": {**metadata, "labels": labels}, "spec": spec}, PodWire, strict=False)
        return AskedPod(pod_from_wire(wire, shared), spread)
    except (msgspec.ValidationError, QuantityError) as error:
        raise PodsError(f"pod {str(metadata['name'])[:80]}: {error}") from error


def _host_spread(spec: Mapping[str, Any], labels: Mapping[str, Any]) -> HostSpread | None:
    """The one hard constraint, where it spreads the pod's own kind by host and nothing else; else it stays unjudged."""
    given = spec.get("topologySpreadConstraints")
    constraints = [_mapping(each) for each in given] if isinstance(given, list) else []
    hard = [each for each in constraints if each.get("whenUnsatisfiable", "DoNotSchedule") == "DoNotSchedule"]
    if len(hard) != 1 or hard[0].get("topologyKey") != "kubernetes.io/hostname":
        return None
    if hard[0].get("minDomains") or hard[0].get("nodeAffinityPolicy", "Honor") != "Honor":
        return None
    selector = _mapping(hard[0].get("labelSelector"))
    own = _mapping(selector.get("matchLabels"))
    if not own or not own.items() <= labels.items() or selector.get("matchExpressions"):
        return None
    return HostSpread(max(1, _whole(hard[0].get("maxSkew"), 1)), hard[0].get("nodeTaintsPolicy") == "Honor")


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _whole(value: Any, otherwise: int) -> int:
    if value is None:
        return otherwise
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST_PODS:
        raise PodsError(f"{str(value)[:40]!r} pods; accepted: 0 to {MOST_PODS:,}")
    return value
