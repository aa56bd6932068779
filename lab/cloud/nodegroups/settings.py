"""The node groups of the simulated cloud."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lab.cloud import BootTime, MachineSort
from lab.errors import LabError


@dataclass(frozen=True, kw_only=True)
class NodeGroup:
    """Machines of one shape, between `min_size` and `max_size` of them.

    A hollow machine reports 1 core and 3840 MiB whatever is written here; keep these defaults for it.
    `stock`: how many machines of this group the cloud can deliver; None is no end. `taints` as in the API.
    """

    name: str
    max_size: int
    min_size: int = 0
    cpu_millis: int = 1000
    memory_mib: int = 3840
    pods: int = 110
    extended: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Mapping[str, str], ...] = ()
    sort: MachineSort = MachineSort.PAPER
    stock: int | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.min_size <= self.max_size:
            raise LabError(f"node group {self.name}: min_size {self.min_size} is not within 0 and {self.max_size}")

    @property
    def allocatable(self) -> dict[str, str]:
        """What each machine offers to pods, as Kubernetes quantities; the same as its capacity."""
        sizes = {"cpu": f"{self.cpu_millis}m", "memory": f"{self.memory_mib}Mi", "pods": str(self.pods)}
        return {**sizes, "ephemeral-storage": "20Gi", **self.extended}

    @property
    def node_labels(self) -> dict[str, str]:
        """The labels of each Node but for its host name."""
        of_group = {"lab/node-group": self.name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
        return {**of_group, "node.kubernetes.io/instance-type": self.name, **self.labels}


@dataclass(frozen=True, kw_only=True)
class NodeGroupsSettings:
    """The whole cloud. It starts with `min_size` machines in each group, which boot like all others."""

    groups: tuple[NodeGroup, ...]
    boot_time: BootTime = field(default_factory=BootTime)
    gpu_label: str = "lab/gpu"

    def __post_init__(self) -> None:
        names = [group.name for group in self.groups]
        if len(set(names)) < len(names):
            raise LabError(f"two node groups share a name: {', '.join(sorted(names))}")
