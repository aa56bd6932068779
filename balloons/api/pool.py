"""BalloonPool: which nodes to keep warm, how many, and in which way.

The types mirror `manifests/crds/balloonpools.yaml`, where every field is documented for users; a test
keeps the two the same. `balloons.api.pool_rules` makes them from what the API server sends, and refuses with
reasons what breaks a bound given here or a rule of `balloons.api.pool_rules`.
"""

import enum
from typing import Annotated

import msgspec
from msgspec import Meta

from throttler.kube.metadata import Condition, Metadata, ObjectKey, key_of
from throttler.kube.selectors import LabelSelector
from throttler.kube.taints import Taint, Toleration

GROUP = "kube-balloons.github.io"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
POOL_KIND = "BalloonPool"
POOL_PLURAL = "balloonpools"

MAX_NODES = 100_000
"""The largest size of a pool; Kubernetes itself is tested up to 5,000 nodes and run with tens of thousands."""

NodeCount = Annotated[int, Meta(ge=0, le=MAX_NODES)]
Percent = Annotated[int, Meta(ge=0, le=100)]
ImageText = Annotated[str, Meta(max_length=512)]
Quantities = Annotated[dict[str, Annotated[str, Meta(max_length=32)]], Meta(max_length=16)]


class Mode(enum.Enum):
    """Whether a pool may make the cluster grow."""

    HOLD = "Hold"
    HEADROOM = "Headroom"


class Strategy(enum.Enum):
    """What holds a node: a pod, the autoscaler's own buffer object, or an annotation."""

    BALLOON = "Balloon"
    CAPACITY_BUFFER = "CapacityBuffer"
    ANNOTATE = "Annotate"


class Spread(enum.Enum):
    """What keeps two balloons of one pool off the same node."""

    ANTI_AFFINITY = "AntiAffinity"
    TOPOLOGY_SPREAD = "TopologySpread"
    EXCLUSIVE_REQUEST = "ExclusiveRequest"


class ShapeType(enum.Enum):
    """How large a balloon is."""

    WHOLE_NODE = "WholeNode"
    EXPLICIT = "Explicit"


class NotWarmTaint(msgspec.Struct, frozen=True):
    """A taint that says "not warm yet"; an empty value or effect matches any."""

    key: Annotated[str, Meta(min_length=1, max_length=317)]
    value: Annotated[str, Meta(max_length=63)] = ""
    effect: str = ""

    def is_on(self, taint: Taint) -> bool:
        """Whether a node's taint is this one."""
        return (
            taint.key == self.key
            and (not self.value or taint.value == self.value)
            and (not self.effect or taint.effect == self.effect)
        )


class NotWarmCondition(msgspec.Struct, frozen=True):
    """A node condition that says "not warm", such as `GPUHealthy: False`."""

    type: Annotated[str, Meta(min_length=1, max_length=316)]
    status: str = "True"


class NotWarm(msgspec.Struct, frozen=True):
    """What keeps a Ready node from counting as warm: preflight taints and health conditions."""

    taints: Annotated[tuple[NotWarmTaint, ...], Meta(max_length=32)] = ()
    conditions: Annotated[tuple[NotWarmCondition, ...], Meta(max_length=32)] = ()


class PoolNodes(msgspec.Struct, frozen=True, rename="camel"):
    """Which nodes the pool consists of, which taints its balloons tolerate, and what is not warm yet.

    A node that was Ready and is not any more is expected back for `not_ready_grace` (a duration).
    """

    selector: LabelSelector
    tolerations: Annotated[tuple[Toleration, ...], Meta(max_length=32)] = ()
    not_warm: NotWarm = NotWarm()
    not_ready_grace: Annotated[str, Meta(max_length=32)] = "3m"


class Schedule(msgspec.Struct, frozen=True, rename="camel"):
    """Another size while `now` is within `duration` of the last firing of `cron` in `time_zone`."""

    cron: Annotated[str, Meta(max_length=128)]
    duration: Annotated[str, Meta(max_length=32)]
    time_zone: Annotated[str, Meta(max_length=64)] = "Etc/UTC"
    size: NodeCount | None = None
    size_percent: Percent | None = None


class ShapeSpec(msgspec.Struct, frozen=True):
    """The balloon's requests: `resources` when Explicit, else a node's room less `slack` (quantities).

    `devices` are extended resources that a WholeNode balloon asks for besides the well-known ones.
    """

    type: ShapeType = ShapeType.WHOLE_NODE
    resources: Quantities = {}
    slack: Quantities = {}
    devices: Annotated[tuple[Annotated[str, Meta(max_length=317)], ...], Meta(max_length=16)] = ()


class SecretName(msgspec.Struct, frozen=True):
    """A Secret of the pool's namespace."""

    name: Annotated[str, Meta(min_length=1, max_length=253)]


class PodTemplate(msgspec.Struct, frozen=True, rename="camel"):
    """What the balloon pods carry besides what the service gives them."""

    labels: Annotated[dict[str, Annotated[str, Meta(max_length=63)]], Meta(max_length=16)] = {}
    annotations: Annotated[dict[str, Annotated[str, Meta(max_length=256)]], Meta(max_length=16)] = {}
    image_pull_secrets: Annotated[tuple[SecretName, ...], Meta(max_length=8)] = ()
    runtime_class_name: Annotated[str, Meta(max_length=253)] = ""


class PoolSpec(msgspec.Struct, frozen=True, rename="camel"):
    """What the user wants; sizes are nodes, percents are of `max_size`."""

    nodes: PoolNodes
    mode: Mode
    size: NodeCount | None = None
    size_percent: Percent | None = None
    min_size: NodeCount = 0
    max_size: Annotated[int, Meta(ge=1, le=MAX_NODES)] | None = None
    fallback_after: Annotated[str, Meta(max_length=32)] = "5m"
    schedules: Annotated[tuple[Schedule, ...], Meta(max_length=32)] = ()
    shape: ShapeSpec = ShapeSpec()
    spread: Spread = Spread.ANTI_AFFINITY
    strategy: Strategy = Strategy.BALLOON
    image: ImageText = ""
    template: PodTemplate = PodTemplate()
    pre_pull: Annotated[tuple[Annotated[str, Meta(min_length=1, max_length=512)], ...], Meta(max_length=8)] = ()
    paused: bool = False
    dry_run: bool = False


class ZoneStatus(msgspec.Struct, frozen=True):
    """One zone's nodes; an empty name stands for nodes without a zone label."""

    zone: str
    nodes: int
    busy: int
    warm: int


class PoolStatus(msgspec.Struct, frozen=True, rename="camel"):
    """What was seen and decided; counts are nodes unless they say balloons."""

    observed_generation: int = 0
    nodes: int = 0
    busy: int = 0
    warm: int = 0
    idle: int = 0
    sick: int = 0
    pending: int = 0
    target: int = 0
    because: str = ""
    message: str = ""
    selector: str = ""
    active_schedule: str = ""
    zones: tuple[ZoneStatus, ...] = ()
    conditions: tuple[Condition, ...] = ()


class BalloonPool(msgspec.Struct, frozen=True):
    """The object as stored; `status` is what this service last wrote."""

    metadata: Metadata
    spec: PoolSpec
    status: PoolStatus = PoolStatus()

    @property
    def key(self) -> ObjectKey:
        """Namespace and name."""
        return key_of(self.metadata)
