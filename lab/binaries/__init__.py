"""The real binaries of the lab: found in KUBEBUILDER_ASSETS, then in the cache, else built with Go."""

from lab.binaries.catalogue import ALL_BINARIES, CONTROL_PLANE_BINARIES, Binary, binary_named
from lab.binaries.finding import find_binaries, find_binary, find_karpenter_crds

__all__ = [
    "ALL_BINARIES",
    "CONTROL_PLANE_BINARIES",
    "Binary",
    "binary_named",
    "find_binaries",
    "find_binary",
    "find_karpenter_crds",
]
