"""The ceiling of one NodePool: `usage + nodes x the largest machine`, per resource.

Karpenter takes `limits.cpu` (memory, GPUs) down within a scheduling round, each new machine at the largest size it may
get, but `limits.nodes` only gates a round (observed on 1.14 and 1.15). So the pace is in capacity.
"""

from dataclasses import dataclass, replace
from typing import Self

from throttler.kube.quantity import Resources
from throttler.levers.sizes import CPU, LIMITED, MEMORY

CORE = 1000
"""A core in milli-units: the size of a machine where none was seen and no request is known."""
MEMORY_SLACK = 0.5
"""Of one machine: estimated and real memory differ by some percent, and a ceiling short by one byte admits none."""
SETTLED_S = 3.0
"""Orders of one look of Karpenter's come within a moment of each other."""
STOOD_S = 6.0
"""Room counts as offered once it has stood for so long: a look goes by the room at its start."""
SHORT = 0.75
"""A look that ordered less than this share of what was offered had too little room."""
MOST_CORES = 1024 * CORE
"""No step of trying gives more room than this: larger machines than any cloud rents out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolRoom:
    """What one pool may grow by."""

    share: int
    """Nodes it may order now."""
    doublings: int = 0
    """How often the room is doubled, because nothing that waits fits into it."""
    charge: int = 1
    """How many times the size of its machines Karpenter sets aside for each (see Charge)."""
    heavier: str = ""
    """The pool that is to serve first what this one could serve too."""
    lighter: str = ""
    """The pool that serves it, because this one ordered nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """How much room Karpenter takes for one machine of a pool, learned from what it orders.

    It takes down the largest type that a machine may become, and launches the cheapest: a pool with types of 8 to 192
    cores, and pods that each want a node, orders one machine of 8 cores for 192 cores of room. Times are monotonic
    seconds.
    """

    factor: int = 1
    """Room for one machine, in sizes of the largest that the pool had."""
    coming: frozenset[str] = frozenset()
    """Names of the machines on their way at the last look."""
    rooms: tuple[tuple[float, int], ...] = ()
    """Of late: when, and how many machines were both allowed and waited for."""
    batch: int = 0
    """Machines that were ordered since orders began to come."""
    offered: int = 0
    """How many might have been."""
    ordered_s: float = 0.0

    def looked(self, coming: frozenset[str], now_s: float) -> Self:
        """After a look at the machines: once orders have ceased for a moment they are held against what was offered."""
        new = len(coming - self.coming)
        if new:
            offered = self.offered if self.batch else min((room for _, room in self.rooms), default=0)
            return replace(self, coming=coming, batch=self.batch + new, offered=offered, ordered_s=now_s)
        if self.batch and now_s - self.ordered_s >= SETTLED_S:
            return replace(self, coming=coming, batch=0, factor=self._learned())
        return replace(self, coming=coming)

    def _learned(self) -> int:
        if self.batch > self.offered:
            return max(1, self.factor * self.offered // self.batch)
        is_short = self.offered - self.batch >= 2 and SHORT * self.offered > self.batch
        return min(2 * self.factor, -(-self.factor * self.offered // self.batch)) if is_short else self.factor

    def given(self, nodes: int, now_s: float) -> Self:
        """After it was decided how many machines are both allowed and waited for."""
        kept = [(at_s, room) for at_s, room in self.rooms if now_s - at_s <= STOOD_S]
        return replace(self, rooms=(*kept, (now_s, nodes)))

    def within(self, largest: Resources) -> int:
        """The factor, as far as machines of that size exist."""
        return max(1, min(self.factor, MOST_CORES // max(CORE, largest.get(CPU, CORE))))


def assumed_size(hint: Resources) -> Resources:
    """The size taken for a pool that never had a machine: the power of two cores that holds the largest waiting pod.

    A machine keeps a part of itself for the system, so one of eight cores holds no pod that asks for eight. Only in
    cores: the other sizes cannot be guessed, and one resource is enough to pace.
    """
    cores = CORE
    while cores <= hint.get(CPU, 0) and cores < MOST_CORES:
        cores *= 2
    return {CPU: cores}


def ceiling_of(usage: Resources, largest: Resources, room: PoolRoom) -> Resources:
    """The wanted ceiling of each resource that the machines have, in milli-units; at least the usage."""
    return {
        name: usage.get(name, 0) + _growth(name, size, largest, room)
        for name, size in largest.items()
        if name in LIMITED and size > 0
    }


def _growth(name: str, size: int, largest: Resources, room: PoolRoom) -> int:
    share, factor = room.share * room.charge, 2**room.doublings
    while factor > 1 and share * largest.get(CPU, CORE) * factor > MOST_CORES:
        factor //= 2
    nodes = share * factor
    slack = MEMORY_SLACK if name == MEMORY and nodes else 0
    return int(size * (nodes + slack))


def steadied(wanted: Resources, standing: Resources, smallest: Resources) -> Resources:
    """The wanted ceilings, or those that stand where they admit just as many machines: that write is spared.

    Machines that register move the usage a little (estimates become real sizes), and each write is a request.
    """
    return {
        name: standing[name] if milli <= standing.get(name, -1) < milli + smallest.get(name, 0) else milli
        for name, milli in wanted.items()
    }
