"""Requests as values: of which kind an object is, and which method, path, query and body each call is made of."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any
from urllib.parse import quote

import msgspec


@dataclass(frozen=True, slots=True)
class Resource:
    """A resource as discovery names it: API group (empty for core), version, plural, kind and scope."""

    group: str
    version: str
    plural: str
    kind: str
    is_namespaced: bool = True

    @property
    def api_version(self) -> str:
        """`v1` or `group/version`, as manifests write it."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def collection_path(self, namespace: str | None = None) -> str:
        """The path of all objects, or of those in one namespace."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        if not namespace:
            return f"{root}/{self.plural}"
        if not self.is_namespaced:
            raise ValueError(f"{self.plural} have no namespace, got {namespace!r}")
        return f"{root}/namespaces/{quote(namespace, safe='')}/{self.plural}"

    def object_path(self, name: str, namespace: str | None = None, subresource: str | None = None) -> str:
        """The path of one object.

        Raises ValueError on an empty name, or an empty namespace of a namespaced resource: the path would
        then mean the whole collection, and a delete would empty it.
        """
        if not name or name in (".", ".."):
            raise ValueError(f"a name is needed for {self.plural}, got {name!r}")
        if self.is_namespaced and not namespace:
            raise ValueError(f"a namespace is needed for {self.plural}/{name}")
        path = f"{self.collection_path(namespace)}/{quote(name, safe='')}"
        return f"{path}/{quote(subresource, safe='/')}" if subresource else path

    def label(self, subresource: str | None = None) -> str:
        """The name used for metrics: `pods`, `deployments/scale`."""
        return f"{self.plural}/{subresource}" if subresource else self.plural


CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
DAEMON_SETS = Resource("apps", "v1", "daemonsets", "DaemonSet")
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
EVENTS = Resource("events.k8s.io", "v1", "events", "Event")
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")
NODES = Resource("", "v1", "nodes", "Node", is_namespaced=False)
PODS = Resource("", "v1", "pods", "Pod")

Body = Mapping[str, Any] | Sequence[Any]
"""What encodes to JSON."""

DRY_RUN = {"dryRun": "All"}


class PatchKind(StrEnum):
    """How a patch body is read by the server."""

    JSON = "application/json-patch+json"
    MERGE = "application/merge-patch+json"


APPLY_CONTENT = "application/apply-patch+yaml"
"""Server-side apply; JSON is YAML, and every server since 1.16 takes this type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One call, apart from where the server is and who asks.

    `is_retry_safe`: sending it twice does no more than sending it once.
    """

    verb: str
    resource: str
    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = field(default=None, repr=False)
    content_type: str = "application/json"
    is_retry_safe: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which objects of a resource: one namespace or all, by labels, by fields (server syntax)."""

    namespace: str | None = None
    labels: str | None = None
    fields: str | None = None

    def query(self) -> dict[str, str]:
        """The selectors as query parameters."""
        pairs = {"labelSelector": self.labels, "fieldSelector": self.fields}
        return {key: value for key, value in pairs.items() if value}


EVERYTHING = Selection()


def get_request(resource: Resource, name: str, namespace: str | None) -> Request:
    """Read one object from the server, never from a cache."""
    path = resource.object_path(name, namespace)
    return Request(verb="get", resource=resource.label(), method="GET", path=path, is_retry_safe=True)


def list_request(
    resource: Resource,
    selection: Selection,
    *,
    limit: int,
    continue_token: str,
    resource_version: str | None,
) -> Request:
    """One page of a list.

    `resource_version` None asks for the newest state, "0" for whatever a cache has (cheapest, may be old);
    any other value for a state not older than that. A continue token carries its own version.
    """
    query = {**selection.query(), "limit": str(limit)}
    if continue_token:
        query["continue"] = continue_token
    elif resource_version is not None:
        query |= {"resourceVersion": resource_version, "resourceVersionMatch": "NotOlderThan"}
    path = resource.collection_path(selection.namespace)
    return Request(verb="list", resource=resource.label(), method="GET", path=path, query=query, is_retry_safe=True)


