"""An API server for one resource in memory, with versions, pages, watches, bookmarks and faults.

It stands where the HTTP transport stands: what it is asked is a Request, what it answers a response.
"""

import asyncio
import json
import math
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import msgspec

from throttler.kube.connection import CredentialKeeper, Credentials, ServerClock
from throttler.kube.errors import UnreachableError
from throttler.kube.kube_client import Caller, KubeClient, OpenGate
from throttler.kube.requests import Request, Resource

THINGS = Resource("", "v1", "nodes", "Node", is_namespaced=False)


class Meta(msgspec.Struct, rename="camel"):
    """The part of its metadata that caches need."""

    name: str
    namespace: str = ""
    resource_version: str = ""


class Thing(msgspec.Struct):
    """One of them, as a cache decodes it."""

    metadata: Meta
    size: int = 0


class FakeResponse:
    """An answer given at once."""

    def __init__(self, status: int, body: bytes = b"{}", headers: Mapping[str, str] | None = None) -> None:
        self.status, self.body, self.headers = status, body, dict(headers or {})

    async def read(self) -> bytes:
        return self.body

    async def read_chunk(self) -> bytes:
        chunk, self.body = self.body, b""
        return chunk


Fault = Exception | FakeResponse | Callable[[Request], Any]


class FakeApi:
    """`put` and `remove` change the state; `faults` are used up one per request, `refuse` holds by verb."""

    def __init__(self) -> None:
        self.version = 100
        self.oldest = 0
        self.objects: dict[str, dict[str, Any]] = {}
        self.log: list[tuple[int, bytes]] = []
        self.sent: list[tuple[float, Request, Credentials]] = []
        self.faults: deque[Fault] = deque()
        self.refuse: dict[str, FakeResponse] = {}
        self.accepted: str | None = None
        self.watches: list[FakeWatch] = []
        self.has_bookmarks = True
        self.is_mute = False
        self.is_frozen = False
        self.streams_lists = True
        """Whether it offers WatchList, as servers do from Kubernetes 1.34 on."""
        self.page_s = 0.0
        """How long it takes over a page."""

    def put(self, name: str, **fields: Any) -> None:
        kind = "MODIFIED" if name in self.objects else "ADDED"
        self.version += 1
        metadata = {"name": name, "resourceVersion": str(self.version), "uid": f"uid-{name}"}
        self.objects[name] = {"metadata": metadata, **fields}
        self._emit(kind, self.objects[name])

    def remove(self, name: str) -> None:
        self.version += 1
        gone = self.objects.pop(name)
        gone["metadata"]["resourceVersion"] = str(self.version)
        self._emit("DELETED", gone)

    def lose(self, name: str) -> None:
        """Removes without an event: what a faulty server or proxy does."""
        self.version += 1
        del self.objects[name]

    def compact(self) -> None:
        """Forgets the past: any watch from before now is answered with 410."""
        self.version += 1
        self.oldest = self.version

    def go_back(self, version: int, *names: str) -> None:
        """Restores its etcd from a backup of that version, with these objects. A watch from a later version is
        accepted, and hears nothing of what happens up to there, as of a real server (kubernetes/kubernetes#107457)."""
        self.break_watches(down())
        self.version, self.log = version, []
        self.objects = {name: thing for name, thing in self.objects.items() if name in names}

    def break_watches(self, error: Exception | None = None) -> None:
        """Ends all open watches, cleanly or with an error."""
        for watch in self.watches:
            watch.queue.put_nowait(error or b"")
        self.watches.clear()

    def say(self, line: bytes) -> None:
        """Sends any bytes down all open watches."""
        for watch in self.watches:
            watch.queue.put_nowait(line)

    def lists(self) -> int:
        """How many lists were begun, streamed or in pages; to list one object is to ask for the version."""
        pages = [request for _, request, _ in self.sent if request.verb == "list" and request.query["limit"] != "1"]
        return self.verbs().count("watchlist") + sum("continue" not in request.query for request in pages)

    def verbs(self) -> list[str]:
        return [request.verb for _, request, _ in self.sent]

    def times(self, verb: str) -> list[float]:
        return [at for at, request, _ in self.sent if request.verb == verb]

    def _emit(self, kind: str, thing: dict[str, Any]) -> None:
        line = json.dumps({"type": kind, "object": thing}).encode() + b"\n"
        self.log.append((self.version, line))
        for watch in self.watches:
            if not self.is_mute and watch.since < self.version:
                watch.queue.put_nowait(line)

    @asynccontextmanager
    async def open(self, request: Request, credentials: Credentials) -> AsyncIterator[Any]:
        self.sent.append((asyncio.get_running_loop().time(), request, credentials))
        await asyncio.sleep(0)
        is_known = self.accepted in (None, credentials.authorization)
        answer: Any = self._answer(request) if is_known else status_answer(401, "Unauthorized")
        if asyncio.iscoroutine(answer):
            answer = await answer
        if isinstance(answer, Exception):
            raise answer
        try:
            yield answer
        finally:
            if answer in self.watches:
                self.watches.remove(answer)

    async def close(self) -> None:
        self.break_watches()

    def _answer(self, request: Request) -> Any:
        if self.faults:
            fault = self.faults.popleft()
            return fault(request) if callable(fault) else fault
        if request.verb in self.refuse:
            return self.refuse[request.verb]
        if request.verb == "list":
            return self._page(request)
        if request.verb == "watchlist":
            return (
                self._stream() if self.streams_lists else status_answer(422, "Invalid", "sendInitialEvents: forbidden")
            )
        if request.verb == "watch":
            return self._watch(request)
        return FakeResponse(200, request.body or b"{}")

    def _stream(self) -> "FakeResponse":
        lines = [{"type": "ADDED", "object": each} for each in self.objects.values()]
        meta = {"resourceVersion": str(self.version), "annotations": {"k8s.io/initial-events-end": "true"}}
        lines.append({"type": "BOOKMARK", "object": {"metadata": meta}})
        return FakeResponse(200, b"".join(json.dumps(line).encode() + b"\n" for line in lines))

    async def _page(self, request: Request) -> FakeResponse:
        """The version and the objects are those of the first page, as the continue token says on a real server."""
        start, limit = int(request.query.get("continue", "0")), int(request.query["limit"])
        if limit == 1:
            return FakeResponse(200, json.dumps({"metadata": {"resourceVersion": str(self.version)}}).encode())
        if start == 0:
            self._listed = self.version, dict(sorted(self.objects.items()))
        version, objects = self._listed
        await asyncio.sleep(self.page_s)
        names = list(objects)
        meta = {"resourceVersion": str(version)}
        if start + limit < len(names):
            meta["continue"] = str(start + limit)
        items = [objects[name] for name in names[start : start + limit]]
        return FakeResponse(200, json.dumps({"metadata": meta, "items": items}).encode())

    def _watch(self, request: Request) -> Any:
        since = int(request.query["resourceVersion"])
        if since < self.oldest:
            return status_answer(410, "Expired", "too old resource version")
        watch = FakeWatch(self, since, float(request.query["timeoutSeconds"]))
        self.watches.append(watch)
        return watch


