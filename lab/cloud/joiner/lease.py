"""The node's Lease: looked for at once, created once the Node exists, renewed every 10 s (component-helpers lease)."""

from __future__ import annotations

import asyncio
import random

from lab.cloud.joiner.identity import Identity, identity_of
from lab.cloud.joiner.node_api import Answer, NodeApi
from lab.cloud.joiner.node_objects import LEASE_DURATION_S, LEASES, NODES, lease
from lab.cloud.joiner.retry import growing_waits_s
from lab.cloud.joiner.wall_clock import micro_timestamp

RENEW_EVERY_S = LEASE_DURATION_S / 4
JITTER = 0.04
RENEW_TRIES = 5
FIRST_BACKOFF_S, LONGEST_BACKOFF_S = 0.2, 7.0


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
        for wait_s in growing_waits_s(FIRST_BACKOFF_S, 2.0, LONGEST_BACKOFF_S):
            if await self._look_or_create():
                return
            await asyncio.sleep(wait_s)

    async def _look_or_create(self) -> bool:
        """Return whether this round is over: the Lease is known, or there is no Node yet to own it."""
        found = await self._send("GET", self._path)
        if found.status != 404:
            return self._is_kept(found)
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