def watch_request(resource: Resource, selection: Selection, *, resource_version: str, lifetime_s: int) -> Request:
    """Changes after `resource_version`, with bookmarks; the server ends it after `lifetime_s`.

    Not retry-safe on purpose: only the owner of the watch knows from which version to go on.
    """
    query = {
        **selection.query(),
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": resource_version,
        "timeoutSeconds": str(lifetime_s),
    }
    path = resource.collection_path(selection.namespace)
    return Request(verb="watch", resource=resource.label(), method="GET", path=path, query=query)


def streamed_list_request(resource: Resource, selection: Selection, *, lifetime_s: int) -> Request:
    """A list of the newest state as a stream of events (WatchList, on by default from Kubernetes 1.34), which a
    bookmark with the annotation `k8s.io/initial-events-end` ends. The server answers from its own cache, never from
    etcd, and neither side holds the whole list. A server that does not offer it answers 422.
    """
    query = {
        **selection.query(),
        "watch": "true",
        "allowWatchBookmarks": "true",
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "timeoutSeconds": str(lifetime_s),
    }
    path = resource.collection_path(selection.namespace)
    return Request(verb="watchlist", resource=resource.label(), method="GET", path=path, query=query)


def create_request(resource: Resource, body: Body, namespace: str | None) -> Request:
    """A new object."""
    if resource.is_namespaced and not namespace:
        raise ValueError(f"a namespace is needed to create {resource.plural}")
    path = resource.collection_path(namespace)
    return Request(verb="create", resource=resource.label(), method="POST", path=path, body=msgspec.json.encode(body))


def apply_request(
    resource: Resource,
    body: Body,
    name: str,
    namespace: str | None,
    *,
    field_manager: str,
    force: bool,
    subresource: str | None,
) -> Request:
    """Server-side apply: the fields of `body`, and no others, are ours afterwards."""
    if not field_manager:
        raise ValueError("server-side apply needs a field manager")
    return Request(
        verb="apply",
        resource=resource.label(subresource),
        method="PATCH",
        path=resource.object_path(name, namespace, subresource),
        query={"fieldManager": field_manager, "force": "true" if force else "false"},
        body=msgspec.json.encode(body),
        content_type=APPLY_CONTENT,
        is_retry_safe=True,
    )


def patch_request(
    resource: Resource,
    body: Body,
    name: str,
    namespace: str | None,
    *,
    kind: PatchKind,
    field_manager: str | None,
    subresource: str | None,
) -> Request:
    """A patch. Merge patches only set values and may be repeated; JSON patches may add twice."""
    return Request(
        verb="patch",
        resource=resource.label(subresource),
        method="PATCH",
        path=resource.object_path(name, namespace, subresource),
        query={"fieldManager": field_manager} if field_manager else {},
        body=msgspec.json.encode(body),
        content_type=kind.value,
        is_retry_safe=kind is PatchKind.MERGE,
    )


def delete_request(
    resource: Resource,
    name: str,
    namespace: str | None,
    *,
    uid: str | None,
    resource_version: str | None,
    propagation: str | None,
) -> Request:
    """A delete with preconditions; with a uid it can only ever hit that one object and may be repeated."""
    wanted = {"uid": uid, "resourceVersion": resource_version}
    preconditions = {key: value for key, value in wanted.items() if value}
    options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
    options |= {"preconditions": preconditions} if preconditions else {}
    options |= {"propagationPolicy": propagation} if propagation else {}
    return Request(
        verb="delete",
        resource=resource.label(),
        method="DELETE",
        path=resource.object_path(name, namespace),
        body=msgspec.json.encode(options),
        is_retry_safe=uid is not None,
    )


def raw_get_request(path: str) -> Request:
    """Any other path: `/readyz`, `/version`, `/metrics`; counted under its first segment."""
    label = "/" + path.strip("/").split("/", 1)[0].split("?", 1)[0]
    return Request(verb="get", resource=label, method="GET", path=path, is_retry_safe=True)
