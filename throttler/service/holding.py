"""Why ceilings of ours may stay: a Lease that is renewed while decisions are made, and the way back on a stop."""

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from throttler.client.connection import Connection
from throttler.client.gate import CeilingGate
from throttler.client.kube_client import open_client
from throttler.service.give_back import give_back_all
from throttler.service.renewal import Renewal

DRAIN_S = 3.0
"""How long writes under way may take to finish on a stop."""
GIVE_BACK_S = 12.0
"""The longest that giving everything back may take on a stop: what is left is the guard's."""
GIVE_BACK_PER_S, GIVE_BACK_BURST = 50.0, 100
"""Calls of its own: thousands of nodes may be held, and nobody paces us then."""

Drain = Callable[[float], Awaitable[None]]
log = structlog.get_logger()


class Holding:
    """The Lease of this process. `renewal` is None in a dry run, which holds nothing."""

    def __init__(self, connection: Connection, renewal: Renewal | None) -> None:
        self._connection = connection
        self._renewal = renewal
        self._renewing: asyncio.Task[None] | None = None
        self._giving_up: asyncio.Task[None] | None = None
        self._has_held = False

    @property
    def lease(self) -> str:
        """`namespace/name`; empty where nothing is held."""
        return self._renewal.lease if self._renewal is not None else ""

    def follow(self, *, is_needed: bool) -> None:
        """Renew while a throttle exists, and not otherwise."""
        if self._renewal is None:
            return
        self._has_held |= is_needed
        if is_needed and self._renewing is None:
            self._renewing = asyncio.create_task(self._renewal.run(), name="renew lease")
        elif not is_needed and self._renewing is not None:
            self._renewing.cancel()
            self._renewing = None
            # A Lease that falls silent means that the service has died; the guard is to know better.
            self._giving_up = asyncio.create_task(self._renewal.give_up(), name="give up lease")

    async def stop(self, drain: Drain) -> None:
        """Let writes finish, give everything back, let the Lease go; under 25 s whatever the servers do."""
        await drain(DRAIN_S)
        if self._renewal is None or not self._has_held:
            return
        try:
            async with asyncio.timeout(GIVE_BACK_S):
                await self._give_back()
        except TimeoutError:
            log.warning("giving back took too long", limit_s=GIVE_BACK_S, rest="the guard's")
        if self._renewing is not None:
            self._renewing.cancel()
        await self._renewal.give_up()

    async def _give_back(self) -> None:
        gate = CeilingGate(GIVE_BACK_PER_S, burst=GIVE_BACK_BURST)
        async with open_client(self._connection, "give-back", gate=gate) as client:
            given = await give_back_all(client, lease=self.lease)
        log.info("gave everything back", objects=given.done, problems=list(given.problems))
