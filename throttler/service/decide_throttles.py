"""One tick of all throttles: what it reads, remembers and gives. Count, ask the law, share, decide for levers. Pure.

The API servers are one for all throttles, so each throttle's law sees the joins of all of them and its verdict is about
the cluster. What may be asked for or let in is then shared by max-min fairness over what each throttle waits for.
"""

import math
from collections.abc import Callable, Container, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property, partial
from typing import Self, TypeVar

import msgspec

from throttler.api.throttle import JoinThrottle
from throttler.api.throttle_rules import StoredThrottle
from throttler.joins.count_joins import count_joins
from throttler.joins.demand import nodes_of
from throttler.joins.join_memory import JoinMemory
from throttler.joins.joins import JoinRules, Joins, JoinWorld, total_joins
from throttler.joins.requested_machines import GroupsOf, share_groups
from throttler.kube.karpenter import NodePool
from throttler.kube.reasons_and_events import MOST_ERROR_TEXT
from throttler.kube.selectors import are_disjoint, requirements
from throttler.law.admission import AT_ONCE_S, ORDERED_WITHIN_S, Bucket
from throttler.law.govern import govern
from throttler.law.law_memory import LawMemory, Learned, learned_of, learned_of_status
from throttler.law.settings import UNLIMITED, LawSettings, law_settings
from throttler.law.verdict import Phase, Verdict
from throttler.levers.lever_and_reasons import (
    NOTHING_MOVES,
    STALE_VIEW_S,
    TURN_S,
    Lane,
    LeverBudget,
    LeverContext,
    LeverDecision,
    LeverMemory,
    LeverScene,
    LeverState,
    LeverWrite,
    PoolGrowth,
)
from throttler.levers.node_pool_limits import unpaced_pools
from throttler.levers.pool_shares import fair_shares
from throttler.levers.saved_limits import read_saved
from throttler.levers.scheduling_gate import PACED_GATE, SCHEDULING_GATES, is_held
from throttler.service.all_levers import decide_levers, paces_both
from throttler.signals.reading import Signals


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """`now_s` is monotonic, on the clock of the signals."""

    now_s: float
    verdict: Verdict | None = None
    """None: nothing was decided, and the stored figures stay."""
    joins: Joins = field(default_factory=Joins)
    signals: Signals = field(default_factory=Signals)
    levers: tuple[LeverDecision, ...] = ()
    learned: Learned = field(default_factory=Learned)
    missing: tuple[str, ...] = ()
    """What could not be read completely, in words (`nodes`, `pods`): the view is incomplete."""
    is_given_up: bool = False
    """As of TickView."""
    guessed_groups: tuple[str, ...] = ()
    """Node groups of cluster-autoscaler whose machines count here because nothing tells whose they are."""
    covered_by: str = ""
    """The throttle that comes first on all of its nodes, by name; empty where none does."""
    is_autoscaler_silent: bool = False
    """Whether machines count here that cluster-autoscaler asked for before it fell silent."""
    unpaced_pools: tuple[str, ...] = ()
    """NodePools that Karpenter may order from for the throttle's nodes, and that no throttle's lever moves."""
    problem: str = ""
    """What went wrong when this decision or the last was written, in words; empty if nothing did."""


TEMPLATE_HASH = "karpenter.sh/nodepool-hash"
"""Karpenter's annotation: changes with every part of a pool's template that makes other machines."""
UNCOUNTED_S = 300.0
"""Joins that cannot be counted any more take part in the cluster's window for so long: most machines have booted and
joined by then, and one throttle's error must not hold the others for ever."""


