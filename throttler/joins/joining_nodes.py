"""The registered nodes of a throttle, and where on its way to being usable each of them is.

The stage is told by the Node and by the DaemonSet pods on it: which DaemonSets want a pod there, and which of those
pods run. Only nodes that were not usable yet at the last count are looked at. The labels of all others are looked at
once a minute: there may be 100,000 of them, and labels rarely change.
"""

import enum
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from math import inf

from throttler.joins.join_memory import NONE_YET, JoinMemory
from throttler.joins.joins import NO_PODS, JoinRules, JoinWorld
from throttler.kube.daemon_set import DaemonSet, wants_daemon
from throttler.kube.node import KARPENTER_POOL_LABEL, Node, group_of
from throttler.kube.pod import Pod, PodKind
from throttler.kube.taints import UNREGISTERED_TAINT, Taint, is_joining_taint

STUCK_S = 300.0
"""A Ready node whose DaemonSet pods still do not run by then joins no more: nobody can pull their image, they do not
fit on it, or a quota refuses them. Its kubelet's start-up is over, and it must not hold a place in the window until its
kill timer."""
VAIN_S = 1800.0
"""For so long no join waits for a DaemonSet that one on the same kind of node has waited for in vain."""
LATE_JOINS, LEAST_JOIN_S = 5.0, 180.0
"""A join is late after so many usual ones of its pool, and never before so many seconds."""


class Stage(enum.Enum):
    """A registered node's stage; exactly one holds."""

    HELD = "kept back by a lever at the join"
    UNREADY = "registered, not Ready or not let in by others"
    WITHOUT_DAEMONS = "Ready, and DaemonSet pods do not exist there yet"
    STARTING_DAEMONS = "Ready, and DaemonSet pods are starting there"
    USABLE = "Ready, and its DaemonSet pods run"

    __hash__ = object.__hash__


Awaited = tuple[str, str, str]
"""A DaemonSet (by uid) on a kind of node: their group, and their type."""


@dataclass(frozen=True, slots=True)
class ExpectedDaemons:
    """Which DaemonSets want a pod on a node, asked once per combination of taints and of labels that any of them reads.

    Thousands of nodes share a handful of combinations. Those that were waited for `in_vain` are left out.
    """

    daemon_sets: tuple[DaemonSet, ...]
    keys: tuple[str, ...]
    in_vain: Collection[Awaited]
    known: dict[tuple[tuple[Taint, ...], tuple[str | None, ...]], tuple[DaemonSet, ...]]

    @classmethod
    def by(cls, daemon_sets: tuple[DaemonSet, ...], in_vain: Collection[Awaited] = ()) -> "ExpectedDaemons":
        """For these DaemonSets."""
        keys = sorted(set[str]().union(*(daemon_set.label_keys for daemon_set in daemon_sets)))
        return cls(daemon_sets, tuple(keys), in_vain, {})

    def on(self, node: Node, taints: tuple[Taint, ...]) -> tuple[DaemonSet, ...]:
        """The DaemonSets whose pods the node is to run once it has only these taints."""
        wanted = self._wanted(node, taints)
        if not self.in_vain:
            return wanted
        return tuple([daemon_set for daemon_set in wanted if _awaited(daemon_set.uid, node) not in self.in_vain])

    def _wanted(self, node: Node, taints: tuple[Taint, ...]) -> tuple[DaemonSet, ...]:
        read = taints, tuple([node.labels.get(key) for key in self.keys])
        expected = self.known.get(read)
        if expected is None:
            expected = self.known[read] = tuple(
                daemon_set for daemon_set in self.daemon_sets if wants_daemon(daemon_set, node, taints)
            )
        return expected


def _awaited(uid: str, node: Node) -> Awaited:
    return uid, group_of(node.labels), node.instance_type


