"""What counting joins remembers from tick to tick: durations, and which nodes need no look any more.

Losing it costs the figures of a few joins, never correctness: nodes and machines are counted anew each time.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from throttler.joins.durations import Durations
from throttler.joins.hopeless import Search
from throttler.joins.late import Usual
from throttler.kube.quantity import Resources
from throttler.kube.selectors import LabelSelector


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
    released: frozenset[str] = frozenset()
    """Pods (by uid) that have no node yet and that a lever of ours let go."""
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
    largest: Resources = field(default_factory=dict)
    """The largest allocatable of any node of the throttle, for turning pods into nodes."""
    largest_until_s: float = float("-inf")

    def first_s(self, created_s: float, wall_s: float, now_s: float) -> float:
        """The monotonic time of what is seen for the first time and was made at `created_s` of the wall clock.

        It cannot have been there at the last count: a step of the wall clock makes nothing older than that.
        """
        return max(self.counted_s, now_s - max(0.0, wall_s - created_s))
