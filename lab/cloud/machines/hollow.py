"""Hollow nodes: real kubelets (kubemark) with a fake container runtime.

Whatever its settings, a hollow node reports 1 core and 3840 MiB (kubemark's fake cAdvisor); extended resources
are as wished. About 75 MB and, on start, about a second of CPU each: good for up to about 100. Its kubelet's own
port is chosen by the kernel and, unlike everything else in the lab, not limited to loopback: kubemark has no flag
for that.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from lab.binaries import find_binary
from lab.cloud.machines.api_client import ApiClient, ApiError, for_each
from lab.controlplane import ControlPlane
from lab.errors import LabError
from lab.processes import ProcessGroup, log_tail

POLL_EVERY_S = 0.1
KUBELET_QPS, KUBELET_BURST = 50, 100
"""The defaults of a real kubelet (KubeletConfiguration kubeAPIQPS, kubeAPIBurst); kubemark's are lower."""


@dataclass(frozen=True, kw_only=True)
class HollowNodeSettings:
    """One hollow node; taints as kubelet writes them (`key=value:Effect`), extended resources as quantities.

    Labels in the kubernetes.io and k8s.io domains are limited to those that a kubelet may set on itself.
    """

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[str, ...] = ()
    extended_resources: Mapping[str, int] = field(default_factory=dict)
    max_pods: int = 110

    def flags(self, kubeconfig: Path) -> list[str]:
        """Return the flags of kubemark for this node."""
        flags = [
            "--morph=kubelet",
            f"--name={self.name}",
            f"--kubeconfig={kubeconfig}",
            "--use-host-image-service=false",
            "--kubelet-port=0",
            "--kubelet-read-only-port=0",
            f"--max-pods={self.max_pods}",
            f"--kube-api-qps={KUBELET_QPS}",
            f"--kube-api-burst={KUBELET_BURST}",
        ]
        lists = {
            "node-labels": _pairs(self.labels),
            "register-with-taints": ",".join(self.taints),
            "extended-resources": _pairs(self.extended_resources),
        }
        return flags + [f"--{flag}={value}" for flag, value in lists.items() if value]


class HollowNode:
    """One kubelet process; made by `HollowNodes.start`."""

    def __init__(self, settings: HollowNodeSettings, process: subprocess.Popen[bytes], log: Path) -> None:
        self.settings = settings
        self.log = log
        self._process = process

    @property
    def name(self) -> str:
        """The node's name."""
        return self.settings.name

    @property
    def is_running(self) -> bool:
        """Whether its kubelet runs."""
        return self._process.poll() is None

    def kill(self) -> None:
        """Let the machine die: the kubelet is gone, its Node stays and becomes NotReady after the grace period."""
        self._process.kill()
        self._process.wait()


class HollowNodes:
    """The hollow nodes of one control plane; an async context manager that leaves no kubelet behind.

    Bound to no event loop; every call makes its own connection. `server` picks the API server they talk to.
    """

    def __init__(self, plane: ControlPlane, *, server: int = 0) -> None:
        self._plane = plane
        self._server = server
        self._binary = find_binary("kubemark")
        # Short and of its own: a kubelet puts a socket there, and a socket's path must stay below 108 bytes.
        self._folder = Path(tempfile.mkdtemp(prefix="kb-hollow-"))
        self._processes = ProcessGroup(remove_at_end=self._folder)
        self._nodes: dict[str, HollowNode] = {}
        self._launching = threading.Lock()

    async def start(self, *settings: HollowNodeSettings, at_once: int = 4, deadline_s: float = 300) -> None:
        """Start nodes, at most `at_once` of them joining at a time, and return when all are Ready."""
        async with self._client() as client:

            async def start_one(one: HollowNodeSettings) -> None:
                await _wait_until_ready(self.launch(one), client, deadline_s)

            await for_each(settings, start_one, at_once=at_once)

    def launch(self, settings: HollowNodeSettings) -> HollowNode:
        """Start one node's kubelet without waiting for anything; may be called from several threads."""
        if settings.name in self._nodes and self._nodes[settings.name].is_running:
            raise LabError(f"hollow node {settings.name} runs already")
        log = self._folder / f"{settings.name}.log"
        with self._launching:
            kubeconfig = self._plane.kubeconfig_for(f"system:node:{settings.name}", ("system:nodes",), self._server)
            command = [str(self._binary), *settings.flags(kubeconfig)]
            process = self._processes.spawn(command, log=log, env={"TMPDIR": str(self._folder)})
        node = self._nodes[settings.name] = HollowNode(settings, process, log)
        return node

    async def stop(self, *names: str) -> None:
        """Remove machines as a cloud does: end their kubelets and delete their Nodes."""
        async with self._client() as client:
            for name in names:
                self[name].kill()
                await _delete_node(client, name)
                del self._nodes[name]

    def close(self) -> None:
        """End all kubelets at once."""
        self._processes.close()

    def __getitem__(self, name: str) -> HollowNode:
        """Return a node by its name."""
        return self._nodes[name]

    def __len__(self) -> int:
        return len(self._nodes)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _client(self) -> ApiClient:
        return ApiClient(self._plane.access(server=self._server), user_agent="lab-hollow-nodes")


async def _wait_until_ready(node: HollowNode, client: ApiClient, deadline_s: float) -> None:
    end = time.monotonic() + deadline_s
    while not await _is_ready(client, node.name):
        if not node.is_running or time.monotonic() > end:
            what = "is not Ready in time" if node.is_running else "ended"
            raise LabError(f"hollow node {node.name} {what}; its log ends:\n{log_tail(node.log)}")
        await asyncio.sleep(POLL_EVERY_S)


async def _is_ready(client: ApiClient, name: str) -> bool:
    try:
        node: dict[str, Any] = json.loads(await client.get(f"/api/v1/nodes/{name}"))
    except ApiError as error:
        if error.status == 404:
            return False
        raise
    conditions = node.get("status", {}).get("conditions", [])
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


async def _delete_node(client: ApiClient, name: str) -> None:
    try:
        await client.delete(f"/api/v1/nodes/{name}")
    except ApiError as error:
        if error.status != 404:
            raise


def _pairs(mapping: Mapping[str, object]) -> str:
    return ",".join(f"{key}={value}" for key, value in mapping.items())
