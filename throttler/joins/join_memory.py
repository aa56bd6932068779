"""What counting joins remembers from tick to tick: durations, which machines are late, which nodes need no look any
more.

Losing it costs the figures of a few joins, never correctness: nodes and machines are counted anew each time.

Late is a machine that is so much older than its like ever were that it is not reckoned with any more. One that never
registers holds a place until its kill timer, one that never becomes Ready as long: at 15 minutes each a few of them
stop all growth, and a window full of dead machines seems to bear anything. Late ones leave use, stock and what is
learned. They are in flight for `maxInFlight` until they are lost, and the autoscaler still counts on them for its pods.
Slowness alone makes nobody late: a later one of the same pool must have come. When all are slow, all are waited for.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from throttler.joins.demand import Search
from throttler.kube.node import Node
from throttler.kube.selectors import LabelSelector

ENOUGH = 3
"""Durations from which their spread is told."""
KEPT = 20
"""A scale-up's first joins are slow and few: twenty are enough for a mean and soon replaced."""


@dataclass(frozen=True, slots=True)
class Durations:
    """The latest durations in seconds, oldest first."""

    latest: tuple[float, ...] = ()

    def and_then(self, seconds: Iterable[float]) -> "Durations":
        """With these behind; the oldest ones are forgotten."""
        more = tuple(max(0.0, duration_s) for duration_s in seconds)
        return Durations((*self.latest, *more)[-KEPT:]) if more else self

    @property
    def spread_s(self) -> float:
        """Standard deviation; 0 while fewer than three are known: a spread that is believed lets more be asked for."""
        if len(self.latest) < ENOUGH or (mean_s := self.mean_s) is None:
            return 0.0
        return math.sqrt(sum((duration_s - mean_s) ** 2 for duration_s in self.latest) / len(self.latest))

    @property
    def mean_s(self) -> float | None:
        """None before the first."""
        return sum(self.latest) / len(self.latest) if self.latest else None


@dataclass(frozen=True, slots=True)
class Usual:
    """How long it takes the machines of one pool, by those that came lately."""

    times: Durations = field(default_factory=Durations)
    newest_s: float = float("-inf")
    """When the newest of those that came had begun (monotonic seconds)."""

    def is_late(self, began_s: float, now_s: float, factor: float, least_s: float) -> bool:
        """Whether one that began then ought to have come long ago; nobody is late before the first has come."""
        return began_s < self.newest_s and now_s - began_s > max(least_s, factor * (self.times.mean_s or 0.0))


NONE_YET = Usual()
MOST_POOLS = 2000
"""Pools whose machines are remembered. Some clusters have a NodePool for each job: it is gone with it."""


def learned(usual: Mapping[str, Usual], came: Iterable[tuple[str, float, float]]) -> dict[str, Usual]:
    """With those that came since: (pool, when it began, how long it took). Pools of which none came for the longest
    are forgotten where there are too many."""
    after = dict(usual)
    for pool, began_s, took_s in came:
        known = after.get(pool, NONE_YET)
        after[pool] = Usual(known.times.and_then([took_s]), max(known.newest_s, began_s))
    if len(after) <= MOST_POOLS:
        return after
    newest = sorted(after, key=lambda pool: after[pool].newest_s, reverse=True)[:MOST_POOLS]
    return {pool: after[pool] for pool in newest}


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinMemory:
    """Times are monotonic seconds; nodes and claims are told apart by uid."""

    nodes: tuple[LabelSelector, ...] = ()
    """The selectors that all this is about (JoinRules.selectors); none before the first count."""
    counted_s: float = float("-inf")
    """When it was counted last: what is new now has come since then."""
    settled: frozenset[str] = frozenset()
    """Registered nodes of the throttle whose join has ended one way or the other."""
    foreign: frozenset[str] = frozenset()
    """Registered nodes that are not the throttle's."""
    labels_until_s: float = float("-inf")
    """Until when it need not be looked again which side those two kinds of nodes are on."""
    created_s: Mapping[str, float] = field(default_factory=dict)
    """When each node that is not settled registered."""
    let_in_s: Mapping[str, float] = field(default_factory=dict)
    """Since when each node that is not held loads the API servers."""
    ready_s: Mapping[str, float] = field(default_factory=dict)
    """Since when each joining node has waited for nothing but DaemonSet pods."""
    in_vain_s: Mapping[tuple[str, str, str], float] = field(default_factory=dict)
    """When a join last waited in vain for a DaemonSet on a kind of node (joining_nodes.Awaited)."""
    made_s: Mapping[tuple[str, str, str], float] = field(default_factory=dict)
    """The same: when its newest pod on a joining node was made, if that was lately."""
    joined_s: Mapping[str, float] = field(default_factory=dict)
    """By name, when each node became usable that did so lately."""
    released: frozenset[str] = frozenset()
    """Pods (by uid) that have no node yet and that a lever of ours let go."""
    served: frozenset[str] = frozenset()
    """Members of gangs (by uid) that have no node yet and for which one stands idle."""
    booting: int = 0
    """How many were at the last count."""
    ordered_s: float = float("-inf")
    """When a machine was ordered last."""
    asked_s: Mapping[str, float] = field(default_factory=dict)
    """When each NodeClaim that is not registered was made."""
    groups_s: tuple[float, ...] = ()
    """When nodes registered of which cluster-autoscaler did not know yet when it spoke last, by the wall clock."""
    groups_asked_s: tuple[float, ...] = ()
    """When each machine that cluster-autoscaler says to boot was asked for, oldest first, those past their kill timer
    included. It does not tell them apart: whoever registers is taken for the one that was asked for first."""
    join_times: Durations = field(default_factory=Durations)
    boot_times: Durations = field(default_factory=Durations)
    joined: int = 0
    lost: int = 0
    usual_boots: Mapping[str, Usual] = field(default_factory=dict)
    usual_joins: Mapping[str, Usual] = field(default_factory=dict)
    """By NodePool; nodes of other autoscalers together under the empty name."""
    search: Search = field(default_factory=Search)
    machines: tuple[Node, ...] = ()
    """One usable node of each kind that the throttle has, the largest first, for turning pods into nodes."""
    machines_until_s: float = float("-inf")

    def first_s(self, created_s: float, wall_s: float, now_s: float) -> float:
        """The monotonic time of what is seen for the first time and was made at `created_s` of the wall clock.

        It cannot have been there at the last count: a step of the wall clock makes nothing older than that.
        """
        return max(self.counted_s, now_s - max(0.0, wall_s - created_s))
