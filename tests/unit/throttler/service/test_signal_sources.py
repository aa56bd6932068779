"""Which sources run: one for each distinct set of settings, none without a throttle."""

import asyncio
from typing import Any

import pytest

from tests.unit.throttler.service.throttle_scene import a_throttle, calm
from throttler.kube.caller import ignore_attempt
from throttler.kube.connection import Connection
from throttler.service.signal_sources import SignalWatches
from throttler.signals.reading import Signals
from throttler.sources.outcome import ignore_read
from throttler.sources.own_attempts import OwnAttempts
from throttler.sources.prometheus_access import PrometheusAccess

pytestmark = pytest.mark.virtual_time

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
    monkeypatch.setattr("throttler.service.signal_sources.SignalWatch", FakeWatch)
    connection: Any = None
    return SignalWatches(connection, OwnAttempts(5.0), ignore_read, ignore_attempt, ACCESS)


def running() -> int:
    return sum(watch.is_running for watch in FakeWatch.made)


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


async def test_a_source_that_nobody_names_any_more_ends(sources: SignalWatches) -> None:
    sources.follow([a_throttle("a"), a_throttle("c", **OTHER)])
    await asyncio.sleep(1)
    sources.follow([a_throttle("a")])
    await asyncio.sleep(1)
    assert running() == 1
    assert sources.by_throttle(5.0).keys() == {"a"}
    sources.follow([])


async def test_a_source_that_failed_is_begun_anew(sources: SignalWatches) -> None:
    FakeWatch.fails = True
    sources.follow([a_throttle("a")])
    await asyncio.sleep(1)
    FakeWatch.fails = False
    sources.follow([a_throttle("a")])
    await asyncio.sleep(1)
    assert (len(FakeWatch.made), running()) == (2, 1)
    sources.follow([])