@dataclass(frozen=True, kw_only=True)
class TickView:
    """Everything that a tick reads. `world.balloons_wanted` and `world.index` are filled in for each throttle."""

    world: JoinWorld
    scene: LeverScene
    signals: Mapping[str, Signals] = field(default_factory=dict)
    """By throttle: each names its own sources."""
    growth: tuple[PoolGrowth, ...] = ()
    missing: tuple[str, ...] = ()
    is_given_up: bool = False
    """Whether it has been incomplete for so long that nothing is held back any more: nobody else would let it go."""
    age_s: float = 0.0

    @cached_property
    def offer(self) -> Hashable:
        """What decides which machines an autoscaler can order, our own ceilings left out; only compared.

        Kept: each throttle asks for it, and there may be 2,000 NodePools.
        """
        groups = self.world.autoscaler.groups if self.world.autoscaler else ()
        return tuple(_of_pool(pool) for pool in self.scene.of(NodePool)), tuple(sorted(group.name for group in groups))

    @cached_property
    def static_pools(self) -> frozenset[str]:
        """The names of the static NodePools."""
        return frozenset(pool.metadata.name for pool in self.scene.of(NodePool) if pool.is_static)

    @property
    def may_move(self) -> bool:
        """Whether the view is complete and fresh."""
        return not self.missing and self.age_s <= STALE_VIEW_S


def _of_pool(pool: NodePool) -> bytes:
    """The pool's own words, with the user's limits; what comes of its provider's class shows in its conditions."""
    mark = read_saved(pool.metadata)
    limits = {**(pool.spec.limits or {}), **(mark.original if mark else {})}
    spec = msgspec.structs.replace(pool.spec, limits=limits)
    says = sorted((condition.type, condition.status) for condition in pool.status.conditions or ())
    return msgspec.json.encode((pool.metadata.name, spec, pool.metadata.annotations.get(TEMPLATE_HASH), says))


@dataclass(frozen=True, slots=True)
class LastJoins:
    """The joins of the last complete count: they load the servers on, also when the next count fails."""

    joins: Joins
    counted_s: float

    @classmethod
    def of(cls, joins: Joins, now_s: float) -> Self:
        """What is under way; a throttle that cannot be counted waits for nothing."""
        return cls(replace(joins, waiting=0, urgent=0), now_s)

    def are_counted(self, now_s: float) -> bool:
        """Whether they count as under way still."""
        return now_s - self.counted_s <= UNCOUNTED_S


