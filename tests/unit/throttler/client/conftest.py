import asyncio
from types import SimpleNamespace

import pytest


@pytest.fixture
async def throttler_clock(monkeypatch):
    """asyncio-throttle reads the real clock; here it reads the loop's, which is virtual."""
    clock = SimpleNamespace(monotonic=asyncio.get_running_loop().time)
    monkeypatch.setattr("asyncio_throttle.throttler.time", clock)
