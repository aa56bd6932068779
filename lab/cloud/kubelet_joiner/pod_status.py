"""What a kubelet reports of its pods: stage by stage, by one worker, each time GET and PATCH (kubelet/status).

A report that was not sent yet is merged into the next one.
"""

from __future__ import annotations

import asyncio
import enum
from dataclasses import dataclass
from typing import Any

import msgspec

from lab.cloud.kubelet_joiner.client import STRATEGIC_MERGE_PATCH, NodeApi
from lab.cloud.kubelet_joiner.object_bodies import ADDRESS, timestamp
from lab.cloud.kubelet_joiner.object_decoding import Pod

KINDS = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
ORDER = [{"type": kind} for kind in KINDS]
POD_ADDRESS = "192.168.192.168"


class Stage(enum.IntEnum):
    """How far a pod has come; ordered."""

    NEW = 0
    ACCEPTED = 1
    SANDBOX = 2
    RUNNING = 3
    ENDED = 4


def status_patch(pod: Pod, sent: Stage, target: Stage, at: str) -> bytes:
    """Return the strategic merge patch that brings the API from stage `sent` to stage `target`."""
    status: dict[str, Any] = {}
    conditions: dict[str, dict[str, Any]] = {}
    if sent < Stage.ACCEPTED:
        status |= _accepted(pod, at)
        conditions |= {kind: _condition(pod, kind, "True", at) for kind in ("Initialized", "Ready", "ContainersReady")}
    if sent < Stage.SANDBOX:
        sandbox = "True" if Stage.SANDBOX <= target < Stage.ENDED else "False"
        conditions["PodReadyToStartContainers"] = _condition(pod, "PodReadyToStartContainers", sandbox, at)
    if sent < Stage.RUNNING <= target:
        status |= _running(pod, at)
    if target is Stage.ENDED:
        status |= _ended(pod, at)
        conditions |= {kind: _condition(pod, kind, "False", at) for kind in ("Ready", "ContainersReady")}
    return _patch(pod, status, conditions)


def ready_again_patch(pod: Pod, at: str) -> bytes:
    """Return the patch that takes back what somebody else said of a pod that runs: that it is not ready."""
    return _patch(pod, {}, {"Ready": _condition(pod, "Ready", "True", at)})


def _patch(pod: Pod, status: dict[str, Any], conditions: dict[str, dict[str, Any]]) -> bytes:
    if conditions:
        # The server refuses a list that is not in the order it is given with.
        in_order = [conditions[kind] for kind in KINDS if kind in conditions]
        status = status | {"$setElementOrder/conditions": ORDER, "conditions": in_order}
    return msgspec.json.encode({"metadata": {"uid": pod.metadata.uid}, "status": status})


def _condition(pod: Pod, kind: str, status: str, at: str) -> dict[str, Any]:
    generation = pod.metadata.generation
    return {"type": kind, "status": status, "lastTransitionTime": at, "observedGeneration": generation}


def _accepted(pod: Pod, at: str) -> dict[str, Any]:
    waiting = {"waiting": {"reason": "ContainerCreating"}}
    return {
        # Ready is said from the start, as by a hollow node, whose containers need no proof; the phase stays Pending.
        "containerStatuses": [_container(c.name, c.image, waiting, ready=True) for c in pod.spec.containers],
        "hostIP": ADDRESS,
        "hostIPs": [{"ip": ADDRESS}],
        "observedGeneration": pod.metadata.generation,
        "startTime": at,
    }


def _running(pod: Pod, at: str) -> dict[str, Any]:
    running = {"running": {"startedAt": at}}
    return {
        "containerStatuses": [_container(c.name, c.image, running, ready=True) for c in pod.spec.containers],
        "phase": "Running",
        "podIP": POD_ADDRESS,
        "podIPs": [{"ip": POD_ADDRESS}],
    }


def _ended(pod: Pod, at: str) -> dict[str, Any]:
    ended = {"terminated": {"exitCode": 0, "reason": "Completed", "finishedAt": at}}
    return {"containerStatuses": [_container(c.name, c.image, ended, ready=False) for c in pod.spec.containers]}


