"""What is known of a cluster when a scale-up is previewed, or assumed, or stated by the user: each with its origin.

A figure and how we come to know it: a preview is as good as what went into it, so it says where each came from. What
is taken for granted about a cluster of which nothing is known. Each figure says where it was seen. What the user states
(`--boot`, `--servers`) stands in place of both.
"""

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from math import exp, isfinite
from typing import Any, Self, TypeVar

from balloons.text_and_colours import duration
from throttler.api.throttle import NodePoolLever
from throttler.kube.karpenter import NodePool
from throttler.kube.quantities_and_durations import Resources, plural
from throttler.kube.selectors import LabelSelector, matches
from throttler.kube.taints import Taint
from throttler.law.law_memory import Learned
from throttler.law.settings import LawSettings
from throttler.levers.pool_shares import is_of
from throttler.signals.reading import INTERVAL_S
from throttler.simulator.scenario_and_faults import Fault

READY_SHARE = 0.5
"""Of a join, as assumed: a node is Ready once its network agent runs, in the middle of it."""
NO_CLUSTER = "no cluster looked at"
"""What was detected where nobody looked."""
LEAST_JOIN_CPU_S = 0.09
DAEMON_SET_CPU_S = 0.023
"""A real kube-apiserver 1.36 of one core finished 400 joins with 8 DaemonSets in 109 s: 0.27 core-seconds each.
Of the 107 requests that a join sent there (counted in its audit log) about 9 come with each DaemonSet pod."""
LEAST_REQUESTS = 60
DAEMON_SET_REQUESTS = 9
"""107 with 8 DaemonSets, and about 25 lists and watches, counted in the audit log of that run."""


class Source(enum.Enum):
    """Where a figure comes from, the best first."""

    STATED = "stated"
    """The user said so, or an object of the cluster does."""
    LEARNED = "learned"
    """Measured in this cluster."""
    ASSUMED = "assumed"
    """Neither: a usual value."""


SPREAD = {Source.STATED: 0.0, Source.LEARNED: 0.05, Source.ASSUMED: 0.2}
"""Standard deviation of a figure's logarithm where nothing better is known (chosen): it becomes the plan's band."""


@dataclass(frozen=True, slots=True)
class Known:
    """A number with its origin. `spread` is the standard deviation of its logarithm; 0 is certain."""

    value: float
    source: Source
    detail: str = ""
    """In words: `24 nodes of the last 24 h`, `--boot`, `cluster-autoscaler scans every 10 s`."""
    spread: float = 0.0

    @classmethod
    def stated(cls, value: float, by: str) -> Self:
        """`by` names the option, the file or the object."""
        return cls(value, Source.STATED, by, SPREAD[Source.STATED])

    @classmethod
    def learned(cls, value: float, from_what: str, spread: float | None = None) -> Self:
        """Measured; `spread` is that of the mean, where it is known."""
        return cls(value, Source.LEARNED, from_what, SPREAD[Source.LEARNED] if spread is None else spread)

    @classmethod
    def assumed(cls, value: float, why: str, spread: float | None = None) -> Self:
        """A usual value; `why` names where it was seen."""
        return cls(value, Source.ASSUMED, why, SPREAD[Source.ASSUMED] if spread is None else spread)

    def at(self, deviations: float) -> float:
        """The value that many standard deviations off: what one of several possible worlds has."""
        return self.value * exp(self.spread * deviations)

    def but(self, value: float) -> Self:
        """Another value of the same origin."""
        return replace(self, value=value)


LOOK_S = Known.assumed(10.0, "both autoscalers look again every 10 s", 0.1)
"""cluster-autoscaler scans as often by default."""
KARPENTERS_LOOK_S = Known.assumed(10.0, "Karpenter looks again 10 s after it has heard of a pod", 0.0)
"""It puts each waiting pod back for exactly so long (provisioning/controller.go, 1.15), and then waits for others of
its batch."""


