"""The three strategies that hold nodes: Balloon, CapacityBuffer and Annotate.

The Balloon strategy: one Deployment per machine shape, its size, and the balloons that must go first.

The CapacityBuffer strategy: upstream's own headroom object, kept at the size the pool wants. The autoscaler then
keeps the room free by itself; no balloon pods exist. What a buffer cannot do is said in the README: hold whole nodes
against lower-priority pods, pull images, work without such an autoscaler.

The Annotate strategy: idle nodes are kept by the autoscalers' own "do not remove" annotations, without pods. Only
annotations that we set ourselves are ever removed: `held-by` beside them says so. A node that carries the user's own
annotation counts as held and is left alone.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any

from balloons.api.pool import BalloonPool, Mode, Strategy
from balloons.balloon_manifest import (
    TEMPLATE_ANNOTATION,
    BalloonSpec,
    ImageSettings,
    buffer_object,
    deployment,
    replaced_at_once,
    says,
    template_object,
)
from balloons.decide.census import NodeState
from balloons.decide.decision_and_reasons import (
    Action,
    AnnotateNode,
    ApplyObject,
    DeleteObject,
    LeaveNode,
    MarkBalloon,
    Reason,
    ReleaseBalloon,
    Unseen,
    UnseenBuffers,
)
from balloons.decide.pool_view_and_schedule import PoolView, pool_of, wanted_size
from balloons.decide.wanted_and_chosen_nodes import (
    VICTIM_COST,
    Holding,
    Target,
    balloons_by_shape,
    choose_nodes,
    is_beside_claims,
)
from balloons.view.index_and_snapshot import Deployment, Snapshot, StoredObject
from balloons.view.node_load_and_devices import EMPTY
from balloons.view.shape_and_balloon_size import ANY_TYPE, Shape
from balloons.view.tenancy_and_claim import deployment_name
from throttler.kube.metadata import ObjectKey, key_of
from throttler.kube.node import CA_KEEP_ANNOTATION, HELD_BY_ANNOTATION, KARPENTER_KEEP_ANNOTATION, Node, is_kept
from throttler.kube.pod import SHAPE_LABEL, Pod
from throttler.kube.reasons_and_events import Because, because

KEEP: Mapping[str, str] = {CA_KEEP_ANNOTATION: "true", KARPENTER_KEEP_ANNOTATION: "true"}


@dataclass(frozen=True, slots=True)
class PoolBuffers:
    """A pool's CapacityBuffers and the PodTemplates that they name, by shape name."""

    buffers: Mapping[str, StoredObject] = field(default_factory=dict)
    templates: Mapping[str, StoredObject] = field(default_factory=dict)

    @property
    def units(self) -> int:
        """How many units all buffers together have."""
        return sum(map(_units, self.buffers.values()))


def inflate(
    view: PoolView,
    settings: ImageSettings,
    holding: Holding,
    aim: Target,
    freed: Sequence[tuple[Pod, str]],
    present: Counter[str],
) -> tuple[tuple[Action, ...], tuple[str, ...]]:
    """The writes, in order: mark victims, set the Deployments' sizes, then delete what gives way, and last what is on
    nodes that are about to go.

    `present` counts the balloons that have a node, by shape. The second value names shapes on which nothing is left for
    a balloon. Lowering before deleting matters: the ReplicaSet would otherwise put a new balloon where the waiting pod
    should go.
    """
    sizes: list[Action] = []
    too_small: list[str] = []
    for shape in view.shapes.by_name.values():
        requests, replicas = view.requests.get(shape.name), holding.replicas[shape.name]
        if requests is None:
            too_small.append(shape.name)
        elif _stays(view, shape, replicas + present[shape.name]):
            spec = BalloonSpec(
                requests,
                replicas,
                view.pool.spec.image or settings.image,
                settings.image_pull_secrets,
                settings.names_user,
                left_out=view.left_out[shape.name],
                avoided=view.avoided[shape.name],
            )
            sizes += _changed_deployment(view, shape, spec, aim, holding)
    sizes += _deployments_left(view, holding, present)
    moved = _moved(view, holding, freed, present)
    marks = _marks(holding, {balloon.key for balloon in moved})
    why = because(Reason.BURST_RELEASE, released=1, waiting=1)
    releases = [ReleaseBalloon(b.key, b.uid, b.resource_version, b.node, taker, why) for b, taker in freed]
    leaving = {balloon.key for balloon in view.leaving}
    moves = [_move(balloon) for balloon in moved if balloon.key not in leaving]
    return (*marks, *sizes, *releases, *moves, *off_leaving(view)), tuple(too_small)


