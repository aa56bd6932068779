"""The machines of one simulated cloud: ordered, booting, running, dead.

Simulated: the machine and the time it takes to boot. Real: everything from the moment when its Node is created.
An ordered machine waits until there is room, boots, creates its own Node as a real kubelet does, and runs until
it is ended. One whose fate is to fail takes its place and never creates a Node.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping

from lab.cloud.boot_times import Boot, BootDraws, BootTime
from lab.cloud.json_api import TRY_AGAIN_AFTER_S, JsonApi, until_served
from lab.cloud.kubelet_joiner.client import Turns
from lab.cloud.machine import Machine, MachineKind, MachineOrder, MachineSort
from lab.errors import LabError

NODES = "/api/v1/nodes"


class Fleet:
    """Keeps a life for each ordered machine.

    `room`: how many may exist at once, None for any number. `starts`: the cloud's own limit on machines that begin to
    boot, None for none.
    """

    def __init__(
        self,
        api: JsonApi,
        kinds: Mapping[MachineSort, MachineKind],
        boot_time: BootTime,
        room: int | None = None,
        starts: Turns | None = None,
    ) -> None:
        self._api = api
        self._kinds = kinds
        self._draws = BootDraws(boot_time)
        self._room = None if room is None else asyncio.Semaphore(room)
        self._starts = starts
        self._lives: dict[str, asyncio.Task[None]] = {}
        self._machines: dict[str, Machine] = {}

    @property
    def ordered(self) -> tuple[str, ...]:
        """The names of all machines: waiting for room, booting, failed for good, running or dead."""
        return tuple(sorted(self._lives))

    def __contains__(self, name: str) -> bool:
        """Whether a machine of this name is ordered."""
        return name in self._lives

    @property
    def running(self) -> tuple[str, ...]:
        """The names of the machines that have joined and run."""
        return tuple(sorted(self._machines))

    def order(self, order: MachineOrder, sort: MachineSort, on_booted: Callable[[], None] | None = None) -> None:
        """Order a machine; returns at once. `on_booted` is called when it runs, registering or not."""
        life = self._live(order, self._kinds[sort], self._draws.draw(), on_booted)
        task = self._lives[order.name] = asyncio.create_task(life, name=f"machine {order.name}")
        task.add_done_callback(_report_crash)

    async def end(self, name: str) -> None:
        """Switch a machine off, whatever it is doing; nothing happens if there is none."""
        if (life := self._lives.pop(name, None)) is not None:
            life.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await life

    async def kill(self, name: str) -> None:
        """Let a machine die: its kubelet falls silent at once, its Node stays, the cloud does not notice."""
        if name not in self._machines:
            raise LabError(f"no machine runs as {name!r}; there are {', '.join(self.running) or 'none'}")
        await self._machines.pop(name).end()

    async def delete_node(self, name: str) -> None:
        """Delete the machine's Node, as the controller of a real cloud does for a machine that is gone."""
        await until_served(lambda: self._api.delete(f"{NODES}/{name}"))

    async def close(self) -> None:
        """Switch every machine off; their Nodes stay as objects."""
        for name in self.ordered:
            await self.end(name)

    async def _live(
        self, order: MachineOrder, kind: MachineKind, boot: Boot, on_booted: Callable[[], None] | None
    ) -> None:
        async with self._a_place():
            await asyncio.sleep(self._until_start_s() + boot.seconds)
            if on_booted is not None:
                on_booted()
            if boot.registers:
                self._machines[order.name] = await self._join(order, kind)
            try:
                await asyncio.Event().wait()
            finally:
                if (machine := self._machines.pop(order.name, None)) is not None:
                    await machine.end()

    def _until_start_s(self) -> float:
        return 0.0 if self._starts is None else self._starts.take(asyncio.get_running_loop().time())

    @contextlib.asynccontextmanager
    async def _a_place(self) -> AsyncIterator[None]:
        if self._room is None:
            yield
        else:
            async with self._room:
                yield

    async def _join(self, order: MachineOrder, kind: MachineKind) -> Machine:
        while True:
            attempt = asyncio.create_task(self._register(order, kind))
            try:
                return await asyncio.shield(attempt)
            except asyncio.CancelledError:
                await self._take_back(order, attempt)
                raise
            except LabError:
                # An API server that a test has killed: a kubelet, too, tries until it gets through.
                await asyncio.sleep(TRY_AGAIN_AFTER_S)

    async def _register(self, order: MachineOrder, kind: MachineKind) -> Machine:
        await self._api.create(NODES, order.node())
        return await kind.join(order)

    async def _take_back(self, order: MachineOrder, attempt: asyncio.Task[Machine]) -> None:
        """It was switched off while it joined: what is under way cannot be stopped, and its Node would stay."""
        with contextlib.suppress(LabError):
            await (await attempt).end()
            await self._api.delete(f"{NODES}/{order.name}")


def _report_crash(life: asyncio.Task[None]) -> None:
    # A life ends by being cancelled; anything else is a fault of the lab. It is raised when the machine is ended,
    # which may be minutes later: say so at once.
    if not life.cancelled() and (error := life.exception()) is not None:
        life.get_loop().call_exception_handler({"message": f"{life.get_name()} crashed", "exception": error})
