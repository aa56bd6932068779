"""Machines on which pods of our own image run, as processes of this host.

REAL: the Deployments, Jobs and their controllers, the scheduler, the ServiceAccount's token, which is bound to the pod
and dies with it, the arguments and the environment of the manifest, readiness, SIGTERM, the grace period, restarts.
SIMULATED: the container. There is no image and no file system of its own; a pod finds the API server and its token
in a kubeconfig (so `--in-cluster` is left out), listens on loopback instead of on the pod's address, and its liveness
is not probed. Pods of any other image run on paper.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from types import TracebackType
from typing import Any, Self

from lab.cloud.machines.api_client import STRATEGIC_MERGE_PATCH, ApiError
from lab.cloud.machines.paper import PaperMachines, timestamp, unless_gone
from lab.cloud.machines.paper_objects import Pod, final_delete
from lab.cloud.machines.process_objects import (
    Command,
    Ended,
    command_of,
    ended_status,
    is_of_image,
    running_process_status,
)
from lab.controlplane import ControlPlane
from lab.controlplane.ports import free_port

LOOK_EVERY_S = 0.1
BACK_OFF_S = 10.0
"""How long a container that ended rests before it is started again: a kubelet's first time."""
TOKEN_S = 3600


class ProcessPods(PaperMachines):
    """`image` is the repository, without registry and tag, whose pods run as processes."""

    def __init__(self, plane: ControlPlane, image: str = "kube-balloons") -> None:
        super().__init__(plane.access())
        self._plane = plane
        self._image = image
        self._lives: dict[str, _Life] = {}
        self._begun: set[str] = set()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for life in self._lives.values():
            await life.close()
        await super().__aexit__(kind, error, trace)

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        return self

    def crash(self, prefix: str) -> int:
        """Kill the processes of the pods whose names begin so, as the kernel does; returns how many there were."""
        victims = [life for name, life in self._lives.items() if name.startswith(prefix) and life.is_running]
        for life in victims:
            life.kill()
        return len(victims)

    async def _bring_to_wanted_state(self, pod: Pod) -> None:
        if not any(is_of_image(container.image, self._image) for container in pod.spec.containers):
            await super()._bring_to_wanted_state(pod)
            return
        life = self._lives.get(pod.metadata.name)
        if pod.metadata.deletion_timestamp is not None:
            await self._end(pod, life)
        elif pod.metadata.uid not in self._begun:
            self._begun.add(pod.metadata.uid)
            whole = json.loads(await self._client.get(pod.path))
            life = self._lives[pod.metadata.name] = _Life(self, self._plane, pod, command_of(whole))
            life.start(await self._kubeconfig(whole))

    async def _end(self, pod: Pod, life: _Life | None) -> None:
        if life is not None and life.is_going_on:
            life.dismiss()
            return
        self._lives.pop(pod.metadata.name, None)
        with unless_gone():
            await self._client.delete(pod.path, final_delete(pod))

    async def ended(self, pod: Pod) -> None:
        """A pod that was deleted has ended."""
        await self._end(pod, None)

    async def report(self, pod: Pod, status: dict[str, Any]) -> None:
        """Write a pod's status, until the server has taken it."""
        body = {"metadata": {"uid": pod.metadata.uid}, "status": status}
        while True:
            try:
                with unless_gone():
                    await self._client.patch(f"{pod.path}/status", body, STRATEGIC_MERGE_PATCH)
                return
            except ApiError:
                await asyncio.sleep(LOOK_EVERY_S)

    async def _kubeconfig(self, pod: dict[str, Any]) -> str:
        metadata = pod["metadata"]
        account = f"/api/v1/namespaces/{metadata['namespace']}/serviceaccounts/{pod['spec']['serviceAccountName']}"
        bound = {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"]}
        request = {"spec": {"boundObjectRef": bound, "expirationSeconds": TOKEN_S}}
        answer = json.loads(await self._client.post(f"{account}/token", request))
        path = self._plane.directory / "kubeconfigs" / f"pod-{metadata['name']}.yaml"
        return str(self._plane.access().write_token_kubeconfig(path, answer["status"]["token"]))


class _Life:
    """One pod's container, from its first start to its end."""

    def __init__(self, machines: ProcessPods, plane: ControlPlane, pod: Pod, command: Command) -> None:
        self._machines = machines
        self._plane = plane
        self._pod = pod
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None
        self._task: asyncio.Task[None] | None = None
        self._restarts = 0
        self._is_dismissed = asyncio.Event()

    @property
    def is_going_on(self) -> bool:
        """Whether somebody still looks after it."""
        return self._task is not None and not self._task.done()

    @property
    def is_running(self) -> bool:
        """Whether there is a process."""
        return self._process is not None and self._process.poll() is None

    def start(self, kubeconfig: str) -> None:
        """Begin; returns at once."""
        self._task = asyncio.create_task(self._live(kubeconfig), name=f"pod {self._pod.metadata.name}")

    def dismiss(self) -> None:
        """The pod was deleted: its process gets SIGTERM, and its grace period to end."""
        self._is_dismissed.set()

    def kill(self) -> None:
        """As the kernel does when memory runs out."""
        if self.is_running:
            self._send(signal.SIGKILL)

    async def close(self) -> None:
        """End it without a word to the API server."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self.kill()

    async def _live(self, kubeconfig: str) -> None:
        while not self._is_dismissed.is_set():
            port = free_port()
            self._process = self._spawn(kubeconfig, port)
            code = await self._follow(port)
            if self._is_dismissed.is_set():
                break
            if not self._command.restarts:
                await self._machines.report(self._pod, ended_status(self._command, Ended(code, timestamp())))
                return
            self._restarts += 1
            await self._tell(is_ready=False)
            await self._rest()
        await self._terminate()
        await self._machines.ended(self._pod)

    async def _follow(self, port: int) -> int:
        """Report it ready once, and return its exit code, or 0 as soon as it is no longer wanted."""
        assert self._process is not None
        was_ready = not self._command.ready_path
        await self._tell(is_ready=was_ready)
        while (code := self._process.poll()) is None and not self._is_dismissed.is_set():
            if not was_ready and await asyncio.to_thread(
                _answers, f"http://127.0.0.1:{port}{self._command.ready_path}"
            ):
                was_ready = True
                await self._tell(is_ready=True)
            await asyncio.sleep(LOOK_EVERY_S)
        return code or 0

    async def _rest(self) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._is_dismissed.wait(), BACK_OFF_S)

    async def _terminate(self) -> None:
        """SIGTERM, and SIGKILL after the grace period."""
        assert self._process is not None
        if self.is_running:
            self._send(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            await asyncio.to_thread(self._process.wait, self._command.grace_s)
        self.kill()

    async def _tell(self, *, is_ready: bool) -> None:
        status = running_process_status(self._command, timestamp(), self._restarts, is_ready=is_ready)
        await self._machines.report(self._pod, status)

    def _spawn(self, kubeconfig: str, port: int) -> subprocess.Popen[bytes]:
        own = {name: value for name, value in os.environ.items() if not name.startswith(("BALLOONS_", "KUBE"))}
        environment = {**own, **self._command.environment, "BALLOONS_KUBECONFIG": kubeconfig}
        command = [sys.executable, "-m", "balloons", *self._command.arguments_on(port)]
        log = self._plane.directory / "logs" / f"pod-{self._pod.metadata.name}.log"
        return self._plane.processes.spawn(command, log=log, env=environment)

    def _send(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False
