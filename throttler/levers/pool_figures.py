"""The figures of one NodePool at one moment: its machines' sizes, its usage, and the ceiling that follows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from throttler.kube.karpenter import NodeClaim, NodePool
from throttler.kube.quantity import QuantityError, Resources, larger
from throttler.levers.clamp import amount_of, clamped, unraised
from throttler.levers.original import Mark, read_mark, taken_in
from throttler.levers.pool_ceiling import PoolRoom, assumed_size, ceiling_of, steadied
from throttler.levers.sizes import CPU, LIMITED, sizes_seen, usage_of

NODES, NODE = "nodes", 1000
"""Karpenter's limit in nodes, and one node in milli-units."""
DIFFERS_MUCH = 2
"""Largest over smallest machine in cores, from which an allowance of nodes is said to be one of capacity."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolFigures:
    """Amounts are milli-units."""

    sizes: tuple[Resources, ...]
    """Of the machines that the pool has."""
    seen: Resources
    """The largest that it ever had; empty while it had none."""
    usage: Resources
    ceiling: Mapping[str, Any]
    """The values to write: those that we own, and those that we have to hold because we owned them."""

    @property
    def cores(self) -> tuple[int, int]:
        """The smallest and the largest machine, in milli-cores."""
        found = [size.get(CPU, 0) for size in self.sizes]
        return (min(found), max(found)) if found else (0, 0)

    @property
    def is_mixed(self) -> bool:
        """Whether its machines differ so much that nodes cannot be counted by capacity."""
        smallest, largest = self.cores
        return largest >= DIFFERS_MUCH * smallest > 0


def figures_of(
    pool: NodePool,
    claims: Sequence[NodeClaim],
    kept: Mark,
    room: PoolRoom,
    hint: Resources,
    last: "PoolFigures | None",
    *,
    may_raise: bool,
) -> PoolFigures:
    """`last` are the figures of the look before: neither sizes nor usage of then are forgotten at once.

    Raises QuantityError where the user's own limit cannot be compared with ours.
    """
    sizes = sizes_seen(pool, claims)
    seen = reduce(larger, sizes, last.seen if last else {})
    largest = seen or assumed_size(hint)
    usage = usage_of(pool, claims, largest)
    wanted = ceiling_of(larger(usage, last.usage) if last else usage, largest, room)
    standing = {name: amount_of(value) for name, value in kept.ceiling.items()}
    steady = steadied(wanted, standing, reduce(_smaller, sizes, largest))
    if not may_raise:
        steady = unraised(steady, standing, usage)
    return PoolFigures(sizes=sizes, seen=seen, usage=usage, ceiling=clamped(steady, kept, pool.spec.limits or {}))


def has_users_room(pool: NodePool, claims: Sequence[NodeClaim], sizes: Sequence[Resources]) -> bool:
    """Whether the user's own limits admit one more machine of the pool, the smallest of the sizes that it had."""
    mark, limits = read_mark(pool.metadata), pool.spec.limits or {}
    kept = taken_in(mark, limits, (), ()) if mark else Mark(original={}, ceiling={})
    theirs = {**limits, **{name: kept.original[name] for name in kept.ceiling}}
    bounds = {name: value for name, value in theirs.items() if value is not None and name in {*LIMITED, NODES}}
    if not bounds:
        return True
    usage = {**usage_of(pool, claims, reduce(larger, sizes, {})), NODES: len(claims) * NODE}
    smallest: Resources = reduce(_smaller, sizes[1:], sizes[0]) if sizes else {}
    more = {**smallest, NODES: NODE}
    try:
        return all(usage.get(name, 0) + more.get(name, 1) <= amount_of(value) for name, value in bounds.items())
    except QuantityError:
        return True


def _smaller(left: Resources, right: Resources) -> Resources:
    return {name: min(milli, right.get(name, 0)) for name, milli in left.items()}
