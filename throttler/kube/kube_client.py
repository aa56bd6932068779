"""The calls that both halves make: get, list, watch, apply, patch, create, delete; raw bytes come back.

Each call passes gate, credentials, attempt, observation and error, and is repeated at most once. The gate is a ceiling
of our own calls per second that every call passes, except the Lease's. A call is repeated only where a second sending
does no harm, and nothing else repeats one.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from random import Random
from typing import Any, Protocol, TypeVar, cast

import msgspec
from asyncio_throttle import Throttler
from tenacity import AsyncRetrying, RetryCallState

from throttler.kube.connection import SERVICE, Connection, CredentialKeeper, ServerClock, user_agent
from throttler.kube.decoding import ListPage, PageDecoder, RawPage, Wire, raw_page
from throttler.kube.errors import (
    READ_ERRORS,
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
    cut,
    date_of,
    error_from_answer,
    failure_in,
)
from throttler.kube.requests import (
    DRY_RUN,
    EVERYTHING,
    Body,
    PatchKind,
    Request,
    Resource,
    Selection,
    apply_request,
    create_request,
    delete_request,
    get_request,
    list_request,
    patch_request,
    raw_get_request,
    streamed_list_request,
    watch_request,
)
from throttler.kube.transport import AiohttpTransport, Endpoint, HttpResponse, MaySend, Transport, always

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
    wait in our own gate. `size_bytes` is the answer's body after decompression. `is_of_webhook`: a webhook failed or
    refused it, and not the server.
    """

    verb: str
    resource: str
    code: str
    seconds: float
    size_bytes: int
    is_of_webhook: bool = False


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
    so only one at a time is let in to it. A rate of 0 would poll for ever.
    """

    def __init__(self, calls_per_s: float, burst: int) -> None:
        if not 0 < calls_per_s <= MOST_PER_S or burst < 1:
            raise ValueError(f"need 0 < calls_per_s <= {MOST_PER_S:g} and burst >= 1, got {calls_per_s}, {burst}")
        period_s = burst / calls_per_s
        poll_s = min(1.0, max(0.01, period_s / 20))
        self._throttler = Throttler(rate_limit=burst, period=period_s, retry_interval=poll_s)
        self._turn = asyncio.Lock()

    async def pass_through(self) -> None:
        """Returns when the ceiling leaves room."""
        async with self._turn:
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
        error = state.outcome.exception() if state.outcome else None
        if isinstance(error, ApiError) and error.is_cured:
            return True
        return error is not None and is_retry_safe and is_transient(error)

    def is_over(state: RetryCallState) -> bool:
        return state.attempt_number >= ATTEMPTS or clock() + state.upcoming_sleep >= deadline_at

    def wait(state: RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome else None
        return wait_s(error, random) if error else 0.0

    return AsyncRetrying(retry=is_worth_it, stop=is_over, wait=wait, reraise=True)


@dataclass(slots=True)
class _Answer:
    code: str = ERROR
    size_bytes: int = 0
    is_of_webhook: bool = False


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
    server_clock: ServerClock

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
            with self._observed(request) as answer:
                async with asyncio.timeout(self.timeout_s):
                    response = await stack.enter_async_context(self.transport.open(request, used))
                    date = date_of(response.headers)
                    self.server_clock.heard(date)
                    is_open = is_stream and response.status == 200
                    body = b"" if is_open else await response.read()
                answer.code, answer.size_bytes = str(response.status), len(body)
                if not 200 <= response.status < 300:
                    raise error_from_answer(response.status, response.headers, body, date or datetime.now(UTC))
                if (failure := failure_in(body)) is not None:
                    answer.code = str(failure.status)
                    raise failure
        except (UnauthorizedError, TlsRefusedError) as error:
            error.is_cured = await self.credentials.renew(used)
            raise
        return response, body

    @contextmanager
    def _observed(self, request: Request) -> Iterator[_Answer]:
        clock = asyncio.get_running_loop().time
        answer, started_at = _Answer(), clock()
        try:
            yield answer
        except TimeoutError as error:
            answer.code = TIMEOUT
            raise AttemptTimeoutError(f"no answer to {request.verb} {request.path} in {self.timeout_s} s") from error
        except (asyncio.CancelledError, FencedError):
            # Where the fence is shut nothing went over the wire: both say nothing about the server.
            answer.code = CANCELLED
            raise
        except ApiError as error:
            answer.is_of_webhook = error.is_of_webhook
            raise
        finally:
            told = answer.code, clock() - started_at, answer.size_bytes, answer.is_of_webhook
            self.observer(Attempt(request.verb, request.resource, *told))


T = TypeVar("T")
W = TypeVar("W", bound=Wire)
P = TypeVar("P", bound=ListPage[Any] | RawPage)

PAGE_LIMIT = 500
"""Items per page, as kubectl and client-go's pager ask for."""
BY_NAME = "metadata.name="
NO_NAME, ANY_NAMESPACE = "kube-balloons-asks-for-the-version", "default"
"""For a list that is to be empty."""


