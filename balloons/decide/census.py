"""What each node of a pool is: busy, warm, idle, on its way, or not to be had, and why.

How long nodes have been on their way, on a clock that nobody can set. A node's age is read off the wall clock once,
when it is first seen not Ready; from then on only monotonic time counts, so that a step of the wall clock turns no
joining node into a sick one.
"""

import enum
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import inf
from types import MappingProxyType

from balloons.api.pool import BalloonPool, NotWarmTaint, Strategy, ZoneStatus
from balloons.view.index_and_snapshot import Now
from balloons.view.node_load_and_devices import NodeLoad
from balloons.view.shape_and_balloon_size import Kind
from balloons.view.tenancy_and_claim import LoadedNode
from throttler.kube.node import Node, is_kept
from throttler.kube.pod import Pod
from throttler.kube.quantities_and_durations import Resources, parse_duration
from throttler.kube.taints import Taint, Toleration, is_joining_taint, is_marked_to_leave, untolerated

JOIN_LIMIT_S = 900.0
"""A node that is not Ready this long after its creation is sick, not joining (both autoscalers' own limit)."""
PREFLIGHT_LIMIT_S = 3600.0
"""A preflight test that lasts longer has failed: the node is sick, and Headroom asks for another one."""
END_LIMIT_S = 30.0
"""A balloon ends at once. One that was told to this long ago waits for a kubelet or a finalizer, perhaps for ever, and
work that was given its node should have another one while its turn lasts."""
CLOCKS_DIFFER_S = 60.0
"""How far the clock that dated a node's condition is taken to be behind ours, at most."""


@dataclass(frozen=True, slots=True)
class Unready:
    """A node that is not Ready: when it may be taken to have begun to join, and since when that was seen; monotonic
    seconds, or how long ago that was, as `ages_s` gives them."""

    joining_s: float
    seen_s: float


def unready_since(
    nodes: Iterable[Node], before: Mapping[str, Unready], now: Now, *, is_first: bool
) -> dict[str, Unready]:
    """Since when each node that is not Ready is so, by uid: one that was made anew under the same name begins anew.

    A first decision believes the date of the condition, where it has one: the node may have stopped seconds ago, or
    have been so for ever.
    """
    unready: dict[str, Unready] = {}
    for node in nodes:
        if not node.is_ready:
            is_dated = is_first and node.unready_s > 0.0
            seen_s = _moment(node.unready_s + CLOCKS_DIFFER_S, now) if is_dated else now.monotonic_s
            unready[node.uid] = before.get(node.uid) or Unready(_moment(node.created_s, now), seen_s)
    return unready


def _moment(wall_s: float, now: Now) -> float:
    """The same on the monotonic clock; what is still to come is now."""
    return now.monotonic_s - max(0.0, now.wall.timestamp() - wall_s)


def ages_s(since: Mapping[str, Unready], now: Now) -> dict[str, Unready]:
    """How long ago that was, in seconds."""
    now_s = now.monotonic_s
    return {uid: Unready(now_s - unready.joining_s, now_s - unready.seen_s) for uid, unready in since.items()}


class NodeState(enum.Enum):
    """A node's part in warm capacity; exactly one holds."""

    BUSY = "runs work beside which no balloon has room"
    WARM = "Ready, healthy and held; what runs there leaves the balloon its room"
    IDLE = "could be held and is not, or its balloon does not run yet"
    SCAVENGED = "filled with work that balloons do not preempt"
    JOINING = "registered, not Ready or not initialised yet"
    PREFLIGHT = "Ready, but a preflight taint says not warm yet"
    SICK = "not Ready, or a health condition says so"
    CLOSED = "cordoned, about to be removed, or tainted against balloons"

    # Members are singletons; the default hashes their name in Python, four times per node of every decision.
    __hash__ = object.__hash__


# Looking a member up by its name costs as much as judging a tenth of a node does.
_BALLOON, _WARM, _IDLE = Strategy.BALLOON, NodeState.WARM, NodeState.IDLE
_MEASURED = frozenset({NodeState.WARM, NodeState.IDLE, NodeState.BUSY, NodeState.SCAVENGED})


