"""Which pool each node belongs to: the oldest of those that select it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from balloons.api.pool import BalloonPool
from balloons.view.load import EMPTY, NodeLoad
from throttler.kube.metadata import ObjectKey
from throttler.kube.node import Node
from throttler.kube.pod import Pod
from throttler.kube.selectors import matches


@dataclass(slots=True)
class Claim:
    """One pool's nodes, what it lost to older pools (pool -> nodes), and its balloons on nodes it lacks."""

    nodes: list[Node] = field(default_factory=list)
    lost: dict[ObjectKey, int] = field(default_factory=dict)
    strays: list[Pod] = field(default_factory=list)


class _Anchors:
    """Finds candidate pools by one label each, so that a node is compared with few of many pools."""

    def __init__(self, pools: Iterable[BalloonPool]) -> None:
        self._by_label: dict[str, dict[str, list[BalloonPool]]] = {}
        self._anywhere: list[BalloonPool] = []
        self._rank: dict[ObjectKey, int] = {}
        for rank, pool in enumerate(sorted(pools, key=_age)):
            self._rank[pool.key] = rank
            self._add(pool)

    def _add(self, pool: BalloonPool) -> None:
        labels = pool.spec.nodes.selector.match_labels
        if not labels:
            self._anywhere.append(pool)
            return
        key = min(labels)
        self._by_label.setdefault(key, {}).setdefault(labels[key], []).append(pool)

    def of(self, node: Node) -> list[BalloonPool]:
        """The pools that select the node, oldest first."""
        labels = node.labels
        found = [p for p in self._anywhere if matches(p.spec.nodes.selector, labels)]
        for key, by_value in self._by_label.items():
            value = labels.get(key)
            if value is not None and value in by_value:
                found += [p for p in by_value[value] if matches(p.spec.nodes.selector, labels)]
        if len(found) > 1:
            found.sort(key=lambda pool: self._rank[pool.key])
        return found


def _age(pool: BalloonPool) -> tuple[float, ObjectKey]:
    return pool.metadata.created_s, pool.key


def claim_nodes(
    pools: Iterable[BalloonPool], nodes: Mapping[str, Node], loads: Mapping[str, NodeLoad]
) -> dict[ObjectKey, Claim]:
    """Every pool's claim; a node goes to the oldest pool that selects it and is counted as lost by the others."""
    pools = list(pools)
    claims = {pool.key: Claim() for pool in pools}
    anchors = _Anchors(pools)
    for node in nodes.values():
        found = anchors.of(node)
        if found:
            claims[found[0].key].nodes.append(node)
        for loser in found[1:]:
            lost = claims[loser.key].lost
            lost[found[0].key] = lost.get(found[0].key, 0) + 1
        balloons = loads.get(node.name, EMPTY).balloons
        if balloons:
            _note_strays(balloons, found[0].key if found else None, claims)
    return claims


def _note_strays(balloons: tuple[Pod, ...], owner: ObjectKey | None, claims: dict[ObjectKey, Claim]) -> None:
    for balloon in balloons:
        if owner is not None and balloon.pool == owner.name and balloon.key.namespace == owner.namespace:
            continue
        claim = claims.get(ObjectKey(balloon.key.namespace, balloon.pool))
        if claim is not None:
            claim.strays.append(balloon)
