"""What the demo says while it runs, plain lines with the seconds since its start; and which promises did not hold."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field
from typing import Any

WIDTH = 96


class Narrator:
    """Prints acts, steps and findings; colour only on a terminal."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._is_terminal = sys.stdout.isatty()

    @property
    def elapsed_s(self) -> float:
        """Seconds since the demo began."""
        return time.monotonic() - self._started

    def act(self, title: str) -> None:
        """Begin a part of the story."""
        print(f"\n{self._bold(title)}\n{'-' * min(WIDTH, len(title))}", flush=True)

    def say(self, text: str) -> None:
        """One step."""
        print(f"{self.elapsed_s:5.0f} s  {text}", flush=True)

    def found(self, is_as_promised: bool, text: str) -> None:
        """One finding, and whether it is what the product promises."""
        print(f"{self.elapsed_s:5.0f} s  {'ok  ' if is_as_promised else 'FAIL'}  {text}", flush=True)

    def plain(self, text: str = "") -> None:
        """A line as it is."""
        print(text, flush=True)

    def _bold(self, text: str) -> str:
        return f"\033[1m{text}\033[0m" if self._is_terminal else text


@dataclass
class Findings:
    """What was seen; every promise that did not hold is in `broken`."""

    figures: dict[str, Any] = field(default_factory=dict)
    broken: list[str] = field(default_factory=list)

    def check(self, narrator: Narrator, is_as_promised: bool, text: str) -> None:
        """Say a finding, and remember it if it breaks a promise."""
        narrator.found(is_as_promised, text)
        if not is_as_promised:
            self.broken.append(text)