@dataclass(frozen=True, slots=True)
class Rules:
    """A pool's view on nodes, taken apart once per decision.

    `unready` says how long ago nodes began to join and were first seen not Ready; where it says nothing, their age at
    `wall_s` (seconds since the epoch) counts. One that was Ready until `grace_s` ago is expected back.
    """

    wall_s: float
    tolerations: tuple[Toleration, ...]
    not_warm_taints: tuple[NotWarmTaint, ...]
    not_warm_conditions: frozenset[tuple[str, str]]
    strategy: Strategy
    grace_s: float
    unready: Mapping[str, Unready]
    _judged: dict[int, tuple[bool, NodeState | None]] = field(default_factory=dict)
    """What a set of taints means, once judged, by its identity: thousands of nodes share a handful of them."""

    @classmethod
    def of(cls, pool: BalloonPool, wall_s: float, unready: Mapping[str, Unready] = MappingProxyType({})) -> "Rules":
        """The rules of one pool."""
        nodes = pool.spec.nodes
        conditions = frozenset((c.type, c.status) for c in nodes.not_warm.conditions)
        grace_s = parse_duration(nodes.not_ready_grace)
        return cls(wall_s, nodes.tolerations, nodes.not_warm.taints, conditions, pool.spec.strategy, grace_s, unready)

    def state_of(self, node: Node, load: NodeLoad) -> NodeState:
        """The one state that holds; earlier cases win. Work that leaves a balloon its room changes nothing."""
        balloons, is_shared = load.balloons, load.work or load.scavengers
        is_taken = is_shared and (not balloons or _is_crowded(node, load, balloons[0].requests))
        if is_taken and load.work:
            return NodeState.BUSY
        taints = node.taints
        is_marked, barred = (self._judged.get(id(taints)) or self._judge(taints)) if taints else _FREE
        if is_marked or node.is_cordoned or node.is_deleting:
            return NodeState.CLOSED
        if not node.is_ready:
            since = self.unready.get(node.uid) or Unready(self.wall_s - node.created_s, inf)
            is_expected = since.joining_s < JOIN_LIMIT_S or since.seen_s < self.grace_s
            return NodeState.JOINING if is_expected else NodeState.SICK
        if not self.not_warm_conditions.isdisjoint(node.conditions):
            return NodeState.SICK
        if node.is_uninitialized and barred is not NodeState.PREFLIGHT:
            # A taint that closes it may be one of its NodePool's startup taints, whatever its name is.
            return NodeState.JOINING
        if barred is not None:
            return barred
        if is_taken:
            return NodeState.SCAVENGED
        # Nearly every node ends here: not a call more than it takes.
        if self.strategy is _BALLOON:
            is_held = bool(balloons) and (balloons[0].is_running or any(balloon.is_running for balloon in balloons[1:]))
        else:
            # By an annotation, or (a buffer's room) by the autoscaler itself.
            is_held = self.strategy is Strategy.CAPACITY_BUFFER or is_kept(node)
        return _WARM if is_held else _IDLE

    def _judge(self, taints: tuple[Taint, ...]) -> tuple[bool, NodeState | None]:
        """Whether an autoscaler is about to remove nodes with these taints, and what else keeps balloons off them."""
        judged = self._judged[id(taints)] = is_marked_to_leave(taints), self._barred(taints)
        return judged

    def _barred(self, taints: tuple[Taint, ...]) -> NodeState | None:
        if any(own.is_on(taint) for own in self.not_warm_taints for taint in taints):
            return NodeState.PREFLIGHT
        taint = untolerated(taints, self.tolerations)
        if taint is None:
            return None
        return NodeState.JOINING if is_joining_taint(taint) else NodeState.CLOSED


_FREE = (False, None)
"""What the taints of a node without any mean."""


def is_awaited(node: Node) -> bool:
    """Whether the autoscaler itself waits for a node in preflight, and so buys no other one for what will fit there.

    Karpenter waits until the node's startup taints are gone, cluster-autoscaler by the name of the taint.
    """
    return node.is_uninitialized or any(map(is_joining_taint, node.taints))


_ITS_OWN_SLOT = ("pods", 1000)
"""What every pod takes besides its requests: a kubelet runs so many pods and no more, however small they are."""


