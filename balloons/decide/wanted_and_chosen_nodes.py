"""How many nodes a pool wants warm, which ones, and which balloons must go.

Which nodes to hold, when not all of them are wanted.

A balloon is in exactly one place: on a chosen node; `stuck` on a node that is not to be had now (sick, cordoned,
joining: moving it gains nothing, and the node may come back); about to give way (`released` or left to the
scheduler on a reserved node); or a victim (surplus, on a busy node, doubled, on a node of another pool, or on one
that an autoscaler is about to remove: Karpenter buys a node for every pod that it finds there, and if the pool held
that one besides, it would grow by each node that is replaced). Beside work that claims devices a balloon is stuck as
well: nothing tells the scheduler that the node is full, and it would put the next one there.
"""

import heapq
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from balloons.api.pool import Mode, PoolSpec, Schedule
from balloons.decide.census import NodeState
from balloons.decide.decision_and_reasons import Reason
from balloons.decide.pool_view_and_schedule import PoolView, wanted_size
from balloons.view.node_load_and_devices import EMPTY, NodeLoad
from balloons.view.shape_and_balloon_size import ANY_TYPE, Shape
from throttler.kube.metadata import ObjectKey
from throttler.kube.node import Node
from throttler.kube.pod import Pod
from throttler.kube.quantities_and_durations import Resources
from throttler.kube.reasons_and_events import Because, because

