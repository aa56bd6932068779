"""What decisions remember from tick to tick: hysteresis only.

Losing it (a restart, another leader) costs time and never correctness: a frozen pool is looked at anew, a
reservation is made anew from the pods that still wait.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from throttler.kube.metadata import ObjectKey


@dataclass(frozen=True, slots=True)
class PoolMemory:
    """One pool's memory; times are monotonic seconds.

    `believed_nodes` is the node count that was last trusted, `shrunken_since_s` when fewer were first seen. `reserved_since_s`
    maps a waiting pod's uid to the moment it was first given a node. `removed` are (time, count) of recent removals.
    """

    believed_nodes: int = 0
    shrunken_since_s: float | None = None
    reserved_since_s: Mapping[str, float] = field(default_factory=dict)
    removed: tuple[tuple[float, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Memory:
    """All pools' memory; `gone_since_s` says when a pool whose balloons remain was first missed."""

    pools: Mapping[ObjectKey, PoolMemory] = field(default_factory=dict)
    gone_since_s: Mapping[ObjectKey, float] = field(default_factory=dict)
