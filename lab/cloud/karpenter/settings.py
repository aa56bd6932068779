"""What Karpenter should look like in a run of the lab."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lab.cloud import BootTime
from lab.cloud.karpenter.instance_types import HOLLOW, InstanceType
from lab.errors import LabError

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
    start_deadline_s: float = 90.0

    def __post_init__(self) -> None:
        known = {kind.name for kind in self.instance_types}
        wanted = {name for pool in self.node_pools for name in pool.instance_types}
        if unknown := sorted(wanted - known):
            raise LabError(f"a NodePool names {', '.join(unknown)}; instance_types has {', '.join(sorted(known))}")
