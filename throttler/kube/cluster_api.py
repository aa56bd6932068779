"""Cluster API's MachineDeployment, as far as cluster-autoscaler's provider for it reads one.

The provider takes a MachineDeployment for a node group whose largest size stands in an annotation. Without it, or where
it is 0, the group is not scaled. One below the smallest size, or that is no whole number, is an error of the provider
(cluster-autoscaler 1.36, cloudprovider/clusterapi).
"""

from typing import Any, ClassVar

import msgspec

from throttler.kube.metadata import KindNames, ObjectKey, OwnedMetadata

MACHINE_DEPLOYMENT_KIND = "MachineDeployment"
MACHINE_DEPLOYMENT_VERSIONS = ("v1beta2", "v1beta1")
"""Known versions, newest first; what is read here is the same in both."""
MAX_SIZE = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size"
MIN_SIZE = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size"


class MachineDeploymentSpec(msgspec.Struct, frozen=True):
    """`replicas` is how many machines there are to be: cluster-autoscaler raises it to order one."""

    replicas: int = 0


class MachineDeploymentStatus(msgspec.Struct, frozen=True, rename="camel"):
    """Written by Cluster API; `ready_replicas` are machines whose Node is Ready."""

    ready_replicas: int = 0


class MachineDeployment(msgspec.Struct, frozen=True):
    """The object as stored."""

    NAMES: ClassVar[KindNames] = KindNames(
        "cluster.x-k8s.io",
        MACHINE_DEPLOYMENT_VERSIONS,
        "machinedeployments",
        MACHINE_DEPLOYMENT_KIND,
        is_namespaced=True,
    )
    LIMITS: ClassVar[tuple[str, ...]] = ("metadata", "annotations")

    metadata: OwnedMetadata
    spec: MachineDeploymentSpec = MachineDeploymentSpec()
    status: MachineDeploymentStatus = MachineDeploymentStatus()
    api_version: str = msgspec.field(default=f"cluster.x-k8s.io/{MACHINE_DEPLOYMENT_VERSIONS[0]}", name="apiVersion")

    @property
    def key(self) -> ObjectKey:
        """Namespace and name."""
        return ObjectKey(self.metadata.namespace, self.metadata.name)

    @property
    def limits(self) -> dict[str, Any]:
        """The annotations: the largest size is one of them."""
        return dict(self.metadata.annotations)

    @property
    def min_size(self) -> int:
        """The smallest size that cluster-autoscaler leaves; 0 where it stands nowhere or is no whole number."""
        text = self.metadata.annotations.get(MIN_SIZE, "")
        return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
