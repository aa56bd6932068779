"""A lean client of one API server for simulated machines and clouds: JSON bytes in and out, no models, no retries."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar

import aiohttp

from lab.controlplane.credentials import ApiAccess
from lab.errors import LabError
from throttler.kube.transport import EndingConnector

MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
REQUEST_TIMEOUT = aiohttp.ClientTimeout(total=60)
WATCH_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_read=90)
"""A watch that is silent for 90 s is dead: the API server sends bookmarks about once a minute."""


class ApiError(LabError):
    """The API server refused a request, or did not answer (`status` 0)."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class ApiClient:
    """Use as an async context manager, within one event loop."""

    def __init__(self, access: ApiAccess, *, user_agent: str, max_connections: int = 20) -> None:
        self._access = access
        self._user_agent = user_agent
        self._max_connections = max_connections
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        connector = EndingConnector(ssl=self._access.ssl_context(), limit=self._max_connections)
        headers = {"User-Agent": self._user_agent}
        self._session = aiohttp.ClientSession(self._access.url, connector=connector, headers=headers)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._open_session.close()

    async def get(self, path: str, **query: str) -> bytes:
        """Return the body of a GET."""
        return await self._send("GET", path, query=query)

    async def post(self, path: str, body: Mapping[str, Any]) -> bytes:
        """Create an object."""
        return await self._send("POST", path, body)

    async def patch(self, path: str, body: Mapping[str, Any], kind: str = MERGE_PATCH) -> bytes:
        """Patch an object with the given kind of patch."""
        return await self._send("PATCH", path, body, content_type=kind)

    async def delete(self, path: str, options: Mapping[str, Any] | None = None) -> bytes:
        """Delete an object with the given DeleteOptions."""
        return await self._send("DELETE", path, options)

    async def watch(self, path: str, **query: str) -> AsyncIterator[bytes]:
        """Yield the lines of a watch until the API server ends it; raises ApiError when it breaks."""
        query = {**query, "watch": "true", "allowWatchBookmarks": "true"}
        try:
            async with self._open_session.get(path, params=query, timeout=WATCH_TIMEOUT) as response:
                await _raise_for_status(response)
                rest = b""
                async for chunk in response.content.iter_any():
                    *lines, rest = (rest + chunk).split(b"\n")
                    for line in lines:
                        yield line
        except (aiohttp.ClientError, TimeoutError) as error:
            raise ApiError(0, f"watch of {path} broke: {error!r}") from error

    @property
    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            raise LabError("the API client is used outside its `async with`")
        return self._session

    async def _send(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
    ) -> bytes:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": content_type}
        try:
            async with self._open_session.request(
                method, path, data=data, params=query, headers=headers, timeout=REQUEST_TIMEOUT
            ) as response:
                await _raise_for_status(response)
                return await response.read()
        except (aiohttp.ClientError, TimeoutError) as error:
            raise ApiError(0, f"{method} {path}: {error!r}") from error


async def _raise_for_status(response: aiohttp.ClientResponse) -> None:
    if response.status >= 400:
        text = await response.text()
        what = f"{response.method} {response.url.path}: {response.status} {text[:500]}"
        raise ApiError(response.status, what)


Item = TypeVar("Item")


async def for_each(items: Iterable[Item], act: Callable[[Item], Awaitable[None]], *, at_once: int) -> None:
    """Await `act` for every item, at most `at_once` at a time; the first failure ends all and is raised."""
    turns = asyncio.Semaphore(at_once)

    async def in_turn(item: Item) -> None:
        async with turns:
            await act(item)

    try:
        async with asyncio.TaskGroup() as group:
            for item in items:
                group.create_task(in_turn(item))
    except ExceptionGroup as failed:
        # One cause is what a person can act on; the others usually share it.
        raise failed.exceptions[0] from failed
