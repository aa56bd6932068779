"""A connection to a server on loopback, and answers that /metrics may give."""

import asyncio
import gzip

from aiohttp import web

from tests.unit.throttler.kube.fake_list_and_watch import FixedSource
from throttler.kube.connection import Connection, CredentialKeeper, Credentials


def connection_to(url: str, *, tls=None) -> Connection:
    keeper = CredentialKeeper(FixedSource(), Credentials("Bearer fixed", tls))
    return Connection(url, keeper, "default", 10.0, (("Impersonate-User", "somebody"),))


def answering(body: bytes, *, status: int = 200, encoding: str = "", headers=None):
    """The same answer to every request; `encoding` is what the header says, the body is sent as it is."""

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        extra = {"Content-Encoding": encoding} if encoding else {}
        return web.Response(body=body, status=status, headers={**extra, **(headers or {})})

    return handle


def gzipped(body: bytes):
    return answering(gzip.compress(body), encoding="gzip")


async def trickle(request: web.BaseRequest) -> web.StreamResponse:
    """A byte now and then, for ever."""
    response = web.StreamResponse()
    await response.prepare(request)
    while True:
        await response.write(b"#")
        await asyncio.sleep(0.01)


async def stall(request: web.BaseRequest) -> web.StreamResponse:
    """Accepts and never answers."""
    await asyncio.sleep(60)
    raise AssertionError("nobody waits so long")
