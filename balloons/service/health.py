"""The small HTTP server for machines: /metrics, /healthz and /readyz. No pages for people."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.aiohttp import make_aiohttp_handler

from balloons.service.settings import Address, SettingsError

Check = Callable[[], str]
"""Returns what is wrong, empty if nothing is."""


@asynccontextmanager
async def serve_health(
    address: Address, registry: CollectorRegistry, is_alive: Check, is_ready: Check
) -> AsyncIterator[Address]:
    """Serve until the block ends; gives the address in use. Raises SettingsError where it cannot listen."""
    app = web.Application()
    app.router.add_get("/metrics", make_aiohttp_handler(registry))
    app.router.add_get("/healthz", _answer(is_alive))
    app.router.add_get("/readyz", _answer(is_ready))
    runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=0.5)
    await runner.setup()
    try:
        await _listen(runner, address)
        host, port = runner.addresses[0][:2]
        yield Address(host, port)
    finally:
        await runner.cleanup()


async def _listen(runner: web.AppRunner, address: Address) -> None:
    try:
        await web.TCPSite(runner, address.host, address.port).start()
    except OSError as error:
        raise SettingsError(
            f"metrics address {address}: {error.strerror}; accepted is an address that is free here, port 0 takes any"
        ) from error


def _answer(check: Check) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def answer(request: web.Request) -> web.Response:
        problem = check()
        return web.Response(text=f"{problem or 'ok'}\n", status=503 if problem else 200)

    return answer
