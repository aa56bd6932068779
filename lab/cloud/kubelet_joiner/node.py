"""What a kubelet does for its Node: registers it, initialises its CSINode, keeps its Lease, reports its status."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Iterator, Mapping

from lab.cloud.kubelet_joiner.client import STRATEGIC_MERGE_PATCH, Answer, NodeApi, growing_waits_s
from lab.cloud.kubelet_joiner.object_bodies import (
    CSI_NODES,
    LEASES,
    NODES,
    alive,
    csi_node,
    lease,
    micro_timestamp,
    node,
    ready,
    taken_over,
    timestamp,
)
from lab.cloud.kubelet_joiner.object_decoding import Identity, identity_of
from lab.cloud.kubelet_joiner.settings import RENEW_EVERY_S, JoinerSettings

REGISTER_FIRST_WAIT_S, REGISTER_LONGEST_WAIT_S = 0.1, 7.0
"""registerWithAPIServer waits before each attempt, the first included."""


async def register(api: NodeApi, settings: JoinerSettings) -> None:
    """Create the Node, or take over the one that is there; tries for ever."""
    for wait_s in growing_waits_s(REGISTER_FIRST_WAIT_S, 2.0, REGISTER_LONGEST_WAIT_S):
        await asyncio.sleep(wait_s)
        if await _try_to_register(api, settings):
            return


async def _try_to_register(api: NodeApi, settings: JoinerSettings) -> bool:
    answer = await api.send("POST", NODES, node(settings, timestamp()))
    return answer.is_ok or (answer.status == 409 and await _take_over(api, settings))


async def _take_over(api: NodeApi, settings: JoinerSettings) -> bool:
    path = f"{NODES}/{settings.name}"
    if not (await api.send("GET", path)).is_ok:
        return False
    body = taken_over(settings, timestamp())
    return (await api.send("PATCH", f"{path}/status", body, kind=STRATEGIC_MERGE_PATCH)).is_ok


INNER_WAITS_S = (0.01, 0.05, 0.25)
"""Four attempts, 10 ms and then each wait five times the last."""
OUTER_WAITS_S = (0.015, 0.09, 0.54, 3.24, 19.44)
"""After each round of four. A real kubelet gives up and restarts after the last; a joiner goes on with it."""


async def initialise_csi_node(api: NodeApi, name: str) -> None:
    """Create the CSINode of a Node, which must exist first; tries until it is there."""
    await api.send("GET", f"{CSI_NODES}/{name}", query={"resourceVersion": "0"})
    for wait_s in _waits_s():
        if await _try_to_create(api, name):
            return
        await asyncio.sleep(wait_s)


async def _try_to_create(api: NodeApi, name: str) -> bool:
    node = await api.send("GET", f"{NODES}/{name}", is_read=True)
    if not node.is_ok:
        return False
    existing = await api.send("GET", f"{CSI_NODES}/{name}")
    if existing.status != 404:
        return existing.is_ok
    created = await api.send("POST", CSI_NODES, csi_node(name, identity_of(node.body).uid))
    return created.is_ok or created.status == 409


def _waits_s() -> Iterator[float]:
    for outer_s in itertools.chain(OUTER_WAITS_S, itertools.repeat(OUTER_WAITS_S[-1])):
        yield from INNER_WAITS_S
        yield outer_s


JITTER = 0.04
"""Of every interval of a kubelet: up to so much is added, at random."""

RENEW_TRIES = 5
LEASE_FIRST_BACKOFF_S, LEASE_LONGEST_BACKOFF_S = 0.2, 7.0


class LeaseKeeper:
    """Keeps the Lease of one node for as long as it runs."""

    def __init__(self, api: NodeApi, name: str) -> None:
        self._api = api
        self._name = name
        self._path = f"{LEASES}/{name}"
        self._latest: Identity | None = None
        self._owner_uid = ""

    async def run(self) -> None:
        """Renew until cancelled."""
        while True:
            if self._latest is None or not await self._renew():
                await self._ensure()
            await asyncio.sleep(RENEW_EVERY_S * (1.0 + JITTER * random.random()))

    async def _renew(self) -> bool:
        """Renew what is known of the Lease; False when it must be looked at again."""
        for _ in range(RENEW_TRIES):
            version = self._latest.resource_version if self._latest else None
            body = lease(self._name, self._owner_uid, micro_timestamp(), version)
            answer = await self._send("PUT", self._path, body)
            if answer.is_ok:
                self._latest = identity_of(answer.body)
                return True
            if answer.status == 409:
                await self._ensure()
        return False

    async def _ensure(self) -> None:
        for wait_s in growing_waits_s(LEASE_FIRST_BACKOFF_S, 2.0, LEASE_LONGEST_BACKOFF_S):
            if await self._look_or_create():
                return
            await asyncio.sleep(wait_s)

    async def _look_or_create(self) -> bool:
        """Return whether this round is over: the Lease is known, or there is no Node yet to own it."""
        answer = await self._send("GET", self._path)
        if answer.status != 404:
            return self._is_kept(answer)
        node = await self._send("GET", f"{NODES}/{self._name}")
        if not node.is_ok:
            return True
        self._owner_uid = identity_of(node.body).uid
        body = lease(self._name, self._owner_uid, micro_timestamp())
        return self._is_kept(await self._send("POST", LEASES, body))

    def _is_kept(self, answer: Answer) -> bool:
        if answer.is_ok:
            self._latest = identity_of(answer.body)
        return answer.is_ok

    async def _send(self, method: str, path: str, body: bytes | None = None) -> Answer:
        return await self._api.send(method, path, body, is_heartbeat=True, is_read=True)


LOOK_EVERY_S = 10.0
"""nodeStatusUpdateFrequency: how often a kubelet looks whether there is something to report."""
REPORT_EVERY_S = 300.0
"""nodeStatusReportFrequency: how often it reports although nothing changed."""
LIST_IMAGES_EVERY_S = 30.0
REPORT_TRIES = 5
READINESS_BEAT_S = 0.1
"""Until the node is Ready, a kubelet looks ten times a second whether it is (fastStatusUpdateOnce)."""


class StatusReporter:
    """Reports for one registered node. `images` and `devices` are what is there now, and are filled by others."""

    def __init__(self, api: NodeApi, name: str, images: set[str], devices: Mapping[str, int | str]) -> None:
        self._api = api
        self._path = f"{NODES}/{name}/status"
        self._images = images
        self._devices = devices
        self._reported_devices: Mapping[str, int | str] = dict(devices)
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
        listed, devices = self._listed, dict(self._devices)
        is_same = listed == self._reported and devices == self._reported_devices
        if self._says_ready and is_same and not is_due:
            return
        images = tuple(sorted(listed)) if listed != self._reported else ()
        new_devices = devices if devices != self._reported_devices else {}
        body = alive(timestamp(), images, new_devices) if self._says_ready else ready(timestamp())
        if await self._report(body):
            if self._says_ready:
                self._reported, self._reported_devices = listed, devices
            self._says_ready = True

    async def _report(self, body: bytes) -> bool:
        for _ in range(REPORT_TRIES):
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
