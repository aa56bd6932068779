"""All sources as one, our own requests among them."""

import asyncio
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from tests.recorded_metrics import small_body
from tests.unit.throttler.kube.loopback_api import loopback_api
from tests.unit.throttler.scraping.fake_prometheus import ALARM, FakePrometheus, answer, element, server
from tests.unit.throttler.scraping.metrics_server import connection_to
from tests.unit.throttler.service.throttle_scene import a_throttle, calm
from throttler.kube.connection import Connection
from throttler.kube.kube_client import Attempt, ignore_attempt
from throttler.scraping import prometheus_watch
from throttler.scraping.promql_client import PrometheusAccess
from throttler.scraping.settings_and_allowed_hosts import SourceSettings
from throttler.scraping.signal_watch import OwnAttempts, SignalWatch, SignalWatches
from throttler.signals.reading import Read, Reading, ReadOutcome, Signals, ignore_read


def reading_of(*attempts: tuple[str, str, str, float]) -> Reading:
    own = OwnAttempts(5.0)
    own.reading(100.0)
    for verb, resource, code, seconds in attempts:
        own.observe(Attempt(verb, resource, code, seconds, 0))
    reading = own.reading(105.0)
    assert reading is not None
    return reading


def test_there_is_nothing_before_the_first_window_is_complete() -> None:
    own = OwnAttempts(5.0)
    assert own.reading(100.0) is None
    assert own.reading(104.9) is None
    assert own.reading(105.0) is not None


def test_latency_is_the_mean_over_single_objects() -> None:
    reading = reading_of(("get", "nodes", "200", 0.1), ("patch", "nodes", "200", 0.3), ("list", "pods", "200", 9.0))
    assert reading.server == "own requests"
    assert (reading.requests, reading.errors, reading.span_s, reading.ended_s) == (3, 0, 5.0, 105.0)
    assert reading.latency_s == pytest.approx(0.2)


@pytest.mark.parametrize("code", ["429", "500", "503", "504", "timeout", "error"])
def test_refusals_failures_and_silence_are_errors(code: str) -> None:
    assert reading_of(("get", "nodes", code, 1.0), ("get", "nodes", "404", 0.1)).errors == 1


def test_what_we_gave_up_ourselves_is_no_error() -> None:
    reading = reading_of(("get", "nodes", "cancelled", 1.0))
    assert (reading.requests, reading.errors) == (0, 0)


def test_what_a_webhook_fails_is_not_the_servers_doing() -> None:
    """One namespace's policy engine that is away would brake the joins of all."""
    own = OwnAttempts(5.0)
    own.reading(100.0)
    for _ in range(20):
        own.observe(Attempt("patch", "pods", "500", 3.0, 0, is_of_webhook=True))
    own.observe(Attempt("patch", "pods", "200", 0.1, 0))
    reading = own.reading(105.0)
    assert reading is not None
    assert (reading.requests, reading.errors, reading.latency_s) == (1, 0, pytest.approx(0.1))


def test_a_quiet_window_is_no_latency_rather_than_zero() -> None:
    reading = reading_of()
    assert (reading.requests, reading.latency_s) == (0, None)


def test_what_our_requests_met_while_another_replica_led_is_no_news() -> None:
    """Errors of an outage a week ago would brake the joins of the replica that leads again."""
    own = OwnAttempts(5.0)
    own.reading(100.0)
    own.observe(Attempt("get", "nodes", "200", 0.1, 0))
    before = own.reading(105.0)
    for _ in range(20):
        own.observe(Attempt("watch", "nodes", "error", 0.1, 0))
    week_s = 7 * 86_400.0
    assert own.reading(105.0 + week_s) == before
    own.observe(Attempt("get", "nodes", "200", 0.1, 0))
    after = own.reading(110.0 + week_s)
    assert after is not None
    assert (after.requests, after.errors, after.span_s) == (1, 0, 5.0)


def test_the_newest_complete_window_stays_until_the_next_is_complete() -> None:
    own = OwnAttempts(5.0)
    own.reading(100.0)
    own.observe(Attempt("get", "nodes", "429", 0.1, 0))
    first = own.reading(105.0)
    own.observe(Attempt("get", "nodes", "200", 0.1, 0))
    assert own.reading(109.0) is first
    later = own.reading(110.0)
    assert later is not None
    assert (later.errors, later.requests) == (0, 1)


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
    async with asyncio.timeout(120):
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
    monkeypatch.setattr(prometheus_watch, "PROMETHEUS_INTERVAL_S", 0.2)
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


OTHER: dict[str, Any] = {"signals": {"scrape": {"servers": ["https://10.0.0.1:6443"]}}}


class FakeWatch:
    """A source that is always calm; may fail once."""

    made: list["FakeWatch"]
    fails = False

    def __init__(self, connection: Connection, settings: Any, **given: Any) -> None:
        self.settings = settings
        self.access = given["access"]
        self.is_running = False
        type(self).made.append(self)

    async def run(self) -> None:
        if type(self).fails:
            raise RuntimeError("odd body")
        self.is_running = True
        try:
            await asyncio.sleep(1e6)
        finally:
            self.is_running = False

    def signals(self, now_s: float) -> Signals:
        return calm(now_s)


ACCESS = PrometheusAccess(url="https://prometheus:9091", token_file="/token")


@pytest.fixture
def sources(monkeypatch: pytest.MonkeyPatch) -> SignalWatches:
    FakeWatch.made, FakeWatch.fails = [], False
    monkeypatch.setattr("throttler.scraping.signal_watch.SignalWatch", FakeWatch)
    connection: Any = None
    return SignalWatches(connection, OwnAttempts(5.0), ignore_read, ignore_attempt, ACCESS)


def running() -> int:
    return sum(watch.is_running for watch in FakeWatch.made)


@pytest.mark.virtual_time
async def test_throttles_with_equal_settings_share_a_source(sources: SignalWatches) -> None:
    sources.follow([a_throttle("a"), a_throttle("b"), a_throttle("c", **OTHER)])
    await asyncio.sleep(1)
    assert running() == len(FakeWatch.made) == 2
    assert sources.by_throttle(5.0).keys() == {"a", "b", "c"}
    assert len(sources.distinct(5.0)) == 2
    assert [watch.access for watch in FakeWatch.made] == [ACCESS] * 2, "the URL of each decides what is used of it"
    sources.follow([])
    await asyncio.sleep(1)
    assert running() == 0


@pytest.mark.virtual_time
async def test_a_source_that_nobody_names_any_more_ends(sources: SignalWatches) -> None:
    sources.follow([a_throttle("a"), a_throttle("c", **OTHER)])
    await asyncio.sleep(1)
    sources.follow([a_throttle("a")])
    await asyncio.sleep(1)
    assert running() == 1
    assert sources.by_throttle(5.0).keys() == {"a"}
    sources.follow([])


@pytest.mark.virtual_time
async def test_a_source_that_failed_is_begun_anew(sources: SignalWatches) -> None:
    FakeWatch.fails = True
    sources.follow([a_throttle("a")])
    await asyncio.sleep(1)
    FakeWatch.fails = False
    sources.follow([a_throttle("a")])
    await asyncio.sleep(1)
    assert (len(FakeWatch.made), running()) == (2, 1)
    sources.follow([])
