"""Real nodes: a kubelet, containerd and runc, each node in a network namespace of its own, on this host.

REAL: images, containers, their namespaces, cgroups and limits, seccomp, probes, logs, the pod's network and token.
SIMULATED: the machine. Its namespace has loopback, a bridge for its pods, a cable to every other node and the address
at which pods look for the API server, and leads nowhere else. Pods reach pods of other nodes by routes, without a
change of address, as a cloud's own network does it. Needs root, containerd, runc and the CNI plugins; a kubelet is
built when it is first asked for.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from lab.binaries import find_binary
from lab.cloud.machines import api_server_relay
from lab.cloud.machines.real_files import PLUGINS, NodeFiles, containerd_config, kubelet_config, network_config
from lab.controlplane import ApiAccess, ControlPlane
from lab.errors import LabError
from lab.processes import ProcessGroup, log_tail

PATIENCE_S = 120.0
"""Importing an image of 350 MB takes seconds; what takes longer than this hangs."""


def run(*command: str) -> subprocess.CompletedProcess[str]:
    """Run it, whatever comes of it."""
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_S)


def must_run(*command: str) -> str:
    """Run it and return what it prints; raises LabError with what it says if it fails."""
    answer = run(*command)
    if answer.returncode != 0:
        raise LabError(f"{' '.join(command)}: {answer.stderr.strip()}")
    return answer.stdout


def make_namespace(files: NodeFiles, *further: str) -> None:
    """A namespace in which the node's address, and further ones, are on loopback."""
    must_run("ip", "netns", "add", files.namespace)
    _run_inside(files, "link", "set", "lo", "up")
    for address in (files.address, *further):
        _run_inside(files, "address", "add", f"{address}/32", "dev", "lo")


def delete_namespace(files: NodeFiles) -> None:
    """It goes with every interface in it once no process is left inside."""
    run("ip", "netns", "delete", files.namespace)


def join(files: NodeFiles, others: Iterable[NodeFiles]) -> None:
    """A cable from a node to each of the others, and routes to their addresses and their pods, both ways."""
    for other in others:
        ends = ("name", _port(other), "type", "veth", "peer", "name", _port(files), "netns", other.namespace)
        _run_inside(files, "link", "add", *ends)
        _lead(files, other)
        _lead(other, files)


def _lead(files: NodeFiles, other: NodeFiles) -> None:
    port = ("dev", _port(other))
    _run_inside(files, "link", "set", *port, "up")
    # The source is named, because the first address on loopback need not be the node's own.
    _run_inside(files, "route", "add", f"{other.address}/32", *port, "src", files.address)
    _run_inside(files, "route", "add", other.pods, "via", other.address, *port, "onlink", "src", files.address)


def _port(other: NodeFiles) -> str:
    return f"to-{other.number}"


def _run_inside(files: NodeFiles, *arguments: str) -> None:
    must_run("ip", "-netns", files.namespace, *arguments)


API_ADDRESS, API_PORT = "10.0.0.1", 443
"""Of the Service `kubernetes`: the first of the range of services."""
NEEDED = ("containerd", "ctr", "runc", "ip", "nsenter")
READY_DEADLINE_S = 60.0


def why_not() -> str:
    """Why there can be no real node here; empty if there can."""
    if os.geteuid() != 0:
        return "containers and namespaces need root"
    missing = [name for name in NEEDED if shutil.which(name) is None]
    if missing or not (PLUGINS / "bridge").exists():
        return f"not installed: {', '.join(missing) or 'the CNI plugins'}"
    tried = subprocess.run(["unshare", "--net", "--mount", "true"], capture_output=True, check=False)
    return f"no namespace can be made: {tried.stderr.decode().strip()}" if tried.returncode else ""


