"""The service as a process of its own on the real control plane, as its own ServiceAccount, with simulated nodes."""

import asyncio
import http.client
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from lab.cloud.machines import PaperMachines, PaperNode
from lab.controlplane import ControlPlane
from lab.demo.service import bind_to_service, install_base
from lab.processes import logged

MANIFESTS = Path(__file__).resolve().parents[2] / "manifests"
ACCOUNT = "system:serviceaccount:kube-balloons:kube-balloons"
PATIENCE_S = 180.0
WRITES = ("create", "update", "patch", "delete", "deletecollection")


class Service:
    """One running `balloons run`; it serves only the namespace of its test."""

    def __init__(self, plane: ControlPlane, namespace: str, log: Path, *options: str) -> None:
        kubeconfig = plane.service_account_kubeconfig("kube-balloons", "kube-balloons")
        command = [sys.executable, "-m", "balloons", "run", "--kubeconfig", str(kubeconfig)]
        # Killed and started again at once, it would wait for its own dead Lease: leadership has tests of its own.
        command += ["--no-leader-election"]
        command += ["--namespace", namespace, "--metrics-address", "127.0.0.1:0", "--interval", "1", *options]
        self.log = log
        self.process = plane.processes.spawn(command, log=log)

    def lines(self, event: str) -> list[dict[str, Any]]:
        """What it logged about one event."""
        return [each for each in logged(self.log) if each["event"] == event]

    async def get(self, path: str) -> str:
        """A page of its HTTP server; raises HTTPError where the answer is no 200."""
        address = self.lines("serving")[-1]["address"]
        return await asyncio.to_thread(_read, f"http://{address}{path}")

    async def is_ready(self) -> bool:
        """What /readyz says; False while there is nothing to ask."""
        try:
            return bool(self.lines("serving")) and await self.get("/readyz") == "ok\n"
        except (OSError, http.client.HTTPException):
            return False

    async def metric(self, name: str, **labels: str) -> float:
        """One sample; 0 where there is none."""
        families = text_string_to_metric_families(await self.get("/metrics"))
        samples = [s for family in families for s in family.samples if s.name == f"kube_balloons_{name}"]
        return sum(s.value for s in samples if labels.items() <= s.labels.items())

    async def ticks(self, count: int) -> None:
        """Returns when it has decided this many times more."""
        until = await self.metric("ticks_total", outcome="decided") + count
        while await self.metric("ticks_total", outcome="decided") < until:
            await asyncio.sleep(0.1)

    async def end(self, how: signal.Signals = signal.SIGTERM) -> int:
        """Send the signal; returns the exit code."""
        self.process.send_signal(how)
        return await asyncio.to_thread(self.process.wait, PATIENCE_S)


