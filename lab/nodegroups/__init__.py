"""A simulated node-group cloud, and the real cluster-autoscaler on it if the user has a binary."""

from lab.nodegroups.autoscaler import (
    NOT_GIVEN,
    AutoscalerSettings,
    ClusterAutoscaler,
    autoscaler_binary,
    start_cluster_autoscaler,
)
from lab.nodegroups.cloud import NodeGroupCloud
from lab.nodegroups.server import NodeGroupServer, serve, start_node_groups
from lab.nodegroups.settings import NodeGroup, NodeGroupsSettings

__all__ = [
    "NOT_GIVEN",
    "AutoscalerSettings",
    "ClusterAutoscaler",
    "NodeGroup",
    "NodeGroupCloud",
    "NodeGroupServer",
    "NodeGroupsSettings",
    "autoscaler_binary",
    "serve",
    "start_cluster_autoscaler",
    "start_node_groups",
]
