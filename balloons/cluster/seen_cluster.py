"""What was read of a cluster, kind by kind and in the types that decisions use, and what runs it.

What runs a cluster: its autoscaler with version, flags and gates, its provider, how many API servers it has.
"""

import enum
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Any, TypeVar

import msgspec

from balloons.api.pool import BalloonPool
from balloons.api.pool_rules import decode_pool
from balloons.cluster import kinds
from balloons.cluster.kinds import COMPONENTS, GATES_VARIABLE, Kind, is_component
from balloons.cluster.object_fields_and_flags import (
    flags_of,
    gates_of,
    image_version,
    name_of,
    namespace_of,
    part,
    parts,
    text,
    texts,
    whole,
)
from throttler.api.throttle_rules import StoredThrottle, ThrottleWire, throttle_from_wire
from throttler.kube import cluster_autoscaler
from throttler.kube.cluster_autoscaler import AutoscalerStatus, CapacityQuota, read_status
from throttler.kube.custom_objects import Invalid
from throttler.kube.daemon_set import DaemonSet, DaemonSetWire, daemon_set_from_wire
from throttler.kube.karpenter import NodeClaim, NodePool
from throttler.kube.node import Node, NodeWire, Shared, node_from_wire
from throttler.kube.pod import Pod, PodWire, pod_from_wire
from throttler.kube.quantities_and_durations import DurationError, QuantityError, count, parse_duration

MOST_OBJECTS = 250_000
"""Of one kind: above what the largest known clusters hold of pods; more are left out of a list and counted."""
LONGEST_WHY = 200
"""Characters of why an object cannot be decoded."""
AUTOSCALERS = ("cluster-autoscaler", "karpenter")
T = TypeVar("T")
UNREADABLE = (msgspec.MsgspecError, QuantityError, UnicodeDecodeError, RecursionError)
"""What decoding one object may raise."""


class Unread(enum.Enum):
    """Why there is no list; the value is how a sentence says it."""

    FORBIDDEN = "not allowed"
    NOT_SERVED = "not served"
    TIMED_OUT = "timed out"
    FAILED = "failed"
    NOT_ASKED = "not asked for"


@dataclass(frozen=True, slots=True)
class Listed:
    """A kind's objects as they were read, or why not.

    `objects` are JSON texts, cut down by `kept`, in the server's order. `left_out` counts those beyond the reader's
    bound, `unreadable` those that were no JSON objects. `message` is the server's, where there is no list.
    """

    objects: tuple[bytes, ...] = ()
    unread: Unread | None = None
    message: str = ""
    left_out: int = 0
    unreadable: int = 0
    undecodable: dict[tuple[str, str], str] = field(default_factory=dict, init=False, compare=False, repr=False)
    """Namespace and name of an object -> why it is not among the decoded ones (`nodes`, `pods`, ...): filled as they
    are decoded."""

    @property
    def is_complete(self) -> bool:
        """Whether this is the whole list."""
        return self.unread is None and not self.left_out and not self.unreadable


NOT_ASKED = Listed(unread=Unread.NOT_ASKED)


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenCluster:
    """A cluster at `taken_at` (aware, UTC). `lists` has one entry for each kind that was asked for, by `Kind.name`.

    `version` is the API server's (`v1.36.3`), empty where it did not say; `context` is how the user calls the cluster.
    """

    taken_at: datetime
    lists: Mapping[str, Listed] = field(default_factory=lambda: MappingProxyType({}))
    version: str = ""
    context: str = ""

    def listed(self, kind: Kind) -> Listed:
        """The kind's list; one that was never asked for says so."""
        return self.lists.get(kind.name, NOT_ASKED)

    def plain(self, kind: Kind) -> tuple[dict[str, Any], ...]:
        """The kind's objects as plain data; none where the list could not be read. Decoded on every call."""
        return tuple(map(_object, self.listed(kind).objects))

    def naming(self, kind: Kind, name: str) -> Iterator[dict[str, Any]]:
        """Those in which this name stands somewhere, as plain data: of 150,000 pods, which take a gigabyte once they
        are decoded, a few are about one node."""
        # A name from a command line may hold bytes that are no text; no object is called so.
        word = msgspec.json.encode(name.encode(errors="replace").decode())
        return (_object(text) for text in self.listed(kind).objects if word in text)

    def only(self, wanted: Iterable[Kind]) -> "SeenCluster":
        """With these kinds alone: what a command sees that would have read no others."""
        lists = {kind.name: self.listed(kind) for kind in wanted}
        return SeenCluster(taken_at=self.taken_at, lists=lists, version=self.version, context=self.context)

    @property
    def not_seen(self) -> dict[str, Listed]:
        """The kinds that were asked for and could not be read, by name; one that is not served is not missing."""
        usual = (None, Unread.NOT_SERVED, Unread.NOT_ASKED)
        return {name: listed for name, listed in self.lists.items() if listed.unread not in usual}


def _object(text: bytes) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.json.decode(text)
    return plain


