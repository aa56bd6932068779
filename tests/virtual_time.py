"""An event loop whose clock jumps to the next timer instead of waiting: minutes pass in microseconds.

Sockets work as well, but a timer never waits for them: use real time for tests that talk over a socket.
"""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

STUCK_AFTER_REAL_S = 10.0


class _JumpingSelector(selectors.DefaultSelector):  # type: ignore[misc,valid-type]
    """Where the loop would sleep, moves `now` on instead."""

    now = 1_000.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0 if timeout is not None else STUCK_AFTER_REAL_S)
        if not ready and timeout is None:
            raise RuntimeError("virtual time stands still: everything waits and no timer is set")
        if not ready and timeout:
            self.now += timeout
        return ready


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """`loop.time()` starts at 1000 and moves only when every task waits."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now


def run_virtual(coroutine: Coroutine[Any, Any, T]) -> T:
    """Runs to the end in virtual time: for hypothesis tests and other plain functions."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(coroutine)
