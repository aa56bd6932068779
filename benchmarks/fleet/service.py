"""The service's process as the kernel and its own metrics show it."""

import asyncio
import itertools
import json
import re
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from balloons.service.metrics import OPEN_METRICS
from benchmarks.fleet.figures import Sample
from lab.controlplane import ControlPlane
from lab.demo.service import service_log
from lab.processes import log_tail
from lab.processes.cpu_share import cpu_s

FORMATS = ("text/plain;version=0.0.4", OPEN_METRICS)
"""The service writes its metrics at most once a second in each of its two formats."""
PERIOD_S = 0.55
"""Asked for by turns this often, each page is a new one."""
PATIENCE_S = 300.0
COUNTED = ("warm", "idle", "busy")
"""The states of nodes that are Ready and can be used, of the metrics kube_balloons_pool_*_nodes."""


@dataclass
class RunningService:
    """One process, by its id; `started_at` is monotonic. Use as an async context manager."""

    plane: ControlPlane
    process: "subprocess.Popen[bytes]"
    started_at: float

    async def __aenter__(self) -> "RunningService":
        self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=10))
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._session.close()

    def cpu_s(self) -> float:
        """Processor time used so far."""
        return cpu_s(self.process.pid)

    def peak_mb(self) -> float:
        """The most memory that it has held (VmHWM)."""
        peak = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{self.process.pid}/status").read_text())
        assert peak is not None
        return int(peak[1]) / 1024

    async def until_ready(self) -> float:
        """Wait until its view is complete; returns how long after its start that was."""
        return await self._until(lambda page: "ok" in page, "/readyz") - self.started_at

    async def metric(self, name: str) -> float:
        """The sum of all series of a metric."""
        return total(await self._page("/metrics", FORMATS[0]), name)

    async def count(self, samples: list[Sample]) -> None:
        """Note the nodes that it counts as Ready, until cancelled; where there is no answer nothing is noted."""
        for kind in itertools.cycle(FORMATS):
            began_at = time.monotonic()
            if page := await self._page("/metrics", kind):
                counted = sum(total(page, _nodes(state)) for state in COUNTED)
                samples.append(Sample(time.monotonic(), int(counted)))
            await asyncio.sleep(max(0.0, began_at + PERIOD_S - time.monotonic()))

    async def in_words(self) -> str:
        """What it says of itself, for whoever waits for something else."""
        ready, page = await self._page("/readyz", FORMATS[0]), await self._page("/metrics", FORMATS[0])
        counts = ", ".join(f"{state} {total(page, _nodes(state)):.0f}" for state in ("", *COUNTED, "sick"))
        return f"ready: {ready.strip() or 'no answer'}; nodes: {counts}; its log ends:\n{self._log_tail()}"

    def _log_tail(self) -> str:
        return log_tail(service_log(self.plane))

    async def _until(self, is_reached: Callable[[str], bool], path: str) -> float:
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline and self.process.poll() is None:
            if is_reached(await self._page(path, FORMATS[0])):
                return time.monotonic()
            await asyncio.sleep(0.05)
        raise TimeoutError(f"{path} does not say what is waited for; its log ends:\n{self._log_tail()}")

    async def _page(self, path: str, kind: str) -> str:
        """Empty where there is no answer, or a bad one."""
        address = self._address()
        if not address:
            return ""
        try:
            async with self._session.get(f"http://{address}{path}", headers={"Accept": kind}) as answer:
                return await answer.text() if answer.status == 200 else ""
        except (aiohttp.ClientError, TimeoutError):
            return ""

    def _address(self) -> str:
        """By the last line about it in the log, which it shares with processes before it."""
        lines = [line for line in service_log(self.plane).read_text().splitlines() if line.startswith("{")]
        events = [json.loads(line) for line in lines if '"serving"' in line or '"starting"' in line]
        return str(events[-1]["address"]) if events and events[-1]["event"] == "serving" else ""


def _nodes(state: str) -> str:
    """The metric of a pool's nodes in this state, of all its nodes without one."""
    return "_".join(filter(None, ("kube_balloons_pool", state, "nodes")))


def total(page: str, name: str) -> float:
    """The sum of all series of a metric in a page."""
    lines = (line for line in page.splitlines() if line.startswith((f"{name}{{", f"{name} ")))
    return sum(float(line.rpartition(" ")[2]) for line in lines)
