"""A small HTTP server on loopback, in the test's own loop, that records what it was asked."""

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from aiohttp import web

from lab.controlplane.credentials import CertificateAuthority, KeyPair

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


@dataclass
class LoopbackApi:
    """`asked` holds every request; `tokens` their Authorization headers."""

    url: str = ""
    asked: list[web.BaseRequest] = field(default_factory=list)

    @property
    def tokens(self) -> list[str | None]:
        return [request.headers.get("Authorization") for request in self.asked]


async def answer_empty(request: web.BaseRequest) -> web.Response:
    return web.json_response({})


def accepting(token: str) -> Handler:
    """Answers 401 to every other token."""

    async def handle(request: web.BaseRequest) -> web.Response:
        return web.json_response({}, status=200 if request.headers.get("Authorization") == token else 401)

    return handle


@asynccontextmanager
async def loopback_api(
    handler: Handler = answer_empty, pair: KeyPair | None = None, clients: Path | None = None, port: int = 0
) -> AsyncIterator[LoopbackApi]:
    """Serves until the block ends; with a key pair over TLS, with `clients` (a CA) asking for certificates."""
    api = LoopbackApi()

    async def record(request: web.BaseRequest) -> web.StreamResponse:
        api.asked.append(request)
        return await handler(request)

    runner = web.ServerRunner(web.Server(record), shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", port, ssl_context=_tls(pair, clients))
    await site.start()
    bound = runner.addresses[0][1]
    api.url = f"{'https' if pair else 'http'}://127.0.0.1:{bound}"
    try:
        yield api
    finally:
        await runner.cleanup()


def _tls(pair: KeyPair | None, clients: Path | None) -> ssl.SSLContext | None:
    if pair is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(pair.certificate, pair.key)
    if clients:
        context.load_verify_locations(clients)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def authority(folder: Path) -> CertificateAuthority:
    """A new authority with files in `folder`."""
    return CertificateAuthority(folder)
