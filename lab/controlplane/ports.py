"""Choose free ports on loopback."""

from __future__ import annotations

import fcntl
import os
import random
import socket
import tempfile
from functools import cache
from pathlib import Path

from lab.errors import LabError

# Below the range from which Linux takes the ports of outgoing connections (32768 and up), so that none of the
# thousands of client connections of a benchmark can take a server's port between choosing and listening.
LOWEST, HIGHEST = 20_000, 32_000
ATTEMPTS = 500

_handed_out: set[int] = set()


def free_port() -> int:
    """Return a port on which nobody listens, and that is nobody else's while this process lives.

    Binding it proves that no forgotten server of an earlier run would answer in the new one's place. It is also kept
    from the lab's other processes: a server may begin to listen seconds later, or be down for a while.
    """
    for _ in range(ATTEMPTS):
        port = random.randrange(LOWEST, HIGHEST)
        if port not in _handed_out and _take(port) and _is_free(port):
            _handed_out.add(port)
            return port
    raise LabError(f"found no free port between {LOWEST} and {HIGHEST} on 127.0.0.1")


@cache
def _ledger() -> int:
    """A file of which every process locks the bytes of its ports; the kernel lets go of them when it ends."""
    path = Path(tempfile.gettempdir()) / f"kube-balloons-ports-{os.getuid()}"
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


def _take(port: int) -> bool:
    try:
        fcntl.lockf(_ledger(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except OSError:
        return False
    return True


def _is_free(port: int) -> bool:
    # Bound to all addresses without SO_REUSEADDR: also refused when somebody listens on 0.0.0.0 or [::].
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True
