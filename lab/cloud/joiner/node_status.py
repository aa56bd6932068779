"""Reports of the node's status: at once, when it becomes Ready, when its images change, and every 5 min."""

from __future__ import annotations

import asyncio
import random

from lab.cloud.joiner.node_api import STRATEGIC_MERGE_PATCH, NodeApi
from lab.cloud.joiner.node_objects import NODES, alive, ready
from lab.cloud.joiner.wall_clock import timestamp

LOOK_EVERY_S, JITTER = 10.0, 0.04
"""nodeStatusUpdateFrequency: how often a kubelet looks whether there is something to report."""
REPORT_EVERY_S = 300.0
"""nodeStatusReportFrequency: how often it reports although nothing changed."""
LIST_IMAGES_EVERY_S = 30.0
TRIES = 5
READINESS_BEAT_S = 0.1
"""Until the node is Ready, a kubelet looks ten times a second whether it is (fastStatusUpdateOnce)."""


class StatusReporter:
    """Reports for one registered node. `images` is what runs there now, and is filled by others."""

    def __init__(self, api: NodeApi, name: str, images: set[str]) -> None:
        self._api = api
        self._path = f"{NODES}/{name}/status"
        self._images = images
        self._listed: frozenset[str] = frozenset()
        self._reported: frozenset[str] = frozenset()
        self._says_ready = False
        loop = asyncio.get_running_loop()
        self._now = loop.time
        self._started_at = loop.time()
        self._reported_at = loop.time()

    async def run(self, may_be_ready: asyncio.Event) -> None:
        """Report until cancelled; the node says Ready as soon as `may_be_ready` is set."""
        await self._report(b"{}")
        await may_be_ready.wait()
        await asyncio.sleep(self._until_beat_s())
        self._says_ready = await self._report(ready(timestamp()))
        while True:
            await asyncio.sleep(LOOK_EVERY_S * (1.0 + JITTER * random.random()))
            await self._look()

    async def _look(self) -> None:
        self._list_images()
        is_due = self._now() - self._reported_at >= REPORT_EVERY_S
        if self._says_ready and self._listed == self._reported and not is_due:
            return
        images = tuple(sorted(self._listed)) if self._listed != self._reported else ()
        body = alive(timestamp(), images) if self._says_ready else ready(timestamp())
        if await self._report(body):
            self._reported = self._listed if self._says_ready else self._reported
            self._says_ready = True

    async def _report(self, body: bytes) -> bool:
        for _ in range(TRIES):
            answer = await self._api.send("PATCH", self._path, body, kind=STRATEGIC_MERGE_PATCH, is_heartbeat=True)
            if answer.is_ok:
                self._reported_at = self._now()
                return True
        return False

    def _list_images(self) -> None:
        # The list that a kubelet reports is up to 30 s old: what it was at the last full half minute.
        if self._now() - self._started_at >= LIST_IMAGES_EVERY_S:
            self._listed = frozenset(self._images)
            self._started_at += LIST_IMAGES_EVERY_S

    def _until_beat_s(self) -> float:
        return READINESS_BEAT_S - (self._now() - self._started_at) % READINESS_BEAT_S
