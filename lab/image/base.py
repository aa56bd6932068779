"""A stand-in for a public base image, which no registry serves here: a small Debian with Python, from its packages."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from lab.errors import LabError

PROGRAM = "mmdebstrap"
SUITE = "bookworm"
PYTHON = "3.11.2"
"""As that suite has it; the lab and the lock have 3.11 too."""
RUNTIME_PACKAGES = ("python3", "libstdc++6", "ca-certificates")
"""numpy's wheels want the C++ library of the system, which every base that has apt has."""
BUILD_PACKAGES = (*RUNTIME_PACKAGES, "python3-venv")
BUILD_BASE, RUNTIME_BASE = "localhost/debian-python-venv:12", "localhost/debian-python:12"
_UNNEEDED = ("/usr/share/man/*", "/usr/share/doc/*", "/usr/share/info/*", "/usr/share/locale/*")


def why_not() -> str:
    """Why no base can be made here; empty if one can."""
    return "" if shutil.which(PROGRAM) else f"{PROGRAM} is not installed"


def make_rootfs(archive: Path, packages: tuple[str, ...]) -> None:
    """Pack a root file system with these packages; raises LabError with what the program says."""
    without = [f"--dpkgopt=path-exclude={path}" for path in _UNNEEDED]
    wanted = f"--include={','.join(packages)}"
    command = [PROGRAM, "--quiet", "--variant=essential", *without, wanted, SUITE, str(archive)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        raise LabError(f"{PROGRAM}: {answer.stderr[-4000:]}")
