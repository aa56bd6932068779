"""Why ceilings of ours may stay: a Lease that is renewed while decisions are made, and the way back on a stop."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable

import structlog

from throttler.kube.caller import CeilingGate
from throttler.kube.connection import Connection
from throttler.kube.kube_client import open_client
from throttler.kube.lease import Elector
from throttler.kube.metadata import LimitedObject
from throttler.levers.lever import HOLDER_ANNOTATION, epoch_of
from throttler.service.restore_all import give_back_all

DRAIN_S = 1.0
"""How long writes under way may take to finish on a stop: a write takes milliseconds, and a successor waits."""
GIVE_BACK_S = 12.0
"""The longest that giving everything back may take on a stop: what is left is the guard's."""
GIVE_BACK_PER_S, GIVE_BACK_BURST = 50.0, 100
"""Calls of its own: thousands of nodes may be held, and nobody paces us then."""

Drain = Callable[[float], Awaitable[None]]
log = structlog.get_logger()


class InForce:
    """What is held in the name of the Lease. `elector` is None in a dry run, which holds nothing."""

    def __init__(self, connection: Connection, elector: Elector | None) -> None:
        self._connection = connection
        self._elector = elector
        self._has_held = False

    @property
    def lease(self) -> str:
        """`namespace/name`; empty where nothing is held."""
        return self._elector.lease if self._elector is not None else ""

    @property
    def epoch(self) -> int:
        """The leadership under which is held; 0 where nothing is."""
        return self._elector.epoch if self._elector is not None else 0

    def follow(self, *, is_needed: bool) -> None:
        """Told at each tick whether a throttle exists: only then may anything be held."""
        self._has_held |= is_needed

    def saw(self, things: Iterable[LimitedObject]) -> None:
        """Objects that levers move. Where one names our Lease and a higher epoch, the Lease was removed since; epochs
        never go down, so ours is raised above it with the next renewal."""
        notes = [thing.metadata.annotations for thing in things]
        seen = max((epoch_of(each) for each in notes if each.get(HOLDER_ANNOTATION) == self.lease), default=0)
        if self._elector is not None and seen > self._elector.epoch:
            self._elector.outgrow(seen)

    async def stop(self, drain: Drain) -> None:
        """Let writes finish and give everything back, while the Lease is still ours; under 15 s, whatever servers do.

        A replica that stands by holds nothing, and what a leader that lost its Lease held is its successor's.
        """
        await drain(DRAIN_S)
        if self._elector is None or not self._has_held or not self._elector.may_write():
            return
        try:
            async with asyncio.timeout(GIVE_BACK_S):
                await self._give_back(self._elector)
        except TimeoutError:
            log.warning("giving back took too long", limit_s=GIVE_BACK_S, rest="the guard's")

    async def _give_back(self, elector: Elector) -> None:
        async def may_go_on() -> bool:
            return elector.may_write()

        gate = CeilingGate(GIVE_BACK_PER_S, burst=GIVE_BACK_BURST)
        async with open_client(self._connection, "give-back", gate=gate, may_send=elector.may_write) as client:
            given = await give_back_all(client, lease=elector.lease, may_go_on=may_go_on)
        log.info("gave everything back", objects=given.done, problems=list(given.problems))
