"""One pool's decision: aim, choose, and say what must change, by whichever strategy holds its nodes."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from balloons.api.pool import Mode, PoolStatus, Strategy
from balloons.balloon_manifest import ImageSettings
from balloons.decide.census import JOIN_LIMIT_S, NodeState, has_room
from balloons.decide.decision_and_reasons import (
    Action,
    AnnotateNode,
    AskedShape,
    Outranking,
    PoolDecision,
    PoolMemory,
    Reason,
    RemoveFailed,
)
from balloons.decide.pool_view_and_schedule import PoolView, wanted_size
from balloons.decide.pools_left_alone import (
    conflict,
    may_try,
    notes,
    recent_removals,
    refusing,
    removal_limit,
    some_of,
)
from balloons.decide.refusing import to_remove
from balloons.decide.release_to_waiting_work import (
    Places,
    Reservations,
    is_perhaps_gang,
    keys_of,
    releases,
    taken_on_their_way,
)
from balloons.decide.strategies import (
    PoolBuffers,
    annotate,
    buffer,
    handed_over,
    held_by_us,
    inflate,
    lowered,
    off_leaving,
)
from balloons.decide.wanted_and_chosen_nodes import (
    Holding,
    Supply,
    Target,
    balloons_by_shape,
    being_removed,
    hold,
    size_to_come,
    target,
)
from balloons.view.index_and_snapshot import Now, Snapshot
from balloons.view.node_load_and_devices import EMPTY
from throttler.kube.metadata import ObjectKey
from throttler.kube.node import KARPENTER_POOL_LABEL, Node, is_leaving
from throttler.kube.pod import POOL_LABEL, Pod
from throttler.kube.quantities_and_durations import parse_duration
from throttler.kube.reasons_and_events import Because, because

WAITING_S = 60.0
"""A balloon that has waited for so long is not about to be let go, or to get its node."""


@dataclass(frozen=True, slots=True)
class Case:
    """What all pools of one decision share."""

    snapshot: Snapshot
    settings: ImageSettings
    now: Now
    reserved: Reservations
    annotated: Mapping[str, Sequence[Node]]
    """Nodes that carry our annotations, by the pool that these name."""
    buffers: Mapping[ObjectKey, PoolBuffers]
    """By pool."""

    def buffers_of(self, view: PoolView) -> PoolBuffers:
        """One pool's."""
        return self.buffers.get(view.pool.key, PoolBuffers())


@dataclass(frozen=True, slots=True)
class PoolCase:
    """What is one pool's own: what is seen of it, its memory with that in it, and why it is left as it is, if so."""

    view: PoolView
    memory: PoolMemory
    left_alone: Because | None
    is_resting: bool

    @property
    def gives_way(self) -> bool:
        """Whether balloons are removed for waiting pods: a pool that removes none must not keep nodes for any."""
        return self.left_alone is None and not self.view.pool.spec.dry_run and not self.is_resting


@dataclass(frozen=True, slots=True)
class Outcome:
    """A decision, the pool's next memory, and how many new nodes it starts."""

    decision: PoolDecision
    memory: PoolMemory
    started: int = 0


