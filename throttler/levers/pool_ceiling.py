"""The ceiling of one NodePool: `usage + nodes x the largest machine`, per resource.

Karpenter takes `limits.cpu` (memory, GPUs) down within a scheduling round, each new machine at the largest size it may
get, but `limits.nodes` only gates a round (facts.md 2.3, observed on 1.14 and 1.15). So the pace is in capacity.
"""

from dataclasses import dataclass

from throttler.kube.resources import Resources
from throttler.levers.sizes import CPU, LIMITED, MEMORY

CORE = 1000
"""A core in milli-units: the size of a machine where none was seen and no request is known."""
MEMORY_SLACK = 0.5
"""Of one machine: estimated and real memory differ by some percent, and a ceiling short by one byte admits none."""
MOST_CORES = 1024 * CORE
"""No step of trying gives more room than this: larger machines than any cloud rents out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolRoom:
    """What one pool may grow by."""

    share: int
    """Nodes it may order now."""
    doublings: int = 0
    """How often the room is doubled, because nothing that waits fits into it."""
    heavier: str = ""
    """The pool that is to serve first what this one could serve too."""
    lighter: str = ""
    """The pool that serves it, because this one ordered nothing."""


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
    factor = 2**room.doublings
    while factor > 1 and room.share * largest.get(CPU, CORE) * factor > MOST_CORES:
        factor //= 2
    nodes = room.share * factor
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
