"""One scale-up from an empty cluster to the last usable node, and what it was like for everybody."""

import asyncio
import contextlib
import statistics
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from benchmarks.scaleup.fault import Fault, inject
from benchmarks.scaleup.pacers import Pacer
from lab.cloud.kubelet_joiner import Herd, JoinerSettings, JoinRecord, joiners
from lab.controlplane import ApiAccess, ControlPlane
from lab.percentile import percentile
from lab.scaleup.bystander import bystander
from lab.scaleup.cluster import DAEMON_SETS, DEFAULT_MANAGER_QPS, STRANGER, errors_answered
from lab.scaleup.innocent_client import Met


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What is the same for every way of pacing that is compared."""

    nodes: int = 400
    servers: int = 1
    manager_qps: float = 300.0
    fault: Fault = Fault.NONE

    @property
    def has_slow_manager(self) -> bool:
        """Whether the controller manager's own limit may be what binds."""
        return self.manager_qps == DEFAULT_MANAGER_QPS

    @property
    def text(self) -> str:
        """One line for the progress."""
        slow = ", controller manager at its default" if self.has_slow_manager else ""
        noise = "" if self.fault is Fault.NONE else f", {self.fault.value} half way"
        return f"{self.nodes} joins, {self.servers} server{'s' if self.servers > 1 else ''}{slow}{noise}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """Seconds count from the moment when all machines stood ready."""

    pacer: str
    nodes: int
    completed: int
    all_usable_s: float
    mean_usable_s: float
    first_ten_usable_s: float
    join_s: float
    """Median time of a join in flight."""
    bystander_p50_s: float
    bystander_p99_s: float
    """Until they were answered well, refusals and waits between included."""
    bystander_refusals: int
    bystander_failures: int
    """Never answered well."""
    errors: float
    """429 and 5xx that the API servers answered, whoever asked; of a frozen server what it says afterwards."""
    retries: int
    usable_s: tuple[float, ...]

    def usable_at(self, at_s: float) -> int:
        """How many nodes were usable by then."""
        return sum(1 for at_usable_s in self.usable_s if at_usable_s <= at_s)


class Machines(Protocol):
    """Whoever joins when told to: joiners, or real kubelets."""

    async def join(self, settings: JoinerSettings) -> JoinRecord:
        """Join one node; returns when it is usable, or given up."""


OpenMachines = Callable[[Sequence[ApiAccess]], AbstractAsyncContextManager[Machines]]


def joiner_machines(accesses: Sequence[ApiAccess]) -> AbstractAsyncContextManager[Machines]:
    """Joiners, dealt to the API servers in turn."""
    return Herd(*accesses)


async def run_trial(
    setup: Setup, pacer: Pacer, plane: ControlPlane, open_machines: OpenMachines = joiner_machines
) -> Trial:
    """Join all machines of the setup on a fresh control plane."""
    accesses = [plane.access(server=number) for number in range(setup.servers)]
    errors_before = await errors_answered(accesses)
    strangers = [plane.access(STRANGER, server=number) for number in range(setup.servers)]
    # Others count from the moment when the machines come: a pacer that first watches idle servers is no calmer for it.
    async with open_machines(accesses) as herd, pacer.at_work(), bystander(*strangers) as met:
        started_s = asyncio.get_running_loop().time()
        half = _HalfWay(setup.nodes // 2)
        trouble = asyncio.create_task(_inject_half_way(plane, setup.fault, half))
        machines = joiners(setup.nodes, daemon_pods=DAEMON_SETS)
        joins = [asyncio.create_task(_join(herd, machine, pacer, half)) for machine in machines]
        records = await asyncio.gather(*joins)
        trouble.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await trouble
        errors = await errors_answered(accesses) - errors_before
    return _trial(pacer.name, records, met, errors, started_s)


class _HalfWay:
    """Set when half of the nodes are usable."""

    def __init__(self, half: int) -> None:
        self._left = half
        self.reached = asyncio.Event()

    def one_more(self) -> None:
        self._left -= 1
        if self._left <= 0:
            self.reached.set()


async def _join(herd: Machines, machine: JoinerSettings, pacer: Pacer, half: _HalfWay) -> JoinRecord:
    await pacer.enter(machine.name)
    record = await herd.join(machine)
    pacer.leave(record)
    half.one_more()
    return record


async def _inject_half_way(plane: ControlPlane, fault: Fault, half: _HalfWay) -> None:
    await half.reached.wait()
    await inject(plane, fault)


def _trial(name: str, records: Sequence[JoinRecord], met: Met, errors: float, started_s: float) -> Trial:
    usable = sorted(record.ended_s - started_s for record in records if record.ended_s is not None)
    in_flight = [record.joining_s for record in records if record.joining_s is not None]
    latencies = met.latencies_s or [float("nan")]
    return Trial(
        pacer=name,
        nodes=len(records),
        completed=len(usable),
        all_usable_s=usable[-1] if len(usable) == len(records) else float("inf"),
        mean_usable_s=statistics.fmean(usable),
        first_ten_usable_s=usable[min(9, len(usable) - 1)],
        join_s=statistics.median(in_flight),
        bystander_p50_s=percentile(latencies, 0.5),
        bystander_p99_s=percentile(latencies, 0.99),
        bystander_refusals=met.refusals,
        bystander_failures=met.failures,
        errors=errors,
        retries=sum(record.retries for record in records),
        usable_s=tuple(round(time_s, 2) for time_s in usable),
    )
