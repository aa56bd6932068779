"""The end of a log file, for error messages."""

from __future__ import annotations

import os
from pathlib import Path

READ_BYTES = 64 * 1024


def log_tail(path: Path, lines: int = 20) -> str:
    """Return the last `lines` non-empty lines of at most the last 64 KiB; "" if there is no file."""
    try:
        with path.open("rb") as handle:
            size = handle.seek(0, os.SEEK_END)
            handle.seek(max(0, size - READ_BYTES))
            text = handle.read().decode(errors="replace")
    except OSError:
        return ""
    return "\n".join([line for line in text.splitlines() if line.strip()][-lines:])
