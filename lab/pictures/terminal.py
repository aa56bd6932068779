"""A command's output on a terminal, colours and all, as a picture without fonts or addresses."""

from __future__ import annotations

import fcntl
import io
import os
import pty
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
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print(Text(f"$ {shown}", style="bold"))
    for line in printed(command, accepted).splitlines():
        text = Text.from_ansi(line)
        for part in text.divide(range(COLUMNS, len(text), COLUMNS)):  # where a terminal goes on in its next row
            console.print(part, soft_wrap=True)
    return console.export_svg(title="", theme=MONOKAI, code_format=FRAME, unique_id=name)


def printed(command: Sequence[str], accepted: Sequence[int]) -> str:
    """What `balloons COMMAND` writes to a terminal of COLUMNS and ROWS, but for the age of the dump it reads."""
    terminal, inside = pty.openpty()
    fcntl.ioctl(inside, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    environment = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "COLUMNS", "LINES")}
    environment |= {"TERM": "xterm-256color", "PYTHONUTF8": "1"}
    whole = [sys.executable, "-m", "balloons", *command]
    process = subprocess.Popen(whole, stdin=subprocess.DEVNULL, stdout=inside, stderr=inside, env=environment)
    os.close(inside)
    text = _all_of(terminal).replace("\r\n", "\n")
    if process.wait() not in accepted:
        raise LabError(f"balloons {' '.join(command)} ended with {process.returncode}: {text}")
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith("from a dump, "))


def _all_of(terminal: int) -> str:
    found = b""
    while True:
        try:
            part = os.read(terminal, 65536)
        except OSError:  # Linux: the other end has been closed
            part = b""
        if not part:
            os.close(terminal)
            return found.decode()
        found += part
