"""`balloons status --wait`: until what was asked for is so, or the time is over."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from balloons.cli.awaited import Awaited, missing
from balloons.cli.cluster_options import warn
from balloons.cli.status_text import Seen

TELL_S = 10.0
"""What is missing is told when it changes, and not more often than this."""
MOST_TOLD = 5


class AwaitedStatus:
    """Looks until nothing is missing; `seen` and `lacks` are what was found last."""

    def __init__(self, wanted: Sequence[Awaited], names: Sequence[str]) -> None:
        self.seen = Seen()
        self.lacks: list[str] = []
        self._wanted, self._names = wanted, names
        self._told, self._told_at = "", -TELL_S

    async def until_so(self, first: Seen, changes: AsyncGenerator[Seen, None], timeout_s: float) -> bool:
        """Whether it came to be so in that time; 0 is one look. `changes` is closed."""
        self._look(first)
        try:
            async with asyncio.timeout(timeout_s), aclosing(changes):
                while self.lacks:
                    self._look(await anext(changes))
        except TimeoutError:
            warn(f"not so after {timeout_s:g} s: {told(self.lacks)}")
        return not self.lacks

    def _look(self, seen: Seen) -> None:
        self.seen, self.lacks = seen, missing(self._wanted, seen, self._names)
        text, now = told(self.lacks), asyncio.get_running_loop().time()
        if self.lacks and text != self._told and now - self._told_at >= TELL_S:
            warn(f"waiting: {text}")
            self._told, self._told_at = text, now


def told(lacks: Sequence[str]) -> str:
    """One line, however many objects there are."""
    more = f"; and {len(lacks) - MOST_TOLD:,} more" if len(lacks) > MOST_TOLD else ""
    return "; ".join(lacks[:MOST_TOLD]) + more
