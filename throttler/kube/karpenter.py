"""Karpenter's NodePool, as far as a ceiling needs it, and its NodeClaim: a machine that was asked for."""

from typing import Any, ClassVar

import msgspec

from throttler.kube.metadata import KindNames, Metadata, ObservedCondition, OwnedMetadata
from throttler.kube.node import HOST_LABEL, INSTANCE_TYPE_LABEL, KARPENTER_POOL_LABEL, Shared
from throttler.kube.quantities_and_durations import Resources, parse_resources
from throttler.kube.selectors import Requirement
from throttler.kube.taints import Taint

NODE_POOL_KIND = "NodePool"
KARPENTER_API_VERSION = "karpenter.sh/v1"
_DOMAIN = "karpenter.sh"
_ACCEPTED = (KARPENTER_POOL_LABEL, "karpenter.sh/capacity-type")

Limits = dict[str, Any]
"""Resource name -> quantity as its author wrote it (text, or a whole number): it is given back unchanged."""


def is_refused_in_pods(label: str) -> bool:
    """Whether Karpenter makes no node for a pod whose affinity names this label (its IsRestrictedLabel)."""
    domain = label.rpartition("/")[0]
    is_its_own = domain == _DOMAIN or domain.endswith(f".{_DOMAIN}")
    return label == HOST_LABEL or (is_its_own and label not in _ACCEPTED)


def _one_type(requirements: tuple[Requirement, ...]) -> str:
    """The instance type of which they leave the provider no choice; empty where they leave one."""
    named = (term.values for term in requirements if term.key == INSTANCE_TYPE_LABEL and term.operator == "In")
    return next((values[0] for values in named if len(values) == 1), "")


class _TemplateSpec(msgspec.Struct, frozen=True):
    requirements: tuple[Requirement, ...] = ()
    taints: tuple[Taint, ...] = ()


class _TemplateMetadata(msgspec.Struct, frozen=True):
    labels: dict[str, str] = {}


class _Template(msgspec.Struct, frozen=True):
    metadata: _TemplateMetadata = _TemplateMetadata()
    spec: _TemplateSpec = _TemplateSpec()


class NodePoolSpec(msgspec.Struct, frozen=True):
    """`replicas` makes a pool static: its size is the user's, and only `limits.nodes` is accepted."""

    limits: Limits | None = None
    replicas: int | None = None
    weight: int | None = None
    """1 to 100; Karpenter tries heavier pools first. None stands for 0."""
    template: _Template = _Template()

    @property
    def labels(self) -> dict[str, str]:
        """What every node of the pool carries, besides its own pool's label."""
        return self.template.metadata.labels

    @property
    def requirements(self) -> tuple[Requirement, ...]:
        """The terms on the machines' labels."""
        return self.template.spec.requirements

    @property
    def taints(self) -> tuple[Taint, ...]:
        """What every node of the pool keeps; startup taints are others."""
        return self.template.spec.taints


class NodePoolStatus(msgspec.Struct, frozen=True):
    """Written by Karpenter about every 5 s; `resources` leaves out nodes that are being deleted."""

    resources: dict[str, Any] = {}
    conditions: tuple[ObservedCondition, ...] | None = None


class NodePool(msgspec.Struct, frozen=True):
    """The object as stored."""

    NAMES: ClassVar[KindNames] = KindNames("karpenter.sh", ("v1",), "nodepools", NODE_POOL_KIND)
    LIMITS: ClassVar[tuple[str, ...]] = ("spec", "limits")
    MAY_BE_OURS: ClassVar[bool] = False

    metadata: OwnedMetadata
    spec: NodePoolSpec = NodePoolSpec()
    status: NodePoolStatus = NodePoolStatus()
    api_version: str = msgspec.field(default=KARPENTER_API_VERSION, name="apiVersion")

    @property
    def limits(self) -> Limits | None:
        """The limits that stand; None where the pool has no list of them."""
        return self.spec.limits

    @property
    def is_static(self) -> bool:
        """Whether it has as many machines as its user says, whatever waits (Karpenter's static capacity)."""
        return self.spec.replicas is not None

    @property
    def one_type(self) -> str:
        """The one instance type that its user names for all its machines; empty where they may be of several."""
        return _one_type(self.spec.requirements)

    @property
    def is_usable(self) -> bool:
        """Whether Karpenter orders machines for pods from it: not while it says that the pool is not Ready.

        Nor while the pool is being deleted: in the foreground, as GitOps does, that lasts until its last node is empty.
        """
        return self.unready is None and self.metadata.deletion_timestamp is None

    @property
    def unready(self) -> ObservedCondition | None:
        """The condition that says that it is not Ready, and why."""
        known = self.status.conditions or ()
        return next((c for c in known if c.type == "Ready" and c.status == "False"), None)