def decide_pool(own: PoolCase, case: Case, allowance: int | None, *, is_shut: bool) -> Outcome:
    """Decide one pool; a reason to leave it alone comes before everything else but `maxSize`. `allowance` and
    `is_shut` are the throttle's (`Lane`)."""
    if own.left_alone is not None:
        return _left_alone(own, case, own.left_alone)
    view, memory, settings = own.view, own.memory, case.settings
    taken, holdable = case.reserved.taker, view.census.holdable
    reserved = [node for node in holdable if node.name in taken]
    left_to_work = {node.name for node in reserved} | _for_work_to_come(view, case)
    free = [node for node in holdable if node.name not in left_to_work]
    present = balloons_by_shape(view)
    waiting = _asked(view, present.total(), case.buffers_of(view))
    to_come = _to_come(view, case)
    aim = _aim(view, case, to_come, len(free), len(reserved), waiting, allowance, memory.granted)
    if memory.outranking is not None:
        aim = _tried_singly(view, free, aim, memory.outranking, case.now)
    asked = _ask(view, aim, memory.asked, case.now, is_shut=is_shut)
    aim = replace(aim, shape=asked.shape if asked is not None else "")
    freed = releases(reserved, case.reserved, view.loads)
    freed_nodes = {balloon.node for balloon, _ in freed}
    staying = [
        balloon
        for node in reserved
        if node.name not in freed_nodes
        for balloon in (view.loads.get(node.name) or EMPTY).balloons
    ]
    going = being_removed(view, present)
    held = len(held_by_us(view)) if view.pool.spec.strategy is Strategy.ANNOTATE else present.total()
    allowed = removal_limit(memory, held - going, case.now)
    holding = hold(view, free, aim, staying, going + allowed, to_come)
    actions: tuple[Action, ...]
    too_small: tuple[str, ...] = ()
    match view.pool.spec.strategy:
        case Strategy.BALLOON:
            actions, too_small = inflate(view, settings, holding, aim, freed, present)
        case Strategy.CAPACITY_BUFFER:
            actions, too_small = buffer(view, case.buffers_of(view), case.snapshot, settings, holding, aim)
        case Strategy.ANNOTATE:
            actions = annotate(view, case.annotated.get(str(view.pool.key), ()), aim, allowed)
    actions = (*actions, *handed_over(view, case.buffers_of(view), case.snapshot.buffer_version, present))
    if aim.wait and not view.shapes.by_name:
        aim = _without_growth(aim, because(Reason.NO_SHAPE))
    elif aim.wait and aim.shape in too_small:
        aim = _without_growth(aim, because(Reason.TOO_SMALL, shape=aim.shape))
    late_s = case.now.wall.timestamp() - WAITING_S
    unbound = [balloon for balloon in view.unbound if balloon.created_s <= late_s]
    stuck = _not_started(view, late_s)
    why = (
        _refused(view, present.total())
        or _gated(unbound)
        or _enlarged(view, unbound)
        or (None if view.census.count(NodeState.WARM) else stuck)
        or _why(view, aim, holding, freed, len(holdable) - len(free))
    )
    let_go = [a for a in actions if isinstance(a, AnnotateNode) and None in a.annotations.values()]
    count = max(0, len(holding.victims) - len(view.leaving) - going) + len(let_go)
    removed = recent_removals(memory, count, case.now)
    if own.is_resting and aim.granted is not None:
        # What it would start nobody writes: no other pool waits for it, and it was not let out.
        aim = replace(aim, granted=aim.granted - aim.starts, starts=0)
    memory = replace(memory, removed=removed, granted=aim.granted, asked=asked)
    decision = _decision(view, aim.warm, why, (*actions, *_removals(view, case, memory)), too_small)
    beside = (*_fallback(view, aim), *([stuck] if stuck not in (None, why) else []))
    decision = replace(decision, lacking=aim.lacking, notes=(*decision.notes, *beside))
    return Outcome(decision, memory, aim.starts)


def _for_work_to_come(view: PoolView, case: Case) -> frozenset[str]:
    """The new nodes, by name, that an autoscaler has ordered for work that is not there yet.

    While a balloon takes the room that was made for it, another machine is ordered each time, and Hold would hold it.
    """
    if view.pool.spec.mode is not Mode.HOLD or view.pool.spec.strategy is not Strategy.BALLOON:
        return frozenset()
    wall_s = case.now.wall.timestamp()
    new = [
        node
        for node in view.census.by_state[NodeState.IDLE]
        if wall_s - node.created_s < JOIN_LIMIT_S and not (view.loads.get(node.name) or EMPTY).balloons
    ]
    if not new:
        return frozenset()
    new.sort(key=lambda node: (-node.created_s, node.name))
    # Karpenter counts work on nodes that it is about to remove until that is gone, the pods of a StatefulSet until they
    # have ended, and looks every ten seconds.
    busy = view.census.by_state[NodeState.BUSY]
    leaving = sum(KARPENTER_POOL_LABEL in node.labels and is_leaving(node) for node in busy)
    left = frozenset([node.name for node in new if KARPENTER_POOL_LABEL in node.labels][:leaving])
    # A gang takes no node before there is room for all of it.
    gangs = [(replace(wanted, gang=""), count) for wanted, count in case.reserved.unplaced if is_perhaps_gang(wanted)]
    if not gangs:
        return left
    rest = [node for node in new if node.name not in left]
    places = Places((), rest, view.loads, wall_s, keys_of([wanted for wanted, _ in gangs]))
    return left.union(node.name for wanted, count in gangs for node in places.take(wanted, count))


