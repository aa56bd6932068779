"""What the parts of a joiner need of the API: requests that never raise, and watches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

JSON = "application/json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"

SHORTEST_WATCH_S, LONGEST_WATCH_S = 300, 600
"""client-go asks for a watch of 5 to 10 minutes, at random."""
HEARTBEAT_S = 10.0
"""The timeout of a kubelet's heartbeat client, which the server is told as well (`?timeout=10s`)."""
HEARTBEAT = {"timeout": "10s"}


@dataclass(frozen=True)
class Answer:
    """The last answer to a request; status 0 means that there was none. A kubelet lives with refusals."""

    status: int
    body: bytes = b""

    @property
    def is_ok(self) -> bool:
        """Whether the request did what it should."""
        return 200 <= self.status < 300


class NodeApi(Protocol):
    """One node's client. Retries on Retry-After are done below it."""

    async def send(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        kind: str = JSON,
        query: Mapping[str, str] | None = None,
        is_heartbeat: bool = False,
        is_read: bool = False,
    ) -> Answer:
        """Send a request.

        `is_heartbeat` uses the client without a rate limit and with a timeout of 10 s. Unless `is_read`, the
        answer's body is asked for in the cheap form that a kubelet uses (protobuf) and left empty.
        """

    async def watch(self, path: str, query: Mapping[str, str], on_line: Callable[[bytes], None]) -> int:
        """Hand each line of a watch to `on_line` until it ends; return the status it was answered with."""
