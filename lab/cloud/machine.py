"""A machine of a simulated cloud, and what is asked of one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol


class MachineSort(Enum):
    """What runs behind a Node: a real kubelet with a fake runtime, a kubelet's requests alone, a few status writes."""

    HOLLOW = "hollow"
    JOINER = "joiner"
    PAPER = "paper"


@dataclass(frozen=True, kw_only=True)
class MachineOrder:
    """A machine that has booted and is about to join: the Node that its kubelet registers.

    `allocatable` is what its kubelet will report, in Kubernetes quantities; a hollow machine reports its own
    fixed size whatever is written here (see `hollow.py`) and takes only extended resources from it. With
    `device_plugin` a joiner has its extended resources only once that DaemonSet's pod runs there.
    """

    name: str
    provider_id: str
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Mapping[str, str], ...] = ()
    capacity: Mapping[str, str] = field(default_factory=dict)
    allocatable: Mapping[str, str] = field(default_factory=dict)
    device_plugin: str = ""

    def node(self) -> dict[str, Any]:
        """Return the Node as it is created at registration: not Ready yet."""
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": self.name, "labels": dict(self.labels)},
            "spec": {"providerID": self.provider_id, "taints": [dict(taint) for taint in self.taints]},
        }


class Machine(Protocol):
    """A machine that runs."""

    async def end(self) -> None:
        """Switch it off: its kubelet falls silent at once. Its Node stays until somebody deletes it."""


class MachineKind(Protocol):
    """Makes machines of one kind."""

    async def join(self, order: MachineOrder) -> Machine:
        """Start a machine for the Node that was just created; returns before it is Ready."""
