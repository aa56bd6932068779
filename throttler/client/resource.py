"""Which kind of object a call is about, and the paths of its API."""

from dataclasses import dataclass
from urllib.parse import quote


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
