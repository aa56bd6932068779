"""One scrape of one API server: a connection of its own, gzip, no redirect, limits on time and size, off the loop.

A body is inflated and filtered in a worker thread, piece by piece as it arrives: the wanted lines and one megabyte are
held, however large it is.
"""

import asyncio
import ssl
import zlib
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from types import TracebackType
from typing import Self, TypeVar

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from throttler.kube.connection import Connection, Credentials, user_agent
from throttler.signals.metric_families import FAMILIES, BadTextError, WantedLines, parse_rows
from throttler.signals.reading import Read, ReadError, ReadObserver, ReadOutcome, ignore_read
from throttler.signals.sample import Sample, sample_from_rows
from throttler.sources.allowed_hosts import ForbiddenHostError, fresh_session, hang_up, is_loopback

T = TypeVar("T")

LIMIT_S = 8.0
"""For everything from the connection to the last byte: a server that dribbles must not hold a scrape."""
METRICS_PATH = "/metrics"
_ACCEPT = "text/plain;version=0.0.4"
_QUERY = "&".join(f"name[]={family.name}" for family in FAMILIES)
"""Filters on the server from Kubernetes 1.37; older ones ignore it."""


@dataclass(frozen=True, slots=True)
class ScrapeTarget:
    """Where to scrape.

    `name` is what signals call it; `tls_name` is the certificate's name where that is not the host;
    `is_from_user` says that the address was written by a user and must be judged.
    """

    name: str
    base_url: str
    tls_name: str | None = None
    is_from_user: bool = False


@dataclass(slots=True)
class _Tally:
    asked_s: float
    taken_s: float = 0.0
    wall_s: float | None = None
    size_bytes: int = 0


class Scraper:
    """Scrapes with our own credentials and CA. Use as a context manager: it owns a worker thread."""

    def __init__(
        self,
        connection: Connection,
        component: str = "signals",
        *,
        limit_s: float = LIMIT_S,
        observer: ReadObserver = ignore_read,
    ) -> None:
        self._connection = connection
        self._allows_loopback = is_loopback(connection.base_url)
        self._headers = (("User-Agent", user_agent(component)), *connection.impersonation)
        self._limit_s = limit_s
        self._observer = observer
        # One thread: parsing never takes more than one core, and the loop never waits for it.
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="metrics")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._worker.shutdown(wait=False, cancel_futures=True)

    async def scrape(self, target: ScrapeTarget) -> Sample:
        """What the server has counted so far; raises ReadError. Cancelling says nothing about the server."""
        tally = _Tally(asyncio.get_running_loop().time())
        try:
            async with asyncio.timeout(self._limit_s):
                sample = await self._scrape(target, tally)
        except TimeoutError as error:
            self._observe(target, tally, ReadOutcome.TIMEOUT)
            raise ReadError(ReadOutcome.TIMEOUT, f"no whole answer within {self._limit_s:g} s") from error
        except ReadError as error:
            self._observe(target, tally, error.outcome)
            raise
        self._observe(target, tally, ReadOutcome.GOOD)
        return sample

    async def _scrape(self, target: ScrapeTarget, tally: _Tally) -> Sample:
        used = await self._connection.credentials.current()
        try:
            async with self._answer(target, used) as response:
                await self._check(response, used)
                # The server gathers first and answers then: its head comes right after the sample was taken.
                tally.taken_s, tally.wall_s = asyncio.get_running_loop().time(), _server_clock(response)
                body = MetricsBody(response.headers.get("Content-Encoding", "").strip().lower())
                async for piece in _pieces(response.content, tally):
                    await self._work(lambda piece=piece: body.feed(piece))  # type: ignore[misc]
        except (aiohttp.ClientSSLError, ssl.SSLError) as error:
            await self._connection.credentials.renew(used)
            raise ReadError(ReadOutcome.UNREACHABLE, "its certificate is not accepted, or ours is not") from error
        except ForbiddenHostError as error:
            raise ReadError(ReadOutcome.UNREACHABLE, str(error)) from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise ReadError(ReadOutcome.UNREACHABLE, f"cannot be reached ({type(error).__name__})") from error
        return await self._work(lambda: body.finish(asked_s=tally.asked_s, taken_s=tally.taken_s, wall_s=tally.wall_s))

    @asynccontextmanager
    async def _answer(self, target: ScrapeTarget, used: Credentials) -> AsyncIterator[aiohttp.ClientResponse]:
        async with fresh_session(judges_hosts=target.is_from_user, allows_loopback=self._allows_loopback) as session:
            response = await session.get(
                URL(f"{target.base_url}{METRICS_PATH}?{_QUERY}", encoded=True),
                headers=self._request_headers(used),
                ssl=used.tls if used.tls is not None else True,
                server_hostname=target.tls_name,
                proxy=self._connection.proxy,
                allow_redirects=False,
            )
            try:
                yield response
            finally:
                hang_up(response)

    def _request_headers(self, used: Credentials) -> CIMultiDict[str]:
        headers = CIMultiDict([("Accept", _ACCEPT), ("Accept-Encoding", "gzip"), *self._headers])
        if used.authorization is not None:
            headers["Authorization"] = used.authorization
        return headers

    async def _check(self, response: aiohttp.ClientResponse, used: Credentials) -> None:
        if response.status == 200:
            return
        if response.status == 401:
            await self._connection.credentials.renew(used)
        outcome = ReadOutcome.FORBIDDEN if response.status in {401, 403} else ReadOutcome.REFUSED
        raise ReadError(outcome, f"answered {METRICS_PATH} with status {response.status}")

    async def _work(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._worker, work)

    def _observe(self, target: ScrapeTarget, tally: _Tally, outcome: ReadOutcome) -> None:
        took_s = asyncio.get_running_loop().time() - tally.asked_s
        self._observer(
            Read(source="scrape", server=target.name, outcome=outcome, seconds=took_s, size_bytes=tally.size_bytes)
        )


