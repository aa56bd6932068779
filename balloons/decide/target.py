"""How many nodes a pool wants warm, before anybody asks which."""

from dataclasses import dataclass
from math import inf

from balloons.api.pool import Mode, PoolSpec, Schedule
from balloons.decide.pool_reasons import Because, Reason, because


@dataclass(frozen=True, slots=True, kw_only=True)
class Supply:
    """The pool's nodes by what they can do for warmth now; counts of nodes.

    `holdable` are warm and idle nodes less those that wait for a pod (`reserved`); `joining` nodes will be usable
    soon and the autoscaler knows them (`carried` of those have their balloon already), `preflight` nodes too but it
    does not; `total` counts every node.
    """

    busy: int
    holdable: int
    reserved: int = 0
    joining: int = 0
    carried: int = 0
    preflight: int = 0
    total: int = 0


@dataclass(frozen=True, slots=True)
class Target:
    """`warm` nodes wanted in the end; `hold` of them are there to be held now; `wait` are balloons without a node.

    `starts` of those are new: they make the autoscaler start that many nodes more than it was asked for before.
    `lacking` is how many the pool would wait for if nobody paced it, `granted` how many of those that wait the
    allowance has let pass (None: nobody paces it).
    """

    warm: int
    hold: int
    wait: int = 0
    starts: int = 0
    because: Because | None = None
    lacking: int = 0
    granted: int | None = None
    shape: str = ""
    """In which shape new nodes are asked for; empty is the pool's main one."""


def wanted_size(spec: PoolSpec, schedule: Schedule | None) -> int | None:
    """The size the user asks for now, in nodes; None is "every idle node" (Hold without a size)."""
    source: PoolSpec | Schedule = schedule or spec
    size = source.size
    if size is None and source.size_percent is not None:
        size = percent_of(source.size_percent, spec.max_size or 0)
    return None if size is None else max(size, spec.min_size)


def percent_of(percent: int, whole: int) -> int:
    """`percent` of `whole`, rounded up: a pool that asks for 1 % asks for at least one node."""
    return -(-percent * whole // 100)


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
    if spec.mode is Mode.HOLD:
        return _hold(size, aim, supply)
    return _headroom(spec, aim, size or 0, supply, asked, allowance, granted)


def _hold(size: int | None, aim: int, supply: Supply) -> Target:
    warm = min(aim, supply.holdable)
    too_few = size is not None and aim > supply.holdable
    reason = because(Reason.TOO_FEW_NODES, size=aim, eligible=supply.holdable) if too_few else None
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
    why = _growth_reason(spec, size, aim, new, allowed, allowance, supply)
    return Target(
        aim,
        hold,
        for_arriving + allowed,
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
        others = supply.total - supply.busy - supply.holdable - supply.reserved
        return because(Reason.MAX_SIZE, max_size=spec.max_size, busy=supply.busy, others=max(0, others))
    return None
