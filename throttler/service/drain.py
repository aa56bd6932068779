"""The end of writes under way."""

import asyncio
from collections.abc import Iterable
from typing import Any


async def drain(tasks: Iterable[asyncio.Task[Any]], timeout_s: float) -> None:
    """Let the tasks finish; what takes longer is cancelled, and its end waited for. Raises none of their errors."""
    running = list(tasks)
    if not running:
        return
    _, late = await asyncio.wait(running, timeout=timeout_s)
    for task in late:
        task.cancel()
    await asyncio.gather(*late, return_exceptions=True)
