"""Reasons for which a pool is left exactly as it is, and what keeps a bad view from costing capacity.

The lesson behind freezes and the limit on removals: a controller that believes every view has once decided that all
nodes are gone, and then made it true.

And what keeps balloons that are given a priority of work's from being made over and over.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from balloons.api.pool import Strategy
from balloons.balloon_manifest import ImageSettings
from balloons.decide.census import NodeState
from balloons.decide.decision_and_reasons import Outranking, PoolMemory, Reason
from balloons.decide.pool_view_and_schedule import PoolView, Short
from balloons.view.index_and_snapshot import Now, Snapshot
from balloons.view.shape_and_balloon_size import are_alike
from throttler.kube.node import Node, is_leaving
from throttler.kube.pod import PRIORITY_CLASS
from throttler.kube.reasons_and_events import Because, because

IMAGE_VOLUMES_SINCE = 35
"""Minor version from which image volumes are on by default (KEP-4639; GA in 1.36)."""
PRIORITIES = range(-10, 0)
"""Values a balloon's class may have: below -10 cluster-autoscaler does not count the pod, 0 is ordinary work."""
MOST_NAMES = 5
"""Nodes that a sentence names."""
REMOVED_SHARE, REMOVED_AT_LEAST = 0.2, 10
"""Largest share of a pool's balloons that one removal period may take away, but always up to this many."""
REMOVAL_PERIOD_S = 10.0
"""How long a removal counts against the limit; the usual interval between decisions."""
VANISHED_SHARE, VANISHED_AT_LEAST = 0.2, 3
"""A pool that loses more than this share of its nodes at once is frozen, if at least this many are gone, so that small
pools can lose a node."""
FREEZE_S = 300.0
"""How long a shrunken view must last before it is believed."""
STALE_AFTER_S = 75.0
"""A view older than this moves nothing; a quiet watch is silent for up to a minute (decision 0006)."""

FIRST_TRY_S, LONGEST_TRY_S = 10.0, 4 * 3600.0
"""After balloons with a priority of work's are gone. At first their class may just have been mended; later each try may
cost work its place for nothing."""


def why_left_alone(view: PoolView, snapshot: Snapshot, settings: ImageSettings) -> Because | None:
    """Why the pool must not be touched, if so."""
    if view.pool.spec.paused:
        return because(Reason.PAUSED)
    if view.pool.spec.strategy is Strategy.ANNOTATE:
        return None
    if view.pool.spec.strategy is Strategy.CAPACITY_BUFFER and not snapshot.buffer_version:
        return because(Reason.NO_BUFFERS)
    return _priority_problem(snapshot) or _image_problem(view, snapshot, settings)


def _priority_problem(snapshot: Snapshot) -> Because | None:
    priority_class = snapshot.priority_classes.get(PRIORITY_CLASS)
    if priority_class is None:
        problem = "does not exist"
    elif priority_class.value not in PRIORITIES:
        problem = f"has value {priority_class.value}, accepted are -10 to -1"
    elif priority_class.preemption_policy != "Never":
        problem = f"has preemptionPolicy {priority_class.preemption_policy}, accepted is Never"
    else:
        return None
    return because(Reason.NO_PRIORITY_CLASS, name=PRIORITY_CLASS, problem=problem)


def _image_problem(view: PoolView, snapshot: Snapshot, settings: ImageSettings) -> Because | None:
    spec = view.pool.spec
    for image in (spec.image, *spec.pre_pull):
        if (
            image
            and image != settings.image
            and not any(_is_under(image, prefix) for prefix in settings.allowed_images)
        ):
            accepted = ", ".join(settings.allowed_images) or "none besides the default"
            return because(Reason.IMAGE_NOT_ALLOWED, image=image, accepted=accepted)
    if spec.pre_pull and 0 < snapshot.server_minor < IMAGE_VOLUMES_SINCE:
        return because(Reason.NO_IMAGE_VOLUMES, minor=snapshot.server_minor)
    return None


def _is_under(image: str, prefix: str) -> bool:
    """Whether an image is the one named, one of its tags or digests, or in the folder named: whole parts only.

    What follows a colon is a tag where no folder follows it, and else a port: another registry.
    """
    rest = image.removeprefix(prefix)
    if not prefix or rest == image:
        return False
    return not rest or prefix[-1] in "/:@" or rest[0] in "/@" or (rest[0] == ":" and "/" not in rest)


def conflict(view: PoolView) -> Because:
    """To which pool most of the nodes went, or all that come will; what belongs to another namespace is neither counted
    nor named."""
    lost, within = view.claim.lost, view.claim.within
    if within is not None and not lost:
        is_own = within.namespace == view.pool.key.namespace
        return because(
            Reason.CONFLICT, nodes="all", other=f"pool {within.name}" if is_own else "a pool of another namespace"
        )
    other, nodes = max(lost.items(), key=lambda item: (item[1], item[0]))
    if other.namespace != view.pool.key.namespace:
        return because(Reason.CONFLICT, nodes="some", other="a pool of another namespace")
    return because(Reason.CONFLICT, nodes=nodes, other=f"pool {other.name}")


def _short(view: PoolView) -> Iterator[Because]:
    by_lack: dict[Short, list[str]] = {}
    for name, short in view.short.items():
        by_lack.setdefault(short, []).append(name)
    for short, names in sorted(by_lack.items(), key=lambda item: (item[0].shape, item[0].device)):
        if short.device:
            yield because(
                Reason.SHORT_OF_DEVICES,
                nodes=len(names),
                shape=short.shape,
                device=short.device,
                names=some_of(names),
            )
        else:
            yield because(Reason.SHORT_OF_ROOM, nodes=len(names), shape=short.shape, names=some_of(names))


