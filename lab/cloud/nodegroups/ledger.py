"""What the simulated cloud keeps in its books for one node group: target size and instances. Values, no I/O."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from enum import Enum

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
