"""The calls that both halves make: get, list, watch, apply, patch, create, delete; raw bytes come back."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from functools import lru_cache
from random import Random
from typing import Any, TypeVar, cast

import msgspec

from throttler.kube.caller import AttemptObserver, Caller, Gate, OpenGate, ignore_attempt
from throttler.kube.connection import SERVICE, Connection, user_agent
from throttler.kube.errors import UndecodableError, cut
from throttler.kube.list_and_watch import READ_ERRORS, ListPage, PageDecoder, RawPage, Wire, raw_page
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
from throttler.kube.transport import AiohttpTransport, Endpoint, HttpResponse, MaySend, always

T = TypeVar("T")
W = TypeVar("W", bound=Wire)

PAGE_LIMIT = 500
"""Items per page, as kubectl and client-go's pager ask for."""


class KubeClient:
    """One identity's calls to one cluster. Every method raises ApiError and never returns a failure.

    With `is_dry_run` every write carries `dryRun=All`: the server checks and answers it, and keeps nothing.
    """

    def __init__(self, caller: Caller, *, is_dry_run: bool = False) -> None:
        self._caller = caller
        self._is_dry_run = is_dry_run

    async def get(
        self, resource: Resource, name: str, namespace: str | None = None, *, subresource: str | None = None
    ) -> bytes:
        """One object, read from the server."""
        return await self._caller.call(get_request(resource, name, namespace, subresource))

    async def get_raw(self, path: str) -> bytes:
        """Any other path, for example `/readyz` or `/version`."""
        return await self._caller.call(raw_get_request(path))

    async def pages(
        self,
        resource: Resource,
        wire: type[W],
        selection: Selection = EVERYTHING,
        *,
        limit: int = PAGE_LIMIT,
        resource_version: str | None = None,
    ) -> AsyncIterator[ListPage[W]]:
        """A list, page by page, each decoded into `wire`; see `list_request` for `resource_version`."""
        decoder, token = PageDecoder(wire), ""
        while True:
            request = list_request(
                resource, selection, limit=limit, continue_token=token, resource_version=resource_version
            )
            page = decoder.decode(await self._caller.call(request))
            yield page
            if not (token := page.continue_token):
                return

    async def raw_pages(
        self,
        resource: Resource,
        selection: Selection = EVERYTHING,
        *,
        limit: int = PAGE_LIMIT,
        resource_version: str | None = None,
    ) -> AsyncGenerator[RawPage]:
        """As `pages`, the items left as they came."""
        token = ""
        while True:
            request = list_request(
                resource, selection, limit=limit, continue_token=token, resource_version=resource_version
            )
            page = raw_page(await self._caller.call(request))
            yield page
            if not (token := page.continue_token):
                return

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

    async def create(
        self,
        resource: Resource,
        body: Body,
        namespace: str | None = None,
        *,
        name: str | None = None,
        subresource: str | None = None,
    ) -> bytes:
        """A new object, or (`name` and `subresource`) an eviction or a token. Never retried."""
        return await self._write(create_request(resource, body, namespace, subresource, name))

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
        """Server-side apply; ConflictError names the other managers in `causes` unless `force`.

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
        grace_s: int | None = None,
        propagation: str | None = None,
    ) -> bytes:
        """Deletes one object; ConflictError when it is not the one meant. Retried only with a `uid`."""
        request = delete_request(
            resource,
            name,
            namespace,
            uid=uid,
            resource_version=resource_version,
            grace_s=grace_s,
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
    `may_send` is the fence: asked right before each attempt, and where it says no the call raises FencedError.
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
    )
    try:
        yield KubeClient(caller, is_dry_run=is_dry_run)
    finally:
        await transport.close()


def decode(body: bytes, wire: type[T]) -> T:
    """An answer as `wire` (any type msgspec knows); raises UndecodableError."""
    try:
        found: T = _decoder(cast(Any, wire)).decode(body)
    except READ_ERRORS as error:
        raise UndecodableError(f"not a {getattr(wire, '__name__', wire)}: {cut(str(error))}") from error
    return found


@lru_cache(maxsize=128)
def _decoder(wire: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(wire)
