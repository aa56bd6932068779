"""The connection of joiners to one API server: one pool and one TLS context for all that share a credential."""

from __future__ import annotations

import asyncio
import ssl
from collections import Counter
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Self

import aiohttp
from yarl import URL

from lab.cloud.joiner.node_api import HEARTBEAT, HEARTBEAT_S, JSON, LONGEST_WATCH_S, Answer
from lab.cloud.joiner.retry import BROKEN, wait_before_retry_s
from lab.cloud.joiner.turns import Turns
from lab.controlplane.access import ApiAccess
from lab.errors import LabError
from throttler.client.connector import EndingConnector

PROTOBUF = "application/vnd.kubernetes.protobuf"
USER_AGENT = "lab-joiner"
NORMAL_TIMEOUT = aiohttp.ClientTimeout(total=70)
"""The API server gives up after 60 s; a kubelet's ordinary client sets no limit of its own."""
HEARTBEAT_TIMEOUT = aiohttp.ClientTimeout(total=HEARTBEAT_S)
WATCH_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=30, sock_read=LONGEST_WATCH_S + 30)
"""A watch of a quiet collection gets no bookmarks, so only the end that was asked for tells that it is dead."""


class Connection:
    """An async context manager within one event loop."""

    def __init__(self, access: ApiAccess, *, shows_certificate: bool = True) -> None:
        self._access = access
        self._shows_certificate = shows_certificate
        self._base = URL(access.url)
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        # One task's requests are few; the herd's watches are thousands: no limit, the kernel has its own.
        connector = EndingConnector(ssl=self._tls(), limit=0, keepalive_timeout=60)
        self._session = aiohttp.ClientSession(
            connector=connector, cookie_jar=aiohttp.DummyCookieJar(), headers={"User-Agent": USER_AGENT}
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.session.close()

    @property
    def session(self) -> aiohttp.ClientSession:
        """The open session; raises LabError before it is entered."""
        if self._session is None:
            raise LabError("the joiners' connection is used outside its `async with`")
        return self._session

    def _tls(self) -> ssl.SSLContext:
        if self._shows_certificate:
            return self._access.ssl_context()
        return ssl.create_default_context(cafile=self._access.ca)

    def url(self, path: str, query: Mapping[str, str] | None) -> URL:
        """Return the full address of a path that is encoded already."""
        url = self._base.join(URL(path, encoded=True))
        return url.with_query(query) if query else url


class NodeClient:
    """One node's client: counts every attempt, waits and repeats as client-go does. See `NodeApi`."""

    def __init__(self, connection: Connection, headers: Mapping[str, str], turns: Turns) -> None:
        self._connection = connection
        self._turns = turns
        self._read_headers = {**headers, "Accept": JSON}
        self._drop_headers = {**headers, "Accept": f"{PROTOBUF}, {JSON}"}
        self.attempts: Counter[int] = Counter()
        self.retries = 0

    async def send(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        kind: str = JSON,
        query: Mapping[str, str] | None = None,
        is_heartbeat: bool = False,
        is_read: bool = False,
    ) -> Answer:
        """Send a request as `NodeApi` describes it."""
        url = self._connection.url(path, {**(query or {}), **HEARTBEAT} if is_heartbeat else query)
        headers = self._read_headers if is_read else self._drop_headers
        if body is not None:
            headers = {**headers, "Content-Type": kind}
        attempt = 0
        while True:
            if not is_heartbeat:
                await self._take_turn()
            timeout = HEARTBEAT_TIMEOUT if is_heartbeat else NORMAL_TIMEOUT
            answer, retry_after = await self._attempt(method, url, body, headers, timeout)
            wait_s = wait_before_retry_s(method, answer.status, retry_after, attempt)
            if wait_s is None:
                return answer
            attempt += 1
            self.retries += 1
            await asyncio.sleep(wait_s)

    async def watch(self, path: str, query: Mapping[str, str], on_line: Callable[[bytes], None]) -> int:
        """Follow a watch as `NodeApi` describes it."""
        await self._take_turn()
        url = self._connection.url(path, query)
        status = BROKEN
        try:
            async with self._connection.session.get(url, headers=self._read_headers, timeout=WATCH_TIMEOUT) as answer:
                status = answer.status
                self.attempts[status] += 1
                if status == 200:
                    await _follow(answer.content, on_line)
        except (aiohttp.ClientError, TimeoutError, OSError):
            self.attempts[BROKEN] += 1
            return BROKEN
        return status

    async def _attempt(
        self, method: str, url: URL, body: bytes | None, headers: Mapping[str, str], timeout: aiohttp.ClientTimeout
    ) -> tuple[Answer, str | None]:
        session = self._connection.session
        try:
            async with session.request(method, url, data=body, headers=headers, timeout=timeout) as response:
                answer = Answer(response.status, await response.read())
                retry_after = response.headers.get("Retry-After")
        except (aiohttp.ClientError, TimeoutError, OSError):
            answer, retry_after = Answer(BROKEN), None
        self.attempts[answer.status] += 1
        return answer, retry_after

    async def _take_turn(self) -> None:
        if wait_s := self._turns.take(asyncio.get_running_loop().time()):
            await asyncio.sleep(wait_s)


async def _follow(content: aiohttp.StreamReader, on_line: Callable[[bytes], None]) -> None:
    rest = b""
    async for chunk in content.iter_any():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            on_line(line)
