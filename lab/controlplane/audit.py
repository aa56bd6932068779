"""The audit log: what is recorded, and how it is read back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

POLICY = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  # The options of a deletion (preconditions, grace) are in its body.
  - level: Request
    verbs: [delete, deletecollection]
  - level: Metadata
"""
"""Every request is recorded once it is answered (a watch also when it starts), deletions with their body."""


def read_audit_log(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the events of one API server's audit log; a line that is still being written is left out.

    Each event has a user name: the empty one where a server ended before it knew whose request it was.
    """
    if not path.exists():
        return
    with path.open() as lines:
        for line in lines:
            if line.endswith("\n"):
                event = json.loads(line)
                event.setdefault("user", {}).setdefault("username", "")
                yield event
