"""The joins of one throttle by stage, and those of several together: what the law reads about demand and what is in
flight.

    waiting -> booting -> held -> joining -> joined
             ask        boots   admit      Ready, DaemonSet pods run

Only `joining` loads the API servers. `held` is empty where no lever acts at the join: there a machine that has booted
joins at once.

Counting reads a `JoinWorld`, the objects of the cluster, by the `JoinRules` of one throttle.
"""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from throttler.api.throttle import JoinThrottle, LabelLever, Levers, Reserved
from throttler.kube.cluster_autoscaler import AutoscalerStatus
from throttler.kube.daemon_set import DaemonSet
from throttler.kube.karpenter import NodeClaim
from throttler.kube.node import Node
from throttler.kube.pod import Pod
from throttler.kube.quantities_and_durations import parse_duration
from throttler.kube.selectors import LabelSelector, matches
from throttler.kube.taints import Taint, untolerated


@dataclass(frozen=True, slots=True, kw_only=True)
class Joins:
    """Counts of nodes and how long they take."""

    waiting: int = 0
    """Wanted and not yet asked for, as far as can be known."""
    hopeless: int = 0
    """Wanted by pods that fit nowhere, and not counted as waiting."""
    hopeless_pods: int = 0
    urgent: int = 0
    """Of the waiting ones, those that the reserved lane lets pass."""
    booting: int = 0
    """Asked for, and not yet heard of; without a ceiling also what `released` pods are going to have asked for."""
    released: int = 0
    """Machines that pods need which nothing holds back any more, and which nobody is known to have ordered yet."""
    booting_by_groups: int = 0
    """Asked for by cluster-autoscaler and not registered; other booting ones are Karpenter's."""
    held: int = 0
    """Booted, and kept back by a lever of ours."""
    joining: int = 0
    """Let in, and not yet usable: not registered, not Ready, or DaemonSet pods missing."""
    registered: int = 0
    """Registered nodes of the throttle in all, usable or not."""
    late_booting: int = 0
    """Of the booting ones, those that are so late that they are not reckoned with (joins/join_memory.py)."""
    late_joining: int = 0
    """The same of the joining ones."""
    joined: int = 0
    """Joins that ended since the count began; only grows."""
    lost: int = 0
    """Machines that never arrived and were given up by their kill timer; only grows."""
    join_s: float | None = None
    """Mean duration of the latest joins from being let in to being usable; None before the first."""
    boot_s: float | None = None
    """Mean time of the latest machines from being asked for to being heard of; None before the first."""
    boot_spread_s: float = 0.0
    """Standard deviation of those times; 0 while unknown."""
    oldest_booting_s: float = 0.0
    oldest_held_s: float = 0.0
    """Age of the one that has waited longest in that stage."""
    oldest_joining_s: float = 0.0
    is_controller_bound: bool = False
    """Whether joins wait for the controller manager's own request limit, not for the servers."""
    unawaited: tuple[str, ...] = ()
    """DaemonSets that joins have waited for in vain, and do not wait for on such nodes now."""

    @property
    def coming(self) -> int:
        """Wanted, and not yet joining."""
        return self.waiting + self.booting + self.held

    @property
    def late(self) -> int:
        """Late ones in all."""
        return self.late_booting + self.late_joining

    @property
    def in_flight(self) -> int:
        """Asked for and not yet usable."""
        return self.booting + self.held + self.joining


def total_joins(counts: Iterable[Joins]) -> Joins:
    """Sums of nodes, means of durations, and the longest wait of each kind."""
    parts = tuple(counts)
    if len(parts) == 1:
        return parts[0]
    return Joins(
        waiting=sum(joins.waiting for joins in parts),
        hopeless=sum(joins.hopeless for joins in parts),
        hopeless_pods=sum(joins.hopeless_pods for joins in parts),
        urgent=sum(joins.urgent for joins in parts),
        booting=sum(joins.booting for joins in parts),
        released=sum(joins.released for joins in parts),
        booting_by_groups=sum(joins.booting_by_groups for joins in parts),
        held=sum(joins.held for joins in parts),
        joining=sum(joins.joining for joins in parts),
        registered=sum(joins.registered for joins in parts),
        late_booting=sum(joins.late_booting for joins in parts),
        late_joining=sum(joins.late_joining for joins in parts),
        joined=sum(joins.joined for joins in parts),
        lost=sum(joins.lost for joins in parts),
        join_s=_mean(joins.join_s for joins in parts),
        boot_s=_mean(joins.boot_s for joins in parts),
        boot_spread_s=min((joins.boot_spread_s for joins in parts if joins.boot_s is not None), default=0.0),
        oldest_booting_s=max((joins.oldest_booting_s for joins in parts), default=0.0),
        oldest_held_s=max((joins.oldest_held_s for joins in parts), default=0.0),
        oldest_joining_s=max((joins.oldest_joining_s for joins in parts), default=0.0),
        is_controller_bound=any(joins.is_controller_bound for joins in parts),
    )


