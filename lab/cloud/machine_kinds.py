"""The kinds of machines of the clouds: a hollow kubelet, a joiner, or a node on paper."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping

from lab.cloud.kubelet_joiner import Herd, JoinerSettings, JoinRecord
from lab.cloud.machine import Machine, MachineKind, MachineOrder, MachineSort
from lab.cloud.machines import HollowNode, HollowNodes, HollowNodeSettings, PaperMachines, PaperNode
from lab.controlplane import ControlPlane

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


class _JoinerMachine:
    def __init__(self, herd: Herd, name: str) -> None:
        self._herd = herd
        self._name = name

    async def end(self) -> None:
        await self._herd.stop(self._name)


class JoinerKind:
    """All the requests of a kubelet and no kubelet: hundreds of them load the API servers as real ones would."""

    def __init__(self, herd: Herd) -> None:
        self._herd = herd
        self._joins: set[asyncio.Task[JoinRecord]] = set()

    async def join(self, order: MachineOrder) -> Machine:
        """Begin to join; the Node exists already and is taken over, as a hollow machine does."""
        sizes = dict(order.allocatable)
        cpu, memory = sizes.pop("cpu"), sizes.pop("memory")
        extended = {name: int(count) for name, count in sizes.items() if "/" in name}
        settings = JoinerSettings(
            name=order.name, cpu=cpu, memory=memory, extended_resources=extended, device_plugin=order.device_plugin
        )
        task = asyncio.create_task(self._herd.join(settings), name=f"join {order.name}")
        self._joins.add(task)
        task.add_done_callback(self._joins.discard)
        return _JoinerMachine(self._herd, order.name)


@contextlib.asynccontextmanager
async def machine_kinds(plane: ControlPlane) -> AsyncIterator[Mapping[MachineSort, MachineKind]]:
    """Make all kinds for `plane`; every machine ends when this is left. Joiners are dealt to all API servers."""
    access = plane.access("lab:paper-kubelets", ADMIN_GROUPS)
    servers = [plane.access("lab:joiners", ADMIN_GROUPS, server=number) for number in range(len(plane.server_urls))]
    async with PaperMachines(access) as paper, HollowNodes(plane) as hollow, Herd(*servers) as herd:
        yield {
            MachineSort.PAPER: PaperKind(paper),
            MachineSort.HOLLOW: HollowKind(hollow),
            MachineSort.JOINER: JoinerKind(herd),
        }
