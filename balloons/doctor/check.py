"""A check, and what it finds."""

import enum
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

from balloons.cluster.kinds import Kind
from balloons.cluster.reach import name_of, namespace_of
from balloons.doctor.facts import Facts


class Severity(enum.IntEnum):
    """How bad it is: an error defeats its purpose now, a warning will under load, information is worth knowing."""

    INFO = 0
    WARNING = 1
    ERROR = 2

    @property
    def word(self) -> Literal["info", "warning", "error"]:
        """In lower case, as options and tables have it."""
        match self:
            case Severity.INFO:
                return "info"
            case Severity.WARNING:
                return "warning"
        return "error"


@dataclass(frozen=True, slots=True)
class Trouble:
    """One object's trouble: which object, what is wrong in one sentence, and what puts it right.

    `fix` can be pasted into a shell: a command, or a comment where no command does it.
    """

    object: str
    sentence: str
    fix: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One check. `code` is never given to another; `about` says why it matters, for the documentation.

    `needs`: without these lists nothing can be said; a kind that is not served counts as an empty list.
    `is_live_only`: says that something is missing, which a folder of manifests may well be.
    """

    code: str
    title: str
    severity: Severity
    about: str
    needs: tuple[Kind, ...]
    find: Callable[[Facts], Iterable[Trouble]]
    is_live_only: bool = False

    @property
    def page(self) -> str:
        """Where it is explained."""
        return f"docs/doctor.md#{self.code.lower()}"


@dataclass(frozen=True, slots=True)
class Finding:
    """A check's trouble."""

    check: Check
    trouble: Trouble


def called(kind: Kind | str, thing: Any) -> str:
    """An object as kubectl takes it: `deployment/NAME -n NAMESPACE`."""
    word = kind if isinstance(kind, str) else kind.kind.lower()
    namespace = namespace_of(thing)
    return f"{word}/{name_of(thing)}{f' -n {namespace}' if namespace else ''}"


def count(number: int, noun: str) -> str:
    """`1 node`, `2 nodes`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def some(names: Iterable[str], most: int = 3) -> str:
    """`a, b, c and 4 more`."""
    found = sorted(names)
    rest = len(found) - most
    return ", ".join(found[:most]) + (f" and {rest} more" if rest > 0 else "")
