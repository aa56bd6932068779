"""Simulated machines: hollow nodes (real kubelets, no containers) and paper nodes (objects kept by one loop)."""

from lab.machines.hollow import HollowNode, HollowNodes, HollowNodeSettings
from lab.machines.paper import PaperMachines
from lab.machines.paper_objects import PaperNode

__all__ = ["HollowNode", "HollowNodeSettings", "HollowNodes", "PaperMachines", "PaperNode"]