def lowered(view: PoolView, own: PoolBuffers, buffer_version: str, why: Because, gone: int) -> tuple[ApplyObject, ...]:
    """What even a pool that is left alone must do: what waits for a node may not make the cluster outgrow `maxSize`,
    and balloons that are made for a node that refuses them, one after the other, must come to an end. So must those
    that give way to no work.

    Only as many are taken away as are seen waiting, which a ReplicaSet removes first, or as are made in vain, so that
    no balloon that holds a node goes; nothing else of the Deployments changes. `gone` nodes are missed, perhaps there.
    `buffer_version` is empty where the server has no CapacityBuffers.
    """
    if view.pool.spec.strategy is Strategy.CAPACITY_BUFFER:
        return _lowered_buffers(view, own.buffers, buffer_version, why, gone) if buffer_version else ()
    if view.pool.spec.strategy is not Strategy.BALLOON:
        return ()
    present = balloons_by_shape(view)
    refused = Counter([b.shape for b in view.census.balloons[NodeState.SICK] if b.node in view.alone])
    waiting = Counter([balloon.shape for balloon in view.unbound])
    outranking = Counter([balloon.shape for balloon in view.outranking])
    surplus = _surplus(view, present.total(), waiting.total(), gone)
    sought = sum(view.refusals[name].is_sought for name in view.alone)
    actions = []
    for name, stored in sorted(view.deployments.items()):
        taken = max(0, min(surplus, waiting[name]))
        surplus -= taken
        in_vain = max(0, min(sought, stored.replicas - present[name] + refused[name] - waiting[name]))
        sought -= in_vain
        wanted = present[name] + waiting[name] - taken
        replicas = stored.replicas - max(in_vain, outranking[name], min(taken, stored.replicas - wanted))
        if replicas < stored.replicas and not stored.is_being_lowered:
            actions.append(resized(stored, replicas, why))
    return tuple(actions)


def _lowered_buffers(
    view: PoolView, buffers: Mapping[str, StoredObject], buffer_version: str, why: Because, gone: int
) -> tuple[ApplyObject, ...]:
    """Units beyond the nodes that are free for them make the autoscaler buy; at most so many are taken away.

    A node whose shape is not known still joins, without its GPUs so far: it may be free for any of the units. A node in
    preflight is free for none where the autoscaler does not know that it will be: it buys another one beside it.
    """
    free = Counter([view.shapes.of(node) for node in (*view.census.holdable, *view.coming)])
    waiting = {name: max(0, _units(stored) - free[name]) for name, stored in buffers.items()}
    max_size = view.pool.spec.max_size
    room = inf if max_size is None else max(0, max_size - view.census.total - gone) + free[""]
    surplus, actions = sum(waiting.values()) - room, []
    for name, stored in sorted(buffers.items()):
        taken = int(max(0, min(surplus, waiting[name])))
        surplus -= taken
        if taken:
            actions.append(resized(stored, _units(stored) - taken, why, buffer_version, "CapacityBuffer"))
    return tuple(actions)


def _units(stored: StoredObject) -> int:
    return int(stored.spec.get("replicas") or 0)


def resized(
    stored: Deployment | StoredObject,
    replicas: int,
    why: Because,
    api_version: str = "apps/v1",
    kind: str = "Deployment",
) -> ApplyObject:
    """The stored object with another size, and nothing else of it changed."""
    manifest = _manifest(stored, api_version, kind)
    changed = {**manifest, "spec": {**manifest["spec"], "replicas": replicas}}
    return ApplyObject(key_of(stored.metadata), api_version, kind, changed, replicas, why)


