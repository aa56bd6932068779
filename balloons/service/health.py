"""The small HTTP server for machines: /metrics, /healthz and /readyz. No pages for people.

With a certificate it speaks TLS only. Kubelets ask without a certificate of their own and check none, so probes stay
open where metrics ask for one.
"""

import asyncio
import math
import os
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import structlog
from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from balloons.service.settings import ListenAddress, MetricsTls, SettingsError

OPEN_METRICS = "application/openmetrics-text; version=1.0.0"
PAGE_S = 1.0
"""How long one page of metrics is given to everybody who asks."""
MOST_CONNECTIONS = 128
"""Open at the same time; kubelets and a few Prometheus servers need a handful."""
HANDSHAKE_S = 10.0
"""How long a client may take to agree on TLS."""
Check = Callable[[], str]
"""Returns what is wrong, empty if nothing is."""
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

log = structlog.get_logger()


@asynccontextmanager
async def serve_health(
    address: ListenAddress,
    registry: CollectorRegistry,
    is_alive: Check,
    is_ready: Check,
    remark: Check = lambda: "",
    *,
    tls: MetricsTls | None = None,
) -> AsyncIterator[ListenAddress]:
    """Serve until the block ends; gives the address in use. Raises SettingsError where it cannot.

    `remark` is what /healthz adds while it is well: what is wrong and a restart would not mend.
    """
    app = web.Application()
    page = Page(registry, asyncio.get_running_loop().time).answer
    app.router.add_get("/metrics", _to_known_clients(page) if tls and tls.client_ca_file else page)
    app.router.add_get("/healthz", _answer(is_alive, remark))
    app.router.add_get("/readyz", _answer(is_ready, lambda: ""))
    context = Certificate(tls).context if tls else None
    runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=0.5)
    await runner.setup()
    listening = await _listen(runner, address, context)
    try:
        host, port = listening.sockets[0].getsockname()[:2]
        served = ListenAddress(host, port)
        log.info("serving", address=str(served), paths=["/metrics", "/healthz", "/readyz"], is_tls=tls is not None)
        yield served
    finally:
        listening.close()
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
        # Two formats and no more: each that is asked for would be a page of its own, under a name of the client's.
        encoder, kind = choose_encoder(OPEN_METRICS if OPEN_METRICS.partition(";")[0] in accept else "")
        now_s = self._clock()
        at_s, text = self._written.get(kind, (-math.inf, b""))
        if now_s - at_s >= PAGE_S:
            text = encoder(self._registry)
            self._written[kind] = now_s, text
        return kind, text


class Certificate:
    """What is in the files at each handshake: a Secret that is mounted may be rotated at any time.

    Raises SettingsError if they cannot be used at the start; later what was read last goes on.
    """

    def __init__(self, files: MetricsTls) -> None:
        self._files = files
        self._stamps = _stamps(files)
        self._newest = _server_context(files)
        self.context = _server_context(files)
        self.context.sni_callback = self._use_newest

    def _use_newest(self, connection: ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> None:
        # Asked of every client, whether it names a server or not.
        try:
            stamps = _stamps(self._files)
            if stamps != self._stamps:
                self._stamps = stamps
                self._newest = _server_context(self._files)
        except SettingsError as error:
            log.warning("metrics certificate could not be read again, the old one stays", problem=str(error))
        connection.context = self._newest


def _stamps(files: MetricsTls) -> tuple[tuple[int, int], ...]:
    """What differs once a file was written or replaced."""
    paths = filter(None, (files.cert_file, files.key_file, files.client_ca_file))
    try:
        return tuple((stat.st_ino, stat.st_mtime_ns) for stat in map(os.stat, paths))
    except OSError as error:
        raise _unusable(files, error.strerror or "", error.filename) from error


def _server_context(files: MetricsTls) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    path = files.cert_file
    try:
        # A password would be asked for on the terminal.
        context.load_cert_chain(files.cert_file, files.key_file, password="")
        if files.client_ca_file is not None:
            path = files.client_ca_file
            context.load_verify_locations(path)
            context.verify_mode = ssl.CERT_OPTIONAL
    except (OSError, ValueError) as error:
        raise _unusable(files, getattr(error, "reason", None) or "no PEM", path) from error
    return context


def _unusable(files: MetricsTls, problem: str, path: str) -> SettingsError:
    option = "--metrics-client-ca-file" if path == files.client_ca_file else "--metrics-cert-file, --metrics-key-file"
    return SettingsError(f"{option} {path!r}: {problem}; accepted are PEM files, and the key that belongs to it")


def _to_known_clients(handler: Handler) -> Handler:
    async def answer(request: web.Request) -> web.StreamResponse:
        # The handshake has refused certificates of other authorities.
        if request.transport is None or not request.transport.get_extra_info("peercert"):
            return web.Response(text="metrics are read with a client certificate only\n", status=403)
        return await handler(request)

    return answer


async def _listen(runner: web.AppRunner, address: ListenAddress, context: ssl.SSLContext | None) -> asyncio.Server:
    timeout_s = HANDSHAKE_S if context else None
    try:
        return await asyncio.get_running_loop().create_server(
            _with_room(runner), address.host, address.port, ssl=context, ssl_handshake_timeout=timeout_s
        )
    except OSError as error:
        await runner.cleanup()
        raise SettingsError(
            f"metrics address {address}: {error.strerror}; accepted is an address that is free here, port 0 takes any"
        ) from error


def _with_room(runner: web.AppRunner) -> Callable[[], asyncio.Protocol]:
    """Makes the handler of a connection; the oldest ones go where there are too many, as probes are over at once."""
    server = runner.server
    if server is None:
        raise RuntimeError("the server is not set up")

    def handler() -> asyncio.Protocol:
        open_now = server.connections
        for oldest in open_now[: max(0, len(open_now) + 1 - MOST_CONNECTIONS)]:
            oldest.force_close()
        return server()

    return handler


def _answer(check: Check, remark: Check) -> Handler:
    async def answer(request: web.Request) -> web.Response:
        problem = check()
        text = problem or "; ".join(filter(None, ("ok", remark())))
        return web.Response(text=f"{text}\n", status=503 if problem else 200)

    return answer
