"""Why something is done or not done: a closed list of reasons, each with its sentence. Pure."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from string import Formatter
from typing import Any

from throttler.kube.quantities_and_durations import plural


class Sentence(enum.Enum):
    """Reason name -> sentence template; the braces name the detail's keys. Subclasses list the reasons.

    `{nodes:node is|nodes are}` gives `1 node is` and `2 nodes are`; `{nodes:|it|them}` gives the word alone.
    What is no number is many: `some nodes are`.
    """

    @property
    def code(self) -> str:
        """The name in CamelCase, as Events and conditions carry it."""
        return "".join(part.capitalize() for part in self.name.split("_"))


class _Figures(Formatter):
    """Fills in figures, and the words that go with their number."""

    def format_field(self, value: Any, format_spec: str) -> str:
        """As `str.format`, but for a singular and a plural behind the colon."""
        if "|" not in format_spec:
            return str(super().format_field(value, format_spec))
        *is_word_alone, one, many = format_spec.split("|")
        is_counted = isinstance(value, int | float)
        word = plural(value, one, many) if is_counted else many
        number = f"{value:.0f}" if is_counted else value
        return word if is_word_alone else f"{number} {word}"


_FIGURES = _Figures()


@dataclass(frozen=True, slots=True)
class Because:
    """A reason with the figures of this case."""

    reason: Sentence
    detail: Mapping[str, object] = field(default_factory=dict)

    @property
    def code(self) -> str:
        """The reason's CamelCase name."""
        return self.reason.code

    @property
    def sentence(self) -> str:
        """The reason in words, with its figures filled in."""
        return _FIGURES.vformat(self.reason.value, (), self.detail)


def because(reason: Sentence, **detail: object) -> Because:
    """Shorthand that reads as a sentence: `because(Reason.STEADY, warm=3, target=3)`."""
    return Because(reason, detail)
