"""A cluster in memory that answers the client's calls, for the throttle's service and guard."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, cast

import msgspec

from tests.unit.throttler.levers.json_patch import RefusedError, apply_patch
from throttler.kube.decoding import PageDecoder
from throttler.kube.errors import AlreadyExistsError, ApiError, ConflictError, InvalidError, NotFoundError
from throttler.kube.kube_client import KubeClient
from throttler.kube.requests import EVERYTHING, PatchKind, Resource, Selection
from throttler.service.lever_calls import STALE_PATCH


class FakeCluster:
    """Objects by plural and name; a write is answered with 409 when its version is not the stored one.

    `before_write` runs before each write (somebody else's doing); `faults` answer a verb on a plural instead,
    `patch_s` is how long each patch takes, `hanging` names objects of which it takes 20 s.
    """

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, dict[str, Any]]] = {}
        self.faults: dict[tuple[str, str], ApiError] = {}
        self.patch_s = 0.0
        self.hanging: set[str] = set()
        self.calls: list[tuple[str, str, str]] = []
        self.before_write: Callable[[str, str], None] = lambda plural, name: None
        self.version = 100

    @property
    def client(self) -> KubeClient:
        return cast(KubeClient, self)

    def put(self, plural: str, name: str, **parts: Any) -> dict[str, Any]:
        """Store an object; what it had of other parts stays."""
        self.version += 1
        before = self.objects.setdefault(plural, {}).get(name, {})
        metadata = {**before.get("metadata", {}), "name": name, "uid": f"uid-{name}", **parts.pop("metadata", {})}
        metadata["resourceVersion"] = str(self.version)
        self.objects[plural][name] = {**before, **parts, "metadata": metadata}
        return self.objects[plural][name]

    def written(self) -> list[tuple[str, str, str]]:
        """Calls that change something, leases left out."""
        return [call for call in self.calls if call[0] in ("patch", "delete", "create") and call[1] != "leases"]

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> bytes:
        self._called("get", resource, name)
        return msgspec.json.encode(self._find(resource, name))

    async def newest_version(self, resource: Resource, selection: Selection) -> str:
        return str(self.version)

    async def pages(self, resource: Resource, wire: Any, selection: Selection = EVERYTHING) -> AsyncIterator[Any]:
        self._called("list", resource, "")
        if resource.plural not in self.objects:
            raise NotFoundError("not served", status=404)
        items = [each for each in self.objects[resource.plural].values() if _is_selected(each, selection)]
        yield PageDecoder(wire).decode(msgspec.json.encode({"metadata": {"resourceVersion": "1"}, "items": items}))

    async def patch(
        self,
        resource: Resource,
        body: Any,
        name: str,
        namespace: str | None = None,
        *,
        kind: PatchKind = PatchKind.MERGE,
        field_manager: str | None = None,
        subresource: str | None = None,
    ) -> bytes:
        self._called("patch", resource, name)
        if takes_s := 20.0 if name in self.hanging else self.patch_s:
            await asyncio.sleep(takes_s)
        self.before_write(resource.plural, name)
        stored = self._find(resource, name)
        if kind is PatchKind.JSON:
            # In the server's order: the patch is applied before versions are compared.
            versions = [operation["value"] for operation in body if operation["path"] == "/metadata/resourceVersion"]
            try:
                changed = apply_patch(stored, [each for each in body if each["path"] != "/metadata/resourceVersion"])
            except (RefusedError, IndexError, KeyError) as error:
                raise InvalidError(STALE_PATCH, status=422, reason="Invalid") from error
            self._check_version(stored, versions[0])
        else:
            self._check_version(stored, body.get("metadata", {}).get("resourceVersion"))
            changed = _merged(stored, body)
        self.version += 1
        changed["metadata"]["resourceVersion"] = str(self.version)
        self.objects[resource.plural][name] = changed
        return msgspec.json.encode(changed)

    async def create(self, resource: Resource, body: Any, namespace: str | None = None) -> bytes:
        self._called("create", resource, body["metadata"]["name"])
        if body["metadata"]["name"] in self.objects.get(resource.plural, {}):
            raise AlreadyExistsError("already exists", status=409)
        return msgspec.json.encode(self.put(resource.plural, body["metadata"]["name"], spec=body["spec"]))

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
    ) -> bytes:
        self._called("delete", resource, name)
        self.before_write(resource.plural, name)
        self._check_version(self._find(resource, name), resource_version)
        return msgspec.json.encode(self.objects[resource.plural].pop(name))

    def _called(self, verb: str, resource: Resource, name: str) -> None:
        self.calls.append((verb, resource.plural, name))
        if fault := self.faults.get((verb, resource.plural)):
            raise fault

    def _find(self, resource: Resource, name: str) -> dict[str, Any]:
        try:
            return self.objects[resource.plural][name]
        except KeyError as error:
            raise NotFoundError(f"{name} not found", status=404) from error

    @staticmethod
    def _check_version(stored: dict[str, Any], version: str | None) -> None:
        if version is not None and version != stored["metadata"]["resourceVersion"]:
            raise ConflictError("the object has been modified", status=409)


def _is_selected(thing: dict[str, Any], selection: Selection) -> bool:
    return selection.labels is None or selection.labels in thing["metadata"].get("labels", {})


def _merged(stored: Any, body: Any) -> Any:
    if not isinstance(body, dict):
        return body
    result = dict(stored) if isinstance(stored, dict) else {}
    for key, value in body.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = _merged(result.get(key), value)
    return result
