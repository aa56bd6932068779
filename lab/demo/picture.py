"""Draw what the demo printed as a picture for the README: `python -m lab.demo.picture TRANSCRIPT SVG`.

The transcript is the demo's own output, caught with `make demo | tee TRANSCRIPT`; nothing is added, and only what
set-up printed before its first line (where this machine keeps its binaries) is left out.
The picture carries no font and no address: whoever opens it sees it in their own monospace font.
"""

from __future__ import annotations

import re
import sys
from itertools import dropwhile
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

WIDTH = 118
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
_FIRST = "kube-balloons:"
_TITLE = re.compile(rf"^[a-f]\. |^Summary$|^{_FIRST}")


def main(transcript: Path, picture: Path) -> None:
    """Write the picture of a transcript."""
    console = Console(record=True, width=WIDTH, file=sys.stderr, force_terminal=True, color_system="truecolor")
    console.print(Text("$ make demo", style="bold"))
    for line in dropwhile(lambda line: not line.startswith(_FIRST), transcript.read_text().rstrip().splitlines()):
        console.print(_styled(line), soft_wrap=True)
    svg = console.export_svg(title="", theme=MONOKAI, code_format=FRAME, unique_id="demo")
    picture.write_text(svg)


def _styled(line: str) -> Text:
    text = Text(line, style="bold cyan" if _TITLE.match(line) else "")
    text.highlight_regex(r"\bok\b", "bold green")
    text.highlight_regex(r"\bFAIL\b|NOT AS PROMISED", "bold red")
    return text


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