def nodes(cluster: SeenCluster) -> tuple[Node, ...]:
    """The nodes."""
    shared = Shared()
    return _readable(cluster, kinds.NODES, NodeWire, lambda wire: node_from_wire(wire, shared))


def pods(cluster: SeenCluster) -> tuple[Pod, ...]:
    """The pods."""
    shared = Shared()
    return _readable(cluster, kinds.PODS, PodWire, lambda wire: pod_from_wire(wire, shared))


def one_pod(plain: Any) -> Pod | None:
    """A pod that was read as plain values; None where it is none that can be used."""
    try:
        return pod_from_wire(msgspec.json.decode(msgspec.json.encode(plain), type=PodWire), Shared())
    except UNREADABLE:
        return None


def daemon_sets(cluster: SeenCluster) -> tuple[DaemonSet, ...]:
    """The DaemonSets."""
    return _readable(cluster, kinds.DAEMON_SETS, DaemonSetWire, daemon_set_from_wire)


def node_pools(cluster: SeenCluster) -> tuple[NodePool, ...]:
    """Karpenter's NodePools."""
    return _readable(cluster, kinds.NODE_POOLS, NodePool, lambda wire: wire)


def node_claims(cluster: SeenCluster) -> tuple[NodeClaim, ...]:
    """Karpenter's NodeClaims."""
    return _readable(cluster, kinds.NODE_CLAIMS, NodeClaim, lambda wire: wire)


def quotas(cluster: SeenCluster) -> tuple[CapacityQuota, ...]:
    """cluster-autoscaler's CapacityQuotas."""
    return _readable(cluster, kinds.QUOTAS, CapacityQuota, lambda wire: wire)


def balloon_pools(cluster: SeenCluster) -> tuple[BalloonPool | Invalid, ...]:
    """The BalloonPools; one that breaks a rule as the reason why."""
    return tuple(map(decode_pool, cluster.listed(kinds.BALLOON_POOLS).objects))


def throttles(cluster: SeenCluster) -> tuple[StoredThrottle, ...]:
    """The JoinThrottles; one that breaks a rule is there as refused."""
    return _readable(cluster, kinds.THROTTLES, ThrottleWire, throttle_from_wire)


def _readable(cluster: SeenCluster, kind: Kind, wire: Any, shape: Callable[[Any], T]) -> tuple[T, ...]:
    decoder, listed = msgspec.json.Decoder(wire), cluster.listed(kind)
    readable = []
    for line in listed.objects:
        try:
            readable.append(shape(decoder.decode(line)))
        except UNREADABLE as error:
            plain = _object(line)
            listed.undecodable[namespace_of(plain), name_of(plain)] = " ".join(str(error).split())[:LONGEST_WHY]
    return tuple(readable)


class Autoscaler(enum.Enum):
    """Who makes and removes nodes, as far as it can be told."""

    CLUSTER_AUTOSCALER = "cluster-autoscaler"
    KARPENTER = "Karpenter"


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """A program found in the cluster. `where` is its Deployment's or pod's namespace/name."""

    name: str
    where: str
    version: str = ""
    flags: Mapping[str, str] = field(default_factory=dict)
    gates: Mapping[str, bool] = field(default_factory=dict)

    def is_on(self, flag: str) -> bool:
        """Whether a boolean flag is given and not false."""
        return self.flags.get(flag, "false").lower() in ("true", "1", "t")

    def figure(self, flag: str) -> float | None:
        """What a flag says, a number or (in seconds) a time; None where it is not given or neither."""
        said = self.flags.get(flag, "")
        try:
            return float(said) if said.replace(".", "", 1).isdecimal() and said.isascii() else parse_duration(said)
        except DurationError:
            return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Detected:
    """What was found. `autoscalers` may be both, or none: a managed one runs out of sight and shows by its objects.

    `api_servers` is None where the EndpointSlices could not be read; `minor` is 0 where the version is unknown.
    """

    autoscalers: tuple[Autoscaler, ...] = ()
    cluster_autoscaler: Component | None = None
    karpenter: Component | None = None
    controller_manager: Component | None = None
    scheduler: Component | None = None
    status: AutoscalerStatus | None = None
    """What cluster-autoscaler's ConfigMap says of its groups."""
    version: str = ""
    provider: str = ""
    api_servers: int | None = None

    @property
    def in_words(self) -> str:
        """One line: `cluster-autoscaler v1.36.1, Kubernetes v1.36.3, provider aws, 3 API servers`."""
        parts = [self._autoscaler_words(), f"Kubernetes {self.version or 'of unknown version'}"]
        parts += [f"provider {self.provider}"] if self.provider else []
        if self.api_servers:
            parts.append(count(self.api_servers, "API server"))
        return ", ".join(parts)

    def _autoscaler_words(self) -> str:
        programs = {
            Autoscaler.CLUSTER_AUTOSCALER: self.cluster_autoscaler,
            Autoscaler.KARPENTER: self.karpenter,
        }
        words = [f"{autoscaler.value} {_version(programs[autoscaler])}" for autoscaler in self.autoscalers]
        return " and ".join(words) or "no autoscaler found"


