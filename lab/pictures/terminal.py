"""A command's output on a terminal, colours and all, as a picture without fonts or addresses."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Sequence

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

from lab.errors import LabError

COLUMNS, ROWS = 100, 60
_AGE = re.compile(r"^from a dump,\s.*?\sago\)\n", re.MULTILINE | re.DOTALL)
"""It goes on in the next line where the terminal is narrow."""
FRAME = """<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace;
 font-size: {char_height}px; line-height: {line_height}px; }}
.{unique_id}-title {{ display: none; }}
{styles}
</style>
<defs>{lines}</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})">
{backgrounds}
<g class="{unique_id}-matrix" xml:space="preserve">
{matrix}
</g></g></svg>
"""


def picture(command: Sequence[str], shown: str, name: str, accepted: Sequence[int] = (0,)) -> str:
    """The SVG of `$ shown` and what the command printed; `name` keeps styles of several pictures apart.

    Raises LabError where the command ends with a code that is not accepted.
    """
    return drawn(
        on_screen([f"\x1b[1m$ {shown}\x1b[0m", *printed(command, accepted).splitlines()], COLUMNS), name, COLUMNS
    )


def on_screen(lines: Sequence[str], columns: int) -> list[Text]:
    """The terminal's rows: a line that is too long goes on in the next."""
    texts = map(Text.from_ansi, lines)
    return [part for text in texts for part in text.divide(range(columns, len(text), columns))]


def drawn(rows: Sequence[Text], name: str, columns: int) -> str:
    """The SVG of a terminal with these rows."""
    console = Console(record=True, width=columns, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    for row in rows:
        console.print(row, soft_wrap=True)
    return console.export_svg(title="", theme=MONOKAI, code_format=FRAME, unique_id=name)


def printed(command: Sequence[str], accepted: Sequence[int] = (0,), *, columns: int = COLUMNS, rows: int = ROWS) -> str:
    """What `balloons COMMAND` writes to a terminal of this size, but for the age of the dump it reads."""
    terminal, inside = pty.openpty()
    fcntl.ioctl(inside, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    environment = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "COLUMNS", "LINES")}
    environment |= {"TERM": "xterm-256color", "PYTHONUTF8": "1"}
    whole = [sys.executable, "-m", "balloons", *command]
    process = subprocess.Popen(whole, stdin=subprocess.DEVNULL, stdout=inside, stderr=inside, env=environment)
    os.close(inside)
    text = _all_of(terminal).replace("\r\n", "\n")
    if process.wait() not in accepted:
        raise LabError(f"balloons {' '.join(command)} ended with {process.returncode}: {text}")
    return _AGE.sub("", text)


def _all_of(terminal: int) -> str:
    screen = b""
    while True:
        try:
            part = os.read(terminal, 65536)
        except OSError:  # Linux: the other end has been closed
            part = b""
        if not part:
            os.close(terminal)
            return screen.decode()
        screen += part
