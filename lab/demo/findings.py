"""What the demo finds, and which promises did not hold."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from lab.demo.narration import Narrator


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
