"""Which pool each node belongs to: the oldest of those that select it and act.

A pool that is paused or a dry run takes nothing from one that acts, however old it is.

Kept node by node: a node's labels almost never change, and asking all of them at every decision was half of its cost.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec

from balloons.api.pool import BalloonPool
from balloons.view.load import EMPTY, NodeLoad
from throttler.kube.metadata import ObjectKey
from throttler.kube.node import Node
from throttler.kube.pod import Pod
from throttler.kube.selectors import Labels, LabelSelector, matches

V = TypeVar("V")
Seen = tuple[Node, NodeLoad]
"""A node and what runs on it, looked up once."""


@dataclass(slots=True)
class Claim:
    """One pool's nodes with their loads, what it lost to pools before it (pool -> nodes), and its balloons elsewhere.

    Loads in `seen` hold no balloons of other pools; `own_loads` are those that had to be cut down for it.
    """

    seen: list[Seen] = field(default_factory=list)
    lost: dict[ObjectKey, int] = field(default_factory=dict)
    strays: list[Pod] = field(default_factory=list)
    own_loads: dict[str, NodeLoad] = field(default_factory=dict)


class Selectors:
    """Which pools select a node, in order, asked once per combination of the labels that any selector reads.

    Thousands of nodes share a handful of combinations, so a node costs a few look-ups however many pools there are.
    """

    def __init__(self, pools: Iterable[BalloonPool]) -> None:
        self._pools = sorted(pools, key=precedence)
        self._keys = sorted({key for pool in self._pools for key in _keys_of(pool.spec.nodes.selector)})
        self._known: dict[tuple[str | None, ...], tuple[ObjectKey, ...]] = {}

    def of(self, labels: Labels) -> tuple[ObjectKey, ...]:
        """The pools that select a node with these labels."""
        keys = self._keys
        read = (labels.get(keys[0]),) if len(keys) == 1 else tuple([labels.get(key) for key in keys])
        found = self._known.get(read)
        if found is None:
            found = tuple(pool.key for pool in self._pools if matches(pool.spec.nodes.selector, labels))
            self._known[read] = found
        return found


def _keys_of(selector: LabelSelector) -> Iterable[str]:
    return [*selector.match_labels, *(part.key for part in selector.match_expressions)]


def precedence(pool: BalloonPool) -> tuple[bool, float, ObjectKey]:
    """The order in which pools get nodes: those that act before those that only look, older before younger."""
    return pool.spec.paused or pool.spec.dry_run, pool.metadata.created_s, pool.key


class Claims:
    """Who claims which node, kept up to date by name; `by_pool` gives what a decision reads."""

    def __init__(self, pools: Iterable[BalloonPool]) -> None:
        self._pools = list(pools)
        self._select = Selectors(self._pools).of
        self._seen: dict[ObjectKey, dict[str, Seen]] = {pool.key: {} for pool in self._pools}
        self._owner: dict[str, ObjectKey] = {}
        self._contested: dict[str, tuple[ObjectKey, ...]] = {}
        self._strays: dict[str, tuple[Pod, ...]] = {}

    def are_of(self, pools: Iterable[BalloonPool]) -> bool:
        """Whether these pools claim exactly what the ones at hand do, whatever else was changed about them."""
        return {_claimant(pool) for pool in pools} == {_claimant(pool) for pool in self._pools}

    def file(self, node: Node, load: NodeLoad) -> None:
        """A node is there, as given."""
        found = self._select(node.labels)
        owner = found[0] if found else None
        before = self._owner.get(node.name)
        if before is not None and before != owner:
            self._seen[before].pop(node.name, None)
        if load.balloons and not _is_owned(load.balloons, owner):
            load = self._without_strays(node.name, load, owner)
        elif node.name in self._strays:
            del self._strays[node.name]
        _keep(self._contested, node.name, found if len(found) > 1 else None)
        _keep(self._owner, node.name, owner)
        if owner is not None:
            self._seen[owner][node.name] = (node, load)

    def forget(self, name: str) -> None:
        """A node is gone."""
        owner = self._owner.pop(name, None)
        if owner is not None:
            self._seen[owner].pop(name, None)
        self._contested.pop(name, None)
        self._strays.pop(name, None)

    def owner_of(self, node: str) -> ObjectKey | None:
        """The pool that a node counts for; None where no pool selects it."""
        return self._owner.get(node)

    def by_pool(self) -> dict[ObjectKey, Claim]:
        """Every pool's claim; a node goes to the first pool that selects it and counts as lost by the others."""
        claims = {key: Claim(seen=list(seen.values())) for key, seen in self._seen.items()}
        for owner, *losers in self._contested.values():
            for loser in losers:
                claims[loser].lost[owner] = claims[loser].lost.get(owner, 0) + 1
        for name in sorted(self._strays):
            self._note_strays(name, claims)
        return claims

    def _without_strays(self, name: str, load: NodeLoad, owner: ObjectKey | None) -> NodeLoad:
        """The load as its owner sees it; balloons of other pools are noted as those pools' strays."""
        own = tuple(balloon for balloon in load.balloons if pool_of(balloon) == owner)
        strays = tuple(balloon for balloon in load.balloons if pool_of(balloon) != owner)
        _keep(self._strays, name, strays or None)
        return msgspec.structs.replace(load, balloons=own) if strays else load

    def _note_strays(self, name: str, claims: dict[ObjectKey, Claim]) -> None:
        for balloon in self._strays[name]:
            if claim := claims.get(pool_of(balloon)):
                claim.strays.append(balloon)
        owner = self._owner.get(name)
        if owner is not None:
            claims[owner].own_loads[name] = self._seen[owner][name][1]


def claim_nodes(
    pools: Iterable[BalloonPool], nodes: Mapping[str, Node], loads: Mapping[str, NodeLoad]
) -> dict[ObjectKey, Claim]:
    """Every pool's claim, from nothing."""
    claims = Claims(pools)
    for node in nodes.values():
        claims.file(node, loads.get(node.name) or EMPTY)
    return claims.by_pool()


def pool_of(balloon: Pod) -> ObjectKey:
    """The pool that a balloon pod says it is of."""
    return ObjectKey(balloon.key.namespace, balloon.pool)


def _claimant(pool: BalloonPool) -> tuple[tuple[bool, float, ObjectKey], bytes]:
    """What decides which nodes a pool gets."""
    return precedence(pool), msgspec.msgpack.encode(pool.spec.nodes.selector)


def _keep(kept: dict[str, V], name: str, value: V | None) -> None:
    if value is not None:
        kept[name] = value
    else:
        kept.pop(name, None)


def _is_owned(balloons: tuple[Pod, ...], owner: ObjectKey | None) -> bool:
    """Whether the one balloon there is the owner's: the usual case, decided without building anything."""
    if owner is None or len(balloons) > 1:
        return False
    return balloons[0].pool == owner.name and balloons[0].key.namespace == owner.namespace
