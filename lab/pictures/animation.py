"""A moving picture of a terminal: commands are typed one after the other, and what each prints stands until it is read.

It is an SVG that moves by CSS alone: no script, no font, no address. Where pictures do not move, and for people who ask
for less motion, it shows the last scene.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from rich.terminal_theme import MONOKAI
from rich.text import Text

from lab.pictures.terminal import drawn, on_screen, printed

COLUMNS, ROWS = 80, 30
CHAR_WIDTH, LINE_HEIGHT = 12.2, 24.4
"""Of one character, in the units of the library that draws the rows."""
LEFT, TOP = 9.0, 42.5
"""Where the first row begins: the library leaves as much for the window's frame."""
PROMPT = "$ "
TYPED_PER_S = 60.0
ANSWER_S = 0.5
"""From the last key until the command prints."""
STYLE = """<style>
.scene {{ opacity: 0 }}
.scene:last-of-type {{ opacity: 1 }}
.cover {{ fill: {background}; opacity: 0 }}
.cursor {{ fill: {foreground}; opacity: 0 }}
@media (prefers-reduced-motion: no-preference) {{
{motion}
}}
</style>"""


@dataclass(frozen=True, kw_only=True)
class Scene:
    """A remark, the command as it is typed and as it is run, and for how many seconds its output stays."""

    remark: str
    typed: str
    arguments: tuple[str, ...]
    read_s: float

    @property
    def typing_s(self) -> float:
        """How long the command is typed."""
        return len(self.typed) / TYPED_PER_S

    @property
    def length_s(self) -> float:
        """From the first key to the next scene."""
        return self.typing_s + ANSWER_S + self.read_s

    def rows(self) -> list[Text]:
        """What is on the terminal at the scene's end. Raises LabError where the command fails."""
        output = printed(self.arguments, columns=COLUMNS, rows=ROWS).rstrip("\n").splitlines()
        return on_screen([f"\x1b[2m# {self.remark}\x1b[0m", f"\x1b[1m{PROMPT}{self.typed}\x1b[0m", *output], COLUMNS)


def animation(scenes: Sequence[Scene], name: str) -> str:
    """The SVG of the scenes, over and over; `name` keeps styles of several pictures apart.

    Raises LabError where a command fails.
    """
    screens = [scene.rows() for scene in scenes]
    tallest = max(map(len, screens))
    whole_s = sum(scene.length_s for scene in scenes)
    motion, parts, start_s = [], [], 0.0
    for number, (scene, screen) in enumerate(zip(scenes, screens, strict=True)):
        still = drawn([*screen, *[Text()] * (tallest - len(screen))], f"{name}-{number}", COLUMNS)
        motion.append(_motion(scene, f"{name}-{number}", start_s, whole_s))
        parts.append(f'<g class="scene" id="{name}-{number}">\n{still}{_covers(f"{name}-{number}", tallest)}\n</g>')
        start_s += scene.length_s
    view = re.findall(r'viewBox="[^"]*"', parts[0])[0]
    style = STYLE.format(
        background=MONOKAI.background_color.hex, foreground=MONOKAI.foreground_color.hex, motion="\n".join(motion)
    )
    return "\n".join([f'<svg {view} xmlns="http://www.w3.org/2000/svg">', style, *parts, "</svg>\n"])


def _covers(scene: str, rows: int) -> str:
    """What hides the part of the command that is not typed yet, with the cursor, and the output before its time."""
    x, y = LEFT + len(PROMPT) * CHAR_WIDTH, TOP + LINE_HEIGHT
    width, height = COLUMNS * CHAR_WIDTH, (rows - 2) * LINE_HEIGHT
    below = f'x="{LEFT:g}" y="{y + LINE_HEIGHT:g}" width="{width:g}" height="{height:g}"'
    return (
        f'<svg x="{x:g}" y="{y:g}" width="{width - 2 * CHAR_WIDTH:g}" height="{LINE_HEIGHT:g}"><g id="{scene}-typing">'
        f'<rect class="cover" width="{width:g}" height="{LINE_HEIGHT:g}"/>'
        f'<rect class="cursor" y="2" width="{CHAR_WIDTH:g}" height="{LINE_HEIGHT - 4:g}"/></g></svg>\n'
        f'<rect class="cover" id="{scene}-output" {below}/>'
    )


def _motion(scene: Scene, name: str, start_s: float, whole_s: float) -> str:
    """When the scene is seen, its command typed, and its output uncovered, in percent of the whole."""

    def at(after_s: float) -> str:
        return f"{100.0 * (start_s + after_s) / whole_s:.3f}%"

    def steps(what: str, *moments: tuple[str, str]) -> str:
        return f"@keyframes {name}-{what} {{ " + " ".join(f"{when} {{ {css} }}" for when, css in moments) + " }"

    shown, hidden = "opacity: 1", "opacity: 0"
    answered_s, width = scene.typing_s + ANSWER_S, len(scene.typed) * CHAR_WIDTH
    typing = (
        ("0%", "transform: none"),
        (at(0.0), f"transform: none; animation-timing-function: steps({len(scene.typed)}, end)"),
        (at(scene.typing_s), f"transform: translateX({width:g}px)"),
        ("100%", f"transform: translateX({width:g}px)"),
    )
    first = () if start_s == 0.0 else (("0%", hidden),)
    return "\n".join(
        [
            steps("seen", *first, (at(0.0), shown), (at(scene.length_s), hidden), ("100%", hidden)),
            steps("waits", ("0%", shown), (at(answered_s), hidden), ("100%", hidden)),
            steps("types", *typing),
            f"#{name} {{ animation: {name}-seen {whole_s:g}s step-end infinite }}",
            f"#{name}-typing {{ animation: {name}-types {whole_s:g}s step-end infinite }}",
            f"#{name}-typing rect, #{name}-output {{ animation: {name}-waits {whole_s:g}s step-end infinite }}",
        ]
    )