class KubeClient:
    """One identity's calls to one cluster. Every method raises ApiError and never returns a failure.

    With `is_dry_run` every write carries `dryRun=All`: the server checks and answers it, and keeps nothing.
    """

    def __init__(self, caller: Caller, *, is_dry_run: bool = False) -> None:
        self._caller = caller
        self._is_dry_run = is_dry_run

    def now_s(self) -> float:
        """What time it is at the API servers (ServerClock): what ages of objects go by."""
        return self._caller.server_clock.now_s()

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> bytes:
        """One object, read from the server."""
        return await self._caller.call(get_request(resource, name, namespace))

    async def get_raw(self, path: str) -> bytes:
        """Any other path, for example `/readyz` or `/version`."""
        return await self._caller.call(raw_get_request(path))

    def pages(
        self, resource: Resource, wire: type[W], selection: Selection = EVERYTHING
    ) -> AsyncGenerator[ListPage[W]]:
        """A list, page by page, each decoded into `wire`."""
        return self._pages(PageDecoder(wire).decode, resource, selection, None)

    def raw_pages(
        self, resource: Resource, selection: Selection, *, resource_version: str | None
    ) -> AsyncGenerator[RawPage]:
        """As `pages`, the items left as they came; see `list_request` for `resource_version`."""
        return self._pages(raw_page, resource, selection, resource_version)

    async def _pages(
        self, read: Callable[[bytes], P], resource: Resource, selection: Selection, resource_version: str | None
    ) -> AsyncGenerator[P]:
        token = ""
        while True:
            request = list_request(
                resource, selection, limit=PAGE_LIMIT, continue_token=token, resource_version=resource_version
            )
            page = read(await self._caller.call(request))
            yield page
            if not (token := page.continue_token):
                return

    async def newest_version(self, resource: Resource, selection: Selection) -> str:
        """The version at which the server is now, by its etcd and not by a cache: as a list says, be it an empty one.

        Asked is for one name, which the server looks up alone: for one object that a selector matches it may have to
        read all of them.
        """
        named = selection.fields if (selection.fields or "").startswith(BY_NAME) else f"{BY_NAME}{NO_NAME}"
        namespace = selection.namespace or (ANY_NAMESPACE if resource.is_namespaced else None)
        one = Selection(namespace=namespace, fields=named)
        request = list_request(resource, one, limit=1, continue_token="", resource_version=None)
        return raw_page(await self._caller.call(request)).resource_version

    def watch(
        self, resource: Resource, selection: Selection, *, resource_version: str, lifetime_s: int
    ) -> AbstractAsyncContextManager[HttpResponse]:
        """The open stream of changes after `resource_version`; reflector.py is what reads it."""
        request = watch_request(resource, selection, resource_version=resource_version, lifetime_s=lifetime_s)
        return self._caller.stream(request)

    def streamed_list(
        self, resource: Resource, selection: Selection, *, lifetime_s: int
    ) -> AbstractAsyncContextManager[HttpResponse]:
        """The open stream of a list; raises InvalidError where the server does not offer it."""
        return self._caller.stream(streamed_list_request(resource, selection, lifetime_s=lifetime_s))

    async def create(self, resource: Resource, body: Body, namespace: str | None = None) -> bytes:
        """A new object. Never retried."""
        return await self._write(create_request(resource, body, namespace))

    async def apply(
        self,
        resource: Resource,
        body: Body,
        name: str,
        namespace: str | None = None,
        *,
        field_manager: str,
        force: bool = False,
        subresource: str | None = None,
    ) -> bytes:
        """Server-side apply; ConflictError names the other managers unless `force`.

        A `metadata.resourceVersion` in the body is a precondition.
        """
        request = apply_request(
            resource,
            body,
            name,
            namespace,
            field_manager=field_manager,
            force=force,
            subresource=subresource,
        )
        return await self._write(request)

    async def patch(
        self,
        resource: Resource,
        body: Body,
        name: str,
        namespace: str | None = None,
        *,
        kind: PatchKind = PatchKind.MERGE,
        field_manager: str | None = None,
        subresource: str | None = None,
    ) -> bytes:
        """A patch; a `metadata.resourceVersion` in a merge patch is a precondition (ConflictError)."""
        request = patch_request(
            resource, body, name, namespace, kind=kind, field_manager=field_manager, subresource=subresource
        )
        return await self._write(request)

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        propagation: str | None = None,
    ) -> bytes:
        """Deletes one object; ConflictError when it is not the one meant. Retried only with a `uid`."""
        request = delete_request(
            resource,
            name,
            namespace,
            uid=uid,
            resource_version=resource_version,
            propagation=propagation,
        )
        return await self._write(request)

    async def _write(self, request: Request) -> bytes:
        """The one place that knows about dry runs."""
        if self._is_dry_run:
            request = replace(request, query={**request.query, **DRY_RUN})
        return await self._caller.call(request)