def detect(cluster: SeenCluster) -> Detected:
    """What can be told from the lists that were read."""
    running, stopped = _components(cluster)
    has_pools = bool(cluster.listed(kinds.NODE_POOLS).objects)
    has_karpenter = "karpenter" in running or (has_pools and "karpenter" not in stopped)
    status = _status(cluster)
    if has_karpenter and "cluster-autoscaler" not in running and not _is_fresh(status, cluster):
        # Whoever moves to Karpenter removes cluster-autoscaler, or leaves it no replicas. Its last status stays.
        status = None
    has_ca = status is not None or "cluster-autoscaler" in running
    return Detected(
        autoscalers=(
            *([Autoscaler.CLUSTER_AUTOSCALER] if has_ca else []),
            *([Autoscaler.KARPENTER] if has_karpenter else []),
        ),
        cluster_autoscaler=running.get("cluster-autoscaler"),
        karpenter=running.get("karpenter"),
        controller_manager=running.get("kube-controller-manager"),
        scheduler=running.get("kube-scheduler"),
        status=status,
        version=cluster.version,
        provider=_provider(cluster),
        api_servers=_api_servers(cluster),
    )


def minor_of(version: str) -> int:
    """36 of `v1.36.3-gke.1`; 0 where it cannot be told."""
    match = re.match(r"v?1\.(\d{1,3})", version)
    return int(match.group(1)) if match else 0


def _components(cluster: SeenCluster) -> tuple[dict[str, Component], set[str]]:
    """Programs by name, from Deployments (the autoscalers) and from pods (static pods of a control plane one can see);
    and the names of those whose Deployments are told to have no replicas."""
    running: dict[str, Component] = {}
    stopped: set[str] = set()
    for pod in _system_pods(cluster):
        running |= {component.name: component for component in _in_pod_spec(pod, part(pod, "spec"))}
    for deployment in cluster.plain(kinds.DEPLOYMENTS):
        # Other programs in Deployments are of clusters that this one hosts, or schedulers beside its own.
        every = _in_pod_spec(deployment, part(deployment, "spec", "template", "spec"))
        programs = {own.name: own for own in every if own.name in AUTOSCALERS}
        if whole(deployment, "spec", "replicas") == 0:
            stopped |= programs.keys()
        else:
            running |= programs
    return running, stopped


def _is_fresh(status: AutoscalerStatus | None, cluster: SeenCluster) -> bool:
    return status is not None and bool(status.at_s) and not status.is_old(cluster.taken_at.timestamp())


def _system_pods(cluster: SeenCluster) -> Iterator[dict[str, Any]]:
    """Decodes no more than it must: of 50,000 pods a hundred are in kube-system."""
    likely = (raw for raw in cluster.listed(kinds.PODS).objects if b'"kube-system"' in raw)
    pods = (msgspec.json.decode(raw) for raw in likely)
    return (pod for pod in pods if namespace_of(pod) == "kube-system")


def _in_pod_spec(holder: Mapping[str, Any], spec: Mapping[str, Any]) -> Iterator[Component]:
    for container in parts(spec, "containers"):
        if is_component(container):
            flags = flags_of(container)
            variables = {text(variable, "name"): text(variable, "value") for variable in parts(container, "env")}
            yield Component(
                name=_name_of(container),
                where=f"{namespace_of(holder)}/{name_of(holder)}",
                version=image_version(text(container, "image")),
                flags=flags,
                gates=gates_of(flags.get("feature-gates") or variables.get(GATES_VARIABLE, "")),
            )


def _name_of(container: Mapping[str, Any]) -> str:
    words = f"{container.get('image')} {container.get('command')} {container.get('name')}"
    return next((name for name in COMPONENTS if name in words), "")


def _status(cluster: SeenCluster) -> AutoscalerStatus | None:
    for config_map in cluster.plain(kinds.AUTOSCALER_STATUS):
        if said := text(config_map, "data", cluster_autoscaler.KEY):
            return read_status(said) or AutoscalerStatus()
    return None


def _provider(cluster: SeenCluster) -> str:
    """The scheme of the first node's providerID that has one: aws, gce, azure, kwok, ..."""
    for node in cluster.plain(kinds.NODES):
        scheme, separator, _ = text(node, "spec", "providerID").partition("://")
        if separator:
            return scheme
    return ""


def _api_servers(cluster: SeenCluster) -> int | None:
    if cluster.listed(kinds.API_SERVERS).unread is not None:
        return None
    endpoints = [endpoint for piece in cluster.plain(kinds.API_SERVERS) for endpoint in parts(piece, "endpoints")]
    return len({address for endpoint in endpoints for address in texts(endpoint, "addresses")})


def _version(component: Component | None) -> str:
    return component.version if component is not None and component.version else "(version not seen)"
