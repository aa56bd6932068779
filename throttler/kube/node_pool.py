"""Karpenter's NodePool, as far as a ceiling needs it."""

from typing import Any

import msgspec

from throttler.kube.managed_fields import OwnedMetadata
from throttler.kube.selectors import Requirement, Taint

NODE_POOL_KIND = "NodePool"
KARPENTER_API_VERSION = "karpenter.sh/v1"

Limits = dict[str, Any]
"""Resource name -> quantity as its author wrote it (text, or a whole number): it is given back unchanged."""


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


class PoolCondition(msgspec.Struct, frozen=True, rename="camel"):
    """One of Karpenter's conditions; `observed_generation` is 0 where it names none."""

    type: str
    status: str
    message: str = ""
    observed_generation: int = 0


class NodePoolStatus(msgspec.Struct, frozen=True):
    """Written by Karpenter about every 5 s; `resources` leaves out nodes that are being deleted."""

    resources: dict[str, Any] = {}
    conditions: tuple[PoolCondition, ...] | None = None


class NodePool(msgspec.Struct, frozen=True):
    """The object as stored."""

    metadata: OwnedMetadata
    spec: NodePoolSpec = NodePoolSpec()
    status: NodePoolStatus = NodePoolStatus()
    api_version: str = msgspec.field(default=KARPENTER_API_VERSION, name="apiVersion")

    @property
    def is_usable(self) -> bool:
        """Whether Karpenter orders machines for pods from it: not while it says that the pool is not Ready."""
        return all(each.status != "False" for each in self.status.conditions or () if each.type == "Ready")