class Scene:
    """A namespace with nodes of its own, and what can be asked about them."""

    def __init__(self, plane: ControlPlane, namespace: str, logs: Path, machines: PaperMachines) -> None:
        self.plane, self.namespace, self._logs, self.machines = plane, namespace, logs, machines
        self.services: list[Service] = []

    def service(self, *options: str) -> Service:
        """Start the service (again)."""
        log = self._logs / f"service-{len(self.services)}.log"
        self.services.append(Service(self.plane, self.namespace, log, *options))
        return self.services[-1]

    async def ready_service(self, *options: str) -> Service:
        """Start it and wait until it is ready."""
        service = self.service(*options)
        deadline = time.monotonic() + PATIENCE_S
        while not await service.is_ready():
            assert service.process.poll() is None, service.log.read_text()
            assert time.monotonic() < deadline, service.log.read_text()
            await asyncio.sleep(0.1)
        return service

    async def apply(self, *objects: dict[str, Any]) -> None:
        """Apply objects as the administrator."""
        await self.plane.apply_async(*objects, namespace=self.namespace)

    async def apply_pool(self, name: str = "gpu", **spec: Any) -> None:
        """A pool over this test's nodes."""
        nodes = {"selector": {"matchLabels": {"test": self.namespace}}}
        await self.apply(pool_object(self.namespace, name, **{"mode": "Hold", "nodes": nodes, **spec}))

    async def run_work(self, *names: str) -> None:
        """Real pods that need a whole node each."""
        await self.apply(*(work_object(self.namespace, name) for name in names))

    async def allow(self) -> None:
        """Bind the writer's role to the service in this namespace, as the manifests say."""
        await self.apply(bind_to_service("kube-balloons-writer", self.namespace))

    async def kubectl(self, *arguments: str) -> str:
        """Run kubectl in the namespace."""
        return await self.plane.kubectl_async(*arguments, f"--namespace={self.namespace}")

    async def objects(self, what: str) -> list[dict[str, Any]]:
        """All objects of a kind in the namespace."""
        found: list[dict[str, Any]] = (await self.plane.get_async(what, namespace=self.namespace))["items"]
        return found

    async def pool(self, name: str = "gpu") -> dict[str, Any]:
        """The status of a pool."""
        found = await self.plane.get_async("balloonpool", name, namespace=self.namespace)
        status: dict[str, Any] = found.get("status", {})
        return status

    async def replicas(self) -> int:
        """Balloons wanted by all Deployments here."""
        return sum(each["spec"]["replicas"] for each in await self.objects("deployments"))

    async def until(self, what: Callable[[dict[str, Any]], bool], name: str = "gpu") -> dict[str, Any]:
        """Wait for a state of a pool's status."""
        deadline = time.monotonic() + PATIENCE_S
        # A service that was killed before its first tick has written none.
        while not ((status := await self.pool(name)) and what(status)):
            if time.monotonic() >= deadline:
                sizes = [*await self.objects("deployments"), *await self.objects("replicasets")]
                stands = [(each["metadata"]["name"], each["spec"]["replicas"], each["status"]) for each in sizes]
                raise AssertionError(status, stands, [service.log.read_text()[-3000:] for service in self.services])
            await asyncio.sleep(0.2)
        return status

    async def until_still(self, service: Service) -> None:
        """Wait until no pod comes or goes and no Deployment changes for five decisions.

        A pool that is steady may still replace its balloons, and a ReplicaSet does so in its own time.
        """
        deadline = time.monotonic() + PATIENCE_S
        while True:
            before = await self._outline()
            await service.ticks(5)
            if await self._outline() == before:
                return
            assert time.monotonic() < deadline, before

    async def _outline(self) -> list[set[tuple[Any, ...]]]:
        pods, deployments = await self.objects("pods"), await self.objects("deployments")
        alive = {(pod["metadata"]["uid"], pod["spec"].get("nodeName"), pod["status"]["phase"]) for pod in pods}
        return [alive, {(each["metadata"]["uid"], each["metadata"]["generation"]) for each in deployments}]

    async def until_replicas(self, count: int) -> None:
        """Wait until all Deployments here together want so many balloons."""
        deadline = time.monotonic() + PATIENCE_S
        while (wanted := await self.replicas()) != count:
            assert time.monotonic() < deadline, wanted
            await asyncio.sleep(0.2)

    async def until_bound(self, *names: str) -> None:
        """Wait until these pods have nodes."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            pods = {p["metadata"]["name"]: p["spec"].get("nodeName") for p in await self.objects("pods")}
            if all(pods.get(name) for name in names):
                return
            assert time.monotonic() < deadline, pods
            await asyncio.sleep(0.2)

    def writes(self) -> list[dict[str, Any]]:
        """Audit events of what the service wrote in this namespace and on this test's nodes, in order.

        Nodes and throttles of a test have names that begin as its namespace does.
        """
        written = (event for event in self.plane.audit_events(ACCOUNT) if event["user"]["username"] == ACCOUNT)
        return [event for event in written if event["verb"] in WRITES and self._is_ours(event["objectRef"])]

    def _is_ours(self, about: dict[str, Any]) -> bool:
        if "namespace" in about:
            return bool(about["namespace"] == self.namespace)
        return str(about.get("name", "")).startswith(self.namespace)


def pool_object(namespace: str, name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "kube-balloons.github.io/v1alpha1",
        "kind": "BalloonPool",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }


def work_object(namespace: str, name: str, cpu: str = "6") -> dict[str, Any]:
    container = {"name": "work", "image": "none", "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": {"is": "work"}},
        "spec": {"nodeSelector": {"test": namespace}, "containers": [container]},
    }


@asynccontextmanager
async def scene(
    plane: ControlPlane, namespace: str, logs: Path, nodes: int, *, is_allowed: bool = True
) -> AsyncIterator[Scene]:
    """The manifests applied, simulated nodes made, rights given; in the end all services are killed."""
    # Each time: tests of the manifests that share the plane take parts of them away.
    await install_base(plane)
    names = [f"{namespace}-{i}" for i in range(nodes)]
    async with PaperMachines(plane.access()) as machines:
        found = Scene(plane, namespace, logs, machines)
        if is_allowed:
            await found.allow()
        allocatable = {"cpu": "8", "memory": "32Gi", "pods": "110"}
        await machines.add([PaperNode(name=n, labels={"test": namespace}, allocatable=allocatable) for n in names])
        try:
            yield found
        finally:
            for service in found.services:
                if service.process.poll() is None:
                    service.process.kill()
                    await asyncio.to_thread(service.process.wait)
            for name in names:
                await machines.remove(name)


async def run_balloons(plane: ControlPlane, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Another command of ours, as the administrator. In a thread: paper machines are alive by this event loop."""
    command = [sys.executable, "-m", "balloons", *arguments, "--kubeconfig", str(plane.kubeconfig())]
    return await asyncio.to_thread(
        subprocess.run, command, capture_output=True, text=True, check=False, timeout=PATIENCE_S
    )


def _read(url: str) -> str:
    with urllib.request.urlopen(url, timeout=60) as answer:
        text: str = answer.read().decode()
        return text