class RealNodes:
    """The real nodes of a plane; an async context manager that leaves no process, mount or namespace behind."""

    def __init__(self, plane: ControlPlane, *archives: Path) -> None:
        self._plane = plane
        self._archives = archives
        self._kubelet = find_binary("kubelet")
        # Short: the path of a socket must stay below 108 bytes.
        self._folder = Path(tempfile.mkdtemp(prefix="kb-real-"))
        self._processes = ProcessGroup()
        self._nodes: list[NodeFiles] = []
        self._kubelets: list[subprocess.Popen[bytes]] = []
        self._way: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        server = urlsplit(self._plane.server_urls[0])
        assert server.hostname is not None
        assert server.port is not None
        self._way = await api_server_relay.serve_outside(self._folder / "api.sock", server.hostname, server.port)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for kubelet in self._kubelets:
            kubelet.kill()
            kubelet.wait()
        for files in self._nodes:
            await asyncio.to_thread(self._end_containers, files)
        self._processes.close()
        if self._way is not None:
            self._way.close()
        for files in self._nodes:
            delete_namespace(files)
        _unmount_below(self._folder)
        shutil.rmtree(self._folder, ignore_errors=True)

    async def start(self, name: str) -> None:
        """One more node, Ready when this returns; raises LabError with the end of the log that says why not."""
        number = len(self._nodes) + 1
        files = NodeFiles(name=name, number=number, folder=self._folder / str(number))
        self._write(files)
        self._nodes.append(files)
        make_namespace(files, API_ADDRESS)
        join(files, self._nodes[:-1])
        script = str(Path(api_server_relay.__file__))
        self._spawn(files, "way-in", sys.executable, script, API_ADDRESS, str(API_PORT), f"{self._folder}/api.sock")
        self._spawn(files, "containerd", "containerd", "--config", str(files.folder / "containerd.toml"))
        await self._until_it_answers(files)
        for archive in self._archives:
            await asyncio.to_thread(must_run, *_ctr(files), "images", "import", str(archive))
        self._kubelets.append(self._spawn(files, "kubelet", *self._kubelet_command(files)))
        await self._until_ready(files)

    def tag(self, name: str, other: str) -> None:
        """Give an image another name, on every node."""
        for files in self._nodes:
            must_run(*_ctr(files), "images", "tag", "--force", name, other)

    def spawn(self, name: str, what: str, *command: str) -> None:
        """Run a program in the network of a node, until the nodes end; its log is called after `what`."""
        self._spawn(self._files(name), what, *command)

    async def ask(self, name: str, *command: str) -> str:
        """What a command prints in the network of a node; raises LabError if it fails."""
        return await asyncio.to_thread(must_run, *_inside(self._files(name)), *command)

    def logs(self) -> str:
        """The end of every log, for the message of a test that failed."""
        logs = sorted(self._folder.glob("*/*.log")) + sorted(self._folder.glob("*/pod-logs/*/*/*.log"))
        return "\n".join(f"== {path.relative_to(self._folder)}\n{log_tail(path)}" for path in logs)

    def _files(self, name: str) -> NodeFiles:
        return next(files for files in self._nodes if files.name == name)

    def _write(self, files: NodeFiles) -> None:
        (files.folder / "cni").mkdir(parents=True)
        (files.folder / "containerd.toml").write_text(containerd_config(files))
        (files.folder / "cni" / "lab.conflist").write_text(network_config(files))
        (files.folder / "kubelet.yaml").write_text(kubelet_config(files))

    def _spawn(self, files: NodeFiles, what: str, *command: str) -> subprocess.Popen[bytes]:
        # Not `ip netns exec`, which hides the cgroups behind a fresh /sys.
        environment = {**os.environ, "TMPDIR": str(files.folder)}
        return self._processes.spawn([*_inside(files), *command], log=files.folder / f"{what}.log", env=environment)

    def _kubelet_command(self, files: NodeFiles) -> tuple[str, ...]:
        known = self._plane.access(f"system:node:{files.name}", ("system:nodes",))
        access = ApiAccess(f"https://{API_ADDRESS}:{API_PORT}", known.ca, known.client)
        return (
            str(self._kubelet),
            f"--kubeconfig={access.write_kubeconfig(files.folder / 'kubeconfig')}",
            f"--config={files.folder / 'kubelet.yaml'}",
            f"--root-dir={files.folder / 'kubelet'}",
            f"--cert-dir={files.folder / 'certificates'}",
            f"--hostname-override={files.name}",
            f"--node-ip={files.address}",
        )

    async def _until_it_answers(self, files: NodeFiles) -> None:
        async with self._deadline(files, "containerd"):
            while (await asyncio.to_thread(run, *_ctr(files), "version")).returncode:
                await asyncio.sleep(0.2)

    async def _until_ready(self, files: NodeFiles) -> None:
        what = ("wait", "--for=condition=Ready", f"node/{files.name}", "--timeout=1s")
        async with self._deadline(files, "kubelet"):
            while True:
                with contextlib.suppress(LabError):
                    await self._plane.kubectl_async(*what)
                    return
                await asyncio.sleep(0.5)

    @contextlib.asynccontextmanager
    async def _deadline(self, files: NodeFiles, what: str) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(READY_DEADLINE_S):
                yield
        except TimeoutError as error:
            tail = log_tail(files.folder / f"{what}.log", lines=40)
            raise LabError(f"{what} of {files.name} is not ready; its log ends:\n{tail}") from error

    def _end_containers(self, files: NodeFiles) -> None:
        """Their shims outlive containerd: each ends with its task."""
        for task in run(*_ctr(files), "tasks", "list", "--quiet").stdout.split():
            run(*_ctr(files), "tasks", "delete", "--force", task)


def _inside(files: NodeFiles) -> tuple[str, ...]:
    return ("nsenter", f"--net=/run/netns/{files.namespace}")


def _ctr(files: NodeFiles) -> tuple[str, ...]:
    return ("ctr", f"--address={files.socket}", "--namespace=k8s.io")


def _unmount_below(folder: Path) -> None:
    points = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    for point in sorted((point for point in points if point.startswith(f"{folder}/")), reverse=True):
        run("umount", "--lazy", point)
