"""One pool's decision: aim, choose, and say what must change, by whichever strategy holds its nodes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from balloons.api.pool import Strategy
from balloons.decide.because import Because, Reason, because
from balloons.decide.by_annotation import annotate
from balloons.decide.by_balloon import inflate
from balloons.decide.by_buffer import buffer
from balloons.decide.census import NodeState
from balloons.decide.guard import hold_still, notes
from balloons.decide.holding import Holding, hold
from balloons.decide.look import PoolView, status_of
from balloons.decide.memory import PoolMemory
from balloons.decide.plan import Action, PoolDecision
from balloons.decide.release import Reservations, releases
from balloons.decide.sanity import believe, note_removal, removal_limit
from balloons.decide.settings import DecideSettings
from balloons.decide.target import Supply, Target, target, wanted_size
from balloons.view.load import EMPTY
from balloons.view.snapshot import Now, Snapshot
from throttler.kube.node import Node
from throttler.kube.pod import Pod


@dataclass(frozen=True, slots=True)
class Case:
    """What all pools of one decision share."""

    snapshot: Snapshot
    settings: DecideSettings
    now: Now
    reserved: Reservations


@dataclass(frozen=True, slots=True)
class Outcome:
    """A decision, the pool's next memory, and how many new nodes it starts."""

    decision: PoolDecision
    memory: PoolMemory
    started: int = 0


def decide_pool(view: PoolView, case: Case, memory: PoolMemory, allowance: int | None) -> Outcome:
    """Decide one pool; a reason to hold still comes before everything else."""
    memory, shrunken = _believe(view, case, memory)
    still = hold_still(view, case.snapshot, case.settings) or shrunken
    if still is not None:
        return Outcome(_decision(view, view.pool.status.target, still, ()), memory)
    return _act(view, case, memory, allowance)


def _believe(view: PoolView, case: Case, memory: PoolMemory) -> tuple[PoolMemory, Because | None]:
    census = view.census
    held = [balloon.node for state in (NodeState.WARM, NodeState.IDLE) for balloon in census.balloons[state]]
    valued = frozenset([*held, *(node.name for node in census.by_state[NodeState.BUSY])])
    sick = frozenset([node.name for node in census.by_state[NodeState.SICK]])
    return believe(memory, _Healthy(case.snapshot.nodes, sick), valued, case.settings, case.now)


@dataclass(frozen=True, slots=True)
class _Healthy:
    """The nodes that are there and not sick, without a set of all their names."""

    nodes: Mapping[str, Node]
    sick: frozenset[str]

    def __contains__(self, name: object) -> bool:
        return name in self.nodes and name not in self.sick


def _act(view: PoolView, case: Case, memory: PoolMemory, allowance: int | None) -> Outcome:
    loads, settings = case.snapshot.loads, case.settings
    taken = case.reserved.taker
    reserved = [node for node in view.holdable if node.name in taken]
    free = [node for node in view.holdable if node.name not in taken] if reserved else view.holdable
    aim = target(view.pool.spec, view.schedule, _supply(view, len(free), len(reserved)), _asked(view), allowance)
    freed = _released(reserved, case)
    staying = [] if freed else _balloons_on(reserved, case)
    limit = removal_limit(memory, _bound(view), settings, case.now)
    holding = hold(view, loads, free, aim.hold, staying, limit)
    actions, too_small = _write(view, case, holding, aim, freed)
    why = _why(view, aim, holding, freed, len(reserved))
    memory = note_removal(memory, len(holding.victims) if actions else 0, settings, case.now)
    decision = _decision(view, aim.warm, why, actions, too_small)
    return Outcome(decision, memory, aim.starts)


def _supply(view: PoolView, holdable: int, reserved: int) -> Supply:
    census = view.census
    return Supply(
        busy=census.count(NodeState.BUSY),
        holdable=holdable,
        reserved=reserved,
        joining=census.count(NodeState.JOINING) + len(view.shapes.unfinished),
        preflight=census.count(NodeState.PREFLIGHT),
        total=census.total,
    )


def _asked(view: PoolView) -> int:
    """Balloons that wait for a node: the unbound ones beyond those that an idle node is free for."""
    return max(0, len(view.unbound) - view.census.count(NodeState.IDLE))


def _bound(view: PoolView) -> int:
    return sum(map(len, view.census.balloons.values()))


def _balloons_on(nodes: Sequence[Node], case: Case) -> list[Pod]:
    return [b for node in nodes for b in (case.snapshot.loads.get(node.name) or EMPTY).balloons]


def _released(reserved: Sequence[Node], case: Case) -> list[tuple[Pod, str]]:
    own: Mapping[str, str] = {node.name: case.reserved.taker[node.name] for node in reserved}
    return releases(Reservations(own), case.snapshot.loads, case.settings)


def _write(
    view: PoolView, case: Case, holding: Holding, aim: Target, freed: Sequence[tuple[Pod, str]]
) -> tuple[tuple[Action, ...], tuple[str, ...]]:
    match view.pool.spec.strategy:
        case Strategy.BALLOON:
            return inflate(view, case.settings, holding, aim, freed)
        case Strategy.CAPACITY_BUFFER:
            return buffer(view, case.snapshot, case.settings, holding, aim)
        case Strategy.ANNOTATE:
            return annotate(view, case.settings, aim), ()


def _why(view: PoolView, aim: Target, holding: Holding, freed: Sequence[tuple[Pod, str]], reserved: int) -> Because:
    """The one reason that matters most now."""
    warm, pending = view.census.count(NodeState.WARM), len(view.unbound)
    if freed:
        return because(Reason.BURST_RELEASE, released=len(freed), waiting=len({taker for _, taker in freed}))
    if not view.census.total and not aim.wait:
        return because(Reason.NO_NODES)
    if aim.because is not None:
        return aim.because
    if holding.surplus:
        return because(
            Reason.SHRINK_LIMITED, surplus=holding.surplus + len(holding.victims), limit=len(holding.victims)
        )
    if holding.victims:
        return because(Reason.SHRINKING, surplus=len(holding.victims))
    if reserved:
        return because(Reason.RESERVED, reserved=reserved)
    if view.schedule is not None and wanted_size(view.pool.spec, view.schedule) == aim.warm == warm:
        return because(Reason.SCHEDULE, schedule=view.schedule.cron, target=aim.warm)
    if not aim.warm and view.census.count(NodeState.BUSY):
        return because(Reason.GAVE_WAY, busy=view.census.count(NodeState.BUSY))
    reason = Reason.STEADY if warm >= aim.warm else Reason.WARMING
    return because(reason, warm=warm, target=aim.warm, pending=pending)


def _decision(
    view: PoolView, wanted: int, why: Because, actions: tuple[Action, ...], too_small: Sequence[str] = ()
) -> PoolDecision:
    status = msgspec.structs.replace(status_of(view, wanted), because=why.code, message=why.sentence)
    return PoolDecision(view.pool.key, why, status, actions, notes(view, too_small), view.pool.spec.dry_run)