def _left_alone(own: PoolCase, case: Case, why: Because) -> Outcome:
    """What is done all the same for a pool that must not be touched."""
    view, memory = own.view, own.memory
    if memory.granted is not None:
        # What was let out and has its node by now must not be counted against the growth of others.
        asked = _asked(view, balloons_by_shape(view).total(), case.buffers_of(view))
        memory = replace(memory, granted=min(memory.granted, asked))
    gone = sum(1 for name in memory.valued if name not in case.snapshot.nodes)
    lower = lowered(view, case.buffers_of(view), case.snapshot.buffer_version, why, gone)
    actions: tuple[Action, ...] = (*lower, *off_leaving(view), *_removals(view, case, memory))
    return Outcome(_decision(view, view.pool.status.target, why, actions), memory)


def _removals(view: PoolView, case: Case, memory: PoolMemory) -> Iterator[RemoveFailed]:
    """What failed balloons leave behind; even where nothing else may be done, they must not become ever more."""
    failed = case.snapshot.failed.get(view.pool.key, ())
    for balloon in to_remove(failed, case.snapshot.nodes, view.refusals, memory.failed_since_s, case.now):
        why = because(Reason.NODES_REFUSE, nodes=1, why=balloon.reason or "no reason", names=balloon.node)
        yield RemoveFailed(balloon.key, balloon.uid, balloon.node, why)


def _aim(
    view: PoolView,
    case: Case,
    to_come: Sequence[Node],
    free: int,
    reserved: int,
    asked: int,
    allowance: int | None,
    granted: int | None,
) -> Target:
    """What the pool is after; one whose nodes all belong to older pools only gives back what it has.

    No balloon waits while one must be kept off a node by name, where Karpenter makes the nodes: it makes none for such
    a pod. Elsewhere none does until all balloons have the name: a roll-out replaces a tenth of them, and goes on only
    once these are Ready; of those that wait the others would go on to be made for that node.
    """
    if not view.claim.nodes and (view.claim.lost or view.claim.within is not None):
        return Target(0, 0, because=conflict(view))
    census = view.census
    joining = census.count(NodeState.JOINING)
    supply = Supply(
        busy=census.count(NodeState.BUSY),
        holdable=free,
        reserved=reserved,
        joining=joining,
        carried=joining - len(to_come),
        taken=taken_on_their_way(to_come, partial(size_to_come, view), case.reserved.unplaced),
        preflight=census.count(NodeState.PREFLIGHT),
        total=census.total,
    )
    aim = target(view.pool.spec, view.schedule, supply, asked, allowance, granted)
    is_sought = any(view.refusals[name].is_sought for name in view.alone)
    is_rolling = any(stored.is_rolling for stored in view.deployments.values())
    if aim.wait and is_sought and (view.is_bought_by_karpenter or is_rolling):
        return _without_growth(aim, refusing(view))
    return aim


def _to_come(view: PoolView, case: Case) -> list[Node]:
    """Nodes on their way for which a balloon may wait. No autoscaler counts on an old node that is expected back: it
    would buy one for a balloon that waits for that."""
    joining, wall_s = view.census.by_state[NodeState.JOINING], case.now.wall.timestamp()
    new = (node for node in joining if wall_s - node.created_s < JOIN_LIMIT_S and not view.is_seen_short(node))
    return [node for node in new if not (case.snapshot.loads.get(node.name) or EMPTY).balloons]


