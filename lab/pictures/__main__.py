"""`python -m lab.pictures`: draws docs/pictures anew from the example cluster, which it writes first, and puts what
commands print about it into the pages that show it."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from textwrap import wrap

import click

from lab.errors import LabError
from lab.pictures.animation import Scene, animation
from lab.pictures.architecture import architecture
from lab.pictures.example import write
from lab.pictures.terminal import picture

ROOT = Path(__file__).resolve().parents[2]
PICTURES = ROOT / "docs" / "pictures"
EXAMPLE = ROOT / "docs" / "example" / "cluster.tar.gz"
PAGES = (ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md")))
TRANSCRIPT = re.compile(r"^```\n\$ balloons ([^\n]*cluster\.tar\.gz[^\n]*)\n.*?^```$", re.MULTILINE | re.DOTALL)
"""A block of a page that begins with a command on the example: the rest is what it prints."""
PAGE_COLUMNS = 80
"""Of a block of text on the site's pages."""
ASKED = ("--to", "900")
COMMANDS = {
    "plan": ("plan", *ASKED),
    "status": ("status",),
    "doctor": ("doctor",),
    "explain": ("explain", "pool/gpu"),
}
"""In the terminal."""
CHARTS = {
    "report": (*ASKED, "--from", str(EXAMPLE)),
    "paced-and-unpaced": (*ASKED, "--from", str(EXAMPLE), "--chart", "compared"),
}
"""Options of `report`."""
MOVING = {
    "first-minute": (
        ("What makes autoscaling fail without a word?", ("doctor",), 4.5),
        ("A batch of jobs came. What did the warm nodes do?", ("explain", "pool", "gpu"), 4.5),
        ("And 836 more nodes: what do they do to the API servers?", ("plan", *ASKED), 6.0),
    ),
}
"""Remark, command, and the seconds to read what it prints."""
ARCHITECTURE = "architecture"
"""Of no command."""


@click.command()
def main() -> None:
    """Draw every picture."""
    EXAMPLE.parent.mkdir(exist_ok=True)
    write(EXAMPLE)
    for name in (ARCHITECTURE, *COMMANDS, *CHARTS, *MOVING):
        file = PICTURES / f"{name}.svg"
        file.write_bytes(drawn(name))
        click.echo(f"{file.name}: {file.stat().st_size:,} bytes", err=True)
    for page in PAGES:
        if (text := with_outputs(before := page.read_text(encoding="utf-8"))) != before:
            page.write_text(text, encoding="utf-8")
            click.echo(f"{page.relative_to(ROOT)}: what commands print now", err=True)


def with_outputs(text: str) -> str:
    """The page with what its commands on the example print now."""
    return TRANSCRIPT.sub(lambda shown: f"```\n$ balloons {shown[1]}\n{_output(shown[1])}```", text)


def _output(command: str) -> str:
    plain = {key: value for key, value in os.environ.items() if key != "FORCE_COLOR"} | {"PYTHONPATH": str(ROOT)}
    whole = [sys.executable, "-m", "balloons", *shlex.split(command)]
    done = subprocess.run(whole, cwd=ROOT, env=plain, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode not in (0, 3):
        raise LabError(f"balloons {command} ended with {done.returncode}: {done.stderr}")
    return "".join(f"{line}\n" for line in map(_wrapped, done.stdout.splitlines()))


def _wrapped(line: str) -> str:
    """As a terminal shows it: a page hides the end of a long sentence. Tables, whose cells stand apart, stay whole."""
    if len(line) <= PAGE_COLUMNS or "  " in line.strip():
        return line
    return "\n".join(wrap(line, PAGE_COLUMNS, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False))


def drawn(name: str) -> bytes:
    """What docs/pictures/NAME.svg is to be: the commands as they print now."""
    if name == ARCHITECTURE:
        return architecture().encode()
    if name in COMMANDS:
        return picture(_run(COMMANDS[name]), _typed(COMMANDS[name]), name).encode()
    if name in MOVING:
        scenes = [
            Scene(remark=remark, typed=_typed(command), arguments=_run(command), read_s=read_s)
            for remark, command, read_s in MOVING[name]
        ]
        return animation(scenes, name).encode()
    with tempfile.TemporaryDirectory(prefix="kube-balloons-chart-") as folder:
        file = Path(folder, f"{name}.svg")
        _balloons("report", *CHARTS[name], "-o", str(file))
        return file.read_bytes()


def _run(command: tuple[str, ...]) -> tuple[str, ...]:
    return (*command, "--from", str(EXAMPLE))


def _typed(command: tuple[str, ...]) -> str:
    return " ".join(("balloons", *command, "--from", EXAMPLE.name))


def _balloons(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "balloons", *arguments], check=True, timeout=120)


if __name__ == "__main__":
    main()
