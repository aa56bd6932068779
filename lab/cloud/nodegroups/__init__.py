"""A simulated node-group cloud, and the real cluster-autoscaler on it if the user has a binary."""

from lab.cloud.nodegroups.autoscaler import (
    NOT_GIVEN,
    QUOTA_FLAGS,
    AutoscalerSettings,
    ClusterAutoscaler,
    autoscaler_binary,
    install_capacity_quotas,
    install_machine_deployments,
    start_cluster_autoscaler,
)
from lab.cloud.nodegroups.cloud import NodeGroupCloud
from lab.cloud.nodegroups.service import NodeGroupServer, serve, start_node_groups
from lab.cloud.nodegroups.settings import NodeGroup, NodeGroupsSettings

__all__ = [
    "NOT_GIVEN",
    "QUOTA_FLAGS",
    "AutoscalerSettings",
    "ClusterAutoscaler",
    "NodeGroup",
    "NodeGroupCloud",
    "NodeGroupServer",
    "NodeGroupsSettings",
    "autoscaler_binary",
    "install_capacity_quotas",
    "install_machine_deployments",
    "serve",
    "start_cluster_autoscaler",
    "start_node_groups",
]