def has_room(node: Node, load: NodeLoad, requests: Resources) -> bool:
    """Whether a pod with these requests fits on the node beside everything there that is no balloon.

    Nothing does beside work that claims devices: how many it leaves is not known, and it may ask for no cpu at all.
    """
    allocatable, daemons, others = node.allocatable, load.daemons, load.others
    return not load.claims_devices and all(
        milli + daemons.get(name, 0) + others.get(name, 0) <= allocatable.get(name, 0)
        for name, milli in (*requests.items(), _ITS_OWN_SLOT)
    )


def _is_crowded(node: Node, load: NodeLoad, requests: Resources) -> bool:
    """Whether work takes something of which too little is left for these requests; what the node itself lacks, such as
    a device that is broken, is not the doing of whoever looks at it with a debug pod. Whoever claims devices has taken
    them, however little else it asks for."""
    allocatable, daemons, others = node.allocatable, load.daemons, load.others
    return load.claims_devices or any(
        requests[name] + daemons.get(name, 0) + milli > allocatable.get(name, 0)
        for name, milli in others.items()
        if milli and name in requests
    )


@dataclass(slots=True)
class Census:
    """A pool's nodes by state."""

    by_state: dict[NodeState, list[Node]] = field(default_factory=lambda: {state: [] for state in NodeState})
    balloons: dict[NodeState, list[Pod]] = field(default_factory=lambda: {state: [] for state in NodeState})
    """The balloons on the nodes of each state."""
    measured: dict[Kind, list[LoadedNode]] = field(default_factory=lambda: defaultdict(list))
    """Nodes that are up and running, by kind: their allocatable and DaemonSets can be believed."""
    shared: list[str] = field(default_factory=list)
    """Warm nodes that run other pods beside their balloon, by name."""
    doubled: list[Pod] = field(default_factory=list)
    """Balloons beside an older one on the same node; almost always none."""

    def count(self, *states: NodeState) -> int:
        """How many nodes are in any of the states."""
        return sum(len(self.by_state[state]) for state in states)

    @property
    def total(self) -> int:
        """All nodes of the pool."""
        return self.count(*NodeState)

    @property
    def holdable(self) -> list[Node]:
        """Nodes that a balloon may hold now: warm and idle."""
        return self.by_state[NodeState.WARM] + self.by_state[NodeState.IDLE]

    @property
    def coming(self) -> list[Node]:
        """Nodes that the autoscaler counts on and that no balloon may hold yet."""
        awaited = [node for node in self.by_state[NodeState.PREFLIGHT] if is_awaited(node)]
        return self.by_state[NodeState.JOINING] + awaited

    def corrected(self, states: Mapping[str, NodeState]) -> "Census":
        """The same with these nodes, by name, in other states."""
        if not states:
            return self
        shared = [name for name in self.shared if states.get(name, NodeState.WARM) is NodeState.WARM]
        corrected = Census(measured=self.measured, shared=shared, doubled=self.doubled)
        for state in NodeState:
            for node in self.by_state[state]:
                corrected.by_state[states.get(node.name, state)].append(node)
            for balloon in self.balloons[state]:
                corrected.balloons[states.get(balloon.node, state)].append(balloon)
        return corrected

    def zones(self) -> tuple[ZoneStatus, ...]:
        """Per zone: nodes, busy, warm; sorted by name."""
        counts = {state: Counter([node.zone for node in nodes]) for state, nodes in self.by_state.items()}
        names = sorted(set().union(*counts.values()))
        busy, warm = counts[NodeState.BUSY], counts[NodeState.WARM]
        return tuple(ZoneStatus(name, sum(c[name] for c in counts.values()), busy[name], warm[name]) for name in names)


def take_census(pairs: Iterable[LoadedNode], rules: Rules) -> Census:
    """Sort the pool's nodes into states."""
    census = Census()
    by_state, balloons, measured, state_of = census.by_state, census.balloons, census.measured, rules.state_of
    for pair in pairs:
        node, load = pair
        state = state_of(node, load)
        by_state[state].append(node)
        shape = None
        if own := load.balloons:
            shape = own[0].shape
            balloons[state].extend(own)
            census.doubled += own[1:]
        if state in _MEASURED:
            measured[node.instance_type, id(node.allocatable), id(load.daemons), shape].append(pair)
            if load.others and state is NodeState.WARM:
                census.shared.append(node.name)
    return census
