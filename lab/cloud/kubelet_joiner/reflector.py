"""A kubelet's reflector: one watch with initial events (no separate LIST), kept open for as long as the node lives."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import msgspec

from lab.cloud.kubelet_joiner.client import LONGEST_WATCH_S, SHORTEST_WATCH_S, NodeApi, growing_waits_s

FIRST_BACKOFF_S, LONGEST_BACKOFF_S = 0.8, 30.0
"""client-go, tools/cache/reflector.go: doubling, each wait with up to as much again as jitter."""


class _Meta(msgspec.Struct, gc=False):
    resource_version: str = msgspec.field(name="resourceVersion", default="")


class _Object(msgspec.Struct, gc=False):
    metadata: _Meta


class _Event(msgspec.Struct, gc=False):
    type: str
    object: _Object


_decode = msgspec.json.Decoder(_Event).decode


class Reflector:
    """Follows one collection; `on_line` gets every line, bookmarks included. Only the last one is ever decoded here."""

    def __init__(
        self, api: NodeApi, path: str, field_selector: str | None = None, on_line: Callable[[bytes], None] | None = None
    ) -> None:
        self._api = api
        self._path = path
        self._field_selector = field_selector
        self._on_line = on_line
        self._last_line = b""
        self.is_answered = asyncio.Event()
        """Set once the server has sent something: its collection is known."""

    async def run(self) -> None:
        """Watch until cancelled; a refused or broken watch waits as client-go does, one that timed out does not."""
        waits_s = growing_waits_s(FIRST_BACKOFF_S, 2.0, LONGEST_BACKOFF_S)
        while True:
            status = await self._api.watch(self._path, self._query(), self._take)
            if status == 200:
                waits_s = growing_waits_s(FIRST_BACKOFF_S, 2.0, LONGEST_BACKOFF_S)
                continue
            await asyncio.sleep(next(waits_s) * (1.0 + random.random()))

    def _take(self, line: bytes) -> None:
        self._last_line = line
        self.is_answered.set()
        if self._on_line is not None:
            self._on_line(line)

    def _query(self) -> dict[str, str]:
        version = _version_in(self._last_line)
        place = (
            {"resourceVersion": version}
            if version
            else {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        )
        selector = {"fieldSelector": self._field_selector} if self._field_selector else {}
        seconds = random.randint(SHORTEST_WATCH_S, LONGEST_WATCH_S)
        return {"watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": str(seconds), **selector, **place}


def _version_in(line: bytes) -> str:
    """Return where to resume; nothing after an ERROR (the server's history ended) or when there was no event."""
    if not line:
        return ""
    event = _decode(line)
    return "" if event.type == "ERROR" else event.object.metadata.resource_version
