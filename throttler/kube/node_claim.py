"""A Karpenter NodeClaim: a machine that was asked for, and how far it has come."""

import msgspec

from throttler.kube.metadata import Metadata
from throttler.kube.node import INSTANCE_TYPE_LABEL, KARPENTER_POOL_LABEL
from throttler.kube.resources import Resources, parse_resources


class _Condition(msgspec.Struct, frozen=True, gc=False):
    type: str
    status: str = ""


class _Status(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    node_name: str = ""
    provider_id: str = msgspec.field(default="", name="providerID")
    capacity: dict[str, str] = {}
    allocatable: dict[str, str] = {}
    conditions: tuple[_Condition, ...] = ()


class NodeClaim(msgspec.Struct, frozen=True, gc=False):
    """What is decoded of a NodeClaim (karpenter.sh/v1); its labels are those that its node will carry."""

    metadata: Metadata
    status: _Status = _Status()

    @property
    def pool(self) -> str:
        """The NodePool it was made for."""
        return self.metadata.labels.get(KARPENTER_POOL_LABEL, "")

    @property
    def instance_type(self) -> str:
        """The instance type; empty before launch."""
        return self.metadata.labels.get(INSTANCE_TYPE_LABEL, "")

    @property
    def node_name(self) -> str:
        """Its Node; empty before registration."""
        return self.status.node_name

    @property
    def provider_id(self) -> str:
        """The machine at its provider; empty before launch."""
        return self.status.provider_id

    @property
    def capacity(self) -> Resources:
        """What the instance type has (milli-units); empty before launch. Raises QuantityError."""
        return parse_resources(self.status.capacity)

    @property
    def allocatable(self) -> Resources:
        """What of it pods are promised (milli-units); empty before launch. Raises QuantityError."""
        return parse_resources(self.status.allocatable)

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

    def _is(self, type_: str) -> bool:
        return any(condition.type == type_ and condition.status == "True" for condition in self.status.conditions)
