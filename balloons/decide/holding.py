"""How many balloons each shape gets, and which ones must go.

A balloon is in exactly one place: on a chosen node; `stuck` on a node that is not to be had now (sick, cordoned,
joining: moving it gains nothing, and the node may come back); about to give way (`released` or left to the
scheduler on a reserved node); or a victim (surplus, on a busy node, doubled, on a node of another pool, or on one
that an autoscaler is about to remove: Karpenter buys a node for every pod that it finds there, and if the pool held
that one besides, it would grow by each node that is replaced).
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from balloons.decide.census import NodeState
from balloons.decide.choose import choose_nodes
from balloons.decide.pool_view import PoolView
from balloons.view.node_load import EMPTY
from throttler.kube.metadata import ObjectKey
from throttler.kube.node import Node
from throttler.kube.pod import Pod

_STUCK = (NodeState.SICK, NodeState.CLOSED, NodeState.JOINING, NodeState.PREFLIGHT, NodeState.SCAVENGED)


VICTIM_COST = -1000
"""Deletion cost of a balloon that must go before the others (their default is 0)."""


@dataclass(frozen=True, slots=True)
class Holding:
    """`replicas` per shape name; `victims` to remove now, `surplus` that wait for the removal limit.

    `spared` were to be removed once and are wanted again: their mark must go.
    """

    replicas: Mapping[str, int]
    victims: tuple[Pod, ...]
    surplus: int
    spared: tuple[Pod, ...] = ()


def hold(view: PoolView, free: Sequence[Node], wanted: int, staying: Sequence[Pod], limit: int) -> Holding:
    """Spread `wanted` balloons over the `free` nodes.

    `staying` are balloons on reserved nodes that are left to the scheduler; at most `limit` balloons become victims,
    besides those whose nodes are going anyway.
    """
    chosen = choose_nodes(free, view.loads, wanted)
    # Few combinations of balloon and kind of node exist: each is judged once, and nodes one by one only if one is odd.
    unlike = {(own, wanted) for own, wanted in view.shapes.beside_balloons(view.census.measured) if own != wanted}
    misfits = _misfits(view, chosen, unlike) if unlike else {}
    leaving = view.leaving
    victims = [*leaving, *_victims(view, free, chosen, misfits)]
    limit += len(leaving)
    now, later = victims[:limit], victims[limit:]
    # A balloon that its node is about to refuse is nothing to keep: the ReplicaSet takes it first.
    lost = {*view.alone, *(balloon.node for balloon in leaving)}
    stuck = [balloon for state in _STUCK for balloon in view.census.balloons[state] if balloon.node not in lost]
    wanted_of = Counter([_shape_on(node, view) for node in chosen]) if unlike else view.shapes.of_all(chosen)
    wanted_of.update([balloon.shape for balloon in (*stuck, *staying)])
    # A node is counted for the shape of the balloon that is still on it.
    wanted_of.subtract([misfits[balloon.key] for balloon in later if balloon.key in misfits])
    return Holding(_and_later(wanted_of, later, view), tuple(now), len(later), _spared(view, victims))


def _and_later(wanted: Counter[str], later: Sequence[Pod], view: PoolView) -> dict[str, int]:
    """Room for balloons that may not go yet; they are never a reason to raise what has been lowered already."""
    replicas = dict(wanted)
    for shape, count in Counter([balloon.shape for balloon in later]).items():
        stored = view.deployments.get(shape)
        least = wanted[shape]
        replicas[shape] = min(least + count, max(least, stored.replicas if stored else 0))
    return replicas


def _victims(
    view: PoolView, free: Sequence[Node], chosen: Sequence[Node], misfits: Mapping[ObjectKey, str]
) -> list[Pod]:
    """Balloons that hold nothing first (strays, on busy nodes, doubled), then those cut for another shape than their
    node's, then those on nodes that are not wanted."""
    useless = [*view.claim.strays, *view.census.balloons[NodeState.BUSY], *_doubled(view, free)]
    if misfits:
        useless += [balloon for balloon in _on_free_nodes(view) if balloon.key in misfits]
    if len(chosen) == len(free):
        return useless
    kept = {node.name for node in chosen}
    return useless + _first_on((node for node in free if node.name not in kept), view)


def _doubled(view: PoolView, free: Sequence[Node]) -> list[Pod]:
    """Balloons beside an older one on the same node; almost always none."""
    balloons = _on_free_nodes(view)
    if len({balloon.node for balloon in balloons}) == len(balloons):
        return []
    names, first = {node.name for node in free}, set[str]()
    doubled = []
    for balloon in balloons:
        if balloon.node in first and balloon.node in names:
            doubled.append(balloon)
        first.add(balloon.node)
    return doubled


def _misfits(view: PoolView, chosen: Sequence[Node], unlike: Collection[tuple[str, str]]) -> dict[ObjectKey, str]:
    """Balloons cut for a shape that does not hold their node, with the node's shape; `unlike` are the combinations.

    They come from a change of `shape.type` or of a node's label, and are exchanged at the removal limit's pace.
    """
    shape_of = view.shapes.of
    odd = {(own, wanted) for own, wanted in unlike if not view.shapes.holds(own, wanted)}
    firsts = ((node, load.balloons[0]) for node in chosen if (load := view.loads.get(node.name)) and load.balloons)
    return {first.key: shape_of(node) for node, first in firsts if (first.shape, shape_of(node)) in odd}


def _shape_on(node: Node, view: PoolView) -> str:
    """The shape that holds the node: its own, or that of a balloon there that holds it as well."""
    own = view.shapes.of(node)
    balloons = (view.loads.get(node.name) or EMPTY).balloons
    if not balloons or balloons[0].shape == own:
        return own
    return balloons[0].shape if view.shapes.holds(balloons[0].shape, own) else own


def _spared(view: PoolView, victims: Sequence[Pod]) -> tuple[Pod, ...]:
    marked = [balloon for balloon in _on_free_nodes(view) if balloon.deletion_cost == VICTIM_COST]
    if not marked:
        return ()
    doomed = {balloon.key for balloon in victims}
    return tuple(balloon for balloon in marked if balloon.key not in doomed)


def _on_free_nodes(view: PoolView) -> list[Pod]:
    return view.census.balloons[NodeState.WARM] + view.census.balloons[NodeState.IDLE]


def _first_on(nodes: Iterable[Node], view: PoolView) -> list[Pod]:
    return [balloons[0] for node in nodes if (balloons := (view.loads.get(node.name) or EMPTY).balloons)]


def balloons_by_shape(view: PoolView) -> Counter[str]:
    """The pool's balloons that have a node, wherever that is."""
    present = Counter([balloon.shape for balloons in view.census.balloons.values() for balloon in balloons])
    present.update([balloon.shape for balloon in view.claim.strays])
    return present


def being_removed(view: PoolView) -> int:
    """Balloons that are still there although the Deployments were lowered below them already."""
    stored = {shape: deployment.replicas for shape, deployment in view.deployments.items()}
    return sum(max(0, count - stored.get(shape, 0)) for shape, count in balloons_by_shape(view).items())
