"""The service's path to the API server: when it was sent news of pods, and a 410 at will."""

import asyncio
import time
from collections.abc import AsyncGenerator

import aiohttp
from aiohttp import web

from benchmarks.api_path import ApiPath
from lab.controlplane import ApiAccess

PODS = "/api/v1/pods"
EXPIRED = (
    b'{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",'
    b'"message":"too old resource version","reason":"Expired","code":410}}\n'
)


class PodPath(ApiPath):
    """`news_at` are the moments at which watches of pods were sent anything; a list in the form of a watch is none.

    `list_begun` is set once a list of pods has been asked for.
    """

    def __init__(self, access: ApiAccess) -> None:
        super().__init__(access)
        self.news_at: list[float] = []
        self.list_begun = asyncio.Event()
        self._epoch = 0

    def forget(self) -> None:
        """End open watches of pods, after their next event, as a server does that does not know their version."""
        self.list_begun.clear()
        self._epoch += 1

    async def admit(self, request: web.BaseRequest) -> None:
        """Everything passes; lists of pods are noted."""
        if _is_about_pods(request) and not _is_watch(request):
            self.list_begun.set()

    async def body_of(self, request: web.BaseRequest, reply: aiohttp.ClientResponse) -> AsyncGenerator[bytes, None]:
        """Watches of pods may end sooner than the server would have it; everything else is as it comes."""
        is_watch, epoch = _is_about_pods(request) and _is_watch(request) and reply.status == 200, self._epoch
        async for chunk in super().body_of(request, reply):
            yield chunk
            if is_watch:
                self.news_at.append(time.monotonic())
                # Between two events, not within one.
                if epoch != self._epoch and chunk.endswith(b"\n"):
                    yield EXPIRED
                    return


def _is_about_pods(request: web.BaseRequest) -> bool:
    """All of those that run, as against what failed balloons leave."""
    return request.path == PODS and "labelSelector" not in request.query


def _is_watch(request: web.BaseRequest) -> bool:
    return "watch" in request.query and "sendInitialEvents" not in request.query
