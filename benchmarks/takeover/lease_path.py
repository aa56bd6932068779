"""A path to the API server for one replica that can swallow Lease requests: accepted, and never answered.

It speaks plain HTTP to the replica and TLS to the server, as one user of its own, so that the audit log tells replicas
apart. Everything else passes, watches included.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
from aiohttp import web
from yarl import URL

from lab.controlplane.credentials import ApiAccess
from throttler.client.connector import EndingConnector

LEASES = "/leases/"
_DROPPED = frozenset({"host", "transfer-encoding", "content-length", "connection", "accept-encoding"})


class LeasePath:
    """`url` is where the replica finds the API server; `is_stalled` swallows Lease requests."""

    def __init__(self, access: ApiAccess, session: aiohttp.ClientSession) -> None:
        self._access = access
        self._session = session
        self.url = ""
        self.is_stalled = False
        self.swallowed = 0

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """Pass a request on, and its answer back as it comes."""
        if self.is_stalled and LEASES in request.path:
            self.swallowed += 1
            await asyncio.Event().wait()
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _DROPPED}
        body = await request.read() if request.can_read_body else None
        url = f"{self._access.url}{request.raw_path}"
        async with self._session.request(request.method, URL(url, encoded=True), headers=headers, data=body) as found:
            answer = web.StreamResponse(status=found.status)
            answer.headers["Content-Type"] = found.headers.get("Content-Type", "application/json")
            # A replica that is killed, or that gives up a request, reads no answer.
            with contextlib.suppress(ConnectionResetError):
                await answer.prepare(request)
                async for chunk in found.content.iter_any():
                    await answer.write(chunk)
                await answer.write_eof()
            return answer

    def kubeconfig(self, path: Path) -> Path:
        """A kubeconfig that leads here; who asks is known by the path."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(
            "apiVersion: v1\nkind: Config\ncurrent-context: path\n"
            f"clusters: [{{name: path, cluster: {{server: {self.url}}}}}]\n"
            "users: [{name: path, user: {token: none}}]\n"
            "contexts: [{name: path, context: {cluster: path, user: path}}]\n"
        )
        return path


@asynccontextmanager
async def open_lease_path(access: ApiAccess) -> AsyncIterator[LeasePath]:
    """Serve on loopback until the block ends."""
    connector = EndingConnector(ssl=access.ssl_context(), limit=0)
    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout, auto_decompress=False) as session:
        path = LeasePath(access, session)
        runner = web.ServerRunner(web.Server(path.answer), shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        path.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        try:
            yield path
        finally:
            await runner.cleanup()
