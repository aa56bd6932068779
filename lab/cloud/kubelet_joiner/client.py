"""A kubelet's client: requests that never raise, retried and limited as client-go does it, and watches.

All joiners that share a credential share one pool of connections and one TLS context.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self

import aiohttp
from yarl import URL

from lab.controlplane.credentials import ApiAccess
from lab.errors import LabError
from throttler.kube.transport import EndingConnector

JSON = "application/json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"

SHORTEST_WATCH_S, LONGEST_WATCH_S = 300, 600
"""client-go asks for a watch of 5 to 10 minutes, at random."""
HEARTBEAT_S = 10.0
"""The timeout of a kubelet's heartbeat client, which the server is told as well (`?timeout=10s`)."""
HEARTBEAT = {"timeout": "10s"}


@dataclass(frozen=True)
class Answer:
    """The last answer to a request; status 0 means that there was none. A kubelet lives with refusals."""

    status: int
    body: bytes = b""

    @property
    def is_ok(self) -> bool:
        """Whether the request did what it should."""
        return 200 <= self.status < 300


class NodeApi(Protocol):
    """One node's client. Retries on Retry-After are done below it."""

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
        """Send a request.

        `is_heartbeat` uses the client without a rate limit and with a timeout of 10 s. Unless `is_read`, the
        answer's body is asked for in the cheap form that a kubelet uses (protobuf) and left empty.
        """

    async def watch(self, path: str, query: Mapping[str, str], on_line: Callable[[bytes], None]) -> int:
        """Hand each line of a watch to `on_line` until it ends; return the status it was answered with."""


MAX_RETRIES = 10
"""client-go, rest.Request: maxRetries."""

BROKEN = 0
"""The status of an attempt that got no answer."""


def wait_before_retry_s(method: str, status: int, retry_after: str | None, attempt: int) -> float | None:
    """Return how long to wait before the next attempt, or None when this answer is final.

    An overloaded server's answer (429 or 5xx) is repeated only when it names its Retry-After in whole seconds;
    a broken connection only for a GET. `attempt` counts from 0.
    """
    if attempt >= MAX_RETRIES:
        return None
    if status == BROKEN:
        return 0.0 if method == "GET" else None
    if (status == 429 or status >= 500) and retry_after is not None and retry_after.isdigit():
        return float(retry_after)
    return None


def growing_waits_s(first_s: float, factor: float, longest_s: float) -> Iterator[float]:
    """Yield `first_s`, then each time `factor` times as much, never above `longest_s`; without end."""
    wait_s = first_s
    while True:
        yield min(wait_s, longest_s)
        wait_s = min(wait_s * factor, longest_s)


class Turns:
    """`burst` requests at once, `qps` per second in the long run; who comes later waits its turn."""

    def __init__(self, qps: float, burst: int, now: float) -> None:
        self._interval_s = 1.0 / qps
        self._credit_s = burst * self._interval_s
        self._free_at = now - self._credit_s

    def take(self, now: float) -> float:
        """Take the next turn and return in how many seconds it comes."""
        self._free_at = max(self._free_at, now - self._credit_s) + self._interval_s
        return max(0.0, self._free_at - now)


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
