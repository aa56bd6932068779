"""One `balloons run` as a process of its own, and a user of its own to the server."""

import asyncio
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web

from benchmarks.api_path import ApiPath
from lab.controlplane import ApiAccess, ControlPlane
from lab.controlplane.ports import free_port

LEASES = "/leases/"
PATIENCE_S = 180.0


class LeasePath(ApiPath):
    """`is_stalled` swallows Lease requests: they are accepted, and never answered."""

    def __init__(self, access: ApiAccess) -> None:
        super().__init__(access)
        self.is_stalled = False
        self.swallowed = 0

    async def admit(self, request: web.BaseRequest) -> None:
        """Everything else passes at once."""
        if self.is_stalled and LEASES in request.path:
            self.swallowed += 1
            await asyncio.Event().wait()


@dataclass
class Replica:
    """One replica, which may be ended and started again."""

    name: str
    """Of its user at the server, by which the audit log knows it."""
    plane: ControlPlane
    path: LeasePath
    log: Path
    namespace: str
    """Where its pool and its Lease are."""
    port: int = 0
    process: "subprocess.Popen[bytes] | None" = None

    def start(self) -> None:
        """Start it; it stands by until it leads."""
        self.port = free_port()
        kubeconfig = self.path.kubeconfig(self.plane.directory / "kubeconfigs" / f"path-{self.name}.yaml")
        command = [sys.executable, "-m", "balloons", "run", "--kubeconfig", str(kubeconfig), "--log-format", "json"]
        command += ["--namespace", self.namespace, "--lease-namespace", self.namespace]
        command += ["--metrics-address", f"127.0.0.1:{self.port}", "--max-calls-per-second", "100"]
        self.process = self.plane.processes.spawn(command, log=self.log)

    def send(self, number: signal.Signals) -> None:
        """Send a signal."""
        assert self.process is not None
        self.process.send_signal(number)

    async def wait(self) -> int:
        """Wait for its end; returns the exit code."""
        assert self.process is not None
        return await asyncio.to_thread(self.process.wait, PATIENCE_S)

    async def kill(self) -> None:
        """End it, frozen or not."""
        if self.process is not None and self.process.poll() is None:
            os.kill(self.process.pid, signal.SIGKILL)
            await self.wait()

    @property
    def is_stopped(self) -> bool:
        """Whether the kernel says that it is frozen."""
        assert self.process is not None
        return Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"

    async def leads(self) -> bool:
        """What its own metrics say."""
        page = await asyncio.to_thread(self._get, "/metrics")
        return "\nkube_balloons_leader 1.0" in page

    async def is_ready(self) -> bool:
        """What its readiness says."""
        return await asyncio.to_thread(self._get, "/readyz") == "ok\n"

    async def until_ready(self) -> None:
        """Wait until it could lead."""
        deadline = time.monotonic() + PATIENCE_S
        while not await self.is_ready():
            if time.monotonic() > deadline or (self.process is not None and self.process.poll() is not None):
                raise TimeoutError(f"{self.name} is not ready; its log ends: {self.log.read_text()[-2000:]}")
            await asyncio.sleep(0.1)

    def _get(self, path: str) -> str:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=2) as answer:
                text: str = answer.read().decode()
                return text
        except (urllib.error.URLError, OSError):
            return ""
