"""Which pool each node belongs to: the oldest of those that select it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from balloons.api.pool import BalloonPool
from balloons.view.load import EMPTY, NodeLoad
from throttler.kube.metadata import ObjectKey
from throttler.kube.node import Node
from throttler.kube.pod import Pod
from throttler.kube.selectors import Labels, LabelSelector, matches

Seen = tuple[Node, NodeLoad]
"""A node and what runs on it, looked up once."""


@dataclass(slots=True)
class Claim:
    """One pool's nodes with their loads, what it lost to older pools (pool -> nodes), and its balloons elsewhere.

    Loads in `seen` hold no balloons of other pools; `own_loads` are those that had to be cut down for it.
    """

    seen: list[Seen] = field(default_factory=list)
    lost: dict[ObjectKey, int] = field(default_factory=dict)
    strays: list[Pod] = field(default_factory=list)
    own_loads: dict[str, NodeLoad] = field(default_factory=dict)


class _Selectors:
    """Which pools select a node, oldest first, asked once per combination of the labels that any selector reads.

    Thousands of nodes share a handful of combinations, so a node costs a few look-ups however many pools there are.
    """

    def __init__(self, pools: Iterable[BalloonPool]) -> None:
        self._pools = sorted(pools, key=_age)
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


def _age(pool: BalloonPool) -> tuple[float, ObjectKey]:
    return pool.metadata.created_s, pool.key


def claim_nodes(
    pools: Iterable[BalloonPool], nodes: Mapping[str, Node], loads: Mapping[str, NodeLoad]
) -> dict[ObjectKey, Claim]:
    """Every pool's claim; a node goes to the oldest pool that selects it and is counted as lost by the others."""
    pools = list(pools)
    claims = {pool.key: Claim() for pool in pools}
    select = _Selectors(pools).of
    for node in nodes.values():
        load = loads.get(node.name) or EMPTY
        found = select(node.labels)
        owner = found[0] if found else None
        if load.balloons and not _is_owned(load.balloons, owner):
            load = _without_strays(node.name, load, owner, claims)
        if owner is not None:
            claims[owner].seen.append((node, load))
            for loser in found[1:]:
                lost = claims[loser].lost
                lost[owner] = lost.get(owner, 0) + 1
    return claims


def _is_owned(balloons: tuple[Pod, ...], owner: ObjectKey | None) -> bool:
    """Whether the one balloon there is the owner's: the usual case, decided without building anything."""
    if owner is None or len(balloons) > 1:
        return False
    return balloons[0].pool == owner.name and balloons[0].key.namespace == owner.namespace


def _without_strays(name: str, load: NodeLoad, owner: ObjectKey | None, claims: dict[ObjectKey, Claim]) -> NodeLoad:
    """The load as its owner sees it; balloons of other pools are noted as those pools' strays."""
    own: list[Pod] = []
    for balloon in load.balloons:
        if owner is not None and balloon.pool == owner.name and balloon.key.namespace == owner.namespace:
            own.append(balloon)
        elif claim := claims.get(ObjectKey(balloon.key.namespace, balloon.pool)):
            claim.strays.append(balloon)
    if len(own) == len(load.balloons):
        return load
    cut = replace(load, balloons=tuple(own))
    if owner is not None:
        claims[owner].own_loads[name] = cut
    return cut
