"""One attempt over HTTP, through our own aiohttp session: no hidden retries, no limit on a line.

Connections end with their session, those that aiohttp has let go of included, and nobody waits for DNS in the end.
"""

import asyncio
import contextlib
import errno
import os
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urlencode
from weakref import WeakSet

import aiohttp
from aiohttp.abc import AbstractResolver, AbstractStreamWriter, ResolveResult
from multidict import CIMultiDict
from yarl import URL

from throttler.kube.connection import Credentials
from throttler.kube.errors import FencedError, TlsRefusedError, UnreachableError, cut
from throttler.kube.requests import Request

IPV6_PARTS = 4
"""Of an address as `socket` tells it: host, port, flow and scope."""
CLOSED_WITHIN_S = 1.0
"""An end of file of our own making is read within a few turns of the loop; nothing here waits for the server."""

PROBES = {"TCP_KEEPIDLE": 15, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}
"""After 15 s of silence the kernel asks whether the server's machine is still there, and after 30 s it says that it is
not. A machine that lost its power, or an address that leads elsewhere now, sends no goodbye."""

MaySend = Callable[[], bool]


def always() -> bool:
    """The fence of a client that has none."""
    return True


class FencedBody(aiohttp.BytesPayload):
    """What a write says, which asks `may_send` as it goes out; raises FencedError there, and nothing is sent.

    aiohttp makes a connection first, which takes several turns of the loop, and Python 3.11 writes the body in yet
    another one. In each the process may be frozen until somebody else leads. From this question on there is none.
    """

    def __init__(self, value: bytes, may_send: MaySend) -> None:
        super().__init__(value)
        self._may_send = may_send

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        """As aiohttp calls it."""
        if not self._may_send():
            raise FencedError("not sent: not the leader, or not for sure")
        await super().write_with_length(writer, content_length)


class EndingResolver(AbstractResolver):
    """The system's DNS, each look-up in a thread that nobody waits for at the end.

    While DNS is away one takes up to a minute, and cannot be broken off. For those in its own threads asyncio waits
    when it ends, longer than a kubelet does. And as these are few, a name that cannot be resolved would stop others.
    """

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """All addresses of the host; raises OSError."""
        addresses: Future[list[ResolveResult]] = Future()
        addresses.set_running_or_notify_cancel()

        def look_up() -> None:
            try:
                addresses.set_result(_addresses(host, port, family))
            except Exception as error:  # noqa: BLE001  it is told to who waits
                addresses.set_exception(error)

        try:
            threading.Thread(target=look_up, name=f"name {host}", daemon=True).start()
        except RuntimeError as error:
            raise OSError(f"no thread to look up {host}: {error}") from error
        return await asyncio.wrap_future(addresses)

    async def close(self) -> None:
        """See AbstractResolver."""


def _addresses(host: str, port: int, family: socket.AddressFamily) -> list[ResolveResult]:
    infos = socket.getaddrinfo(host, port, family=family, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
    numeric = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
    return [
        ResolveResult(hostname=host, host=_address(address), port=port, family=kind, proto=protocol, flags=numeric)
        for kind, _, protocol, _, address in infos
    ]


def _address(address: tuple[Any, ...]) -> str:
    """With its interface, if it is an IPv6 address of one link."""
    has_scope = len(address) == IPV6_PARTS and address[-1]
    return socket.getnameinfo(address, socket.NI_NUMERICHOST)[0] if has_scope else str(address[0])


class EndingConnector(aiohttp.TCPConnector):
    """A TCPConnector that leaves no socket open once it is closed.

    aiohttp lets go of the connection of a cancelled request, and asyncio then waits up to 30 s for the server's
    goodbye over TLS, which a frozen server never says. Nobody knows of that socket any more: it would outlive the
    session, and be leaked by a loop that ends sooner.
    """

    def __init__(self, *, resolver: AbstractResolver | None = None, **options: Any) -> None:
        self._opened = WeakSet[socket.socket]()
        super().__init__(socket_factory=self._open, resolver=resolver or EndingResolver(), **options)

    async def close(self, **how: bool) -> None:
        """Close every connection; returns when all their sockets are closed.

        `how` is aiohttp's: its older versions of the range that we allow know no option.
        """
        await super().close(**how)
        left = [opened for opened in self._opened if opened.fileno() >= 0]
        for opened in left:
            with contextlib.suppress(OSError):
                # Its transport reads the end of the stream and closes it.
                opened.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSED_WITHIN_S):
                while any(opened.fileno() >= 0 for opened in left):
                    await asyncio.sleep(0.001)

    def _open(self, address: aiohttp.AddrInfoType) -> socket.socket:
        family, kind, protocol, *_ = address
        opened = socket.socket(family=family, type=kind, proto=protocol)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in PROBES.items():
            # Other systems than Linux lack some of them: macOS asks first after two hours, and silence counts there.
            if (option := getattr(socket, name, None)) is not None:
                opened.setsockopt(socket.IPPROTO_TCP, option, value)
        self._opened.add(opened)
        return opened


READ_BUFFER_BYTES = 2 * 1024 * 1024
"""Bytes that may wait for us before the socket is paused; pages of 500 nodes are about 8 MB."""
KEEP_ALIVE_S = 30.0
"""Below the 90 s after which an API server closes an idle connection."""


