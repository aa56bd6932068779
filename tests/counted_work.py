"""Work of our own code, counted and not timed: how it grows is the same on every machine."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import balloons
import throttler

OURS = tuple(str(Path(package.__file__ or "").parent) for package in (balloons, throttler))


class Work:
    """Instructions of our own code that the interpreter has carried out."""

    def __init__(self) -> None:
        self.steps = 0

    def enter(self, frame: FrameType, event: str, _: Any) -> Any:
        if not frame.f_code.co_filename.startswith(OURS):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self._step

    def _step(self, frame: FrameType, event: str, _: Any) -> Any:
        self.steps += event == "opcode"
        return self._step


@contextmanager
def counting(found: dict[str, int], what: str) -> Iterator[None]:
    work, before = Work(), sys.gettrace()
    sys.settrace(work.enter)
    try:
        yield
    finally:
        sys.settrace(before)
    found[what] = work.steps
