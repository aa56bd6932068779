"""What runs a cluster: its autoscaler with version, flags and gates, its provider, how many API servers it has."""

import enum
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from balloons.cluster import kinds
from balloons.cluster.kinds import COMPONENTS, GATES_VARIABLE, is_component
from balloons.cluster.plain_data import (
    flags_of,
    gates_of,
    image_version,
    name_of,
    namespace_of,
    part,
    parts,
    text,
    texts,
)
from balloons.cluster.seen_cluster import SeenCluster
from throttler.kube import cluster_autoscaler
from throttler.kube.cluster_autoscaler import AutoscalerStatus, read_status


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
    minor: int = 0
    provider: str = ""
    api_servers: int | None = None

    @property
    def in_words(self) -> str:
        """One line: `cluster-autoscaler v1.36.1, Kubernetes v1.36.3, provider aws, 3 API servers`."""
        parts = [self._autoscaler_words(), f"Kubernetes {self.version or 'of unknown version'}"]
        parts += [f"provider {self.provider}"] if self.provider else []
        if self.api_servers:
            parts.append(f"{self.api_servers} API server{'' if self.api_servers == 1 else 's'}")
        return ", ".join(parts)

    def _autoscaler_words(self) -> str:
        found = {
            Autoscaler.CLUSTER_AUTOSCALER: self.cluster_autoscaler,
            Autoscaler.KARPENTER: self.karpenter,
        }
        words = [f"{each.value} {_version(found[each])}" for each in self.autoscalers]
        return " and ".join(words) or "no autoscaler found"


def detect(seen: SeenCluster) -> Detected:
    """What can be told from the lists that were read."""
    running = {component.name: component for component in _components(seen)}
    status = _status(seen)
    has_ca = status is not None or "cluster-autoscaler" in running
    has_karpenter = "karpenter" in running or bool(seen.listed(kinds.NODE_POOLS).objects)
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
        version=seen.version,
        minor=minor_of(seen.version),
        provider=_provider(seen),
        api_servers=_api_servers(seen),
    )


def minor_of(version: str) -> int:
    """36 of `v1.36.3-gke.1`; 0 where it cannot be told."""
    match = re.match(r"v?1\.(\d{1,3})", version)
    return int(match.group(1)) if match else 0


def _components(seen: SeenCluster) -> Iterator[Component]:
    """From Deployments (the autoscalers) and from pods (static pods of a control plane one can see)."""
    for each in _system_pods(seen):
        yield from _in_pod_spec(each, part(each, "spec"))
    for each in seen.plain(kinds.DEPLOYMENTS):
        yield from _in_pod_spec(each, part(each, "spec", "template", "spec"))


def _system_pods(seen: SeenCluster) -> Iterator[dict[str, Any]]:
    """Decodes no more than it must: of 50,000 pods a hundred are in kube-system."""
    likely = (raw for raw in seen.listed(kinds.PODS).objects if b'"kube-system"' in raw)
    found = (msgspec.json.decode(raw) for raw in likely)
    return (each for each in found if namespace_of(each) == "kube-system")


def _in_pod_spec(holder: Mapping[str, Any], spec: Mapping[str, Any]) -> Iterator[Component]:
    for container in parts(spec, "containers"):
        if is_component(container):
            flags = flags_of(container)
            variables = {text(each, "name"): text(each, "value") for each in parts(container, "env")}
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


def _status(seen: SeenCluster) -> AutoscalerStatus | None:
    for each in seen.plain(kinds.AUTOSCALER_STATUS):
        if said := text(each, "data", cluster_autoscaler.KEY):
            return read_status(said) or AutoscalerStatus()
    return None


def _provider(seen: SeenCluster) -> str:
    """The scheme of the first node's providerID that has one: aws, gce, azure, kwok, ..."""
    for each in seen.plain(kinds.NODES):
        scheme, separator, _ = text(each, "spec", "providerID").partition("://")
        if separator:
            return scheme
    return ""


def _api_servers(seen: SeenCluster) -> int | None:
    if seen.listed(kinds.API_SERVERS).unread is not None:
        return None
    endpoints = [each for piece in seen.plain(kinds.API_SERVERS) for each in parts(piece, "endpoints")]
    return len({address for each in endpoints for address in texts(each, "addresses")})


def _version(component: Component | None) -> str:
    return component.version if component is not None and component.version else "(version not seen)"
