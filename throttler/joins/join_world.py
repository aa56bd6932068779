"""What counting joins reads: the objects of the cluster, and the rules of one throttle."""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field

from throttler.api.throttle import JoinThrottle, LabelLever, Reserved
from throttler.kube.cluster_autoscaler import AutoscalerStatus
from throttler.kube.karpenter import NodeClaim
from throttler.kube.node import Node
from throttler.kube.pod import DaemonSet, Pod
from throttler.kube.quantity import parse_duration
from throttler.kube.selectors import LabelSelector, matches

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
    autoscaler: AutoscalerStatus | None = None
    """What cluster-autoscaler says of the throttle's node groups; None where there is none."""
    released: frozenset[str] = frozenset()
    """Pods (by uid) that a lever of ours has let go, whether or not the view has heard of it."""
    balloons_wanted: int = 0
    """Nodes that Headroom pools want and have not asked for, or have and that no machine was ordered for."""
    room: int = 0
    """Machines that the autoscaler could have ordered since the last count, and is seen to know of."""
    offer: Hashable = None
    """What machines are on offer, only compared: the NodePools and node groups."""
    index: float | None = None
    """Latency over its baseline, as the law saw it last; None while unknown."""
    wall_s: float = 0.0


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
    def of(cls, throttle: JoinThrottle, gate: str, older: Iterable[JoinThrottle] = ()) -> "JoinRules":
        """The rules of a throttle whose spec keeps all bounds; `gate` is the name of our scheduling gate."""
        spec = throttle.spec
        levers = spec.levers
        return cls(
            nodes=spec.nodes,
            older=tuple(each.spec.nodes for each in older),
            taint_key=levers.startup_taint.key if levers.startup_taint else "",
            label=levers.daemon_set_label,
            gate=gate if levers.scheduling_gates is not None and levers.scheduling_gates.enabled else "",
            has_ceiling=levers.has_ceiling,
            kill_timer_s=parse_duration(spec.kill_timer),
            reserved=spec.reserved,
        )

    @property
    def selectors(self) -> tuple[LabelSelector, ...]:
        """What decides which nodes are counted: the throttle's own selector, then those of older throttles."""
        return (self.nodes, *self.older)

    @property
    def label_keys(self) -> tuple[str, ...]:
        """The labels that `selects` reads; nodes that are alike in these are selected alike."""
        keys = (each.match_labels.keys() | {part.key for part in each.match_expressions} for each in self.selectors)
        return tuple(sorted(set[str]().union(*keys)))

    def selects(self, labels: Mapping[str, str]) -> bool:
        """Whether nodes with these labels are this throttle's."""
        return matches(self.nodes, labels) and not any(matches(older, labels) for older in self.older)
