"""How late the event loop is: the first thing to look at when a lease or a watch is lost."""

import asyncio
from collections.abc import Callable

PERIOD_S = 1.0


async def measure_lag(tell: Callable[[float], None]) -> None:
    """Once a second, tell how much later than asked a timer fired; until cancelled."""
    clock = asyncio.get_running_loop().time
    while True:
        asked_at = clock()
        await asyncio.sleep(PERIOD_S)
        tell(max(0.0, clock() - asked_at - PERIOD_S))