def bound_of(pool: BalloonPool, strategy: Strategy = Strategy.BALLOON) -> int | None:
    """How many nodes the pool may have, where what waits for one by this strategy could make the cluster outgrow it."""
    spec = pool.spec
    return spec.max_size if spec.strategy is strategy and spec.mode is Mode.HEADROOM else None


def lowered_unseen(
    stored: Deployment, before: Unseen | None, away: int, why: Because
) -> tuple[Unseen, tuple[ApplyObject, ...]]:
    """What is done for `maxSize` while the pods are not seen: what the Deployment's own status says of its balloons is
    all there is. Those that waited when the view was lost may get a node, each one once. Those that wait since then,
    because work took their place, go: nobody knows how many nodes there are by now.

    `away` of the pool's nodes are not Ready, and a balloon there is not either, although it holds its node. When a
    control plane falters that may be all of them, and none may go.
    """
    ready = stored.status.ready_replicas + away
    if before is None:
        at_once = replaced_at_once(stored.replicas) if stored.is_rolling else 0
        return Unseen(ready, max(0, stored.replicas - ready), at_once), ()
    # Balloons that are replaced come and go without any node changing hands, a share of them at a time, until all are.
    at_once = replaced_at_once(stored.replicas) if stored.is_rolling else before.at_once
    replaced = min(at_once, max(0, before.ready - ready))
    may_wait = max(0, before.may_wait - max(0, ready - before.ready))
    now = Unseen(ready + replaced, may_wait, at_once if stored.is_rolling or replaced else 0)
    replicas = now.ready + now.may_wait
    return now, (resized(stored, replicas, why),) if replicas < stored.replicas else ()


def lowered_buffers_unseen(
    most_nodes: int,
    own: PoolBuffers,
    buffer_version: str,
    before: UnseenBuffers | None,
    nodes: int,
    why: Because,
) -> tuple[UnseenBuffers, tuple[ApplyObject, ...]]:
    """The same where the autoscaler keeps room: of its units only pods show which are taken. But it orders no node for
    one that is free, so each of the `nodes` beyond the `most_nodes` that the pool may have stands for a unit that work
    has taken."""
    units = {key_of(stored.metadata): _units(stored) for stored in own.buffers.values()}
    if before is None:
        return UnseenBuffers(max(nodes, most_nodes), units), ()
    taken, actions = max(0, nodes - before.most_nodes), []
    for _, stored in sorted(own.buffers.items()):
        key = key_of(stored.metadata)
        had = before.units.get(key, units[key])
        left = max(0, had - taken)
        taken -= had - left
        if left < units[key]:
            actions.append(resized(stored, left, why, buffer_version, "CapacityBuffer"))
    return before, tuple(actions)


def _surplus(view: PoolView, present: int, waiting: int, gone: int) -> int:
    """How many of the balloons that wait would make the cluster outgrow `maxSize`."""
    census, max_size = view.census, bound_of(view.pool)
    if max_size is None:
        return 0
    carrying = {b.node for balloons in census.balloons.values() for b in balloons}
    open_nodes = sum(node.name not in carrying for node in (*census.by_state[NodeState.IDLE], *view.coming))
    room = open_nodes + max(0, max_size - census.total - gone)
    may_wait = max(0, min(room, max_size - census.count(NodeState.BUSY) - present))
    return waiting - may_wait


def _moved(view: PoolView, holding: Holding, freed: Sequence[tuple[Pod, str]], present: Counter[str]) -> list[Pod]:
    """Victims that no lowered Deployment takes away, because another node needs a balloon of the same shape.

    The ReplicaSet has its number then and would never move one by itself: it has to lose the one that must go.
    """
    staying = Counter(present)
    staying.subtract(balloon.shape for balloon, _ in freed)
    moved: list[Pod] = []
    for name in sorted({balloon.shape for balloon in holding.victims}):
        own = [balloon for balloon in holding.victims if balloon.shape == name]
        # Those marked before go by the Deployment, if any: their version has changed since.
        own.sort(key=lambda balloon: balloon.deletion_cost)
        moved += own[max(0, staying[name] - holding.replicas[name]) :]
    return moved


