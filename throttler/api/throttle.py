"""JoinThrottle: how fast nodes may join, what to listen to, and what to hold them back with.

The types mirror `manifests/crds/jointhrottles.yaml`, where every field is documented for users; a test keeps the two
the same. `throttler.api.throttle_rules` makes them from what the API server sends, and refuses with reasons what
breaks a bound given here or a rule of `throttler.api.throttle_rules`.
"""

import enum
from typing import Annotated

import msgspec
from msgspec import Meta

from throttler.kube.metadata import Condition, Metadata, ObjectKey, key_of
from throttler.kube.node import KARPENTER_POOL_LABEL
from throttler.kube.quantities_and_durations import exact_value, parse_duration
from throttler.kube.selectors import LabelSelector, Requirement

GROUP = "kube-balloons.github.io"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
THROTTLE_KIND = "JoinThrottle"
THROTTLE_PLURAL = "jointhrottles"

MAX_JOINS = 100_000

JoinCount = Annotated[int, Meta(ge=1, le=MAX_JOINS)]
Duration = Annotated[str, Meta(max_length=32)]
Name = Annotated[str, Meta(min_length=1, max_length=253)]
Names = Annotated[tuple[Name, ...], Meta(max_length=64)]
LabelKey = Annotated[str, Meta(min_length=1, max_length=317)]
Url = Annotated[str, Meta(min_length=1, max_length=512)]


class Preset(enum.Enum):
    """A provider's own guidance on scale-up steps, as bounds of the window (docs/jointhrottle.md)."""

    GENERIC = "generic"
    EKS = "eks"
    AKS = "aks"
    K3S = "k3s"


class Window(msgspec.Struct, frozen=True):
    """Bounds of the joins that may load the API servers at once; what is absent comes from the preset.

    Where both are given, `min <= initial <= max`.
    """

    initial: JoinCount | None = None
    min: JoinCount | None = None
    max: JoinCount | None = None


class Pace(msgspec.Struct, frozen=True, rename="camel"):
    """Joins per minute: never more than `max_per_minute`; `safe_per_minute` while the signals cannot be trusted."""

    max_per_minute: JoinCount | None = None
    safe_per_minute: JoinCount | None = None


class Reserved(msgspec.Struct, frozen=True, rename="camel"):
    """The lane that does not wait behind large demand: `nodes` joins are kept for it."""

    nodes: Annotated[int, Meta(ge=0, le=1000)] = 2
    demand_at_most: Annotated[int, Meta(ge=0, le=1000)] = 2
    """Demand of a pool counts as small up to so many nodes."""
    priority_at_least: Annotated[int, Meta(ge=-10, le=2_000_001_000)] | None = None
    """Pods of this priority or above are urgent."""


class Scrape(msgspec.Struct, frozen=True, rename="camel"):
    """Reading /metrics of every API server."""

    enabled: bool = True
    servers: Annotated[tuple[Url, ...], Meta(max_length=32)] = ()
    """https://address:port of each server; empty finds them in the EndpointSlices of default/kubernetes."""


class Prometheus(msgspec.Struct, frozen=True):
    """An existing Prometheus as second source."""

    url: Url


class AlarmQuery(msgspec.Struct, frozen=True):
    """A PromQL query whose value at or above `threshold` (a quantity) cuts the pace as high latency does."""

    name: Annotated[str, Meta(min_length=1, max_length=63)]
    query: Annotated[str, Meta(min_length=1, max_length=4096)]
    threshold: Annotated[str, Meta(max_length=32)]

    @property
    def threshold_value(self) -> float:
        """The threshold as a number; the quantity keeps the rules."""
        return exact_value(self.threshold)


class SignalSources(msgspec.Struct, frozen=True):
    """Where to learn how the API servers are."""

    scrape: Scrape = Scrape()
    prometheus: Prometheus | None = None
    alarms: Annotated[tuple[AlarmQuery, ...], Meta(max_length=16)] = ()


class CeilingSettings(msgspec.Struct, frozen=True):
    """What a throttle says of a lever that bounds what an autoscaler may order."""


class QuotaLever(CeilingSettings, frozen=True):
    """cluster-autoscaler: the CapacityQuota of this name, made when it does not exist."""

    name: Name


class NodePoolLever(CeilingSettings, frozen=True):
    """Karpenter: `spec.limits` of these NodePools; empty means all whose nodes the throttle selects."""

    names: Names = ()


class MachineDeploymentLever(CeilingSettings, frozen=True):
    """cluster-autoscaler on Cluster API: the largest size of these MachineDeployments of one namespace."""

    namespace: Annotated[str, Meta(min_length=1, max_length=63)]
    names: Annotated[tuple[Name, ...], Meta(min_length=1, max_length=64)]

    @property
    def groups(self) -> frozenset[str]:
        """As cluster-autoscaler names them: `MachineDeployment/namespace/name`."""
        return frozenset(f"MachineDeployment/{self.namespace}/{name}" for name in self.names)


class GateLever(msgspec.Struct, frozen=True):
    """Workload pods with our scheduling gate: released as nodes may start."""

    enabled: bool = True


