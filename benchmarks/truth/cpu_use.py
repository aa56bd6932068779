"""How busy one process, and the whole machine, have been: from /proc, which costs the measured servers nothing."""

import os
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from benchmarks.truth.happened import Usual
from lab.processes.cpu_share import TICKS_PER_S, cpu_s

NANOSECONDS = 1e9


@dataclass(frozen=True, slots=True)
class Spent:
    """Seconds so far, at one moment."""

    at_s: float
    process_s: float
    """Of CPU, by the process."""
    wanted_s: float
    """The same and what its threads waited for a core: on a shared machine a saturated server gets less than it has."""
    machine_s: float
    """Of CPU, by everybody (idle and waiting for disks left out)."""


def spent(pid: int) -> Spent:
    """Until now. Threads that have ended are not counted as wanting; those of a Go server live on."""
    user, nice, system, _, _, *interrupts = map(int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:8])
    everybody = user + nice + system + sum(interrupts)
    return Spent(monotonic(), cpu_s(pid), _wanted_s(pid), everybody / TICKS_PER_S)


def _wanted_s(pid: int) -> float:
    """On a core, and runnable without one (the first two figures of schedstat), over all threads."""
    threads = [path.read_text().split() for path in Path(f"/proc/{pid}/task").glob("*/schedstat")]
    return sum(int(on_core) + int(waiting) for on_core, waiting, _ in threads) / NANOSECONDS


def server_share(before: Spent, after: Spent, cores: int) -> float:
    """CPU used, of the cores that the process may use."""
    return (after.process_s - before.process_s) / max(1e-3, after.at_s - before.at_s) / cores


def wanted_share(before: Spent, after: Spent, cores: int) -> float:
    """CPU used or waited for, of the same."""
    return (after.wanted_s - before.wanted_s) / max(1e-3, after.at_s - before.at_s) / cores


def machine_share(before: Spent, after: Spent) -> float:
    """Of all cores of the machine."""
    return (after.machine_s - before.machine_s) / max(1e-3, after.at_s - before.at_s) / (os.cpu_count() or 1)


def usual(before: Spent, after: Spent, calm: Spent, joins: int, cores: int) -> Usual:
    """What a server of so many cores does while nothing joins (from `after` to `calm`), and what each join cost it."""
    calm_s = calm.at_s - after.at_s
    idle_per_s = (calm.process_s - after.process_s) / calm_s
    machine_idle_per_s = (calm.machine_s - after.machine_s) / calm_s
    seconds = after.at_s - before.at_s
    joins_s = max(0.01, after.process_s - before.process_s - idle_per_s * seconds)
    everybody_s = after.machine_s - before.machine_s - machine_idle_per_s * seconds
    own = own_cores(joins_s, everybody_s, cores)
    return Usual(background=min(0.5, max(0.01, idle_per_s / own)), join_cpu_s=joins_s / joins, cores=own)


def own_cores(process_s: float, everybody_s: float, cores: int) -> float:
    """Cores that a process has of a shared machine, from what it and everybody (it included) spent on the same work.

    No join is done before everybody has done their part of it: a full machine does as many joins per second as all
    parts of one join go into it, and the process has its part of that, but no more cores than it may use. One core it
    has to itself: of two, the others use less than the other one.
    """
    if cores == 1:
        return 1.0
    return min(float(cores), (os.cpu_count() or 1) * process_s / max(1e-3, process_s, everybody_s))
