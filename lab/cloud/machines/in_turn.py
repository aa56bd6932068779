"""Do something for many items, a few at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

Item = TypeVar("Item")


async def for_each(items: Iterable[Item], act: Callable[[Item], Awaitable[None]], *, at_once: int) -> None:
    """Await `act` for every item, at most `at_once` at a time; the first failure ends all and is raised."""
    turns = asyncio.Semaphore(at_once)

    async def in_turn(item: Item) -> None:
        async with turns:
            await act(item)

    try:
        async with asyncio.TaskGroup() as group:
            for item in items:
                group.create_task(in_turn(item))
    except ExceptionGroup as failed:
        # One cause is what a person can act on; the others usually share it.
        raise failed.exceptions[0] from failed