def off_leaving(view: PoolView) -> list[LeaveNode]:
    """What is done where an autoscaler is about to remove nodes, also for a pool that is left alone or whose Deployment
    cannot be written: a balloon waits for another node then, and Karpenter, which has ordered the replacement, buys no
    second one for a balloon that stays."""
    return [LeaveNode(b.key, b.uid, b.node, because(Reason.LEAVING, nodes=1, names=b.node)) for b in view.leaving]


def _move(balloon: Pod) -> ReleaseBalloon:
    why = because(Reason.MOVED, node=balloon.node)
    return ReleaseBalloon(balloon.key, balloon.uid, balloon.resource_version, balloon.node, "", why)


def _changed_deployment(
    view: PoolView, shape: Shape, spec: BalloonSpec, aim: Target, holding: Holding
) -> Iterator[ApplyObject]:
    manifest = deployment(view.pool, shape, spec)
    stored = view.deployments.get(shape.name)
    if stored is None and spec.replicas == 0:
        return
    if stored is not None and says(_manifest(stored), manifest):
        return
    before, after = stored.replicas if stored is not None else 0, spec.replicas
    if aim.because is not None:
        why = aim.because
    elif after < before and holding.victims:
        why = because(Reason.SHRINKING, surplus=before - after)
    else:
        why = because(Reason.WARMING, warm=min(before, after), target=aim.warm, pending=max(0, after - before))
    key = ObjectKey(view.pool.metadata.namespace, deployment_name(view.pool.metadata.name, shape.name))
    yield ApplyObject(key, "apps/v1", "Deployment", manifest, after, why)


def _manifest(
    stored: Deployment | StoredObject, api_version: str = "apps/v1", kind: str = "Deployment"
) -> Mapping[str, Any]:
    metadata = stored.metadata
    ours = {key: text for key, text in metadata.annotations.items() if key == TEMPLATE_ANNOTATION}
    kept = {"name": metadata.name, "namespace": metadata.namespace, "labels": metadata.labels, "annotations": ours}
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": kept,
        "spec": stored.spec,
    }


def _marks(holding: Holding, moved: Collection[ObjectKey]) -> Iterator[MarkBalloon]:
    why = because(Reason.SHRINKING, surplus=len(holding.victims))
    for balloon in holding.victims:
        if balloon.deletion_cost > VICTIM_COST and balloon.key not in moved:
            yield MarkBalloon(balloon.key, balloon.uid, VICTIM_COST, why)
    for balloon in holding.spared:
        yield MarkBalloon(balloon.key, balloon.uid, 0, because(Reason.SPARED, node=balloon.node))


def _deployments_left(
    view: PoolView, holding: Holding, present: Mapping[str, int]
) -> Iterator[ApplyObject | DeleteObject]:
    """Deployments of shapes that no node stands for any more: lowered as their balloons may go, and deleted once none
    has a node.

    Lowered to nothing, a Deployment loses its balloons at once; deleted with them, whenever they are collected.
    """
    for name, stored in sorted(view.deployments.items()):
        shape, replicas = view.shapes.by_name.get(name), holding.replicas[name]
        needed = replicas + present[name]
        if shape is not None and _stays(view, shape, needed):
            continue
        surplus, metadata = stored.replicas - replicas, stored.metadata
        why = because(Reason.SHRINKING, surplus=surplus)
        if not needed:
            yield DeleteObject(stored.key, "apps/v1", "Deployment", metadata.uid, metadata.resource_version, why)
        elif surplus > 0:
            yield resized(stored, replicas, why)


def _stays(view: PoolView, shape: Shape, needed: int) -> bool:
    """Whether what is stored of a shape stays, of which so many balloons or units are there or wanted.

    Where the pool's last node has gone it is all that tells how large balloons are once a schedule or a user wants some
    again, so there it stays although the pool wants none now.
    """
    is_remembered = view.pool.spec.mode is Mode.HEADROOM and view.shapes.are_vacant and shape.name != ANY_TYPE
    return not shape.is_vacant or needed > 0 or is_remembered


def buffers_by_pool(snapshot: Snapshot) -> dict[ObjectKey, PoolBuffers]:
    """All pools' at once: each asks for its own only, and there may be a thousand."""
    buffers, templates = _by_pool(snapshot.buffers.values()), _by_pool(snapshot.templates.values())
    return {
        pool: PoolBuffers(buffers.get(pool, {}), templates.get(pool, {})) for pool in buffers.keys() | templates.keys()
    }


