"""A DaemonSet as decisions see it, and which nodes it puts a pod on."""

import msgspec

from throttler.kube.metadata import Metadata, ObjectKey, key_of
from throttler.kube.node import Node
from throttler.kube.pod import Affinity, node_terms
from throttler.kube.selectors import Requirement, is_selected
from throttler.kube.taints import Taint, Toleration, untolerated

OWN_TOLERATIONS = tuple(
    Toleration(f"node.kubernetes.io/{key}", "Exists", effect=effect)
    for key, effect in (
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
    )
)
"""What the DaemonSet controller adds to every pod it makes (AddOrUpdateDaemonPodTolerations)."""


class _DaemonTemplateSpec(msgspec.Struct, frozen=True, rename="camel"):
    node_selector: dict[str, str] = {}
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()


class _DaemonTemplate(msgspec.Struct, frozen=True):
    spec: _DaemonTemplateSpec = _DaemonTemplateSpec()


class _DaemonSetSpec(msgspec.Struct, frozen=True):
    template: _DaemonTemplate = _DaemonTemplate()


class DaemonSetWire(msgspec.Struct, frozen=True):
    """What is decoded of a DaemonSet."""

    metadata: Metadata
    spec: _DaemonSetSpec = _DaemonSetSpec()


class DaemonSet(msgspec.Struct, frozen=True):
    """A DaemonSet's facts; `node_terms` are alternatives, as of a pod's Scheduling."""

    key: ObjectKey
    uid: str
    node_selector: dict[str, str] = {}
    node_terms: tuple[tuple[Requirement, ...], ...] = ()
    tolerations: tuple[Toleration, ...] = OWN_TOLERATIONS
    is_deleting: bool = False

    @property
    def label_keys(self) -> set[str]:
        """The node labels that decide whether a node gets a pod."""
        return {*self.node_selector, *(part.key for term in self.node_terms for part in term)}


def daemon_set_from_wire(wire: DaemonSetWire) -> DaemonSet:
    """The compact DaemonSet."""
    spec = wire.spec.template.spec
    return DaemonSet(
        key=key_of(wire.metadata),
        uid=wire.metadata.uid,
        node_selector=spec.node_selector,
        node_terms=node_terms(spec.affinity or Affinity()),
        tolerations=(*spec.tolerations, *OWN_TOLERATIONS),
        is_deleting=wire.metadata.deletion_timestamp is not None,
    )


def wants_daemon(daemons: DaemonSet, node: Node, taints: tuple[Taint, ...]) -> bool:
    """Whether the DaemonSet puts a pod on the node once it has only these taints."""
    if daemons.is_deleting or not is_selected(node.labels, daemons.node_selector.items(), daemons.node_terms):
        return False
    return untolerated(taints, daemons.tolerations) is None
