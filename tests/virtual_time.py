"""An event loop whose clock jumps to the next timer instead of waiting: minutes pass in microseconds.

Sockets work as well, but a timer never waits for them: use real time for tests that talk over a socket.
"""

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any, TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

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

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """A timer that finds the clock at its moment or later.

        asyncio runs timers up to a nanosecond too soon. Two tasks that each wait again for what is left of it would
        take turns for ever: the loop always has something to do, and its clock moves only when it has not.
        """

        def due() -> None:
            self._jumping.now = max(self._jumping.now, when)
            callback(*args)

        return super().call_at(when, due, context=context)


def run_virtual(coroutine: Coroutine[Any, Any, T]) -> T:
    """Runs to the end in virtual time: for hypothesis tests and other plain functions."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(coroutine)
