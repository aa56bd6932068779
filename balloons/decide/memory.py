"""What decisions remember from tick to tick: hysteresis only.

Losing it (a restart, another leader) costs time and never correctness: a frozen pool is looked at anew, a
reservation is made anew from the pods that still wait.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from balloons.decide.census import Unready
from balloons.decide.refusing import NodeRefusal
from throttler.kube.metadata import ObjectKey


@dataclass(frozen=True, slots=True)
class AskedShape:
    """New nodes are asked for in this shape since `since_s`; `nodes` is how many the pool had then, in all."""

    shape: str
    since_s: float
    nodes: int


@dataclass(frozen=True, slots=True)
class PoolMemory:
    """One pool's memory; times are monotonic seconds.

    `valued` are the busy and held nodes of the last view that was believed, `shrunken_since_s` is when too many of
    them were first missed. `removed` are (time, count) of recent removals. `granted` of the waiting balloons
    ask for new nodes with the allowance's leave; None while nobody paces the pool, and after a restart: what waits then
    was granted before.
    """

    valued: frozenset[str] = frozenset()
    shrunken_since_s: float | None = None
    removed: tuple[tuple[float, int], ...] = ()
    granted: int | None = None
    asked: AskedShape | None = None
    """In which shape the pool waits for new nodes; None while it waits for none."""
    late_since_s: Mapping[str, float] = field(default_factory=dict)
    """Since when nodes that are Ready have not been usable: a preflight or startup taint, devices that lack."""
    refusals: Mapping[str, NodeRefusal] | None = None
    """Nodes that refuse balloons or did so lately, by name; None before the first decision."""
    failed_since_s: Mapping[str, float] = field(default_factory=dict)
    """Since when each Failed balloon is known, by uid."""


@dataclass(frozen=True, slots=True)
class Memory:
    """All pools' memory; `gone_since_s` says when a pool whose balloons remain was first missed.

    `reserved_since_s` maps a waiting pod's uid to the moment it was first given a node, `unready_since_s` a node that
    is not Ready to the moments since which it may be taken to join, and since which it was seen so.
    """

    reserved_since_s: Mapping[str, float] = field(default_factory=dict)
    pools: Mapping[ObjectKey, PoolMemory] = field(default_factory=dict)
    gone_since_s: Mapping[ObjectKey, float] = field(default_factory=dict)
    looked: frozenset[tuple[object, ...]] = frozenset()
    """Classes of waiting pods that have had their turn while others wait for theirs."""
    unready_since_s: Mapping[str, Unready] = field(default_factory=dict)
