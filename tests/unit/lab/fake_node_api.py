"""An API server as one node sees it: answers what it is told to, remembers what was asked, feeds watches."""

import asyncio
import json
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

from lab.cloud.kubelet_joiner.client import JSON, Answer

Request = tuple[str, str]


class FakeNodeApi:
    """Every request succeeds unless `refuse` lists a status for it; the list is used up from the front."""

    def __init__(self) -> None:
        self.requests: list[tuple[float, str, str, Any]] = []
        self.watches: list[tuple[str, Mapping[str, str]]] = []
        self.refuse: dict[Request, list[int]] = defaultdict(list)
        self.takes_s = 0.0
        self._feeds: dict[str, list[Callable[[bytes], None]]] = defaultdict(list)
        self._ended: dict[str, asyncio.Event] = defaultdict(asyncio.Event)

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
        now = asyncio.get_running_loop().time()
        self.requests.append((now, method, path, json.loads(body) if body else None))
        await asyncio.sleep(self.takes_s)
        if self.refuse[(method, path)]:
            return Answer(self.refuse[(method, path)].pop(0))
        return Answer(200, b'{"metadata":{"uid":"uid-1","resourceVersion":"7"}}')

    async def watch(self, path: str, query: Mapping[str, str], on_line: Callable[[bytes], None]) -> int:
        self.watches.append((path, query))
        if self.refuse[("WATCH", path)]:
            return self.refuse[("WATCH", path)].pop(0)
        self._feeds[path].append(on_line)
        on_line(b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"5"}}}')
        await self._ended[path].wait()
        self._ended[path].clear()
        self._feeds[path].remove(on_line)
        return 200

    def feed(self, path: str, kind: str, **thing: Any) -> None:
        for on_line in self._feeds[path]:
            on_line(json.dumps({"type": kind, "object": thing}, separators=(",", ":")).encode())

    def end_watch(self, path: str) -> None:
        self._ended[path].set()

    def sent(self, method: str, part: str) -> list[Any]:
        """The bodies of the requests whose path contains `part`."""
        return [body for _, m, path, body in self.requests if m == method and part in path]

    def times(self, method: str, part: str) -> list[float]:
        return [at for at, m, path, _ in self.requests if m == method and part in path]