class FakeWatch:
    """An open watch: what was missed first, then what happens; a bookmark a minute and one
    2 s before the end, as the real server's; ends by itself.

    Each bookmark has a higher version than the one before: other resources are written all the time.
    """

    status = 200

    def __init__(self, api: FakeApi, since: int, lifetime_s: float) -> None:
        self.headers: dict[str, str] = {}
        self.since = since
        self.queue: asyncio.Queue[bytes | Exception] = asyncio.Queue()
        self._api = api
        now = asyncio.get_running_loop().time()
        self._end_at = now + lifetime_s
        self._bookmark_at = min(now + 60, self._end_at - 2)
        for version, line in api.log:
            if version > since:
                self.queue.put_nowait(line)

    async def read(self) -> bytes:
        raise AssertionError("a watch is not read to its end")

    async def read_chunk(self) -> bytes:
        while True:
            try:
                async with asyncio.timeout_at(self._next_at()):
                    chunk = await self.queue.get()
            except TimeoutError:
                if not self.queue.empty():
                    continue  # what happened at this very moment goes before a bookmark of a later version
                now = asyncio.get_running_loop().time()
                if now >= self._end_at:
                    return b""
                self._bookmark_at = now + 60
                self._api.version += 1
                if self._api.version <= self.since:
                    continue
                return self._bookmark()
            if isinstance(chunk, Exception):
                raise chunk
            return chunk

    def _next_at(self) -> float:
        if self._api.is_frozen:
            return math.inf
        return min(self._bookmark_at, self._end_at) if self._api.has_bookmarks else self._end_at

    def _bookmark(self) -> bytes:
        meta = {"resourceVersion": str(self._api.version), "creationTimestamp": None}
        return json.dumps({"type": "BOOKMARK", "object": {"metadata": meta}}).encode() + b"\n"


class FixedSource:
    """Credentials that never change."""

    async def read(self, afresh: bool) -> Credentials:
        return Credentials("Bearer fixed")


def status_answer(status: int, reason: str = "", message: str = "", **headers: str) -> FakeResponse:
    """An answer with a Status object; header names are given with underscores."""
    body = json.dumps({"kind": "Status", "reason": reason, "message": message, "code": status}).encode()
    return FakeResponse(status, body, {name.replace("_", "-"): value for name, value in headers.items()})


def down() -> UnreachableError:
    """What a transport raises when nobody listens."""
    return UnreachableError("connection refused")


def client_for(api: Any, **changes: Any) -> KubeClient:
    """A client whose transport is the fake; call it inside the running loop."""
    return KubeClient(caller_for(api, **changes), is_dry_run=changes.get("is_dry_run", False))


def caller_for(api: Any, **changes: Any) -> Caller:
    return Caller(
        transport=api,
        credentials=changes.get("credentials") or CredentialKeeper(FixedSource(), Credentials("Bearer fixed")),
        gate=changes.get("gate") or OpenGate(),
        observer=changes.get("observer") or (lambda attempt: None),
        random=Random(1),
        timeout_s=10.0,
        server_clock=changes.get("server_clock") or ServerClock(),
    )
