"""What two users have written, read from a growing audit log."""

import json
from collections.abc import Sequence
from pathlib import Path

from benchmarks.takeover.judge import Write, write_in


class AuditTail:
    """The users' writes so far, in the log's order; each reading goes on where the last one ended."""

    def __init__(self, log: Path, users: Sequence[str]) -> None:
        self._log = log
        self._users = tuple(users)
        # Most lines are about others: they are told apart before they are decoded.
        self._marks = tuple(b'"%b"' % user.encode() for user in users)
        self._at = 0
        self.writes: list[Write] = []

    def read(self) -> list[Write]:
        """All of them, the newest included; a line that is still being written waits for the next reading."""
        with self._log.open("rb") as file:
            file.seek(self._at)
            text = file.read()
        whole, _, _ = text.rpartition(b"\n")
        self._at += len(whole) + 1 if whole else 0
        lines = (line for line in whole.splitlines() if any(mark in line for mark in self._marks))
        writes = (write_in(json.loads(line), self._users) for line in lines)
        self.writes += [write for write in writes if write is not None]
        return self.writes
