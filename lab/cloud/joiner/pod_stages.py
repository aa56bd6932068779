"""What a kubelet reports of a pod, stage by stage. A report that was not sent yet is merged into the next one."""

from __future__ import annotations

import enum
from typing import Any

import msgspec

from lab.cloud.joiner.node_objects import ADDRESS
from lab.cloud.joiner.pod import Pod

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