def stage_of(node: Node, world: JoinWorld, rules: JoinRules, wanted: ExpectedDaemons) -> Stage:
    """The one stage that holds; earlier cases win."""
    if is_held(node, rules):
        return Stage.HELD
    if not node.is_ready or any(is_joining_taint(taint) for taint in node.taints):
        return Stage.UNREADY
    return _by_daemons(wanted.on(node, node.taints), world.pods.get(node.name, NO_PODS))


def is_held(node: Node, rules: JoinRules) -> bool:
    """Whether a lever at the join keeps the node back."""
    if any(taint.key == rules.taint_key for taint in node.taints):
        return True
    # Another value is its owner's decision, which the lever never changes: such a node would be held for ever.
    return rules.label is not None and rules.label.key not in node.labels


def _by_daemons(expected: tuple[DaemonSet, ...], pods: Iterable[Pod]) -> Stage:
    runs = _running(pods)
    if any(daemon_set.uid not in runs for daemon_set in expected):
        return Stage.WITHOUT_DAEMONS
    return Stage.USABLE if all(runs[daemon_set.uid] for daemon_set in expected) else Stage.STARTING_DAEMONS


def _running(pods: Iterable[Pod]) -> dict[str, bool]:
    """Owners (by uid) of the pods of a node, and whether theirs runs."""
    return {pod.owner.uid: pod.is_running for pod in pods if pod.owner is not None and not pod.is_terminating}


LABELS_KEPT_S = 60.0
"""A node that is given, or loses, the throttle's labels after its join changes sides so much later at most."""

_JOINING = (Stage.UNREADY, Stage.WITHOUT_DAEMONS, Stage.STARTING_DAEMONS)


@dataclass(slots=True)
class Registered:
    """Nodes by stage, and what has become of those that left since the last count."""

    by_stage: dict[Stage, list[Node]] = field(default_factory=lambda: {stage: [] for stage in Stage})
    settled_before: frozenset[str] = frozenset()
    foreign_before: frozenset[str] = frozenset()
    """What is left of those that had settled at the last count."""
    labels_until_s: float = float("-inf")
    """As of JoinMemory."""
    newly_settled: set[str] = field(default_factory=set)
    newly_foreign: set[str] = field(default_factory=set)
    created_s: dict[str, float] = field(default_factory=dict)
    let_in_s: dict[str, float] = field(default_factory=dict)
    ready_s: dict[str, float] = field(default_factory=dict)
    joined_in_s: list[float] = field(default_factory=list)
    """How long each join took that has ended since."""
    usable: list[str] = field(default_factory=list)
    """Names of the nodes that have become usable since."""
    came: list[tuple[str, float, float]] = field(default_factory=list)
    """The same with each one's pool, and since when it had loaded the API servers; without those that are stuck."""
    in_vain_s: dict[Awaited, float] = field(default_factory=dict)
    made_s: dict[Awaited, float] = field(default_factory=dict)
    """Both as of JoinMemory."""
    late: int = 0
    """Of the joining ones (joins/join_memory.py)."""
    timely_s: list[float] = field(default_factory=list)
    """Since when each of the others has loaded the API servers."""
    given_up: int = 0
    heard_of: int = 0
    """How many nodes had not registered at the last count."""
    ordered_by_groups_s: list[float] = field(default_factory=list)
    """When nodes that are not Karpenter's and are looked at for the first time registered, by the wall clock."""

    @property
    def settled(self) -> frozenset[str]:
        """All whose join has ended."""
        return self.settled_before | self.newly_settled if self.newly_settled else self.settled_before

    @property
    def foreign(self) -> frozenset[str]:
        """All that are not the throttle's."""
        return self.foreign_before | self.newly_foreign if self.newly_foreign else self.foreign_before

    @property
    def held(self) -> list[Node]:
        """Kept back by a lever of ours."""
        return self.by_stage[Stage.HELD]

    @property
    def in_joining(self) -> list[Node]:
        """Let in and not usable yet."""
        return [node for stage in _JOINING for node in self.by_stage[stage]]

    @property
    def joining(self) -> int:
        """How many of those there are."""
        return sum(len(self.by_stage[stage]) for stage in _JOINING)

    @property
    def unmatched(self) -> int:
        """Nodes that Karpenter has not matched with their NodeClaims, nor can we: no cloud has named them yet."""
        nodes = (node for of_stage in self.by_stage.values() for node in of_stage if not node.provider_id)
        return sum(1 for node in nodes if any(taint.key == UNREGISTERED_TAINT for taint in node.taints))


