"""Objects of the lab's API server as plain JSON, for the simulated clouds; no part of the product."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from types import TracebackType
from typing import Any, Self, TypeAlias

from lab.cloud.machines.api_client import ApiClient, ApiError
from lab.controlplane import ApiAccess
from lab.errors import LabError

Json: TypeAlias = dict[str, Any]

APPLY = "application/apply-patch+yaml"
USER_AGENT = "lab-cloud"
COME_BACK_AFTER_S = 0.5
TRY_AGAIN_AFTER_S = 1.0
NOT_FOUND, CONFLICT = 404, 409


class JsonApi:
    """Reads and writes objects; opened and closed with `async with`, within one event loop."""

    def __init__(self, access: ApiAccess) -> None:
        self._client = ApiClient(access, user_agent=USER_AGENT, max_connections=50)

    async def __aenter__(self) -> Self:
        await self._client.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.__aexit__(kind, error, trace)

    async def get(self, path: str) -> Json | None:
        """Return the object or list at `path`, None if there is none."""
        return await _unless(NOT_FOUND, self._client.get(path))

    async def items(self, path: str) -> list[Json]:
        """Return the objects of the list at `path`; empty if the server does not know the resource."""
        listed = await self.get(path)
        return list(listed["items"]) if listed else []

    async def create(self, path: str, body: Json) -> Json | None:
        """Create `body` in the collection `path`; None if an object of that name exists already."""
        return await _unless(CONFLICT, self._client.post(path, body))

    async def apply(self, path: str, body: Json) -> None:
        """Server-side apply `body` at `path`, by force."""
        await self._client.patch(f"{path}?fieldManager={USER_AGENT}&force=true", body, APPLY)

    async def merge(self, path: str, body: Json) -> Json | None:
        """Merge-patch the object at `path`; None if it is gone."""
        return await _unless(NOT_FOUND, self._client.patch(path, body))

    async def delete(self, path: str) -> Json | None:
        """Delete the object at `path`; None if it was gone already."""
        return await _unless(NOT_FOUND, self._client.delete(path))

    async def follow(self, path: str) -> AsyncIterator[tuple[str, Json | None]]:
        """Yield (name, object) for all that is at `path` and for every change, (name, None) once it is gone.

        Never ends: lists again when the watch breaks, also while the server is down or does not know the
        resource yet. For cluster-scoped objects, whose names are unique.
        """
        known: set[str] = set()
        while True:
            try:
                listed = json.loads(await self._client.get(path))
                present = {item["metadata"]["name"]: item for item in listed["items"]}
                for gone in sorted(known - present.keys()):
                    yield gone, None
                for name, item in present.items():
                    yield name, item
                known = set(present)
                async for name, changed in self._changes(path, listed["metadata"]["resourceVersion"]):
                    known.add(name)
                    yield name, changed
            except ApiError:
                await asyncio.sleep(COME_BACK_AFTER_S)

    async def _changes(self, path: str, version: str) -> AsyncIterator[tuple[str, Json | None]]:
        async for line in self._client.watch(path, resourceVersion=version):
            event = json.loads(line)
            if event["type"] == "ERROR":
                return
            if event["type"] != "BOOKMARK":
                changed = event["object"]
                yield changed["metadata"]["name"], None if event["type"] == "DELETED" else changed


async def until_served(send: Callable[[], Awaitable[object]]) -> None:
    """Send a request until the server has served it: one that is busy, or that a test has killed, comes back."""
    while True:
        with contextlib.suppress(LabError):
            await send()
            return
        await asyncio.sleep(TRY_AGAIN_AFTER_S)


async def _unless(status: int, request: Awaitable[bytes]) -> Json | None:
    try:
        answer: Json = json.loads(await request)
    except ApiError as error:
        if error.status == status:
            return None
        raise
    return answer
