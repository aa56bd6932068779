"""The ceiling of our own calls per second: one gate that every call passes, except the Lease's."""

import asyncio
from typing import Protocol

from asyncio_throttle import Throttler

MOST_PER_S = 1000.0
"""No gate lets more pass: waiters are let in every 10 ms."""


class Gate(Protocol):
    """Where a call waits until it may be sent."""

    async def pass_through(self) -> None:
        """Returns when one call may be sent; cancelling the wait takes no one's turn."""


class OpenGate:
    """Never waits: for Lease traffic, which must not queue behind our own lists."""

    async def pass_through(self) -> None:
        """Returns at once."""


class CeilingGate:
    """At most `burst` calls in any `burst / calls_per_s` seconds, first come, first served.

    asyncio-throttle counts; what it does not do is done here. It takes any rate below 1 per period for 1
    per period, so the period is stretched instead. All its waiters poll every 10 ms and the luckiest wins,
    so only one at a time is let in to it. It has no pause, and a rate of 0 would poll for ever: pause is a
    state of the gate.
    """

    def __init__(self, calls_per_s: float, burst: int = 1) -> None:
        if not 0 < calls_per_s <= MOST_PER_S or burst < 1:
            raise ValueError(f"need 0 < calls_per_s <= {MOST_PER_S:g} and burst >= 1, got {calls_per_s}, {burst}")
        period_s = burst / calls_per_s
        poll_s = min(1.0, max(0.01, period_s / 20))
        self._throttler = Throttler(rate_limit=burst, period=period_s, retry_interval=poll_s)
        self._turn = asyncio.Lock()
        self._open = asyncio.Event()
        self._open.set()

    def pause(self) -> None:
        """Let nothing through until `resume`; calls already sent are not touched."""
        self._open.clear()

    def resume(self) -> None:
        """Let calls through again, at the same ceiling: those that waited do not burst."""
        self._open.set()

    async def pass_through(self) -> None:
        """Returns when the ceiling leaves room and the gate is not paused."""
        async with self._turn:
            await self._open.wait()
            await self._throttler.acquire()