def sort_nodes(world: JoinWorld, memory: JoinMemory, rules: JoinRules, now_s: float) -> Registered:
    """Look at every node whose join had not ended."""
    settled, foreign = memory.settled, memory.foreign
    fresh = [node for node in world.nodes.values() if node.uid not in settled and node.uid not in foreign]
    registered = Registered(labels_until_s=memory.labels_until_s)
    if now_s >= memory.labels_until_s:
        registered.settled_before, registered.foreign_before = _by_label(world.nodes.values(), settled | foreign, rules)
        registered.labels_until_s = now_s + LABELS_KEPT_S
    else:
        registered.settled_before, registered.foreign_before = _still_there(world.nodes, memory, len(fresh))
    registered.in_vain_s = {awaited: at_s for awaited, at_s in memory.in_vain_s.items() if now_s - at_s < VAIN_S}
    registered.made_s = {awaited: at_s for awaited, at_s in memory.made_s.items() if now_s - at_s <= STUCK_S}
    wanted = ExpectedDaemons.by(world.daemon_sets, frozenset(registered.in_vain_s))
    before = _Before(world, memory, rules, now_s, wanted, frozenset(registered.made_s))
    for node in fresh:
        if rules.selects(node.labels):
            _follow(node, before, registered)
        elif node.is_ready and not any(is_joining_taint(taint) for taint in node.taints):
            # Only now its labels are final: Karpenter may add some when it matches Node and NodeClaim.
            registered.newly_foreign.add(node.uid)
    return registered


def _by_label(nodes: Iterable[Node], known: frozenset[str], rules: JoinRules) -> tuple[frozenset[str], frozenset[str]]:
    """The nodes that need no look any more, by whether they are the throttle's: who changes sides does not join."""
    keys, selected = rules.label_keys, dict[tuple[str | None, ...], bool]()
    ours, others = set[str](), set[str]()
    for node in nodes:
        if node.uid in known:
            read = tuple([node.labels.get(key) for key in keys])
            if read not in selected:
                selected[read] = rules.selects(node.labels)
            (ours if selected[read] else others).add(node.uid)
    return frozenset(ours), frozenset(others)


def _still_there(nodes: Mapping[str, Node], memory: JoinMemory, fresh: int) -> tuple[frozenset[str], frozenset[str]]:
    if len(memory.settled) + len(memory.foreign) == len(nodes) - fresh:
        return memory.settled, memory.foreign
    uids = {node.uid for node in nodes.values()}
    return memory.settled.intersection(uids), memory.foreign.intersection(uids)


@dataclass(frozen=True, slots=True)
class _Before:
    """What is known when one node is looked at."""

    world: JoinWorld
    memory: JoinMemory
    rules: JoinRules
    now_s: float
    wanted: ExpectedDaemons
    made_lately: frozenset[Awaited]
    """Of which a pod was made within STUCK_S."""

    @property
    def is_first(self) -> bool:
        """Whether nothing was counted before: what is usable now joined at some other time."""
        return not self.memory.nodes

    def created_s(self, node: Node) -> float:
        """When the node registered, on the monotonic clock; its age is read off the wall clock once."""
        known = self.memory.created_s.get(node.uid)
        return known if known is not None else self.memory.first_s(node.created_s, self.world.wall_s, self.now_s)

    def let_in_s(self, node: Node, created_s: float) -> float:
        """Since when it has loaded the API servers: from its registration, or from its release."""
        was_held = node.uid in self.memory.created_s
        return self.memory.let_in_s.get(node.uid, self.now_s if was_held else created_s)