STATUS_WRITES = Known.assumed(6, "four real scale-ups of 450 to 580 DaemonSet pods", 0.5)
"""They took as long as 40 to 58 requests more than their pods would have, with six to eight DaemonSets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceLimit:
    """Of one resource what an object allows, what is in use of it now, and what each more node takes."""

    resource: str
    most: float
    used: float
    per_node: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling:
    """An upper bound on nodes: a CapacityQuota, a NodePool's limit, a group's maximum, the cloud's quota."""

    name: str
    """Kind/name, or the option that stated it."""
    nodes: int
    """How many more may still come."""
    detail: str = ""
    """In the object's own terms: `limits.cpu 400 of 512 used`."""
    limits: tuple[ResourceLimit, ...] = ()
    """All that a plan knows of the object's: each has to be lifted for more nodes than it leaves room for."""
    is_closed: bool = False
    """Whether nothing comes for another reason than an amount: `detail` tells it, as the end of "it is ..."."""
    ordered: int = 0
    """Machines that count as used and are no nodes yet: they come, and `nodes` more."""

    @property
    def from_there(self) -> Self:
        """The same for nodes beyond those that are there: machines on their way are among them."""
        limits = (replace(limit, used=limit.used - self.ordered * limit.per_node) for limit in self.limits)
        return replace(self, nodes=self.nodes + self.ordered, limits=tuple(limits), ordered=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeShape:
    """A machine of a pool as pods would find it; `room` is allocatable less DaemonSets, in milli-units."""

    instance_type: str
    room: Resources
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    price_per_hour: float | None = None
    zones: tuple[str, ...] = ()
    """Those in which the pool has nodes: a new one may come in any of them, whatever its labels here say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolFacts:
    """A group of nodes that can grow: a NodePool, a node group, or all nodes where nothing tells them apart."""

    name: str
    nodes: int
    """There now."""
    warm: int = 0
    """Of these, Ready, free of real work, and held by a balloon."""
    shape: NodeShape | None = None
    """None while no node of the pool is Ready."""
    node_pool: NodePool | None = None
    """Karpenter's own object, where there is one: it tells of nodes before any is there."""
    ceilings: tuple[Ceiling, ...] = ()
    boot_s: Known
    """From being asked for to being registered."""
    boot_jitter: Known
    """Standard deviation between machines, as a share of the mean."""
    daemon_sets: Known | None = None
    """Pods that DaemonSets put on each of its nodes; None: as many as on any node of the cluster."""


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
    nodes: LabelSelector = field(default_factory=LabelSelector)
    """Whose joins it paces."""
    settings: LawSettings
    learned: Learned | None = None
    join_s: float | None = None
    """How long joins took as the throttle counts them."""
    scrape_s: float = INTERVAL_S
    """How often it reads the API servers."""
    has_ceiling: bool = True
    """Whether a ceiling is among its levers, which is raised only every so often."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanInputs:
    """Everything that a plan is made from."""

    autoscaler: str
    """What was detected, in words: `Karpenter 1.14.0, Kubernetes v1.36.3`."""
    nodes: int
    """In the cluster now."""
    pools: tuple[PoolFacts, ...]
    """In the order in which the autoscaler tries them for pods that wait, as far as it is known."""
    servers: ServerFacts
    controllers: ControllerFacts
    join_s: Known
    """From registered to usable, on servers with nothing else to do."""
    ready_share: float = READY_SHARE
    """Share of that after which the node is Ready; DaemonSet pods take the rest."""
    throttle: ThrottleFacts | None = None
    """The one that paces the nodes in question; of a cluster the oldest."""
    throttles: tuple[ThrottleFacts, ...] = ()
    """All of the cluster's that act, oldest first."""
    faults: tuple[Fault, ...] = ()
    unseen: tuple[str, ...] = ()
    """What could not be read, and what was taken instead, in sentences."""

    def pool(self, name: str) -> PoolFacts | None:
        """The pool of this name; without a name the only or the largest one."""
        if name:
            return next((pool for pool in self.pools if pool.name == name), None)
        return max(self.pools, key=lambda pool: (pool.nodes, pool.name), default=None)


def sharing(pools: Iterable[PoolFacts]) -> dict[Ceiling, list[str]]:
    """The pools of each ceiling, the lowest first: a quota, or --max-nodes, bounds what comes in all of its pools."""
    bounded: dict[Ceiling, list[str]] = {}
    for pool in pools:
        for ceiling in pool.ceilings:
            bounded.setdefault(ceiling, []).append(pool.name)
    return dict(sorted(bounded.items(), key=lambda bound: bound[0].nodes))


def stopped(wanted: Mapping[str, int], pools: Iterable[PoolFacts]) -> list[tuple[int, Ceiling]]:
    """Of so many new nodes for each pool those that cannot come, by the ceiling that stops them."""
    left, stops = dict(wanted), list[tuple[int, Ceiling]]()
    for ceiling, names in sharing(pools).items():
        own = [name for name in names if name in left]
        beyond = over = max(0, sum(left[name] for name in own) - max(0, ceiling.nodes))
        for name in own:
            cut = min(over, left[name])
            left[name] -= cut
            over -= cut
        stops += [(beyond, ceiling)] if beyond else []
    return stops


BOOT_S = Known.assumed(120.0, "clouds take 30 s to 12 min", 0.35)


BOOT_JITTER = Known.assumed(0.15, "machines of one kind boot alike")
MOST_JITTER = 0.3
"""Of a boot time, as a share of it: whatever was seen, no world has more."""


JOIN_S = Known.assumed(60.0, "60-90 s with the usual agents", 0.25)


SERVERS = Known.assumed(2, "at least two where it is managed", 0.0)


CORES = Known.assumed(4, "a managed server of middle size", 0.3)


BACKGROUND = Known.assumed(0.25, "a quarter of a server is busy in usual times", 0.3)


DAEMON_SETS = Known.assumed(6, "CNI, CSI, proxy, logs, metrics, devices", 0.0)


PODS_PER_S = Known.assumed(20, "default --kube-api-qps", 0.0)


BURST = Known.assumed(30, "its default --kube-api-burst", 0.0)


BINDS_PER_S = Known.assumed(50, "default --kube-api-qps", 0.0)


REACTION_S = Known.assumed(10, "both autoscalers look every 1-10 s", 0.4)


KILL_TIMER_S = Known.assumed(900, "both autoscalers' default", 0.0)


def join_cpu_s(daemon_sets: float) -> Known:
    """Core-seconds of one join with so many DaemonSet pods."""
    return Known.assumed(
        LEAST_JOIN_CPU_S + DAEMON_SET_CPU_S * daemon_sets,
        f"measured on a real server, with {daemon_sets:g} {plural(daemon_sets, 'DaemonSet')}",
        0.3,
    )


def daemon_share(daemon_sets: float) -> float:
    """Of that, what comes with those pods."""
    pods = DAEMON_SET_CPU_S * daemon_sets
    return pods / (LEAST_JOIN_CPU_S + pods)


def requests_per_join(daemon_sets: float) -> Known:
    """Requests of one join, lists and watches among them."""
    return Known.assumed(
        LEAST_REQUESTS + DAEMON_SET_REQUESTS * daemon_sets,
        f"measured on a real server, with {daemon_sets:g} {plural(daemon_sets, 'DaemonSet')}",
    )


def assumed_inputs(*, nodes: int = 0) -> PlanInputs:
    """A cluster of which only the number of nodes is known."""
    pool = PoolFacts(name="", nodes=nodes, boot_s=BOOT_S, boot_jitter=BOOT_JITTER)
    return PlanInputs(
        autoscaler=NO_CLUSTER,
        nodes=nodes,
        pools=(pool,),
        servers=ServerFacts(
            count=SERVERS,
            cores=CORES,
            background=BACKGROUND,
            join_cpu_s=join_cpu_s(DAEMON_SETS.value),
            requests_per_join=requests_per_join(DAEMON_SETS.value),
        ),
        controllers=ControllerFacts(
            daemon_sets=DAEMON_SETS,
            pods_per_s=PODS_PER_S,
            burst=BURST,
            binds_per_s=BINDS_PER_S,
            reaction_s=REACTION_S,
            kill_timer_s=KILL_TIMER_S,
        ),
        join_s=JOIN_S,
    )


BOUNDS: dict[str, tuple[float, float]] = {
    "nodes": (0, 1_000_000),
    "boot": (0.1, 86_400),
    "boot_spread": (0, 0.3),
    "join": (0.1, 3600),
    "reaction": (0, 3600),
    "servers": (1, 100),
    "server_cores": (0.1, 1000),
    "background": (0, 0.9),
    "join_cost": (0.001, 100),
    "daemonsets": (0, 200),
    "controller_qps": (0.1, 100_000),
    "scheduler_qps": (0.1, 100_000),
    "launch_rate": (0.001, 100_000),
    "launch_burst": (0, 100_000),
    "kill_timer": (1, 86_400),
    "max_nodes": (0, 1_000_000),
}
"""Accepted, both ends included; times in seconds, rates per second."""
PRICES_BELOW = 1_000_000
"""Of an hour of a node, from an option, a file or a label: with larger ones no plan could be shown."""
TIMES = ("boot", "join", "reaction", "kill_timer")
WHOLE = ("nodes", "servers", "launch_burst", "max_nodes")
"""Of these there is no half: a plan would say one number and reckon with another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stated:
    """None is not stated. Each field is the option or the key of a file by the same name, with dashes."""

    nodes: float | None = None
    boot: float | None = None
    boot_spread: float | None = None
    join: float | None = None
    reaction: float | None = None
    servers: float | None = None
    server_cores: float | None = None
    background: float | None = None
    join_cost: float | None = None
    daemonsets: float | None = None
    controller_qps: float | None = None
    scheduler_qps: float | None = None
    launch_rate: float | None = None
    launch_burst: float | None = None
    kill_timer: float | None = None
    max_nodes: float | None = None


NAMES = tuple(field.name.replace("_", "-") for field in fields(Stated))


class StatedError(ValueError):
    """A figure is out of bounds; the message names it, its value and what is accepted."""


def check(stated: Stated) -> Stated:
    """The same; raises StatedError."""
    for name, (low, high) in BOUNDS.items():
        value = getattr(stated, name)
        if value is not None and not (low <= value <= high and (name not in WHOLE or value == int(value))):
            shown = duration(value) if name in TIMES and isfinite(value) else f"{value:g}"
            raise StatedError(f"{name.replace('_', '-')} {shown}: accepted: {accepted(name)}")
    return stated


def accepted(name: str) -> str:
    """The values that a figure may have, in words."""
    low, high = BOUNDS[name]
    if name in TIMES:
        return f"{duration(low)} to {duration(high)}"
    return f"a {'whole ' if name in WHOLE else ''}number from {low:g} to {high:,.12g}"


def with_stated(inputs: PlanInputs, stated: Stated) -> PlanInputs:
    """The inputs with what was stated in place of what was known.

    What stands in place of an assumption corrects it; what stands in place of a fact asks what if.
    """
    figures = _Figures(stated)
    servers, controllers = inputs.servers, inputs.controllers
    daemons = figures.over("daemonsets", controllers.daemon_sets)
    servers = _with_daemons(servers, daemons)
    cost = servers.join_cpu_s
    count, cores = figures.over("servers", servers.count), figures.over("server_cores", servers.cores)
    if cost.source is Source.LEARNED:
        # It was learned as a share of servers whose size was a guess.
        for known, now in ((servers.count, count), (servers.cores, cores)):
            if known.source is Source.ASSUMED:
                cost = cost.but(cost.value * now.value / known.value)
    nodes = inputs.nodes if stated.nodes is None else int(stated.nodes)
    return replace(
        inputs,
        nodes=nodes,
        pools=tuple(_pool(pool, figures, nodes, is_only=len(inputs.pools) == 1) for pool in inputs.pools),
        join_s=figures.over("join", inputs.join_s),
        servers=replace(
            servers,
            count=count,
            cores=cores,
            background=figures.over("background", servers.background),
            join_cpu_s=figures.over("join_cost", cost),
        ),
        controllers=replace(
            controllers,
            daemon_sets=daemons,
            pods_per_s=figures.over("controller_qps", controllers.pods_per_s),
            burst=_burst(stated, controllers.burst),
            binds_per_s=figures.over("scheduler_qps", controllers.binds_per_s),
            reaction_s=figures.over("reaction", controllers.reaction_s),
            launches_per_s=figures.over("launch_rate", controllers.launches_per_s),
            launch_burst=controllers.launch_burst if stated.launch_burst is None else int(stated.launch_burst),
            kill_timer_s=figures.over("kill_timer", controllers.kill_timer_s),
        ),
    )


def of_pool(inputs: PlanInputs, pool: PoolFacts) -> PlanInputs:
    """The inputs as they are for new nodes of this pool: pools differ in their DaemonSets, and in who paces them."""
    if inputs.throttles:
        pacing = next((throttle for throttle in inputs.throttles if _paces(throttle, pool)), None)
        inputs = replace(inputs, throttle=pacing)
    daemons = pool.daemon_sets
    if daemons is None:
        return inputs
    controllers = replace(inputs.controllers, daemon_sets=daemons)
    return replace(inputs, servers=_with_daemons(inputs.servers, daemons), controllers=controllers)


def _paces(throttle: ThrottleFacts, pool: PoolFacts) -> bool:
    """Whether new nodes of the pool are among those that it paces; the oldest does where nothing tells."""
    if pool.shape is not None:
        return matches(throttle.nodes, pool.shape.labels)
    return pool.node_pool is None or is_of(pool.node_pool, NodePoolLever(), throttle.nodes)


def _with_daemons(servers: ServerFacts, daemons: Known) -> ServerFacts:
    """What a join is assumed to cost goes by its DaemonSet pods."""
    if servers.join_cpu_s.source is not Source.ASSUMED:
        return servers
    return replace(servers, join_cpu_s=join_cpu_s(daemons.value), requests_per_join=requests_per_join(daemons.value))


_MaybeKnown = TypeVar("_MaybeKnown", bound=Known | None)


@dataclass(frozen=True, slots=True)
class _Figures:
    stated: Stated

    def over(self, name: str, known: _MaybeKnown) -> Known | _MaybeKnown:
        value: Any = getattr(self.stated, name)
        return known if value is None else Known.stated(float(value), f"--{name.replace('_', '-')}")


def _burst(stated: Stated, known: Known) -> Known:
    """A raised rate is raised with its burst, as operators do: one and a half seconds' worth."""
    return known if stated.controller_qps is None else known.but(1.5 * stated.controller_qps)


def _pool(pool: PoolFacts, figures: _Figures, nodes: int, *, is_only: bool) -> PoolFacts:
    stated = figures.stated
    own_nodes = nodes if is_only and stated.nodes is not None else pool.nodes
    ceilings = pool.ceilings
    if stated.max_nodes is not None:
        most = int(stated.max_nodes)
        own = Ceiling(name="--max-nodes", nodes=max(0, most - nodes), detail=f"nodes {most}, now {nodes}")
        ceilings = (*ceilings, own)
    return replace(
        pool,
        nodes=own_nodes,
        ceilings=ceilings,
        boot_s=figures.over("boot", pool.boot_s),
        boot_jitter=figures.over("boot_spread", pool.boot_jitter),
        daemon_sets=figures.over("daemonsets", pool.daemon_sets),
    )
