"""How commands print: for a terminal or a pipe, as a table or for machines."""

import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace

import click

GLYPHS = {"True": "✓", "False": "✗", "Unknown": "?"}
COLOURS = {"✓ True": "\x1b[32m", "✗ False": "\x1b[31m", "? Unknown": "\x1b[33m"}


@dataclass(frozen=True, slots=True)
class Look:
    """How to print: `output` as the option says, `width` of the terminal (None: no limit)."""

    output: str = ""
    has_headers: bool = True
    width: int | None = None
    is_terminal: bool = False
    is_coloured: bool = False
    is_unicode: bool = True
    """Whether block letters and frames can be written; else there is an ASCII form of them."""

    @classmethod
    def of_terminal(cls, output: str, *, has_headers: bool) -> "Look":
        """What stdout is: a terminal gets colour, where nobody said otherwise, and only the columns that fit."""
        is_terminal = sys.stdout.isatty()
        width = shutil.get_terminal_size().columns if is_terminal else None
        context = click.get_current_context(silent=True)
        asked = context.color if context else colour_asked("auto", os.environ)
        is_coloured = is_terminal if asked is None else asked
        return cls(output, has_headers, width, is_terminal, is_coloured, _is_unicode(sys.stdout.encoding))

    def without_headers(self) -> "Look":
        """The same for further lines of a table that has begun."""
        return replace(self, has_headers=False)


def colour_asked(choice: str, environment: Mapping[str, str]) -> bool | None:
    """Whether colour is wanted: by --color, else by NO_COLOR, FORCE_COLOR, TERM; None where stdout is to decide."""
    if choice != "auto":
        return choice == "always"
    if environment.get("NO_COLOR"):
        return False
    if environment.get("FORCE_COLOR"):
        return True
    return False if environment.get("TERM") == "dumb" else None


def _is_unicode(encoding: str | None) -> bool:
    try:
        return bool("░┤✓".encode(encoding or "ascii"))
    except (UnicodeEncodeError, LookupError):
        return False
