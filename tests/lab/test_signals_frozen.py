"""Row 56: metrics that stand still while the server may be anything are stale within 30 s, and not a quiet server."""

import asyncio
from dataclasses import replace

import aiohttp
from aiohttp import web

from lab.controlplane import ControlPlane
from tests.unit.throttler.kube.loopback_api import loopback_api
from throttler.kube.connection import Connection, ConnectionOptions, load_connection
from throttler.kube.transport import EndingConnector
from throttler.scraping.settings_and_allowed_hosts import SourceSettings
from throttler.scraping.signal_watch import SignalWatch
from throttler.signals.reading import STALE_AFTER_S
from throttler.signals.servers import ServerState, State, server_states

PATIENCE_S = 180.0
LATE_S = 15.0
"""A loaded machine looks by so much later."""


class ReplayingProxy:
    """Passes /metrics on, and while `is_frozen` gives the last body again and again."""

    def __init__(self, plane: ControlPlane, session: aiohttp.ClientSession) -> None:
        self.is_frozen = False
        self._access = plane.access()
        self._session = session
        self._body = b""

    async def handle(self, request: web.BaseRequest) -> web.Response:
        if not self.is_frozen:
            async with self._session.get(self._access.url + request.path_qs) as answer:
                self._body = await answer.read()
        return web.Response(body=self._body)


async def test_a_replayed_body_is_stale_and_a_living_one_fresh_again(control_plane: ControlPlane) -> None:
    connection = await load_connection(ConnectionOptions(kubeconfig=str(control_plane.kubeconfig())))
    connector = EndingConnector(ssl=control_plane.access().ssl_context(), force_close=True)
    async with aiohttp.ClientSession(connector=connector) as session:
        proxy = ReplayingProxy(control_plane, session)
        async with loopback_api(proxy.handle) as api:
            await judge(connection, proxy, api.url)


async def judge(connection: Connection, proxy: ReplayingProxy, url: str) -> None:
    watch = SignalWatch(replace(connection, base_url=url), SourceSettings(servers=(url,), interval_s=2.0))
    task = asyncio.create_task(watch.run())
    try:
        await state_is(watch, State.FRESH)
        proxy.is_frozen = True
        stale = await state_is(watch, State.STALE)
        now_s = asyncio.get_running_loop().time()
        assert any("its metrics have not moved for" in problem for problem in watch.signals(now_s).problems)
        assert STALE_AFTER_S - 3 < stale.age_s < STALE_AFTER_S + LATE_S
        proxy.is_frozen = False
        await state_is(watch, State.FRESH)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def state_is(watch: SignalWatch, wanted: State) -> ServerState:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            now_s = asyncio.get_running_loop().time()
            found = [state for state in server_states(watch.signals(now_s), now_s) if state.name != "own requests"]
            if found and found[0].state is wanted:
                return found[0]
            await asyncio.sleep(0.1)
