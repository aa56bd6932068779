"""A node as decisions see it, decoded from the API and cut down to what they read.

A cache only: losing it costs memory, never correctness. It forgets everything when it has grown past
its limit, so that label values without end (host names, for one) cannot fill the process.

A Node object is 10-20 kB on the wire, most of it image lists and managed fields. `NodeWire` names only
the fields that are decoded at all; `Node` is the compact value that caches keep (a few kB at most, with
equal parts shared between nodes of the same kind).
"""

from collections.abc import Callable, Hashable, Mapping
from datetime import datetime
from typing import Any, TypeVar, cast

import msgspec

from throttler.kube.metadata import seconds_of
from throttler.kube.quantities_and_durations import Resources, parse_resources
from throttler.kube.taints import Taint, is_marked_to_leave

H = TypeVar("H", bound=Hashable)
V = TypeVar("V")

MOST_SHARED = 50_000
"""Values kept before the cache starts anew; about 10 MB of short texts."""

_texts_decoder = msgspec.json.Decoder(dict[str, str])


class Shared:
    """Gives back the first equal value it was shown."""

    def __init__(self) -> None:
        self._values: dict[Hashable, Any] = {}
        self._made: dict[Hashable, Any] = {}

    def one(self, value: H) -> H:
        """The stored equal of `value`, or `value` itself the first time."""
        values = self._values
        if len(values) > MOST_SHARED:
            values.clear()
        return cast(H, values.setdefault(value, value))

    def labels(self, labels: Mapping[str, str]) -> dict[str, str]:
        """The same labels with shared texts; the dict itself is its owner's."""
        values = self._values
        if len(values) > MOST_SHARED:
            values.clear()
        # The hottest lines of every list, so no Python code runs per label: nodes of a kind have equal keys, and a
        # copied dict needs only its values looked up.
        texts = labels.values()
        shared = self.made(("keys", *labels), lambda: {values.setdefault(key, key): "" for key in labels}).copy()
        shared.update(zip(shared, map(values.setdefault, texts, texts), strict=True))
        return shared

    def mapping(self, texts: Mapping[str, str]) -> dict[str, str]:
        """The stored equal of a small mapping that many objects have alike, as a whole."""
        return self.made(("mapping", *texts, *texts.values()), lambda: dict(texts))

    def made(self, source: Hashable, make: Callable[[], V]) -> V:
        """What `make` gives for this source, called once for equal sources; `source` must tell kinds apart."""
        made = self._made.get(source)
        if made is None:
            if len(self._made) > MOST_SHARED:
                self._made.clear()
            made = self._made[source] = make()
        return cast(V, made)

    def resources(self, texts: Mapping[str, str]) -> Resources:
        """The parsed resource list, one dict for all nodes of the same size; raises QuantityError."""
        return self.made(("resources", *texts, *texts.values()), lambda: parse_resources(texts))

    def raw_resources(self, raw: msgspec.Raw) -> Resources:
        """As `resources`, of JSON; equal bytes are decoded once. Raises msgspec.ValidationError as well."""
        made = self._made.get(text := bytes(raw))
        return made if made is not None else self.made(text, lambda: self.resources(_texts_decoder.decode(text)))

    def merged(self, amounts: Resources) -> Resources:
        """The stored equal of a parsed resource list."""
        return self.made(("merged", *sorted(amounts.items())), lambda: amounts)


HOST_LABEL = "kubernetes.io/hostname"
ZONE_LABEL = "topology.kubernetes.io/zone"
INSTANCE_TYPE_LABEL = "node.kubernetes.io/instance-type"
KARPENTER_POOL_LABEL = "karpenter.sh/nodepool"
"""On every node that Karpenter made."""
KARPENTER_INITIALIZED_LABEL = "karpenter.sh/initialized"
"""... once it is Ready, without startup taints, and offers what was asked for."""
GROUP_LABELS = (
    "eks.amazonaws.com/nodegroup",
    "alpha.eksctl.io/nodegroup-name",
    "cloud.google.com/gke-nodepool",
    "kubernetes.azure.com/agentpool",
    "agentpool",
    "kops.k8s.io/instancegroup",
)
"""Labels by which clouds say of which group a node is. The value is a part of the group's name, as in the ASG
`eks-NAME-UUID`, the MIG `gke-CLUSTER-NAME-HASH-grp` and the scale sets `aks-NAME-NUMBER-vmss` and, of
Windows, `aksNAME`."""
POOL_LABELS = (KARPENTER_POOL_LABEL, *GROUP_LABELS, INSTANCE_TYPE_LABEL)
"""By the first of these that a node has it is grouped: node pools of the autoscalers and clouds, else its size."""
CA_KEEP_ANNOTATION = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
KARPENTER_KEEP_ANNOTATION = "karpenter.sh/do-not-disrupt"
HELD_BY_ANNOTATION = "kube-balloons.github.io/held-by"
KEPT_ANNOTATIONS = (CA_KEEP_ANNOTATION, KARPENTER_KEEP_ANNOTATION, HELD_BY_ANNOTATION)
"""The only node annotations that any decision reads; the others are dropped at the edge."""


# None of the wire structs can be part of a reference cycle: without `gc=False` the collector would walk the tens of
# thousands of them that a list makes, again and again.


