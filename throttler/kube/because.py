"""Why something is done or not done: a closed list of reasons, each a name and a sentence."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field


class Sentence(enum.Enum):
    """Reason name -> sentence template; the braces name the detail's keys. Subclasses list the reasons."""

    @property
    def code(self) -> str:
        """The name in CamelCase, as Events and conditions carry it."""
        return "".join(part.capitalize() for part in self.name.split("_"))


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
        return str(self.reason.value).format_map(dict(self.detail))


def because(reason: Sentence, **detail: object) -> Because:
    """Shorthand that reads as a sentence: `because(Reason.STEADY, warm=3, target=3)`."""
    return Because(reason, detail)
