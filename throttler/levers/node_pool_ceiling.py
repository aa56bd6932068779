"""The ceiling of one NodePool: `usage + nodes x the largest machine`, per resource. Amounts are milli-units.

Karpenter takes `limits.cpu` (memory, GPUs) down within a scheduling round, each new machine at the largest size it may
get, but `limits.nodes` only gates a round (observed on 1.14 and 1.15). So the pace is in capacity. How large a pool's
machines are is learned from what was ordered so far.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, Self

from throttler.kube.karpenter import NodeClaim, NodePool
from throttler.kube.quantities_and_durations import QuantityError, Resources, larger, total
from throttler.levers.lever_and_reasons import STALE_VIEW_S
from throttler.levers.saved_limits import amount_of, read_saved, taken_in

CPU = "cpu"
MEMORY = "memory"
ACCELERATORS = frozenset(
    {
        "nvidia.com/gpu",
        "amd.com/gpu",
        "gpu.intel.com/i915",
        "gpu.intel.com/xe",
        "aws.amazon.com/neuron",
        "habana.ai/gaudi",
        "google.com/tpu",
    }
)
"""The extended resources that set the price of a machine; others (network interfaces, ...) say nothing of its size."""
LIMITED = frozenset({CPU, MEMORY}) | ACCELERATORS
"""What a ceiling is written in, where the pool's machines have it."""
NODES, NODE = "nodes", 1000
"""Karpenter's limit in nodes, and one node in milli-units."""
CPU_LABEL = "/instance-cpu"
"""How Karpenter's providers end the name of the label that tells a machine's cores."""


def readable(texts: Mapping[str, Any]) -> dict[str, int]:
    """The amounts of LIMITED resources; what cannot be read is left out, so that one bad object spoils nothing."""
    amounts = {}
    for name, value in texts.items():
        if name in LIMITED and (milli := _amount(value)):
            amounts[name] = milli
    return amounts


def _amount(value: Any) -> int:
    try:
        return max(0, amount_of(value))
    except QuantityError:
        return 0


def size_of(claim: NodeClaim) -> Resources:
    """The size of a launched machine. Its capacity may be an estimate; the label says how many cores it really has."""
    size = readable(claim.status.capacity)
    for name, value in claim.metadata.labels.items():
        if name.endswith(CPU_LABEL) and (cores := _amount(value)):
            size[CPU] = max(cores, size.get(CPU, 0))
    return size


def sizes_seen(pool: NodePool, claims: Iterable[NodeClaim]) -> tuple[Resources, ...]:
    """The sizes of the pool's machines, once each; empty while it has had none."""
    sizes = [*(size_of(claim) for claim in claims if claim.is_launched), _mean(pool)]
    distinct = {frozenset(size.items()) for size in sizes if size}
    return tuple(dict(pairs) for pairs in sorted(sorted(pairs) for pairs in distinct))


