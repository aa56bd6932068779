"""A path to the API server for one replica, on which requests can be held up and streams looked at.

It speaks plain HTTP to the replica and TLS to the server, as one user of its own, so that the audit log tells replicas
apart. Everything passes, watches included, but for what a subclass does about it.
"""

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Self

import aiohttp
from aiohttp import web
from yarl import URL

from lab.controlplane import ApiAccess
from throttler.kube.transport import EndingConnector

_DROPPED = frozenset({"host", "transfer-encoding", "content-length", "connection"})
_KEPT = ("Content-Type", "Content-Encoding")


class ApiPath:
    """`url` is where the replica finds the API server once the path is open."""

    def __init__(self, access: ApiAccess) -> None:
        self.access = access
        self.url = ""
        self._session: aiohttp.ClientSession | None = None

    async def admit(self, request: web.BaseRequest) -> None:
        """Called before a request is passed on, and waited for."""

    async def body_of(self, request: web.BaseRequest, reply: aiohttp.ClientResponse) -> AsyncGenerator[bytes, None]:
        """The body of an answer, as it is passed back."""
        async for chunk in reply.content.iter_any():
            yield chunk

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """Pass a request on, and its answer back as it comes."""
        assert self._session is not None
        await self.admit(request)
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _DROPPED}
        sent = await request.read() if request.can_read_body else None
        url = f"{self.access.url}{request.raw_path}"
        async with self._session.request(request.method, URL(url, encoded=True), headers=headers, data=sent) as reply:
            answer = web.StreamResponse(status=reply.status)
            answer.headers.update({name: reply.headers[name] for name in _KEPT if name in reply.headers})
            # A replica that is killed, or that gives up a request, reads no answer.
            with contextlib.suppress(ConnectionResetError):
                await answer.prepare(request)
                async with contextlib.aclosing(self.body_of(request, reply)) as chunks:
                    async for chunk in chunks:
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
    async def open(self) -> AsyncIterator[Self]:
        """Serve on loopback until the block ends."""
        connector = EndingConnector(ssl=self.access.ssl_context(), limit=0)
        timeout = aiohttp.ClientTimeout(total=None)
        async with aiohttp.ClientSession(
            connector=connector, timeout=timeout, auto_decompress=False, skip_auto_headers=["Accept-Encoding"]
        ) as self._session:
            runner = web.ServerRunner(web.Server(self.answer), shutdown_timeout=0.1)
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
            try:
                yield self
            finally:
                await runner.cleanup()
