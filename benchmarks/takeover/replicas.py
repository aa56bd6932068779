"""Two `balloons run` as processes of their own, each a user of its own to the server, and work for the leader."""

import asyncio
import itertools
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.takeover.lease_path import LeasePath, open_lease_path
from lab.clouds.json_api import JsonApi
from lab.controlplane import ControlPlane
from lab.controlplane.ports import free_port
from lab.demo.service import install
from lab.machines import PaperMachines, PaperNode

NAMES = ("replica-a", "replica-b")
NAMESPACE, POOL = "kube-balloons", "gpu"
POOL_PATH = f"/apis/kube-balloons.github.io/v1alpha1/namespaces/{NAMESPACE}/balloonpools/{POOL}"
NODES = 3
TURN_S = 0.25
"""Between two changes of the pool's spec, each of which the leader answers with writes at once."""
PATIENCE_S = 90.0


@dataclass
class Replica:
    """One replica, which may be ended and started again."""

    name: str
    plane: ControlPlane
    path: LeasePath
    log: Path
    port: int = 0
    process: "subprocess.Popen[bytes] | None" = None

    def start(self) -> None:
        """Start it; it stands by until it leads."""
        self.port = free_port()
        kubeconfig = self.path.kubeconfig(self.plane.directory / "kubeconfigs" / f"path-{self.name}.yaml")
        command = [sys.executable, "-m", "balloons", "run", "--kubeconfig", str(kubeconfig), "--log-format", "json"]
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


@asynccontextmanager
async def open_replicas(plane: ControlPlane) -> AsyncIterator[tuple[Replica, Replica]]:
    """Both of them, ready, on a cluster where the leader always has something to write; killed in the end."""
    await install(plane)
    await _allow(plane)
    async with AsyncExitStack() as stack:
        machines = await stack.enter_async_context(PaperMachines(plane.access()))
        allocatable = {"cpu": "8", "memory": "32Gi", "pods": "110"}
        labels = {"pool": POOL}
        await machines.add([PaperNode(name=f"n{i}", labels=labels, allocatable=allocatable) for i in range(NODES)])
        api = await stack.enter_async_context(JsonApi(plane.access()))
        await plane.kubectl_async("apply", "-f", "-", input=json.dumps(_pool()))
        found = []
        for name in NAMES:
            path = await stack.enter_async_context(open_lease_path(plane.access(name)))
            found.append(Replica(name, plane, path, plane.directory / "logs" / f"{name}.log"))
        stack.push_async_callback(_kill, found)
        for replica in found:
            replica.start()
            await replica.until_ready()
        work = asyncio.create_task(_keep_busy(api), name="work for the leader")
        stack.callback(work.cancel)
        yield found[0], found[1]


async def _allow(plane: ControlPlane) -> None:
    """The rights of the service's own account, for each replica's user."""
    users = [f"--user={name}" for name in NAMES]
    for role in ("reader", "reporter"):
        bind = ("create", "clusterrolebinding", f"replicas-{role}", f"--clusterrole=kube-balloons-{role}", *users)
        await plane.kubectl_async(*bind)
    places = (
        (NAMESPACE, "--role=kube-balloons-lease"),
        (NAMESPACE, "--clusterrole=kube-balloons-writer"),
        ("default", "--role=kube-balloons-servers"),
        ("kube-system", "--role=kube-balloons-servers"),
    )
    for number, (namespace, role) in enumerate(places):
        bind = ("create", "rolebinding", f"replicas-{number}", role, f"--namespace={namespace}", *users)
        await plane.kubectl_async(*bind)


async def _keep_busy(api: JsonApi) -> None:
    for size in itertools.cycle((1, 2)):
        await api.merge(POOL_PATH, {"spec": {"size": size}})
        await asyncio.sleep(TURN_S)


async def _kill(replicas: list[Replica]) -> None:
    for replica in replicas:
        if replica.process is not None and replica.process.poll() is None:
            os.kill(replica.process.pid, signal.SIGKILL)
            await replica.wait()


def _pool() -> dict[str, object]:
    return {
        "apiVersion": "kube-balloons.github.io/v1alpha1",
        "kind": "BalloonPool",
        "metadata": {"name": POOL, "namespace": NAMESPACE},
        "spec": {"mode": "Hold", "size": 1, "nodes": {"selector": {"matchLabels": {"pool": POOL}}}},
    }
