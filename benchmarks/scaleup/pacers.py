"""Ways of letting machines in. A machine that has booted waits at `enter`; `leave` says that its join is over."""

import asyncio
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Protocol

from lab.cloud.kubelet_joiner import JoinRecord


class Pacer(Protocol):
    """Decides when each of the machines that all stand ready may join."""

    @property
    def name(self) -> str:
        """As the table calls it."""

    def at_work(self) -> AbstractAsyncContextManager[object]:
        """Entered before the first machine comes, left after the last one is in."""

    async def enter(self, name: str) -> None:
        """Returns when that machine may join."""

    def leave(self, record: JoinRecord) -> None:
        """Its join is over, well or not."""


class AtOnce:
    """What autoscalers do."""

    name = "at once"

    def at_work(self) -> AbstractAsyncContextManager[object]:
        """Nothing to prepare."""
        return nullcontext()

    async def enter(self, name: str) -> None:
        """At once."""

    def leave(self, record: JoinRecord) -> None:
        """Nothing to learn."""


class FixedWindow:
    """So many joins at a time, whatever happens."""

    def __init__(self, window: int) -> None:
        self.name = f"window {window}"
        self._places = asyncio.Semaphore(window)

    def at_work(self) -> AbstractAsyncContextManager[object]:
        """Nothing to prepare."""
        return nullcontext()

    async def enter(self, name: str) -> None:
        """When there is a place."""
        await self._places.acquire()

    def leave(self, record: JoinRecord) -> None:
        """A place is free."""
        self._places.release()


class FixedRate:
    """One join every so often, whatever happens."""

    def __init__(self, per_s: float) -> None:
        self.name = f"rate {per_s:g}/s"
        self._every_s = 1.0 / per_s
        self._next_s = 0.0

    def at_work(self) -> AbstractAsyncContextManager[object]:
        """Nothing to prepare."""
        return nullcontext()

    async def enter(self, name: str) -> None:
        """In turn."""
        clock = asyncio.get_running_loop().time
        self._next_s = max(self._next_s + self._every_s, clock())
        await asyncio.sleep(self._next_s - clock())

    def leave(self, record: JoinRecord) -> None:
        """Nothing to learn."""
