"""What is known of a cluster when a scale-up is previewed: frozen values, each with its origin."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from balloons.preview.known import Known
from throttler.kube.quantity import Resources
from throttler.kube.selectors import Taint
from throttler.law.learned import Learned
from throttler.law.settings import LawSettings
from throttler.simulator.scenario import Disturbance

LOOK_S = Known.assumed(10.0, "both autoscalers look again every 10 s", 0.1)
"""Karpenter puts each waiting pod back for so long (provisioning/controller.go, 1.15) and then waits for others of its
batch; cluster-autoscaler scans as often by default."""
STATUS_WRITES = Known.assumed(6, "four real scale-ups of 450 to 580 DaemonSet pods", 0.5)
"""They took as long as 40 to 58 requests more than their pods would have, with six to eight DaemonSets."""
READY_SHARE = 0.5
"""Of a join, as assumed: a node is Ready once its network agent runs, in the middle of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling:
    """An upper bound on nodes: a CapacityQuota, a NodePool's limit, a group's maximum, the cloud's quota."""

    name: str
    """Kind/name, or the option that stated it."""
    nodes: int
    """How many more may still come."""
    detail: str = ""
    """In the object's own terms: `limits.cpu 400 of 512 used`."""
    resource: str = ""
    """Of the object's limits, the one that binds."""
    used: float = 0.0
    per_node: float = 0.0
    """Of that resource: in use now, and what each more node takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeShape:
    """A machine of a pool as pods would find it; `room` is allocatable less DaemonSets, in milli-units."""

    instance_type: str
    room: Resources
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    price_per_hour: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolFacts:
    """A group of nodes that can grow: a NodePool, a node group, or all nodes where nothing tells them apart."""

    name: str
    nodes: int
    """There now."""
    warm: int = 0
    """Of these, Ready and free of real work."""
    shape: NodeShape | None = None
    """None while no node of the pool was ever seen."""
    ceilings: tuple[Ceiling, ...] = ()
    boot_s: Known
    """From being asked for to being registered."""
    boot_jitter: Known
    """Standard deviation between machines, as a share of the mean."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFacts:
    """The API servers, and what a join costs them."""

    count: Known
    cores: Known
    """Of one server: what its requests share."""
    background: Known
    """Share of that which is in use while nothing joins."""
    join_cpu_s: Known
    """Core-seconds of one join in a small cluster."""
    requests_per_join: Known


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerFacts:
    """Limits of others that a join passes: those of the controller manager and the scheduler."""

    daemon_sets: Known
    """Pods that DaemonSets put on each new node."""
    pods_per_s: Known
    """What the controller manager's DaemonSet controller may create (--kube-api-qps)."""
    burst: Known
    status_writes: Known = STATUS_WRITES
    """Of each DaemonSet, while many nodes come: by the same client as its pods."""
    binds_per_s: Known
    """What the scheduler may bind (its own --kube-api-qps)."""
    reaction_s: Known
    """From pods that wait to machines that are asked for."""
    look_s: Known = LOOK_S
    """How often the autoscaler looks again at pods that still wait: a ceiling that was raised waits for that."""
    is_look_prompted: bool = False
    """Whether it also looks as soon as nodes come, as Karpenter does."""
    launches_per_s: Known | None = None
    """The cloud's own rate; None: no such limit is known."""
    launch_burst: int = 0
    kill_timer_s: Known
    """A machine that has not registered by then is destroyed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThrottleFacts:
    """Our own JoinThrottle, as the law would run it."""

    name: str
    settings: LawSettings
    learned: Learned | None = None
    join_s: float | None = None
    """How long joins took as the throttle counts them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanInputs:
    """Everything that a plan is made from."""

    autoscaler: str
    """What was detected, in words: `Karpenter 1.14.0, Kubernetes v1.36.3`."""
    nodes: int
    """In the cluster now."""
    pools: tuple[PoolFacts, ...]
    servers: ServerFacts
    controllers: ControllerFacts
    join_s: Known
    """From registered to usable, on servers with nothing else to do."""
    ready_share: float = READY_SHARE
    """Share of that after which the node is Ready; DaemonSet pods take the rest."""
    throttle: ThrottleFacts | None = None
    faults: tuple[Disturbance, ...] = ()
    unseen: tuple[str, ...] = ()
    """What could not be read, and what was taken instead, in sentences."""

    def pool(self, name: str) -> PoolFacts | None:
        """The pool of this name; without a name the only or the largest one."""
        if name:
            return next((pool for pool in self.pools if pool.name == name), None)
        return max(self.pools, key=lambda pool: (pool.nodes, pool.name), default=None)