class TaintLever(msgspec.Struct, frozen=True):
    """Nodes register with this startup taint; it is taken off as joins are admitted."""

    key: LabelKey


class LabelLever(msgspec.Struct, frozen=True):
    """DaemonSets select this node label; it is put on as joins are admitted."""

    key: LabelKey
    value: Annotated[str, Meta(max_length=63)] = "true"


class Levers(msgspec.Struct, frozen=True, rename="camel"):
    """What holds nodes back; those that are absent are not touched."""

    capacity_quota: QuotaLever | None = None
    node_pool_limits: NodePoolLever | None = None
    machine_deployments: MachineDeploymentLever | None = None
    headroom: bool = True
    scheduling_gates: GateLever | None = None
    startup_taint: TaintLever | None = None
    daemon_set_label: LabelLever | None = None

    @property
    def are_any(self) -> bool:
        """Whether there is one besides Headroom."""
        return self != Levers(headroom=self.headroom)

    @property
    def has_ceiling(self) -> bool:
        """Whether one of them bounds what an autoscaler may order for pods that nothing holds back."""
        return any(isinstance(getattr(self, name), CeilingSettings) for name in self.__struct_fields__)


class ThrottleSpec(msgspec.Struct, frozen=True, rename="camel"):
    """What the user wants."""

    nodes: LabelSelector = LabelSelector()
    """Nodes whose joins this throttle paces; empty is all of them."""
    preset: Preset = Preset.GENERIC
    window: Window = Window()
    pace: Pace = Pace()
    max_in_flight: JoinCount | None = None
    max_wait: Duration = "10m"
    """The longest a booted machine is held back."""
    kill_timer: Duration = "15m"
    """When the autoscaler gives up on a machine that has not registered (both autoscalers: 15 min)."""
    reserved: Reserved = Reserved()
    signals: SignalSources = SignalSources()
    levers: Levers = Levers()
    paused: bool = False
    dry_run: bool = False

    @property
    def paced_nodes(self) -> LabelSelector:
        """`nodes`; where nothing but limits of NodePools by name holds them back, those of these pools."""
        nodes, limits = self.nodes, self.levers.node_pool_limits
        only = Levers(node_pool_limits=limits, headroom=self.levers.headroom)
        if limits is None or not limits.names or self.levers != only:
            return nodes
        named = Requirement(KARPENTER_POOL_LABEL, "In", limits.names)
        return msgspec.structs.replace(nodes, match_expressions=(*nodes.match_expressions, named))

    @property
    def max_wait_s(self) -> float:
        """`max_wait` in seconds; the text keeps the rules."""
        return parse_duration(self.max_wait)

    @property
    def kill_timer_s(self) -> float:
        """`kill_timer` in seconds; the text keeps the rules."""
        return parse_duration(self.kill_timer)


class LearnedStatus(msgspec.Struct, frozen=True, rename="camel"):
    """`throttler.law.law_memory.Learned` in whole numbers; 0 is "never learned"."""

    window: int = 0
    window_proven: bool = False
    baseline_microseconds: int = 0
    join_milliseconds: int = 0
    boot_milliseconds: int = 0
    boot_spread_milliseconds: int = 0
    load_per_join_millionths: int = 0
    learned_at: str = ""


class ServerStatus(msgspec.Struct, frozen=True, rename="camel"):
    """One API server, as this service sees it."""

    name: str
    state: str
    """Fresh, Stale or Silent."""
    message: str = ""


class LeverStatus(msgspec.Struct, frozen=True, rename="camel"):
    """One lever on one object."""

    name: str
    """Kind/name."""
    state: str
    """`throttler.levers.lever_and_reasons.LeverState`."""
    because: str = ""
    ceiling: str = ""
    original: str = ""
    message: str = ""


class ThrottleStatus(msgspec.Struct, frozen=True, rename="camel"):
    """What was seen and decided; counts are nodes."""

    observed_generation: int = 0
    phase: str = ""
    """`throttler.law.verdict.Phase`, or Paused, or Invalid."""
    window: int = 0
    pace_per_minute: int = 0
    in_flight: int = 0
    booting: int = 0
    held: int = 0
    joining: int = 0
    waiting: int = 0
    allowance: int = 0
    index: str = ""
    because: str = ""
    message: str = ""
    learned: LearnedStatus = LearnedStatus()
    servers: tuple[ServerStatus, ...] = ()
    levers: tuple[LeverStatus, ...] = ()
    conditions: tuple[Condition, ...] = ()


class JoinThrottle(msgspec.Struct, frozen=True):
    """The object as stored; `status` is what this service last wrote."""

    metadata: Metadata
    spec: ThrottleSpec = ThrottleSpec()
    status: ThrottleStatus = ThrottleStatus()

    @property
    def key(self) -> ObjectKey:
        """The name; throttles have no namespace."""
        return key_of(self.metadata)

    @property
    def acts(self) -> bool:
        """Whether its levers are to be moved: not while it is paused or in a dry run."""
        return not (self.spec.paused or self.spec.dry_run)
