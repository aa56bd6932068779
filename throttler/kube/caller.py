"""How one call is made: gate, credentials, attempt, observation, error; repeated at most once.

The gate is a ceiling of our own calls per second that every call passes, except the Lease's. A call is repeated
only where a second sending does no harm, and nothing else repeats one.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from random import Random
from typing import Protocol

from asyncio_throttle import Throttler
from tenacity import AsyncRetrying, RetryCallState

from throttler.kube.credentials import CredentialKeeper
from throttler.kube.errors import (
    SHORTEST_WAIT_S,
    ApiError,
    AttemptTimeoutError,
    FencedError,
    TlsRefusedError,
    TooManyRequestsError,
    UnauthorizedError,
    UndecodableError,
    UnreachableError,
    clamp_wait,
    error_from_answer,
)
from throttler.kube.requests import Request
from throttler.kube.transport import HttpResponse, Transport

TIMEOUT = "timeout"
ERROR = "error"
CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Attempt:
    """What happened to one request, seen below the retry layer.

    `verb` is the Kubernetes verb (get, list, watch, create, apply, patch, delete); `resource` the plural
    with its subresource (`pods`, `deployments/scale`); `code` the HTTP status as text, or `timeout` (no
    answer in time), `error` (no answer at all), `cancelled` (we gave up: says nothing about the server).
    `seconds` runs from sending to the last byte (for a watch: to the response headers) and leaves out the
    wait in our own gate. `size_bytes` is the answer's body after decompression.
    """

    verb: str
    resource: str
    code: str
    seconds: float
    size_bytes: int


AttemptObserver = Callable[[Attempt], None]


def ignore_attempt(attempt: Attempt) -> None:
    """For callers who do not count."""


MOST_PER_S = 1000.0
"""No gate lets more pass: waiters are let in every 10 ms."""


class Gate(Protocol):
    """Where a call waits until it may be sent."""

    async def pass_through(self) -> None:
        """Returns when one call may be sent; cancelling the wait takes no one's turn."""


class OpenGate:
    """Never waits: for Lease traffic, which must not queue behind our own lists."""

    async def pass_through(self) -> None:
        """Returns at once."""


class CeilingGate:
    """At most `burst` calls in any `burst / calls_per_s` seconds, first come, first served.

    asyncio-throttle counts; what it does not do is done here. It takes any rate below 1 per period for 1
    per period, so the period is stretched instead. All its waiters poll every 10 ms and the luckiest wins,
    so only one at a time is let in to it. It has no pause, and a rate of 0 would poll for ever: pause is a
    state of the gate.
    """

    def __init__(self, calls_per_s: float, burst: int = 1) -> None:
        if not 0 < calls_per_s <= MOST_PER_S or burst < 1:
            raise ValueError(f"need 0 < calls_per_s <= {MOST_PER_S:g} and burst >= 1, got {calls_per_s}, {burst}")
        period_s = burst / calls_per_s
        poll_s = min(1.0, max(0.01, period_s / 20))
        self._throttler = Throttler(rate_limit=burst, period=period_s, retry_interval=poll_s)
        self._turn = asyncio.Lock()
        self._open = asyncio.Event()
        self._open.set()

    def pause(self) -> None:
        """Let nothing through until `resume`; calls already sent are not touched."""
        self._open.clear()

    def resume(self) -> None:
        """Let calls through again, at the same ceiling: those that waited do not burst."""
        self._open.set()

    async def pass_through(self) -> None:
        """Returns when the ceiling leaves room and the gate is not paused."""
        async with self._turn:
            await self._open.wait()
            await self._throttler.acquire()


ATTEMPTS = 2
"""One retry per call: more would multiply the load of a server that is in trouble."""
JITTER = 0.5
"""Up to half the wait on top, so that callers told the same Retry-After do not come back together."""
TRANSIENT_STATUS = frozenset({429, 502, 503, 504})


def is_transient(error: BaseException) -> bool:
    """Whether the same call may well succeed a moment later."""
    if isinstance(error, UnreachableError | TooManyRequestsError):
        return True
    if not isinstance(error, ApiError) or isinstance(error, UndecodableError):
        return False
    return error.status in TRANSIENT_STATUS or (error.status == 500 and error.retry_after_s is not None)


def wait_s(error: BaseException, random: Random) -> float:
    """Seconds before the retry: Retry-After is the least, 60 s the most; renewed credentials need none."""
    if not isinstance(error, ApiError) or error.is_cured:
        return 0.0
    least_s = error.retry_after_s if error.retry_after_s is not None else SHORTEST_WAIT_S
    return clamp_wait(least_s * (1 + random.uniform(0, JITTER)))


def retry_policy(
    *, is_retry_safe: bool, deadline_at: float, clock: Callable[[], float], random: Random
) -> AsyncRetrying:
    """What wraps one call.

    A call is repeated once if it failed for a passing reason and is retry-safe, or if the server refused
    old credentials before doing anything; never when the wait would end after `deadline_at`.
    """

    def is_worth_it(state: RetryCallState) -> bool:
        error = _error(state)
        if isinstance(error, ApiError) and error.is_cured:
            return True
        return error is not None and is_retry_safe and is_transient(error)

    def is_over(state: RetryCallState) -> bool:
        return state.attempt_number >= ATTEMPTS or clock() + state.upcoming_sleep >= deadline_at

    def wait(state: RetryCallState) -> float:
        error = _error(state)
        return wait_s(error, random) if error else 0.0

    return AsyncRetrying(retry=is_worth_it, stop=is_over, wait=wait, reraise=True)


def _error(state: RetryCallState) -> BaseException | None:
    return state.outcome.exception() if state.outcome else None


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