def _mean(figures: Iterable[float | None]) -> float | None:
    known = [figure for figure in figures if figure is not None]
    return sum(known) / len(known) if known else None


NO_PODS: tuple[Pod, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinWorld:
    """The cluster at one moment; `wall_s` is that moment in seconds since the epoch, for ages of objects only."""

    nodes: Mapping[str, Node] = field(default_factory=dict)
    pods: Mapping[str, tuple[Pod, ...]] = field(default_factory=dict)
    """Pods by the name of their node."""
    daemon_sets: tuple[DaemonSet, ...] = ()
    unplaced: tuple[Pod, ...] = ()
    """Real pods without a node."""
    claims: tuple[NodeClaim, ...] = ()
    """Karpenter's NodeClaims, where they are served."""
    static_pools: frozenset[str] = frozenset()
    """Karpenter's NodePools that have as many machines as their user says, whatever waits."""
    autoscaler: AutoscalerStatus | None = None
    """What cluster-autoscaler says of the throttle's node groups; None where there is none."""
    released: frozenset[str] = frozenset()
    """Pods (by uid) that a lever of ours has let go, whether or not the view has heard of it."""
    at_once: frozenset[str] = frozenset()
    """Pods (by uid) that need no machine, because warm nodes take them: they are neither demand nor orders."""
    balloons_wanted: int = 0
    """Nodes that Headroom pools want and have not asked for, or have and that no machine was ordered for."""
    room: int = 0
    """Machines that the autoscaler could have ordered since the last count, and is seen to know of."""
    at_a_time: float = 0.0
    """Machines that may be in flight together; 0 while unknown."""
    offer: Hashable = None
    """What machines are on offer, only compared: the NodePools and node groups."""
    index: float | None = None
    """Latency over its baseline, as the law saw it last; None while unknown."""
    wall_s: float = 0.0


def levers_in_effect(levers: Levers, daemon_sets: Iterable[DaemonSet]) -> Levers:
    """The levers without a taint that every DaemonSet tolerates, and without a label that none selects.

    Such a mark keeps workloads waiting and nothing of a join: the node loads the API servers as if it had none. Where
    there are no DaemonSets, nobody knows what is to come.
    """
    agents = [daemon_set for daemon_set in daemon_sets if not daemon_set.is_deleting]
    taint, label = levers.startup_taint, levers.daemon_set_label
    if taint and agents and not any(untolerated((Taint(taint.key, "NoSchedule"),), a.tolerations) for a in agents):
        taint = None
    if label and agents and not any(label.key in agent.label_keys for agent in agents):
        label = None
    return msgspec.structs.replace(levers, startup_taint=taint, daemon_set_label=label)


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinRules:
    """A throttle's spec, taken apart for counting."""

    nodes: LabelSelector
    older: tuple[LabelSelector, ...] = ()
    """Selectors of older throttles: a node that one of them selects is that throttle's."""
    taint_key: str = ""
    label: LabelLever | None = None
    gate: str = ""
    """The scheduling gate that is ours to take off; empty where that is no lever of the throttle."""
    has_ceiling: bool = False
    """Whether a lever bounds what the autoscaler may order for pods that nothing holds back."""
    kill_timer_s: float = 900.0
    reserved: Reserved = field(default_factory=Reserved)

    @classmethod
    def of(
        cls,
        throttle: JoinThrottle,
        gate: str,
        older: Iterable[JoinThrottle] = (),
        daemon_sets: Iterable[DaemonSet] = (),
    ) -> "JoinRules":
        """The rules of a throttle whose spec keeps all bounds; `gate` is the name of our scheduling gate."""
        spec = throttle.spec
        levers = levers_in_effect(spec.levers, daemon_sets)
        return cls(
            nodes=spec.nodes,
            older=tuple(throttle.spec.nodes for throttle in older),
            taint_key=levers.startup_taint.key if levers.startup_taint else "",
            label=levers.daemon_set_label,
            gate=gate if levers.scheduling_gates is not None and levers.scheduling_gates.enabled else "",
            has_ceiling=levers.has_ceiling,
            kill_timer_s=parse_duration(spec.kill_timer),
            reserved=spec.reserved,
        )

    @property
    def holds_joins(self) -> bool:
        """Whether a lever at the join keeps something of it back."""
        return bool(self.taint_key) or self.label is not None

    @property
    def selectors(self) -> tuple[LabelSelector, ...]:
        """What decides which nodes are counted: the throttle's own selector, then those of older throttles."""
        return (self.nodes, *self.older)

    @property
    def label_keys(self) -> tuple[str, ...]:
        """The labels that `selects` reads; nodes that are alike in these are selected alike."""
        keys = (
            selector.match_labels.keys() | {part.key for part in selector.match_expressions}
            for selector in self.selectors
        )
        return tuple(sorted(set[str]().union(*keys)))

    def selects(self, labels: Mapping[str, str]) -> bool:
        """Whether nodes with these labels are this throttle's."""
        return matches(self.nodes, labels) and not any(matches(older, labels) for older in self.older)
