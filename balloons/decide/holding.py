"""How many balloons each shape gets, and which ones must go.

A balloon is in exactly one place: on a chosen node; `stuck` on a node that is not to be had now (sick, cordoned,
joining: moving it gains nothing, and the node may come back); about to give way (`released` or left to the
scheduler on a reserved node); or a victim (surplus, on a busy node, doubled, or on a node of another pool).
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from balloons.decide.census import NodeState
from balloons.decide.choose import choose_nodes
from balloons.decide.look import PoolView
from balloons.view.load import EMPTY, NodeLoad
from throttler.kube.node import Node
from throttler.kube.pod import Pod

_STUCK = (NodeState.SICK, NodeState.CLOSED, NodeState.JOINING, NodeState.PREFLIGHT, NodeState.SCAVENGED)


@dataclass(frozen=True, slots=True)
class Holding:
    """`replicas` per shape name; `victims` to remove now, `surplus` that wait for the removal limit."""

    replicas: Mapping[str, int]
    victims: tuple[Pod, ...]
    surplus: int


def hold(
    view: PoolView,
    loads: Mapping[str, NodeLoad],
    free: Sequence[Node],
    wanted: int,
    staying: Sequence[Pod],
    limit: int,
) -> Holding:
    """Spread `wanted` balloons over the `free` nodes.

    `staying` are balloons on reserved nodes that are left to the scheduler; at most `limit` balloons become victims.
    """
    chosen = choose_nodes(free, loads, wanted)
    stuck = [balloon for state in _STUCK for balloon in view.census.balloons[state]]
    victims = _victims(view, loads, free, chosen)
    now, later = victims[:limit], victims[limit:]
    replicas = Counter([view.shapes.of(node) for node in chosen])
    replicas.update([balloon.shape for balloon in (*stuck, *staying, *later)])
    return Holding(dict(replicas), tuple(now), len(later))


def _victims(view: PoolView, loads: Mapping[str, NodeLoad], free: Sequence[Node], chosen: Sequence[Node]) -> list[Pod]:
    """Balloons that hold nothing first (strays, on busy nodes, doubled), then those on nodes that are not wanted."""
    useless = [*view.claim.strays, *view.census.balloons[NodeState.BUSY], *_doubled(view, free)]
    if len(chosen) == len(free):
        return useless
    kept = {node.name for node in chosen}
    return useless + _first_on((node for node in free if node.name not in kept), loads)


def _doubled(view: PoolView, free: Sequence[Node]) -> list[Pod]:
    """Balloons beside an older one on the same node; almost always none."""
    balloons = [*view.census.balloons[NodeState.WARM], *view.census.balloons[NodeState.IDLE]]
    if len({balloon.node for balloon in balloons}) == len(balloons):
        return []
    names, first = {node.name for node in free}, set[str]()
    doubled = []
    for balloon in balloons:
        if balloon.node in first and balloon.node in names:
            doubled.append(balloon)
        first.add(balloon.node)
    return doubled


def _first_on(nodes: Iterable[Node], loads: Mapping[str, NodeLoad]) -> list[Pod]:
    return [balloons[0] for node in nodes if (balloons := (loads.get(node.name) or EMPTY).balloons)]
