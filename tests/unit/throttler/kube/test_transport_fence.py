"""The fence: asked last, when nothing is left to do but to send; and what it stops was never sent."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from tests.unit.throttler.kube.fake_api import THINGS, FixedSource
from tests.unit.throttler.kube.loopback_api import loopback_api
from throttler.kube.connection import Connection, CredentialKeeper, Credentials
from throttler.kube.errors import FencedError
from throttler.kube.kube_client import CANCELLED, Attempt, KubeClient, open_client
from throttler.kube.transport import AiohttpTransport, EndingConnector


@asynccontextmanager
async def fenced_client(
    url: str, may_send: Callable[[], bool], seen: Callable[[Attempt], None] = lambda attempt: None
) -> AsyncIterator[KubeClient]:
    keeper = CredentialKeeper(FixedSource(), Credentials("Bearer fixed", None))
    connection = Connection(url, keeper, "default", 5.0, ())
    async with open_client(connection, "test", observer=seen, may_send=may_send) as client:
        yield client


async def test_what_is_fenced_is_not_sent_and_says_nothing_about_the_server() -> None:
    seen: list[Attempt] = []
    async with loopback_api() as api, fenced_client(api.url, lambda: False, seen.append) as client:
        with pytest.raises(FencedError):
            await client.patch(THINGS, {"a": 1}, "n")
    assert api.asked == []
    assert [attempt.code for attempt in seen] == [CANCELLED]


async def test_the_fence_is_asked_before_a_second_attempt_as_well() -> None:
    answers = iter([True, False])

    async def busy(request: web.BaseRequest) -> web.Response:
        return web.json_response({}, status=503, headers={"Retry-After": "1"})

    async with loopback_api(busy) as api, fenced_client(api.url, lambda: next(answers)) as client:
        with pytest.raises(FencedError):
            await client.patch(THINGS, {"a": 1}, "n")
    assert len(api.asked) == 1


async def test_the_fence_is_asked_on_a_kept_connection_too() -> None:
    answers = iter([True, False, True])
    async with loopback_api() as api, fenced_client(api.url, lambda: next(answers)) as client:
        await client.patch(THINGS, {"a": 1}, "n")
        with pytest.raises(FencedError):
            await client.patch(THINGS, {"a": 2}, "n")
        await client.patch(THINGS, {"a": 3}, "n")
    assert len(api.asked) == 2


async def test_the_fence_is_asked_when_the_connection_is_there_and_not_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Making one takes turns of the loop in each of which a process may be frozen for a minute."""
    connectors: list[EndingConnector] = []
    peers: list[object] = []
    init = AiohttpTransport.__init__

    def noted(self: AiohttpTransport, *given: object, **named: object) -> None:
        init(self, *given, **named)  # type: ignore[arg-type]
        connector = self._session.connector
        assert isinstance(connector, EndingConnector)
        connectors.append(connector)

    def may_send() -> bool:
        peers.extend(each.getpeername() for each in connectors[0]._opened)
        return True

    monkeypatch.setattr(AiohttpTransport, "__init__", noted)
    async with loopback_api() as api, fenced_client(api.url, may_send) as client:
        await client.patch(THINGS, {"a": 1}, "n")
    assert len(peers) == 1
