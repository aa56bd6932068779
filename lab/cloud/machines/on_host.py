"""Commands of this host that make and end real nodes."""

from __future__ import annotations

import subprocess

from lab.errors import LabError

PATIENCE_S = 120.0
"""Importing an image of 350 MB takes seconds; what takes longer than this hangs."""


def run(*command: str) -> subprocess.CompletedProcess[str]:
    """Run it, whatever comes of it."""
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_S)


def must_run(*command: str) -> str:
    """Run it and return what it prints; raises LabError with what it says if it fails."""
    answer = run(*command)
    if answer.returncode != 0:
        raise LabError(f"{' '.join(command)}: {answer.stderr.strip()}")
    return answer.stdout
