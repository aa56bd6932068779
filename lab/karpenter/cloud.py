"""The machines behind Karpenter's NodeClaims: ordered, booting, running, switched off.

Real: Karpenter itself, its NodeClaims, the Nodes. Simulated: the provider's machines. A launched NodeClaim is an
order; after its boot time the machine creates its own Node under the name that the provider chose, with the
NodeClaim's labels and taints and the taint `karpenter.sh/unregistered`, as a real kubelet does. Karpenter then
finds the Node, registers it and, once the kubelet reports Ready, initialises it. A machine that fails never
creates its Node. A machine ends when its NodeClaim is gone, so it still runs while Karpenter drains it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Any

from lab.clouds import Machine, MachineKind, MachineOrder, MachineSort
from lab.clouds.boot_time import Boot, BootDraws
from lab.clouds.json_api import JsonApi
from lab.errors import LabError
from lab.karpenter.claim import instance_type_name, is_launched, is_leaving, node_name, order_of
from lab.karpenter.instance_types import InstanceType
from lab.karpenter.objects import NODE_CLAIMS_PATH
from lab.karpenter.settings import KarpenterSettings

TRY_AGAIN_AFTER_S = 1.0


class KarpenterCloud:
    """Follows the NodeClaims and keeps one machine for each of them."""

    def __init__(self, api: JsonApi, kinds: Mapping[MachineSort, MachineKind], settings: KarpenterSettings) -> None:
        self._api = api
        self._kinds = kinds
        self._types = {kind.name: kind for kind in settings.instance_types}
        self._draws = BootDraws(settings.boot_time)
        self._room = asyncio.Semaphore(settings.capacity) if settings.capacity is not None else None
        self._lives: dict[str, asyncio.Task[None]] = {}
        self._machines: dict[str, Machine] = {}

    @property
    def ordered(self) -> int:
        """How many machines are ordered: booting, waiting for room, failed for good, or running."""
        return len(self._lives)

    @property
    def running(self) -> tuple[str, ...]:
        """The Node names of the machines that have joined and run."""
        return tuple(sorted(self._machines))

    async def kill(self, name: str) -> None:
        """Let the machine of Node `name` die: its kubelet falls silent, its Node and NodeClaim stay."""
        if name not in self._machines:
            raise LabError(f"no machine runs as {name!r}; there are {', '.join(self.running) or 'none'}")
        await self._machines.pop(name).end()

    async def run(self) -> None:
        """Follow the NodeClaims until cancelled, then switch every machine off."""
        try:
            async for name, claim in self._api.follow(NODE_CLAIMS_PATH):
                await self._heed(name, claim)
        finally:
            for name in tuple(self._lives):
                await self._end(name)

    async def _heed(self, name: str, claim: dict[str, Any] | None) -> None:
        # A machine whose Node exists is drained first, and its kubelet has to take part in that.
        if claim is None or (is_leaving(claim) and not self._has_joined(claim)):
            await self._end(name)
        elif is_launched(claim) and name not in self._lives:
            order = order_of(claim, self._type_of(claim))
            life = self._live(order, self._kinds[self._type_of(claim).sort], self._draws.draw())
            self._lives[name] = asyncio.create_task(life, name=f"machine {order.name}")

    def _has_joined(self, claim: Mapping[str, Any]) -> bool:
        return bool(claim.get("status", {}).get("providerID")) and node_name(claim) in self._machines

    def _type_of(self, claim: Mapping[str, Any]) -> InstanceType:
        return self._types[instance_type_name(claim)]

    async def _end(self, name: str) -> None:
        if (life := self._lives.pop(name, None)) is not None:
            life.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await life

    async def _live(self, order: MachineOrder, kind: MachineKind, boot: Boot) -> None:
        until_ended = asyncio.Event()
        async with self._a_place():
            await asyncio.sleep(boot.seconds)
            if boot.registers:
                self._machines[order.name] = await self._join(order, kind)
            try:
                await until_ended.wait()
            finally:
                if (machine := self._machines.pop(order.name, None)) is not None:
                    await machine.end()

    @contextlib.asynccontextmanager
    async def _a_place(self) -> AsyncIterator[None]:
        if self._room is None:
            yield
        else:
            async with self._room:
                yield

    async def _join(self, order: MachineOrder, kind: MachineKind) -> Machine:
        while True:
            try:
                await self._api.create("/api/v1/nodes", order.node())
                return await kind.join(order)
            except LabError:
                # An API server that a test has killed: a kubelet, too, tries until it gets through.
                await asyncio.sleep(TRY_AGAIN_AFTER_S)
