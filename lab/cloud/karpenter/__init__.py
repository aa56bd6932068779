"""The real Karpenter (kwok provider) on a control plane of the lab, with machines that boot and may fail."""

from lab.cloud.karpenter.karpenter import Karpenter, start_karpenter
from lab.cloud.karpenter.settings import (
    HOLLOW,
    HOLLOW_GPU,
    InstanceType,
    KarpenterSettings,
    NodePoolSettings,
    paper_type,
)

__all__ = [
    "HOLLOW",
    "HOLLOW_GPU",
    "InstanceType",
    "Karpenter",
    "KarpenterSettings",
    "NodePoolSettings",
    "paper_type",
    "start_karpenter",
]