async def _pieces(content: aiohttp.StreamReader, tally: _Tally) -> AsyncIterator[bytes]:
    """The body in pieces of about a megabyte: each costs a hop to the worker thread."""
    gathered = bytearray()
    while chunk := await content.readany():
        tally.size_bytes += len(chunk)
        gathered += chunk
        if len(gathered) >= STEP_BYTES:
            yield bytes(gathered)
            gathered.clear()
    if gathered:
        yield bytes(gathered)


def _server_clock(response: aiohttp.ClientResponse) -> float | None:
    """The Date header as seconds since the epoch."""
    try:
        return parsedate_to_datetime(response.headers.get("Date", "")).timestamp()
    except (ValueError, OverflowError):
        return None


MAX_INFLATED_BYTES = 100 * 1024 * 1024
"""Twice the largest body that a real cluster has been seen to have."""
STEP_BYTES = 1024 * 1024
_GZIP = 16 + zlib.MAX_WBITS


class MetricsBody:
    """Takes the body's bytes as they were sent; every method may raise ReadError."""

    def __init__(self, encoding: str) -> None:
        if encoding not in {"", "identity", "gzip"}:
            raise ReadError(ReadOutcome.UNREADABLE, "answered in an encoding that was not asked for")
        self._inflater = zlib.decompressobj(_GZIP) if encoding == "gzip" else None
        self._lines = WantedLines()
        self._inflated_bytes = 0

    def feed(self, piece: bytes) -> None:
        """The next bytes."""
        try:
            self._inflate(piece) if self._inflater else self._take(piece)
        except zlib.error as error:
            raise ReadError(ReadOutcome.UNREADABLE, "answered with broken gzip") from error
        except BadTextError as error:
            raise ReadError(ReadOutcome.UNREADABLE, str(error)) from error

    def finish(self, *, asked_s: float, taken_s: float, wall_s: float | None) -> Sample:
        """The whole body as a sample."""
        if self._inflater and not self._inflater.eof:
            raise ReadError(ReadOutcome.UNREADABLE, "answered with gzip that breaks off")
        try:
            rows = parse_rows(self._lines.finish())
            return sample_from_rows(rows, asked_s=asked_s, taken_s=taken_s, wall_s=wall_s)
        except BadTextError as error:
            raise ReadError(ReadOutcome.UNREADABLE, str(error)) from error

    def _inflate(self, piece: bytes) -> None:
        assert self._inflater is not None
        while piece and not self._inflater.eof:
            self._take(self._inflater.decompress(piece, STEP_BYTES))
            piece = self._inflater.unconsumed_tail
        if self._inflater.unused_data or (piece and self._inflater.eof):
            raise ReadError(ReadOutcome.UNREADABLE, "answered with more after the end of its gzip")

    def _take(self, text: bytes) -> None:
        self._inflated_bytes += len(text)
        if self._inflated_bytes > MAX_INFLATED_BYTES:
            raise ReadError(ReadOutcome.TOO_LARGE, f"more than {MAX_INFLATED_BYTES // 1024**2} MB of metrics")
        self._lines.feed(text)
