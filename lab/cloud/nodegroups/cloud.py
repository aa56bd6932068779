"""The machines behind the node groups: ordered by cluster-autoscaler, booting, running, deleted.

Simulated: the cloud and its machines. Real: the Nodes, and the kubelets of hollow machines. A machine that fails
runs for the cloud and never registers; one beyond the stock stays in creation with the error class
OutOfResources. Deleting a machine also deletes its Node, which on a real cloud is done by the cloud controller.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Coroutine

from lab.cloud import MachineOrder
from lab.cloud.fleet import Fleet
from lab.cloud.nodegroups.ledger import InstanceState, Ledger, RefusalError
from lab.cloud.nodegroups.settings import NodeGroup, NodeGroupsSettings

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