def _without_growth(aim: Target, why: Because) -> Target:
    return replace(
        aim, wait=0, arriving=0, starts=0, lacking=0, granted=0 if aim.granted is not None else None, because=why
    )


def _tried_singly(view: PoolView, free: Sequence[Node], aim: Target, outranking: Outranking, now: Now) -> Target:
    """The same with no more balloons than hold a node, and now and then one to see what priority it is given."""
    most = sum(1 for node in free if (view.loads.get(node.name) or EMPTY).balloons) + may_try(outranking, now)
    why = because(Reason.OUTRANKING, priority=outranking.priority)
    hold = min(aim.hold, most)
    wait = min(aim.wait, most - hold)
    granted = None if aim.granted is None else min(aim.granted, wait)
    return replace(_without_growth(aim, why), hold=hold, wait=wait, starts=min(aim.starts, wait), granted=granted)


def _ask(view: PoolView, aim: Target, before: AskedShape | None, now: Now, *, is_shut: bool) -> AskedShape | None:
    """The shape in which to ask for new nodes now; None where none is wanted.

    An instance type that is out of stock must not leave the pool without headroom: shapes take turns, each for
    `fallbackAfter`, until a node comes; what is wanted after that begins with the main one again. While nothing but
    nodes on their way is waited for, or the throttle lets nothing be ordered, that nothing comes says nothing of the
    shape.
    """
    if not aim.wait:
        return None
    nodes, now_s = view.census.total, now.monotonic_s
    shut_s = now_s if is_shut else None
    if before is None or before.shape not in view.shapes.by_name:
        return AskedShape(view.shapes.main, now_s, nodes, shut_s)
    if nodes > before.nodes or aim.wait == aim.arriving:
        return AskedShape(before.shape, now_s, nodes, shut_s)
    since_s = before.since_s + (0.0 if before.shut_s is None else now_s - before.shut_s)
    if now_s - since_s < parse_duration(view.pool.spec.fallback_after):
        # Nodes that went are no news of those that are to come.
        return AskedShape(before.shape, since_s, nodes, shut_s)
    names = list(view.shapes.by_name)
    return AskedShape(names[(names.index(before.shape) + 1) % len(names)], now_s, nodes, shut_s)


def _fallback(view: PoolView, aim: Target) -> Iterator[Because]:
    if aim.wait and aim.shape not in ("", view.shapes.main):
        after = view.pool.spec.fallback_after
        yield because(Reason.FALLBACK, main=view.shapes.main, after=after, shape=aim.shape)


def _asked(view: PoolView, bound: int, own: PoolBuffers) -> int:
    """Balloons that wait for a node, `bound` ones apart: the unbound ones beyond those that an idle node is free for.

    Those that a Deployment was told to have and that do not exist yet count too: they have been asked for. Of a buffer
    its units count that no node is free for, beside the balloons of a former strategy.
    """
    if view.pool.spec.strategy is Strategy.CAPACITY_BUFFER:
        return max(0, own.units + bound - len(view.census.holdable))
    ordered = sum(stored.replicas for stored in view.deployments.values()) - bound
    return max(0, max(len(view.unbound), ordered) - view.census.count(NodeState.IDLE))


def _refused(view: PoolView, bound: int) -> Because | None:
    """The server's refusal, while there are fewer balloons than were asked for."""
    refusal = next(filter(None, (stored.refusal for stored in view.deployments.values())), "")
    ordered = sum(stored.replicas for stored in view.deployments.values())
    is_short = bound + len(view.unbound) < ordered
    return because(Reason.REFUSED, message=refusal) if refusal and is_short else None


def _gated(unbound: Sequence[Pod]) -> Because | None:
    """Who keeps balloons from the scheduler: a job queue for all pods of the namespace, or a policy. One that lets them
    go does so within seconds."""
    gates = (balloon.scheduling.gates for balloon in unbound if balloon.scheduling)
    held = [names for names in gates if names]
    return because(Reason.GATED, balloons=len(held), gates=some_of(set[str]().union(*held))) if held else None


