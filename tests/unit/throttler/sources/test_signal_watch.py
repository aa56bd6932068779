"""All sources as one, against servers on loopback."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from tests.recorded_metrics import small_body
from tests.unit.throttler.kube.loopback_api import loopback_api
from tests.unit.throttler.sources.fake_prometheus import ALARM, FakePrometheus, answer, element, server
from tests.unit.throttler.sources.metrics_server import connection_to
from throttler.kube.caller import Attempt
from throttler.sources import promql
from throttler.sources.outcome import Read, ReadOutcome
from throttler.sources.own_attempts import OwnAttempts
from throttler.sources.settings import SourceSettings
from throttler.sources.signal_watch import SignalWatch


class FakeApiServer:
    """Counts a request per scrape; `status` is what /metrics answers. Everything else is not found."""

    def __init__(self) -> None:
        self.requests = 100
        self.status = 200

    async def handle(self, request: web.BaseRequest) -> web.Response:
        if request.path != "/metrics":
            return web.json_response({"message": "not here"}, status=404)
        self.requests += 1
        return web.Response(body=small_body(requests=self.requests), status=self.status)


@asynccontextmanager
async def watching(api: FakeApiServer, **options):
    async with loopback_api(api.handle) as loopback:
        settings = {"interval_s": 0.6, **options.pop("settings", {})}
        watch = SignalWatch(connection_to(loopback.url), SourceSettings(**settings), **options)
        task = asyncio.create_task(watch.run())
        try:
            yield watch
        finally:
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task


async def eventually(watch: SignalWatch, holds) -> None:
    async with asyncio.timeout(30):
        while not holds(watch.signals(asyncio.get_running_loop().time())):
            await asyncio.sleep(0.02)


def names(signals) -> set[str]:
    return {reading.server.split(":")[0] for reading in signals.readings}


async def test_scrapes_and_own_requests_come_together() -> None:
    reads: list[Read] = []
    own = OwnAttempts(0.5)
    async with watching(FakeApiServer(), own=own, observer=reads.append) as watch:
        own.observe(Attempt("get", "nodes", "429", 0.1, 0))
        await eventually(watch, lambda signals: names(signals) == {"127.0.0.1", "own requests"})
        signals = watch.signals(asyncio.get_running_loop().time())
    assert not signals.silent
    assert {read.outcome for read in reads} == {ReadOutcome.GOOD}
    assert any("EndpointSlices" in problem for problem in signals.problems)


async def test_a_server_that_turns_to_errors_is_silent() -> None:
    api = FakeApiServer()
    async with watching(api) as watch:
        await eventually(watch, lambda signals: "127.0.0.1" in names(signals))
        api.status = 500
        await eventually(watch, lambda signals: bool(signals.silent))
        signals = watch.signals(asyncio.get_running_loop().time())
    assert signals.silent[0].problem == "answered /metrics with status 500"
    assert "127.0.0.1" in names(signals)


async def test_prometheus_speaks_for_servers_that_forbid_to_be_scraped(monkeypatch) -> None:
    monkeypatch.setattr(promql, "ROUND_S", 0.2)
    api, prometheus = FakeApiServer(), FakePrometheus()
    api.status = 403
    prometheus.alarms = {ALARM.query: answer(element(5))}
    prometheus.servers = server("10.0.0.1:6443", 100, age_s=19)
    async with loopback_api(prometheus.handle) as second:
        settings = {"prometheus_url": second.url, "alarms": (ALARM,)}
        async with watching(api, settings=settings) as watch:
            await eventually(watch, lambda signals: bool(signals.alarms))
            prometheus.servers = server("10.0.0.1:6443", 150, age_s=4)
            await eventually(watch, lambda signals: "10.0.0.1" in names(signals))
            await eventually(watch, lambda signals: not signals.silent)
            signals = watch.signals(asyncio.get_running_loop().time())
    assert signals.alarms[0].is_on
    assert "no right to read /metrics of any API server" in signals.problems


async def test_nothing_is_scraped_when_scraping_is_off() -> None:
    reads: list[Read] = []
    async with watching(FakeApiServer(), settings={"scrapes": False}, observer=reads.append) as watch:
        await asyncio.sleep(0.05)
        assert watch.signals(asyncio.get_running_loop().time()).readings == ()
    assert reads == []