class HttpResponse(Protocol):
    """An answer whose head has arrived. Reading raises UnreachableError when the rest does not."""

    @property
    def status(self) -> int: ...  # noqa: D102

    @property
    def headers(self) -> Mapping[str, str]: ...  # noqa: D102

    async def read(self) -> bytes:
        """The whole body."""

    async def read_chunk(self) -> bytes:
        """What has come in since, in any size; empty at the end. Cancelling the wait loses nothing."""


class Transport(Protocol):
    """Sends one request."""

    def open(self, request: Request, credentials: Credentials) -> AbstractAsyncContextManager[HttpResponse]:
        """The answer's head; raises UnreachableError or TlsRefusedError when there is none."""

    async def close(self) -> None:
        """Ends all connections."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where the API is. `headers` go with every request (User-Agent, impersonation)."""

    base_url: str
    headers: Sequence[tuple[str, str]]
    tls_server_name: str | None = None
    proxy: str | None = None


class AiohttpTransport:
    """The transport that the service uses; make it inside the running loop.

    `may_send` is asked right before each write, which is what has a body. Where it says no, FencedError is raised and
    nothing is sent.
    """

    def __init__(self, endpoint: Endpoint, may_send: MaySend = always) -> None:
        self._endpoint = endpoint
        self._may_send = may_send
        self._session = aiohttp.ClientSession(
            connector=EndingConnector(limit=0, keepalive_timeout=KEEP_ALIVE_S),
            timeout=aiohttp.ClientTimeout(total=None),
            read_bufsize=READ_BUFFER_BYTES,
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        # aiohttp sends GET, PUT and DELETE again, unseen, when a kept connection turns out closed;
        # retries have one owner and every attempt is counted.
        self._session._retry_connection = False

    @asynccontextmanager
    async def open(self, request: Request, credentials: Credentials) -> AsyncIterator[HttpResponse]:
        """See Transport."""
        with _own_errors(self._endpoint.base_url):
            response = await self._session.request(
                request.method,
                self._url(request),
                data=None if request.body is None else FencedBody(request.body, self._may_send),
                headers=self._headers(request, credentials),
                ssl=credentials.tls if credentials.tls is not None else True,
                server_hostname=self._endpoint.tls_server_name,
                proxy=self._endpoint.proxy,
                allow_redirects=False,
            )
        try:
            yield _Answer(response, self._endpoint.base_url)
        finally:
            hang_up(response)

    async def close(self) -> None:
        """See Transport."""
        await self._session.close()

    def _url(self, request: Request) -> URL:
        query = f"?{urlencode(request.query)}" if request.query else ""
        return URL(f"{self._endpoint.base_url}{request.path}{query}", encoded=True)

    def _headers(self, request: Request, credentials: Credentials) -> CIMultiDict[str]:
        headers = CIMultiDict([("Accept", "application/json"), *self._endpoint.headers])
        if request.body is not None:
            headers["Content-Type"] = request.content_type
        if credentials.authorization is not None:
            headers["Authorization"] = credentials.authorization
        return headers


class _Answer:
    def __init__(self, response: aiohttp.ClientResponse, base_url: str) -> None:
        self._response = response
        self._base_url = base_url

    @property
    def status(self) -> int:
        return self._response.status

    @property
    def headers(self) -> Mapping[str, str]:
        return self._response.headers

    async def read(self) -> bytes:
        with _own_errors(self._base_url):
            return await self._response.read()

    async def read_chunk(self) -> bytes:
        with _own_errors(self._base_url):
            return await self._response.content.readany()


def hang_up(response: aiohttp.ClientResponse) -> None:
    """Ends an answer that was not read to its end at once: TLS would wait for a server that may be frozen."""
    if response.connection is not None and response.connection.transport is not None:
        response.connection.transport.abort()
    response.close()


@contextmanager
def _own_errors(base_url: str) -> Iterator[None]:
    """The library's errors as ours, with the server that they are about. The text of an aiohttp error holds no header,
    its repr may."""
    try:
        yield
    except (aiohttp.ClientSSLError, ssl.SSLError) as error:
        raise TlsRefusedError(f"{base_url}: TLS: {cut(str(error))}") from error
    except aiohttp.ClientConnectorError as error:
        at = base_url if error.host == URL(base_url).host else f"{base_url}: its proxy {error.host}:{error.port}"
        raise UnreachableError(f"{at}: {_network_words(error)}") from error
    except (aiohttp.ClientError, OSError) as error:
        if isinstance(error.__cause__, FencedError):
            raise error.__cause__ from None
        raise UnreachableError(f"{base_url}: {_network_words(error)}") from error


def _network_words(error: BaseException) -> str:
    """What the network said, in its own words and not in those of a library."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, socket.gaierror):
            return "its name cannot be resolved"
        if isinstance(cause, OSError) and cause.errno == errno.ECONNREFUSED:
            return "nobody listens at that port (connection refused)"
        if isinstance(cause, OSError) and cause.errno is not None and cause.errno in errno.errorcode:
            return os.strerror(cause.errno).lower()
        cause = cause.__cause__ or cause.__context__
    return f"{type(error).__name__}: {cut(str(error))}"
