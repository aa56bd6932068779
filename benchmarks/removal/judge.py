"""What must be the same before and after, and what of ours is still there. Pure; it knows nothing of our own code.

`trace` is what a user would see in his object: the whole spec, labels, annotations, and who owns the fields that we
moved. Karpenter's own annotations and its status change all the time.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]

OURS = "kube-balloons.github.io/"
GATE = f"{OURS}paced"
KEPT = {
    f"{OURS}held-by": "kube-balloons/warm",
    "cluster-autoscaler.kubernetes.io/scale-down-disabled": "true",
    "karpenter.sh/do-not-disrupt": "true",
}
"""What a pool of strategy Annotate puts on a node."""
ACCOUNTS = "system:serviceaccount:kube-balloons:"
WRITES = ("create", "update", "patch", "delete", "deletecollection")
USERS_KINDS = ("nodepools", "capacityquotas", "nodes", "pods")
"""What of a user's is written while a ramp is paced; events and our own objects are not a user's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """Names of objects that are held by something of ours."""

    ceilings: tuple[str, ...] = ()
    gates: tuple[str, ...] = ()
    taints: tuple[str, ...] = ()
    unlabelled: tuple[str, ...] = ()
    """Nodes that lack the label for which DaemonSets wait."""
    kept: tuple[str, ...] = ()
    """Nodes that a pool of strategy Annotate keeps from being removed."""

    def words(self) -> Iterable[str]:
        """What is held, one by one."""
        held = {"ceiling": self.ceilings, "gate": self.gates, "taint": self.taints, "mark": self.kept}
        for what, names in held.items():
            yield from (f"{what} on {name}" for name in names)
        yield from (f"no label on {name}" for name in self.unlabelled)


def trace(thing: Json) -> Json:
    """What of an object must be the same before and after."""
    metadata = thing["metadata"]
    notes = {key: value for key, value in metadata.get("annotations", {}).items() if "karpenter.sh/" not in key}
    return {
        "spec": thing["spec"],
        "labels": metadata.get("labels") or {},
        "annotations": notes,
        "owners": sorted(_owners_of_limits(metadata.get("managedFields", ()))),
    }


def differences(before: Mapping[str, Json], after: Mapping[str, Json]) -> list[str]:
    """In words, object by object; empty if everything is as it was."""
    gone = [f"{name} is gone" for name in sorted(before.keys() - after.keys())]
    new = [f"{name} is new" for name in sorted(after.keys() - before.keys())]
    both = sorted(before.keys() & after.keys())
    return gone + new + [f"{name} was {before[name]}, is {after[name]}" for name in both if before[name] != after[name]]


def marks(ceilings: Iterable[Json], pods: Iterable[Json], nodes: Iterable[Json], *, taint: str, label: str) -> Marks:
    """What of ours is on these objects: the keys are those of the throttle's levers on nodes."""
    nodes = list(nodes)
    return Marks(
        ceilings=tuple(_name(thing) for thing in ceilings if _is_marked(thing)),
        gates=tuple(_name(pod) for pod in pods if _is_gated(pod)),
        taints=tuple(_name(node) for node in nodes if _has_taint(node, taint)),
        unlabelled=tuple(_name(node) for node in nodes if label not in node["metadata"].get("labels", {})),
        kept=tuple(_name(node) for node in nodes if KEPT.keys() & node["metadata"].get("annotations", {}).keys()),
    )


def touched(events: Iterable[Json]) -> set[str]:
    """Users' objects that our accounts wrote, as `resource/name`, from the audit log."""
    owners = set()
    for event in events:
        about = event.get("objectRef", {})
        is_ours = event["user"]["username"].startswith(ACCOUNTS) and event["verb"] in WRITES
        if is_ours and about.get("resource") in USERS_KINDS and _was_done(event):
            owners.add(f"{about['resource']}/{about.get('name', '')}")
    return owners


def _was_done(event: Json) -> bool:
    code = int(event.get("responseStatus", {}).get("code", 0))
    return bool(event["stage"] == "ResponseComplete") and 200 <= code < 300


def _owners_of_limits(entries: Iterable[Json]) -> Iterable[tuple[str, str]]:
    for entry in entries:
        if "f:limits" in entry.get("fieldsV1", {}).get("f:spec", {}):
            yield entry["manager"], entry["operation"]


def _is_marked(thing: Json) -> bool:
    metadata = thing["metadata"]
    return any(key.startswith(OURS) for part in ("labels", "annotations") for key in metadata.get(part) or {})


def _is_gated(pod: Json) -> bool:
    return any(gate["name"] == GATE for gate in pod["spec"].get("schedulingGates", ()))


def _has_taint(node: Json, taint: str) -> bool:
    return any(entry["key"] == taint for entry in node["spec"].get("taints", ()))


def _name(thing: Json) -> str:
    return str(thing["metadata"]["name"])
