"""Splits the budget of one throttle: between the autoscalers where it has a ceiling for each, then between NodePools.

Each pool's part follows from the pods that wait for it, not from what it has on its way: a pool whose machines never
come would otherwise draw ever more. Pods that several pools may serve are for the first of these in Karpenter's order
alone, because a ceiling on it would make Karpenter buy from the next.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce

from throttler.joins.demand import Crowd
from throttler.joins.share import fair_shares
from throttler.kube.quantity import Resources, larger
from throttler.levers.lever import Room
from throttler.levers.pool_ceiling import PoolRoom

TURN_S = 30.0
"""What does not divide goes to each in turn for so long: both autoscalers look within ten seconds."""
LATE_BOOTS = 3
"""A machine that is not usable after so many times the usual time is taken for one that never will be."""
USUAL_S = 120.0
"""The usual time from an order to a usable node, while the throttle has seen none."""
ALMOST_NONE = 1e-6
"""Of a node: thirds and the like do not add up to whole numbers exactly."""


def by_autoscaler(room: Room, by_groups: int, now_s: float) -> tuple[int, int]:
    """How many nodes cluster-autoscaler, and how many Karpenter, may order of one allowance.

    Which of them will order for a pending pod cannot be known; machines on their way are evidence. `by_groups` of the
    booting machines are cluster-autoscaler's.
    """
    share, rest = divmod(room.allowance * (1 + min(by_groups, room.booting)), 2 + room.booting)
    share += 1 if rest and int(now_s // TURN_S) % 2 == 0 else 0
    return share, room.allowance - share


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingWork:
    """What waits for Karpenter's machines, and how long these usually take. `wall_s` is seconds since the epoch."""

    crowds: tuple[Crowd, ...] = ()
    wall_s: float = 0.0
    usual_s: float | None = None
    """From an order to a usable node; None while unknown."""

    @property
    def late_s(self) -> float:
        """Machines older than this that are not usable are taken for lost."""
        return LATE_BOOTS * (self.usual_s or USUAL_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A NodePool as one that may serve pods."""

    name: str
    serves: frozenset[int]
    """Which of the crowds its machines could take, by their places."""
    coming: int
    """Machines on their way: Karpenter counts on them for pods that wait, be they late or not."""
    is_late: bool = False
    """Whether machines of it are late and none that was ordered after them has become usable."""
    is_full: bool = False
    """Whether its user's own limits admit no further machine, or Karpenter says that it cannot use the pool."""
    is_dry: bool = False
    """Whether it had room and pods waited, and nothing was ordered."""
    ordered_s: float = 0.0
    """Creation of its newest machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """What waits for one pool.

    `urgent` of the nodes pass by the reserved lane; `seen` are for pods that Karpenter sees, which gated ones are not.
    """

    nodes: float = 0.0
    urgent: float = 0.0
    seen: float = 0.0
    hint: Resources = field(default_factory=dict)
    """The largest request among the pods that it may serve."""
    heavier: str = ""
    """The pool that is to serve such pods before this one."""
    lighter: str = ""
    """The pool that serves them because this one ordered nothing."""

    @property
    def is_open(self) -> bool:
        """Whether machines of this pool would not be bought in place of a heavier one's."""
        return self.nodes > ALMOST_NONE or not (self.heavier or self.lighter)

    def and_also(self, crowd: Crowd, nodes: float) -> "Need":
        """With so many nodes for this crowd."""
        return replace(
            self,
            nodes=self.nodes + nodes,
            urgent=self.urgent + (nodes if crowd.is_urgent else 0.0),
            seen=self.seen + (0.0 if crowd.how.is_gated else nodes),
        )


def needs_of(crowds: Sequence[Crowd], candidates: Sequence[Candidate]) -> Mapping[str, Need]:
    """What waits for each pool; the candidates are in Karpenter's order.

    Machines on their way are taken off, first for pods that have the least choice. The rest is for the first pool that
    has not run dry; where all of them have, each searches for itself.
    """
    needs = {each.name: Need() for each in candidates}
    asked: dict[str, dict[int, Resources]] = {each.name: {} for each in candidates}
    coming: dict[str, float] = {each.name: each.coming for each in candidates}
    choices = [(crowd, [each for each in candidates if at in each.serves]) for at, crowd in enumerate(crowds)]
    for crowd, able in sorted(choices, key=lambda pair: (len(pair[1]), not pair[0].is_urgent)):
        left = crowd.nodes
        for each in able:
            taken = min(left, coming[each.name])
            left, coming[each.name] = left - taken, coming[each.name] - taken
            asked[each.name][id(crowd.requests)] = crowd.requests
        usable = [each for each in able if not each.is_full]
        first = next((each for each in usable if not each.is_dry), None)
        for each in [first] if first else usable:
            needs[each.name] = needs[each.name].and_also(crowd, left)
        if first is not None:
            at = usable.index(first)
            for each in usable[:at]:
                if not needs[each.name].lighter:
                    needs[each.name] = replace(needs[each.name], lighter=first.name)
            for each in usable[at + 1 :]:
                if not needs[each.name].heavier:
                    needs[each.name] = replace(needs[each.name], heavier=first.name)
    return {name: replace(need, hint=reduce(larger, asked[name].values(), need.hint)) for name, need in needs.items()}


def pool_rooms(
    budget: int, candidates: Sequence[Candidate], needs: Mapping[str, Need], now_s: float
) -> dict[str, PoolRoom]:
    """What each pool may order now; together no more than the budget.

    Urgent pods come first, then the pools share by max-min fairness. What does not divide goes to those that have the
    fewest machines on their way, of these to the one that ordered longest ago, and then to each in turn. Pools that are
    late or dry get what the others leave, and one place goes to a dry one whose pods another serves, so that it is seen
    when it has machines again.
    """
    names = sorted(each.name for each in candidates)
    begin = int(now_s // TURN_S)
    place = {name: (at - begin) % len(names) for at, name in enumerate(names)}
    in_turn = sorted(candidates, key=lambda each: (each.coming, each.ordered_s, place[each.name]))
    turn = [each.name for each in in_turn]
    usable = {each.name: each for each in candidates if not each.is_full}
    wanted = {name: _whole(needs[name].nodes) for name in usable}
    good = [name for name, each in usable.items() if not (each.is_late or each.is_dry)]
    idle = [name for name in good if needs[name].is_open and not wanted[name]]
    passing = [name for name in usable if needs[name].lighter and not needs[name].heavier and not wanted[name]]
    steps: list[dict[str, int]] = [
        {name: _whole(needs[name].urgent) for name in good},
        dict.fromkeys(passing if budget > 1 else (), 1),
        {name: wanted[name] for name in good},
        wanted,
        dict.fromkeys(idle, 1),
        # What nobody needs yet stands open where more may come.
        {name: budget for name in good if wanted[name]},
        {name: budget for name in usable if wanted[name] or name in idle},
    ]
    shares = dict.fromkeys(turn, 0)
    left = budget
    for step in steps:
        more = {name: max(0, most - shares[name]) for name, most in step.items()}
        for name, count in fair_shares(left, more, turn).items():
            shares[name] += count
            left -= count
    return {
        name: PoolRoom(share=shares[name], heavier=needs[name].heavier, lighter=needs[name].lighter) for name in shares
    }


def _whole(nodes: float) -> int:
    return math.ceil(nodes - ALMOST_NONE)