_KEPT_NAMES = dict(zip(("ca_keep", "karpenter_keep", "held_by"), KEPT_ANNOTATIONS, strict=True))


class _KeptAnnotations(msgspec.Struct, frozen=True, gc=False, rename=_KEPT_NAMES):
    """KEPT_ANNOTATIONS in their order; the others are not even decoded."""

    ca_keep: str | None = None
    karpenter_keep: str | None = None
    held_by: str | None = None


_NONE_KEPT = _KeptAnnotations()


class _NodeMetadata(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """As Metadata, without what no decision reads of a node."""

    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    labels: dict[str, str] = {}
    annotations: _KeptAnnotations = _NONE_KEPT


class _Condition(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    type: str
    status: str
    last_transition_time: str | None = None


class _NodeSpec(msgspec.Struct, frozen=True, gc=False):
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()
    provider_id: str = msgspec.field(default="", name="providerID")


class _NodeStatus(msgspec.Struct, frozen=True, gc=False):
    allocatable: msgspec.Raw = msgspec.Raw(b"{}")
    """Left as it came: nodes of one size send the same bytes, which are then read once."""
    conditions: tuple[_Condition, ...] = ()


class NodeWire(msgspec.Struct, frozen=True, gc=False):
    """What is decoded of a Node object."""

    metadata: _NodeMetadata
    spec: _NodeSpec = _NodeSpec()
    status: _NodeStatus = _NodeStatus()


class Node(msgspec.Struct, frozen=True, gc=False):
    """A node's facts. `allocatable` is in milli-units; `conditions` is the set of (type, status) pairs.

    `zone` and `instance_type` repeat the labels of that meaning (empty where the cloud sets none): every decision
    reads them of every node.
    """

    name: str
    uid: str
    resource_version: str
    labels: dict[str, str]
    allocatable: Resources
    taints: tuple[Taint, ...] = ()
    conditions: frozenset[tuple[str, str]] = frozenset()
    annotations: dict[str, str] = {}
    created_s: float = 0.0
    zone: str = ""
    instance_type: str = ""
    is_ready: bool = True
    is_cordoned: bool = False
    is_deleting: bool = False
    is_uninitialized: bool = False
    """Made by Karpenter and not initialised by it yet."""
    provider_id: str = ""
    """Its machine as the cloud names it, kept until the node is initialised: Karpenter matches NodeClaims by it."""
    unready_s: float = 0.0
    """Since when the node is not Ready, in seconds since the epoch; 0 where it is, or its condition has no date."""


def group_of(labels: Mapping[str, str]) -> str:
    """The name of the group of a node with these labels; empty where no label tells one."""
    return next((labels[label] for label in POOL_LABELS if labels.get(label)), "")


def is_leaving(node: Node) -> bool:
    """Whether the node is being removed, or an autoscaler is about to remove it."""
    return node.is_deleting or is_marked_to_leave(node.taints)


def is_kept(node: Node) -> bool:
    """Whether an annotation, of whoever, keeps the autoscalers from removing the node."""
    return any(node.annotations.get(key) == "true" for key in (CA_KEEP_ANNOTATION, KARPENTER_KEEP_ANNOTATION))


def node_from_wire(wire: NodeWire, shared: Shared) -> Node:
    """The compact node; raises QuantityError or msgspec.ValidationError when its allocatable cannot be read."""
    metadata, spec, status = wire.metadata, wire.spec, wire.status
    created, kept = metadata.creation_timestamp, metadata.annotations
    pairs = tuple([(c.type, c.status) for c in status.conditions])
    conditions = shared.made(pairs, lambda: frozenset(pairs))
    is_ready = _READY in conditions
    labels = shared.labels(metadata.labels)
    is_uninitialized = KARPENTER_POOL_LABEL in labels and KARPENTER_INITIALIZED_LABEL not in labels
    return Node(
        name=metadata.name,
        uid=metadata.uid,
        resource_version=metadata.resource_version,
        labels=labels,
        allocatable=shared.raw_resources(status.allocatable),
        taints=shared.one(spec.taints),
        conditions=conditions,
        annotations=_NO_ANNOTATIONS if kept == _NONE_KEPT else _texts(kept),
        created_s=created.timestamp() if created else 0.0,
        zone=labels.get(ZONE_LABEL, ""),
        instance_type=labels.get(INSTANCE_TYPE_LABEL, ""),
        is_ready=is_ready,
        is_cordoned=spec.unschedulable,
        is_deleting=metadata.deletion_timestamp is not None,
        is_uninitialized=is_uninitialized,
        provider_id=spec.provider_id if is_uninitialized else "",
        unready_s=0.0 if is_ready else _unready_s(status.conditions),
    )


_NO_ANNOTATIONS: dict[str, str] = {}
_READY = ("Ready", "True")


def _unready_s(conditions: tuple[_Condition, ...]) -> float:
    return next((seconds_of(c.last_transition_time) for c in conditions if c.type == "Ready"), 0.0)


def _texts(kept: _KeptAnnotations) -> dict[str, str]:
    texts = zip(KEPT_ANNOTATIONS, msgspec.structs.astuple(kept), strict=True)
    return {key: text for key, text in texts if text is not None}
