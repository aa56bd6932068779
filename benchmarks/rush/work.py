"""Where the work of a rush goes: CPU seconds of each process, and requests by who sent them, per node."""

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from lab.demo.rush_scene import RushScene
from lab.processes.cpu_share import TICKS_PER_S, cpu_s

ROUNDS = "karpenter_scheduler_scheduling_duration_seconds_count"
ATTEMPTS = "scheduler_schedule_attempts_total"
WRITES = frozenset({"create", "update", "patch", "delete"})
_AGENTS = {
    "kube-scheduler": "scheduler",
    "kube-controller-manager": "controllers",
    "karpenter": "autoscaler",
    "kube-balloons": "ours",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Counts since the processes started; the difference of two is the work between."""

    cpu_s: Mapping[str, float]
    machine_busy_s: float
    """CPU seconds of the whole machine, whoever used them."""
    machine_s: float
    """CPU seconds that it had, used or not."""
    writes: Mapping[str, int]
    """Writing requests, refused ones included, by who sent them and on what."""
    reads: int
    attempts: float
    """Pods that the scheduler tried to place."""
    rounds: float
    """Scheduling rounds of Karpenter."""

    def since(self, before: "Work") -> "Work":
        """What was done in between."""
        return Work(
            cpu_s={name: self.cpu_s[name] - before.cpu_s.get(name, 0.0) for name in self.cpu_s},
            machine_busy_s=self.machine_busy_s - before.machine_busy_s,
            machine_s=self.machine_s - before.machine_s,
            writes=dict(Counter(self.writes) - Counter(before.writes)),
            reads=self.reads - before.reads,
            attempts=self.attempts - before.attempts,
            rounds=self.rounds - before.rounds,
        )

    @property
    def busy_share(self) -> float:
        """Share of the machine that was busy."""
        return self.machine_busy_s / self.machine_s if self.machine_s else 0.0


async def work_so_far(scene: RushScene) -> Work:
    """All counters at this moment; asks scheduler and Karpenter for their metrics, and nobody else."""
    pids = {name: scene.plane.pid(name) for name in scene.plane.component_names}
    pids |= {"karpenter": scene.karpenter.pid, "machines": os.getpid()}
    pids |= {"ours": scene.service_pid} if scene.service_pid else {}
    writes, reads = _requests(scene.plane.audit_events())
    busy, whole = _machine()
    return Work(
        cpu_s={name: cpu_s(pid) for name, pid in pids.items()},
        machine_busy_s=busy,
        machine_s=whole,
        writes=writes,
        reads=reads,
        attempts=await _counter(scene.plane.metrics_url("kube-scheduler"), ATTEMPTS),
        rounds=await _counter(scene.karpenter.metrics_url, ROUNDS),
    )


def _machine() -> tuple[float, float]:
    fields = [int(text) for text in Path("/proc/stat").read_text().partition("\n")[0].split()[1:9]]
    idle = fields[3] + fields[4]
    return (sum(fields) - idle) / TICKS_PER_S, sum(fields) / TICKS_PER_S


def _requests(events: Iterable[Mapping[str, Any]]) -> tuple[Mapping[str, int], int]:
    writes: Counter[str] = Counter()
    reads = 0
    for event in events:
        if event["verb"] not in WRITES:
            reads += event["verb"] in ("get", "list")
            continue
        reference = event.get("objectRef") or {}
        what = "/".join(filter(None, (reference.get("resource"), reference.get("subresource"))))
        writes[f"{_sender(event)} {event['verb']} {what}"] += 1
    return writes, reads


def _sender(event: Mapping[str, Any]) -> str:
    agent = str(event.get("userAgent", ""))
    return next((who for part, who in _AGENTS.items() if part in agent), "machines")


async def _counter(url: str, family: str) -> float:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=False)) as session, session.get(url) as answer:
        lines = (await answer.text()).splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith((family + "{", family + " ")))