_FREE = (NodeState.WARM, NodeState.IDLE)
_STUCK = (NodeState.SICK, NodeState.CLOSED, NodeState.JOINING, NodeState.PREFLIGHT, NodeState.SCAVENGED)
VICTIM_COST = -1000
"""Deletion cost of a balloon that must go before the others (their default is 0)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Supply:
    """The pool's nodes by what they can do for warmth now; counts of nodes.

    `holdable` are warm and idle nodes less those that wait for a pod (`reserved`); `joining` nodes will be usable
    soon (`carried` of those have their balloon already, or the autoscaler does not know them; `taken` are for work
    that waits), `preflight` nodes too but it does not know any; `total` counts every node.
    """

    busy: int
    holdable: int
    reserved: int
    joining: int
    carried: int
    taken: int
    preflight: int
    total: int


@dataclass(frozen=True, slots=True)
class Target:
    """`warm` nodes wanted in the end; `hold` of them are there to be held now; `wait` are balloons without a node.

    `arriving` of those wait for nodes on their way that no work will take. `starts` are new: they make the autoscaler
    start that many nodes more than it was asked for before.
    `lacking` is how many the pool would wait for if nobody paced it, `granted` how many of those that wait the
    allowance has let pass (None: nobody paces it).
    """

    warm: int
    hold: int
    wait: int = 0
    arriving: int = 0
    starts: int = 0
    because: Because | None = None
    lacking: int = 0
    granted: int | None = None
    shape: str = ""
    """In which shape new nodes are asked for; empty while none is."""


def target(
    spec: PoolSpec,
    schedule: Schedule | None,
    supply: Supply,
    asked: int,
    allowance: int | None,
    granted: int | None = None,
) -> Target:
    """What to aim at.

    Hold is bounded by what can be held; Headroom also asks for new nodes, at most `allowance` more than it was
    granted before. `asked` balloons wait already; `granted` of them the allowance has let pass (None: all of them).
    The others were preempted and came back: they ask for new nodes like any growth, and have to wait like it.
    No node is asked for beyond maxSize in all.
    """
    size = wanted_size(spec, schedule)
    limit = inf if spec.max_size is None else max(0, spec.max_size - supply.busy - supply.reserved)
    aim = int(min(inf if size is None else size, limit, supply.holdable if size is None else inf))
    if spec.mode is Mode.HEADROOM:
        return _headroom(spec, aim, size or 0, supply, asked, allowance, granted)
    warm = min(aim, supply.holdable)
    too_few = size is not None and aim > supply.holdable
    if too_few:
        reason = because(Reason.TOO_FEW_NODES, size=aim, eligible=supply.holdable)
    elif spec.max_size is not None and limit < min(inf if size is None else size, spec.max_size, supply.holdable):
        reason = _is_full(spec.max_size, supply)
    else:
        reason = None
    return Target(warm, warm, because=reason)


def _headroom(
    spec: PoolSpec, aim: int, size: int, supply: Supply, asked: int, allowance: int | None, granted: int | None
) -> Target:
    hold = min(aim, supply.holdable)
    short = aim - supply.holdable - supply.preflight
    # A reserved node is replaced once its pod has taken it: a new balloon now would race the pod for that very node.
    missing = max(0, short - supply.reserved, min(short, asked))
    arriving = min(missing, supply.joining)
    room = inf if spec.max_size is None else max(0, spec.max_size - supply.total)
    new = int(min(missing - arriving, room))
    for_arriving = max(0, arriving - supply.carried)
    asked_new = max(0, asked - for_arriving)
    passed = asked_new if granted is None else min(granted, asked_new)
    allowed = new if allowance is None else min(new, passed + allowance)
    # A balloon that waits for a node which work will take gets another one.
    to_come = max(0, supply.joining - supply.carried - supply.taken)
    for_arriving = int(min(for_arriving, to_come + room - allowed))
    why = _growth_reason(spec, size, aim, new, allowed, allowance, supply)
    return Target(
        aim,
        hold,
        for_arriving + allowed,
        min(for_arriving, to_come),
        max(0, allowed - passed),
        why,
        lacking=for_arriving + new,
        granted=None if allowance is None else allowed,
    )


def _growth_reason(
    spec: PoolSpec, size: int, aim: int, new: int, allowed: int, allowance: int | None, supply: Supply
) -> Because | None:
    if allowed < new:
        return because(Reason.ALLOWANCE, target=aim, allowance=allowance)
    if allowed > 0:
        return because(Reason.GROWING, growth=allowed, target=aim)
    is_full = spec.max_size is not None and (aim < size or supply.total >= spec.max_size)
    if is_full and supply.holdable + supply.preflight + supply.joining < size:
        return _is_full(spec.max_size, supply)
    return None


def _is_full(max_size: int | None, supply: Supply) -> Because:
    others = supply.total - supply.busy - supply.holdable - supply.reserved
    return because(Reason.MAX_SIZE, max_size=max_size, busy=supply.busy, others=others)


def choose_nodes(holdable: Sequence[Node], loads: Mapping[str, NodeLoad], wanted: int) -> list[Node]:
    """`wanted` of the nodes: those held already first, because moving a balloon gains nothing; then the zone
    with the fewest. Deterministic: equal input, equal choice."""
    if wanted >= len(holdable):
        return list(holdable)
    held = [node for node in holdable if (loads.get(node.name) or EMPTY).balloons]
    free = [node for node in holdable if not (loads.get(node.name) or EMPTY).balloons]
    chosen = _balanced(held, min(wanted, len(held)), Counter())
    return chosen + _balanced(free, wanted - len(chosen), Counter(node.zone for node in chosen))


def _balanced(nodes: Iterable[Node], wanted: int, counts: Counter[str]) -> list[Node]:
    """Take nodes one by one from the zone that has the fewest so far."""
    zones: dict[str, list[Node]] = {}
    for node in nodes:
        zones.setdefault(node.zone, []).append(node)
    for members in zones.values():
        members.sort(key=lambda node: node.name, reverse=True)
    heap = [(counts[zone], zone) for zone in zones]
    heapq.heapify(heap)
    chosen: list[Node] = []
    while len(chosen) < wanted:
        count, zone = heapq.heappop(heap)
        chosen.append(zones[zone].pop())
        if zones[zone]:
            heapq.heappush(heap, (count + 1, zone))
    return chosen


@dataclass(frozen=True, slots=True)
class Holding:
    """`replicas` per shape name, with those that wait for new nodes; a shape that it does not name has none. `victims`
    are to be removed now, `surplus` wait for the removal limit. `spared` were to be removed once and are wanted again:
    their mark must go.
    """

    replicas: Counter[str]
    victims: tuple[Pod, ...]
    surplus: int
    spared: tuple[Pod, ...] = ()


def hold(
    view: PoolView, free: Sequence[Node], aim: Target, staying: Sequence[Pod], limit: int, to_come: Sequence[Node]
) -> Holding:
    """Spread as many balloons as the `aim` holds over the `free` nodes.

    `staying` are balloons on reserved nodes that are left to the scheduler; at most `limit` balloons become victims,
    besides those whose nodes are going anyway. In the shape that is asked for, further balloons wait for new nodes:
    whichever of them has a node keeps it, as the next one would only take its place. Those for nodes `to_come` have
    the shape of these: for one that fits none of them the autoscaler would buy another node.
    """
    chosen, asked = choose_nodes(free, view.loads, aim.hold), aim.shape
    # Few combinations of balloon and kind of node exist: each is judged once, and nodes one by one only if one is odd.
    unlike = {(own, wanted) for own, wanted in view.shapes.beside_balloons if own not in (wanted, asked)}
    misfits = _misfits(view, chosen, unlike) if unlike else {}
    leaving = view.leaving
    victims = [*leaving, *_victims(view, free, chosen, misfits)]
    limit += len(leaving)
    now, later = victims[:limit], victims[limit:]
    # A balloon that its node is about to refuse is nothing to keep: the ReplicaSet takes it first.
    lost = {*view.alone, *(balloon.node for balloon in leaving)}
    stuck = [balloon for state in _STUCK for balloon in view.census.balloons[state] if balloon.node not in lost]
    stuck += (balloon for balloon in view.census.balloons[NodeState.BUSY] if is_beside_claims(balloon, view))
    # Node by node only where some node keeps a balloon of another shape than its own: the answer is the same.
    is_mixed = any(own != wanted for own, wanted in view.shapes.beside_balloons)
    replicas = Counter([_shape_on(node, view, asked) for node in chosen]) if is_mixed else view.shapes.of_all(chosen)
    replicas.update([balloon.shape for balloon in (*stuck, *staying)])
    # A node is counted for the shape of the balloon that is still on it.
    replicas.subtract([misfits[balloon.key] for balloon in later if balloon.key in misfits])
    # There is room for balloons that may not go yet; they are never a reason to raise what has been lowered already.
    for shape, count in Counter([balloon.shape for balloon in later]).items():
        stored, least = view.deployments.get(shape), replicas[shape]
        replicas[shape] = min(least + count, max(least, stored.replicas if stored else 0))
    if asked:
        replicas[asked] += aim.wait - aim.arriving
        replicas.update(_shapes_to_come(view, to_come, asked)[: aim.arriving])
    return Holding(replicas, tuple(now), len(later), _spared(view, victims))


def _shapes_to_come(view: PoolView, nodes: Iterable[Node], asked: str) -> list[str]:
    """The shapes of balloons that fit these nodes, which name no more than their type yet; first the one that is asked
    for. A type that the pool had no node of shows no size before it is up."""
    shapes = [view.shapes.by_name[asked], *view.shapes.by_name.values()]
    fitting = (_shape_for(node, shapes, asked) for node in nodes)
    return sorted(filter(None, fitting), key=lambda name: name != asked)


def size_to_come(view: PoolView, node: Node) -> Resources:
    """What a balloon would ask for on this node, which names no more than its type yet; nothing where none is known."""
    return view.requests.get(_shape_for(node, view.shapes.by_name.values())) or {}


def _shape_for(node: Node, shapes: Iterable[Shape], asked: str = "") -> str:
    """The first that fits, by type; a node that a cloud provider has not labelled yet may be of any. For any type are
    only balloons that are `asked` for."""
    kind = node.instance_type
    return next(
        (
            shape.name
            for shape in shapes
            if (shape.name != ANY_TYPE or asked == ANY_TYPE)
            and (not kind or (shape.instance_type in ("", kind) and kind not in shape.other_than))
        ),
        "",
    )


def _victims(
    view: PoolView, free: Sequence[Node], chosen: Sequence[Node], misfits: Mapping[ObjectKey, str]
) -> list[Pod]:
    """Balloons that hold nothing first (strays, on busy nodes, doubled), then those cut for another shape than their
    node's, then those on nodes that are not wanted."""
    crowded = (balloon for balloon in view.census.balloons[NodeState.BUSY] if not is_beside_claims(balloon, view))
    useless = [*view.claim.strays, *crowded]
    if view.census.doubled:
        names = {node.name for node in free}
        useless += [balloon for balloon in view.census.doubled if balloon.node in names]
    if misfits:
        useless += [b for state in _FREE for b in view.census.balloons[state] if b.key in misfits]
    if len(chosen) == len(free):
        return useless
    kept = {node.name for node in chosen}
    return useless + _first_on((node for node in free if node.name not in kept), view)