def _mean(pool: NodePool) -> Resources:
    """The size of one machine by Karpenter's own count of the pool."""
    count = _nodes_counted(pool)
    used = readable(pool.status.resources)
    return {name: milli // count for name, milli in used.items()} if count else {}


def _nodes_counted(pool: NodePool) -> int:
    return _amount(pool.status.resources.get(NODES, 0)) // NODE


def usage_of(pool: NodePool, claims: Iterable[NodeClaim], largest: Resources, gone: int = 0) -> Resources:
    """What the pool has and has been promised, as Karpenter counts it or more.

    A claim counts with its estimated capacity until its Node is there, then with its real size; one that is not
    launched, with the largest; one that leaves, not at all. As usage it would be room for another machine in
    Karpenter's eyes, and for the next one as soon as that is ordered. Karpenter's own count is up to 5 s old: the
    larger one holds, but for machines of it that are `gone`.
    """
    told = total(_counted(claim, largest) for claim in claims if not claim.is_leaving)
    counted = readable(pool.status.resources)
    return larger(told, {name: max(0, milli - gone * largest.get(name, 0)) for name, milli in counted.items()})


def _counted(claim: NodeClaim, largest: Resources) -> Resources:
    if not claim.is_launched:
        return largest
    return size_of(claim) if claim.is_registered else readable(claim.status.capacity)


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
class PoolShare:
    """What one pool may grow by: its share of the allowance."""

    nodes: int
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
    cores, and pods that each want a node, orders one machine of 8 cores for 192 cores of room. Where a machine can be
    of one type only, its room is its size, and few are ordered for want of stock. Times are monotonic seconds.
    """

    factor: int = 1
    """Room for one machine, in sizes of the largest that the pool had."""
    coming: Mapping[str, bool] = field(default_factory=dict)
    """The machines on their way at the last look: their names, and whether each can be of one type only."""
    rooms: tuple[tuple[float, int], ...] = ()
    """Of late: when, and how many machines were both allowed and waited for."""
    batch: int = 0
    """Machines that were ordered since orders began to come."""
    offered: int = 0
    """How many might have been."""
    is_of_one_type: bool = False
    """Whether each of them can be of one type only."""
    ordered_s: float = 0.0
    ordered: int = 0
    """Machines in all, but for those that went before they were usable, whose room stands again, and for those that
    are counted and that no claim tells of yet (see Unheard)."""
    stood: tuple[tuple[float, int], ...] = ()
    """Of late: until when, and how many there might be in all; what stands now has no end."""

    def looked(self, coming: Mapping[str, bool], now_s: float, lost: int = 0) -> Self:
        """After a look at the machines: once orders have ceased for a moment they are held against what was offered.

        So many of them were `lost` since the last one: they are gone and were never usable.
        """
        heard = replace(self, coming=coming, ordered=self.ordered - lost)
        if new := coming.keys() - self.coming.keys():
            offered = self.offered if self.batch else min((room for _, room in self.rooms), default=0)
            return replace(
                heard,
                ordered=heard.ordered + len(new),
                batch=self.batch + len(new),
                offered=offered,
                is_of_one_type=all(coming[name] for name in new) and (self.is_of_one_type or not self.batch),
                ordered_s=now_s,
            )
        if self.batch and now_s - self.ordered_s >= SETTLED_S:
            return replace(heard, batch=0, factor=1 if self.is_of_one_type else self._learned())
        return heard

    def _learned(self) -> int:
        if self.batch > self.offered:
            return max(1, self.factor * self.offered // self.batch)
        is_short = self.offered - self.batch >= 2 and SHORT * self.offered > self.batch
        return min(2 * self.factor, -(-self.factor * self.offered // self.batch)) if is_short else self.factor

    def given(self, nodes: int, waiting: int, now_s: float, unheard: int = 0) -> Self:
        """After it was decided for how many machines there is room, and how many are waited for.

        The room before stood until now. `unheard` machines are counted and no claim tells of them.
        """
        rooms = [(at_s, room) for at_s, room in self.rooms if now_s - at_s <= STOOD_S]
        stood = [(min(until_s, now_s), most) for until_s, most in self.stood if now_s - until_s <= STOOD_S]
        most = self.ordered + unheard + nodes
        return replace(self, rooms=(*rooms, (now_s, min(nodes, waiting))), stood=(*stood, (math.inf, most)))

    def still_open(self, now_s: float, unheard: int) -> int:
        """For how many there was room of late: it may be used by now, and no watch have told of it.

        What the `unheard` machines that are counted used of it is told of.
        """
        of_late = (most for until_s, most in self.stood if now_s - until_s <= STOOD_S)
        return max(0, max(of_late, default=0) - self.ordered - unheard)

    def within(self, largest: Resources) -> int:
        """The factor, as far as machines of that size exist."""
        return max(1, min(self.factor, MOST_CORES // max(CORE, largest.get(CPU, CORE))))


@dataclass(frozen=True, slots=True, kw_only=True)
class Unheard:
    """Machines in Karpenter's own count of a pool that no claim tells of.

    Watches of one server are seconds apart while it is busy, and Karpenter writes the count every 5 s. Once it has
    risen, claims that nobody has heard of may be in flight. Where claims are gone it is that of before, and as usage
    it would be room for as many others. Times are monotonic seconds.
    """

    counted: int = 0
    rose_s: float = 0.0
    """When the count rose last."""
    surplus: int | None = None
    """How many more it is than there are claims; None before the first look."""
    grew_s: float = 0.0
    """When the surplus grew last."""
    machines: int = 0
    """How many are in flight, as far as anybody can know."""
    gone: int = 0
    """Those whose claims are gone."""

    def looked(self, pool: NodePool, claims: Iterable[NodeClaim], now_s: float) -> Self:
        """After a look at the count and at the claims.

        A surplus that stays is an error of the count (a node whose claim is gone, say): Karpenter goes by it, so it is
        used, and nothing of it is in flight.
        """
        counted, before = _nodes_counted(pool), self.surplus
        surplus = max(0, counted - sum(not claim.is_leaving for claim in claims))
        rose_s = now_s if before is None or counted > self.counted else self.rose_s
        grew_s = now_s if before is None or surplus > before else self.grew_s
        error = surplus if now_s - grew_s > STALE_VIEW_S else min((before or 0) - self.machines - self.gone, surplus)
        is_heard = now_s - rose_s > STALE_VIEW_S
        return type(self)(
            counted=counted,
            rose_s=rose_s,
            surplus=surplus,
            grew_s=grew_s,
            machines=0 if is_heard else surplus - error,
            gone=surplus - error if is_heard else 0,
        )


def assumed_size(hint: Resources) -> Resources:
    """The size taken for a pool that never had a machine: the power of two cores that holds the largest waiting pod.

    A machine keeps a part of itself for the system, so one of eight cores holds no pod that asks for eight. Only in
    cores: the other sizes cannot be guessed, and one resource is enough to pace.
    """
    cores = CORE
    while cores <= hint.get(CPU, 0) and cores < MOST_CORES:
        cores *= 2
    return {CPU: cores}


def ceiling_of(usage: Resources, largest: Resources, share: PoolShare) -> Resources:
    """The wanted ceiling of each resource that the machines have, in milli-units; at least the usage."""
    charged, factor = share.nodes * share.charge, 2**share.doublings
    while factor > 1 and charged * largest.get(CPU, CORE) * factor > MOST_CORES:
        factor //= 2
    nodes = charged * factor
    slack = {MEMORY: MEMORY_SLACK} if nodes else {}
    return {
        name: usage.get(name, 0) + int(size * (nodes + slack.get(name, 0)))
        for name, size in largest.items()
        if name in LIMITED and size > 0
    }


SIZE_KEPT_S = 86_400.0
DIFFERS_MUCH = 2
"""Largest over smallest machine in cores, from which an allowance of nodes is said to be one of capacity."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolFigures:
    """Amounts are milli-units."""

    sizes: tuple[Resources, ...]
    """Of the machines that the pool has."""
    largest: Resources
    """The largest that it had; empty while it had none. One that was not there for `SIZE_KEPT_S` is forgotten beside
    others: an odd day, on which only huge machines were in stock, would have room counted in them for ever."""
    usage: Resources
    of_type: str = ""
    """The one type that the pool's user names, once a machine of it was there: none is larger. Else empty."""
    seen_s: float = 0.0
    """When machines so large were there last (monotonic seconds)."""

    def largest_of(self, there: Resources, now_s: float) -> tuple[Resources, float]:
        """The largest after a look at machines that are this large, and when it was there last."""
        if there and now_s - self.seen_s > SIZE_KEPT_S:
            return there, now_s
        is_there = all(milli <= there.get(name, 0) for name, milli in self.largest.items())
        return larger(self.largest, there), now_s if is_there else self.seen_s


def has_users_room(pool: NodePool, claims: Sequence[NodeClaim], sizes: Sequence[Resources]) -> bool:
    """Whether the user's own limits admit one more machine of the pool, the smallest of the sizes that it had."""
    limits = pool.spec.limits or {}
    kept = taken_in(read_saved(pool.metadata), limits, (), ())
    theirs = {**limits, **{name: kept.original[name] for name in kept.ceiling}}
    bounds = {name: value for name, value in theirs.items() if value is not None and name in {*LIMITED, NODES}}
    if not bounds:
        return True
    nodes = sum(not claim.is_leaving for claim in claims)
    usage = {**usage_of(pool, claims, reduce(larger, sizes, {})), NODES: nodes * NODE}
    smallest: Resources = reduce(smaller, sizes[1:], sizes[0]) if sizes else {}
    more = {**smallest, NODES: NODE}
    try:
        return all(usage.get(name, 0) + more.get(name, 1) <= amount_of(value) for name, value in bounds.items())
    except QuantityError:
        return True


def smaller(left: Resources, right: Resources) -> Resources:
    """The smaller amount of each resource; what one of them lacks is none."""
    return {name: min(milli, right.get(name, 0)) for name, milli in left.items()}