def _enlarged(view: PoolView, unbound: Sequence[Pod]) -> Because | None:
    """What was added to balloons at their admission (a sidecar, the overhead of a RuntimeClass), if with it they fit
    no idle node of their shape."""
    idle: dict[str, list[Node]] = {}
    for node in view.census.by_state[NodeState.IDLE]:
        idle.setdefault(view.shapes.of(node), []).append(node)
    rolling = {name for name, stored in view.deployments.items() if stored.is_rolling}
    kinds = {(balloon.shape, id(balloon.requests)): balloon for balloon in unbound}
    more: set[str] = set()
    for (shape, _), balloon in kinds.items():
        asked, nodes = view.requests.get(shape), idle.get(shape, ()) if shape not in rolling else ()
        if asked and nodes and not any(has_room(n, view.loads.get(n.name) or EMPTY, balloon.requests) for n in nodes):
            more |= {name for name, milli in balloon.requests.items() if milli > asked.get(name, 0)} - {"pods"}
    return because(Reason.ENLARGED, resources=", ".join(sorted(more))) if more else None


def _not_started(view: PoolView, late_s: float) -> Because | None:
    """The kubelets' words for balloons that have a node and do not run, such as an image that cannot be pulled."""
    late = [b for b in view.census.balloons[NodeState.IDLE] if b.start_problem and b.created_s <= late_s]
    if not late:
        return None
    words = ", ".join(sorted({balloon.start_problem for balloon in late}))
    return because(Reason.NOT_STARTED, nodes=len(late), why=words, names=some_of([balloon.node for balloon in late]))


def _why(view: PoolView, aim: Target, holding: Holding, freed: Sequence[tuple[Pod, str]], reserved: int) -> Because:
    """The one reason that matters most now."""
    warm, pending = view.census.count(NodeState.WARM), len(view.unbound)
    if freed:
        return because(Reason.BURST_RELEASE, released=len(freed), waiting=len({taker for _, taker in freed}))
    if aim.because is not None:
        return aim.because
    if not view.census.total:
        return because(Reason.NO_NODES)
    if holding.victims or holding.surplus:
        return _why_fewer(view, holding)
    if reserved:
        return because(Reason.RESERVED, reserved=reserved)
    if view.schedule is not None and wanted_size(view.pool.spec, view.schedule) == aim.warm == warm:
        return because(Reason.SCHEDULE, schedule=view.schedule.cron, target=aim.warm)
    if not view.census.holdable and view.census.count(NodeState.BUSY):
        return because(Reason.GAVE_WAY, busy=view.census.count(NodeState.BUSY))
    reason = Reason.STEADY if warm >= aim.warm else Reason.WARMING
    return because(reason, warm=warm, target=aim.warm, pending=pending)


def _why_fewer(view: PoolView, holding: Holding) -> Because:
    leaving = {balloon.node for balloon in view.leaving}
    if holding.surplus:
        return because(
            Reason.SHRINK_LIMITED, surplus=holding.surplus + len(holding.victims), limit=len(holding.victims)
        )
    if all(balloon.node in leaving for balloon in holding.victims):
        return because(Reason.LEAVING, nodes=len(leaving), names=some_of(leaving))
    return because(Reason.SHRINKING, surplus=len(holding.victims))


def _decision(
    view: PoolView, wanted: int, why: Because, actions: tuple[Action, ...], too_small: Sequence[str] = ()
) -> PoolDecision:
    """The decision with the status that shows it; the writer adds the conditions."""
    census = view.census
    status = PoolStatus(
        observed_generation=view.pool.metadata.generation,
        nodes=census.total,
        busy=census.count(NodeState.BUSY),
        warm=census.count(NodeState.WARM),
        idle=census.count(NodeState.IDLE),
        sick=census.count(NodeState.SICK),
        pending=len(view.unbound),
        target=wanted,
        because=why.code,
        message=why.sentence,
        selector=f"{POOL_LABEL}={view.pool.metadata.name}",
        active_schedule=view.schedule.cron if view.schedule else "",
        zones=census.zones(),
    )
    return PoolDecision(view.pool.key, why, status, actions, notes(view, too_small), view.pool.spec.dry_run)
