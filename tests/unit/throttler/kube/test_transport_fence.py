"""The fence: asked last, when nothing is left to do but to send; and what it stops was never sent."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from tests.unit.throttler.kube.fake_list_and_watch import THINGS, FixedSource
from tests.unit.throttler.kube.loopback_api import loopback_api
from throttler.kube.connection import Connection, CredentialKeeper, Credentials
from throttler.kube.errors import FencedError
from throttler.kube.kube_client import CANCELLED, Attempt, KubeClient, open_client
from throttler.kube.transport import EndingConnector


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


async def test_there_is_no_turn_of_the_loop_between_the_question_and_the_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A process may be frozen in any turn, and somebody else leads when it goes on. Making a connection takes several,
    and Python 3.11 writes the body in yet another one."""
    loop, turns = asyncio.get_running_loop(), [0]
    asked: list[int] = []
    sent: list[int] = []

    class Noted(socket.socket):
        def send(self, *data: Any) -> int:
            sent.append(turns[0])
            return super().send(*data)

        def sendmsg(self, *data: Any) -> int:
            sent.append(turns[0])
            return super().sendmsg(*data)

    def opened(self: EndingConnector, address: Any) -> socket.socket:
        return Noted(*address[:3])

    def turn() -> None:
        turns[0] += 1
        turning[0] = loop.call_soon(turn)

    def may_send() -> bool:
        asked.append(turns[0])
        return True

    monkeypatch.setattr(EndingConnector, "_open", opened)
    turning = [loop.call_soon(turn)]
    async with loopback_api() as api, fenced_client(api.url, may_send) as client:
        await client.patch(THINGS, {"a": 1}, "n")
        await client.patch(THINGS, {"a": 2}, "n")
    turning[0].cancel()
    assert len(asked) == 2
    assert sent == asked


async def test_who_does_not_lead_may_read() -> None:
    async with loopback_api() as api, fenced_client(api.url, lambda: False) as client:
        await client.get(THINGS, "n")
    assert len(api.asked) == 1
