"""How one call is made: gate, credentials, attempt, observation, error; repeated at most once."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from random import Random

from tenacity import AsyncRetrying

from throttler.client.attempts import CANCELLED, ERROR, TIMEOUT, Attempt, AttemptObserver
from throttler.client.credentials import CredentialKeeper
from throttler.client.errors import (
    AttemptTimeoutError,
    FencedError,
    TlsRefusedError,
    UnauthorizedError,
    error_from_answer,
)
from throttler.client.gate import Gate
from throttler.client.requests import Request
from throttler.client.retries import ATTEMPTS, retry_policy
from throttler.client.transport import HttpResponse, Transport


@dataclass(slots=True)
class _Seen:
    code: str = ERROR
    size_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Caller:
    """Sends requests over one transport.

    `timeout_s` bounds one attempt, the gate's wait left out; a retry starts only within `2 * timeout_s` of
    the call's start, so a long Retry-After comes back to the caller as an error that says how long.
    """

    transport: Transport
    credentials: CredentialKeeper
    gate: Gate
    observer: AttemptObserver
    random: Random
    timeout_s: float

    async def call(self, request: Request) -> bytes:
        """The body of the successful answer; raises ApiError."""
        body: bytes = await self._policy(request)(self._read_whole, request)
        return body

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[HttpResponse]:
        """The open answer of a watch; raises ApiError. Repeated only when credentials were renewed."""
        async with AsyncExitStack() as stack:
            response: HttpResponse = await self._policy(request)(self._open_stream, request, stack)
            yield response

    def _policy(self, request: Request) -> AsyncRetrying:
        clock = asyncio.get_running_loop().time
        return retry_policy(
            is_retry_safe=request.is_retry_safe,
            deadline_at=clock() + ATTEMPTS * self.timeout_s,
            clock=clock,
            random=self.random,
        )

    async def _read_whole(self, request: Request) -> bytes:
        async with AsyncExitStack() as stack:
            _, body = await self._attempt(request, stack, is_stream=False)
            return body

    async def _open_stream(self, request: Request, stack: AsyncExitStack) -> HttpResponse:
        response, _ = await self._attempt(request, stack, is_stream=True)
        return response

    async def _attempt(self, request: Request, stack: AsyncExitStack, *, is_stream: bool) -> tuple[HttpResponse, bytes]:
        await self.gate.pass_through()
        used = await self.credentials.current()
        try:
            with self._observed(request) as seen:
                async with asyncio.timeout(self.timeout_s):
                    response = await stack.enter_async_context(self.transport.open(request, used))
                    is_open = is_stream and response.status == 200
                    body = b"" if is_open else await response.read()
                seen.code, seen.size_bytes = str(response.status), len(body)
            _raise_unless_good(response, body)
        except (UnauthorizedError, TlsRefusedError) as error:
            error.is_cured = await self.credentials.renew(used)
            raise
        return response, body

    @contextmanager
    def _observed(self, request: Request) -> Iterator[_Seen]:
        clock = asyncio.get_running_loop().time
        seen, started_at = _Seen(), clock()
        try:
            yield seen
        except TimeoutError as error:
            seen.code = TIMEOUT
            raise AttemptTimeoutError(f"no answer to {_words(request)} in {self.timeout_s} s") from error
        except asyncio.CancelledError:
            seen.code = CANCELLED
            raise
        except FencedError:
            # Nothing went over the wire: it says nothing about the server either.
            seen.code = CANCELLED
            raise
        finally:
            took_s = clock() - started_at
            self.observer(Attempt(request.verb, request.resource, seen.code, took_s, seen.size_bytes))


def _raise_unless_good(response: HttpResponse, body: bytes) -> None:
    if not 200 <= response.status < 300:
        raise error_from_answer(response.status, response.headers, body, _server_time(response.headers))


def _server_time(headers: Mapping[str, str]) -> datetime:
    """The server's clock where it tells: a Retry-After date is then right whatever ours says."""
    try:
        moment = parsedate_to_datetime(headers.get("Date", ""))
    except ValueError:
        return datetime.now(UTC)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _words(request: Request) -> str:
    return f"{request.verb} {request.path}"
