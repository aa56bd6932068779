"""Choose free ports on loopback."""

from __future__ import annotations

import random
import socket

from lab.errors import LabError

# Below the range from which Linux takes the ports of outgoing connections (32768 and up), so that none of the
# thousands of client connections of a benchmark can take a server's port between choosing and listening.
LOWEST, HIGHEST = 20_000, 32_000
ATTEMPTS = 500

_handed_out: set[int] = set()


def free_port() -> int:
    """Return a port on which nobody listens and that this process has not handed out before.

    Binding it proves that no forgotten server of an earlier run would answer in the new one's place.
    """
    for _ in range(ATTEMPTS):
        port = random.randrange(LOWEST, HIGHEST)
        if port not in _handed_out and _is_free(port):
            _handed_out.add(port)
            return port
    raise LabError(f"found no free port between {LOWEST} and {HIGHEST} on 127.0.0.1")


def _is_free(port: int) -> bool:
    # Bound to all addresses without SO_REUSEADDR: also refused when somebody listens on 0.0.0.0 or [::].
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True