def refusing(view: PoolView) -> Because:
    """Which nodes refuse balloons, and the kubelets' words for it."""
    why = ", ".join(sorted({view.refusals[name].why or "no reason" for name in view.alone}))
    return because(Reason.NODES_REFUSE, nodes=len(view.alone), why=why, names=some_of(view.alone))


def some_of(names: Collection[str]) -> str:
    """The first names, and how many more there are."""
    first = sorted(names)[:MOST_NAMES]
    return ", ".join(first) + (f" and {len(names) - len(first)} more" if len(names) > len(first) else "")


def notes(view: PoolView, too_small: Iterable[str]) -> tuple[Because, ...]:
    """Findings beside the decision: a conflict on some nodes, nodes that are not like the others, no room left."""
    notes = [conflict(view)] if view.claim.lost else []
    notes += [refusing(view)] if view.alone else []
    notes += [because(Reason.ENDLESS, nodes=len(view.endless), names=some_of(view.endless))] if view.endless else []
    notes += _short(view)
    if shared := view.census.shared:
        notes.append(because(Reason.SHARED_NODES, nodes=len(shared), names=some_of(shared)))
    if view.copies:
        notes.append(because(Reason.COPIED, deployments=len(view.copies), names=some_of(view.copies)))
    shapes = view.shapes.by_name
    if are_alike(shapes.values()):
        notes.append(because(Reason.SHAPES_ALIKE, shapes=", ".join(sorted(shapes))))
    return (*notes, *(because(Reason.TOO_SMALL, shape=name) for name in sorted(too_small)))


def blind(snapshot: Snapshot) -> Because | None:
    """Why nothing at all may move, if so: caches incomplete or too old."""
    if not snapshot.is_complete:
        return because(Reason.INCOMPLETE_VIEW, missing=", ".join(snapshot.missing))
    if snapshot.age_s > STALE_AFTER_S:
        return because(Reason.STALE_VIEW, age=snapshot.age_s)
    return None


def believe(
    view: PoolView, nodes: Mapping[str, Node], memory: PoolMemory, now: Now
) -> tuple[PoolMemory, Because | None]:
    """Whether the view may be believed; `nodes` are all of the cluster.

    Busy and held nodes are valued. If too many of those that were valued last time are gone or sick, the pool freezes
    until they are back or the view has lasted; nodes that nobody held may go at any number (the autoscaler removes
    idle nodes in bulk), and so may those that were marked before.
    """
    by_state, balloons = view.census.by_state, view.census.balloons
    held = [balloon.node for state in (NodeState.WARM, NodeState.IDLE) for balloon in balloons[state]]
    valued = frozenset([*held, *(node.name for node in by_state[NodeState.BUSY] if not is_leaving(node))])
    # Nodes that refuse balloons are there, and say so themselves.
    away = {node.name for node in by_state[NodeState.SICK] if node.name not in view.alone}
    away.update(node.name for node in by_state[NodeState.JOINING] if not node.is_ready)
    before = memory.valued
    gone = sum(1 for name in before - valued if name not in nodes or name in away)
    is_shrunken = gone >= VANISHED_AT_LEAST and gone > VANISHED_SHARE * len(before)
    if not is_shrunken:
        return replace(memory, valued=valued, shrunken_since_s=None), None
    since_s = memory.shrunken_since_s if memory.shrunken_since_s is not None else now.monotonic_s
    wait_s = since_s + FREEZE_S - now.monotonic_s
    if wait_s <= 0:
        return replace(memory, valued=valued, shrunken_since_s=None), None
    frozen = because(Reason.SHRUNKEN_VIEW, gone=gone, before=len(before), wait=wait_s)
    return replace(memory, shrunken_since_s=since_s), frozen


def outranked(view: PoolView, before: Outranking | None, now: Now) -> Outranking | None:
    """What is known of balloons that are given a priority of work's; forgotten once a younger one has another."""
    if there := view.outranking:
        newest_s, now_s = max(balloon.created_s for balloon in there), now.monotonic_s
        is_again = before is not None and now_s - before.last_s >= FIRST_TRY_S
        times = (before.times if before is not None else 1) + is_again
        return Outranking(max(balloon.priority for balloon in there), newest_s, now_s, times)
    good = (*view.unbound, *(b for balloons in view.census.balloons.values() for b in balloons))
    return None if before is None or any(balloon.created_s > before.newest_s for balloon in good) else before


def may_try(outranking: Outranking, now: Now) -> bool:
    """Whether it is time to make one balloon more than there are."""
    wait_s = float(min(LONGEST_TRY_S, FIRST_TRY_S * 2 ** min(outranking.times - 1, 16)))
    return now.monotonic_s - outranking.last_s >= wait_s


def removal_limit(memory: PoolMemory, balloons: int, now: Now) -> int:
    """How many of a pool's balloons may be removed now, given those removed within the last period."""
    recent = sum(count for at_s, count in memory.removed if now.monotonic_s - at_s < REMOVAL_PERIOD_S)
    return max(0, max(REMOVED_AT_LEAST, int(REMOVED_SHARE * (balloons + recent))) - recent)


def recent_removals(memory: PoolMemory, count: int, now: Now) -> tuple[tuple[float, int], ...]:
    """What to remember of removals, `count` more among them: those that count against the limit."""
    recent = tuple(r for r in memory.removed if now.monotonic_s - r[0] < REMOVAL_PERIOD_S)
    return (*recent, (now.monotonic_s, count)) if count else recent