def _follow(node: Node, before: _Before, registered: Registered) -> None:
    """One node of the throttle: counted in its stage, or settled."""
    created_s = before.created_s(node)
    if node.uid not in before.memory.created_s:
        registered.heard_of += 1
        registered.ordered_by_groups_s += [] if KARPENTER_POOL_LABEL in node.labels else [node.created_s]
    if node.is_deleting or (before.is_first and _is_past(node, before.now_s - created_s, before.rules)):
        registered.newly_settled.add(node.uid)
        return
    stage = stage_of(node, before.world, before.rules, before.wanted)
    if stage is Stage.USABLE and before.is_first:
        registered.newly_settled.add(node.uid)
    elif stage is Stage.HELD:
        registered.by_stage[stage].append(node)
        registered.created_s[node.uid] = created_s
    else:
        _follow_join(node, stage, created_s, before, registered)


def _waits_in_vain(node: Node, before: _Before, registered: Registered) -> bool:
    """Whether pods that lack on a node are made on no other one like it either, while other ones are made.

    Where none is made anywhere the controller manager may be away, and will make all of them at once when it is back.
    Where they are made on others it has too much to do.
    """
    runs = _running(before.world.pods.get(node.name, NO_PODS))
    expected = before.wanted.on(node, node.taints)
    lacking = [_awaited(daemon_set.uid, node) for daemon_set in expected if daemon_set.uid not in runs]
    is_nothing_made = len(lacking) == len(expected) and not before.made_lately
    if is_nothing_made or not before.made_lately.isdisjoint(lacking):
        return False
    registered.in_vain_s |= dict.fromkeys(lacking, before.now_s)
    return True


def _note_made(node: Node, before: _Before, registered: Registered) -> None:
    for pod in before.world.pods.get(node.name, NO_PODS):
        if pod.kind is PodKind.DAEMON and pod.owner is not None:
            awaited = _awaited(pod.owner.uid, node)
            at_s = before.now_s - max(0.0, before.world.wall_s - pod.created_s)
            registered.made_s[awaited] = max(at_s, registered.made_s.get(awaited, -inf))


def _is_past(node: Node, age_s: float, rules: JoinRules) -> bool:
    """Whether a node seen for the first time after a start is too old to be a join, whatever it looks like."""
    return age_s > rules.kill_timer_s and not any(taint.key == rules.taint_key for taint in node.taints)


def _follow_join(node: Node, stage: Stage, created_s: float, before: _Before, registered: Registered) -> None:
    let_in_s, pool = before.let_in_s(node, created_s), node.labels.get(KARPENTER_POOL_LABEL, "")
    waits_for_daemons = stage in (Stage.WITHOUT_DAEMONS, Stage.STARTING_DAEMONS)
    ready_s = before.memory.ready_s.get(node.uid, before.now_s)
    _note_made(node, before, registered)
    is_stuck = waits_for_daemons and before.now_s - ready_s > STUCK_S
    if is_stuck and stage is Stage.WITHOUT_DAEMONS:
        is_stuck = _waits_in_vain(node, before, registered)
    if stage is Stage.USABLE or is_stuck:
        registered.newly_settled.add(node.uid)
        registered.joined_in_s.append((ready_s if is_stuck else before.now_s) - let_in_s)
        if not is_stuck:
            registered.usable.append(node.name)
            registered.came.append((pool, let_in_s, before.now_s - let_in_s))
    elif before.now_s - let_in_s > before.rules.kill_timer_s:
        registered.newly_settled.add(node.uid)
        registered.given_up += 1
    else:
        registered.by_stage[stage].append(node)
        registered.created_s[node.uid] = created_s
        registered.let_in_s[node.uid] = let_in_s
        usual = before.memory.usual_joins.get(pool, NONE_YET)
        if usual.is_late(let_in_s, before.now_s, LATE_JOINS, LEAST_JOIN_S):
            registered.late += 1
        else:
            registered.timely_s.append(let_in_s)
        if waits_for_daemons:
            registered.ready_s[node.uid] = ready_s
