"""Many items, a few at a time."""

import asyncio

import pytest

from lab.cloud.machines.api_client import for_each
from lab.errors import LabError


async def test_no_more_than_allowed_run_at_once_and_all_are_done() -> None:
    running, most, done = 0, 0, []

    async def act(item: int) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        done.append(item)

    await for_each(range(20), act, at_once=3)
    assert most == 3
    assert sorted(done) == list(range(20))


async def test_first_failure_is_raised_itself_and_ends_the_rest() -> None:
    started = []

    async def act(item: int) -> None:
        started.append(item)
        if item == 2:
            raise LabError("item 2 is broken")
        await asyncio.Event().wait()

    with pytest.raises(LabError, match="item 2 is broken"):
        await for_each(range(10), act, at_once=3)
    # Item 3 may take the turn of item 2 before the others are ended.
    assert set(started) <= {0, 1, 2, 3}