def is_beside_claims(balloon: Pod, view: PoolView) -> bool:
    """Whether the balloon stays where it is although its node is busy: work there claims devices."""
    return (view.loads.get(balloon.node) or EMPTY).claims_devices


def _misfits(view: PoolView, chosen: Sequence[Node], unlike: Collection[tuple[str, str]]) -> dict[ObjectKey, str]:
    """Balloons cut for a shape that does not hold their node, with the node's shape; `unlike` are the combinations.

    They come from a change of `shape.type` or of a node's label, and are exchanged at the removal limit's pace.
    """
    shape_of = view.shapes.of
    odd = {(own, wanted) for own, wanted in unlike if not view.shapes.holds(own, wanted)}
    firsts = ((node, load.balloons[0]) for node in chosen if (load := view.loads.get(node.name)) and load.balloons)
    return {first.key: shape_of(node) for node, first in firsts if (first.shape, shape_of(node)) in odd}


def _shape_on(node: Node, view: PoolView, asked: str) -> str:
    """The shape that holds the node: its own, or that of a balloon there that holds it as well."""
    own = view.shapes.of(node)
    balloons = (view.loads.get(node.name) or EMPTY).balloons
    if not balloons or balloons[0].shape == own:
        return own
    return balloons[0].shape if balloons[0].shape == asked or view.shapes.holds(balloons[0].shape, own) else own


def _spared(view: PoolView, victims: Sequence[Pod]) -> tuple[Pod, ...]:
    marked = [b for state in _FREE for b in view.census.balloons[state] if b.deletion_cost == VICTIM_COST]
    doomed = {balloon.key for balloon in victims}
    return tuple(balloon for balloon in marked if balloon.key not in doomed)


def _first_on(nodes: Iterable[Node], view: PoolView) -> list[Pod]:
    return [balloons[0] for node in nodes if (balloons := (view.loads.get(node.name) or EMPTY).balloons)]


def balloons_by_shape(view: PoolView) -> Counter[str]:
    """The pool's balloons that have a node, wherever that is."""
    present = Counter([balloon.shape for balloons in view.census.balloons.values() for balloon in balloons])
    present.update([balloon.shape for balloon in view.claim.strays])
    return present


def being_removed(view: PoolView, present: Counter[str]) -> int:
    """Balloons that are still there, of those `present`, although the Deployments were lowered below them already."""
    stored = {shape: deployment.replicas for shape, deployment in view.deployments.items()}
    return sum(max(0, count - stored.get(shape, 0)) for shape, count in present.items())
