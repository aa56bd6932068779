"""How commands print: for a terminal or a pipe, as a table or for machines."""

import os
import shutil
import sys
from dataclasses import dataclass, replace

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
        """What stdout is: a terminal gets colour (unless NO_COLOR, or a dumb one) and only the columns that fit."""
        is_terminal = sys.stdout.isatty()
        width = shutil.get_terminal_size().columns if is_terminal else None
        is_coloured = is_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        return cls(output, has_headers, width, is_terminal, is_coloured, _is_unicode(sys.stdout.encoding))

    def without_headers(self) -> "Look":
        """The same for further lines of a table that has begun."""
        return replace(self, has_headers=False)


def _is_unicode(encoding: str | None) -> bool:
    try:
        return bool("░┤✓".encode(encoding or "ascii"))
    except (UnicodeEncodeError, LookupError):
        return False
