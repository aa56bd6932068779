"""What Karpenter should look like in a run of the lab, and which instance types it may choose from.

Three kinds of machine exist. A *hollow* one is a real kubelet, which always reports 1 core and 3.75 GiB: Karpenter
must be told that very size, or work that it placed on a bigger promise fails with OutOfcpu and it buys node
after node. A *joiner* (all the requests of a kubelet) and a *paper* one (a few) may be of any size.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lab.cloud import BootTime, MachineSort
from lab.errors import LabError

# What the kwok provider subtracts from every instance type's capacity before it promises the rest to pods.
RESERVED_CPU_MILLIS = 100
RESERVED_MEMORY_MIB = 10


@dataclass(frozen=True, kw_only=True)
class InstanceType:
    """One size of machine, offered on demand in every zone at the same price.

    `extended` holds resources such as {"nvidia.com/gpu": "8"}; with `device_plugin`, the name of a DaemonSet, a joiner
    reports them only once that DaemonSet's pod runs there. `pods` is the largest number of pods.
    """

    name: str
    cpu_millis: int
    memory_mib: int
    price_per_hour: float
    sort: MachineSort = MachineSort.PAPER
    extended: Mapping[str, str] = field(default_factory=dict)
    device_plugin: str = ""
    zones: tuple[str, ...] = ("lab-a",)
    pods: int = 110

    @property
    def capacity(self) -> dict[str, str]:
        """What the machine has, as Kubernetes quantities."""
        return self._resources(self.cpu_millis, self.memory_mib)

    @property
    def allocatable(self) -> dict[str, str]:
        """What Karpenter promises to pods, and what a paper machine reports."""
        return self._resources(self.cpu_millis - RESERVED_CPU_MILLIS, self.memory_mib - RESERVED_MEMORY_MIB)

    def entry(self) -> dict[str, Any]:
        """Return the type as an entry of the provider's instance types file."""
        return {
            "name": self.name,
            "architecture": "amd64",
            "operatingSystems": ["linux"],
            "resources": self.capacity,
            "offerings": [self._offering(zone) for zone in self.zones],
        }

    def _resources(self, cpu_millis: int, memory_mib: int) -> dict[str, str]:
        sizes = {"cpu": f"{cpu_millis}m", "memory": f"{memory_mib}Mi", "pods": str(self.pods)}
        return {**sizes, "ephemeral-storage": "20Gi", **self.extended}

    def _offering(self, zone: str) -> dict[str, Any]:
        chosen = {"karpenter.sh/capacity-type": "on-demand", "topology.kubernetes.io/zone": zone}
        terms = [{"key": key, "operator": "In", "values": [value]} for key, value in chosen.items()]
        return {"Price": self.price_per_hour, "Available": True, "Requirements": terms}


HOLLOW = InstanceType(name="hollow-1", cpu_millis=1000, memory_mib=3840, price_per_hour=0.05, sort=MachineSort.HOLLOW)
"""The size that every hollow kubelet reports. Karpenter promises 900m and 3830Mi of it, so what it places fits."""

HOLLOW_GPU = InstanceType(
    name="hollowgpu-8",
    cpu_millis=1000,
    memory_mib=3840,
    price_per_hour=8.0,
    sort=MachineSort.HOLLOW,
    extended={"nvidia.com/gpu": "8"},
)
"""A hollow kubelet that reports eight GPUs beside its fixed size."""


def paper_type(
    name: str,
    cores: int,
    memory_gib: int,
    gpus: int = 0,
    sort: MachineSort = MachineSort.PAPER,
    device_plugin: str = "",
) -> InstanceType:
    """Return a type of any size, on paper or of joiners; its price grows with cores and GPUs: smaller is cheaper."""
    return InstanceType(
        name=name,
        cpu_millis=cores * 1000,
        memory_mib=memory_gib * 1024,
        price_per_hour=0.05 * cores + 1.0 * gpus,
        sort=sort,
        extended={"nvidia.com/gpu": str(gpus)} if gpus else {},
        device_plugin=device_plugin,
    )


CONSOLIDATION_POLICIES = ("WhenEmpty", "WhenEmptyOrUnderutilized")


@dataclass(frozen=True, kw_only=True)
class NodePoolSettings:
    """One NodePool.

    `consolidate_after_s`: None stands for Never. `budget`: how many nodes may be disrupted at once, as a count
    or percent. `limits`: such as {"cpu": "40"}. `instance_types`: names that this pool may use; empty allows all.
    `weight`: 1 to 100; Karpenter tries heavier pools first.
    `startup_taints` are set at registration and must be removed by somebody before the node counts as usable.
    """

    name: str = "default"
    consolidation_policy: str = "WhenEmptyOrUnderutilized"
    consolidate_after_s: int | None = 10
    budget: str = "100%"
    limits: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Mapping[str, str], ...] = ()
    startup_taints: tuple[Mapping[str, str], ...] = ()
    weight: int | None = None
    instance_types: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.consolidation_policy not in CONSOLIDATION_POLICIES:
            known = " or ".join(CONSOLIDATION_POLICIES)
            raise LabError(f"consolidation_policy is {self.consolidation_policy!r}; it must be {known}")


@dataclass(frozen=True, kw_only=True)
class KarpenterSettings:
    """Karpenter, its NodePools, the instance types on offer, and how their machines boot.

    `capacity`: the number of machines that the cloud has; those beyond it wait until another one ends, and
    Karpenter sees only a NodeClaim that does not register. None is no end. `starts_per_s`: how many machines the
    cloud starts per second, after `starts_burst` at once; None is any number. `feature_gates`: such as
    {"CapacityBuffer": True}. `log_level`: debug, info or error.
    """

    node_pools: tuple[NodePoolSettings, ...] = (NodePoolSettings(),)
    instance_types: tuple[InstanceType, ...] = (HOLLOW,)
    boot_time: BootTime = field(default_factory=BootTime)
    capacity: int | None = None
    starts_per_s: float | None = None
    starts_burst: int = 1
    feature_gates: Mapping[str, bool] = field(default_factory=dict)
    log_level: str = "info"
    start_deadline_s: float = 180.0

    def __post_init__(self) -> None:
        known = {kind.name for kind in self.instance_types}
        wanted = {name for pool in self.node_pools for name in pool.instance_types}
        if unknown := sorted(wanted - known):
            raise LabError(f"a NodePool names {', '.join(unknown)}; instance_types has {', '.join(sorted(known))}")