class _ClaimCondition(msgspec.Struct, frozen=True, gc=False):
    type: str
    status: str = ""


class _ClaimStatus(msgspec.Struct, frozen=True, gc=False):
    node_name: str = msgspec.field(default="", name="nodeName")
    provider_id: str = msgspec.field(default="", name="providerID")
    capacity: dict[str, str] = {}
    conditions: tuple[_ClaimCondition, ...] = ()


class _ClaimSpec(msgspec.Struct, frozen=True, gc=False):
    requirements: tuple[Requirement, ...] = ()


class NodeClaim(msgspec.Struct, frozen=True, gc=False):
    """What is decoded of a NodeClaim (karpenter.sh/v1); its labels are those that its node will carry."""

    metadata: Metadata
    status: _ClaimStatus = _ClaimStatus()
    spec: _ClaimSpec = _ClaimSpec()

    @property
    def pool(self) -> str:
        """The NodePool it was made for."""
        return self.metadata.labels.get(KARPENTER_POOL_LABEL, "")

    @property
    def node_name(self) -> str:
        """Its Node; empty before registration."""
        return self.status.node_name

    @property
    def provider_id(self) -> str:
        """The machine, as its cloud names it; empty before launch, and in the caches once it is registered."""
        return self.status.provider_id

    @property
    def capacity(self) -> Resources:
        """What the instance type has (milli-units); empty before launch. Raises QuantityError."""
        return parse_resources(self.status.capacity)

    @property
    def is_of_one_type(self) -> bool:
        """Whether it can be of one instance type only: Karpenter names all of which it may be."""
        return bool(_one_type(self.spec.requirements))

    @property
    def instance_type(self) -> str:
        """Of which it is; empty before launch."""
        return self.metadata.labels.get(INSTANCE_TYPE_LABEL, "")

    @property
    def is_launched(self) -> bool:
        """Whether the provider has accepted the order."""
        return self._is("Launched")

    @property
    def is_registered(self) -> bool:
        """Whether its Node is there and has been matched with it."""
        return self._is("Registered")

    @property
    def is_initialized(self) -> bool:
        """Whether its Node is Ready, without startup taints, and offers what was asked for."""
        return self._is("Initialized")

    @property
    def is_drifted(self) -> bool:
        """Whether Karpenter is going to replace it."""
        return self._is("Drifted")

    @property
    def is_deleting(self) -> bool:
        """Whether it is being removed."""
        return self.metadata.deletion_timestamp is not None

    @property
    def is_leaving(self) -> bool:
        """Whether Karpenter no longer counts it: it is being removed, or its replacement has been ordered.

        The condition of that is Karpenter's since 1.4.
        """
        return self.is_deleting or self._is("DisruptionReason")

    @property
    def is_being_replaced(self) -> bool:
        """Whether its replacement has been ordered, and it still stands until that has come."""
        return self.is_leaving and not self.is_deleting

    def _is(self, type_: str) -> bool:
        return any(condition.type == type_ and condition.status == "True" for condition in self.status.conditions)


_NO_ANNOTATIONS: dict[str, str] = {}
_OF_MANY_TYPES = _ClaimSpec()
_OF_ONE_TYPE = _ClaimSpec((Requirement(INSTANCE_TYPE_LABEL, "In", ("one",)),))
"""Which type it is stands among its labels once it is launched."""


def compact_claim(claim: NodeClaim, shared: Shared) -> NodeClaim:
    """The claim without what no decision reads, and with what it has in common with others: there is one per node."""
    metadata, status = claim.metadata, claim.status
    return NodeClaim(
        msgspec.structs.replace(
            metadata, labels=shared.mapping(metadata.labels), annotations=_NO_ANNOTATIONS, owner_references=()
        ),
        msgspec.structs.replace(
            status,
            provider_id="" if claim.is_registered else status.provider_id,
            capacity=shared.mapping(status.capacity),
            conditions=shared.one(status.conditions),
        ),
        _OF_ONE_TYPE if claim.is_of_one_type else _OF_MANY_TYPES,
    )
