"""The machines behind the node groups, and the books about them: ordered by cluster-autoscaler, running, deleted.

Simulated: the cloud and its machines. Real: the Nodes, and the kubelets of hollow machines. A machine that fails
runs for the cloud and never registers; one beyond the stock stays in creation with the error class
OutOfResources. Deleting a machine also deletes its Node, which on a real cloud is done by the cloud controller.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Coroutine
from dataclasses import dataclass, replace
from enum import Enum

from lab.cloud import MachineOrder
from lab.cloud.fleet import Fleet
from lab.cloud.nodegroups.settings import NodeGroup, NodeGroupsSettings
from lab.errors import LabError


class InstanceState(Enum):
    """Where a machine stands for the cloud; a running one need not have joined Kubernetes."""

    CREATING = "creating"
    RUNNING = "running"
    DELETING = "deleting"
    OUT_OF_STOCK = "out of stock"


class RefusalError(LabError):
    """The cloud says no to a request, with a reason; nothing has changed."""


@dataclass(frozen=True)
class Instance:
    """One machine of the cloud, named like its Node."""

    name: str
    state: InstanceState


@dataclass(frozen=True, kw_only=True)
class Ledger:
    """The books of one group. The target size counts every instance that is not being deleted."""

    group: str
    min_size: int
    max_size: int
    stock: int | None = None
    ever_ordered: int = 0
    instances: tuple[Instance, ...] = ()

    @property
    def target_size(self) -> int:
        """How many machines the group is meant to have."""
        return len(self._staying)

    def increase(self, delta: int) -> Ledger:
        """Order `delta` more machines; those beyond the stock are recorded as such. RefusalError above `max_size`."""
        wanted = self.target_size + delta
        if delta <= 0 or wanted > self.max_size:
            raise RefusalError(
                f"{self.group} cannot grow by {delta} from {self.target_size}: its maximum is {self.max_size}"
            )
        ordered = replace(self, ever_ordered=self.ever_ordered + delta)
        numbers = range(self.ever_ordered + 1, ordered.ever_ordered + 1)
        new = tuple(
            Instance(f"{self.group}-{number}", self._state_of_order(position))
            for position, number in enumerate(numbers, start=1)
        )
        return replace(ordered, instances=self.instances + new)

    def decrease_target(self, delta: int) -> Ledger:
        """Take back `-delta` orders that are not fulfilled, the newest first. RefusalError if they are too few."""
        open_orders = [
            i.name for i in self.instances if i.state in (InstanceState.CREATING, InstanceState.OUT_OF_STOCK)
        ]
        if delta >= 0 or -delta > len(open_orders):
            raise RefusalError(f"{self.group} has {len(open_orders)} open orders: {delta} cannot be taken back")
        return self.gone(open_orders[delta:])

    def delete(self, names: Collection[str]) -> Ledger:
        """Start deleting machines. RefusalError if one is unknown or the group would fall below `min_size`."""
        present = {instance.name for instance in self._staying}
        if unknown := sorted(set(names) - present):
            raise RefusalError(f"{self.group} has no machine {', '.join(unknown)}")
        if self.target_size - len(set(names)) < self.min_size:
            raise RefusalError(f"{self.group} would fall below its minimum of {self.min_size}")
        empty_orders = {i.name for i in self._staying if i.state is InstanceState.OUT_OF_STOCK} & set(names)
        return self.gone(empty_orders)._with_state(names, InstanceState.DELETING)

    def running(self, name: str) -> Ledger:
        """Record that a machine has booted."""
        return self._with_state({name}, InstanceState.RUNNING)

    def gone(self, names: Collection[str]) -> Ledger:
        """Record that machines exist no more."""
        return replace(self, instances=tuple(i for i in self.instances if i.name not in names))

    @property
    def _staying(self) -> tuple[Instance, ...]:
        return tuple(i for i in self.instances if i.state is not InstanceState.DELETING)

    def _state_of_order(self, position: int) -> InstanceState:
        taken = sum(i.state is not InstanceState.OUT_OF_STOCK for i in self.instances)
        is_out = self.stock is not None and taken + position > self.stock
        return InstanceState.OUT_OF_STOCK if is_out else InstanceState.CREATING

    def _with_state(self, names: Collection[str], state: InstanceState) -> Ledger:
        changed = tuple(replace(i, state=state) if i.name in names else i for i in self.instances)
        return replace(self, instances=changed)


PROVIDER_PREFIX = "labgroups://"


class NodeGroupCloud:
    """The books of every group and a life for each machine; made by `start_node_groups`."""

    def __init__(self, settings: NodeGroupsSettings, fleet: Fleet) -> None:
        self.settings = settings
        self._groups = {group.name: group for group in settings.groups}
        self._ledgers = {group.name: _empty_ledger(group) for group in settings.groups}
        self.rounds = 0
        """How often an autoscaler has begun a round of looking (its Refresh)."""
        self._fleet = fleet
        self._endings: set[asyncio.Task[None]] = set()

    @property
    def groups(self) -> tuple[NodeGroup, ...]:
        """All groups."""
        return self.settings.groups

    @property
    def running(self) -> tuple[str, ...]:
        """The names of the machines that have joined and run."""
        return self._fleet.running

    def ledger(self, group: str) -> Ledger:
        """Return the books of one group; raises RefusalError if there is no such group."""
        if group not in self._ledgers:
            raise RefusalError(f"there is no node group {group!r}; there are {', '.join(self._ledgers)}")
        return self._ledgers[group]

    def group_of(self, provider_id: str) -> NodeGroup | None:
        """Return the group whose machine has this provider id, None for a stranger."""
        name = provider_id.removeprefix(PROVIDER_PREFIX)
        if not provider_id.startswith(PROVIDER_PREFIX):
            return None
        for ledger in self._ledgers.values():
            if any(instance.name == name for instance in ledger.instances):
                return self._groups[ledger.group]
        return None

    def start_minimum(self) -> None:
        """Order the `min_size` machines of each group."""
        for group in self.groups:
            if group.min_size:
                self.increase(group.name, group.min_size)

    def increase(self, group: str, delta: int) -> None:
        """Order machines; returns at once, they join after their boot time."""
        before = self.ledger(group)
        after = self._ledgers[group] = before.increase(delta)
        for instance in after.instances[len(before.instances) :]:
            if instance.state is InstanceState.CREATING:
                self._order(self._groups[group], instance.name)

    def decrease_target(self, group: str, delta: int) -> None:
        """Take back orders that are not fulfilled."""
        before = self.ledger(group)
        after = self._ledgers[group] = before.decrease_target(delta)
        left = {instance.name for instance in after.instances}
        for instance in before.instances:
            if instance.name not in left:
                self._spawn(self._fleet.end(instance.name))

    def delete(self, group: str, names: Collection[str]) -> None:
        """Start deleting machines and their Nodes; returns at once."""
        self._ledgers[group] = self.ledger(group).delete(names)
        for name in names:
            self._spawn(self._delete_one(group, name))

    async def kill(self, name: str) -> None:
        """Let a machine die: its kubelet falls silent, for the cloud it still runs."""
        await self._fleet.kill(name)

    async def close(self) -> None:
        """Switch every machine off; the Nodes stay as objects."""
        for task in self._endings:
            task.cancel()
        await asyncio.gather(*self._endings, return_exceptions=True)
        await self._fleet.close()

    def _order(self, group: NodeGroup, name: str) -> None:
        def mark_running() -> None:
            self._ledgers[group.name] = self._ledgers[group.name].running(name)

        self._fleet.order(_machine_order(group, name), group.sort, mark_running)

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._endings.add(task)
        task.add_done_callback(self._endings.discard)

    async def _delete_one(self, group: str, name: str) -> None:
        await self._fleet.end(name)
        await self._fleet.delete_node(name)
        self._ledgers[group] = self._ledgers[group].gone({name})


def _empty_ledger(group: NodeGroup) -> Ledger:
    return Ledger(group=group.name, min_size=group.min_size, max_size=group.max_size, stock=group.stock)


def _machine_order(group: NodeGroup, name: str) -> MachineOrder:
    return MachineOrder(
        name=name,
        provider_id=f"{PROVIDER_PREFIX}{name}",
        labels={"kubernetes.io/hostname": name, **group.node_labels},
        taints=group.taints,
        capacity=group.allocatable,
        allocatable=group.allocatable,
    )