@asynccontextmanager
async def open_client(
    connection: Connection,
    component: str,
    *,
    gate: Gate | None = None,
    observer: AttemptObserver = ignore_attempt,
    is_dry_run: bool = False,
    timeout_s: float | None = None,
    program: str = SERVICE,
    may_send: MaySend = always,
) -> AsyncIterator[KubeClient]:
    """A client with connections of its own, closed at the end.

    `gate` None does not pace: for Lease traffic, together with a short `timeout_s` per attempt.
    `program` is who calls: the service, or a person at the command line.
    `may_send` is the fence: asked right before each write, and where it says no the call raises FencedError.
    """
    headers = (("User-Agent", user_agent(component, program)), *connection.impersonation)
    endpoint = Endpoint(connection.base_url, headers, connection.tls_server_name, connection.proxy)
    transport = AiohttpTransport(endpoint, may_send)
    caller = Caller(
        transport=transport,
        credentials=connection.credentials,
        gate=gate or OpenGate(),
        observer=observer,
        random=Random(),
        timeout_s=timeout_s or connection.request_timeout_s,
        server_clock=connection.server_clock,
    )
    try:
        yield KubeClient(caller, is_dry_run=is_dry_run)
    finally:
        await transport.close()


def decode(body: bytes, wire: type[T]) -> T:
    """An answer as `wire` (any type msgspec knows); raises UndecodableError."""
    try:
        decoded: T = _decoder(cast(Any, wire)).decode(body)
    except READ_ERRORS as error:
        raise UndecodableError(f"not a {getattr(wire, '__name__', wire)}: {cut(str(error))}") from error
    return decoded


@lru_cache(maxsize=128)
def _decoder(wire: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(wire)
