"""What is wrong with an object the user wrote: where, and in which words."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

LONGEST_VALUE = 64
"""Characters of a user's value that a sentence repeats."""


@dataclass(frozen=True, slots=True)
class Problem:
    """`path` as the API server spells it (spec.schedules[0].cron); `sentence` names value and what is accepted."""

    path: str
    sentence: str

    def __str__(self) -> str:
        return f"{self.path}: {self.sentence}"


def shown(value: object) -> str:
    """A value as sentences repeat it: text in quotes, lists and mappings by their kind, long ones cut."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return f'"{_cut(value)}"'
        case dict():
            return "a mapping"
        case list() | tuple():
            return f"a list of {len(value)}"
    return _cut(str(value))


def not_one_of(value: str, accepted: Sequence[str], path: str) -> Iterator[Problem]:
    """The problem of a value that is none of those accepted."""
    if value not in accepted:
        name = path.rpartition(".")[2]
        yield Problem(path, f'{name} "{value}" is not accepted; accepted: {", ".join(accepted)}')


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}..."