def _by_pool(objects: Iterable[StoredObject]) -> dict[ObjectKey, dict[str, StoredObject]]:
    """One that is being deleted is nobody's any more."""
    by_pool: dict[ObjectKey, dict[str, StoredObject]] = {}
    for stored in objects:
        metadata = stored.metadata
        if metadata.deletion_timestamp is None:
            by_pool.setdefault(pool_of(metadata), {})[metadata.labels.get(SHAPE_LABEL, "")] = stored
    return by_pool


def buffer(
    view: PoolView, own: PoolBuffers, snapshot: Snapshot, settings: ImageSettings, holding: Holding, aim: Target
) -> tuple[tuple[Action, ...], tuple[str, ...]]:
    """A PodTemplate and a CapacityBuffer per shape; the second value names shapes with no room for a unit.

    A node that a balloon of the former strategy still holds has no room for one.
    """
    actions: list[Action] = []
    too_small: list[str] = []
    bound = view.census.balloons.items()
    held = Counter(
        [b.shape for state, here in bound for b in here if state is not NodeState.BUSY or is_beside_claims(b, view)]
    )
    shapes = view.shapes.by_name.values()
    wanted = [shape for shape in shapes if _stays(view, shape, holding.replicas[shape.name])]
    for shape in wanted:
        key = ObjectKey(view.pool.metadata.namespace, deployment_name(view.pool.metadata.name, shape.name))
        requests = view.requests[shape.name]
        if requests is None:
            too_small.append(shape.name)
            continue
        image, names_user = settings.image, settings.names_user
        replicas, avoided = max(0, holding.replicas[shape.name] - held[shape.name]), view.avoided[shape.name]
        spec = BalloonSpec(requests, replicas, image, names_user=names_user, avoided=avoided)
        actions += _changed_buffer(view, shape, spec, snapshot, key, aim)
    if wanted:
        actions += _buffers_left(own, snapshot.buffer_version, {shape.name for shape in wanted})
    return tuple(actions), tuple(too_small)


def handed_over(
    view: PoolView, own: PoolBuffers, buffer_version: str, present: Mapping[str, int]
) -> Iterator[ApplyObject]:
    """What the pool's former strategy left, less what would make the autoscaler buy a node for it: until that is swept
    up, it may only go on holding nodes that the present strategy does not hold."""
    left: list[tuple[Deployment | StoredObject, int, int, str, str]] = []
    if view.pool.spec.strategy is not Strategy.BALLOON:
        left += [(d, d.replicas, present[name], "apps/v1", "Deployment") for name, d in view.deployments.items()]
    if own.buffers and view.pool.spec.strategy is not Strategy.CAPACITY_BUFFER:
        loads = view.loads
        free = Counter([view.shapes.of(n) for n in view.census.holdable if not (loads.get(n.name) or EMPTY).balloons])
        left += [(b, _units(b), free[name], buffer_version, "CapacityBuffer") for name, b in own.buffers.items()]
    for stored, units, most, api_version, kind in left:
        if units > most:
            yield resized(stored, most, because(Reason.SHRINKING, surplus=units - most), api_version, kind)


def _buffers_left(own: PoolBuffers, buffer_version: str, kept: Collection[str]) -> Iterator[DeleteObject]:
    """Buffers of shapes that the pool no longer has; while no shape is known at all, they stay."""
    for api_version, kind, objects in (
        (buffer_version, "CapacityBuffer", own.buffers),
        ("v1", "PodTemplate", own.templates),
    ):
        for shape, stored in sorted(objects.items()):
            if shape not in kept:
                metadata, why = stored.metadata, because(Reason.SHRINKING, surplus=_units(stored))
                key = key_of(metadata)
                yield DeleteObject(key, api_version, kind, metadata.uid, metadata.resource_version, why)


