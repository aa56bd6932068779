"""Simulated machines: hollow nodes (real kubelets, no containers), paper nodes (objects kept by one loop), and paper
nodes on which our own pods run as processes."""

from lab.cloud.machines.hollow import HollowNode, HollowNodes, HollowNodeSettings
from lab.cloud.machines.paper import PaperMachines
from lab.cloud.machines.paper_objects import PaperNode
from lab.cloud.machines.process_pods import ProcessPods

__all__ = ["HollowNode", "HollowNodeSettings", "HollowNodes", "PaperMachines", "PaperNode", "ProcessPods"]
