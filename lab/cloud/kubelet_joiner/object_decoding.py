"""The few fields of Pods and Nodes that a joiner reads, from answers and from watch events."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec


class Identity(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """Which object it is, and which version of it."""

    uid: str = ""
    resource_version: str = ""


class _Holder(msgspec.Struct, gc=False):
    metadata: Identity


_decode = msgspec.json.Decoder(_Holder).decode


def identity_of(body: bytes) -> Identity:
    """Return uid and resource version of the object in `body`."""
    return _decode(body).metadata


class OwnerReference(msgspec.Struct, frozen=True, gc=False):
    """Who made the pod."""

    kind: str = ""
    name: str = ""


class PodMeta(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """Name and fate."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    deletion_timestamp: str | None = None
    generation: int = 1
    owner_references: tuple[OwnerReference, ...] = ()


class NamedReference(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """A ConfigMap or Secret in the pod's namespace, under the name that the field has there."""

    name: str = ""
    secret_name: str = ""


class TokenSource(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """What kind of ServiceAccount token a pod wants."""

    audience: str = ""
    expiration_seconds: int = 3600


class ProjectedSource(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """One source of a projected volume."""

    service_account_token: TokenSource | None = None
    config_map: NamedReference | None = None
    secret: NamedReference | None = None


class Projected(msgspec.Struct, frozen=True, gc=False):
    """A projected volume."""

    sources: tuple[ProjectedSource, ...] = ()


class Volume(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """A volume, as far as it makes the kubelet ask the API for something."""

    name: str = ""
    projected: Projected | None = None
    config_map: NamedReference | None = None
    secret: NamedReference | None = None


class EnvSource(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """Where an environment variable, or all of them, come from."""

    config_map_key_ref: NamedReference | None = None
    secret_key_ref: NamedReference | None = None


class Env(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """One environment variable."""

    value_from: EnvSource | None = None


class EnvFrom(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """A whole object as environment."""

    config_map_ref: NamedReference | None = None
    secret_ref: NamedReference | None = None


class Container(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """One container."""

    name: str
    image: str = ""
    env: tuple[Env, ...] = ()
    env_from: tuple[EnvFrom, ...] = ()


class PodSpec(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """What is to run."""

    containers: tuple[Container, ...] = ()
    volumes: tuple[Volume, ...] = ()
    service_account_name: str = "default"
    image_pull_secrets: tuple[NamedReference, ...] = ()


class PodCondition(msgspec.Struct, frozen=True, gc=False):
    """One condition."""

    type: str
    status: str


class PodStatus(msgspec.Struct, frozen=True, gc=False):
    """What the API says of it."""

    phase: str = ""
    conditions: tuple[PodCondition, ...] = ()


class Pod(msgspec.Struct, frozen=True, gc=False):
    """A Pod, in part."""

    metadata: PodMeta
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def path(self) -> str:
        """Where it is in the API."""
        return f"/api/v1/namespaces/{self.metadata.namespace}/pods/{self.metadata.name}"

    @property
    def is_of_daemon_set(self) -> bool:
        """Whether a DaemonSet made it."""
        return any(owner.kind == "DaemonSet" for owner in self.metadata.owner_references)

    def is_of(self, daemon_set: str) -> bool:
        """Whether the DaemonSet of this name made it."""
        owners = self.metadata.owner_references
        return any(owner.kind == "DaemonSet" and owner.name == daemon_set for owner in owners)

    @property
    def is_running(self) -> bool:
        """Whether the API says so."""
        return self.status.phase == "Running"

    @property
    def is_running_and_ready(self) -> bool:
        """Whether the API says so."""
        return self.is_running and any(c.type == "Ready" and c.status == "True" for c in self.status.conditions)

    @property
    def is_over(self) -> bool:
        """Whether nothing of it will ever run again."""
        return self.status.phase in ("Succeeded", "Failed")

    @property
    def token_sources(self) -> list[TokenSource]:
        """The ServiceAccount tokens it wants mounted, one request each."""
        return [s.service_account_token for s in self._projected_sources() if s.service_account_token is not None]

    def referenced_objects(self) -> set[tuple[str, str]]:
        """Return the (resource, name) pairs that a kubelet watches for this pod, one watch per object."""
        return {(resource, name) for resource, name in self._references() if name}

    def _projected_sources(self) -> Iterator[ProjectedSource]:
        for volume in self.spec.volumes:
            if volume.projected is not None:
                yield from volume.projected.sources

    def _references(self) -> Iterator[tuple[str, str]]:
        for secret in self.spec.image_pull_secrets:
            yield "secrets", secret.name
        for volume in self.spec.volumes:
            yield from _pair(volume.config_map, volume.secret)
        for source in self._projected_sources():
            yield from _pair(source.config_map, source.secret)
        for container in self.spec.containers:
            for whole in container.env_from:
                yield from _pair(whole.config_map_ref, whole.secret_ref)
            for variable in (env.value_from for env in container.env if env.value_from):
                yield from _pair(variable.config_map_key_ref, variable.secret_key_ref)


def _pair(config_map: NamedReference | None, secret: NamedReference | None) -> Iterator[tuple[str, str]]:
    if config_map is not None:
        yield "configmaps", config_map.name
    if secret is not None:
        yield "secrets", secret.secret_name or secret.name


class NodeStatus(msgspec.Struct, frozen=True, gc=False):
    """The conditions of a Node."""

    conditions: tuple[PodCondition, ...] = ()


class Node(msgspec.Struct, frozen=True, gc=False):
    """A Node, in part."""

    status: NodeStatus = NodeStatus()

    @property
    def is_ready(self) -> bool:
        """Whether the API says that it is Ready."""
        return any(c.type == "Ready" and c.status == "True" for c in self.status.conditions)


class PodEvent(msgspec.Struct, frozen=True, gc=False):
    """A line of a watch of Pods."""

    type: str
    object: Pod


class NodeEvent(msgspec.Struct, frozen=True, gc=False):
    """A line of a watch of Nodes."""

    type: str
    object: Node


_pod_event = msgspec.json.Decoder(PodEvent).decode
_node_event = msgspec.json.Decoder(NodeEvent).decode
CHANGES = (b'{"type":"ADDED"', b'{"type":"MODIFIED"', b'{"type":"DELETED"')


def read_pod_event(line: bytes) -> PodEvent | None:
    """Return the event, or None for a bookmark or an error."""
    return _pod_event(line) if line.startswith(CHANGES) else None


def read_node_event(line: bytes) -> NodeEvent | None:
    """Return the event, or None for a bookmark or an error."""
    return _node_event(line) if line.startswith(CHANGES) else None
