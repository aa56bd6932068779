"""The small HTTP server for machines: /metrics, /healthz and /readyz. No pages for people."""

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from balloons.service.settings import Address, SettingsError

PAGE_S = 1.0
"""How long one page of metrics is given to everybody who asks."""
Check = Callable[[], str]
"""Returns what is wrong, empty if nothing is."""


@asynccontextmanager
async def serve_health(
    address: Address, registry: CollectorRegistry, is_alive: Check, is_ready: Check, remark: Check = lambda: ""
) -> AsyncIterator[Address]:
    """Serve until the block ends; gives the address in use. Raises SettingsError where it cannot listen.

    `remark` is what /healthz adds while it is well: what is wrong and a restart would not mend.
    """
    app = web.Application()
    app.router.add_get("/metrics", Page(registry, asyncio.get_running_loop().time).answer)
    app.router.add_get("/healthz", _answer(is_alive, remark))
    app.router.add_get("/readyz", _answer(is_ready, lambda: ""))
    runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=0.5)
    await runner.setup()
    try:
        await _listen(runner, address)
        host, port = runner.addresses[0][:2]
        yield Address(host, port)
    finally:
        await runner.cleanup()


class Page:
    """The metrics as text, written at most once a second: anybody may ask, and writing takes the decisions' time."""

    def __init__(self, registry: CollectorRegistry, clock: Callable[[], float]) -> None:
        self._registry = registry
        self._clock = clock
        self._written: dict[str, tuple[float, bytes]] = {}

    async def answer(self, request: web.Request) -> web.Response:
        """The page as of this second, in the format that was asked for."""
        kind, text = self.text(request.headers.get("Accept", ""))
        return web.Response(body=text, headers={"Content-Type": kind})

    def text(self, accept: str) -> tuple[str, bytes]:
        """Its content type and its text."""
        encoder, kind = choose_encoder(accept)
        now_s = self._clock()
        at_s, text = self._written.get(kind, (-math.inf, b""))
        if now_s - at_s >= PAGE_S:
            text = encoder(self._registry)
            self._written[kind] = now_s, text
        return kind, text


async def _listen(runner: web.AppRunner, address: Address) -> None:
    try:
        await web.TCPSite(runner, address.host, address.port).start()
    except OSError as error:
        raise SettingsError(
            f"metrics address {address}: {error.strerror}; accepted is an address that is free here, port 0 takes any"
        ) from error


def _answer(check: Check, remark: Check) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def answer(request: web.Request) -> web.Response:
        problem = check()
        text = problem or "; ".join(filter(None, ("ok", remark())))
        return web.Response(text=f"{text}\n", status=503 if problem else 200)

    return answer
