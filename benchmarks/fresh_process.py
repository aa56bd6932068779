"""Memory is measured in processes of their own: what another measurement left behind must not count."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec

_REPOSITORY = Path(__file__).parents[1]
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def resident_bytes() -> int:
    """What this process holds in memory now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE_BYTES


def answer_of(module: str, *arguments: str, timeout_s: float = 300.0) -> Any:
    """Run `python -m module ...` and read the JSON it prints; raises CalledProcessError when it fails."""
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, cwd=_REPOSITORY, timeout=timeout_s)
    return msgspec.json.decode(done.stdout)
