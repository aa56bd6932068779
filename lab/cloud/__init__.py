"""What the simulated clouds share: boot times, the machines they start, and a JSON client of the API server."""

from lab.cloud.boot_times import BootTime
from lab.cloud.machine import Machine, MachineKind, MachineOrder, MachineSort

__all__ = ["BootTime", "Machine", "MachineKind", "MachineOrder", "MachineSort"]