def _changed_buffer(
    view: PoolView, shape: Shape, spec: BalloonSpec, snapshot: Snapshot, key: ObjectKey, aim: Target
) -> Iterator[ApplyObject]:
    why = aim.because or because(Reason.WARMING, warm=aim.hold, target=aim.warm, pending=aim.wait)
    template = template_object(view.pool, shape, spec)
    wanted = buffer_object(view.pool, shape, spec.replicas, snapshot.buffer_version)
    stored_template, stored = snapshot.templates.get(key), snapshot.buffers.get(key)
    if stored_template is None or not _is_said(stored_template, template):
        yield ApplyObject(key, "v1", "PodTemplate", template, spec.replicas, why)
    if stored is None or not (
        says(stored.metadata.labels, wanted["metadata"]["labels"]) and says(stored.spec, wanted["spec"])
    ):
        yield ApplyObject(key, snapshot.buffer_version, "CapacityBuffer", wanted, spec.replicas, why)


def _is_said(stored: StoredObject, wanted: Mapping[str, Any]) -> bool:
    annotations = wanted["metadata"]["annotations"]
    return says(stored.metadata.annotations, annotations) and says(stored.template, wanted["template"])


def annotate(view: PoolView, annotated: Sequence[Node], aim: Target, limit: int) -> tuple[AnnotateNode, ...]:
    """Nodes to annotate and nodes to let go, at most `limit` of the latter.

    `annotated` are all nodes that carry our annotations for this pool: some may be nodes of the pool no longer. Those
    that cannot be had just now keep them as long as usable ones are too few, or the autoscaler would remove them.
    """
    owner = str(view.pool.key)
    chosen = _choose(view, aim.hold)
    kept = {node.name for node in chosen}
    ours = held_by_us(view)
    own = {node.name for node, _ in view.claim.nodes} if annotated else set()
    left = [node for node in annotated if node.name not in own]
    size, unusable = wanted_size(view.pool.spec, view.schedule), held_by_us(view, _UNUSABLE)
    left += unusable[len(unusable) if size is None else max(0, size - len(chosen)) :]
    surplus = sorted((node for node in (*ours, *left) if node.name not in kept), key=lambda node: node.name)
    held = because(Reason.WARMING, warm=len(ours), target=aim.warm, pending=len(kept) - len(ours))
    new = [_keep(node, owner, held) for node in chosen if not _is_done(node, owner)]
    return (*new, *(let_go(node, because(Reason.SHRINKING, surplus=len(surplus))) for node in surplus[:limit]))


_SETTLED = (NodeState.WARM, NodeState.IDLE, NodeState.BUSY)
"""States of nodes that can be had now, or that work has taken."""
_UNUSABLE = (NodeState.JOINING, NodeState.PREFLIGHT, NodeState.SCAVENGED, NodeState.CLOSED, NodeState.SICK)
"""All others; those first that are likely to be had soonest."""


def held_by_us(view: PoolView, states: Iterable[NodeState] = _SETTLED) -> list[Node]:
    """The nodes in these states that carry our annotations for this pool."""
    owner, by_state = str(view.pool.key), view.census.by_state
    held = ([node for node in by_state[state] if node.annotations.get(HELD_BY_ANNOTATION) == owner] for state in states)
    return [node for nodes in held for node in sorted(nodes, key=lambda node: node.name)]


def _is_done(node: Node, owner: str) -> bool:
    """The user's own annotation is enough; ours must be whole."""
    if node.annotations.get(HELD_BY_ANNOTATION) == owner:
        return all(node.annotations.get(key) == value for key, value in KEEP.items())
    return is_kept(node)


def _choose(view: PoolView, wanted: int) -> Sequence[Node]:
    """Annotated nodes first, then as the zones need."""
    chosen = choose_nodes(view.census.by_state[NodeState.WARM], {}, wanted)
    return chosen + choose_nodes(view.census.by_state[NodeState.IDLE], {}, wanted - len(chosen))


def _keep(node: Node, owner: str, why: Because) -> AnnotateNode:
    return AnnotateNode(node.name, node.resource_version, {**KEEP, HELD_BY_ANNOTATION: owner}, why)


def let_go(node: Node, why: Because) -> AnnotateNode:
    """Remove what we set; also used when a pool is gone."""
    gone: dict[str, str | None] = dict.fromkeys((*KEEP, HELD_BY_ANNOTATION))
    return AnnotateNode(node.name, node.resource_version, gone, why)
