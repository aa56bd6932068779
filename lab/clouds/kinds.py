"""The two kinds of machines of the clouds: a hollow kubelet, or a node on paper."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping

from lab.clouds.machine import Machine, MachineKind, MachineOrder, MachineSort
from lab.controlplane import ControlPlane
from lab.machines import HollowNode, HollowNodes, HollowNodeSettings, PaperMachines, PaperNode

ADMIN_GROUPS = ("system:masters",)


class _HollowMachine:
    def __init__(self, node: HollowNode) -> None:
        self._node = node

    async def end(self) -> None:
        if self._node.is_running:
            await asyncio.to_thread(self._node.kill)


class HollowKind:
    """Real kubelets with a fake runtime. Of an order they heed the name and the extended resources only.

    The Node exists already and the kubelet takes it over, so labels, taints and provider id stay as ordered.
    """

    def __init__(self, nodes: HollowNodes) -> None:
        self._nodes = nodes

    async def join(self, order: MachineOrder) -> Machine:
        """Start the kubelet; it reports Ready about a second later."""
        extended = {name: int(count) for name, count in order.allocatable.items() if "/" in name}
        settings = HollowNodeSettings(name=order.name, extended_resources=extended)
        return _HollowMachine(await asyncio.to_thread(self._nodes.launch, settings))


class _PaperMachine:
    def __init__(self, machines: PaperMachines, name: str) -> None:
        self._machines = machines
        self._name = name

    async def end(self) -> None:
        self._machines.fall_silent(self._name)


class PaperKind:
    """Nodes of any size that are kept alive by one loop."""

    def __init__(self, machines: PaperMachines) -> None:
        self._machines = machines

    async def join(self, order: MachineOrder) -> Machine:
        """Report the Node Ready and run what is bound to it from now on."""
        labels, allocatable = dict(order.labels), dict(order.allocatable)
        node = PaperNode(name=order.name, labels=labels, capacity=dict(order.capacity), allocatable=allocatable)
        await self._machines.add([node])
        return _PaperMachine(self._machines, order.name)


@contextlib.asynccontextmanager
async def machine_kinds(plane: ControlPlane) -> AsyncIterator[Mapping[MachineSort, MachineKind]]:
    """Make both kinds for `plane`; every machine ends when this is left."""
    access = plane.access("lab:paper-kubelets", ADMIN_GROUPS)
    async with PaperMachines(access) as paper, HollowNodes(plane) as hollow:
        yield {MachineSort.PAPER: PaperKind(paper), MachineSort.HOLLOW: HollowKind(hollow)}
