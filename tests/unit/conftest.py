"""Async unit tests marked `virtual_time` run on a loop whose clock jumps; the others in real time."""

import asyncio
from collections.abc import Callable, Mapping

import pytest

from tests.virtual_time import VirtualTimeLoop


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "virtual_time: the event loop's clock jumps from timer to timer")


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    if item.get_closest_marker("virtual_time"):
        return {"virtual": VirtualTimeLoop}
    return {"real": asyncio.new_event_loop}
