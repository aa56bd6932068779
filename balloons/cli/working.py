"""A line on the terminal while something takes longer than a moment; gone when it is done."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from threading import Event, Thread

AFTER_S = 1.5
EVERY_S = 1.0
MANY = 5_000
"""Nobody needs it sooner, more often, or of fewer nodes."""


@contextmanager
def working(what: str, nodes: int) -> Iterator[None]:
    """Say what takes so long and for how long it has; to a person only, and not of what is done in a moment anyway."""
    if nodes < MANY or not sys.stderr.isatty():
        yield
        return
    done = Event()
    thread = Thread(target=_tell, args=(what, done), daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _tell(what: str, done: Event) -> None:
    if done.wait(AFTER_S):
        return
    for passed in count():
        sys.stderr.write(f"\r{what} ({AFTER_S + passed * EVERY_S:.0f} s)")
        sys.stderr.flush()
        if done.wait(EVERY_S):
            break
    sys.stderr.write("\r\x1b[K")
    sys.stderr.flush()