def _container(name: str, image: str, state: dict[str, Any], *, ready: bool) -> dict[str, Any]:
    return {
        "name": name,
        "image": image,
        "imageID": "" if "waiting" in state else image,
        "lastState": {},
        "ready": ready,
        "restartCount": 0,
        "state": state,
    }


LOOK_AGAIN_EVERY_S = 10.0
"""When what could not be sent is tried again without anything new, and the API's word held against ours."""


@dataclass
class _Entry:
    pod: Pod
    target: Stage
    sent: Stage
    is_denied: bool = False
    """Whether the API said last that the pod runs and is not ready."""

    @property
    def is_contradicted(self) -> bool:
        """Whether that is not what was reported of it."""
        return self.sent is self.target is Stage.RUNNING and self.is_denied


class PodStatuses:
    """Brings the API up to date with what `report` was told.

    A batch is a snapshot: stages reached while it is sent are merged into the next one. So a slow server gets
    fewer, larger reports, as from a kubelet.
    """

    def __init__(self, api: NodeApi) -> None:
        self._api = api
        self._entries: dict[str, _Entry] = {}
        self._news = asyncio.Event()

    def report(self, pod: Pod, stage: Stage, *, known: Stage = Stage.NEW) -> None:
        """Say that a pod has reached a stage; `known` is what the API knows of a pod that is new here."""
        entry = self._entries.setdefault(pod.metadata.uid, _Entry(pod, known, known))
        entry.target = max(entry.target, stage)
        self._news.set()

    def saw(self, pod: Pod) -> None:
        """Take note of what the API says of a pod; of one that was never reported there is nothing to note."""
        if entry := self._entries.get(pod.metadata.uid):
            entry.is_denied = pod.is_running and not pod.is_running_and_ready

    def forget(self, uid: str) -> None:
        """Stop reporting a pod that is gone."""
        self._entries.pop(uid, None)

    async def run(self) -> None:
        """Send until cancelled."""
        while True:
            self._news.clear()
            for entry, target in [(e, e.target) for e in self._entries.values() if e.sent < e.target]:
                if entry.pod.metadata.uid in self._entries:
                    await self._sync(entry, target)
            await self._wait_for_news()

    async def _wait_for_news(self) -> None:
        try:
            async with asyncio.timeout(LOOK_AGAIN_EVERY_S):
                await self._news.wait()
        except TimeoutError:
            await self._reconcile()

    async def _reconcile(self) -> None:
        """Say it again where somebody else has said otherwise, as a kubelet does (status manager, needsReconcile).

        The controller manager marks the pods of a node that it has not yet heard to be ready; on a slow machine one
        in some thousand pods, which would be waited for without end.
        """
        for entry in [entry for entry in self._entries.values() if entry.is_contradicted]:
            if await self._is_there(entry.pod):
                await self._patch(entry.pod, ready_again_patch(entry.pod, timestamp()))

    async def _sync(self, entry: _Entry, target: Stage) -> None:
        if not await self._is_there(entry.pod):
            return
        if entry.sent is not Stage.NEW or target is not Stage.ENDED:
            patch = status_patch(entry.pod, entry.sent, target, timestamp())
            if not await self._patch(entry.pod, patch):
                return
        if target is Stage.ENDED and not await self._delete(entry.pod):
            return
        entry.sent = target

    async def _is_there(self, pod: Pod) -> bool:
        answer = await self._api.send("GET", pod.path)
        if answer.status == 404:
            self.forget(pod.metadata.uid)
        return answer.is_ok

    async def _patch(self, pod: Pod, patch: bytes) -> bool:
        return (await self._api.send("PATCH", f"{pod.path}/status", patch, kind=STRATEGIC_MERGE_PATCH)).is_ok

    async def _delete(self, pod: Pod) -> bool:
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": pod.metadata.uid}}
        answer = await self._api.send("DELETE", pod.path, msgspec.json.encode(options))
        return answer.is_ok or answer.status in (404, 409)
