"""Async unit tests marked `virtual_time` run on a loop whose clock jumps; the others in real time."""

import asyncio
from collections.abc import Callable, Mapping
from types import SimpleNamespace

import pytest
import structlog

from tests.virtual_time import VirtualTimeLoop


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "virtual_time: the event loop's clock jumps from timer to timer")
    _log_plainly()


def _log_plainly() -> None:
    """As structlog does on its own, but for tracebacks: rich colours and frames each, which takes a while."""
    structlog.reset_defaults()
    *others, _ = structlog.get_config()["processors"]
    plain = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    structlog.configure(processors=[*others, plain])


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    if item.get_closest_marker("virtual_time"):
        return {"virtual": VirtualTimeLoop}
    return {"real": asyncio.new_event_loop}


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown() -> None:
    """A command under test sends logs to its captured stream, which is closed when the next test logs.

    No fixture: one for every test takes as long as a short test.
    """
    _log_plainly()


@pytest.fixture
async def throttler_clock(monkeypatch):
    """asyncio-throttle reads the real clock; here it reads the loop's, which is virtual."""
    clock = SimpleNamespace(monotonic=asyncio.get_running_loop().time)
    monkeypatch.setattr("asyncio_throttle.throttler.time", clock)