@dataclass(frozen=True, slots=True)
class PaceLeft:
    """What is left of a throttle's own `pace.maxPerMinute`, in machines; without an end while nothing was taken."""

    to_order: float = math.inf
    to_let_in: float = math.inf

    def after(self, per_minute: int, last: LastJoins, joins: Joins, now_s: float) -> Self:
        """With what has come since the last count, and less what was ordered and let in since then."""
        per_s, elapsed_s, before = per_minute / 60.0, now_s - last.counted_s, last.joins
        to_order = Bucket(per_s=per_s, burst=max(1.0, ORDERED_WITHIN_S * per_s)).filled(self.to_order, elapsed_s)
        to_let_in = Bucket(per_s=per_s, burst=max(1.0, AT_ONCE_S * per_s)).filled(self.to_let_in, elapsed_s)
        let_in = joins.joining + joins.joined - before.joining - before.joined
        ordered = joins.in_flight + joins.joined + joins.lost - before.in_flight - before.joined - before.lost
        return type(self)(max(0.0, to_order - max(0, ordered)), max(0.0, to_let_in - max(0, let_in)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ThrottleMemory:
    """What one throttle remembers from tick to tick."""

    joins: JoinMemory = field(default_factory=JoinMemory)
    law: LawMemory = field(default_factory=LawMemory)
    levers: LeverMemory = field(default_factory=LeverMemory)
    last: LastJoins | None = None
    index: float | None = None
    room: int = 0
    """As of JoinWorld."""
    pace: PaceLeft = PaceLeft()


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What came of one throttle. `lane` is None where it holds nothing back."""

    stored: StoredThrottle
    findings: Findings
    lane: Lane | None = None

    @property
    def name(self) -> str:
        """The throttle's name."""
        return self.stored.metadata.name

    @property
    def verdict_followed(self) -> Verdict | None:
        """What the law decided; None as well while the throttle is paused: nothing is paced by it then."""
        is_paused = isinstance(self.stored, JoinThrottle) and self.stored.spec.paused
        return None if is_paused else self.findings.verdict

    @property
    def moves_levers(self) -> bool:
        """Whether it does: not while it is paused or in a dry run."""
        return isinstance(self.stored, JoinThrottle) and self.stored.acts

    @property
    def lever_writes(self) -> tuple[LeverWrite, ...]:
        """What all its levers ask for, each lever's in order."""
        return tuple(write for decision in self.findings.levers for write in decision.writes)

    @property
    def is_busy(self) -> bool:
        """Whether anything waits or is in flight."""
        return bool(self.findings.joins.waiting or self.findings.joins.in_flight)


Memories = Mapping[str, ThrottleMemory]
"""By the throttle's name."""


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Failure:
    """What went wrong with one throttle, in words."""

    words: str


def decide_throttles(
    stored: Sequence[StoredThrottle], view: TickView, memories: Memories
) -> tuple[tuple[Turn, ...], Memories]:
    """Decide for every throttle; one that cannot be read or fails never changes another's turn.

    `stored` comes oldest first: what several throttles select or name is the oldest one's. One that is paused or in a
    dry run takes nothing from one that acts, however old it is.
    """
    readable = (throttle for throttle in stored if isinstance(throttle, JoinThrottle))
    known = sorted(readable, key=lambda throttle: not throttle.acts)
    # Nobody can tell whose machines the autoscaler's groups boot while not all nodes are there.
    status = None if view.missing else view.world.autoscaler
    groups = share_groups(status, view.world.nodes.values(), known) if status else {}
    cases = {
        throttle.metadata.name: _case(throttle, known[:i], known, view, memories, groups)
        for i, throttle in enumerate(known)
    }
    counts = {name: _tried(partial(_count, case, view)) for name, case in cases.items()}
    now_s, signals = view.scene.moment.now_s, view.signals
    by_name = {name: result for name, result in counts.items() if not isinstance(result, _Failure)}
    # What was under way of throttles that cannot be counted now counts on for a while.
    uncounted = (one for name, one in cases.items() if name not in by_name)
    known_joins = [(cases[name], own.joins) for name, own in by_name.items()]
    known_joins += [(one, last.joins) for one in uncounted if (last := one.memory.last) and last.are_counted(now_s)]
    total = total_joins(_added(one, joins) for one, joins in known_joins)
    judged = {
        name: _tried(partial(govern, signals.get(name, Signals()), total, cases[name].memory.law, own.law, now_s))
        for name, own in by_name.items()
        if not view.missing
    }
    laws = {name: law for name, law in judged.items() if not isinstance(law, _Failure)}
    joins = _Joins(now_s, cases, by_name, laws)
    turns, after = [], {}
    for throttle in stored:
        if (case := cases.get(throttle.metadata.name)) is None:
            turns.append(Turn(stored=throttle, findings=Findings(now_s=now_s, missing=view.missing)))
            continue
        counted = counts[case.name]
        failure = next((one for one in (counted, judged.get(case.name)) if isinstance(one, _Failure)), None)
        result = _tried(partial(_turn, case, view, joins)) if failure is None else failure
        turn, memory = _failed(case, view, result) if isinstance(result, _Failure) else result
        turns.append(turn)
        if not isinstance(counted, _Failure):
            last = memory.last if view.missing else LastJoins.of(counted.joins, now_s)
            memory = replace(memory, joins=counted.memory, last=last, pace=counted.pace)
        after[turn.name] = memory
    return tuple(turns), after


def _tried(make: Callable[[], T]) -> T | _Failure:
    try:
        return make()
    except Exception as error:  # noqa: BLE001 - one throttle's error never changes another's turn
        return _Failure(f"deciding failed: {type(error).__name__}: {error}"[:MOST_ERROR_TEXT])


@dataclass(frozen=True, slots=True)
class _Case:
    """One throttle, taken apart; `growth` are the Headroom pools whose nodes it paces."""

    throttle: JoinThrottle
    rules: JoinRules
    growth: tuple[PoolGrowth, ...]
    memory: ThrottleMemory
    older: tuple[JoinThrottle, ...]
    groups: GroupsOf | None
    is_given_up: bool
    is_alone: bool
    covered_by: str
    """As of Findings. Such a throttle counts the joins of its nodes as if it were alone, and adds no machine to those
    of all."""
    held_by_older: frozenset[str]
    """Pods (by uid) that the gate of one holds which comes first: they are that one's to let go, and no demand here."""

    @property
    def name(self) -> str:
        """The throttle's name."""
        return self.throttle.metadata.name

    @property
    def is_idle(self) -> bool:
        """Whether the throttle is to give everything back: it decides and shows, and holds nothing."""
        return self.is_given_up or not self.throttle.acts


@dataclass(frozen=True, slots=True)
class _Counted:
    """One throttle's own joins. Where there are others, its bounds are held against these and leave it `may_order` and
    `may_let_in` more machines."""

    joins: Joins
    memory: JoinMemory
    at_once: frozenset[str] = frozenset()
    pilot: str = ""
    """Both as of LeverContext."""
    pace: PaceLeft = PaceLeft()
    law: LawSettings = field(default_factory=LawSettings)
    may_order: int = UNLIMITED
    may_let_in: int = UNLIMITED
    reserved: int = 0
    """Of the urgent ones that wait, those that find its reserved lane free."""

    @property
    def waiting(self) -> int:
        """What it may order of what waits."""
        return min(self.joins.waiting, self.may_order)

    @property
    def held(self) -> int:
        """What it may let in of what is held."""
        return min(self.joins.held, self.may_let_in)


@dataclass(frozen=True, slots=True)
class _Joins:
    """The joins of every throttle that could be counted, and what the laws say of the joins of all."""

    now_s: float
    cases: Mapping[str, _Case]
    by_name: Mapping[str, _Counted]
    judged: Mapping[str, tuple[Verdict, LawMemory]]
    """What each one's law says of all of them, and remembers; nothing while the view is incomplete."""

    def share(self, name: str, amount: int, *wants: Callable[[_Counted], int]) -> int:
        """One throttle's fair part; those that hold nobody back take none from others. The first of `wants` goes first.

        A full window gives one place at a time: what does not divide goes to each in turn, or the first of them would
        get all of it.
        """
        taking = {other: own for other, own in self.by_name.items() if self._takes_part(other, name)}
        names = sorted(taking)
        begin = _whose_turn(int(self.now_s // TURN_S), len(names))
        shares = dict.fromkeys((*names[begin:], *names[:begin]), 0)
        for want in wants:
            more = {other: want(taking[other]) - shares[other] for other in shares}
            for other, count in fair_shares(amount - sum(shares.values()), more, tuple(shares)).items():
                shares[other] += count
        return shares.get(name, 0)

    def of_common(
        self,
        name: str,
        amount: Callable[[Verdict], int],
        has: Callable[[Joins], int],
        *wants: Callable[[_Counted], int],
    ) -> int:
        """The same of what the laws allow now; `has` counts what the throttle has of that already.

        A smaller window than others' is full with their joins alone. Where they leave room for it, it bounds the
        throttle's own: a window that is fixed, or was made anew, would else get nothing for as long as they grow.
        """
        (verdict, _), own = self.judged[name], self.by_name[name]
        share = self.share(name, amount(verdict), *wants)
        if verdict.phase in (Phase.BRAKE, Phase.STALE):
            return share
        others = (amount(told) for other, (told, _) in self.judged.items() if not self.cases[other].is_idle)
        left = self.share(name, max(others, default=0), *wants)
        return max(share, min(left, int(verdict.window) - has(own.joins)))

    def pacing(self, name: str) -> list[JoinThrottle]:
        """This throttle, and all others that hold somebody back."""
        return [case.throttle for other, case in self.cases.items() if other == name or not case.is_idle]

    def _takes_part(self, other: str, name: str) -> bool:
        """Whether a throttle counts in what `name` is given: a dry run changes nothing for the others."""
        case = self.cases[other]
        holds_back = not case.is_idle and (case.growth or case.throttle.spec.levers.are_any)
        return bool(holds_back) or (other == name and not case.throttle.spec.paused)


def _whose_turn(turn: int, count: int) -> int:
    """Which of so many comes first: each once in a round, and in another order in the next, by the digits of `turn`.

    A throttle's own levers take turns at the same pace. In step with them one of its pools would get all of its turns.
    """
    digits = 0
    while count > 1 and turn > 0:
        turn, digit = divmod(turn, count)
        digits += digit
    return digits % max(1, count)


def _case(
    throttle: JoinThrottle,
    older: Sequence[JoinThrottle],
    known: Sequence[JoinThrottle],
    view: TickView,
    memories: Memories,
    groups: Mapping[str, GroupsOf],
) -> _Case:
    """Nodes and pools that a throttle selects which comes first (`older`) are that throttle's."""
    growth = tuple(
        pool
        for pool in view.growth
        if not are_disjoint(throttle.spec.nodes, pool.selector)
        and all(are_disjoint(other.spec.nodes, pool.selector) for other in older)
    )
    name = throttle.metadata.name
    memory = memories.get(name) or _first_memory(throttle, view)
    rules = JoinRules.of(throttle, PACED_GATE, older, view.world.daemon_sets)
    if len(known) > 1:
        rules = replace(rules, nodes=throttle.spec.paced_nodes, older=tuple(other.spec.paced_nodes for other in older))
    # What one lets go of waits under another's ceiling: taken for ordered, it would fill the window that it waits for.
    ceilings = (other.spec.nodes for other in known if other.acts and other.spec.levers.has_ceiling)
    has_ceiling = rules.has_ceiling or not all(are_disjoint(nodes, throttle.spec.nodes) for nodes in ceilings)
    rules, own = replace(rules, has_ceiling=has_ceiling), {*requirements(rules.nodes)}
    covering = (other.metadata.name for other in older if own.issuperset(requirements(other.spec.paced_nodes)))
    covered_by, status = next(covering, ""), view.world.autoscaler
    if covered_by and groups and status:
        groups = share_groups(status, view.world.nodes.values(), [throttle])
    held = [pod for pod in view.scene.unplaced if is_held(pod)] if rules.gate else []
    free = {pod.uid for pod in SCHEDULING_GATES.free_of(older, held)}
    return _Case(
        throttle,
        rules,
        growth,
        memory,
        tuple(older),
        groups.get(name),
        view.is_given_up,
        is_alone=len(known) == 1,
        covered_by=covered_by,
        held_by_older=frozenset(pod.uid for pod in held if pod.uid not in free),
    )


def _first_memory(throttle: JoinThrottle, view: TickView) -> ThrottleMemory:
    """What the last process wrote down."""
    wall = datetime.fromtimestamp(view.scene.moment.wall_s, UTC)
    return ThrottleMemory(law=LawMemory.start(learned_of_status(throttle.status.learned, wall)))


def _count(case: _Case, view: TickView) -> _Counted:
    """The throttle's own joins; while the view is incomplete nothing is counted, and nothing forgotten."""
    if view.missing:
        return _Counted(Joins(), case.memory.joins, pace=case.memory.pace)
    wanted = sum(pool.lacking for pool in case.growth)
    gates, at_once = SCHEDULING_GATES.remembered(case.memory.levers), frozenset[str]()
    scene = _without(view.scene, case.held_by_older)
    holds_pods = case.rules.gate and not case.is_idle
    if holds_pods:
        no_demand = case.memory.joins.search.hopeless | case.memory.joins.served
        at_once = SCHEDULING_GATES.at_once(case.rules, _without(scene, no_demand), gates)
    world = replace(
        view.world,
        unplaced=scene.unplaced,
        balloons_wanted=wanted,
        index=case.memory.index,
        room=case.memory.room,
        at_a_time=min(case.memory.law.window or UNLIMITED, case.throttle.spec.max_in_flight or UNLIMITED),
        offer=view.offer,
        static_pools=view.static_pools,
        released=gates.released,
        at_once=at_once,
        autoscaler=case.groups.status if case.groups else None,
    )
    now_s, spec = view.scene.moment.now_s, case.throttle.spec
    # What is held on nodes of an older throttle is held by that one's levers.
    rules = replace(case.rules, older=(), taint_key="", label=None) if case.covered_by else case.rules
    joins, memory = count_joins(world, case.memory.joins, rules, now_s)
    pilot = ""
    waiting = memory.released - memory.search.hopeless - memory.served - at_once
    if holds_pods and memory.search.is_unanswered(waiting):
        pilot = SCHEDULING_GATES.pilot(case.rules, _without(scene, at_once), gates, memory.released)
        joins = replace(joins, urgent=max(joins.urgent, 1 if pilot else 0))
    may_order, may_let_in, pace, law = UNLIMITED, UNLIMITED, PaceLeft(), law_settings(spec, view.world.daemon_sets)
    if not case.is_alone:
        law = replace(law, max_in_flight=UNLIMITED, max_per_min=None)
        may_order = max(0, (spec.max_in_flight or UNLIMITED) - joins.in_flight)
        if spec.pace.max_per_minute is not None:
            last = case.memory.last or LastJoins.of(joins, now_s)
            pace = case.memory.pace.after(spec.pace.max_per_minute, last, joins, now_s)
            may_order, may_let_in = min(may_order, int(pace.to_order)), int(pace.to_let_in)
    reserved = max(0, min(joins.urgent, spec.reserved.nodes - joins.in_flight, may_order))
    return _Counted(joins, memory, at_once, pilot, pace, law, may_order, may_let_in, reserved)


def _without(scene: LeverScene, pods: Container[str]) -> LeverScene:
    """The scene less these pods without a node."""
    return replace(scene, unplaced=tuple(pod for pod in scene.unplaced if pod.uid not in pods)) if pods else scene


def _added(case: _Case, joins: Joins) -> Joins:
    """What of one throttle's joins adds to those of the others: each machine counts once."""
    if not case.covered_by:
        return joins
    let_go = 0 if case.rules.has_ceiling else joins.released
    return Joins(waiting=joins.waiting, urgent=joins.urgent, hopeless_pods=joins.hopeless_pods, booting=let_go)


def _turn(case: _Case, view: TickView, joins: _Joins) -> tuple[Turn, ThrottleMemory]:
    now_s, memory = view.scene.moment.now_s, case.memory
    signals, own = view.signals.get(case.name, Signals()), joins.by_name[case.name]
    verdict = None
    if case.name in joins.judged:
        verdict, law = joins.judged[case.name]
        asked = joins.of_common(
            case.name,
            lambda verdict: verdict.allowance,
            lambda own: own.in_flight,
            lambda own: own.reserved,
            lambda own: own.waiting,
        )
        allowance = asked if view.may_move else 0
        memory = replace(memory, law=law, index=verdict.index)
        spare = min(verdict.spare, own.may_order - allowance)
        verdict = replace(verdict, allowance=allowance, spare=spare)
    room = _room(case, view, verdict, joins)
    # A lever that hands back lets all pods go, and what a gate holds in vain is among them.
    no_demand = frozenset() if case.is_idle else own.memory.search.hopeless | own.memory.served
    scene = _without(view.scene, no_demand | case.held_by_older)
    context = LeverContext(
        throttle=case.throttle,
        rules=case.rules,
        scene=scene,
        room=room,
        joins=own.joins,
        machines=case.memory.joins.machines,
        growth=case.growth,
        older=case.older,
        at_once=own.at_once,
        in_vain=tuple(pod for pod in view.scene.unplaced if pod.uid in no_demand and is_held(pod)) if no_demand else (),
        pilot=own.pilot,
        paces_both=paces_both(case.throttle, view.scene),
    )
    decisions, levers = decide_levers(context, memory.levers)
    findings = Findings(
        now_s=now_s,
        verdict=verdict,
        joins=own.joins,
        signals=signals,
        levers=decisions,
        learned=learned_of(memory.law, now_s),
        missing=view.missing,
        is_given_up=view.is_given_up,
        guessed_groups=case.groups.guessed if case.groups else (),
        covered_by=case.covered_by,
        unpaced_pools=unpaced_pools(view.scene.of(NodePool), case.throttle, joins.pacing(case.name)),
        is_autoscaler_silent=bool(own.joins.booting_by_groups) and _is_silent(case, view),
    )
    gates = SCHEDULING_GATES.remembered(levers)
    let_go = (gates.released - SCHEDULING_GATES.remembered(memory.levers).released) | gates.at_once
    taken = nodes_of((pod for pod in scene.unplaced if pod.uid in let_go), context.machines)
    taken += own.joins.released if case.rules.has_ceiling else 0
    turn = Turn(stored=case.throttle, findings=findings, lane=_lane(case, room, taken))
    return turn, replace(memory, levers=levers, room=_usable(room, case, view, findings.levers))


def _usable(room: LeverBudget, case: _Case, view: TickView, decisions: Iterable[LeverDecision]) -> int:
    """What the autoscaler may order until the next look; nothing while it is not seen to have taken up a ceiling."""
    is_unknown = any(decision.state in (LeverState.PENDING, LeverState.UNCONFIRMED) for decision in decisions)
    return 0 if is_unknown or not room.may_move or _is_silent(case, view) else room.allowance + room.spare


def _is_silent(case: _Case, view: TickView) -> bool:
    return case.groups is not None and case.groups.status.is_old(view.scene.moment.wall_s)


def _room(case: _Case, view: TickView, verdict: Verdict | None, joins: _Joins) -> LeverBudget:
    own = joins.by_name[case.name].joins
    allowance = verdict.allowance if verdict else 0
    spare = joins.share(case.name, verdict.spare, lambda _: verdict.spare) if verdict else 0
    # More than the window in pods that fit nowhere must not all start at once on the day when they fit.
    hopeless = own.hopeless if own.hopeless > allowance + spare else 0
    admit = 0
    if verdict:
        admit = joins.of_common(case.name, lambda told: told.admit, lambda own: own.joining, lambda own: own.held)
    return LeverBudget(
        existing=own.registered,
        booting=own.booting,
        allowance=allowance,
        spare=spare,
        # A mark that keeps nothing of a join back goes from every node that bears it.
        admit=admit if case.rules.holds_joins else own.registered,
        waiting=own.waiting or hopeless,
        may_move=view.may_move,
        is_stopping=case.is_idle,
    )


def _lane(case: _Case, room: LeverBudget, taken: int = 0) -> Lane | None:
    """What gates have left of the allowance: pods that they let go have `taken` so many nodes of it.

    Where no ceiling bounds the autoscaler, it orders for a balloon that waits whatever the window is.
    """
    if case.is_idle:
        return None
    may_order = room.may_move and room.allowance + room.spare > 0
    is_shut = case.rules.has_ceiling and not may_order and not room.booting
    if not case.throttle.spec.levers.headroom:
        return Lane(case.throttle.spec.nodes, None, is_shut)
    nodes, granted = case.throttle.spec.nodes, sum(pool.granted for pool in case.growth)
    # Balloons that an earlier allowance let out: of these, as many as nodes are waited for at all may still have no
    # machine on its way.
    free = max(0, room.allowance - taken - min(granted, room.waiting))
    return Lane(nodes, free, is_shut)


def _failed(case: _Case, view: TickView, failure: _Failure) -> tuple[Turn, ThrottleMemory]:
    """A throttle that could not be decided: nothing is written for it, and its pools start nothing new."""
    findings = Findings(now_s=view.scene.moment.now_s, missing=view.missing, problem=failure.words)
    return Turn(stored=case.throttle, findings=findings, lane=_lane(case, NOTHING_MOVES)), case.memory
