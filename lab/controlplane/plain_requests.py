"""What kubectl asks of a server, without starting a process: tests ask hundreds of times and several times a second."""

from __future__ import annotations

import http.client
import json
import select
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias
from urllib.parse import urlencode, urlsplit

from lab.controlplane.credentials import ApiAccess
from lab.errors import LabError

Json: TypeAlias = dict[str, Any]

DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
STAND_IN = "older.example"
"""The group under which tests serve older CRDs of ours: its kinds are asked for by version or group, never by name
alone, for they may be there before ours are."""
TIMEOUT_S = 60.0
TRIES, BUSY = 10, (429, 503)
"""As kubectl does where a server is busy and says when to come back."""
LOOKS, LOOK_AGAIN_S = 20, 0.3
"""A kind that was established a moment ago may not be listed yet."""


@dataclass(frozen=True)
class _Resource:
    """Where the objects of a kind are served."""

    root: str
    plural: str
    is_namespaced: bool

    def path(self, name: str, namespace: str | None) -> str:
        within = f"/namespaces/{namespace}" if self.is_namespaced and namespace is not None else ""
        return f"{self.root}{within}/{self.plural}" + (f"/{name}" if name else "")


class PlainRequests:
    """Not bound to an event loop or a thread; a connection that breaks is made anew."""

    def __init__(self, access: Callable[[], ApiAccess]) -> None:
        self._access = access
        self._idle: list[http.client.HTTPSConnection] = []
        self._resources: dict[str, _Resource] = {}

    def read(self, what: str, name: str, namespace: str | None, labels: str) -> Json:
        """Return one object or a list; `namespace` None means all."""
        path = self._resource(what).path(name, namespace)
        return self.send("GET", f"{path}?{urlencode({'labelSelector': labels})}" if labels else path)

    def try_to_create(self, manifest: Mapping[str, Any], namespace: str) -> Json:
        """Return what the server would store; unknown fields are refused, as by kubectl."""
        metadata = manifest.get("metadata", {})
        resource = self._resource(f"{manifest['apiVersion']}/{manifest['kind']}")
        path = resource.path("", metadata.get("namespace", namespace))
        return self.send("POST", f"{path}?dryRun=All&fieldValidation=Strict", manifest)

    def apply(
        self, manifest: Mapping[str, Any], namespace: str, *, manager: str = "kubectl", as_user: str = ""
    ) -> Json:
        """Do as `kubectl apply --server-side --force-conflicts` and return what is stored; refuses unknown fields."""
        metadata = manifest["metadata"]
        resource = self._resource(f"{manifest['apiVersion']}/{manifest['kind']}")
        path = resource.path(metadata["name"], metadata.get("namespace", namespace))
        how = f"fieldManager={manager}&force=true&fieldValidation=Strict"
        headers = {**_impersonation(as_user), "Content-Type": "application/apply-patch+yaml"}
        return self._ask("PATCH", f"{path}?{how}", json.dumps(manifest).encode(), headers)

    def patch(self, what: str, name: str, change: Mapping[str, Any], namespace: str, subresource: str) -> Json:
        """Do as `kubectl patch --type=merge` and return what is stored."""
        path = self._resource(what).path(name, namespace) + (f"/{subresource}" if subresource else "")
        headers = {"Content-Type": "application/merge-patch+json"}
        return self._ask("PATCH", f"{path}?fieldManager=kubectl-patch", json.dumps(change).encode(), headers)

    def delete(self, what: str, name: str, namespace: str) -> None:
        """Delete an object if there is one; what it owns goes in its own time."""
        path = self._resource(what).path(name, namespace)
        status, answer, _ = self._exchange("DELETE", path, None, {})
        if status >= http.HTTPStatus.BAD_REQUEST and status != http.HTTPStatus.NOT_FOUND:
            raise LabError(f"DELETE {path}: {status} {_refusal(answer)}")

    def send(self, method: str, path: str, body: object = None, *, as_user: str = "") -> Json:
        """Return the answer; raises LabError with the reason and the message of a refusal."""
        headers = _impersonation(as_user)
        if body is not None:
            headers["Content-Type"] = "application/json"
        return self._ask(method, path, None if body is None else json.dumps(body).encode(), headers)

    def close(self) -> None:
        """Close idle connections."""
        while self._idle:
            self._idle.pop().close()

    def _resource(self, what: str) -> _Resource:
        for number in range(LOOKS):
            if what in self._resources:
                return self._resources[what]
            if number > 1:
                time.sleep(LOOK_AGAIN_S)
            self._resources = dict(self._served())
        raise LabError(f"the server doesn't have a resource type {what!r}")

    def _served(self) -> Iterator[tuple[str, _Resource]]:
        """By plural, singular, short name, and version with kind; where two groups share a name, the first is meant."""
        resources: dict[str, _Resource] = {}
        for root in ("/api", "/apis"):
            for group in self._ask("GET", root, None, {"Accept": DISCOVERY})["items"]:
                name = group.get("metadata", {}).get("name")
                for number, version in enumerate(group["versions"]):
                    served = f"{name}/{version['version']}" if name else version["version"]
                    for kind in version.get("resources", ()):
                        resource = _Resource(f"{root}/{served}", kind["resource"], kind["scope"] == "Namespaced")
                        resources.setdefault(f"{served}/{kind['responseKind']['kind']}", resource)
                        plural = kind["resource"]
                        names = (plural, f"{plural}.{name}", kind["singularResource"], *kind.get("shortNames", ()))
                        for called in names if number == 0 and name != STAND_IN else ():
                            resources.setdefault(called, resource)
        yield from resources.items()

    def _ask(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> Json:
        for number in range(TRIES):
            status, answer, wait_s = self._exchange(method, path, body, headers)
            if status not in BUSY or wait_s is None or number == TRIES - 1:
                break
            time.sleep(wait_s)
        if status >= http.HTTPStatus.BAD_REQUEST:
            raise LabError(f"{method} {path}: {status} {_refusal(answer)}")
        try:
            parsed: Json = json.loads(answer)
        except ValueError as error:
            raise LabError(f"{method} {path}: {status}, and no JSON: {answer[:200]!r}") from error
        return parsed

    def _exchange(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> tuple[int, bytes, float | None]:
        """Return status, body, and after how many seconds to come back if the server says so."""
        try:
            return self._send(self._open_connection(), method, path, body, headers)
        except (OSError, http.client.HTTPException) as error:
            raise LabError(f"{method} {path}: {error!r}") from error

    def _send(
        self,
        connection: http.client.HTTPSConnection,
        method: str,
        path: str,
        body: bytes | None,
        headers: Mapping[str, str],
    ) -> tuple[int, bytes, float | None]:
        try:
            connection.request(method, path, body, {"User-Agent": "lab", **headers})
            response = connection.getresponse()
            answer, wait = response.read(), response.headers.get("Retry-After")
        except BaseException:
            connection.close()
            raise
        self._idle.append(connection)
        return response.status, answer, None if wait is None else float(wait)

    def _open_connection(self) -> http.client.HTTPSConnection:
        while self._idle:
            connection = self._idle.pop()
            # The server ended it while it was idle, as when it was killed: there is an end to be read.
            if connection.sock is not None and not _has_ended(connection.sock):
                return connection
            connection.close()
        return self._connect()

    def _connect(self) -> http.client.HTTPSConnection:
        access = self._access()
        address = urlsplit(access.url)
        assert address.hostname is not None
        return http.client.HTTPSConnection(
            address.hostname, address.port, timeout=TIMEOUT_S, context=access.ssl_context()
        )


def _has_ended(connection: socket.socket) -> bool:
    # Not select(), which knows no file beyond the 1,024th.
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    return bool(poll.poll(0))


def _impersonation(user: str) -> dict[str, str]:
    return {"Impersonate-User": user} if user else {}


def _refusal(body: bytes) -> str:
    try:
        status = json.loads(body)
        return f"({status.get('reason', '')}): {status['message']}"
    except (ValueError, KeyError, TypeError, AttributeError):
        return body[:500].decode(errors="replace")
