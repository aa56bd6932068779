"""A cluster and machines that exist in memory only, for tests of the simulated clouds."""

import asyncio
from typing import Any

from lab.cloud import BootTime, Machine, MachineOrder, MachineSort
from lab.cloud.fleet import Fleet
from lab.cloud.kubelet_joiner.client import Turns
from lab.errors import LabError


class FakeApi:
    """Remembers Nodes. While `is_down`, every request fails as it does when the server is killed."""

    def __init__(self) -> None:
        self.nodes: dict[str, dict[str, Any]] = {}
        self.is_down = False

    async def create(self, path: str, body: dict[str, Any]) -> dict[str, Any] | None:
        self._refuse_while_down()
        return self.nodes.setdefault(body["metadata"]["name"], body)

    async def delete(self, path: str) -> dict[str, Any] | None:
        self._refuse_while_down()
        return self.nodes.pop(path.rsplit("/", 1)[1], None)

    def _refuse_while_down(self) -> None:
        if self.is_down:
            raise LabError("connection refused")


class FakeMachine:
    def __init__(self, log: list[str], name: str) -> None:
        self._log = log
        self._name = name

    async def end(self) -> None:
        self._log.append(f"{self._name} ends")


class FakeKind:
    """Writes down what happens to its machines; `takes_s`: how long one takes to join."""

    def __init__(self, takes_s: float = 0.0) -> None:
        self.log: list[str] = []
        self._takes_s = takes_s

    async def join(self, order: MachineOrder) -> Machine:
        self.log.append(f"{order.name} joins")
        await asyncio.sleep(self._takes_s)
        return FakeMachine(self.log, order.name)


def fleet(
    api: FakeApi, kind: FakeKind, boot_time: BootTime, room: int | None = None, starts: Turns | None = None
) -> Fleet:
    """A fleet of fakes, whatever sort of machine is asked for."""
    return Fleet(api, dict.fromkeys(MachineSort, kind), boot_time, room, starts)  # type: ignore[arg-type]
