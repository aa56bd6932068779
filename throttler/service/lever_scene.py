"""What all levers of one tick are planned on, and what each remembers. Values."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from throttler.kube.cluster_autoscaler import CapacityQuota
from throttler.kube.karpenter import NodeClaim, NodePool
from throttler.kube.node import Node
from throttler.kube.pod import Pod
from throttler.levers.capacity_quota import QuotaMemory
from throttler.levers.hold import Clocks, HeldSince
from throttler.levers.node_pool_limits import NodePoolMemory
from throttler.levers.scheduling_gate import GateMemory


@dataclass(frozen=True, slots=True, kw_only=True)
class LeverScene:
    """The objects that levers move, and the moment."""

    moment: Clocks
    lease: str = ""
    """`namespace/name` of the Lease whose renewal keeps ceilings in force; empty without one."""
    epoch: int = 0
    """The leadership under which is decided: written on every object with a ceiling, and never lowered there."""
    nodes: Mapping[str, Node] = field(default_factory=dict)
    unplaced: tuple[Pod, ...] = ()
    pools: tuple[NodePool, ...] = ()
    claims: tuple[NodeClaim, ...] = ()
    quotas: Mapping[str, CapacityQuota] = field(default_factory=dict)
    quota_version: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeverMemory:
    """Of one throttle; losing it costs seconds, never a user's value."""

    quota: QuotaMemory = field(default_factory=QuotaMemory)
    pools: NodePoolMemory = field(default_factory=NodePoolMemory)
    gates: GateMemory = field(default_factory=GateMemory)
    taints: HeldSince = field(default_factory=HeldSince)
    labels: HeldSince = field(default_factory=HeldSince)
