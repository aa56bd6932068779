"""A group of child processes with one owner, this Python process; and the end of their logs, for error messages."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from lab.errors import LabError

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


def logged(log: Path) -> list[dict[str, Any]]:
    """The JSON objects in a log, one a line. Other lines are left out, and the last one while it is being written."""
    lines = log.read_text().splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("\n")]


WARDEN_SCRIPT = Path(__file__).with_name("warden.py")


class ProcessGroup:
    """Children that are killed together when the group is closed, and when this process dies in any way.

    A warden process (`warden.py`) leads the process group and waits for the end of a pipe that only this
    process holds. `remove_at_end` is a folder that the warden deletes after everything has ended.
    No part of a group is bound to a thread or to an event loop.
    """

    def __init__(self, remove_at_end: Path | None = None) -> None:
        command = [sys.executable, "-I", "-S", str(WARDEN_SCRIPT), str(os.getpid())]
        if remove_at_end is not None:
            command.append(str(remove_at_end))
        self._children: list[subprocess.Popen[bytes]] = []
        self._warden = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            process_group=0,
        )

    def spawn(
        self,
        command: Sequence[str],
        *,
        log: Path,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> subprocess.Popen[bytes]:
        """Start `command` in the group with output appended to `log`; raises LabError if it cannot start."""
        self._children = [child for child in self._children if child.poll() is None]
        try:
            with log.open("ab") as output:
                child = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env=env,
                    cwd=cwd,
                    process_group=self._warden.pid,
                )
        except OSError as error:
            raise LabError(f"{command[0]} cannot be started: {error}") from error
        self._children.append(child)
        return child

    def close(self) -> None:
        """Kill everything (SIGKILL: a graceful stop takes over 10 s), reap it, and wait for the clean-up."""
        if self._warden.stdin is not None:
            self._warden.stdin.close()
        self._warden.wait()
        for child in self._children:
            child.wait()
        self._children.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
